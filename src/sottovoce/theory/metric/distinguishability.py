"""How many answers until two data sets can be told apart (Dimitrakakis et al. 2014, §4.3 and appendix A).

Two data sets are *told apart with error e* by an adversary who sees the answers and names one of the two, wrongly
with probability at most e whichever it is. Such an adversary is a machine that takes the answers and returns one bit:
post-processing. Whatever bounds the answers bounds the bit, and the bit is randomized response. So nobody tells the
data sets apart before the answers have cost as much as one randomized response of error e, in any notion of privacy.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
from scipy import special

from sottovoce.privacy.errors import IncompatibleNotions, InvalidValue
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.numbers import ceil_float, floor_float, log_up, real, shown, whole
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.theory.metric.metric import MetricDP

_LIFTED = Fraction(1, 2**43)
"""More than rounding up adds to the cost of one guess: what answers are counted up to must not be above it."""


def one_guess(error: float = 0.05) -> PureProfile:
    """Return the profile of one guess that is wrong with probability `error`: randomized response.

    >>> round(one_guess(0.05).level, 4), round(one_guess(0.05).delta(0.0), 4)
    (2.9444, 0.9)
    """
    e = _error(error, below=0.5)
    return PureProfile(log_up(1 - Fraction(e), Fraction(e)), basis=Basis.EXACT)


def best_guess(profile: Profile) -> float:
    """Return the largest chance of naming the right one of two neighbouring data sets, each as likely as the other.

    (1 + total variation)/2, with the total variation δ(0).

    >>> best_guess(PureProfile(0.0)), round(best_guess(PureProfile(1.0)), 4)
    (0.5, 0.7311)
    """
    return ceil_float((1 + Fraction(_profile(profile).delta(0.0))) / 2)


def answers_withstood(profile: Profile, error: float = 0.05, *, most: int = 1_000_000) -> float:
    """Return how many answers leave two data sets not told apart with this error, by any adversary.

    A k, the largest or within 0.2 % of it, for which the total variation of k answers, δ(0) of ``k * profile``, is
    below 1 - 2·error. The questions are fixed in advance: use `answers_left` when the next depends on the last answer.

    Parameters
    ----------
    profile
        What one answer does: a mechanism's profile (for any two neighbours), or that of one pair of data sets.
    error
        How often the adversary may be wrong, below 1/2.
    most
        Where to stop counting; beyond it the answer is infinite.

    Examples
    --------
    >>> from sottovoce.privacy.gaussian import GaussianProfile
    >>> answers_withstood(GaussianProfile(0.5), error=0.05)
    43.0
    """
    e, profile, most = _error(error, below=0.5), _profile(profile), _whole("most", most)

    def reach(count: int) -> float:
        """The separation sqrt(count)·c of the two normal laws that have the same total variation."""
        return 2 * float(special.ndtri(best_guess(count * profile)))

    wanted = -2 * float(special.ndtri(e))
    low, high = _by_renyi(profile, e), math.inf
    if low >= most:
        return math.inf
    guess = max(int(low), 1)
    # Many small answers look Gaussian, so each evaluation nearly finds the place; two more make it sure.
    while high - low > max(1, low // 500):
        seen = reach(guess)
        low, high = (guess, high) if seen < wanted else (low, guess)
        if low >= most:
            return math.inf
        scaled = guess * (wanted / max(seen, 1e-9)) ** 2
        guess = int(scaled * 1.001) + 1 if low == guess else int(scaled * 0.999) - 1
        guess = min(max(guess, int(low) + 1), most, int(high) - 1 if math.isfinite(high) else most)
    return float(low)


def _by_renyi(profile: Profile, error: float) -> float:
    """Return a number of answers surely withstood: k·R(λ) below the guess's own divergence at some order."""
    top = min(profile.pole, 64.0)
    orders = 1 + (top - 1) * np.linspace(0.0, 0.999, 40) ** 2
    costs, price = profile.renyi(orders), one_guess(error).renyi(orders)
    if not (costs > 0).any():
        return math.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(costs > 0, price / costs, 0.0)
    return max(math.ceil(float(ratio.max()) * (1 - 1e-9)) - 1, 0)


