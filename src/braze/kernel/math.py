"""The math library: elementary functions written once against the kernel builder.

`FUNCTIONS[name](b, x)` writes the statements that compute a function in the dtype of `x`, f32 or f64, and
returns the result. There are no branches but one: trigonometric arguments too large for the short reduction
send their lanes, one by one, to an external function (`HUGE`), in blocks that hold such a lane.

Worst errors (ulp) that the tests hold them to: exp, log, sin, cos, tanh, rsqrt 1 in f32 and 2 in f64; sqrt is
exact to half an ulp. Zeros, infinities and NaN follow the Array API's special cases; -0.0 keeps its sign.

Invariants:
- Only opcodes that every target has; FMA appears here on purpose, since an error bound depends on it.
- Coefficients come from `coefficients.py`, which `tools/fit_math.py` writes.

Sources: argument reductions after W. Cody and W. Waite 1980, with FMA as in M. Daumas et al. 2005; the
logarithm in f64 after K. Ng's fdlibm (s = f/(2+f)); exact products by FMA, T. Dekker 1971.
"""

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


def _horner(b: Builder, x: Operand, coefficients: tuple[float, ...]) -> Operand:
    """The polynomial by Horner's rule, low degree first."""
    result: Operand = b.lift(coefficients[-1], x.dtype)
    for c in reversed(coefficients[:-1]):
        result = b.fma(result, x, c)
    return result


def _nearest(b: Builder, x: Operand, factor: float, form: Format) -> tuple[Operand, Operand]:
    """The integer next to x·factor, in floating point and as the low bits of an integer.

    Adding 1.5·2**mantissa leaves no bits for fractions; it is right below 2**(mantissa - 1).
    """
    large = 1.5 * 2.0**form.mantissa
    shifted = b.fma(x, factor, large)
    return b.sub(shifted, large), b.bitcast(shifted, form.integer)


def _exp_parts(b: Builder, x: Operand, form: Format) -> tuple[Operand, Operand]:
    """n and e**r for x = n·ln2 + r, |r| ≤ ln2/2; e**r is 1 + r·(1 + r·Q(r))."""
    n, _ = _nearest(b, x, LOG2E, form)
    r = b.fma(n, -form.ln2[0], x)
    r = b.fma(n, -form.ln2[1], r)
    return n, _horner(b, r, (1.0, 1.0, *form.polynomial("exp")))


def exp(b: Builder, x: Operand) -> Operand:
    """e**x: x = n·ln2 + r, 2**n · e**r."""
    form = FORMATS[x.dtype]
    # Clamped so that n stays finite; the bound stands first, so that a NaN x passes through both.
    bounded = b.max_fast(form.exp_low, b.min_fast(form.exp_high + 1.0, x))
    n, power = _exp_parts(b, bounded, form)
    return b.scale_fast(power, n)


def log(b: Builder, x: Operand) -> Operand:
    """Natural logarithm: x = 2**k · (1 + f) with 1 + f in [√½, √2)."""
    form = FORMATS[x.dtype]
    tiny = b.lt(x, form.smallest_normal)
    up = form.mantissa + 2
    normal = b.select(tiny, b.mul(x, float(2**up)), x)
    offset = b.sub(b.bitcast(normal, form.integer), form.root_half_bits)
    k = b.sar_fast(offset, form.mantissa)
    bits = b.sub(b.bitcast(normal, form.integer), b.shl_fast(k, form.mantissa))
    f = b.sub(b.bitcast(bits, x.dtype), 1.0)
    k = b.sub(k, b.select(tiny, b.lift(up, form.integer), b.lift(0, form.integer)))
    result = (_log_f32 if x.dtype == F32 else _log_f64)(b, f, b.cast(k, x.dtype), form)
    result = b.select(b.eq(x, INFINITY), x, result)
    result = b.select(b.ge(x, 0.0), result, NAN)  # negative and NaN
    return b.select(b.eq(x, 0.0), -INFINITY, result)


def _log_f32(b: Builder, f: Operand, k: Operand, form: Format) -> Operand:
    """f - f²/2 + f³·P(f) + k·ln2, small parts first."""
    square = b.mul(f, f)
    small = b.mul(b.mul(square, f), _horner(b, f, form.polynomial("log")))
    small = b.fma(k, form.ln2[1], small)
    small = b.fma(square, -0.5, small)
    return b.fma(k, form.ln2[0], b.add(f, small))


def _log_f64(b: Builder, f: Operand, k: Operand, form: Format) -> Operand:
    """log(1 + f) = f - f²/2 + s·(f²/2 + s²·R(s²)), s = f/(2 + f)."""
    s = b.div(f, b.add(f, 2.0))
    z = b.mul(s, s)
    rest = b.mul(z, _horner(b, z, form.polynomial("log")))
    half_square = b.mul(b.mul(f, f), 0.5)
    small = b.fma(s, b.add(half_square, rest), b.mul(k, form.ln2[1]))
    return b.fma(k, form.ln2[0], b.sub(f, b.sub(half_square, small)))


def _trig_reduced(b: Builder, x: Operand, form: Format) -> tuple[Operand, Operand, Operand]:
    """r, its rounding error and the quadrant, for x = q·π/2 + r.

    The first step is exact (both terms are multiples of one small power of two and cancel); the second
    carries its error along, so that a result near zero keeps its relative accuracy.
    """
    first, second, third = form.half_pi
    n, quadrant = _nearest(b, x, TWO_OVER_PI, form)
    exact = b.fma(n, -first, x)
    product = b.mul(n, second)
    product_error = b.fma(n, -second, product)
    r = b.sub(exact, product)
    # Fast two-sum: the bits that the subtraction lost, where the product is not the larger one. It is at most
    # 0.001; r is then as small, and what is lost less than half an ulp of it.
    lost = b.sub(b.sub(exact, r), product)
    low = b.fma(n, -third, b.add(lost, product_error))
    return r, low, quadrant


