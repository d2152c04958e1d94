"""Numbers: the one reader of what a user gives as a number, and small tools that keep their digits."""

from __future__ import annotations

import math
import numbers
import operator
import sys
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sottovoce.privacy.errors import InvalidValue

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(7)  # for functions with their pole ten half-widths away
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
_EXPONENTIAL = tuple(1 / math.factorial(k) for k in range(10, 1, -1))
_LOGARITHM = tuple((-1.0) ** (k + 1) / k for k in range(12, 1, -1))


def as_floats(name: str, value: float | ArrayLike, low: float, *, below: float = np.inf) -> Floats:
    """Return `value` as floats in [low, below), or raise `InvalidValue` naming it."""
    if isinstance(value, float) and low <= value < below and value != np.inf:
        return np.array(value)  # the common case, without the price of the general one
    array = any_floats(name, value)
    if not array.size or (max(low, -sys.float_info.max) <= array.min() and array.max() < below):  # never of NaN
        return array
    if not np.all(np.isfinite(array)):
        raise InvalidValue(f"{name} must be finite. Got {_first(array, ~np.isfinite(array))}")
    if array.min() < low:
        raise InvalidValue(f"{name} must be >= {low:g}. Got {_first(array, array < low)}")
    raise InvalidValue(f"{name} must be < {below:g}. Got {_first(array, array >= below)}")


def real(name: str, value: Any, low: float = 0.0, *, below: float = np.inf, above: float = -np.inf) -> float:
    """Return one real number in [low, below) and beyond `above`, or raise `InvalidValue` naming it.

    >>> from fractions import Fraction
    >>> real("epsilon", Fraction(1, 2))
    0.5
    """
    if type(value) in (float, int) and low <= value < below and above < value and abs(value) < 2**53:
        return float(value)  # the common case, without the price of the general one
    array = as_floats(name, value, low, below=below)
    if array.ndim:
        raise InvalidValue(f"{name} must be one number. Got {shown(value)}")
    number = float(array)
    if number <= above:
        raise InvalidValue(f"{name} must be > {above:g}. Got {number}")
    return number


def whole(name: str, value: Any, least: int = 0, most: int | None = 2**53, *, floats: bool = False) -> int:
    """Return a whole number from `least` to `most`, or raise `InvalidValue` naming it.

    A float such as 2.0 is one only where `floats` says so; True is none.

    >>> whole("draws", 3, 1)
    3
    """
    given = value
    if floats and not isinstance(value, int | np.bool_):
        value = real(name, value, -np.inf)
        value = int(value) if value.is_integer() else None
    try:
        number = operator.index(value) if not isinstance(value, bool | np.bool_) else least - 1
    except (TypeError, ValueError):
        number = least - 1
    if number < least:
        raise InvalidValue(f"{name} must be a whole number >= {least}. Got {shown(given)}")
    if most is not None and number > most:
        raise InvalidValue(f"{name} must be a whole number <= {most}. Got {shown(number)}")
    return number


def shown(value: object) -> str:
    """Return a short text of what was got; for a number of a million digits too."""
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def sum_up(terms: Iterable[tuple[int, float]]) -> float:
    """Return Σ count·value over non-negative terms, the exact sum rounded up to a float.

    >>> sum_up([(10, 0.1)])
    1.0000000000000002
    """
    scale, total = 1074, 0  # every double is a whole number of 2^-1074
    for count, value in terms:
        if not math.isfinite(value):
            return value
        numerator, denominator = value.as_integer_ratio()
        total += (count * numerator) << (scale + 1 - denominator.bit_length())
    return ceil_float(Fraction(total, 1 << scale))


