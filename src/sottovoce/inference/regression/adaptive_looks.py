"""Adaptive looks: a regression from three to five noisy looks, each where the one before it says the answer lies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.regression.adaptive_newton import Path, Shown, final, strides, together
from sottovoce.inference.regression.budget_allocation import Step, steps, without_variation
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.joint_posterior import JointRegression
from sottovoce.inference.regression.look_posterior import LookPosterior, believe_all
from sottovoce.inference.regression.sampler_settings import RELEASED, SamplerSettings
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.mechanisms.mechanism import Choices, Mechanism
from sottovoce.mechanisms.observation_model import infer
from sottovoce.mechanisms.single_threaded import one_thread
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, real
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE
from sottovoce.records.facts import Category, Facts, Flag
from sottovoce.records.readings import HeldRecords, Look, ReadableRecords
from sottovoce.records.readings.base import MOST_RECORDS
from sottovoce.records.readings.families import LinearFamily, PoissonFamily
from sottovoce.records.readings.in_memory_records import RecordsOfN

__all__ = ["AdaptiveLooks"]

_SIDES = {"score": 2.0, "information": math.sqrt(2.0), "meat": math.sqrt(2.0)}
"""How far one replaced record moves each part, roughly; one that is added or removed moves each by one."""
_IMAGINED = 8
"""Records of an imagined table where n is a secret."""
_TRIED = 128
"""Typical records among which the two farthest apart are looked for."""
_UNLEARNED = 0.25
"""Where more than this part of a wide prior's variance is left even without noise, a look told next to nothing."""

_FARTHEST = 2.0**55
"""So many steps of noise leave room in whole numbers for what it is added to."""
_LATER = 4.0
"""So many times as much as at the first look it may be at another, which nobody is to pay for in vain."""


