"""Roots.

Source: the steps of order four for x^(-1/3) are the binomial series of (1 - h)^(-1/3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.dtypes import F32, F64
from braze.kernel.ir import Operand
from braze.kernel.math.formats import FORMATS, INFINITY, exact_product

if TYPE_CHECKING:
    from braze.kernel.builder import Builder


def sqrt(b: Builder, x: Operand) -> Operand:
    """Square root, correctly rounded; NaN below zero, -0.0 for -0.0."""
    return b.sqrt(x)


def rsqrt(b: Builder, x: Operand) -> Operand:
    """1/√x. In f32 one step on the residual 1 - x·y² takes the error from 1.5 to under 1 ulp."""
    y = b.div(1.0, b.sqrt(x))
    if x.dtype == F64:
        return y
    product = b.mul(x, y)
    product_error = b.fma(x, y, b.neg(product))
    residual = b.sub(b.fma(b.neg(product), y, 1.0), b.mul(product_error, y))
    better = b.fma(b.mul(y, 0.5), residual, y)
    # Zero, infinity, NaN and subnormal products have no finite residual; there y is already right.
    return b.select(b.lt(b.abs(residual), 1.0e-3), better, y)


def cbrt(b: Builder, x: Operand) -> Operand:
    """Cube root: y ≈ x^(-1/3) from the bits, steps of order four, then x·y² corrected by its exact cube."""
    form = FORMATS[x.dtype]
    limit, up, down = (2.0**-80, 2.0**48, 2.0**-16) if x.dtype == F32 else (2.0**-900, 2.0**162, 2.0**-54)
    size = b.abs(x)
    tiny = b.lt(size, limit)
    scaled = b.select(tiny, b.mul(size, up), size)
    # The pattern of a number is about its logarithm: -1/3 of it is that of x^(-1/3), but for a constant.
    third = b.mul(b.cast(b.bitcast(scaled, form.integer), x.dtype), 1.0 / 3.0)
    pattern = b.sub(CBRT_MAGIC[x.dtype], b.compute("cast_fast", third, dtype=form.integer))
    y = b.bitcast(pattern, x.dtype)
    for _ in range(1 if x.dtype == F32 else 2):
        h = b.sub(1.0, b.mul(b.mul(b.mul(scaled, y), y), y))
        series = b.fma(h, b.fma(h, 14.0 / 81.0, 2.0 / 9.0), 1.0 / 3.0)
        y = b.fma(b.mul(y, h), series, y)
    root = b.mul(b.mul(scaled, y), y)
    square, square_low = exact_product(b, root, root)
    cube, cube_low = exact_product(b, square, root)
    rest = b.sub(b.sub(scaled, cube), b.fma(square_low, root, cube_low))
    root = b.fma(rest, b.mul(b.mul(y, y), 1.0 / 3.0), root)
    result = b.copysign(b.select(tiny, b.mul(root, down), root), x)
    usual = b.and_(b.gt(size, 0.0), b.lt(size, INFINITY))
    return b.select(usual, result, x)


CBRT_MAGIC = {F32: 1419900529, F64: 6142603646958695424}
"""4/3 of the pattern of 1, less what halves the worst error of the first guess."""
