"""How wide the intervals of a regression will be, before anything is read: its looks, taken at imagined records.

Where one likelihood explains all looks, its posterior is taken at what they are expected to release, for widths hardly
depend on the draw of the noise; but for where it hides columns. There, and of other families, draws are taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.adaptive_newton import final, strides, together
from sottovoce.inference.regression.assumed_rows import evenly_spread, predictors, responses
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.inference.regression.floating_sums import quick_sums
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.joint_posterior import JointRegression
from sottovoce.inference.regression.look_posterior import AskedTerm, LookPosterior
from sottovoce.inference.regression.moment_draws import loudest, out_of_sight
from sottovoce.inference.regression.noisy_score_information import NoisyScoreInformation
from sottovoce.inference.regression.sampler_settings import PLANNED
from sottovoce.mechanisms.single_threaded import one_thread
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts.assumed_distribution import AssumedDistribution, evenly
from sottovoce.records.facts.columns import Count
from sottovoce.records.facts.encodings import levels_of
from sottovoce.records.readings import Look
from sottovoce.records.readings.families import PoissonFamily
from sottovoce.records.readings.in_memory_records import as_columns

__all__ = ["PrecisionForecast", "expected_widths", "foresee", "foresee_all"]

Walk = Generator[AskedTerm, LookPosterior, Floats]
"""Looks that are taken one after the other, to half the width of every interval."""
_LATTICES = {1021: 76, 2039: 1487}
"""How many records are imagined, each for a part of n, and what takes one column's place in its law to the next one's:
the good lattices of Korobov's form (L'Ecuyer). Columns meet each other more evenly than by chance."""
_EACH, _NARROWEST = 64, 1e-3
"""How many records are imagined for each entry of a row, where a lattice has so many; and the least spread of a column,
in half its range, with which anything goes."""
_CLEAR = 0.0125
"""Where noise is no more than this part of what every column tells by itself, and what is explained is as likely this
way as the other, a draw of it and its mirror image do the same the other way: a walk without any tells the middle."""
_QUIET = 1e-9
"""Next to no noise, in steps."""
_EFFECT = 0.3
"""How far columns move the log-odds, the log-rate or a number in its standard deviations: with a draw of the noise so
far, with its mirror image as far the other way. Looks at what goes with nothing would begin at the answer, and their
noise would do less than it does; and a flag tells more of an outcome that is rare if it goes with more of it than if
with less."""
_SHORT = 6
"""Of longer rows a plan would take seconds to draw noise where noise hides columns."""
_NEAR = 1e-4
"""How near, as a part of its width, an interval's ends are found: a plan tells three digits."""
_LUCK = 1.5
"""Where noise may make an interval so many times as wide as in the middle, a plan says how wide; and where it makes any
so many times as wide as without privacy, looks with draws of it are taken in place of those that are expected."""
_APART, _ALIKE = 1.8, 1.2
"""Where widths differ altogether by so much between a draw of the noise and its mirror image, another pair is drawn; it
walks beside the first where noise is sure to hide most columns. To how far responses of a straight mean, or groups,
seem to spread both do the same: there the second is enough."""


@dataclass(frozen=True)
class PrecisionForecast:
    """What is expected of a term.

    Attributes
    ----------
    term
        What it is called.
    width
        Half its interval, in the middle of two draws of the noise, or of four where they differ.
    widest
        The same where noise does most, of those draws: far more where noise may or may not hide a column.
    plain
        Half of what the interval would be without privacy.
    """

    term: str
    width: float
    widest: float
    plain: float

    @property
    def unsure(self) -> bool:
        """Whether noise may make the interval far wider than it is in the middle."""
        return self.widest > _LUCK * self.width

    @property
    def told(self) -> str:
        """Half the width of the interval in words, and how wide it is where noise does most, if that is far more."""
        return f"± {self.width:.3g}" + (f" (to {self.widest:.2g})" if self.unsure else "")

    def to_dict(self) -> dict[str, Any]:
        """Return what is expected as plain values."""
        return asdict(self)