def _sin_cos(b: Builder, x: Operand, shift: int, symbol: str) -> Operand:
    """Sine for shift 0, cosine for shift 1: quadrant q + shift chooses series and sign."""
    form = FORMATS[x.dtype]
    size = b.abs(x)
    large = b.gt(size, form.trig_limit)
    r, low, quadrant = _trig_reduced(b, x, form)
    quadrant = b.add(quadrant, shift)
    z = b.mul(r, r)
    # sin(r + low) = r + (r³·S(z) + low·cos r), cos(r + low) = 1 - z/2 + (z²·C(z) - low·r)
    sine = b.add(r, b.fma(b.mul(z, r), _horner(b, z, form.polynomial("sin")), low))
    half = b.mul(z, 0.5)
    main = b.sub(1.0, half)
    error = b.sub(b.sub(1.0, main), half)
    tail = b.fma(b.mul(z, z), _horner(b, z, form.polynomial("cos")), b.fma(b.neg(r), low, error))
    cosine = b.add(main, tail)
    odd = b.ne(b.and_(quadrant, 1), 0)
    sign = b.shl_fast(b.and_(quadrant, 2), form.mantissa + (7 if x.dtype == F32 else 10))
    value = b.bitcast(b.xor(b.bitcast(b.select(odd, cosine, sine), form.integer), sign), x.dtype)
    if shift == 0:
        value = b.select(b.eq(x, 0.0), x, value)  # keeps -0.0
    return _redo_huge(b, x, large, value, symbol)


def _redo_huge(b: Builder, x: Operand, large: Operand, value: Operand, symbol: str) -> Operand:
    """Replace the lanes marked `large` by an external function of each, if there is any."""
    any_large = b.lane_reduce("or", large) if large.varying else large

    def redo() -> tuple[Operand, ...]:
        (exact,) = b.call_lanes(symbol, (b.cast(x, F64),), (F64,), large)
        return (b.select(large, b.cast(exact, x.dtype), value),)

    (result,) = b.if_(any_large, redo, lambda: (value,))
    return result


HUGE = ("braze_sin_huge", "braze_cos_huge")
"""External symbols, `double(double)`: sine and cosine of arguments of any size; NaN for infinities."""


def sin(b: Builder, x: Operand) -> Operand:
    """Sine of x in radians."""
    return _sin_cos(b, x, 0, HUGE[0])


def cos(b: Builder, x: Operand) -> Operand:
    """Cosine of x in radians."""
    return _sin_cos(b, x, 1, HUGE[1])


def tanh(b: Builder, x: Operand) -> Operand:
    """Hyperbolic tangent: x + x³·T(x²) near zero, ±(1 - 2/(e**2|x| + 1)) beyond."""
    form = FORMATS[x.dtype]
    size = b.abs(x)
    z = b.mul(x, x)
    near = b.fma(b.mul(z, x), _horner(b, z, form.polynomial("tanh")), x)
    twice = b.mul(b.min_fast(size, form.tanh_one), 2.0)
    n, power = _exp_parts(b, twice, form)
    grown = b.add(b.scale_fast(power, n), 1.0)
    far = b.copysign(b.sub(1.0, b.div(2.0, grown)), x)
    result = b.select(b.lt(size, form.tanh_series), near, far)
    # x itself where x² underflows (the series would lose -0.0 and subnormals) and for NaN.
    keep = b.or_(b.lt(size, form.smallest_normal), b.ne(x, x))
    return b.select(keep, x, result)


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


def divide_by_uniform(b: Builder, x: Operand, y: Operand, divide: Callable[[], Operand]) -> Operand:
    """x / y for a y that is the same in every lane, to the last bit, without dividing in every lane.

    With the correctly rounded reciprocal of y, each correction by the exact remainder halves what can be wrong:
    the first gives a neighbour of the quotient, the second the quotient rounded correctly. That needs
    remainders that are exact, so blocks with an x too small or too large, or such a y, are divided.
    Args:
        divide: writes the division itself, for such blocks.
    Source: P. Markstein 1990.
    """
    low, high, spread = (2.0**-60, 2.0**80, 2.0**40) if x.dtype == F32 else (2.0**-800, 2.0**800, 2.0**150)
    inverse = b.div(1.0, y)
    size = b.abs(y)
    plain_y = b.and_(b.ge(size, 1.0 / spread), b.le(size, spread))
    magnitude = b.abs(x)
    tiny = b.and_(b.lt(magnitude, low), b.gt(magnitude, 0.0))
    odd = b.lane_reduce("or", b.or_(tiny, b.gt(magnitude, high)))

    def correct() -> tuple[Operand, ...]:
        first = b.mul(x, inverse)
        q = first
        for _ in range(2):
            q = b.fma(b.fma(b.neg(q), y, x), inverse, q)
        return (b.copysign(q, first),)  # a zero quotient has lost its sign in the corrections

    (result,) = b.if_(b.and_(plain_y, b.not_(odd)), correct, lambda: (divide(),))
    return result


FUNCTIONS: dict[str, Callable[..., Operand]] = {
    f.__name__: f for f in (exp, log, sin, cos, tanh, sqrt, rsqrt)
}