def answers_left(purse: PrivacyFilter, profile: Profile, error: float = 0.05) -> float:
    """Return how many more such answers leave every two neighbours not told apart, however the questions are chosen.

    One guess of this error has a price in the units of the filter. Until so much is spent no adversary makes it, even
    one who picks each question by the answers before it: the price is a level fixed in advance, and a filter that
    stops there keeps it (Feldman and Zrnic 2021; see `PrivacyFilter` for the other notions). The budget itself, which
    may stop the answers earlier, plays no part here.

    Examples
    --------
    >>> from sottovoce.privacy.gaussian import GaussianProfile
    >>> from sottovoce.privacy.promises import GaussianDP
    >>> answers_left(PrivacyFilter(GaussianDP(1.0)), GaussianProfile(0.5), error=0.05)
    43.0
    """
    if not isinstance(purse, PrivacyFilter):
        raise IncompatibleNotions(f"expected a filter such as PrivacyFilter(PureDP(1.0)). Got {shown(purse)}")
    price, cost = purse.cost(one_guess(error).about(purse.budget.relation)), purse.cost(profile)
    if math.isinf(cost):
        return 0.0
    remaining = Fraction(price) * (1 - _LIFTED) - sum(map(Fraction, purse.costs), Fraction(0))
    if cost == 0:
        return math.inf if remaining > 0 else 0.0
    count = max(math.ceil(remaining / Fraction(cost)) - 1, 0)  # strictly below the price
    return floor_float(Fraction(min(count, int(sys.float_info.max))))


def histogram_cells(error: float) -> int:
    """Return how many cells Lemma 2 allows the adversary's histogram: log₂ sqrt(1/error), at least 2.

    >>> histogram_cells(0.01)
    3
    """
    e = _error(error, below=1.0)
    cells = math.floor(-math.log2(e) / 2 + 1e-12)
    if cells < 2:
        raise InvalidValue(f"Lemma 2 needs an error of at most 1/16, for a histogram of two cells. Got {e:g}")
    return cells


def histogram_resolution(answers: int, error: float) -> float:
    """Return the L1 distance within which k answers place the posterior, except with this error (Lemma 2).

    sqrt(3 ln(1/error)/k), on any partition of at most `histogram_cells` cells (Weissman et al. 2003).

    >>> round(histogram_resolution(1000, 0.01), 4)
    0.1175
    """
    histogram_cells(error)
    return math.sqrt(-3 * math.log(error) / _whole("answers", answers))


def histogram_answers(total_variation: float, error: float) -> float:
    """Return a number of answers with which a histogram of two cells does tell two data sets apart.

    The cells are where one posterior is the denser and where the other is; there the two lie 2·TV apart in L1, and
    within the resolution of Lemma 2 only one of them is near. It is the other side of `answers_withstood`: enough
    answers for this adversary, where that one says how many are too few for any.

    >>> histogram_answers(0.165, 0.05)
    331.0
    """
    tv = real("total_variation", total_variation)
    if tv > 1:
        raise InvalidValue(f"total_variation must be <= 1. Got {tv}")
    histogram_cells(error)
    return math.inf if tv == 0 else float(math.floor(-3 * math.log(error) / tv**2) + 1)


def theorem_three_answers(privacy: MetricDP, x: object, y: object, error: float) -> float:
    """Return 3 ln(1/error)/(4Lρ(x, y)), the number of answers of Theorem 3(i).

    The theorem says that with so many answers the adversary *can* tell x from y. Its proof says the reverse: with
    fewer, the histogram's resolution is coarser than the two posteriors can lie apart at all. Data sets far apart in ρ
    may well have one posterior ([0, 1] and [1, 0] for a proportion) and are then never told apart. Read it as a lower
    bound; `answers_withstood` gives a larger one, for every adversary.

    >>> from sottovoce.theory.metric.metric import MetricDP, absolute_distance
    >>> round(theorem_three_answers(MetricDP(0.1, absolute_distance), [0, 1], [0, 0], 0.05), 2)
    22.47
    """
    histogram_cells(error)
    scale = privacy.lipschitz * privacy.distance(x, y)
    return math.inf if scale == 0 else -3 * math.log(error) / (4 * scale)


def guess_error(distance: float, total_variation: float) -> float:
    """Return Le Cam's lower bound on how far an adversary's guess lies from the data, on average (Lemma 8).

    ρ/2·(1 - TV): whatever is computed from the answers, its expected distance from the truth is at least this for one
    of two data sets at distance ρ, where TV is the total variation of all the answers together (`delta(0)` of their
    profile, or any upper bound).

    >>> guess_error(distance=2.0, total_variation=0.25)
    0.75
    """
    tv = real("total_variation", total_variation)
    if tv > 1:
        raise InvalidValue(f"total_variation must be <= 1. Got {tv}")
    return real("distance", distance) / 2 * (1 - tv)


def _error(error: float, below: float) -> float:
    e = real("error", error, below=below)
    if e == 0:
        raise InvalidValue("error must be > 0: certainty takes infinitely many answers. Got 0")
    return e


def _profile(profile: Profile) -> Profile:
    if not isinstance(profile, Profile):
        raise IncompatibleNotions(f"expected a profile such as GaussianProfile(0.5). Got {shown(profile)}")
    return profile


def _whole(name: str, value: int) -> int:
    return whole(name, value, 1)
