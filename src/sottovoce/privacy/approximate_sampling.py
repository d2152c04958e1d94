"""What a release costs that was drawn by a sampler near the right law, and not from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from sottovoce.privacy.derived_profile import DerivedProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, real
from sottovoce.privacy.root_finding import least_place

_FARTHEST = 700.0
"""Beyond it e^ε is no double, and any slack above 1e-304 has made δ one."""


@dataclass(frozen=True)
class SlackProfile(DerivedProfile):
    r"""A profile with a slack: on **every** data set the law is within total variation γ of one that has it.

    .. math:: \delta'(\varepsilon) = \min_{\varepsilon' \le \varepsilon}\;
              \delta(\varepsilon') + (1 + e^{\varepsilon'})\gamma

    for P'(A) ≤ P(A) + γ and Q(A) ≤ Q'(A) + γ (Geumlek 2020, Proposition 3; Minami et al. 2016, Proposition 12, whose
    (D.8) drops one of the two γ on the way). It is the truth for the worst events: a law may have moved its γ to a
    place that the other never visits. No Rényi divergence is finite then, and nothing is purely private. Slacks add
    under composition: `compose` takes them out, composes what is left exactly, and puts their sum back.

    Parameters
    ----------
    one
        What a release from the right law costs.
    slack
        γ, a *proven* distance in total variation, the same for every data set.

    Examples
    --------
    >>> from sottovoce.privacy.pure import PureProfile
    >>> near = SlackProfile(PureProfile(1.0), 1e-6)
    >>> round(near.delta(1.0) / 1e-6, 3), near.pure()
    (3.718, inf)
    """

    word: ClassVar[str] = "slack"
    source: ClassVar[str] = "the right law"
    has_own_delta: ClassVar[bool] = True
    slack: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "slack", real("slack", self.slack))
        if self.slack > 1:
            raise InvalidValue(f"a slack is a distance in total variation, at most 1. Got {self.slack:g}")

    def _sum(self, epsilon: Floats) -> Floats:
        """Return log of δ(ε) + (1 + e^ε)γ, rounded up."""
        before = self.one._log_delta(epsilon)
        if self.slack == 0:
            return before
        more = math.log(self.slack) + np.logaddexp(0.0, epsilon)
        return np.asarray(np.minimum(np.logaddexp(before, more) + 4e-16 * (1 + np.abs(more)), 0.0))

    @cached_property
    def _turn(self) -> float:
        """Where δ(ε) + (1 + e^ε)γ is about least: convex in e^ε, it falls until there. Any place is a valid one."""
        return least_place(self._sum, min(self.one.pure(), _FARTHEST, -math.log(self.slack) + 1))

    def _log_delta(self, epsilon: Floats) -> Floats:
        if self.slack == 0:
            return self.one._log_delta(epsilon)
        return self._sum(np.minimum(epsilon, self._turn))

    def _renyi(self, order: Floats) -> Floats:
        return self.one._renyi(order) if self.slack == 0 else np.full(np.shape(order), np.inf)

    def pure(self) -> float:
        """Return infinity, unless the slack is zero."""
        return self.one.pure() if self.slack == 0 else math.inf

    def zcdp(self) -> float:
        """Return infinity, unless the slack is zero."""
        return self.one.zcdp() if self.slack == 0 else math.inf

    def gdp(self) -> float:
        """Return infinity, unless the slack is zero."""
        return self.one.gdp() if self.slack == 0 else math.inf

    @property
    def pole(self) -> float:
        """One: no divergence is finite."""
        return self.one.pole if self.slack == 0 else 1.0
