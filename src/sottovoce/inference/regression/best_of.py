r"""The best of several regressions, charged once: a random secret number of tries, each scored on records it left out.

A try picks a candidate at random, cuts the records at random into two parts of public sizes, releases the candidate's
regression of the first part and scores it on the second: every record there scores between 0 and 1, and their sum gets
exactly rounded normal noise 1/μ. A record is in one part alone. In the first it meets a release that is μ-GDP, of which
the score is post-processing; in the second it meets a sum that it moves by at most 1, μ-GDP too. So a try, regression
and noisy score together, is μ-GDP for either cut, and hence for the random one; `BestOfProfile` says what the best of
them costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.regression.design import Design, check_design
from sottovoce.inference.regression.losses import Logistic, Squared, positive
from sottovoce.inference.regression.posterior import DiffusedRegression, RegressionMechanism
from sottovoce.inference.regression.predictive import posterior_predictive
from sottovoce.inference.regression.random_stopping import drawn
from sottovoce.inference.regression.softmax import Softmax, softmax
from sottovoce.inference.regression.sums import LARGEST_MU, steps_in_one
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate.named_systems import system_from
from sottovoce.mechanisms.exact_normals import exact_normals
from sottovoce.mechanisms.mechanism import Choices, Mechanism
from sottovoce.mechanisms.release import POSTERIORS
from sottovoce.privacy.best_of import BestOfProfile, RandomStopping
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import GaussianDP, Promise
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import Rows

SCORES = ("square", "accuracy")
_TEN = RandomStopping(10.0)
_DRAWS = 64
"""How many draws of a posterior a prediction is averaged over."""
_SEARCHES = 256
"""How many searches an attack makes at a time."""


def held_out(n: int, share: float) -> int:
    """Return how many records of n are scored on: a share of them, at least one and not all."""
    return min(max(round(n * share), 1), n - 1)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The try that scored best: which candidate, its noisy mean score, and what it released.

    >>> Chosen(0, 0.8, np.zeros((1, 2))).mean.tolist()
    [0.0, 0.0]
    """

    which: int
    score: float
    value: Any

    @property
    def mean(self) -> Any:
        """The mean of each parameter."""
        return self.value.mean if hasattr(self.value, "sample") else np.asarray(self.value).mean(axis=0)

    @property
    def sd(self) -> Any:
        """The standard deviation of each parameter; of a single sample there is none, NaN."""
        if hasattr(self.value, "sample"):
            return self.value.sd
        samples = np.asarray(self.value)
        return samples.std(axis=0, ddof=1) if len(samples) > 1 else np.full(samples.shape[1:], np.nan)

    def interval(self, level: float = 0.95) -> Any:
        """Refuse: what was chosen by its score looks better than it is."""
        del level
        raise InvalidValue("no interval is offered: a regression chosen by its score has none that would cover")

    def sample(self, draws: int, rng: np.random.Generator | None = None) -> Any:
        """Return draws of the parameters; of released samples those there are."""
        return self.value.sample(draws, rng) if hasattr(self.value, "sample") else np.asarray(self.value)

    def summary(self) -> str:
        """Return what was chosen in one line."""
        return f"candidate {self.which}, noisy mean score {self.score:.3g}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        value = self.value.to_dict() if hasattr(self.value, "to_dict") else np.asarray(self.value).tolist()
        return {"posterior": "chosen", "which": int(self.which), "score": float(self.score), "found": value}

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> Chosen:
        """Read it from `to_dict`'s form."""
        with restoring("what was chosen"):
            result = state["found"]
            if isinstance(result, Mapping):
                value = POSTERIORS[result["posterior"]].from_dict(result)
            else:
                value = np.asarray(result, dtype=np.float64)
            return Chosen(int(state["which"]), float(state["score"]), value)


