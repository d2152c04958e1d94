"""The looks of a regression one after the other: where the next is taken, by what those before it let out.

A walk stops where it must be told what a look says; so several go on together, and what their looks say is found at
once: the plan of a regression takes six and more.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sottovoce.inference.regression.budget_allocation import TAILS, Step, split
from sottovoce.inference.regression.censored_counts import farther, seen_farther
from sottovoce.inference.regression.count_cuts import cut_counts, cut_variation
from sottovoce.inference.regression.look_posterior import AskedTerm, LookPosterior, believe_all
from sottovoce.inference.regression.misspecification import Misspecification, doubt, lost, thick
from sottovoce.inference.regression.noisy_score_information import NoisyScoreInformation, once_each, round_shape
from sottovoce.inference.regression.overdispersion import Overdispersion
from sottovoce.inference.regression.released_look import ReleasedLook
from sottovoce.inference.regression.residual_tails import ALIKE, ResidualTail, Weighed, cuts, tail_look
from sottovoce.inference.regression.sampler_settings import RELEASED, SamplerSettings
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings import Look

if TYPE_CHECKING:
    from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks

__all__ = ["Path", "Shown", "final", "strides", "together"]

Shown = Callable[[Look, Mapping[str, float]], Floats]
"""From a look and its noise to its noisy total."""
Found = TypeVar("Found")

_FAR = 3.5
"""Residuals are cut at so many standard deviations at least."""
_LENGTHS = 32
"""At so many lengths it is tried to cut them."""
_SEEN = 7.0
"""What the information has in a direction is to be so many times its noise, or noise would hide columns."""
_LAST, _LESS = 0.68, 0.44
"""How much less noise a look in round coordinates has than one before it for the same price, and for a higher one."""
_LITTLE = 0.05
"""What cut residuals lose is not measured where it may move a level by less than this part, squared, of how far records
move it by themselves."""
_SHORTER, _SHORTEST = 0.8, 0.5
"""Where rows longer than the norm pull as far as any, the norm is so much shorter, and no shorter than that."""


class Path(list[tuple[NoisyScoreInformation, LookPosterior | None]]):
    """What each look let out, and what it says where that was asked; and every look as it was released."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[ReleasedLook] = []


def together(walks: Sequence[Generator[AskedTerm, LookPosterior, Found]]) -> list[Found]:
    """Return the ends of several walks, each told what its looks say when all have asked."""
    ends: dict[int, Found] = {}
    shown: dict[int, LookPosterior | None] = dict.fromkeys(range(len(walks)))
    while shown:
        asked: dict[int, AskedTerm] = {}
        for place, belief in shown.items():
            try:
                asked[place] = next(walks[place]) if belief is None else walks[place].send(belief)
            except StopIteration as end:
                ends[place] = end.value
        shown = dict(zip(asked, believe_all(list(asked.values())), strict=True))
    return [ends[place] for place in range(len(walks))]


def strides(
    mechanism: AdaptiveLooks, shown: Shown, care: SamplerSettings = RELEASED
) -> Generator[AskedTerm, LookPosterior, Path]:
    """Take the looks: `shown` gives the noisy total of each, and what it gives decides where the next is taken."""
    path = Path()

    def taken(look: Look, scales: Mapping[str, float]) -> Floats:
        total = shown(look, scales)
        path.looks.append(ReleasedLook(look, dict(scales), mechanism.paid(look, scales) / mechanism.rho, total))
        return total

    look, step = mechanism.reading, mechanism.plan[0]
    paid, astray = step, None
    for place in range(len(mechanism.plan)):
        if mechanism.plan[place] == TAILS:  # it is taken with the last look, which says what is cut
            continue
        if place:
            look, step, astray = _next(mechanism, path, place, paid, care)
        paid = step if "score" in step[1] else paid
        scales = mechanism.scales(look, step)
        glance = NoisyScoreInformation.of(look, mechanism.n, taken(look, scales), scales)
        if astray is not None:
            missed, misses = _missed(astray, glance, _latest(path)[1], care)
            glance = replace(glance, missed=missed, misses=misses)
            if astray.tail is not None and mechanism.system.family == "linear":
                glance = _filled(mechanism, glance, astray, astray.tail, taken, care)
            elif astray.tail is not None:
                glance = replace(glance, far=seen_farther(mechanism, astray.tail, taken, _extra(path), care))
        belief = None
        if place < len(mechanism.plan) - 1 and glance.score is not None:
            system, least = mechanism.system, min(mechanism.system.guesses, care.guesses)
            options: dict[str, Any] = {"at_least": least, "care": care, "prior_mean": system.prior_mean}
            belief = yield AskedTerm(glance, system.prior_sd, _own(glance), several=False, **options)
        path.append((glance, belief))
    return path


