"""How much of ρ each look is given, by public numbers; and what of it each part, by what the looks before released."""

from __future__ import annotations

import math

Step = tuple[float, dict[str, float]]
"""A look's share of ρ, and of that the share of each part."""

_BENDS: tuple[Step, ...] = (
    (0.15, {"score": 0.8, "information": 0.2}),
    (0.25, {"score": 0.8, "information": 0.2}),
    (0.60, {"score": 0.79, "information": 0.17, "meat": 0.04}),
)
_STRAIGHT: tuple[Step, ...] = (
    (0.10, {"score": 0.45, "information": 0.3, "meat": 0.25}),
    (0.12, {"score": 0.55, "information": 0.2, "meat": 0.25}),
    (0.20, {"score": 0.65, "information": 0.15, "meat": 0.2}),
    (0.58, {"score": 0.75, "information": 0.17, "meat": 0.08}),
)
"""A linear regression measures at every look how far its residuals go, and cuts those of the next one there. Bounds of
its response that are far wider than its residuals cost it one look more."""
TAILS: Step = (0.06, {"score": 1.0})
"""What the look is given that says what residuals lose which the last one cuts."""
_COUNTS: Step = (0.04, {"information": 0.3, "meat": 0.7})
"""What a look is given that says how much more counts vary than a Poisson law's."""
_LEAST = (0.08, 0.10)
"""What the first look, at counts, and the second look of a bending mean are given at least."""
_FEW = 1.5e-3
"""Where D/(n√2ρ), the noise of a look beside its sums, is below this, they are given less."""
_FEWEST, _MOST = 0.05, 0.45
"""Of a look's share, what its information is given at least and at most."""


def steps(
    curved: bool, n: int | None, D: int, rho: float, counts: bool = False, tails: bool = False
) -> tuple[Step, ...]:
    """Return the looks' shares, for a mean that bends or not, n records and D unknowns; of counts one look more, and of
    the tails of residuals.

    >>> [[share for share, _ in steps(True, n, 5, 0.02)] for n in (1000, 10**6)]
    [[0.15, 0.25, 0.6], [0.15, 0.1, 0.75]]
    """
    if not curved:
        *first, (share, parts) = _STRAIGHT
        return (*first, TAILS, (share - TAILS[0], parts)) if tails else _STRAIGHT
    *before, (_, parts) = _BENDS
    noise = math.inf if not n else D / (n * math.sqrt(2 * rho))
    least = (_LEAST[0] if counts else before[0][0], _LEAST[1])
    result = [
        (min(max(step[0] * min(noise / _FEW, 1.0), low), step[0]), step[1])
        for step, low in zip(before, least, strict=True)
    ]
    result += [_COUNTS] if counts else []
    result += [TAILS] if tails else []
    return *result, (1 - sum(share for share, _ in result), parts)


def without_variation(step: Step) -> Step:
    """Return a step that does not look at how much scores vary, for that is known: the score is given its part.

    >>> without_variation((0.6, {"score": 0.79, "information": 0.17, "meat": 0.04}))
    (0.6, {'score': 0.83, 'information': 0.17})
    """
    share, parts = step
    kept = {name: part for name, part in parts.items() if name != "meat"}
    return share, kept | {"score": round(kept["score"] + parts.get("meat", 0.0), 12)}


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
    lean = math.sqrt(information * doubt / 2 / max(score, 1e-300))
    part = min(max(lean / (1 + lean), _FEWEST), _MOST) * (1 - meat)
    return step[0], {"score": 1 - part - meat, "information": part} | ({"meat": meat} if meat else {})
