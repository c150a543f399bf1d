"""The error function and its complement.

For x from 0.45 on, erfc x = e**(-x²)·Q(t)/(x + 4), t = (x - 4)/(x + 4).

Source: the variable t after M. Shepherd and J. Laframboise 1981.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.dtypes import F32, F64, DType
from braze.kernel.ir import Operand
from braze.kernel.math.exponential import exp_of_sum, reduced
from braze.kernel.math.formats import FORMATS, exact_product, exact_sum, horner, in_f64

if TYPE_CHECKING:
    from braze.kernel.builder import Builder


MIDDLE = 4.0
FAR_MIDDLE, FAR_END = 2.4609375, 3.921875


def _near(b: Builder, x: Operand, accuracy: DType) -> Operand:
    """erf x = x + x·E(x²), for |x| ≤ 1."""
    z = b.mul(x, x)
    return b.fma(x, horner(b, z, FORMATS[accuracy].polynomial("erf")), x)


def _beyond(b: Builder, size: Operand, accuracy: DType) -> Operand:
    """erfc of numbers from 0.45 on, in f64."""
    form = FORMATS[F64]
    size = b.min_fast(27.5, size)
    square, low = exact_product(b, size, size)
    n, r, r_low = reduced(b, b.neg(square), form)
    power = exp_of_sum(b, r, b.sub(r_low, low), accuracy)
    below, below_low = exact_sum(b, size, MIDDLE)
    inverse = b.div(1.0, below)
    # what the inverse lacks, carried through the two products
    rest = b.fma(b.neg(below_low), inverse, b.fma(b.neg(below), inverse, 1.0))
    inverse_low = b.mul(rest, inverse)
    from_middle = b.sub(size, MIDDLE)
    t = b.fma(from_middle, inverse, b.mul(from_middle, inverse_low))
    q = horner(b, t, FORMATS[accuracy].polynomial("erfc"))
    scaled, lost = exact_product(b, q, inverse)
    lost = b.fma(q, inverse_low, lost)
    value, value_low = exact_product(b, power, scaled)
    value = b.add(value, b.fma(power, lost, value_low))
    # 2**n in two factors, neither of which is subnormal.
    first = b.rint(b.mul(n, 0.5))
    one = b.lift(1.0, F64)
    return b.mul(b.mul(value, b.scale_fast(one, first)), b.scale_fast(one, b.sub(n, first)))


def erf(b: Builder, x: Operand) -> Operand:
    """Error function: near 0 a series, then 1 - erfc, in f32 by a polynomial up to 3.92, where 1 begins."""
    size = b.abs(x)
    if x.dtype == F32:
        bounded = b.min_fast(FAR_END, size)
        far = b.sub(1.0, horner(b, b.sub(bounded, FAR_MIDDLE), FORMATS[F32].polynomial("erf_far")))
    else:
        far = b.sub(1.0, _beyond(b, size, F64))
    return b.select(b.lt(size, 1.0), _near(b, x, x.dtype), b.copysign(far, x))


def _erfc(b: Builder, x: Operand, accuracy: DType) -> Operand:
    size = b.abs(x)
    beyond = _beyond(b, size, accuracy)
    far = b.select(b.lt(x, 0.0), b.sub(2.0, beyond), beyond)
    return b.select(b.lt(size, 0.46875), b.sub(1.0, _near(b, x, accuracy)), far)


def erfc(b: Builder, x: Operand) -> Operand:
    """1 - erf x, accurate where erf is next to 1; f32 is computed in f64."""
    return in_f64(b, x, _erfc)