def final(
    mechanism: AdaptiveLooks,
    path: Sequence[tuple[NoisyScoreInformation, LookPosterior | None]],
    care: SamplerSettings = RELEASED,
) -> AskedTerm:
    """Return what the last look is asked."""
    last, system = path[-1][0], mechanism.system
    extra = _extra(path) if system.family == "poisson" else None
    least = min(system.guesses, care.guesses)
    options: dict[str, Any] = {"at_least": least, "care": care, "prior_mean": system.prior_mean}
    return AskedTerm(last, system.prior_sd, last, several=True, extra=extra, last=True, **options)


def _next(
    mechanism: AdaptiveLooks, path: Path, place: int, paid: Step, care: SamplerSettings
) -> tuple[Look, Step, Misspecification | None]:
    """Return the next look and how it is split, by what was released: where the last points to, and there round; and
    of the last one what may move its score.

    `paid` is what the last look at a score was given.
    """
    glance, belief = _latest(path)
    step = mechanism.plan[place]
    if "score" not in step[1]:
        first = glance.look.model.most  # type: ignore[attr-defined]
        return cut_variation(mechanism, *_rows(glance, belief), belief.mean, first, step), step, None
    shape = round_shape(glance)
    rows, records = _rows(glance, belief)
    last = place == len(mechanism.plan) - 1
    exact = mechanism.system.model.curved and last
    room = _room(mechanism, glance, paid[0] * paid[1]["score"] / (step[0] * step[1]["score"]) if exact else _LESS)
    lengths = float(records @ ((rows @ shape.T) ** 2).sum(axis=1) / records.sum()) * room**2
    centre = belief.mean
    if mechanism.system.family == "linear":  # what is expected of a response lies within its bounds
        far = np.sort(np.abs(rows @ centre))
        centre = centre / max(1.0, float(np.interp(0.95 * (len(far) - 1), np.arange(len(far)), far)))
    look = mechanism.system.look_at(mechanism.n, centre, shape, math.sqrt(max(lengths, 1e-18)), tuple(step[1]))
    if mechanism.system.family == "linear":
        look = look.of_cap(min(_FAR * math.sqrt(glance.dispersion), 1.0))
    elif mechanism.system.family == "poisson":
        look = cut_counts(mechanism, look, rows, records, step, _extra(path))
    off, astray = _off(look, belief), None
    if last:
        look, astray = _wider(mechanism, look, rows, records, step, glance, off, care)
        if mechanism.system.family == "poisson" and TAILS in mechanism.plan:
            astray = replace(astray, tail=farther(mechanism, look, astray, _extra(path)))
        if TAILS in mechanism.plan and astray.tail is None:  # next to nothing is cut
            step = (step[0] + TAILS[0], step[1])
    return look, _split(mechanism, look, step, off), astray


def _filled(
    mechanism: AdaptiveLooks,
    glance: NoisyScoreInformation,
    astray: Misspecification,
    tail: ResidualTail,
    shown: Shown,
    care: SamplerSettings,
) -> NoisyScoreInformation:
    """Return the last look with what residuals lose put back, by a look at what it cuts off.

    Its score is that of uncut residuals about a centre that is off by what they lose.
    """
    look, (full, *_) = glance.look, mechanism.system.encoding.wholes
    rows, item = Weighed(astray.rows, astray.records, astray.now), glance.back[full].sum(axis=0)  # it makes 1 of all
    rows = rows.counted(float(item @ glance.levelled @ item), item)
    beyond = tail_look(mechanism.system, mechanism.n, look, rows, tail.farther)
    scales = mechanism.scales(beyond, TAILS)
    seen = shown(beyond, scales) / beyond.pull
    noise = scales["score"] / beyond.pull
    mean, covariance = tail.told(seen, noise, beyond, glance.back, item, rows, drawn=care.drawn)
    assert glance.missed is not None
    return replace(
        glance,
        look=replace(look, centre=tuple((look.predictors[0] + mean).tolist())),
        missed=glance.missed + covariance,
    )


def _latest(path: Path) -> tuple[NoisyScoreInformation, LookPosterior]:
    """Return the last look that was asked what it says, and that."""
    return next((glance, belief) for glance, belief in reversed(path) if belief is not None)


