"""Sine, cosine and tangent in f64 for the `numpy` facets, arguments of any size reduced exactly.

C libraries differ here: glibc 2.36's cosine of 6381956970095103 · 2^797 is 8 ulp off. Beyond `LARGE` the
argument is reduced modulo π/2 in Python's integers, one element at a time, which is slow and rare.

Source: M. Payne & R. Hanek 1983 for the need of as many bits of π as the argument has exponent.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

LARGE = 2.0**20
FRACTION = 1280
"""Bits after the point: 1,024 for the largest exponent, and 256 to spare."""


@functools.cache
def half_pi() -> int:
    """π/2 · 2^FRACTION, by Machin's formula."""
    guard = 32
    one = 1 << (FRACTION + guard)

    def arctan_of_inverse(n: int) -> int:
        term, total, k, sign = one // n, 0, 1, 1
        while term:
            total += sign * (term // k)
            term //= n * n
            k, sign = k + 2, -sign
        return total

    return (8 * arctan_of_inverse(5) - 2 * arctan_of_inverse(239)) >> guard


def reduced(x: float) -> tuple[int, float, float]:
    """The quadrant of x, and what is left of it as a sum of two floats, at most π/4."""
    numerator, denominator = x.as_integer_ratio()
    position = (numerator << FRACTION) // denominator
    quadrant, rest = divmod(position, half_pi())
    if 2 * rest > half_pi():
        quadrant, rest = quadrant + 1, rest - half_pi()
    high = rest / (1 << FRACTION)
    top, below = high.as_integer_ratio()
    low = (rest - (top << FRACTION) // below) / (1 << FRACTION)
    return quadrant % 4, high, low


def _large(x: float, shift: int) -> float:
    if not math.isfinite(x):
        return math.nan
    quadrant, high, low = reduced(x)
    quadrant = (quadrant + shift) % 4
    s, c = math.sin(high), math.cos(high)
    value = c - s * low if quadrant % 2 else s + c * low
    return -value if quadrant >= 2 else value


def _large_or_plain(x: Any, plain: Callable[[Any], Any], of_large: Callable[[float], float]) -> Any:
    found = np.asarray(plain(x))
    if np.iscomplexobj(found):
        return found
    large = np.asarray(np.abs(x) > LARGE)
    if large.any():
        found[large] = [of_large(v) for v in np.asarray(x)[large].tolist()]
    return found


def sin(x: Any) -> Any:
    """Sine of an f64 (or complex) array."""
    return _large_or_plain(x, np.sin, lambda v: _large(v, 0))


def cos(x: Any) -> Any:
    """Cosine of an f64 (or complex) array."""
    return _large_or_plain(x, np.cos, lambda v: _large(v, 1))


def _large_tan(x: float) -> float:
    """tan(high + low) = t + low·(1 + t²), -1/t in odd quadrants."""
    if not math.isfinite(x):
        return math.nan
    quadrant, high, low = reduced(x)
    t = math.tan(high)
    t += low * (1 + t * t)
    return -1 / t if quadrant % 2 else t


def tan(x: Any) -> Any:
    """Tangent of an f64 (or complex) array."""
    return _large_or_plain(x, np.tan, _large_tan)
