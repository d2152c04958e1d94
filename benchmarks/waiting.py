"""Waiting: what one person waits for at a prompt, in processor time of whole commands and of single calls."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.fitting import fit
from benchmarks.timing import show
from sottovoce.inference.cells.crossed_centres import crossed_centres
from sottovoce.inference.regression import AdaptiveLooks, Formula, plan_looks
from sottovoce.inference.regression.assumed_rows import rarely
from sottovoce.inference.regression.precision_forecast import _Records
from sottovoce.mechanisms import NoisyStatistics
from sottovoce.mechanisms.conjugate import BetaBernoulli, DirichletCategorical
from sottovoce.privacy.promises import ApproxDP, PureDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.facts.assumed_distribution import AssumedDistribution
from sottovoce.records.readings import Statistics

_COLUMNS = {
    "age": Number(17, 90),
    "hours": Number(1, 99),
    "sex": Flag(),
    "school": Category([f"s{k}" for k in range(8)]),
    "origin": Category([f"o{k}" for k in range(5)]),
    "work": Category([f"w{k}" for k in range(16)]),
}
PLANS = {
    "logistic": ("y ~ age", 50_000, 1.0),
    "of five": ("y ~ age + hours + sex + age:sex", 50_000, 1.0),
    "of two columns of categories": ("y ~ age + hours + sex + school + origin", 50_000, 1.0),
    "of three": ("y ~ age + hours + sex + school + origin + work", 50_000, 1.0),
    "counts": ("k ~ age + hours + sex", 50_000, 1.0),
    "columns that noise hides": ("y ~ age + hours + sex + school + origin", 5_000, 0.3),
    "linear": ("z ~ age + hours", 50_000, 1.0),
    "linear of six": ("z ~ age + hours + sex + age:sex + hours:sex", 50_000, 1.0),
    "linear of three columns of categories": (
        "z ~ age + hours + sex + school + origin + work + age:school",
        50_000,
        1.0,
    ),
}
"""Formulas, n and ε; δ = 10⁻⁶."""
PLAN = "plan --system beta-bernoulli:alpha=6,beta=12 --n 95821 --target approx:0.5,1e-6"
"""The README's."""


def command(arguments: Sequence[str], environment: dict[str, str], repeats: int) -> float:
    """Return the least processor seconds of a Python process, after one that leaves its compiled modules behind."""
    found = []
    for _ in range(repeats + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found[1:])


