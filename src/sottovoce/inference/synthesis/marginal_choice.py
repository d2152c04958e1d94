"""The mechanism that learns a table's relations: margins chosen where the picture so far is worst, each noised once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.synthesis.field_fit import FieldFit
from sottovoce.inference.synthesis.noisy_marginal import NoisyMarginal
from sottovoce.inference.synthesis.pair_shares import pair_shares
from sottovoce.inference.synthesis.table_columns import TableColumns
from sottovoce.inference.synthesis.table_marginals import NoisyMarginals, TableMarginals
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.exponential_choice import choose
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.progress import progress_bar
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, real
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Facts, Flag
from sottovoce.records.readings import HeldRecords, ReadableRecords, Statistics

__all__ = ["MarginalChoice"]

_ROUNDS, _NOISE_SHARE = 16, Fraction(9, 10)
"""Rounds a column that the first noise would last for, and what of each is paid for noise (McKenna et al. 2022, §4)."""
_GRID = 1024
"""Expected counts are whole numbers of this part of a record, so that scores are exact."""
_SCORE_MOVES, _COUNT_SQUARES = 2, 2
"""One record replaced moves a score by 2, and a margin's counts by 1 in two places: squares of 2 in all."""
_MOST_RECORDS = 2**40
"""Of more records scores would not fit into 64 bits."""
_WIDEST = 2**18
"""The cells that summing out all columns may take, once all is spent; before, in proportion."""
_MEAN_OF_NOISE = math.sqrt(2 / math.pi)

Tables = Mapping[tuple[str, ...], Any]


