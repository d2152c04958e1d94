"""Share, accuracy and risk of a question: from any of the three to the other two, before anything is read."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import special

from sottovoce.inference.cells.cell_mechanisms import CellMechanism, mechanism_kind
from sottovoce.inference.cells.cells_posterior import cells_posterior
from sottovoce.inference.cells.intervals import checked_level
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.quantile_forecast import expected_intervals
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.smooth_forecast import expected_group_intervals, expected_smooth_interval
from sottovoce.inference.cells.smooth_group_means import SmoothGroupMeans
from sottovoce.inference.cells.smooth_means import SmoothMeans
from sottovoce.inference.cells.survival_question import SurvivalQuestion
from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.numbers import Floats, Integers, real, whole
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.risk import advantage, success
from sottovoce.privacy.shares import percent, read_width
from sottovoce.records.facts import Column, Count, Day, Flag, Number
from sottovoce.records.facts.assumed_distribution import AssumedDistribution, evenly
from sottovoce.records.facts.bands import value_axis
from sottovoce.records.readings.group_moments import STEPS
from sottovoce.service.answers.priced_option import PricedOption, people

__all__ = ["AssumedDistribution", "PricedOption", "TradeOff", "people"]

_LEAST = 1e-4
"""The least share that is looked at."""
_POINTS = 13
_PLACES = 4096
"""So many counts, at even places of their law, tell which part of them lies in each bin."""
_SEED = 1
"""Which group strays how far is shuffled, and the same in every plan."""


@dataclass(frozen=True, eq=False)
class TradeOff:
    """How a question's share of the budget, its accuracy and its risk go together; made of public things alone.

    Parameters
    ----------
    question, n
        What would be asked, of how many records: imagined ones where the budget keeps n a secret.
    budget
        The budget whose shares are spent.
    baseline
        How often a guess comes true without the answer.
    imagined
        What the records are imagined to be.
    level
        Of the intervals.

    Examples
    --------
    >>> from sottovoce.records.facts import Category, Facts, Flag
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> facts = Facts(smoker=Flag(), ward=Category(["A", "B", "C"]))
    >>> balance = TradeOff(Question("proportion", ("smoker",), facts, by=("ward",)), 9000, ApproxDP(1.0, 1e-6))
    >>> offer = balance.for_width(0.02)
    >>> offer.share < 0.2, offer.width <= 0.02, offer.success < 0.02
    (True, True, True)
    """

    question: Question
    n: int
    budget: Promise | PrivacyFilter
    baseline: float = 0.01
    imagined: AssumedDistribution = field(default_factory=AssumedDistribution)
    level: float = 0.95

    def __post_init__(self) -> None:
        if not isinstance(self.question, Question):
            raise InvalidValue(f"a balance is of a Question. Got a {type(self.question).__name__}")
        whole("n", self.n, 0)
        purse = self.budget if isinstance(self.budget, PrivacyFilter) else PrivacyFilter(self.budget)
        object.__setattr__(self, "budget", purse)
        object.__setattr__(self, "level", checked_level(self.level))
        self.imagined.check(self.question.grouped_facts)
        if not 0 < real("baseline", self.baseline) < 1:
            raise InvalidValue(f"baseline must lie between 0 and 1. Got {self.baseline:g}")

    @cached_property
    def _known(self) -> dict[float, PricedOption]:
        return {}

    @cached_property
    def _made(self) -> dict[float, CellMechanism]:
        return {}

    def at(self, share: float) -> PricedOption:
        """Return what a share of the budget buys."""
        share = real("share", share)
        if share not in self._known:
            self._known[share] = self._offer(share)
        return self._known[share]

    def _offer(self, share: float) -> PricedOption:
        purse: Any = self.budget
        mechanism, target = self._mechanism(share), purse.share(share)
        ends = self._intervals(mechanism)[self.question.places]
        width = float(np.max(ends[:, 1] - ends[:, 0])) / 2
        shown = (self._success(share), advantage(mechanism.profile), target, mechanism.noise)
        return PricedOption(share, width, *shown, self.level, self.baseline, self.of)

    def _intervals(self, mechanism: CellMechanism) -> Floats:
        """Return the interval of every row that is expected."""
        if isinstance(mechanism, NoisyCells):
            cells = _cells(self.imagined, mechanism, self.n)
            posterior = cells_posterior(mechanism.system, mechanism.n, mechanism.noise, mechanism.scale, cells)
            return posterior.interval(self.level)
        question, name = self.question, self.question.columns_asked[0]
        groups = {group: question.grouped_facts[group] for group in question.groups.names}
        sizes = self.imagined.sizes(self.n, groups, question.kept)

        def law(edges: Floats) -> Floats:
            return _bins(self.imagined, name, question.facts[name], edges)

        if isinstance(mechanism, SmoothMeans):
            return expected_smooth_interval(mechanism, law, self.level)
        if isinstance(mechanism, SmoothGroupMeans):
            return expected_group_intervals(mechanism, sizes, law, self.level)
        return expected_intervals(mechanism, sizes, law, self.level)

    @cached_property
    def of(self) -> str:
        """Which of several rows a width is of, in words: all of them, where all are imagined alike."""
        question, imagined = self.question, self.imagined
        groups, rows = len(question.kept), len(question.labels)
        if rows == 1:
            return ""
        if imagined.smallest is not None or any(name in imagined.columns for name in question.groups.names):
            return f"the widest of the {rows} rows, if groups are as imagined"
        if groups == rows:
            return f"each of the {groups} groups, if all are of one size"
        return f"the widest of the {rows} rows" + (", if groups are of one size" if groups > 1 else "")

    def _mechanism(self, share: float) -> CellMechanism:
        if share not in self._made:
            purse: Any = self.budget
            target = purse.share(share)
            n = None if target.relation.hides_n else self.n
            self._made[share] = mechanism_kind(self.question, n).calibrate(self.question, n, target, price=purse.cost)
        return self._made[share]

    def _success(self, share: float) -> float:
        return _success(self._mechanism(share).profile, self.baseline)

    def for_width(self, width: float | str) -> PricedOption:
        """Return the least share with which the answer is expected to be known to ± `width`, or less.

        Of a proportion ``"2%"`` is 0.02; other answers have units of their own.
        """
        wanted = read_width(width, of_share=self.question.verb == "proportion")
        if not wanted > 0:
            raise InvalidValue(f"width must be > 0. Got {wanted:g}")
        full = self.at(1.0)
        if full.width > wanted:
            ways = ["accept a wider interval"]
            ways += ["ask about fewer groups"] if self.question.by else []
            ways += ["state closer bounds"] if self.question.verb not in ("proportion", "counts") else []
            if self.question.verb == "mean" and not self.question.averaged and self.question.tails != "smooth":
                ways += ['assume a smooth tail where bounds are far (tails="smooth")']
            column = self.question.columns_asked[0]
            if isinstance(self.question.facts[column], Day | Number) and column not in self.imagined.columns:
                ways += [f"say how far {column} spreads, if you know (--imagine {column}=0.1, imagined=)"]
            raise PromiseUnreachable(
                f"± {wanted:g} is out of reach: the whole budget gives ± {full.width:.3g}; {', or '.join(ways)}"
            )
        if self.at(_LEAST).width <= wanted:
            return self.at(_LEAST)
        return self.at(self._around(lambda share: self.at(share).width <= wanted, _LEAST, 1.0)[1])

    def for_risk(self, most: float) -> PricedOption:
        """Return the largest share that leaves a guess which comes true with the baseline at most `most`.

        It is the whole budget where even that stays below the risk.
        """
        wanted = real("most", most)
        if not self.baseline < wanted <= 1:
            raise InvalidValue(f"a risk must lie above the baseline {self.baseline:g} and at most at 1. Got {wanted:g}")
        for low, high in reversed(self._stretches):
            if self._success(low) <= wanted:
                fits = self._success(high) <= wanted
                return self.at(high if fits else self._around(lambda one: self._success(one) > wanted, low, high)[0])
        raise PromiseUnreachable(f"even {percent(_LEAST)} of the budget leaves more than {wanted:g} to a guess")

    @cached_property
    def _stretches(self) -> list[tuple[float, float]]:
        """The shares with one kind of noise, from the least to the whole budget: in each the risk rises with the share.

        From one to the next it may fall, for of two kinds that are as exact at one price either may tell less.
        """
        result, first = [], _LEAST
        for before, after in itertools.pairwise(_spread(_LEAST, _POINTS)):
            if self._mechanism(before).noise != self._mechanism(after).noise:
                last, following = self._around(self._takes(self._mechanism(after).noise), before, after)
                result.append((first, last))
                first = following
        return [*result, (first, 1.0)]

    def _takes(self, noise: NoiseKind) -> Callable[[float], bool]:
        return lambda share: self._mechanism(share).noise == noise

    @staticmethod
    def _around(holds: Callable[[float], bool], least: float, most: float) -> tuple[float, float]:
        """Return a share at which something does not hold yet, and one, half a percent more, at which it does.

        It does not hold of the least share, and holds of the most.
        """
        low, high = math.log(least), math.log(most)
        while high - low > 0.005:
            middle = (low + high) / 2
            low, high = (low, middle) if holds(math.exp(middle)) else (middle, high)
        return math.exp(low), math.exp(high)

    def curve(self, least: float = 1e-3, points: int = _POINTS) -> Iterator[PricedOption]:
        """Yield offers from a small share to the whole budget, evenly spread in factors, and where the noise changes.

        Widths are known by draws, and by a hair more may seem to buy less: no offer is wider than the one before it.
        """
        width = math.inf
        changes = [item for item in itertools.chain(*self._stretches) if least < item < 1]
        for share in sorted({*_spread(least, points), *changes}):
            offer = self.at(share)
            width = min(width, offer.width)
            yield replace(offer, width=width)

    @property
    def change(self) -> str:
        """In a sentence, where the risk falls as the share grows, and why; empty where it does not."""
        pairs = itertools.pairwise(self._stretches)
        falls = [after for (_, before), (after, _) in pairs if self._success(after) < self._success(before)]
        if not falls:
            return ""
        where = " and ".join(percent(share) for share in falls)
        return f"The risk falls at {where}: from there on another kind of noise is as exact and tells less."

    def lines(self, chosen: PricedOption | None = None) -> tuple[list[str], list[list[str]]]:
        """Return the heads of a table of text, and a line an offer; the chosen one has a mark."""
        offers = {item.share: item for item in self.curve(points=7)}
        offers |= {} if chosen is None else {chosen.share: chosen}
        body = []
        for share, item in sorted(offers.items()):
            mark = "→" if chosen is not None and share == chosen.share else ""
            body.append([mark, percent(share), f"± {item.width:.3g}", people(item.success, self.baseline)])
        return ["", "share", "accuracy", f"guessed right at most ({people(self.baseline, self.baseline)} before)"], body

    def summary(self) -> str:
        """Return what shares of the budget buy, and what each leaves to a guess, as text."""
        head, body = self.lines()
        wide = [max(len(line[k]) for line in [head, *body]) for k in range(len(head))]
        shown = [
            "  ".join(cell.rjust(width) for cell, width in zip(line[1:], wide[1:], strict=True))
            for line in [head, *body]
        ]
        purse: Any = self.budget
        thousand = f"{self.n:,} {purse.budget.relation.unit}{'' if self.n == 1 else 's'}"
        foot = f"Forecast for {thousand} as imagined, {percent(self.level)} intervals, the widest row. {self.change}"
        return "\n".join([self.question.describe(), *shown, *textwrap.wrap(foot, 80)])

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"Balance({self.question.describe()!r}, n={self.n})"

    def plot(self, offer: PricedOption | None = None) -> Any:
        """Return a figure with both curves against the share: the accuracy it buys, and the risk it leaves."""
        from sottovoce.inference.figures import COLOURS, figure, titled, words  # noqa: PLC0415 - plots are an extra

        drawing, left = figure(width=6.4, height=3.8)
        offers = list(self.curve())
        shares = [100 * item.share for item in offers]
        right = left.twinx()
        left.plot(shares, [item.width for item in offers], color=COLOURS[0])
        right.plot(shares, [1000 * item.success for item in offers], color=COLOURS[1], linestyle="--")
        left.set(xscale="log", yscale="log", xlabel="share of the budget, %")
        for axis in (left.xaxis, left.yaxis):
            axis.set_major_formatter("{x:g}")
        left.yaxis.set_minor_formatter("{x:g}")
        left.set_ylabel(f"known to ± ({words(self.question.parameter)})", color=COLOURS[0])
        right.set_ylabel("of 1,000 people, guessed right at most", color=COLOURS[1])
        right.set_ylim(0, None)
        right.grid(visible=False)
        right.axhline(1000 * self.baseline, color=COLOURS[1], linewidth=0.8, linestyle=":")
        if offer is not None:
            left.plot([100 * offer.share], [offer.width], "o", color=COLOURS[0])
            right.plot([100 * offer.share], [1000 * offer.success], "o", color=COLOURS[1])
            left.axvline(100 * offer.share, color="#888888", linewidth=0.8)
        titled(drawing, self.question.describe())
        return drawing


@lru_cache(maxsize=1024)  # public values only, and the same in every plan that looks at such a share
def _success(profile: Profile, baseline: float) -> float:
    return success(profile, baseline)


def _spread(least: float, points: int) -> list[float]:
    """Return shares from the least to the whole budget, evenly spread in factors."""
    return [*np.geomspace(least, 1.0, points)[:-1].tolist(), 1.0]


def _cells(imagined: AssumedDistribution, mechanism: NoisyCells, n: int) -> Integers:
    """Return noisy counts and sums of imagined records, in whole steps: such as the question would see.

    Groups are imagined alike, but chance and noise make what is seen of them stray, by which a pooled answer tells how
    alike they are, and the widest row is one of those that stray most. So they stray here as they typically do, each by
    another of as many evenly placed parts of a normal law; a number alone strays by nothing.
    """
    question, noises = mechanism.system, list(mechanism.noises)
    reading: Any = mechanism.reading
    asked = {name: question.facts[name] for name in question.columns_asked}
    groups = {name: question.grouped_facts[name] for name in question.groups.names}
    sizes, (name, column) = imagined.sizes(n, groups, question.kept), next(iter(asked.items()))
    rng = seeded_rng(_SEED)

    def stray(values: Floats, variance: Floats | float) -> Floats:
        parts = rng.permutation(special.ndtri(evenly(values.size)))
        return np.asarray(values + np.sqrt(np.maximum(variance, 0.0)) * parts)

    if isinstance(question, SurvivalQuestion):
        event = 1 - float(imagined.shares(question.event, question.facts[question.event])[0])
        sizes = np.outer(sizes, question.imagined_shares(event)).ravel()
    elif not reading.measures:
        for name, column in asked.items():
            value_axis(name, column)  # which refuses a number that is cut
            sizes = np.outer(sizes, imagined.shares(name, column)).ravel()
    inside = np.maximum(np.rint(stray(sizes, sizes * (1 - sizes / max(n, 1)))), 0.0)
    parts = []
    if reading.counted:
        counts, noise = inside * reading.fine, noises.pop(0)
        parts.append(np.append(stray(counts, noise.variance), max(reading.places(n) - counts.sum(), 0.0)))
    if reading.measures:
        mean, spread = _law(imagined, name, column)
        middle = np.zeros(reading.cells)
        totals = [stray(inside * mean, inside * spread**2), *[middle] * (len(reading.measures) - 1)]
        sums = [*totals, *[inside * (mean**2 + spread**2) + 2 * mean * (totals[0] - inside * mean)] * reading.squared]
        if reading.crossed:  # with an exposure in the middle, of which the column is independent
            exposure = question.exposure or ""
            sums.append(inside * _law(imagined, exposure, question.facts[exposure])[1] ** 2)
            sums.append((sums[-1] + sums[-2]) / 4)
        parts += [stray(STEPS * part, noise.variance) for part, noise in zip(sums, noises, strict=True)]
    return np.asarray(np.rint(np.concatenate(parts)), dtype=np.int64)


def _law(imagined: AssumedDistribution, name: str, column: Column) -> tuple[float, float]:
    """Return the mean and the standard deviation of what is measured, on a scale from -1 to 1."""
    if isinstance(column, Flag):  # a person's share of yes, who may well have but one row
        share = float(imagined.shares(name, column)[1])
        return 2 * share - 1, 2 * math.sqrt(share * (1 - share))
    spread, said = 2 * imagined.spread_of(name, column), imagined.columns.get(name)
    return (2 * real(name, said) / column.high - 1 if isinstance(column, Count) and said is not None else 0.0), spread


def _bins(imagined: AssumedDistribution, name: str, column: Column, edges: Floats) -> Floats:
    """Return which part of numbers lies in each bin."""
    if isinstance(column, Count) and name in imagined.columns:
        parts = np.histogram(imagined.values(name, column, _PLACES), edges)[0] / _PLACES
    else:
        middle, spread = (edges[0] + edges[-1]) / 2, max(imagined.spread_of(name, column), 1e-3)
        parts = np.diff(special.ndtr((edges - middle) / (spread * (edges[-1] - edges[0]))))
    return np.asarray(parts / parts.sum())