def ceil_float(exact: Fraction) -> float:
    """Return the smallest float that is not below `exact`."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < exact else nearest


def floor_float(exact: Fraction) -> float:
    """Return the largest float that is not above `exact`."""
    return -ceil_float(-exact)


def sqrt_up(exact: Fraction) -> float:
    """Return a float that is not below the square root of `exact`, and hardly above.

    >>> sqrt_up(Fraction(9, 4)), Fraction(sqrt_up(Fraction(2))) ** 2 >= 2
    (1.5, True)
    """
    # 64 digits or more of a whole number 4^shift times as large, however small or large the fraction is.
    shift = 64 + max(0, exact.denominator.bit_length() - exact.numerator.bit_length()) // 2
    scaled = exact * (1 << 2 * shift)
    root = math.isqrt(math.floor(scaled))
    return ceil_float(Fraction(root + (root * root < scaled), 1 << shift))


def log_up(numerator: Fraction, denominator: Fraction) -> float:
    """Return log(numerator/denominator) of a ratio above one, rounded up by a few last digits.

    >>> log_up(Fraction(3), Fraction(1)) >= math.log(3), log_up(Fraction(1), Fraction(1))
    (True, 0.0)
    """
    excess = ceil_float((numerator - denominator) / denominator)
    return math.log1p(excess) * (1 + 2.0**-50) if excess < math.inf else math.inf


def _first(array: Floats, bad: NDArray[np.bool_]) -> Any:
    return array[bad].ravel()[0].item()


def any_floats(name: str, value: object) -> Floats:
    """Return real numbers, infinite ones and NaN too, as floats, or raise `InvalidValue` naming them."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            array = np.array([_float(x) for x in array.ravel()], dtype=np.float64).reshape(array.shape)
    except (TypeError, ValueError, ArithmeticError, MemoryError):
        array = np.asarray("")
    if array.dtype.kind not in "iuf" and array.size:
        wanted = "real numbers" if array.ndim else "a real number"
        raise InvalidValue(f"{name} must be {wanted}. Got {shown(value)}")
    if array.dtype.itemsize <= 8:
        return array.astype(np.float64)
    with np.errstate(over="ignore"):  # a long double may be too large for a double: infinite, and so refused
        return array.astype(np.float64)


def _float(value: object) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real | Decimal):
        raise TypeError("not a number")
    return float(value)


def expm1mx(x: Floats, expm1: Floats | None = None) -> Floats:
    """Return e^x - 1 - x without cancellation near zero; where e^x - 1 is known, it is not taken again."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(over="ignore"):
        result = np.asarray((np.expm1(x) if expm1 is None else expm1) - x)
    return _with_series(result, x, 0.05, _EXPONENTIAL)


def log1mexp(x: Floats) -> Floats:
    """Return log(1 - e^x) for x <= 0, accurate at both ends."""
    x = np.asarray(x, dtype=np.float64)
    near = x > -0.6931471805599453
    with np.errstate(divide="ignore"):
        if near.all():
            return np.asarray(np.log(-np.expm1(x)))
        out = np.asarray(np.log1p(-np.exp(x)))
        out[near] = np.log(-np.expm1(x[near]))
    return out


def log1pmx(x: Floats) -> Floats:
    """Return log(1+x) - x without cancellation near zero.

    >>> print(f"{log1pmx(np.array(1e-8)):.4g}")
    -5e-17
    """
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        result = np.asarray(np.log1p(x) - x)
    return _with_series(result, x, 0.03, _LOGARITHM)


def _with_series(found: Floats, x: Floats, reach: float, coefficients: tuple[float, ...]) -> Floats:
    """Put x² times a series, its highest power first, where x lies within `reach` of zero."""
    small = np.abs(x) < reach
    if small.any():
        y = x[small]
        total = np.full(y.shape, coefficients[0])
        for coefficient in coefficients[1:]:
            total *= y
            total += coefficient
        found[small] = total * y * y
    return found


@cache
def above_diagonal(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of the entries above the diagonal: NumPy's `triu_indices`, made once for each size.

    >>> above_diagonal(3)
    (array([0, 0, 1]), array([1, 2, 2]))
    """
    rows, columns = np.triu_indices(size, 1)
    rows.flags.writeable = columns.flags.writeable = False
    return rows, columns


def log_gamma_gap(x: ArrayLike, step: ArrayLike, order: ArrayLike) -> Floats:
    r"""Return the building block of every Rényi divergence between Beta or Gamma distributions.

    .. math:: F = \frac{\ln\Gamma(x-(\lambda-1)h) - \ln\Gamma(x)}{\lambda-1} + \ln\Gamma(x+h) - \ln\Gamma(x)

    with h = `step` (either sign) and λ = `order` >= 1. It is never negative, and is +inf where an argument leaves the
    domain of the gamma function. The three ways of computing it keep the digits when h is small beside x (an integral
    of the trigamma function, in which nothing cancels), when λ is near 1 (a mean of the digamma function), and
    elsewhere.
    """
    arrays = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (x, step, order)))
    shape = arrays[0].shape
    x, h, lam = (np.atleast_1d(v).ravel() for v in arrays)
    out = np.full(x.shape, np.inf)
    remaining = mixed(x, h, lam)
    ok = (remaining > 0) & (x + h > 0)
    near = ok & (lam * np.abs(h) <= 0.1 * np.minimum(x, np.minimum(remaining, x + h)))
    if near.any():
        out[near] = _gap_by_trigamma(x[near], h[near], lam[near])
    far = ok & ~near
    if far.any():
        out[far] = _gap_by_difference(x[far], h[far], lam[far], remaining[far])
    return out.reshape(shape)