@dataclass(frozen=True, eq=False)
class MarginalChoice(Mechanism):
    r"""Choose margins of two columns by how far the picture so far is off them, and release each with noise.

    Every round takes a margin by the exponential mechanism on its L1 distance from the picture, which one record
    replaced moves by at most 2, and releases it with discrete Gaussian noise; it moves two of its counts by one:

    .. math:: \rho = \sum_t \frac{\eta_t^2}{8} + \frac{1}{\sigma_t^2}

    (a choice has privacy loss in a window of width η: Cesar and Rogers 2021). Noise and choice of a round depend on
    what earlier ones released, and rounds end when ρ is spent: fully adaptive composition (Feldman and Zrnic 2021). The
    schedule is AIM's (McKenna, Mullins, Sheldon and Miklau 2022): where a round taught less than noise does, the next
    has half the noise.

    Parameters
    ----------
    system, n
        The columns, and how many records there are.
    rho
        What all rounds cost together.
    start
        What was released before: a picture to begin with, public by now and no part of the promise.

    Examples
    --------
    >>> from sottovoce.privacy.promises import ZeroConcentratedDP
    >>> mechanism = MarginalChoice.calibrate(MarginalChoice.example().system, 5, ZeroConcentratedDP(0.5))
    >>> round(mechanism.rho, 6)
    0.5
    """

    word: ClassVar[str] = "marginal choice"
    choices: ClassVar[Mapping[str, Mapping[str, Any]]] = {"marginals": {}}
    forecasts: ClassVar[bool] = False
    system: TableMarginals
    rho: float
    start: tuple[NoisyMarginal, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.system, TableMarginals):
            raise InvalidValue(f"margins are chosen of TableMarginals. Got a {type(self.system).__name__}")
        object.__setattr__(self, "rho", real("rho", self.rho, above=0.0))
        if not 1 <= self.n <= _MOST_RECORDS:
            raise InvalidValue(f"margins are chosen of 1 to {_MOST_RECORDS:,} records. Got {self.n}")

    @cached_property
    def profile(self) -> Profile:
        """What all rounds provably do together."""
        return ZeroConcentratedProfile(self.rho if self.n else 0.0).about(self.relation)

    def cost(self, draws: int = 1) -> Profile:
        """Return the profile: whatever is drawn from the released margins is free."""
        del draws
        return self.profile

    @classmethod
    def calibrate(cls, system: TableMarginals, n: int, target: Promise, start: Sequence[NoisyMarginal] = ()) -> Self:
        """Return the mechanism that spends all of a promise."""
        rho = largest_keeping(ZeroConcentratedProfile, target, high=1e4, name="rho")
        return cls(system, n, rho, tuple(start))

    @classmethod
    def example(cls) -> Self:
        """Return the margins of two flags of five records."""
        return cls(TableMarginals(TableColumns(Facts(a=Flag(), b=Flag()), {})), 5, 0.5)

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return self.system.columns

    @property
    def candidates(self) -> list[tuple[str, ...]]:
        """The margins that may be chosen: of every two columns."""
        return list(itertools.combinations(self.columns, 2))

    def see(self, records: Any) -> SeenMargins:
        """Return records whose margins can be counted: they stay with the mechanism."""
        if isinstance(records, SeenMargins):
            return records
        if not isinstance(records, ReadableRecords):
            try:
                records = HeldRecords(tuple(records[name] for name in self.columns))
            except (KeyError, TypeError, IndexError, ValueError):
                raise InvalidData(f"margins are read of the columns {', '.join(self.columns)}") from None
        cliques = [*((name,) for name in self.columns), *self.candidates]
        return SeenMargins(records, self.n, {clique: self._counts(records, clique) for clique in cliques})

    def _counts(self, records: ReadableRecords, clique: tuple[str, ...]) -> Any:
        reading = self.system.reading_of(clique)
        seen = records.look(reading)
        if not isinstance(seen, Statistics) or seen.n != self.n:
            raise InvalidData(f"this mechanism is for n={self.n} records; build one for your n. Got {seen.n}")
        return reading.steps(reading.check(seen))[:-1]  # every record is in some cell

    def _value(self, seen: SeenMargins, rng: np.random.Generator, draws: int) -> NoisyMarginals:
        del draws
        rounds = _Rounds(self, seen.tables, rng)
        with progress_bar("learning relations", _ROUNDS * len(self.columns)) as bar:
            for _ in bar.along(rounds.steps()):
                pass
        return NoisyMarginals(
            self.system.table, self.n, tuple(rounds.cliques), tuple(rounds.counts), tuple(rounds.scales)
        )

    def _outputs(self, seen: Any, rng: np.random.Generator, draws: int) -> Floats:
        """Return the noisy counts of the columns alone, which every release begins with."""
        tables = self.see(seen).tables
        alone = np.concatenate([tables[(name,)] for name in self.columns])
        return IntegerNoise("gaussian", _Rounds(self, tables, rng).sigma).rows(alone, rng, draws).astype(np.float64)

    def worst_pair(self) -> tuple[Any, Any]:
        """Return two data sets whose first records lie in two cells of every column, the others all in one."""
        typical = self.system.reading_of(self.columns).typical()
        first, other = (tuple(values[place] for values in typical) for place in (0, 1))
        pair = [(record, *[other] * (self.n - 1)) for record in (first, other)]
        near, far = (HeldRecords(tuple(map(list, zip(*rows, strict=True)))) for rows in pair)
        return near, far

    def log_ratio(self, pair: tuple[Any, Any]) -> Callable[[Any], Floats]:
        """Return log of the probability of the first counts under the first of a pair over that under the second."""
        noise = IntegerNoise("gaussian", _Rounds(self, {}, seeded_rng(0)).sigma)
        centres = [np.concatenate([self.see(side).tables[(name,)] for name in self.columns]) for side in pair]

        def ratio(outputs: Any) -> Floats:
            first, second = (noise.log_weight(np.asarray(outputs) - centre).sum(axis=-1) for centre in centres)
            return np.asarray(first - second)

        return ratio

    def _parameters(self) -> dict[str, Any]:
        return {"rho": self.rho}

    def scores(self, tables: Tables, expected: Tables, cliques: Sequence[tuple[str, ...]], sigma: float) -> list[int]:
        """Return how far each margin is off what is expected, beyond what noise would be, in parts of a record.

        One record replaced moves a score by at most 2·1024: one count falls by one, and another rises.
        """
        result = []
        for clique in cliques:
            off = np.abs(_GRID * np.asarray(tables[clique], dtype=np.int64) - expected[clique]).sum()
            result.append(int(off) - round(_GRID * _MEAN_OF_NOISE * sigma * len(expected[clique])))
        return result


@dataclass(frozen=True, eq=False)
class SeenMargins(ReadableRecords):
    """Records, how many there are, and the counts of every margin that may be released."""

    records: ReadableRecords
    n: int
    tables: Tables

    def look(self, reading: Any) -> Any:
        """Return what a reading makes of them."""
        return self.records.look(reading)


