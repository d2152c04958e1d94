r"""What counts have beyond where they are cut, measured by one small look, and what that tells of levels.

The last look cuts counts at K, and what is expected of cut counts follows from a law of their rates. Where rates
follow another law all counts lose more or less beyond K than that says, as a part λ of them (`overdispersed`). So one
look more adds up what counts have between K and a farther cut m, every record weighing the same, with noise that grows
with m − K. What is more there than the law says tells λ, and what to think of what lies beyond m: a tail goes on as it
began (`tails`). Where λ was only guessed, levels were told too low where a few records have most of all that is
counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy import special

from sottovoce.inference.regression.budget_allocation import TAILS
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.misspecification import learned
from sottovoce.inference.regression.overdispersion import Overdispersion
from sottovoce.inference.regression.pseudo_row_moments import PseudoRowMoments
from sottovoce.inference.regression.residual_tails import ResidualTail
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings import Look
from sottovoce.records.readings.families import PoissonFamily

if TYPE_CHECKING:
    from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
    from sottovoce.inference.regression.adaptive_newton import Shown
    from sottovoce.inference.regression.misspecification import Misspecification
    from sottovoce.inference.regression.sampler_settings import SamplerSettings

_TINY = 2.0**-20
"""What is left of all entries of a row but the constant."""
_CUTS = 24
"""Among so many places it is chosen where counts are cut the second time."""
_LONGER, _FARTHER = 4.0, 4.0
"""λ may be so many times what it is taken to be where counts are cut the first time, for here it is learned; and they
are cut the second time where that is best for one so many times as large again: a long tail is not to be missed."""
_VARIES = 1.5
"""By how much λ differs from table to table: the standard deviation of its logarithm."""
_WORTH = 0.9
"""The look is taken where it leaves less than this part, as a variance, of what is doubted."""
_ROUGH = 0.5
"""How far, as a part of it, what the law has beyond the cut may be off."""
_LENGTHS = np.array([0.5, 0.3, 0.15, 0.04, 9e-3, 9e-4, 1e-4])
"""Parts of all rows, the longest last: numbers with t₃ tails are in each as if normal, but some times as long."""
_TIMES = np.sqrt(0.5 / special.gammaincinv(1.5, 1 - np.cumsum(_LENGTHS) + _LENGTHS / 2))
"""So many times, that their variance is as imagined."""
_KNOWN = 4.0
"""Where linear predictors vary by more than this, nobody can tell what the law has beyond the cut."""
_FLAT = 1e-9


def far_look(system: Formula, n: int | None, cap: int, far: int) -> Look:
    """Return a look at what counts have between two cuts, every record weighing the same."""
    (full, *_), size = system.encoding.wholes, system.encoding.size
    shape = _TINY * np.eye(size)
    shape[full[0]] = np.isin(np.arange(size), full)
    return system.look_at(n, np.zeros(size), shape, 1 + _TINY, ("score",), far, beyond=cap)


def farther(mechanism: AdaptiveLooks, look: Look, rows: Misspecification, extra: Overdispersion) -> ResidualTail | None:
    """Return where counts are cut the second time and what that leaves; None where nothing is cut or a look at it would
    tell next to nothing.

    Parameters
    ----------
    look, rows
        The last look, and rows that it may have.
    extra
        What is believed of how much counts vary.
    """
    family = look.model
    assert isinstance(family, PoissonFamily)
    cap, most = family.most, int(family.response.high)  # type: ignore[attr-defined]
    if cap >= most:
        return None
    item = far_look(mechanism.system, mechanism.n, cap, most)
    # The noise of λ, for each unit between the two cuts.
    noise = mechanism.scales(item, TAILS)["score"] / item.pull / (most - cap)
    noise = noise / max(float(rows.records @ rows.slopes), 1e-300)
    mean = float(rows.records @ family.expected(rows.rows @ look.predictors[0]) / rows.records.sum())
    cuts, size = np.unique(np.rint(np.geomspace(cap + 1, most, _CUTS))), _LONGER * extra.tail * mean
    first = np.array([float(cap)])
    far = ResidualTail.of(_FARTHER * size, first, cuts[None], most, noise).farther
    result = ResidualTail.of(size, first, far[:, None], most, noise).at(0)
    return result if result.left < _WORTH * (result.before + result.after) else None


def seen_farther(
    mechanism: AdaptiveLooks, tail: ResidualTail, shown: Shown, extra: Overdispersion, care: SamplerSettings
) -> FarCounts:
    """Take the look, and return what it let out."""
    look = far_look(mechanism.system, mechanism.n, int(tail.cap), int(tail.farther))
    scales = mechanism.scales(look, TAILS)
    seen = float(shown(look, scales)[look.encoding.wholes[0][0]])
    return FarCounts(tail, seen / look.pull, scales["score"] / look.pull, extra, mechanism.n, care.drawn)


@dataclass(frozen=True, eq=False)
class _Sum:
    """What a law says of the sum of what lies between the cuts, one for each guess.

    Attributes
    ----------
    expected, rises
        The sum, and how it grows with θ.
    told
        Σμ′ of counts cut the first time: by how much more there is beyond for each λ.
    turned, beside
        How θ, and the sum at that θ, move with what counts are taken to vary by.
    rough
        How far the sum may be off, for rows are longer than imagined ones.
    """

    expected: Floats
    rises: Floats
    told: Floats
    turned: Floats
    beside: Floats
    rough: Floats

    @classmethod
    def of(
        cls,
        family: PoissonFamily,
        far: int,
        extra: Overdispersion,
        x: Floats,
        t: Floats,
        seen: Floats,
        records: Floats,
        longer: Floats,
    ) -> Self:
        """Return it by rows, their linear predictors, and how many records each stands for: as the last look weighs
        them, and all; and by the linear predictors of `longer` rows, in seven parts of all.
        """
        farther = replace(family, cap=far)
        near, slope = family.mean_and_slope(t)
        mean, steep = farther.mean_and_slope(t)
        high, low = extra.sides(family)
        shift = (high.mean(t) - low.mean(t)) / 2
        more = (replace(high, cap=far).mean(t) - replace(low, cap=far).mean(t)) / 2 - shift
        H = x.transpose(0, 2, 1) @ (x * (seen * slope)[:, :, None])
        H = H + _FLAT * np.trace(H, axis1=1, axis2=2)[:, None, None] * np.eye(H.shape[1])
        moved = np.linalg.solve(H, x.transpose(0, 2, 1) @ (seen * shift)[:, :, None])
        rises = x.transpose(0, 2, 1) @ (records * (steep - slope))[:, :, None]
        expected, shown, beside = ((records * part).sum(axis=1) for part in (mean - near, slope, more))
        beyond = np.tensordot(_LENGTHS, farther.mean(longer) - family.mean(longer), 1)
        rough = np.maximum((records * beyond).sum(axis=1) - expected, _ROUGH * expected)
        return cls(expected, rises[:, :, 0], shown, -moved[:, :, 0], beside, rough)


@dataclass(frozen=True, eq=False)
class FarCounts:
    """What a `far_look` let out.

    Attributes
    ----------
    tail
        What was known of λ before it, where counts are cut, and the noise.
    seen, noise
        The sum and its noise.
    extra, n
        What is believed of how much counts vary, and how many records there are.
    drawn
        Whether λ is learned from what was seen, or from what noise alone shows on average.
    """

    tail: ResidualTail
    seen: float
    noise: float
    extra: Overdispersion
    n: int | None
    drawn: bool

    def told(self, look: Look, imagined: PseudoRowMoments, means: Floats, covariances: Floats) -> tuple[Floats, Floats]:
        """Return the means and covariances of θ, one for each guess, by what the last look says and what was seen here.

        What that says goes with what counts are taken to vary by, and to lose: both move what is expected beyond the
        cut, too.

        Parameters
        ----------
        look, imagined
            The last look, and rows by guess.
        means, covariances
            What it says, in the coordinates of x.
        """
        (family,), size = imagined.families, means.shape[1]
        assert isinstance(family, PoissonFamily)
        x, seen = imagined.rows @ look.back.T, imagined.records
        records = seen / look.weights((imagined.rows**2).sum(axis=2))
        if self.n:
            records = records * np.minimum(1.0, self.n / records.sum(axis=1, keepdims=True))
        t = (x @ means[:, :, None])[:, :, 0]
        longer = _longer(look, x, records) @ means[:, :, None]
        law = _Sum.of(family, int(self.tail.farther), self.extra, x, t, seen, records, longer[..., 0])
        item = np.isin(np.arange(size), look.encoding.wholes[0]).astype(np.float64)
        result, remaining = self._updated(law, item, means, covariances)
        known = (((x @ covariances) * x).sum(axis=2).mean(axis=1) < _KNOWN)[:, None]
        return np.where(known, result, means), np.where(known[:, :, None], remaining, covariances)

    def _updated(self, law: _Sum, one: Floats, means: Floats, covariances: Floats) -> tuple[Floats, Floats]:
        """Return both where all is normal, and moves along straight lines: λ along `one`, all levels alike."""
        tail, on = self.tail, 1 + self.tail.goes_on
        guessed = (tail.before + tail.after) / _LONGER**2  # what of λ is in the covariances
        # No more of them goes with what counts vary by, and lose, than there is.
        ways = np.stack([law.turned, math.sqrt(guessed) * np.broadcast_to(one, means.shape)], axis=2)
        share = np.linalg.eigvalsh(ways.transpose(0, 2, 1) @ np.linalg.solve(covariances, ways))[:, -1]
        part = 1 / np.sqrt(np.maximum(1.0, share))[:, None]
        turned, ones = law.turned * part, one * part
        alone = ones[:, :, None] * ones[:, None]
        bare = covariances - guessed * alone
        moved = (bare @ law.rises[:, :, None])[:, :, 0] + turned * law.beside[:, None]
        varies = (law.rises * (moved + turned * law.beside[:, None])).sum(axis=1)
        sampled = (tail.farther - tail.cap) * np.maximum(law.expected, self.noise)
        varies = np.maximum(varies + law.beside**2, 0.0) + self.noise**2 + sampled + law.rough**2
        # Of each λ before the second cut, so much more in the sum; and of what lies beyond it, which moves θ alone.
        alike = (law.rises * ones).sum(axis=1)
        each = law.told + on * alike
        value = each**2 * tail.before + alike**2 * tail.after
        gap = self.seen - law.expected
        gaps = (gap / np.sqrt(varies))[None] if self.drawn else 1
        times = learned(1.0, value / varies, gaps, varies=_VARIES)
        along = moved + ones * (times * (on * tail.before * each + tail.after * alike))[:, None]
        varies = varies + times * value
        remaining = bare + (times * (on**2 * tail.before + tail.after))[:, None, None] * alone
        remaining = remaining - along[:, :, None] * along[:, None] / varies[:, None, None]
        return means + along * (gap / varies)[:, None], remaining


def _longer(look: Look, x: Floats, records: Floats) -> Floats:
    """Return rows in which numbers have long tails, within their public bounds: the longer ones last, by guess and row.

    A look weighs long rows less, and imagined ones are as it saw them. Few counts of any rows lie beyond a cut: most of
    those that do may be of rows that are longer.
    """
    encoding = look.encoding
    numbers = encoding.numbers & ~encoding.ones
    middle = (records[:, None] @ x) / records.sum(axis=1)[:, None, None]
    long = np.clip(middle + _TIMES[:, None, None, None] * (x - middle), *encoding.ends)
    return np.where(numbers, long, x)