def foresee(
    mechanism: AdaptiveLooks,
    n: int | None = None,
    level: float = 0.95,
    imagined: AssumedDistribution | None = None,
    pause: Callable[[], None] | None = None,
) -> list[PrecisionForecast]:
    """Return how wide each interval will be, if the records are as imagined, and each column of little effect.

    A flag or a level moves log-odds or log-rates by 0.3, a number by as much for each standard deviation of its own;
    of a number that is explained, it is 0.3 of its standard deviation. What is imagined of the columns decides: of a
    level that few have the interval is several times as wide. Where nobody knows, `rarely` imagines little to be told.

    Parameters
    ----------
    mechanism
        What would be asked.
    n
        How many records to imagine, where that is a secret.
    level
        Of the intervals.
    imagined
        The records: values of flags and categories met alike and numbers that spread as half of real columns do, unless
        given; counts that are explained are 1 on average.
    pause
        Called before each look: what it raises ends the work.

    Examples
    --------
    >>> from sottovoce.inference.regression.assumed_rows import rarely
    >>> from sottovoce.records.facts import Facts, Flag, Number
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> formula = Formula("smoker ~ age", Facts(smoker=Flag(), age=Number(0, 110)))
    >>> mechanism = AdaptiveLooks.calibrate(formula, 10_000, ApproxDP(1.0, 1e-6))
    >>> even, rare = foresee(mechanism)[1], foresee(mechanism, imagined=rarely(formula))[1]
    >>> even.term, bool(0.003 < even.plain < even.width < 0.01 < rare.width)
    ('age', True)
    """
    return foresee_all(mechanism, [AssumedDistribution() if imagined is None else imagined], n, level, pause)[0]


def foresee_all(
    mechanism: AdaptiveLooks,
    imagined: Sequence[AssumedDistribution],
    n: int | None = None,
    level: float = 0.95,
    pause: Callable[[], None] | None = None,
) -> list[list[PrecisionForecast]]:
    """Return what `foresee` does of each of several sorts of records: the looks at all of them go on together."""
    count = mechanism.n if n is None else n
    if count is None:
        raise InvalidValue("how many records there are is a secret; say n=..., how many to imagine")
    sorts = [_Records.of(mechanism.system, whole("n", count, 1), said, pause) for said in imagined]
    much = _APART if mechanism.system.model.curved and not mechanism.system.groups else _ALIKE
    with one_thread():
        walks = [item.walks(mechanism, level) for item in sorts]
        result = iter(together([each for parts in walks for subset in parts for each in subset]))
        shown = [[[next(result) for _ in subset] for subset in parts] for parts in walks]
        if JointRegression.knows(mechanism.system, mechanism.n):
            for place, (quiet, several) in enumerate(shown):
                if mechanism.system.dimension <= _SHORT and np.any(several[0] > _LUCK * quiet[0]):
                    shown[place][1] = together(sorts[place].pair(mechanism, 0, level))
        doubted = [place for place, (_, several) in enumerate(shown) if len(several) == 2 and _apart(*several) > much]
        more = iter(together([each for place in doubted for each in sorts[place].pair(mechanism, 1, level)]))
    for place in doubted:
        shown[place][1] += [next(more), next(more)]
    return [_told(mechanism.system, *each) for each in shown]


def expected_widths(
    mechanism: AdaptiveLooks, imagined: AssumedDistribution, n: int | None = None, level: float = 0.95
) -> Floats:
    """Return half the width of every interval that looks leave at what they are expected to release: one walk."""
    count = mechanism.n if n is None else n
    if count is None:
        raise InvalidValue("how many records there are is a secret; say n=..., how many to imagine")
    records = _Records.of(mechanism.system, whole("n", count, 1), imagined, None)
    with one_thread():
        (result,) = together([records.walked(mechanism, records.explained[0], np.zeros, level)])
    return result


def _apart(one: Floats, other: Floats) -> float:
    """Return by how much widths of all terms differ altogether."""
    ratios = np.log(np.maximum(one, 1e-300) / np.maximum(other, 1e-300))
    return float(np.exp(np.sqrt(np.mean(ratios**2))))


def _told(system: Formula, quiet: Sequence[Floats], several: Sequence[Floats]) -> list[PrecisionForecast]:
    """Return what is expected of each term, by half the widths that looks without noise left, and walks with some."""
    # The middle of two in proportion: with a column that noise may hide one is now and then a thousand times the other.
    width = np.exp(np.median(np.log(np.maximum(several, 1e-300)), axis=0))
    widest, plain = np.maximum(np.max(several, axis=0), width), np.minimum(np.sqrt(quiet[0] * quiet[-1]), width)
    widths = zip(system.terms, width, widest, plain, strict=True)
    foreseen = [PrecisionForecast(term, *map(float, each)) for term, *each in widths]
    return [item for place, item in enumerate(foreseen) if place != system.offset]


