"""How costs grow with the work: processor time and peak memory against the size, and the exponent of their growth.

Each line takes one kind of work at growing sizes. The exponent is the slope of log time against log size over the
upper half of the sizes, where fixed costs have faded: 1 is linear, 0 is constant. Time is processor time of this
process; memory is the peak of what Python and NumPy allocated during the work, traced in a run of its own.
"""

from __future__ import annotations

import functools
import gc
import os
import tempfile
import textwrap
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import show
from sottovoce.inference.latent import ChainGrid, Field, HiddenMarkovModel
from sottovoce.inference.latent.gibbs_sampler import gibbs_sweep
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Squared
from sottovoce.inference.regression.noisy_moments import NoisyMoments
from sottovoce.mechanisms import NoisyStatistics
from sottovoce.mechanisms.conjugate import BetaBernoulli, DirichletCategorical
from sottovoce.privacy.composition import compose
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.laplace import LaplaceProfile
from sottovoce.privacy.promises import PureDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import Statistics
from sottovoce.service.ledger import Ledger, Reservation
from sottovoce.service.ledger.hash_chain import canonical, digest
from sottovoce.service.ledger.schema import now

MEMORY = Path("/dev/shm")  # processor time is compared: no disk is waited for, where there is a file system without one
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "scaling.png"
Work = Callable[[], object]
_LONG = 40.0
"""Seconds of work after which no larger size is tried."""


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