def _missed(
    astray: Misspecification, glance: NoisyScoreInformation, belief: LookPosterior, care: SamplerSettings
) -> tuple[Floats, float]:
    """Return by how much what the formula misses may move the score of the last look, and how much it misses: the look
    before it said where that would be none.
    """
    look, back = glance.look, glance.back.T
    assert glance.score is not None
    score, mean = (part.reshape(look.model.outputs, -1) for part in (glance.score, belief.mean))
    off = mean @ back.T - look.predictors
    result, misses = astray.told(
        score if care.drawn else None, off, glance.sigma, back @ glance.averaged(belief.covariance) @ back.T
    )
    return once_each(result, look.model.outputs), misses


def _wider(
    mechanism: AdaptiveLooks,
    look: Look,
    rows: Floats,
    records: Floats,
    step: Step,
    glance: NoisyScoreInformation,
    off: float,
    care: SamplerSettings,
) -> tuple[Look, Misspecification]:
    """Return a look with the norm, and where residuals are cut the cap, at which noise, variation and doubt do least;
    and the doubt.

    A longer norm and a higher cap cost noise; a shorter norm weighs long rows less, so that what the formula misses
    moves the answer, and a lower cap loses what lies beyond it. Noise of the information counts as in `_split`, and is
    to hide no more than it must.
    """

    def weighed(x: Floats) -> Floats:
        return glance.look.weights(((x @ glance.look.matrix.T) ** 2).sum(axis=1))

    x, counts = thick(rows, records, look.encoding, weighed)
    counts = (
        counts * (mechanism.n / counts.sum()) if mechanism.n else counts
    )  # looks before this one weighed long rows less
    z = x @ look.matrix.T
    squares, t = (z * z).sum(axis=1), z @ look.predictors.T
    slopes = look.model.mean_and_slope(t[:, 0] if t.shape[1] == 1 else t)[1]
    slopes = slopes if slopes.ndim == 1 else np.diagonal(slopes, axis1=1, axis2=2).mean(axis=1)
    varies, times, losses, tails = 1.0, np.ones(1), np.zeros((1, len(z))), None  # by how many times more they keep
    if mechanism.system.family == "linear" and look.cap:
        varies, most = glance.dispersion, 1 + np.minimum(np.abs(t[:, 0]), 1.0)
        times = np.geomspace(1.0, max(1.0, float(most.max()) / look.cap), _LENGTHS)
        losses = lost(math.sqrt(varies), look.cap * times[:, None], most)
        if TAILS in mechanism.plan:
            tails = _tails(mechanism, look, look.cap * times, math.sqrt(varies), float(most.max()), z, counts)
    norms = np.geomspace(look.norm, max(look.norm, float(np.sqrt(squares.max()))), care.norms)
    v = np.array([look.weights(squares, float(norm)) for norm in norms])
    shown, meat, moved = doubt(z, counts, slopes, v)
    score, information = _noises(mechanism, look, norms, step, off, 3 * care.fewer)
    tau = mechanism.system.misses or 0.0
    size, wholes = len(z.T), [np.trace(part, axis1=1, axis2=2) for part in (shown, meat, tau**2 * moved)]
    noise = size * (score[:, None] * times**2 + information[:, None] * off / 2)
    cut = counts.sum() * ((counts * v**2 * squares) @ (losses**2).T)
    if tails is not None:  # it is measured what is lost
        alike = (((counts * v) @ z) ** 2).sum(axis=1)
        unlike = np.maximum(counts.sum() * (v**2 @ (counts * squares)) - alike, 0.0)
        cut = alike[:, None] * tails.left + unlike[:, None] * tails.unlike(size)
    bad = (((wholes[1] + wholes[2]) * varies)[:, None] + noise + cut) / wholes[0][:, None] ** 2
    hides = np.sqrt(information) > 1 / _SEEN  # in round coordinates the information is about one
    bad[hides & (np.arange(len(norms)) > 0)] = math.inf
    place, keeps = np.unravel_index(int(np.argmin(bad)), bad.shape)
    lose = counts.sum() * (z.T * (counts * (v[place] * losses[keeps]) ** 2)) @ z
    tail = None if tails is None else tails.at(int(keeps))
    if tail is not None:
        little = tail.before + tail.after < _LITTLE * varies / max(counts.sum(), 1.0)
        tail = tail if tail.cap < tail.farther and not little else None
    lose = lose if tail is None else np.zeros_like(lose)
    bent = varies * moved[place]
    astray = Misspecification(z, counts, slopes, weighed(x), v[place], varies, tau, look.model.missed, bent, lose, tail)
    look, cap = look.of_norm(float(norms[place])), look.cap * float(times[keeps])
    return look if cap == look.cap else look.of_cap(cap, look.extra), astray


