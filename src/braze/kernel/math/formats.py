"""What the functions of the library share: facts of the formats, Horner's rule, rounding to integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from braze.dtypes import F32, F64, I32, I64, DType
from braze.kernel.coefficients import POLYNOMIALS
from braze.kernel.ir import Operand
from braze.record import Record

if TYPE_CHECKING:
    from braze.kernel.builder import Builder

LOG2E = 1.4426950408889634
TWO_OVER_PI = 0.6366197723675814
INFINITY = float("inf")
NAN = float("nan")


@dataclass(slots=True, eq=False, repr=False)
class Format(Record):
    """Facts of a floating-point format that the algorithms need.

    Attributes:
        integer: the integer dtype of the same width; `mantissa` bits of fraction; exponent `bias`.
        ln2, half_pi: the constants as sums of numbers of this format, largest first.
        exp_low, exp_high: below and above, exp is 0 and infinity.
        trig_limit: largest |x| of the short reduction of sine and cosine.
        tanh_series, tanh_one: below, tanh is its series; above, it is 1.
    """

    name: str
    integer: DType
    mantissa: int
    bias: int
    ln2: tuple[float, float]
    half_pi: tuple[float, float, float]
    exp_low: float
    exp_high: float
    trig_limit: float
    tanh_series: float
    tanh_one: float
    smallest_normal: float
    root_half_bits: int

    @property
    def epsilon(self) -> float:
        """From 1 to the next number."""
        return 2.0**-self.mantissa

    def polynomial(self, name: str) -> tuple[float, ...]:
        return POLYNOMIALS[name, self.name]


FORMATS: dict[DType, Format] = {
    F32: Format(
        "f32", I32, 23, 127,
        ln2=(0.693145751953125, 1.42860682030941723212e-6),
        half_pi=(1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
        exp_low=-104.0, exp_high=88.72284,
        trig_limit=30000.0, tanh_series=1.0, tanh_one=9.1,
        smallest_normal=1.1754943508222875e-38, root_half_bits=0x3F3504F3,
    ),
    F64: Format(
        "f64", I64, 52, 1023,
        ln2=(6.93147180369123816490e-01, 1.90821492927058770002e-10),
        half_pi=(1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
        exp_low=-745.2, exp_high=709.782712893384,
        trig_limit=2.0e6, tanh_series=0.625, tanh_one=19.1,
        smallest_normal=2.2250738585072014e-308, root_half_bits=0x3FE6A09E667F3BCD,
    ),
}  # fmt: skip


def horner(b: Builder, x: Operand, coefficients: tuple[float, ...]) -> Operand:
    """The polynomial by Horner's rule, low degree first."""
    result: Operand = b.lift(coefficients[-1], x.dtype)
    for c in reversed(coefficients[:-1]):
        result = b.fma(result, x, c)
    return result


def nearest(b: Builder, x: Operand, factor: float, form: Format) -> tuple[Operand, Operand]:
    """The integer next to x·factor, in floating point and as the low bits of an integer.

    Adding 1.5·2**mantissa leaves no bits for fractions; it is right below 2**(mantissa - 1).
    """
    large = 1.5 * 2.0**form.mantissa
    shifted = b.fma(x, factor, large)
    return b.sub(shifted, large), b.bitcast(shifted, form.integer)


def fast_sum(b: Builder, large: Operand, small: Operand) -> tuple[Operand, Operand]:
    """The sum and its rounding error, exact where `large` is not the smaller one, or is 0."""
    total = b.add(large, small)
    return total, b.add(b.sub(large, total), small)


def exact_sum(b: Builder, x: Operand, y: Operand | float) -> tuple[Operand, Operand]:
    """The sum and its rounding error, whichever is larger."""
    total = b.add(x, y)
    part = b.sub(total, y)
    return total, b.add(b.sub(x, part), b.sub(y, b.sub(total, part)))


def exact_product(b: Builder, x: Operand, y: Operand | float) -> tuple[Operand, Operand]:
    """The product and its rounding error."""
    product = b.mul(x, y)
    return product, b.fma(x, y, b.neg(product))


def keep_small(b: Builder, x: Operand, result: Operand, limit: float) -> Operand:
    """x itself where it is so small that f(x) = x: keeps -0.0 and the last bits of subnormal numbers."""
    return b.select(b.lt(b.abs(x), limit), x, result)


def is_nan(b: Builder, x: Operand) -> Operand:
    return b.ne(x, x)


def in_f64(b: Builder, x: Operand, function: Callable[[Builder, Operand, DType], Operand]) -> Operand:
    """A function that computes in f64 to the accuracy of the operand's dtype."""
    return b.cast(function(b, b.cast(x, F64), x.dtype), x.dtype)