@dataclass(frozen=True, eq=False)
class BestRegression(RegressionMechanism):
    """The best of a random secret number of tries over candidate regressions.

    Attributes
    ----------
    candidates
        Mechanisms of the same rows, for the part that is not held out; each costs at most μ.
    mu
        What a try costs: the regression, if a record is in the first part, or its score, if it is in the second.
    tries
        The law of how many tries there are.
    share
        The share of the records that is held out for the score.
    score
        ``"square"``: 1 − half the squared distance of the probabilities from the class (Brier), or 1 − the squared
        error beside the largest response; ``"accuracy"``: whether the class was right.

    Examples
    --------
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> from sottovoce.inference.regression.filtered import FilteredRegression
    >>> design = Design(Logistic(), dimension=2, data_norm=1.0)
    >>> def candidate(n, target, prior):
    ...     return FilteredRegression.calibrate(design, n, target, prior_precision=prior)
    >>> best = BestRegression.calibrate(
    ...     design, 900, ApproxDP(1.0, 1e-5), candidates=[lambda n, p, m=m: candidate(n, p, m) for m in (0.1, 10.0)]
    ... )
    >>> best.profile.satisfies(ApproxDP(1.0, 1e-5)), best.candidates[0].n
    (True, 720)
    """

    word: ClassVar[str] = "best regression"
    choices: ClassVar[Choices] = {}
    many_classes: ClassVar[bool] = True
    candidates: tuple[Mechanism, ...]
    mu: float
    tries: RandomStopping = _TEN
    share: float = 0.2
    score: str = "square"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("n", self.n, 2)
        positive("mu", self.mu, high=LARGEST_MU)
        positive("share", self.share, high=0.9)
        if self.score not in SCORES or (self.score == "accuracy" and not self._has_classes):
            known = SCORES if self._has_classes else SCORES[:1]
            raise InvalidValue(f"score must be one of {', '.join(known)}. Got {self.score!r}")
        if not self._has_classes and not isinstance(self.design.loss, Squared):
            raise InvalidValue(f"there is no score for {self.design.loss.name}; search over logistic or linear models")
        if not self.candidates:
            raise InvalidValue("a search needs at least one candidate")
        remaining = self.n - held_out(self.n, self.share)
        for candidate in self.candidates:
            if candidate.reading != self.reading:
                raise InvalidValue(
                    "every candidate must read the same rows: one data_norm, one intercept_scaling, no 'noisy-moments'"
                )
            if candidate.n != remaining:
                raise InvalidValue(
                    f"candidates are for the {remaining} records that are not held out. Got one for {candidate.n}"
                )
            if not candidate.profile.gdp() <= self.mu or candidate.profile.basis is Basis.CONVERGENCE:
                raise InvalidValue(f"a candidate costs more than the {self.mu:g}-GDP of a try, or is unproven")

    @property
    def _has_classes(self) -> bool:
        return isinstance(self.design.loss, Logistic | Softmax)

    @classmethod
    def calibrate(
        cls,
        design: Design,
        n: int,
        target: Promise,
        *,
        candidates: Sequence[Any],
        tries: RandomStopping = _TEN,
        share: float = 0.2,
        score: str = "square",
    ) -> Self:
        """Return the search that keeps `target`; a candidate is a function of (n, promise) that returns a mechanism."""
        check_design(design)
        whole("n", n, 2)
        positive("share", share, high=0.9)
        mu = largest_keeping(lambda u: BestOfProfile(GaussianProfile(u), tries), target, high=1e6, name="mu")
        mu = min(mu, LARGEST_MU)
        built = tuple(candidate(n - held_out(n, share), GaussianDP(mu)) for candidate in candidates)
        return cls(design, n, built, mu, tries, share, score)

    @property
    def profile(self) -> Profile:
        """What the whole search costs."""
        return BestOfProfile(GaussianProfile(self.mu, basis=Basis.BOUND), self.tries, basis=Basis.BOUND)

    @classmethod
    def example(cls) -> Self:
        """Return a search over two short chains on ten records."""
        design, candidate = Design(Logistic(), dimension=2, data_norm=1.0), GaussianDP(1.0)
        built = tuple(
            DiffusedRegression.calibrate(design, 8, candidate, prior_precision=m, n_steps=4) for m in (1.0, 10.0)
        )
        return cls(design, 10, built, 1.0 + 1e-6, RandomStopping(2.0))

    def check_numbers(self) -> None:
        """Raise `InvalidValue` where the numbers of a candidate cannot hold it."""
        for candidate in self.candidates:
            if isinstance(candidate, RegressionMechanism):
                candidate.check_numbers()

    def cost(self, draws: int = 1) -> Profile:
        """Return the profile; what was chosen is one, however often it is read."""
        del draws
        return self.profile

    def _value(self, seen: Rows, rng: np.random.Generator, draws: int) -> Chosen:
        del draws
        tries = (self._tries(seen, rng, 1)[0] for _ in range(drawn(self.tries, rng)))
        return max(tries, key=lambda one: one.score)

    def _tries(self, seen: Rows, rng: np.random.Generator, count: int) -> list[Chosen]:
        """Return tries: a candidate at random, a cut at random, and its noisy score each."""
        which = rng.integers(len(self.candidates), size=count)
        order, out = np.array([rng.permutation(self.n) for _ in range(count)]), held_out(self.n, self.share)
        values: list[Any] = [None] * count
        for k, candidate in enumerate(self.candidates):
            mine = np.flatnonzero(which == k).tolist()
            cuts = (order[i, out:] for i in mine)
            result = candidate.each([Rows(len(cut), seen.X[cut], seen.y[cut]) for cut in cuts], rng)
            for i, value in zip(mine, result, strict=True):
                values[i] = value
        second = np.ravel(order[:, :out])
        rows = self.design.clip(seen.X[second]).reshape(count, out, -1)
        labels = self.design.responses(seen.y[second]).reshape(count, out)
        labelled = zip(values, rows, labels, strict=True)
        scores = np.array([scores_of(self.design, value, X, y, self.score) for value, X, y in labelled])
        scores = np.clip(np.nan_to_num(scores, nan=0.0), 0.0, 1.0)  # whatever was released, and of whatever row
        steps, noise = self._score_noise
        totals = exact_normals(np.rint(scores * steps).sum(axis=1), noise, rng) / steps / out
        return [Chosen(*result) for result in zip(which.tolist(), totals.tolist(), values, strict=True)]

    @property
    def _score_noise(self) -> tuple[float, float]:
        """How many steps there are in 1 and the noise of a score in steps: a record moves it by 1 and its rounding."""
        steps = steps_in_one(self.n) ** 2
        return steps, (steps + 1) / self.mu * (1 + 1e-12)

    def _outputs(self, seen: Rows, rng: np.random.Generator, draws: int) -> Floats:
        """Return which, the score and the mean parameters of so many searches, a row each; tries run side by side."""
        rows = []
        for done in range(0, draws, _SEARCHES):
            counts = [drawn(self.tries, rng) for _ in range(min(_SEARCHES, draws - done))]
            tries = iter(self._tries(seen, rng, sum(counts)))
            result = (max(islice(tries, count), key=lambda candidate: candidate.score) for count in counts)
            rows += [
                np.concatenate([[candidate.which, candidate.score], np.ravel(candidate.mean)]) for candidate in result
            ]
        return np.array(rows)

    def _parameters(self) -> dict[str, Any]:
        return {
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "mu": float(self.mu),
            "tries": {"mean": self.tries.mean, "law": self.tries.law},
            "share": float(self.share),
            "score": self.score,
        }

    def describe(self) -> str:
        """Return the search in one line."""
        out = held_out(self.n, self.share)
        return (
            f"{self.word}, n={self.n}: best of {self.tries.mean:g} tries on average ({self.tries.law}) over "
            f"{len(self.candidates)} candidate(s), each {self.mu:.6g}-GDP, scored on {out} records"
        )

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(
            system_from(state["system"]),
            state["n"],
            tuple(map(Mechanism.from_dict, state["candidates"])),
            state["mu"],
            RandomStopping(**state["tries"]),
            state["share"],
            state["score"],
        )


