"""Analyses of several synthetic tables combined into one, with standard errors that know of the noise."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from sottovoce.inference.synthesis.fitted_coefficients import coefficients
from sottovoce.mechanisms.intervals import checked_level
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.shares import percent

__all__ = ["Combined", "combine"]


_BY_TWOS = "{} were not released together: what three of them have in common is taken from what two have"


_HIDDEN = (
    "noise hides {} of the {} parts of {}: what an analysis owes to the few records there is mostly noise, and slopes "
    "on it may be drawn towards zero by more than intervals say; leave it out, or say closer bounds or fewer parts"
)


@dataclass(frozen=True, eq=False)
class Combined:
    r"""Estimates combined over m synthetic tables, by the rule for fully synthetic data.

    .. math:: \bar q \pm t_\nu \sqrt{T}, \quad T = (1 + 1/m)\,b - \bar v,
        \quad \nu = (m-1)\Bigl(1 - \frac{\bar v}{(1 + 1/m)\,b}\Bigr)^2

    with b the variance between tables and v̄ the mean of those within (Raghunathan, Reiter and Rubin 2003; Reiter
    2002). T is no less than v̄ times the size of a synthetic table over that of the real one, which is what sampling
    alone leaves uncertain: that is also what is taken where T ≤ 0.

    Attributes
    ----------
    names
        What is estimated.
    estimate, variance, df
        The estimates, their variances and degrees of freedom.
    level
        Of the intervals.
    floored
        Where sampling alone is what the variance was set to.
    notes
        What one must know to read them.
    """

    names: tuple[str, ...]
    estimate: Floats
    variance: Floats
    df: Floats
    level: float
    floored: Any
    notes: tuple[str, ...] = ()

    @property
    def se(self) -> Floats:
        """The standard errors."""
        return np.sqrt(self.variance)

    @property
    def interval(self) -> tuple[Floats, Floats]:
        """The ends of the intervals."""
        reach = stats.t.ppf(0.5 + self.level / 2, self.df) * self.se
        return self.estimate - reach, self.estimate + reach

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each estimate: term, estimate, se, df, low and high."""
        low, high = self.interval
        columns = (self.names, self.estimate, self.se, self.df, low, high)
        keys = ("term", "estimate", "se", "df", "low", "high")
        return [dict(zip(keys, (row[0], *map(float, row[1:])), strict=True)) for row in zip(*columns, strict=True)]

    @property
    def table(self) -> Any:
        """The rows as a data frame."""
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(self.rows)

    def summary(self) -> str:
        """Return the estimates as text."""
        lines = [f"{r['term']}: {r['estimate']:.4g} ({r['low']:.4g} to {r['high']:.4g})" for r in self.rows]
        return "\n".join([*lines, f"{percent(self.level)} intervals, privacy noise included", *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Return the estimates as plain values."""
        return {"level": self.level, "rows": self.rows, "notes": list(self.notes)}


def combine(
    analyses: Callable[[Any], Any] | Sequence[Any],
    synthetic: Any = None,
    *,
    uses: Sequence[str] | None = None,
    label: str | None = None,
    level: float | str = 0.95,
) -> Combined:
    """Return one analysis of several synthetic tables, with honest standard errors.

    Parameters
    ----------
    analyses
        What each table gave: pairs of an estimate and its variance (numbers, arrays, or mappings by name), or results
        with ``params`` and ``bse`` (statsmodels) or ``params_`` and ``standard_errors_`` (lifelines); or a function of
        a table that returns such, which is called on every table of `synthetic`; or an estimator of scikit-learn with
        ``coef_``, or a pipeline that ends in one: it is fitted to every table, and its variance is that of a jackknife
        by groups of rows.
    synthetic
        What `Curator.synthesize` returned. With it an analysis that uses relations which no release kept is refused.
    uses
        The columns that the analysis relates. A function is shown these alone; of a result of statsmodels that was
        made by names they are known.
    label
        Of an estimator, the column that it explains by the others.
    level
        Of the intervals.

    Examples
    --------
    >>> pairs = [(0.52, 0.0004), (0.47, 0.0004), (0.55, 0.0004), (0.49, 0.0004), (0.44, 0.0004)]
    >>> combine(pairs).summary().splitlines()[0]
    'estimate: 0.494 (0.3494 to 0.6386)'
    """
    wanted, columns = checked_level(level), None if uses is None else list(uses)
    if hasattr(analyses, "get_params") and hasattr(analyses, "fit"):
        if synthetic is None or label is None:
            raise InvalidValue("an estimator needs tables and a label: combine(estimator, z, label='smoker')")
        columns = list(synthetic.columns) if columns is None else list(dict.fromkeys([*columns, label]))
        synthetic.check_relation(columns)
        results: list[Any] = [coefficients(analyses, table[columns], label) for table in synthetic.tables]
    elif callable(analyses):
        if synthetic is None:
            raise InvalidValue(
                "a function needs tables to be called on: combine(function, z), z = curator.synthesize()"
            )
        columns = list(synthetic.columns) if columns is None else columns
        synthetic.check_relation(columns)
        results = [analyses(table[columns]) for table in synthetic.tables]
    else:
        results = list(analyses)
        if synthetic is not None:
            columns = _columns_used(results[0], synthetic) if columns is None else columns
            synthetic.check_relation(columns)
    if len(results) < 2:
        raise InvalidValue(f"two tables or more say how far they differ. Got {len(results)}")
    pairs = [_pair(result) for result in results]
    names = pairs[0][0]
    if any(pair[0] != names for pair in pairs):
        raise InvalidValue("these analyses do not estimate the same things")
    ratio = 1.0 if synthetic is None else synthetic.size / synthetic.n
    result = _combined(names, np.array([q for _, q, _ in pairs]), np.array([v for _, _, v in pairs]), wanted, ratio)
    return result if synthetic is None or not columns else replace(result, notes=_notes(columns, synthetic))


def _notes(columns: Sequence[str], synthetic: Any) -> tuple[str, ...]:
    """Return what one must know of an analysis of these columns."""
    notes = [] if synthetic.kept_together(columns) else [_BY_TWOS.format(" × ".join(columns))]
    for name in columns:
        hidden, of = synthetic.hidden_parts(name)
        if hidden:
            notes.append(_HIDDEN.format(hidden, of, name))
    return tuple(notes)


def _combined(names: tuple[str, ...], q: Floats, v: Floats, level: float, ratio: float) -> Combined:
    if not (np.all(np.isfinite(q)) and np.all(np.isfinite(v)) and np.all(v >= 0)):
        raise InvalidValue("estimates are finite, and variances are no less than 0")
    m = len(q)
    between, within = q.var(axis=0, ddof=1), v.mean(axis=0)
    lifted = (1 + 1 / m) * between
    total, least = lifted - within, within * ratio
    floored = ~(total > least)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = (m - 1) * (1 - within / lifted) ** 2
    df = np.where(floored | ~(df >= 1), np.where(floored, m - 1.0, 1.0), df)
    return Combined(names, q.mean(axis=0), np.where(floored, least, total), df, level, floored)


def _pair(result: Any) -> tuple[tuple[str, ...], Floats, Floats]:
    """Return names, estimates and variances of one analysis."""
    if isinstance(result, tuple | list) and len(result) == 2:
        q, v = result
        return _names(q), _numbers(q), _numbers(v)
    for params, errors in (("params", "bse"), ("params_", "standard_errors_"), ("coef_", "se_")):
        if hasattr(result, params) and hasattr(result, errors):
            q = getattr(result, params)
            return _names(q), _numbers(q), _numbers(getattr(result, errors)) ** 2
    raise InvalidValue(
        "an analysis is a pair (estimate, variance), or a result with params and bse, as statsmodels has them; "
        f"of scikit-learn, give the estimator itself and a label. Got a {type(result).__name__}"
    )


def _names(q: Any) -> tuple[str, ...]:
    names = list(q) if isinstance(q, Mapping) else getattr(q, "index", None)
    if names is None or callable(names):
        size = np.size(q)
        return ("estimate",) if np.ndim(q) == 0 else tuple(f"estimate {k + 1}" for k in range(size))
    return tuple(map(str, names))


def _numbers(x: Any) -> Floats:
    values = list(x.values()) if isinstance(x, Mapping) else x
    return np.atleast_1d(np.asarray(values, dtype=np.float64)).ravel()


def _columns_used(result: Any, synthetic: Any) -> list[str]:
    """Return the columns that a result says it was made of."""
    model = getattr(result, "model", None)
    frame = getattr(getattr(model, "data", None), "frame", None)
    if frame is None:
        raise InvalidValue("say which columns the analysis relates: combine(analyses, z, uses=['age', 'smoker'])")
    formula = str(getattr(model, "formula", ""))
    return [name for name in synthetic.columns if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", formula)]
