"""How much care is taken with what looks say: all of it where it is released, less in a plan, whose error is larger."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SamplerSettings:
    """How carefully what a look says is found.

    Attributes
    ----------
    guesses
        How many are made where noise hides a column.
    fewer
        How many times fewer draws than all lead to each, on grids of so many times fewer points, and of how many times
        fewer looks it is asked how loud their noise would be.
    norms
        At how many lengths it is tried to weigh rows less.
    nearer
        How many times nearer than need be guesses come to rest.
    steps
        In how many steps at most.
    drawn
        Whether what a formula misses is learned from how far apart looks are, or from how far on average where it
        misses nothing: one draw of the noise would tell a plan little.
    climbs
        Steps to the mode of the joint likelihood of all looks at most.
    combinations
        Drawn of what lies on grids beside that mode.
    """

    guesses: int = 48
    fewer: int = 1
    norms: int = 12
    nearer: float = 5.0
    steps: int = 14
    drawn: bool = True
    climbs: int = 30
    combinations: int = 32


RELEASED = SamplerSettings()
PLANNED = SamplerSettings(guesses=6, fewer=4, norms=6, nearer=0.25, steps=4, drawn=False, climbs=8, combinations=8)
"""Widths differ far more between two draws of the noise than by more guesses, or finer ones: with twice as many of both
(guesses, and draws of each column) plans come no nearer to what is got than another draw of the noise brings them."""