@dataclass(frozen=True, eq=False)
class _Records:
    """Imagined records, each column evenly over its law.

    Attributes
    ----------
    formula, said
        What is asked of them, and what they are.
    rows, places
        What is explained by, encoded, and which place of its law each response has.
    each
        How many records each row stands for.
    pause
        Called before each look.
    """

    formula: Formula
    said: AssumedDistribution
    rows: Floats
    places: Floats
    each: float
    pause: Callable[[], None] | None

    @classmethod
    def of(cls, formula: Formula, n: int, said: AssumedDistribution, pause: Callable[[], None] | None) -> Self:
        """Return records that stand for n."""
        said.check(formula.facts)
        said = evenly_spread(formula, said)
        about, encoding = n * said.kept, formula.encoding
        points = next((points for points in _LATTICES if points >= _EACH * encoding.size), max(_LATTICES))
        orders = {
            name: np.arange(points) * pow(_LATTICES[points], place, points) % points
            for place, name in enumerate(formula.columns)
        }
        result = [said.values(name, formula.facts[name], points)[orders[name]] for name in encoding.names]
        rows, _ = encoding.rows(as_columns(encoding.columns, result), points)
        return cls(formula, said, rows, evenly(points)[orders[formula.parsed.response]], about / points, pause)

    @cached_property
    def explained(self) -> tuple[Floats, Floats]:
        """What is explained, as numbers: columns move it up and down by turns, and the other way."""
        return self._responses(_EFFECT), self._responses(-_EFFECT)

    @cached_property
    def _moves(self) -> Floats:
        """By how much columns move what is explained, each the other way than the one before it."""
        x, ones = self.rows, self.formula.encoding.ones
        size = np.where(ones, 1.0, np.maximum(x.std(axis=0), _NARROWEST))
        size[[] if self.formula.offset is None else [self.formula.offset]] = math.inf
        return np.asarray((x - x.mean(axis=0)) @ (np.resize([1.0, -1.0], len(size)) / size))

    @cached_property
    def _offset(self) -> tuple[float, Floats]:
        """What makes rates the imagined ones on average, and what exposures add to their logarithms then."""
        longer = self.rows @ self.formula.prior_mean.reshape(self.formula.model.outputs, -1)[0]  # counts have one
        level = -float(np.log(np.mean(np.exp(longer))))
        return level, longer + level

    @property
    def _even(self) -> bool:
        """Whether what is explained is as likely one way as the other."""
        formula = self.formula
        if levels_of(formula.response) is None:
            return not formula.model.curved
        shares = self.said.shares(formula.parsed.response, formula.response)
        return len(shares) == 2 and bool(abs(shares[0] - shares[1]) < _NEAR)

    def _responses(self, effect: float) -> Floats:
        result = responses(self.formula, self.said, effect * self._moves + self._offset[1], self.places)
        return as_columns([self.formula.response], [result])[0]

    @cached_property
    def _quick(self) -> Any:
        """The rows in single precision: noise is far larger than what that rounds off."""
        return self.rows.astype(np.float32)

    @cached_property
    def _longest(self) -> float:
        """The length of the longest row, in the coordinates of the first look."""
        return float(np.sqrt(((self.rows @ self.formula.first_frame[0].T) ** 2).sum(axis=1).max()))

    def _answers(self) -> list[Floats]:
        """Return the coefficients that what is explained was made by, as far as rows have any."""
        model, x = self.formula.model, self.rows
        back = np.linalg.pinv(x.T @ x, rcond=1e-9, hermitian=True)
        if not model.curved:
            return [np.asarray(back @ (model.outcome(y) @ x)) for y in self.explained]
        item, moves = back @ x.sum(axis=0), back @ (self._moves @ x)
        middle, slopes = predictors(self.formula, self.said)
        known, middle = self.formula.prior_mean, middle + self._offset[0]
        return [
            known + np.concatenate([m * item + side * s * moves for m, s in zip(middle, slopes, strict=True)])
            for side in (_EFFECT, -_EFFECT)
        ]

    def walks(self, mechanism: AdaptiveLooks, level: float) -> tuple[list[Walk], list[Walk]]:
        """Return looks at the answers without noise, at one of two that are mirror images; and walks: one at what the
        looks are expected to release where all are read together; of the last alone with a pair of draws of the noise,
        with two pairs where it hides most columns, and one without any where it is next to none.
        """
        answers = list(zip(self._answers(), self.explained, strict=True))[: 1 if self._even else 2]
        quiet = [(answer, self._quiet(mechanism, answer, y)) for answer, y in answers]
        seen = [self._seen(mechanism, *item, level) for item in quiet]
        if JointRegression.knows(self.formula, mechanism.n):  # what is expected is all that its mode needs
            return seen, [self.walked(mechanism, self.explained[0], np.zeros, level)]
        heard = _heard(mechanism, quiet[0][1])
        if self._even and loudest(heard) < _CLEAR:
            return seen, [self.walked(mechanism, self.explained[0], np.zeros, level)]
        counts = isinstance(mechanism.reading.model, PoissonFamily)  # where they are cut noise is less
        pairs = 2 if not counts and out_of_sight(heard).mean() > 0.5 else 1
        return seen, [walk for seed in range(pairs) for walk in self.pair(mechanism, seed, level)]

    def pair(self, mechanism: AdaptiveLooks, seed: int, level: float) -> list[Walk]:
        """Return walks with a draw of the noise and with its mirror image: what the one hides the other shows."""
        drawn, mirrored = (seeded_rng(seed).standard_normal for _ in range(2))
        first, second = self.explained
        return [
            self.walked(mechanism, first, drawn, level),
            self.walked(mechanism, second, lambda size: -mirrored(size), level),
        ]

    def _quiet(self, mechanism: AdaptiveLooks, answer: Floats, y: Floats) -> NoisyScoreInformation:
        """Return a look at an answer, without noise and with no row cut: it tells what is left without privacy."""
        system, (shape, _) = self.formula, self.formula.first_frame
        cap = float(system.response.high) if isinstance(system.response, Count) and system.model.curved else 0.0
        parts = mechanism.reading.parts  # a mean that bends says itself how much scores vary
        look = system.look_at(mechanism.n, answer, shape, max(self._longest, _NARROWEST), parts, cap)
        total = self.each * quick_sums(look, self.rows, look.model.outcome(y))
        glance = NoisyScoreInformation.of(look, mechanism.n, total, dict.fromkeys(parts, _QUIET) | {"information": 0.0})
        # Rows of zeros alone have no information at all; nothing is quite so.
        return replace(glance, information=np.asarray(glance.information) + _QUIET * np.eye(look.dimension))

    def _seen(self, mechanism: AdaptiveLooks, answer: Floats, glance: NoisyScoreInformation, level: float) -> Walk:
        """Return half the width of every interval that a look at an answer leaves."""
        asked = final(mechanism, [(glance, None)], PLANNED)
        belief = yield replace(asked, several=False, at=answer, whole=True, extra=None)
        return self._halves(belief, level)

    def walked(self, mechanism: AdaptiveLooks, y: Floats, noise: Callable[[int], Floats], level: float) -> Walk:
        """Take the looks at these responses, and return half the width of every interval."""

        def shown(look: Look, scales: Mapping[str, float]) -> Floats:
            if self.pause is not None:
                self.pause()
            noises = zip(mechanism.noises(look, scales), look.sizes.values(), strict=True)
            scale = np.concatenate([np.full(size, noise.scale) for noise, size in noises])
            total = quick_sums(look, self._quick, look.model.outcome(y).astype(np.float32))
            return np.asarray(np.rint(self.each * total + scale * noise(len(scale))))

        path = yield from strides(mechanism, shown, PLANNED)
        jointly = mechanism.conclude_jointly(path, PLANNED)
        if jointly is not None:
            return np.asarray(np.diff(jointly.interval(level, _NEAR), axis=1)[:, 0] / 2)
        belief = yield final(mechanism, path, PLANNED)
        return self._halves(belief, level)

    def _halves(self, belief: LookPosterior, level: float) -> Floats:
        """Return half the width of every interval."""
        A, b = self.formula.units
        result = Coefficients.from_belief(self.formula, belief.mapped(A, b), np.zeros(len(A)))
        return np.asarray(np.diff(result.interval(level, _NEAR), axis=1)[:, 0] / 2)


def _heard(mechanism: AdaptiveLooks, quiet: NoisyScoreInformation) -> NoisyScoreInformation:
    """Return a look as loud as the last one, in the coordinates of the first, that knows the information.

    Where counts are cut, and so how loud noise is, no look has said yet: it is no louder than this.
    """
    look = mechanism.reading
    noise = mechanism.scales(look, mechanism.plan[-1])["information"] / look.factors[1] ** 2
    heard = replace(quiet, tau=noise)
    heard.__dict__["known"] = np.asarray(quiet.information)
    return heard
