"""Roots: where a decreasing function falls to a target, found on the side that claims less privacy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sottovoce.privacy.numbers import Floats

_NEAR = 1e-10
"""How near to the least place is near enough."""


def decreasing_root(
    f: Callable[[Floats], Floats],
    target: Floats,
    low: Floats,
    high: Floats,
    *,
    ends: tuple[Floats, Floats] | None = None,
) -> Floats:
    """Return, element by element, the safe end of where a decreasing f falls to `target`.

    The caller knows that f has fallen to the target by `high`, and may know what f is at both `ends`. The answer r has
    f(r) <= target, or is `high`, and is within a part in 10¹³ of the crossing (Chandrupatla 1997: inverse quadratic
    steps, bisection when they do not help).
    """
    a, b = np.array(high, dtype=np.float64), np.array(low, dtype=np.float64)
    at_low, at_high = (f(b), f(a)) if ends is None else ends
    fa, fb = np.minimum(at_high - target, 0.0), at_low - target
    c, fc = a.copy(), fa.copy()
    t = np.full(a.shape, 0.5)
    for _ in range(200):
        x = np.where(np.isfinite(fa) & np.isfinite(fb), a + t * (b - a), (a + b) / 2)
        fx = f(x) - target
        same = (fx <= 0) == (fa <= 0)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        safe, unsafe = np.where(fa <= 0, a, b), np.where(fa <= 0, b, a)
        width = np.abs(b - a)
        tol = 1e-13 * np.abs(safe) + 5e-324
        if np.all((width <= 2 * tol) | (unsafe == safe)):
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            quad = (phi * phi < xi) & ((1 - phi) ** 2 < 1 - xi)
            step = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            least = np.minimum(0.5, tol / width)
        t = np.where(quad & np.isfinite(step), step, 0.5)
        t = np.clip(np.where(np.isfinite(t), t, 0.5), least, 1 - least)
    return np.where(fa <= 0, a, b)


def least_place(f: Callable[[Floats], Floats], top: float) -> float:
    """Return a place from 0 to `top` at which f, which falls and then rises, is about least.

    >>> round(least_place(lambda x: (x - 0.3) ** 2, 2.0), 6)
    0.3
    """
    from scipy import optimize  # noqa: PLC0415 - most commands need none of it

    places = np.linspace(0.0, top, 401)
    k = int(np.argmin(f(places)))
    around = (float(places[max(k - 1, 0)]), float(places[min(k + 1, 400)]))
    inside = optimize.minimize_scalar(
        lambda x: float(f(np.array([x]))[0]), bounds=around, method="bounded", options={"xatol": _NEAR}
    )
    near = float(inside.x)
    ends = np.array([*around, float(places[k]), near, min(near + 10 * _NEAR, top)])  # f may fall at once, just past it
    return float(ends[np.argmin(f(ends))])