class _Rounds:
    """The rounds of one release: what was released so far, and what it cost."""

    def __init__(self, mechanism: MarginalChoice, tables: Tables, rng: np.random.Generator) -> None:
        self.mechanism, self.tables, self.rng = mechanism, tables, rng
        self.rho, self.spent = Fraction(mechanism.rho), Fraction(0)
        self.cliques: list[tuple[str, ...]] = []
        self.counts: list[Any] = []
        self.scales: list[float] = []
        self.begun: Floats | None = None
        each = self.rho / (_ROUNDS * len(mechanism.columns))
        self.sigma, self.window = _sigma(_NOISE_SHARE * each), _window((1 - _NOISE_SHARE) * each)

    def pay(self, cost: Fraction) -> None:
        """Count a cost, or stop before it is more than was paid for."""
        if self.spent + cost > self.rho:
            raise InvalidData("the rounds would cost more than was paid for")
        self.spent += cost

    def measure(self, clique: tuple[str, ...]) -> None:
        """Release a margin."""
        self.pay(_noise_cost(self.sigma))
        self.cliques.append(clique)
        self.counts.append(IntegerNoise("gaussian", self.sigma).add(self.tables[clique], self.rng))
        self.scales.append(self.sigma)

    def fitted(self) -> FieldFit:
        """Return the picture so far."""
        sizes = self.mechanism.system.table.sizes
        released = zip(self.cliques, self.counts, self.scales, strict=True)
        marginals = [NoisyMarginal.of_table(clique, counts, scale**2) for clique, counts, scale in released]
        known = (*self.mechanism.start, *marginals)
        fit = FieldFit(sizes, self.mechanism.n, known, begun=self.begun)
        self.begun = fit.duals
        return fit

    def expected(self, fit: FieldFit) -> dict[tuple[str, ...], Any]:
        """Return what the picture expects of every two columns, in whole parts of a record."""
        laws = pair_shares(fit.tree, fit.potentials(fit.duals)[0])
        unit = _GRID * self.mechanism.n
        return {(fit.names[a], fit.names[b]): np.rint(unit * law).astype(np.int64).ravel() for a, b, law in laws}

    def within(self, fit: FieldFit) -> list[tuple[str, ...]]:
        """Return the margins that the field may take in: it grows as the budget is spent."""
        most = float(self.spent / self.rho) * _WIDEST
        known = [clique for clique in fit.cliques if len(clique) > 1]

        def cells(clique: tuple[str, ...]) -> int:
            return FieldFit.widest(fit.sizes, [*known, clique])

        fits = [c for c in self.mechanism.candidates if c in known or cells(c) <= most]
        return fits or [min(self.mechanism.candidates, key=cells)]

    def steps(self) -> Any:
        """Make all rounds, one at a time, until all is spent."""
        for name in self.mechanism.columns:
            self.measure((name,))
            yield
        fit = self.fitted()
        expected = self.expected(fit)
        while True:
            cost = _noise_cost(self.sigma) + _choice_cost(self.window)
            remaining = self.rho - self.spent
            last = remaining < 2 * cost
            if last:
                self.sigma, self.window = _sigma(_NOISE_SHARE * remaining), _window((1 - _NOISE_SHARE) * remaining)
            fits = self.within(fit)
            self.pay(_choice_cost(self.window))
            scores = self.mechanism.scores(self.tables, expected, fits, self.sigma)
            slope = Fraction(self.window) / (2 * _SCORE_MOVES * _GRID)
            clique = fits[choose([slope * score for score in scores], self.rng)]
            self.measure(clique)
            if last:
                return
            fit, before = self.fitted(), expected[clique]
            expected = self.expected(fit)
            taught = float(np.abs(expected[clique] - before).sum()) / _GRID
            if taught <= _MEAN_OF_NOISE * self.sigma * before.size:
                self.sigma, self.window = self.sigma / 2, self.window * 2
            yield


def _noise_cost(sigma: float) -> Fraction:
    """Return ρ of Gaussian noise on a margin."""
    return Fraction(_COUNT_SQUARES) / (2 * Fraction(sigma) ** 2)


def _choice_cost(window: float) -> Fraction:
    """Return ρ of a choice whose privacy loss lies in a window."""
    return Fraction(window) ** 2 / 8


def _sigma(rho: Fraction) -> float:
    """Return a scale of noise on a margin that costs no more."""
    return math.nextafter(math.sqrt(_COUNT_SQUARES / (2 * rho)), math.inf) * (1 + 2**-40)


def _window(rho: Fraction) -> float:
    """Return a window of a choice that costs no more."""
    return math.sqrt(8 * rho) * (1 - 2**-40)
