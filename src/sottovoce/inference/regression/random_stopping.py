"""How many tries a search makes, drawn exactly: with the very probabilities that its claim is about.

K is the first k with U < 1 − qᵏ. For the geometric law q is 1 − γ. For the logarithmic one q = 1 − γ^V with V uniform
(Kemp 1981): ∫γᵛ(1 − γᵛ)^{k−1}dv = (1−γ)ᵏ/(k·log(1/γ)). U and V are drawn bit by bit, and compared in ball arithmetic
with as many bits as certainty takes.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from sottovoce.mechanisms.ball_arithmetic import Ball, ball, precision
from sottovoce.mechanisms.lazy_uniform import BitSource, LazyUniform
from sottovoce.privacy.best_of import RandomStopping


def drawn(tries: RandomStopping, source: BitSource) -> int:
    """Return K. Keep it secret: whoever knows it, or can time it, knows more than the profile says.

    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> rng = seeded_rng(1)
    >>> [drawn(RandomStopping(5.0), rng) for _ in range(8)]
    [1, 1, 1, 17, 1, 4, 2, 4]
    """
    if tries.gamma == 1:
        return 1
    gamma, u = Fraction(tries.gamma), LazyUniform(source)
    v = None if tries.law == "geometric" else LazyUniform(source)

    @cache  # the same for every k
    def power(bits: int) -> Ball:
        """Return γ, or γ^V."""
        if v is None:
            return ball(gamma)
        while v.bits < bits:
            v.refine()
        return ball(gamma) ** ball((v.value, -v.bits)).union(ball((v.value + 1, -v.bits)))

    def more_than(k: int) -> bool:
        """Say whether K > k: whether 1 − qᵏ ≤ U."""

        def threshold(bits: int) -> Ball:
            with precision(bits):
                return 1 - (1 - power(bits)) ** k

        return u.beyond(threshold)

    low, high = 0, 1
    while more_than(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if more_than(middle) else (low, middle)
    return high
