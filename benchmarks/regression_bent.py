"""How far private coefficients lie from those of an ordinary regression where the formula does not quite fit.

Hours worked rise with age and fall again, and no line fits them. Rows far out count less in a private regression,
which is allowed for: its intervals are to hold the ordinary coefficients. UCI Adult, 32,561 records, bounds of what
the columns mean.

python -m benchmarks.regression_bent
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from papers.data import adult

from benchmarks.timing import show
from sottovoce.facts import Category, Count, Facts, Flag, Number
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP
from sottovoce.regression.adaptive_looks import AdaptiveLooks
from sottovoce.regression.device_looks import DeviceRecords
from sottovoce.regression.formula import Formula

FACTS = Facts(age=Number(0, 110), sex=Category(("Female", "Male")), hours=Number(0, 100), school=Count(16), rich=Flag())
FORMULAS = (
    "hours ~ age + sex",
    "school ~ age + sex",
    "rich ~ age + sex",
    "rich ~ age + sex + hours",
    "rich ~ school + sex + hours",
)
EPSILONS, DELTA = (0.5, 1.0, 3.0), 1e-6


def ordinary(rows: Floats, y: Floats, *, logistic: bool) -> Floats:
    """Return the coefficients of least squares, or of largest likelihood by Newton's method."""
    found = np.zeros(rows.shape[1])
    for _ in range(30 if logistic else 1):
        mean = 1 / (1 + np.exp(-rows @ found)) if logistic else rows @ found
        weights = mean * (1 - mean) if logistic else np.ones(len(y))
        found = found + np.linalg.solve(rows.T @ (rows * weights[:, None]), rows.T @ (y - mean))
    return found


def main(quick: bool = False) -> None:
    """Regress on Adult, privately and not, and show how far apart the two are."""
    table = adult()
    columns = {
        "age": table["age"],
        "sex": table["sex"],
        "hours": table["hours_per_week"],
        "school": table["education_num"],
    }
    columns |= {"rich": pc.equal(table["income"], ">50K")}
    records = {name: column.to_pylist() for name, column in columns.items()}
    numbers = {
        name: np.array([value == "Male" if name == "sex" else value for value in of], float)
        for name, of in records.items()
    }
    shown = []
    for text in FORMULAS[:2] if quick else FORMULAS:
        formula = Formula(text, FACTS, family="logistic" if text.startswith("rich") else "linear")
        explaining = [numbers[name] for name in formula.encoding.names]
        rows = np.column_stack([np.ones(table.num_rows), *explaining])
        plain = ordinary(rows, numbers[formula.parsed.response], logistic=formula.family == "logistic")
        held = DeviceRecords.of(formula, records)
        for epsilon in EPSILONS[1:2] if quick else EPSILONS:
            mechanism = AdaptiveLooks.calibrate(formula, table.num_rows, ApproxDP(epsilon, DELTA))
            found = [mechanism.release(held).value for _ in range(2 if quick else 10)]
            off = np.mean([(one.mean - plain) / one.sd for one in found], axis=0)
            inside = np.mean(
                [(low <= plain) & (plain <= high) for one in found for low, high in [one.interval(0.95).T]], axis=0
            )
            for k, term in enumerate(formula.terms):
                estimate = np.mean([one.mean[k] for one in found])
                shown.append(
                    [
                        text,
                        term,
                        f"{epsilon:g}",
                        f"{plain[k]:.3g}",
                        f"{estimate:.3g}",
                        f"{off[k]:+.1f}",
                        f"{inside[k]:.0%}",
                    ]
                )
    heads = ("formula", "term", "ε", "ordinary", "private", "sds apart", "ordinary one held")
    show("Regressions of which the formula does not quite fit", heads, shown)


if __name__ == "__main__":
    main()
