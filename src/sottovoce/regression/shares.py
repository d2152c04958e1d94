"""How much of ρ each look is given, by public numbers and by what the looks before it released.

Whatever the shares are, they add up to one. That suffices where the k-th is chosen by what was released before it
(Feldman and Zrnic 2021): given that, the k-th look multiplies E e^{(α−1)L}, L the log-ratio of what neighbours would
have released, by at most e^{α(α−1)ρₖ}; so the whole is Σρₖ-zCDP for any order α, the sum being ρ on every path.
"""

from __future__ import annotations

import numpy as np

__all__ = ["Step", "before_last", "split", "usual"]

Step = tuple[float, dict[str, float]]
"""A look's share of ρ, and of that the share of each part."""

_PLANS: dict[bool, tuple[Step, ...]] = {
    True: (
        (0.15, {"score": 0.8, "information": 0.2}),
        (0.25, {"score": 0.8, "information": 0.2}),
        (0.60, {"score": 0.79, "information": 0.17, "meat": 0.04}),
    ),
    False: (
        (0.10, {"score": 0.45, "information": 0.3, "meat": 0.25}),
        (0.12, {"score": 0.55, "information": 0.2, "meat": 0.25}),
        (0.20, {"score": 0.65, "information": 0.15, "meat": 0.2}),
        (0.58, {"score": 0.75, "information": 0.17, "meat": 0.08}),
    ),
}
"""The usual shares, for a mean that bends and for one that does not.

A linear regression measures at every look how far its residuals go, and cuts those of the next one there. Bounds of its
response that are far wider than its residuals cost it one look more.
"""
_LEAST = 0.10
"""No look before the last is given less."""
_ENOUGH = 1.0
"""The noise of a look before the last may be so large a part of what the records themselves vary."""
_FEWEST, _MOST = 0.05, 0.45
"""Of a look's share, what its information is given at least and at most."""


def usual(curved: bool) -> tuple[Step, ...]:
    """Return the usual shares."""
    return _PLANS[curved]


def before_last(step: Step, noise: float) -> Step:
    """Return a step before the last, given the noise of the score beside the information at it."""
    return float(np.clip(step[0] * noise / _ENOUGH, _LEAST, step[0])), step[1]


def split(step: Step, score: float, information: float, doubt: float) -> Step:
    r"""Return a step split where its noise does least.

    With a part a for the score, of variance S, and b for the information, of variance T, what noise moves is
    S/a + Tδ²/2b, δ the way from the centre to the truth, of which is known how far it may be.

    Parameters
    ----------
    score, information
        S and T: the noise of either if it were given the whole share, as variances.
    doubt
        δ², as it is expected.
    """
    meat = step[1].get("meat", 0.0)
    lean = np.sqrt(information * doubt / 2 / max(score, 1e-300))
    part = float(np.clip(lean / (1 + lean), _FEWEST, _MOST)) * (1 - meat)
    return step[0], {"score": 1 - part - meat, "information": part} | ({"meat": meat} if meat else {})
