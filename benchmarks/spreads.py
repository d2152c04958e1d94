"""Survey of how columns spread within the bounds a data owner would state: where the priors of regressions come from.

The bounds in ``survey/bounds.toml`` were written down from what each column means, before looking at its values; the
tables are those of Rdatasets and scikit-learn that no benchmark reports on. ``survey/columns.csv`` holds what was
measured of each column, ``survey/pairs.csv`` of each pair, ``survey/flags.csv`` of each column with two values.

    python -m benchmarks.spreads --rdatasets FOLDER     # measure again, from a checkout of Rdatasets
    python -m benchmarks spreads                        # fit the priors to what was measured
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, special, stats
from sklearn import datasets

from benchmarks.timing import show

FOLDER = Path(__file__).parent / "survey"
FEWEST = 30
"""Tables with fewer complete values in a column say too little of its spread."""
_BOOTSTRAP = 500
Row = dict[str, Any]


def stated() -> dict[str, dict[str, dict[str, tuple[float, float]]]]:
    """Return the bounds of every surveyed column, by package and table."""
    return tomllib.loads((FOLDER / "bounds.toml").read_text(encoding="utf-8"))


def tables(rdatasets: Path) -> Iterator[tuple[str, pd.DataFrame, dict[str, tuple[float, float]]]]:
    """Yield every surveyed table with the bounds of its columns."""
    for package, its in stated().items():
        for name, bounds in its.items():
            if package == "sklearn":
                kwargs = {"scaled": False} if name == "diabetes" else {}
                frame = getattr(datasets, f"load_{name}")(as_frame=True, **kwargs).frame
            else:
                frame = pd.read_csv(rdatasets / "csv" / package / f"{name}.csv")
            yield f"{package}/{name}", frame, bounds


def skew_parameter(skewness: float) -> float:
    """Return κ of the log-normal with this skewness, (e^{κ²} + 2)√(e^{κ²} − 1), with its sign.

    >>> round(skew_parameter(6.1849), 3), skew_parameter(0.0)
    (1.0, 0.0)
    """
    size = abs(skewness)
    if size == 0:
        return 0.0
    roots = np.roots([1.0, 3.0, 0.0, -4.0 - size**2])  # of e^{κ²}: (w + 2)²(w − 1) = skewness²
    w = max(root.real for root in roots if abs(root.imag) < 1e-9)
    return math.copysign(math.sqrt(math.log(w)), skewness)


def measure(rdatasets: Path) -> tuple[list[Row], list[Row], list[Row]]:
    """Return what was measured of columns, of pairs of them, and of columns with two values."""
    columns, pairs, flags = [], [], []
    for table, frame, bounds in tables(rdatasets):
        units = {}
        for column, (low, high) in bounds.items():
            values = pd.to_numeric(frame[column], errors="coerce")
            unit = 2 * (values.clip(low, high) - low) / (high - low) - 1
            seen = unit.dropna()
            if len(seen) < FEWEST or seen.std() == 0:
                continue
            units[column] = unit
            row = {"table": table, "column": column, "low": low, "high": high, "n": len(seen)}
            row |= {"mean": seen.mean(), "sd": seen.std(ddof=0), "skew": skew_parameter(float(stats.skew(seen)))}
            row["cut"] = float(((values < low) | (values > high)).sum() / len(seen))
            columns.append(row)
        for one, other in itertools.combinations(units, 2):
            r = units[one].corr(units[other])
            if math.isfinite(r):
                pairs.append({"table": table, "one": one, "other": other, "dimension": len(units), "r": r})
        for column in frame.columns:
            values = frame[column].dropna()
            if values.nunique() == 2 and len(values) >= FEWEST:
                share = float((values == sorted(values.unique())[-1]).mean())
                flags.append({"table": table, "column": column, "n": len(values), "share": share})
    return columns, pairs, flags


def write(name: str, rows: Sequence[Row]) -> None:
    """Write one file of the survey."""
    with (FOLDER / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)


def fit_spread(rows: pd.DataFrame) -> tuple[float, float]:
    """Return the middle and the deviation of log(sd / half range)."""
    logs = np.log(rows["sd"])
    return float(logs.mean()), float(logs.std(ddof=1))


def fit_mean(rows: pd.DataFrame) -> tuple[float, float]:
    """Return a and b of the Beta law of where means lie, from the lower bound (0) to the upper (1)."""
    a, b, _, _ = stats.beta.fit((rows["mean"] + 1) / 2, floc=0, fscale=1)
    return float(a), float(b)


def fit_skew(rows: pd.DataFrame) -> tuple[float, ...]:
    """Return the deviation of κ about zero, and that of its middle two thirds, which few wild columns cannot move."""
    size = rows["skew"].abs()
    return float(np.sqrt((size**2).mean())), float(size.quantile(0.6827))


def fit_shape(rows: pd.DataFrame) -> tuple[float, ...]:
    """Return η of the LKJ law: in d dimensions (r + 1)/2 is Beta with both parameters η − 1 + d/2."""
    half, r = rows["dimension"].to_numpy() / 2, (rows["r"].to_numpy().clip(-0.9999, 0.9999) + 1) / 2
    weight = 1 / (rows["dimension"].to_numpy() - 1)  # a table of d columns counts as d/2 pairs, not d(d − 1)/2

    def loss(eta: float) -> float:
        b = eta - 1 + half
        return float(-(weight * ((b - 1) * np.log(r * (1 - r)) - special.betaln(b, b))).sum())

    return (float(optimize.minimize_scalar(loss, bounds=(0.05, 50), method="bounded").x),)


def fit_share(rows: pd.DataFrame) -> tuple[float, ...]:
    """Return the parameter of the symmetric Beta law of a flag's share, for which value is 1 is a matter of naming."""
    p = rows["share"].to_numpy()

    def loss(a: float) -> float:
        return float(-((a - 1) * np.log(p * (1 - p)) - special.betaln(a, a)).sum())

    return (float(optimize.minimize_scalar(loss, bounds=(0.05, 50), method="bounded").x),)