def first_answer(environment: dict[str, str], output: Path) -> float:
    """Return the processor seconds that a demo has taken when its first answer is on the screen."""
    asked = [sys.executable, "-m", "sottovoce", "demo", "--output", str(output)]
    with subprocess.Popen(asked, env=environment | {"PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        while "estimate" not in (line := run.stdout.readline()) and line:
            pass
        user, system = Path(f"/proc/{run.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        run.stdout.read()
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def call(work: Callable[[], object], repeats: int) -> float:
    """Return the least processor seconds of one call."""
    found = []
    for _ in range(repeats + 1):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found[1:])


def main(quick: bool = False) -> None:
    """Print the tables."""
    repeats = 3 if quick else 10
    with tempfile.TemporaryDirectory(prefix="sottovoce-bench-") as folder:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPYCACHEPREFIX": f"{folder}/compiled", "OMP_NUM_THREADS": "1"}
        demo = Path(folder) / "demo"
        bare = command(["-c", "import numpy, scipy.special"], environment, repeats)
        rows = [("import numpy, scipy.special", bare, "")]
        for name, arguments, wanted in (
            ("import sottovoce", ["-c", "import sottovoce"], "≤ 0.25 s"),
            ("sottovoce --help", ["-m", "sottovoce", "--help"], "≤ 0.4 s"),
            ("sottovoce plan, the README's: five mechanisms", ["-m", "sottovoce", *PLAN.split()], "≤ 1 s"),
        ):
            rows.append((name, command(arguments, environment, repeats), wanted))
        asked = ["-m", "sottovoce", "demo", "--output", str(demo)]
        rows.append(("sottovoce demo", command(asked, environment, max(repeats // 3, 1)), "≤ 8 s"))
        rows.append(("its first answer", first_answer(environment, demo), "≤ 3 s"))
    show(
        "Commands",
        ("", "processor time", "beside the bare import", "wanted"),
        [(name, f"{seconds:.2f} s", f"{seconds / bare:.1f}", wanted) for name, seconds, wanted in rows],
        f"The fastest of {repeats}, modules compiled beforehand as an installer does.",
    )
    rng = seeded_rng(1)
    cells = NoisyStatistics.calibrate(DirichletCategorical(np.ones(100)), 32_561, PureDP(1.0), "laplace")
    counts = rng.multinomial(32_561, rng.dirichlet(np.full(100, 2.0))).astype(np.float64)
    noisy = cells.noisy_totals(Statistics(32_561, counts), rng)[0]
    told = [
        ("forecast of 100 categories", lambda: cells.forecast(np.full(100, 0.01)), "≤ 50 ms"),
        ("first interval of 100 noisy cells", lambda: cells.posterior_from(noisy).interval(), "≤ 10 ms"),
    ]
    for n in (3_000, 1_000_000):
        share = NoisyStatistics.calibrate(BetaBernoulli(1.0, 1.0), n, PureDP(1.0), "laplace")
        told.append((f"forecast of a proportion, n = {n:,}", lambda m=share: m.forecast(0.3), "≤ 50 ms"))  # type: ignore[misc]
        total = np.array([0.3 * n])
        asked_for = lambda m=share, t=total: m._through_noise(t).interval()  # noqa: E731
        told.append((f"interval of a noise-aware proportion, n = {n:,}", asked_for, "≤ 5 ms"))
    show(
        "Calls",
        ("", "processor time", "wanted"),
        [(name, f"{1e3 * call(work, 3 * repeats):.1f} ms", wanted) for name, work, wanted in told],
        "Pure ε = 1; an interval with everything that it needs of the noisy numbers made anew.",
    )
    plans(repeats)
    centres(repeats)


def plans(repeats: int) -> None:
    """Show how long plans of regressions take beside one regression of records as they imagine them."""
    rows = []
    for name, (text, n, epsilon) in PLANS.items():
        formula = Formula(text, Facts(_COLUMNS | {"y": Flag(), "k": Count(12), "z": Number(0, 100)}))
        promise = ApproxDP(epsilon, 1e-6)
        mechanism = AdaptiveLooks.calibrate(formula, n, promise)
        beside = []
        # Each is the first plan of its regression in a process that made others: nothing of it was found before.
        others = iter(
            [AdaptiveLooks.calibrate(Formula(text, formula.facts), n + k, promise) for k in range(repeats + 1)]
        )
        plan = call(lambda m=others, p=promise: plan_looks(next(m), p), repeats)  # type: ignore[misc]
        for said in (AssumedDistribution(), rarely(formula)):
            records = _Records.of(formula, n, said, None)
            explained = records.explained[0]
            # Numbers as the family measures them; counts are cut by each look.
            outcomes = explained if formula.model.curved else formula.model.outcome(explained)
            x, y = np.resize(records.rows, (n, formula.encoding.size)), np.resize(outcomes, n)
            draws = [
                call(lambda m=mechanism, x=x, y=y, k=seed: fit(m, x, y, seeded_rng(k)), 1)  # type: ignore[misc]
                for seed in range(repeats)
            ]
            alone = float(np.median(draws))  # of one draw of the noise columns are hidden, of another they are not
            beside.append(f"{1e3 * alone:.0f} ms, {plan / alone:.1f}")
        rows.append((name, str(len(formula.terms)), f"{n:,}", f"{epsilon:g}", f"{1e3 * plan:.0f} ms", *beside))
    show(
        "Plans of regressions",
        ("", "terms", "n", "ε", "processor time", "one regression of even records, beside it", "of rare ones"),
        rows,
        "Each plan is the first of its regression; a regression takes what it does in the middle of several draws of "
        "the noise. ≤ 50 ms were wanted of each plan.",
    )


def centres(repeats: int) -> None:
    """Show how long it takes to draw the centres of crossed groups, beside those of four by 24."""
    rng, rows = seeded_rng(3), []
    for shape in ((4, 24), (20, 50), (2, 1000)):
        cells = math.prod(shape)
        seen, precision, strays = rng.normal(size=(cells, 1)), rng.uniform(1, 9, cells), np.full((16, cells), 0.1)
        given = (seen, precision, strays, np.zeros(16), np.eye(1), shape, rng)
        rows.append((" × ".join(f"{size:,}" for size in shape), call(lambda g=given: crossed_centres(*g), repeats)))  # type: ignore[misc]
    show(
        "Centres of crossed groups",
        ("groups", "processor time", "beside 4 × 24"),
        [(name, f"{1e3 * seconds:.0f} ms", f"{seconds / rows[0][1]:.1f}") for name, seconds in rows],
    )


if __name__ == "__main__":
    main()
