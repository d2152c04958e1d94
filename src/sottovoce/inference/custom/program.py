"""A user's model as a program: the sites of its prior, the probabilities it yields, the noisy counts it explains."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import biject_to

from sottovoce.inference.custom.cell_masses import masses
from sottovoce.inference.custom.likelihood import Form, LikelihoodPlan, choose_form, exact, normal, plan_for
from sottovoce.inference.custom.observation import Observed
from sottovoce.inference.custom.tabulated import LikelihoodTable, table_for, tabulated
from sottovoce.mechanisms.jax_compilation import compiler_options
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.numbers import Floats

_TRIES = 12
"""How many draws of the prior a model is tried at before it is fitted."""


@dataclass(frozen=True, eq=False)
class Program:
    """A model with the releases it is to explain; calling it with their noisy counts is a NumPyro model.

    Attributes
    ----------
    model
        The user's model.
    sites
        What is observed of each release, by its name; a single one goes by the name ``cells``.
    forms, why
        Which form of the likelihood each release gets, and why.
    plans
        How exact forms are computed.
    single
        Whether the model yields one table of probabilities rather than one a name.
    prior
        Distributions of the arguments, where the model is a plain function of them.
    """

    model: Callable[..., Any]
    sites: Mapping[str, Observed]
    forms: Mapping[str, Form]
    why: Mapping[str, str]
    plans: Mapping[str, LikelihoodPlan]
    single: bool
    prior: Mapping[str, Any] | None = None
    arguments: int = field(default=0)

    def __call__(self, counts: Mapping[str, object] | None = None) -> None:
        """Sample the prior, and observe the noisy counts of every release where they are given."""
        for name, probabilities in self.tables().items():
            seen = self.sites[name]
            full = probabilities
            if seen.outside is not None:
                out = numpyro.sample(self._label(name, "outside"), dist.Uniform(0.0, 1.0))
                full = jnp.append(probabilities * (1 - out), out)
            numpyro.deterministic(self._label(name, "probabilities"), probabilities)
            if counts is None:
                continue
            numpyro.factor(self._label(name, "noisy counts"), self._log_likelihood(name, full, counts[name]))

    def _log_likelihood(self, name: str, whole: object, given: object) -> Any:
        seen, form, plan = self.sites[name], self.forms[name], self.plans[name]
        if isinstance(given, LikelihoodTable):
            if form == "exact":
                return tabulated(whole, given, seen.n, seen.law, plan)
            given = given.counts
        return (
            exact(whole, given, seen.n, seen.law, plan)
            if form == "exact"
            else normal(whole, given, seen.n, seen.law.variance)
        )

    def _label(self, name: str, what: str) -> str:
        return what if self.single else f"{name}: {what}"

    @property
    def counts(self) -> dict[str, Any]:
        """The noisy counts of every release."""
        return {name: np.asarray(seen.all, dtype=np.float64) for name, seen in self.sites.items()}

    def prepared(self, counts: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Return noisy counts, those of the releases unless given, with a table where the plan says so."""
        given = counts or self.counts
        return {
            name: table_for(given[name], self.sites[name].law, plan)
            if plan.pieces and self.forms[name] == "exact"
            else np.asarray(given[name], dtype=np.float64)
            for name, plan in self.plans.items()
        }

    def tables(self) -> dict[str, Any]:
        """Return the probabilities of the cells of every release, inside a model."""
        given = self._given()
        if self.single:
            (name, seen), *_ = self.sites.items()
            return {name: _table(given, seen, "the model")}
        if not isinstance(given, Mapping) or set(given) != set(self.sites):
            got = ", ".join(map(str, given)) if isinstance(given, Mapping) else f"a {type(given).__name__}"
            raise InvalidValue(f"the model yields probabilities for each of {', '.join(self.sites)}. Got {got}")
        return {name: _table(given[name], seen, f"{name}: the model") for name, seen in self.sites.items()}

    def _given(self) -> Any:
        """Return what the model yields; an error of its own is told as such, with its traceback."""
        try:
            return self._yielded()
        except SottovoceError:
            raise
        except Exception as error:
            first = next(iter(str(error).splitlines()), "")
            raise InvalidValue(f"the model ends in an error of its own: {type(error).__name__}: {first}") from error

    def _yielded(self) -> Any:
        if self.prior is not None:
            return self.model(**{name: numpyro.sample(name, law) for name, law in self.prior.items()})
        cells: Any = {name: seen.cells for name, seen in self.sites.items()}
        if not self.arguments:
            return self.model()
        if self.arguments > 1:
            raise InvalidValue("a model takes its cells and nothing else; with prior= it takes what the prior names")
        return self.model(next(iter(cells.values())) if self.single else cells)

    def check(self) -> list[str]:
        """Try the model at draws of its prior, raise `InvalidValue` where it cannot be fitted, return its sites."""
        values, tables, _ = self._tried
        for seed in range(_TRIES):
            for name, table in tables.items():
                who = "the model" if self.single else f"{name}: the model"
                _check(table[seed], who, {n: part[seed] for n, part in values.items()})
        return list(values)

    @property
    def starts(self) -> Floats:
        """Draws of the prior without bounds, one a row: where chains may start."""
        return np.concatenate([part.reshape(_TRIES, -1) for part in jax.tree.leaves(self._tried[2])], axis=1)

    @cached_property
    def back(self) -> Callable[[Any], Any]:
        """What gives such a row its sites again: plain slices, of which nothing is compiled by itself."""
        leaves, tree = jax.tree.flatten(self._tried[2])
        ends = np.cumsum([0, *(part[0].size for part in leaves)]).tolist()
        places = [(slice(*pair), part.shape[1:]) for pair, part in zip(pairwise(ends), leaves, strict=True)]
        return lambda row: jax.tree.unflatten(tree, [row[place].reshape(shape) for place, shape in places])

    @cached_property
    def _tried(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Draws of the prior, one a row: the unknowns by site, the tables by release, and all without bounds."""
        order: list[str] = []

        def one(seed: Any) -> Any:
            with handlers.seed(rng_seed=jax.random.PRNGKey(seed)), handlers.trace() as trace:
                self()
            free = [n for n, site in trace.items() if site["type"] == "sample" and not site["is_observed"]]
            outs = {self._label(name, "outside") for name in self.sites}
            order[:] = [n for n in free if n not in outs]
            if not order:
                raise InvalidValue(
                    "the model has no sites: nothing is unknown in it. Draw its unknowns with numpyro.sample, or give "
                    "their distributions as prior="
                )
            if discrete := [n for n in order if trace[n]["fn"].support.is_discrete]:
                raise InvalidValue(f"sum the discrete unknowns out of the model: {', '.join(discrete)}")
            tables = {name: trace[self._label(name, "probabilities")]["value"] for name in self.sites}
            loose = {n: biject_to(trace[n]["fn"].support).inv(trace[n]["value"]) for n in free}
            return {n: trace[n]["value"] for n in order}, tables, loose

        draw = jax.jit(lambda seeds: jax.lax.map(one, seeds), compiler_options=compiler_options(seldom=True))
        values, tables, loose = jax.device_get(draw(np.arange(_TRIES)))
        return {name: values[name] for name in order}, tables, loose


def program_for(
    model: object,
    sites: Mapping[str, Observed],
    *,
    single: bool,
    prior: Mapping[str, object] | None = None,
    form: Form | None = None,
) -> Program:
    """Return a model with what it is to explain."""
    if not callable(model):
        raise InvalidValue(f"a model is a function that yields the probabilities of the cells. Got {model!r}")
    if form not in (None, "exact", "normal"):
        raise InvalidValue(f"form must be 'exact' or 'normal', or left out. Got {form!r}")
    if prior is not None:
        if not isinstance(prior, Mapping) or not all(isinstance(law, dist.Distribution) for law in prior.values()):
            raise InvalidValue("prior gives a NumPyro distribution for each argument of the model")
        if not prior:
            raise InvalidValue("the model has no sites: the prior names no unknown")
    chosen = {name: choose_form(seen.all, seen.n, seen.law) for name, seen in sites.items()}
    forms: dict[str, Form] = {name: form or result[0] for name, result in chosen.items()}
    why = {name: "asked for" if form else result[1] for name, result in chosen.items()}
    plans = {name: plan_for(seen.all, seen.n, seen.law) for name, seen in sites.items()}
    return Program(model, dict(sites), forms, why, plans, single, prior, _arguments(model))


def _arguments(model: Any) -> int:
    """Return how many arguments a model has to be given."""
    try:
        given = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):
        return 0
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in given)


def _table(given: object, seen: Observed, who: str) -> jax.Array:
    """Return what a model yields as one probability a cell."""
    if given is None:
        raise InvalidValue(
            f"{who} yields nothing; return the probabilities of its {seen.size} cells, or a distribution"
        )
    if callable(getattr(given, "log_prob", None)) or callable(given):
        axes = () if seen.cells is None else seen.cells.axes
        if len(axes) != 1 or not axes[0].numeric or axes[0].missing:
            raise InvalidValue(
                f"{who} yields a distribution, which is cut over the cells of one column of numbers; yield the "
                "probabilities of the cells instead (sottovoce.inference.custom.masses)"
            )
        given = masses(given, np.array(axes[0].marks))
    try:
        table = jnp.asarray(given)
    except (TypeError, ValueError) as error:
        raise InvalidValue(
            f"{who} yields a {type(given).__name__} that is no array of numbers; return the probabilities of its "
            f"{seen.size} cells, or a distribution ({str(error).splitlines()[0]})"
        ) from None
    if table.size != seen.size or (table.ndim > 1 and seen.cells is not None and table.shape != seen.cells.shape):
        wanted = f"{seen.size} cells"
        if seen.cells is not None and len(seen.cells.shape) > 1:
            wanted += f" ({' by '.join(map(str, seen.cells.shape))})"
        raise InvalidValue(f"{who} yields {table.shape} probabilities and the release has {wanted}")
    return table.ravel()


def _check(table: Any, who: str, values: Mapping[str, object]) -> None:
    where = ", ".join(f"{name} = {_shown(value)}" for name, value in values.items())
    if not np.all(np.isfinite(table)):
        raise InvalidValue(f"{who} yields NaN or infinite probabilities at values that its prior allows: {where}")
    if np.any(table < -1e-9):
        raise InvalidValue(f"{who} yields probabilities below zero ({table.min():.3g}) at {where}")
    if abs(float(table.sum()) - 1) > 1e-6:
        raise InvalidValue(f"{who} yields probabilities that sum to {table.sum():.6g}, not to 1, at {where}")


def _shown(value: Any) -> str:
    flat = np.ravel(value)
    shown = ", ".join(f"{x:.3g}" for x in flat[:3])
    return shown if flat.size == 1 else f"[{shown}{', ...' if flat.size > 3 else ''}]"