FITS: dict[str, tuple[str, Callable[[pd.DataFrame], tuple[float, ...]], tuple[str, ...]]] = {
    "spread: log(sd / half range) is normal": ("columns.csv", fit_spread, ("middle", "sd")),
    "mean: its place between the bounds is Beta": ("columns.csv", fit_mean, ("a", "b")),
    "skew: κ of a shifted log-normal, sd": ("columns.csv", fit_skew, ("of all", "of the middle 68 %")),
    "correlations: LKJ": ("pairs.csv", fit_shape, ("η",)),
    "share of a flag: symmetric Beta": ("flags.csv", fit_share, ("a",)),
}


def resampled(rows: pd.DataFrame, fitted: Callable[[pd.DataFrame], tuple[float, ...]], repeats: int) -> Any:
    """Return the standard errors of a fit, whole tables being drawn again."""
    rng, groups = np.random.default_rng(1), [group for _, group in rows.groupby("table")]
    drawn = [pd.concat([groups[k] for k in rng.integers(len(groups), size=len(groups))]) for _ in range(repeats)]
    return np.std([fitted(one) for one in drawn], axis=0)


def main(quick: bool = False) -> None:
    """Fit the priors to the survey."""
    lines = []
    for title, (name, fitted, words) in FITS.items():
        rows = pd.read_csv(FOLDER / name)
        values, errors = fitted(rows), resampled(rows, fitted, 20 if quick else _BOOTSTRAP)
        for word, value, error in zip(words, values, errors, strict=True):
            size = f"{len(rows)} in {rows['table'].nunique()} tables"
            lines.append([f"{title}: {word}" if len(words) > 1 else title, f"{value:.3g}", f"{error:.2g}", size])
    note = "Standard errors are from a bootstrap of whole tables."
    show("Priors fitted to the survey", ["law and parameter", "fit", "s.e.", "from"], lines, note)
    columns = pd.read_csv(FOLDER / "columns.csv")
    middle, sd = fit_spread(columns)
    places = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
    rows = [
        ["surveyed", *(f"{np.quantile(columns['sd'], q):.3g}" for q in places)],
        ["fitted log-normal", *(f"{math.exp(stats.norm.ppf(q, middle, sd)):.3g}" for q in places)],
    ]
    show("Spread of columns, sd / half range, by quantile", ["", *(f"{100 * q:g} %" for q in places)], rows)


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rdatasets", type=Path, help="a checkout of github.com/vincentarelbundock/Rdatasets")
    given = parser.parse_args(words)
    if given.rdatasets is not None:
        for name, rows in zip(("columns.csv", "pairs.csv", "flags.csv"), measure(given.rdatasets), strict=True):
            write(name, rows)
    main()


if __name__ == "__main__":
    command()
