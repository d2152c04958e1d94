"""How costs grow with the work: processor time and peak memory against the size, and the exponent of their growth.

Each line takes one kind of work at growing sizes. The exponent is the slope of log time against log size over the
upper half of the sizes, where fixed costs have faded: 1 is linear, 0 is constant. Time is processor time of this
process; memory is the peak of what Python and NumPy allocated during the work, traced in a run of its own.
"""

from __future__ import annotations

import gc
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.timing import show
from sottovoce.latent import ChainGrid, Field, HiddenMarkovModel
from sottovoce.latent.sweeps import gibbs_sweep
from sottovoce.ledger import Ledger, Reservation
from sottovoce.mechanisms import NoisyStatistics
from sottovoce.privacy.composition import compose
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.laplace import LaplaceProfile
from sottovoce.privacy.promises import PureDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.readings import Statistics
from sottovoce.regression.design import Design
from sottovoce.regression.losses import Squared
from sottovoce.regression.noisy_moments import NoisyMoments
from sottovoce.systems import BetaBernoulli, DirichletCategorical

MEMORY = Path("/dev/shm")  # processor time is compared: no disk is waited for, where there is a file system without one
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "scaling.png"
Work = Callable[[], object]


@dataclass(frozen=True)
class Line:
    """One kind of work: how to prepare it at a size, and at which sizes."""

    name: str
    unit: str
    prepare: Callable[[int], Work]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Found:
    """What a line took at each size."""

    line: Line
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    megabytes: tuple[float, ...]

    def exponent(self, values: tuple[float, ...]) -> float:
        """Return the slope of the logarithms over the upper half of the sizes."""
        upper = len(self.sizes) // 2
        return float(np.polyfit(np.log(self.sizes[upper:]), np.log(values[upper:]), 1)[0])


def _proportion(n: int) -> Work:
    records = seeded_rng(1).random(n) < 0.3
    mechanism = NoisyStatistics.calibrate(BetaBernoulli(1, 1), n, PureDP(1.0))
    return lambda: mechanism.release(records, seeded_rng(2)).value.interval(0.95)


def _regression(d: int) -> Work:
    rng = seeded_rng(1)
    X = rng.uniform(-1, 1, (5000, d)) / np.sqrt(d)
    y = np.clip(X[:, 0] + 0.1 * rng.standard_normal(5000), -1, 1)
    mechanism = NoisyMoments(Design(Squared(largest=1.0), d, 1.0, radius=10.0), 5000, mu=1.0, prior_precision=1.0)
    return lambda: mechanism.release((X, y), seeded_rng(2))


def _histogram(cells: int) -> Work:
    n = 20 * cells
    counts = seeded_rng(1).multinomial(n, np.full(cells, 1 / cells)).astype(float)
    mechanism = NoisyStatistics.calibrate(DirichletCategorical(np.ones(cells)), n, PureDP(1.0))
    return lambda: mechanism.release(Statistics(n, counts), seeded_rng(2)).value.interval(0.95)


def _groups(groups: int) -> Work:
    """A proportion in each of many groups, 100 people each, one release: a record is in one group alone."""
    rng = seeded_rng(1)
    mechanism = NoisyStatistics.calibrate(BetaBernoulli(1, 1), 100, PureDP(1.0))
    seen = [Statistics(100, np.array([float(k)])) for k in rng.binomial(100, 0.3, groups)]
    return lambda: [mechanism.release(one, rng).value.interval() for one in seen]


def _chains(chains: int) -> Work:
    rng = seeded_rng(1)
    grid = ChainGrid(Field("region", tuple(range(chains))), Field("month", tuple(range(72))))
    model = HiddenMarkovModel(grid, tuple(Field(f"field {i}", (0, 1, 2, 3)) for i in range(6)), 4)
    counts = [rng.multinomial(70, rng.dirichlet(np.full(4, 2.0), (chains, 72))).astype(float) for _ in range(6)]
    state = model.prior.start(1, model.grid.shape, rng)
    return lambda: gibbs_sweep(model.prior, state, counts, rng)


def _releases(count: int) -> Work:
    """The exact curve of so many releases of Laplace noise, composed anew."""
    return lambda: compose([LaplaceProfile(0.01 + 1e-9 * seeded_rng(3).random())] * count).delta(1.0)


@contextmanager
def _ledger(entries: int, analysts: int = 1) -> Iterator[Path]:
    """A ledger of so many entries that were reserved and committed, shared out among analysts."""
    profile = ZeroConcentratedProfile(1e-9)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        path = Path(folder) / "one.ledger"
        with Ledger(path, create=True) as ledger:
            whole = ledger.open_budget("patients", ZeroConcentratedDP(1.0), n=1000, schema={})
            parts = [
                ledger.open_budget(f"patients of {i}", ZeroConcentratedDP(1.0), n=1000, schema={}, whole=whole)
                for i in range(analysts)
            ]

            def one(transaction_of: int) -> None:
                right = ledger.reserve(parts[transaction_of % analysts], profile, {"mechanism": "noise"}, who="ada")
                assert isinstance(right, Reservation)
                ledger.commit(right, {"value": 0.37})

            for i in range(entries):
                one(i)
        yield path


