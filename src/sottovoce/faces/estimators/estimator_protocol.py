"""The manners of every estimator: how it reads its promise and its seed, how it is cloned, how a curator fits it."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, _clone_parametrized

from sottovoce.faces.estimators.pipeline_guard import refuse_leakage
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP, Promise, PureDP
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.records.facts import Category, Column, Facts, Flag


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator whose fit is one release of a mechanism, in memory or through a curator's ledger.

    A kind has the parameters `epsilon`, `delta`, `target` and `random_state`, and says which mechanism it is
    (`mechanism_for`) and what it makes of a release (`keep`). A curator needs no more:

    1. ``mechanism = estimator.mechanism_for(n, promise, facts, features, label)``, from public things alone;
    2. a release of that mechanism on the columns ``[*features, label]``, charged to a ledger;
    3. ``estimator.keep(release)``, which costs nothing.

    ``fit(X, y)`` does the same with records in memory and no ledger.
    """

    @abstractmethod
    def mechanism_for(
        self,
        n: int,
        promise: Promise | None = None,
        facts: Facts | None = None,
        features: Sequence[str] | None = None,
        label: str | None = None,
    ) -> Mechanism:
        """Return the mechanism for n records that keeps the estimator's own promise, or `promise` where it has none.

        Classes, bounds and encodings that the estimator was not given come from the `facts` of the named columns.
        """

    @abstractmethod
    def keep(self, release: Release) -> Self:
        """Take a release of the mechanism and be fitted by it; only released and public numbers are used."""

    def _promise(self, given: Promise | None = None) -> Promise:
        """Return the estimator's promise, or the one `given` to it where it has none; it is given once."""
        settings = (self.target, self.epsilon, self.delta)
        if given is None:
            promise = promise_of(*settings, private=True)
            assert promise is not None
            return promise
        if any(part is not None for part in settings):
            raise InvalidValue("give the promise once: to the estimator, or to the curator that fits it")
        return given

    def __sklearn_clone__(self) -> Self:
        twin: Self = _clone_parametrized(self)
        twin._is_clone = True
        return twin


def promise_of(target: Promise | None, epsilon: float | None, delta: float | None, *, private: bool) -> Promise | None:
    """Return the promise: ε alone is pure, with δ it is (ε, δ); none where the model is not `private`.

    >>> promise_of(None, 1.0, None, private=True)
    PureDP(epsilon=1.0)
    """
    given = target is not None or epsilon is not None or delta is not None
    if not private:
        if given:
            raise InvalidValue("mechanism 'none' keeps no promise; leave epsilon, delta and target out")
        return None
    if target is not None:
        if epsilon is not None or delta is not None:
            raise InvalidValue("give the promise once: either target, or epsilon and delta")
        return target
    if epsilon is None:
        raise InvalidValue(f"a promise is missing: give epsilon (and delta), or target. Got delta={delta}")
    return PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)


def check_classes(classes: Sequence[object], label: str, fact: Column) -> None:
    """Refuse classes that are not what the facts list of the label: both are public, and one of them is a slip.

    A label that is none of the classes counts as the first, and no record may say so; here nothing has been read yet.

    >>> from sottovoce.records.facts import Flag
    >>> check_classes(["no", "yes"], "ill", Flag())
    Traceback (most recent call last):
    ...
    sottovoce.privacy.errors.InvalidValue: classes and the facts disagree about 'ill': 'no', 'yes' and False, True
    """
    if not isinstance(fact, Category | Flag):
        return
    listed = fact.categories if isinstance(fact, Category) else (False, True)
    if {str(name) for name in classes} != {str(name) for name in listed} and set(classes) != set(listed):
        given, known = (", ".join(map(repr, names)) for names in (classes, listed))
        raise InvalidValue(f"classes and the facts disagree about {label!r}: {given} and {known}")


def random_source(random_state: object) -> np.random.Generator:
    """Return secure randomness where None; else the generator given, or a seeded one for experiments.

    >>> random_source(np.random.RandomState(1)).random() == random_source(np.random.RandomState(1)).random()
    True
    """
    if random_state is None:
        return secure_rng()
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return seeded_rng(int(random_state.randint(2**31)))
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer) or random_state < 0:
        raise InvalidValue(
            "random_state must be None for secure randomness, a whole number >= 0, a Generator or a RandomState. "
            f"Got {random_state!r}"
        )
    return seeded_rng(int(random_state))


class EveryFitSpends(UserWarning):
    """An estimator is being fitted once more: every fit spends the promise, a search's and a cross-validation's too."""


def warn_of_refit(estimator: object) -> None:
    """Warn if the estimator is a clone or was fitted before, and refuse records that something has learned from before.

    For the first line of a `fit`.
    """
    refuse_leakage(estimator)
    if getattr(estimator, "_is_clone", False):
        text = (
            "a clone is being fitted: every fit of a search or a cross-validation is a release of its own "
            "(PrivateSearchCV searches for one promise in all)"
        )
    elif getattr(estimator, "profile_", None) is not None:
        text = "this estimator is being fitted again: its first fit was a release, and this one is another"
    else:
        return
    warnings.warn(f"{text} and spends the promise once more", EveryFitSpends, stacklevel=3)