@dataclass(frozen=True, eq=False)
class AdaptiveLooks(Mechanism):
    r"""Look at zero, look where that points to, look again; then say what the last look tells, noise included.

    A look is Σw, Σuu' and Σww' (`Look`) with discrete Gaussian noise on every entry. The k-th is ρₖ-zCDP given those
    before it, for its centre and its coordinates are functions of what they released; so the whole is Σρₖ-zCDP by
    adaptive composition, whatever the records are, and it is charged once. No look needs to know n: where that is a
    secret, None, one record more or less moves a look by its own contribution, and the noise is made for that.

    Parameters
    ----------
    system, n
        The `Formula`, and how many records there are; None where that is a secret.
    rho
        What all looks cost together.

    Examples
    --------
    >>> from sottovoce.records.facts import Number
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> formula = Formula("smoker ~ age", Facts(smoker=Flag(), age=Number(0, 110)))
    >>> mechanism = AdaptiveLooks.calibrate(formula, 10_000, ApproxDP(1.0, 1e-6))
    >>> mechanism.profile.satisfies(ApproxDP(1.0, 1e-6)), len(mechanism.plan)
    (True, 3)
    """

    word: ClassVar[str] = "adaptive looks"
    choices: ClassVar[Choices] = {"looks": {}}
    forecasts: ClassVar[bool] = False
    hides_n: ClassVar[bool] = True
    system: Formula
    rho: float

    def __post_init__(self) -> None:
        if not isinstance(self.system, Formula):
            raise InvalidValue(f"adaptive looks take a Formula. Got a {type(self.system).__name__}")
        super().__post_init__()
        object.__setattr__(self, "rho", real("rho", self.rho, above=0.0))
        self.reading.check_sums(MOST_RECORDS if self.n is None else self.n)
        self._check_noise(self.scales(self.reading, self.plan[0]), _FARTHEST / _LATER)

    @classmethod
    def calibrate(cls, system: Formula, n: int | None, target: Promise) -> Self:
        """Return the looks with the least noise that keep the promise."""
        relation = replace(ADD_REMOVE if n is None else REPLACE_ONE, unit=target.relation.unit)
        rho = largest_keeping(lambda r: ZeroConcentratedProfile(r, relation=relation), target, high=1e4, name="rho")
        return cls(system, n, rho)

    @cached_property
    def plan(self) -> tuple[Step, ...]:
        """Each look's share of ρ, and how it is split unless what was released says otherwise."""
        system = self.system
        shown = system.counts_varied, system.sees_tails
        planned = steps(system.model.curved, self.n, system.dimension, self.rho, *shown)
        return planned if system.variation_seen else tuple(map(without_variation, planned))

    @cached_property
    def reading(self) -> Look:
        """The first look; the others depend on what it releases."""
        return self.system.look(self.n)

    @property
    def profile(self) -> Profile:
        """What all looks cost."""
        return ZeroConcentratedProfile(0.0 if self.n == 0 else self.rho, relation=self.relation)

    def cost(self, draws: int = 1) -> Profile:
        """Return the profile: any number of samples of the released posterior is free."""
        del draws
        return self.profile

    @classmethod
    def example(cls) -> Self:
        """Return a logistic regression of eight records on two groups."""
        return cls(Formula("y ~ 0 + g", Facts(y=Flag(), g=Category(("a", "b")))), 8, 0.5)

    # The noise.

    def scales(self, look: Look, step: Step) -> dict[str, float]:
        """Return the noise of each part in whole steps: that of a matrix' diagonal, √½ of which goes beside it."""
        share, split = step
        item = 2.0**look.bits
        sides, moved = (_SIDES, look.joint) if self.n is not None else (dict.fromkeys(_SIDES, 1.0), look.added)
        raw = {p: sides[p] * (item if p == "score" else item**2) / math.sqrt(split[p]) for p in look.parts}
        stretch = moved(raw) / math.sqrt(2 * self.rho * share * (1 - 1e-12)) * (1 + 1e-12)
        result = {part: scale * stretch for part, scale in raw.items()}
        self._check_noise(result, _FARTHEST)
        return result

    def _check_noise(self, scales: Mapping[str, float], farthest: float) -> None:
        if max(scales.values()) > farthest:
            raise InvalidValue(f"rho={self.rho:g} is so small that its noise leaves the range of whole numbers")

    def paid(self, look: Look, scales: Mapping[str, float]) -> float:
        """Return the ρ of a look with this noise."""
        return (look.added(scales) if self.n is None else look.joint(scales)) ** 2 / 2

    def noises(self, look: Look, scales: Mapping[str, float]) -> list[IntegerNoise]:
        """Return the noise of each block."""
        root = {name: math.sqrt(0.5) if name.endswith(" off") else 1.0 for name in look.sizes}
        return [IntegerNoise("gaussian", scales[name.removesuffix(" off")] * root[name]) for name in look.sizes]

    # The release.

    def see(self, records: Any) -> Any:
        """Return records that can be looked at again, or raise `InvalidData`."""
        if isinstance(records, ReadableRecords):
            return RecordsOfN(records, self.n)
        if isinstance(records, RecordsOfN):
            return records
        if self.system.where is not None:
            raise InvalidValue("a regression where a condition holds reads a table; ask it through a curator")
        if self.system.facts.person is not None and not self.system.averaged:
            raise InvalidValue("one row a person is chosen in a table; ask through a curator")
        try:
            columns = tuple(records[name] for name in self.system.columns)
        except (KeyError, TypeError, IndexError, ValueError):
            raise InvalidData(f"this regression reads the columns {', '.join(self.system.columns)}") from None
        return RecordsOfN(HeldRecords(columns), self.n)

    def _value(self, seen: Any, rng: np.random.Generator, draws: int) -> Coefficients:
        del draws
        return self.conclude(self.walk(lambda look, scales: self._noisy(seen, look, scales, rng)))

    def _noisy(self, seen: Any, look: Look, scales: Mapping[str, float], rng: np.random.Generator) -> Floats:
        steps = look.steps(look.check(seen.look(look)))
        pieces = np.split(steps, np.cumsum(list(look.sizes.values()))[:-1])
        noises = self.noises(look, scales)
        return np.concatenate([noise.add(part, rng) for noise, part in zip(noises, pieces, strict=True)]).astype(float)

    def walk(self, shown: Shown) -> Path:
        """Take the looks: `shown` gives the noisy total of each, and what it gives decides where the next is taken."""
        return self.walk_all([shown])[0]

    def walk_all(self, shown: Sequence[Shown]) -> list[Path]:
        """Take the looks of several releases side by side, as a simulation does."""
        with one_thread():
            return together([strides(self, item) for item in shown])

    def conclude(self, path: Path) -> Coefficients:
        """Return what the looks tell: post-processing."""
        return self.conclude_all([path])[0]

    def conclude_all(self, paths: Sequence[Path], care: SamplerSettings = RELEASED) -> list[Coefficients]:
        """Return what the looks of several releases tell: of all of them where one likelihood explains them."""
        if not JointRegression.knows(self.system, self.n):
            return self.conclude_last(paths, care)
        with one_thread():
            jointly = [self.conclude_jointly(path, care) for path in paths]
        return [
            self.conclude_last([path], care)[0] if joint is None else joint
            for path, joint in zip(paths, jointly, strict=True)
        ]

    def conclude_last(self, paths: Sequence[Path], care: SamplerSettings = RELEASED) -> list[Coefficients]:
        """Return what the last look of each of several releases tells, found side by side."""
        with one_thread():
            asked = [final(self, path, care) for path in paths]
            beliefs = believe_all(asked)
            plain = believe_all(
                [
                    replace(item, several=False, at=belief.mean, extra=None)
                    for item, belief in zip(asked, beliefs, strict=True)
                ]
            )
        return [self._told(path, *both) for path, *both in zip(paths, beliefs, plain, strict=True)]

    def _told(self, path: Path, belief: LookPosterior, alone: LookPosterior) -> Coefficients:
        """Return what the last look tells, by what is believed with its noise and of the records alone."""
        system, last = self.system, path[-1][0]
        A, b = system.units
        result, plain = belief.mapped(A, b), alone.mapped(A, b)
        remaining = np.sqrt(np.diag(plain.covariance))
        if system.groups:  # how far groups spread is believed with the noise: without it their spread would be no other
            with_it, without = (np.diagonal(item.covariances, axis1=1, axis2=2) for item in (result, plain))
            shares = (result.weights @ np.minimum(without, with_it)) / (result.weights @ with_it)
            remaining = np.sqrt(np.diag(result.covariance) * shares)
        # Of a column that noise hides nobody knows what would be left without it.
        assert belief.guesses is not None
        untold = np.tile(belief.guesses.untold(result.weights), system.model.outputs)
        assert alone.unlearned is not None and system.prior is not None
        if system.prior >= system.usual_prior and not system.groups:  # nor where rows weigh so little that it is left
            untold = untold | (alone.unlearned > _UNLEARNED)
        untold[[] if system.offset is None else [system.offset]] = False  # its coefficient is known
        remaining = np.where(np.abs(A) @ untold > 0, math.nan, remaining)
        if system.groups and np.isnan(remaining[system.encoding.wholes[0]]).all():  # nor beside what groups lie
            remaining[[place for ends in system.groups for place in range(*ends)]] = math.nan
        cut, full = _cut_at(system, last.look), None
        if isinstance(last.look.model, PoissonFamily) and belief.imagined is not None:
            best = int(np.argmax(belief.weights))
            rows, records = belief.imagined.rows[best], belief.imagined.records[best]
            full = float(records @ last.look.model.full(rows @ last.look.back.T @ belief.means[best]) / records.sum())
        return Coefficients.from_belief(system, result, remaining, cut, last.misses, full, tuple(path.looks))

    def conclude_jointly(self, path: Path, care: SamplerSettings = RELEASED) -> Coefficients | None:
        """Return what all looks tell; None where one likelihood does not explain them, or noise is beyond its modes."""
        system, n = self.system, self.n
        if not JointRegression.knows(system, n):
            return None
        try:
            with np.errstate(all="ignore"):
                posterior = infer(JointRegression(system, n, care=care), path.looks)
        except (np.linalg.LinAlgError, ValueError):  # noise beyond all measure
            return None
        if not (
            posterior.explained and np.all(np.isfinite(posterior.means)) and np.all(np.isfinite(posterior.covariances))
        ):
            return None
        A, b = system.units
        belief = LookPosterior(posterior.weights, posterior.means, posterior.covariances).mapped(A, b)
        plain = np.sqrt(np.diag(A @ posterior.plain @ A.T))
        plain = np.minimum(plain, np.sqrt(np.diag(belief.covariance)))
        unknown = np.tile(posterior.hidden, system.model.outputs)
        if system.prior is not None and system.prior >= system.usual_prior:
            grouped = [place for ends in system.groups for place in range(*ends)]
            learned = ~np.isin(np.arange(system.dimension), grouped)  # of groups alike nothing else is expected
            unknown |= learned & (posterior.unlearned > _UNLEARNED)
        unknown[[] if system.offset is None else [system.offset]] = False
        plain = np.where(np.abs(A) @ unknown > 0, math.nan, plain)
        last = next(look.look for look in reversed(path.looks) if "information" in look.scales)
        misses = posterior.misfit if system.misses else path[-1][0].misses
        shown = misses, posterior.full, tuple(path.looks)
        result = Coefficients.from_belief(system, belief, plain, _cut_at(system, last), *shown)
        return replace(result, dispersion=posterior.dispersion, rows=posterior.rows)

    # The attack.

    @cached_property
    def path(self) -> tuple[tuple[Look, dict[str, float]], ...]:
        """The looks, each with its noise, that an imagined table of typical records led to once."""
        typical = self.reading.typical()
        imagined = range(_IMAGINED if self.n is None else self.n)
        records = [tuple(column[k % len(column)] for column in typical) for k in imagined]
        columns = tuple(self.reading.arranged(records))
        seen, rng = self.see(HeldRecords(columns)), seeded_rng(0)
        result: list[tuple[Look, dict[str, float]]] = []

        def show(look: Look, scales: Mapping[str, float]) -> Floats:
            result.append((look, dict(scales)))
            return self._noisy(seen, look, scales, rng)

        self.walk(show)
        return tuple(result)

    def _outputs(self, seen: Any, rng: np.random.Generator, draws: int) -> Floats:
        """Return the noisy sums of so many releases along one `path`, a row each.

        Where a look is taken is public; given that, how it came to be taken there tells nothing of the records.
        """
        seen = self.see(seen)
        result = []
        for look, scales in self.path:
            pieces = np.split(look.steps(seen.look(look)), np.cumsum(list(look.sizes.values()))[:-1])
            for noise, part in zip(self.noises(look, scales), pieces, strict=True):
                result.append(noise.rows(part, rng, draws))
        return np.concatenate(result, axis=1).astype(np.float64)

    def moves(self, pair: tuple[Any, Any]) -> list[tuple[Floats, Floats, Floats]]:
        """Return, for each look of the path, where each of a pair lies and the noise of every entry."""
        result = []
        for look, scales in self.path:
            noise = np.concatenate(
                [np.full(size, n.scale) for n, size in zip(self.noises(look, scales), look.sizes.values(), strict=True)]
            )
            first, second = (look.steps(self.see(item).look(look)) for item in pair)
            result.append((first.astype(np.float64), second.astype(np.float64), noise))
        return result

    @cached_property
    def _pair(self) -> tuple[HeldRecords, HeldRecords]:
        records = list(itertools.islice(itertools.product(*self.reading.typical()), _TRIED))
        scaled = []
        for look, scales in self.path:
            noise = np.concatenate(
                [np.full(size, n.scale) for n, size in zip(self.noises(look, scales), look.sizes.values(), strict=True)]
            )
            each = [look.read(look.arranged([record])).total / noise for record in records]
            scaled.append(np.array(each))
        full = np.concatenate(scaled, axis=1)
        if self.n is None:  # the record that moves the looks farthest, there or not
            with_it = [records[int(np.argmax(np.linalg.norm(full, axis=1)))], *[records[0]] * _IMAGINED]
            columns = self.reading.arranged(with_it)
            return HeldRecords(tuple(columns)), HeldRecords(tuple(column[1:] for column in columns))
        gaps = np.linalg.norm(full[:, None] - full[None], axis=2)
        i, j = np.unravel_index(int(np.argmax(gaps)), gaps.shape)
        remainder = [records[int(j)]] * (self.n - 1)
        built = [HeldRecords(tuple(self.reading.arranged([records[int(k)], *remainder]))) for k in (i, j)]
        return built[0], built[1]

    def worst_pair(self) -> tuple[Any, Any]:
        """Return two data sets whose first records lie as far apart along the path as typical ones can."""
        return self._pair

    def log_ratio(self, pair: tuple[Any, Any]) -> Callable[[Any], Floats]:
        """Return the log-ratio of the noisy sums along the path."""
        first, second, noise = (np.concatenate(parts) for parts in zip(*self.moves(pair), strict=True))
        slope, middle = (first - second) / noise**2, (first + second) / 2
        return lambda outputs: np.asarray((np.asarray(outputs) - middle) @ slope)

    def _parameters(self) -> dict[str, Any]:
        return {"rho": self.rho}


def _cut_at(system: Formula, look: Look) -> float | None:
    """Return where a look cut residuals or counts, in the units of the response; None where it cut none."""
    family = system.model
    if isinstance(family, LinearFamily) and look.cap < 1:
        return look.cap * family.scale.half
    if isinstance(family, PoissonFamily) and 0 < look.cap < family.response.high:  # type: ignore[attr-defined]
        return float(look.cap)
    return None