def log_gamma_step(x: ArrayLike, step: ArrayLike) -> Floats:
    """Return lnΓ(x + step) - lnΓ(x) to full precision, for a step small beside x and for a huge x.

    >>> print(f"{log_gamma_step(1e9, 1.0):.6f} {np.log(1e9):.6f}")
    20.723266 20.723266
    """
    x, h = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(step, dtype=np.float64))
    short = np.abs(h) <= 0.1 * np.minimum(x, x + h)
    if short.all():
        return np.asarray(h * (special.digamma(x[..., None] + h[..., None] * _NODES) @ _WEIGHTS))
    out = special.gammaln(x + h) - special.gammaln(x)
    if short.any():
        out[short] = log_gamma_step(x[short], h[short])
    return np.asarray(out)


def _gap_by_trigamma(x: Floats, h: Floats, lam: Floats) -> Floats:
    """Return ∫₀¹ (1 - s) (ψ′(x + hs) + (λ-1) ψ′(x - (λ-1)hs)) ds times h²: a second difference by Peano's kernel."""
    steps = np.stack([h, -(lam - 1) * h])
    ahead, behind = np.tensordot(_WEIGHTS * (1 - _NODES), _trigamma(x + steps * _NODES[:, None, None]), 1)
    return np.asarray(h * h * (ahead + (lam - 1) * behind))


def _trigamma(x: Floats) -> Floats:
    """Return ψ′(x) by Stirling's series, below 12 twelve steps up: to 2 units in the last place, faster than SciPy's.

    >>> bool(abs(_trigamma(np.array([1.0]))[0] - np.pi**2 / 6) < 1e-15)
    True
    """
    near = x < 12
    item = 1 / np.where(near, x + 12, x)
    square, series = item * item, np.zeros_like(item)
    for bernoulli in (-3617 / 510, 7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6):
        series = (series + bernoulli) * square
    result = item + square / 2 + item * series
    if near.any():
        low, total = x[near], result[near]
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            for k in range(11, -1, -1):  # the smallest first
                total = total + 1 / ((low + k) * (low + k))
        result[near] = total
    return np.asarray(result)


def _gap_by_difference(x: Floats, h: Floats, lam: Floats, left: Floats) -> Floats:
    d = (lam - 1) * h
    short = np.abs(d) <= 0.1 * np.minimum(x, left)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(short, 0.0, (special.gammaln(left) - special.gammaln(x)) / (lam - 1))
    if short.any():
        mean = _WEIGHTS @ special.digamma(x[short] - d[short] * _NODES[:, None])
        first[short] = -h[short] * mean
    return np.maximum(first + log_gamma_step(x, h), 0.0)


def mixed(x: Floats, step: Floats, order: Floats, rest: float = 0.0) -> Floats:
    """Return x - (order - 1)(step + rest) to full relative precision: near a pole almost nothing is left of x.

    >>> float(mixed(np.array(0.3), np.array(0.1), np.array(4.0))) == 0.3 - 3 * 0.1
    False
    """
    t = order - 1
    lost = -1 - (t - order)
    high, low = two_product(t, step)
    total = x - high
    with np.errstate(invalid="ignore", over="ignore"):
        fine = total + (slip(x, -high, total) - low - lost * step - t * rest)
    return np.where(np.isfinite(fine), fine, total)


def slip(a: Any, b: Any, total: Any) -> Any:
    """Return what rounding took from `total` = a + b (Knuth)."""
    back = total - a
    return (a - (total - back)) + (b - back)


def two_product(a: Floats, b: Floats | float) -> tuple[Floats, Floats]:
    """Return a·b as a rounded product and what rounding took (Dekker 1971)."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        product = a * b
        (p, q), (r, s) = _halves(a), _halves(b)
        return product, ((p * r - product) + p * s + q * r) + q * s


def _halves(a: Any) -> tuple[Any, Any]:
    wide = 134217729.0 * a
    high = wide - (wide - a)
    return high, a - high
