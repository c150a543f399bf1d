"""Hyperbolic functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.kernel.ir import Operand
from braze.kernel.math.exponential import exp_parts
from braze.kernel.math.formats import FORMATS, horner

if TYPE_CHECKING:
    from braze.kernel.builder import Builder


def tanh(b: Builder, x: Operand) -> Operand:
    """Hyperbolic tangent: x + x³·T(x²) near zero, ±(1 - 2/(e**2|x| + 1)) beyond."""
    form = FORMATS[x.dtype]
    size = b.abs(x)
    z = b.mul(x, x)
    near = b.fma(b.mul(z, x), horner(b, z, form.polynomial("tanh")), x)
    twice = b.mul(b.min_fast(size, form.tanh_one), 2.0)
    n, power = exp_parts(b, twice, form)
    grown = b.add(b.scale_fast(power, n), 1.0)
    far = b.copysign(b.sub(1.0, b.div(2.0, grown)), x)
    result = b.select(b.lt(size, form.tanh_series), near, far)
    # x itself where x² underflows (the series would lose -0.0 and subnormals) and for NaN.
    keep = b.or_(b.lt(size, form.smallest_normal), b.ne(x, x))
    return b.select(keep, x, result)