def _tails(
    mechanism: AdaptiveLooks, look: Look, caps: Floats, sd: float, most: float, z: Floats, records: Floats
) -> ResidualTail:
    """Return what a look at what is cut off would leave to be doubted, for each of several cuts."""
    rows = Weighed(z, records, np.ones(len(z)))
    item = tail_look(mechanism.system, mechanism.n, look.of_cap(min(look.cap, most / 2)), rows, most)
    noise = mechanism.scales(item, TAILS)["score"] / item.pull / (item.cap - item.beyond)
    return ResidualTail.of(ALIKE * sd * sd, *cuts(caps, most), most, noise / rows.many)


def _noise(mechanism: AdaptiveLooks, look: Look, step: Step) -> tuple[float, float]:
    """Return the variance of the noise of the score and of the information."""
    noise, (pull, lean) = mechanism.scales(look, step), look.factors
    return (noise["score"] / pull) ** 2, (noise["information"] / lean**2) ** 2


def _noises(
    mechanism: AdaptiveLooks, look: Look, norms: Floats, step: Step, off: float, every: int
) -> tuple[Floats, Floats]:
    """Return the same of looks of rising norms, of which one in so many is asked: noise grows evenly with the norm."""
    subset = sorted({*range(0, len(norms), every), len(norms) - 1})
    looks = [look.of_norm(float(norms[k])) for k in subset]
    asked = [_noise(mechanism, item, _split(mechanism, item, step, off)) for item in looks]
    score, information = np.log(asked).T
    places = np.arange(len(norms))
    return np.exp(np.interp(places, subset, score)), np.exp(np.interp(places, subset, information))


def _off(look: Look, belief: LookPosterior) -> float:
    """Return how far, squared, the truth may be from what is believed, in the coordinates of a look."""
    back = once_each(look.back.T, look.model.outputs)
    return float(np.trace(back @ belief.covariance @ back.T))


def _rows(glance: NoisyScoreInformation, belief: LookPosterior) -> tuple[Floats, Floats]:
    """Return imagined rows, in the coordinates of x, and how many records each stands for."""
    assert belief.imagined is not None
    return belief.imagined.rows[0] @ glance.back.T, belief.imagined.records[0]


def _extra(path: Sequence[tuple[NoisyScoreInformation, LookPosterior | None]]) -> Overdispersion:
    """Return what is believed of how much more counts vary than a Poisson law's."""
    seen = next((glance for glance, _ in path if glance.score is None), None)
    if seen is None:
        return Overdispersion()
    glance, belief = next(pair for pair in reversed(path) if pair[1] is not None)
    assert belief is not None
    return _told(seen, glance, belief)


@functools.lru_cache(maxsize=16)
def _told(seen: NoisyScoreInformation, glance: NoisyScoreInformation, belief: LookPosterior) -> Overdispersion:
    """Return what the look at how much counts vary tells, asked by the next look and by the end."""
    rows, records = _rows(glance, belief)
    misses = ((rows @ belief.covariance) * rows).sum(axis=1)
    return Overdispersion.of(seen, rows, records, misses, glance.look.model)  # type: ignore[arg-type]


def _split(mechanism: AdaptiveLooks, look: Look, step: Step, off: float) -> Step:
    """Return what of a look's share each part is given: of a mean that bends, by where noise does least."""
    if not mechanism.system.model.curved:
        return step
    score, information = _noise(mechanism, look, step)
    return split(step, score * step[1]["score"], information * step[1]["information"], off)


def _room(mechanism: AdaptiveLooks, glance: NoisyScoreInformation, less: float) -> float:
    """Return how much longer than the average rows may be and weigh fully: more where noise is the lesser part.

    A longer norm wastes less of long rows and costs more noise. This rule is within 2 % of the best norm for rows
    with normal, t₅ and t₃ tails. The next look's noise is `less` than that of this one.
    """
    varies = glance.dispersion if not mechanism.system.model.curved else 1.0
    noise = glance.sigma**2 * len(glance.known) / max(float(glance.known.trace()) * varies, 1e-300)
    shorter, least = (1.0, 1.0) if mechanism.system.model.stretch == 1 else (_SHORTER, _SHORTEST)
    return float(np.clip(shorter * (_LAST * less * noise) ** -0.17, least, 6.0)) if noise > 0 else 6.0


def _own(glance: NoisyScoreInformation) -> NoisyScoreInformation | None:
    """Return the look itself where it measured how much its score varies."""
    return glance if glance.meat is not None else None