def scores_of(design: Design, value: Any, X: Floats, y: Floats, score: str) -> Floats:
    """Return a number for each record, between 0 and 1: how well the released regression foretold its label.

    >>> design = Design(Logistic(), dimension=1, data_norm=1.0)
    >>> X, y = np.array([[1.0], [-1.0]]), np.array([1.0, 1.0])
    >>> scores_of(design, np.array([[20.0]]), X, y, "square").round(3).tolist()
    [1.0, 0.0]
    """
    # The draws a score is averaged over are the same for all, and no secret.
    samples = value.sample(_DRAWS, seeded_rng(64)) if hasattr(value, "sample") else np.asarray(value)
    if isinstance(design.loss, Softmax):
        p = softmax(np.einsum("nd,skd->nsk", X, samples)).mean(axis=1)
        hot = np.eye(design.loss.classes)[y.astype(np.intp)]
        right = p.argmax(axis=1) == y
        return np.asarray(right, dtype=np.float64) if score == "accuracy" else 1 - np.sum((p - hot) ** 2, axis=1) / 2
    result = posterior_predictive(design.loss, samples, X)
    if isinstance(design.loss, Squared):
        return np.asarray(1 - np.minimum(((result - y) / design.loss.largest) ** 2, 1.0))
    yes = y > 0
    return ((result > 0.5) == yes).astype(np.float64) if score == "accuracy" else 1 - (result - yes) ** 2