def _opening(entries: int) -> Work:
    holder = _ledger(entries)
    path = holder.__enter__()

    def work(kept: object = holder) -> None:
        del kept  # the folder lives as long as the work
        Ledger(path).close()

    return work


def _analysts(analysts: int) -> Work:
    """One reserve and commit in a ledger of many analysts, 20 at a time."""
    holder = _ledger(analysts, analysts)
    path = holder.__enter__()
    ledger = Ledger(path)
    part = ledger.budget("patients of 0")

    def work(kept: object = holder) -> None:
        del kept
        for _ in range(20):
            right = ledger.reserve(part, ZeroConcentratedProfile(1e-9), {"mechanism": "noise"})
            assert isinstance(right, Reservation)
            ledger.commit(right, {"value": 0.37})

    return work


def _tables(tables: int) -> Work:
    """Noise on so many tables of ten cells that one record is counted in once each."""
    system = DirichletCategorical(np.ones(10))
    mechanism = NoisyStatistics.calibrate(system, 1000, PureDP(1.0 / tables))
    seen = Statistics(1000, np.full(10, 100.0))
    return lambda: [mechanism.release(seen, seeded_rng(i)).value.mean for i in range(tables)]


def lines(quick: bool) -> list[Line]:
    """Return every line; quick ones end an order of magnitude earlier."""
    less = 10 if quick else 1
    return [
        Line("a proportion with its interval, in memory", "records", _proportion, _powers(10**4, 10**7 // less)),
        Line("linear regression by noisy moments, n = 5,000", "columns", _regression, _powers(4, 256 // less, 2)),
        Line("a histogram with intervals that know of the noise", "cells", _histogram, _powers(10, 10**4 // less)),
        Line("proportions by group with intervals", "groups", _groups, _powers(4, 1024 // less, 4)),
        Line("a sweep of the hidden Markov model, 72 x 6 x 4", "chains", _chains, _powers(16, 1024 // less, 4)),
        Line("the exact curve of a composition", "releases", _releases, _powers(10, 10**5 // less)),
        Line("opening a ledger, all of it verified", "entries", _opening, _powers(100, 10**4 // less)),
        Line("20 answers in a ledger of many analysts", "analysts", _analysts, _powers(4, 1024 // less, 4)),
        Line("tables of ten cells with noise", "tables", _tables, _powers(4, 1024 // less, 4)),
    ]


def _powers(low: int, high: int, base: int = 10) -> tuple[int, ...]:
    count = round(np.log(high / low) / np.log(base))
    return tuple(low * base**k for k in range(max(count, 2) + 1))


def measured(line: Line) -> Found:
    """Run one line at all its sizes."""
    seconds, megabytes = [], []
    for size in line.sizes:
        work = line.prepare(size)
        work()  # what is imported or compiled once is not the work
        times = []
        for _ in range(3):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
            if times[-1] > 1:
                break
        seconds.append(max(min(times), 1e-7))
        gc.collect()
        tracemalloc.start()
        work()
        megabytes.append(tracemalloc.get_traced_memory()[1] / 1e6)
        tracemalloc.stop()
    return Found(line, line.sizes, tuple(seconds), tuple(megabytes))


def _row(found: Found) -> list[str]:
    first, last = found.sizes[0], found.sizes[-1]
    return [
        found.line.name,
        f"{first:,} – {last:,} {found.line.unit}",
        f"{_time(found.seconds[0])} – {_time(found.seconds[-1])}",
        f"{found.exponent(found.seconds):.2f}",
        f"{found.megabytes[0]:.2g} – {found.megabytes[-1]:.3g} MB",
        f"{found.exponent(found.megabytes):.2f}",
    ]


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def draw(found: list[Found], path: Path) -> None:
    """Draw time and memory of every line against the size."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 8, "svg.hashsalt": "scaling"}):
        rows = -(-len(found) // 3)
        figure = Figure(figsize=(9, 2.3 * rows), layout="constrained")
        for axes, one in zip(figure.subplots(rows, 3).flat, found, strict=False):
            axes.loglog(one.sizes, one.seconds, "o-", color="#2a6f97", label="seconds")
            axes.set(title=one.line.name, xlabel=one.line.unit)
            axes.set_ylabel("seconds", color="#2a6f97")
            other = axes.twinx()
            other.loglog(one.sizes, one.megabytes, "s--", color="#bc6c25", markersize=3)
            other.set_ylabel("MB", color="#bc6c25")
        figure.savefig(path, dpi=110)


def main(quick: bool = False) -> None:
    """Print the table; at full size draw the figure too."""
    found = []
    for line in lines(quick):
        found.append(measured(line))
    columns = ("", "sizes", "time", "exponent", "peak memory", "exponent")
    note = "The exponents are over the upper half of the sizes: 1 is linear, 0 constant; fixed costs make them smaller."
    if not quick:
        draw(found, FIGURE)
        note += " ![time and memory against size](figures/scaling.png)"
    show("Time and memory against the size", columns, [_row(one) for one in found], note)


if __name__ == "__main__":
    main()