@functools.cache
def _ledger(events: int, analysts: int = 1) -> Path:
    """A ledger of so many events: answers of several analysts in turn, written by the rules in one transaction."""
    folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
    _FOLDERS.append(folder)
    path, cost, value = Path(folder.name) / "one.ledger", 1e-9, canonical({"value": 0.37})
    asked = {"request": {"mechanism": "noise"}, "profile": ZeroConcentratedProfile(cost).to_dict(), "cost": cost}
    asked |= {"guard": digest("token"), "who": "ada", "at": now()}
    with Ledger(path, create=True) as ledger:
        whole = ledger.open_budget("patients", ZeroConcentratedDP(1.0), n=1000, schema={})
        names = [f"patients of {i}" for i in range(analysts)]
        options: dict[str, Any] = {"n": 1000, "schema": {}, "whole": whole}
        parts = [ledger.open_budget(name, ZeroConcentratedDP(1.0), **options) for name in names]
        spent = dict.fromkeys([whole.id, *(part.id for part in parts)], Fraction(0))
        with ledger._writing() as transaction:
            transaction.lock_head()
            for i in range(max(events - analysts - 2, 0) // 3):
                part, number = parts[i % analysts].id, transaction.head.count + 1
                for budget in (part, whole.id):
                    spent[budget] += Fraction(cost)
                transaction.append("reserve", asked, budget=part, entry=number, key=str(i), spent=str(spent[part]))
                transaction.append("charge", {"cost": cost}, budget=whole.id, entry=number, spent=str(spent[whole.id]))
                ended = {"value_hash": digest(value), "kept": True, "at": now()}
                transaction.append("commit", ended, budget=part, entry=number, value=value)
        ledger.leave_checkpoint()
    return path


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
"""Kept for as long as the process lives."""


def _verifying(events: int) -> Work:
    ledger = Ledger(_ledger(events))
    return ledger.verify


def _opening(events: int) -> Work:
    path = _ledger(events)

    def work() -> None:
        with Ledger(path) as ledger:
            assert ledger.opened[0].count

    return work


def _analysts(analysts: int) -> Work:
    """One reserve and commit in a ledger of many analysts, 20 at a time."""
    ledger = Ledger(_ledger(4 * analysts + 2, analysts))
    part = ledger.budget("patients of 0")

    def work() -> None:
        for _ in range(20):
            right = ledger.reserve(part, ZeroConcentratedProfile(1e-9), {"mechanism": "noise"})
            assert isinstance(right, Reservation)
            ledger.commit(right, {"value": 0.37})

    return work


def _tables(tables: int) -> Work:
    """Noise on so many tables of ten cells, the same on each: shared among them, ε would make it louder with each."""
    mechanism = NoisyStatistics.calibrate(DirichletCategorical(np.ones(10)), 1000, PureDP(0.1))
    seen = Statistics(1000, np.full(10, 100.0))
    return lambda: [mechanism.release(seen, seeded_rng(i)).value.mean for i in range(tables)]


def lines(quick: bool) -> list[Line]:
    """Return every line; quick ones end an order of magnitude earlier."""
    less = 10 if quick else 1
    return [
        Line("a proportion with its interval, in memory", "records", _proportion, _powers(10**4, 10**7 // less)),
        Line("linear regression by noisy moments, n = 5,000", "columns", _regression, _powers(4, 256 // less, 2)),
        Line("a histogram with intervals that know of the noise", "cells", _histogram, _powers(10, 10**5 // less)),
        Line("proportions by group with intervals", "groups", _groups, _powers(4, 1024 // less, 4)),
        Line("a sweep of the hidden Markov model, 72 x 6 x 4", "chains", _chains, _powers(16, 1024 // less, 4)),
        Line("the exact curve of a composition", "releases", _releases, _powers(10, 10**5 // less)),
        Line("verifying a ledger, every event", "events", _verifying, _powers(1000, 10**6 // less)),
        Line("opening a ledger from its checkpoint", "events", _opening, _powers(1000, 10**6 // less)),
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
        if not seconds or seconds[-1] < 1:
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
        if seconds[-1] > _LONG:
            break
    return Found(line, line.sizes[: len(seconds)], tuple(seconds), tuple(megabytes))


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
    """Draw time and memory of every line against the size, on axes where what is linear climbs to the corner."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 8, "axes.spines.top": False}):
        rows = -(-len(found) // 3)
        figure = Figure(figsize=(10, 2.6 * rows), layout="constrained")
        places = list(figure.subplots(rows, 3).flat)
        for axes, one in zip(places, found, strict=False):
            axes.set_title("\n".join(textwrap.wrap(one.line.name, 36)))
            axes.set_xlabel(one.line.unit)
            _trace(axes, one, one.seconds, "s", "o-", "#2a6f97")
            _trace(axes.twinx(), one, one.megabytes, "MB", "s--", "#bc6c25")
        for axes in places[len(found) :]:
            axes.set_axis_off()
        figure.savefig(path, dpi=110)


def _trace(axes: Any, one: Found, values: tuple[float, ...], unit: str, marks: str, colour: str) -> None:
    """Draw one quantity against the sizes, over as many decades as the sizes span, or more where it grows faster."""
    axes.loglog(one.sizes, values, marks, color=colour, markersize=4)
    decades = max(np.log10(one.sizes[-1] / one.sizes[0]), np.log10(max(values) / min(values))) + 0.5
    middle = np.log10(max(values) * min(values)) / 2
    axes.set_ylim(10 ** (middle - decades / 2), 10 ** (middle + decades / 2))
    axes.set_ylabel(f"{unit}, as size^{one.exponent(values) + 0.0:.2f}".replace("-0.00", "0.00"), color=colour)
    axes.set_xticks(one.sizes, [f"{size:,}" for size in one.sizes])
    axes.minorticks_off()
    axes.tick_params(axis="y", colors=colour)


def tell(found: list[Found], path: Path | None) -> None:
    """Print the table; with a path, draw the figure too."""
    columns = ("", "sizes", "time", "exponent", "peak memory", "exponent")
    note = (
        "The exponents are over the upper half of the sizes: 1 is linear, 0 constant; fixed costs make them smaller. "
        "A regression by moments sums d² products and solves d³ equations."
    )
    if path is not None:
        draw(found, path)
        note += "\n\n![Time and memory against size](figures/scaling.png)"
    show("Time and memory against the size", columns, [_row(one) for one in found], note)


def main(quick: bool = False) -> None:
    """Measure every line; at full size draw the figure too."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder  # where checkpoints go
        tell([measured(line) for line in lines(quick)], None if quick else FIGURE)


if __name__ == "__main__":
    main()
