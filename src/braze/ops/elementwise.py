"""Elementwise operations: arithmetic, comparison, logic, shifts, select, conversions.

Operands have one dtype. Primitives take scalars and axes of size 1 beside full operands (`core.infer`), HLO ops
take one shape, so lowering broadcasts; only `select` and `clamp` of HLO know scalars among arrays.

Meaning: IEEE 754 for + - × ÷ and sqrt; integers wrap; x/0 is -1 (all ones), x%0 is x, MIN/-1 is MIN; shifts
by the width or more give 0, or the sign; conversions to integers truncate and saturate, NaN gives 0; maximum
and minimum propagate NaN and hold -0 below +0.
Gradients at kinks are JAX's: half to each side of a tie, 0 for abs at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import dtypes
from braze.dtypes import (
    ALL,
    BF16,
    BOOL,
    COMPLEX,
    F32,
    FLOATS,
    I16,
    I32,
    I64,
    INTEGERS,
    NUMBERS,
    SIGNED,
    UNSIGNED,
    DType,
)
from braze.errors import DTypeError, ShapeError, UnsupportedError
from braze.ops.facets import (
    HLO_ONLY,
    LOWERED,
    NOT_LINEAR,
    SAMPLED,
    SHAPES,
    Array,
    check_alike,
    check_dtype,
    elementwise_cost,
    elementwise_samples,
    full_like,
    listing,
    only_linear,
    quiet,
    scalar_like,
)
from braze.ops.table import (
    ELEMENTWISE,
    EXACT,
    LINEAR,
    PRIMITIVES,
    ZERO,
    Absent,
    Error,
    Op,
    Sample,
    Undefined,
)
from braze.types import TensorType

BITS = (BOOL, *INTEGERS)
REALS = INTEGERS + FLOATS
INEXACT = FLOATS + COMPLEX
SIGNED_NUMBERS = SIGNED + FLOATS + COMPLEX

Facet = Callable[..., Any]


def unary(
    name: str,
    hlo: str,
    allowed: Sequence[DType],
    numpy: Facet,
    jvp: Any,
    kernel: Facet,
    *,
    error: Error = EXACT,
    transpose: Any = NOT_LINEAR,
    transcendentals: int = 0,
) -> Op:
    """An op on one operand that keeps its type."""

    def infer(x: TensorType) -> TensorType:
        check_dtype(name, "operand", x, allowed, "I1")
        return x

    return Op(
        name, hlo=hlo,
        infer=infer, numpy=quiet(numpy), error=error,
        jvp=jvp if jvp in (ZERO, LINEAR) or isinstance(jvp, Absent) else (jvp,), transpose=transpose, batch=ELEMENTWISE,
        kernel=kernel, cost=elementwise_cost(name, 0 if transcendentals else 1, transcendentals),
        samples=elementwise_samples(allowed),
    )  # fmt: skip


def binary(
    name: str,
    hlo: str,
    allowed: Sequence[DType],
    numpy: Facet,
    jvp: Any,
    kernel: Facet,
    *,
    error: Error = EXACT,
    transpose: Any = NOT_LINEAR,
    commutative: bool = False,
    transcendentals: int = 0,
) -> Op:
    """An op on two operands of one type that keeps it."""

    def infer(x: TensorType, y: TensorType) -> TensorType:
        check_alike(name, ("lhs", "rhs"), (x, y), "C1")
        check_dtype(name, "lhs", x, allowed, "I1")
        return x

    return Op(
        name, hlo=hlo,
        infer=infer, numpy=quiet(numpy), error=error,
        jvp=jvp, transpose=transpose, batch=ELEMENTWISE,
        kernel=kernel, cost=elementwise_cost(name, 0 if transcendentals else 1, transcendentals),
        samples=elementwise_samples(allowed, 2),
        commutative=commutative,
    )  # fmt: skip


# --- arithmetic ---------------------------------------------------------------------------------------
def _add_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [ct if isinstance(x, Undefined) else None, ct if isinstance(y, Undefined) else None]


def _sub_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [ct if isinstance(x, Undefined) else None, neg(ct) if isinstance(y, Undefined) else None]


def _mul_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [mul(ct, y), None] if only_linear("mul", x, y) == 0 else [None, mul(x, ct)]


def _div_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    assert only_linear("div", x, y) == 0, "div is linear in its dividend only"
    return [div(ct, y), None]


def _divide(x: Array, y: Array) -> Array:
    """Division; integers truncate, x/0 is all ones, MIN/-1 is MIN."""
    if x.dtype not in INTEGERS:
        return np.asarray(np.divide(x, y))
    zero, minus_one = y == 0, (y == -1 if x.dtype in SIGNED else np.zeros_like(y, bool))
    safe = np.where(zero | minus_one, y.dtype.type(1), y)
    quotient = np.floor_divide(x, safe)
    inexact = quotient * safe != x
    quotient = quotient + (inexact & ((x < 0) != (safe < 0))).astype(x.dtype)
    quotient = np.where(minus_one, np.negative(x), quotient)
    return np.where(zero, ~np.zeros_like(x), quotient)


def _remainder(x: Array, y: Array) -> Array:
    """C's remainder, with the sign of the dividend; x%0 is x for integers."""
    if x.dtype not in INTEGERS:
        return np.asarray(np.fmod(x, y))
    zero, minus_one = y == 0, (y == -1 if x.dtype in SIGNED else np.zeros_like(y, bool))
    rest = np.fmod(x, np.where(zero | minus_one, y.dtype.type(1), y))
    return np.where(zero, x, rest)


def _rem_jvp_divisor(t: Any, x: Any, y: Any) -> Any:
    ratio = div(x, y)
    return mul(neg(t), mul(sign(ratio), floor(abs(ratio))))


def maximum(x: Array, y: Array) -> Array:
    """The larger; NaN if either is NaN; of two zeros +0 unless both are -0."""
    larger = np.maximum(x, y)
    if x.dtype not in FLOATS:
        return np.asarray(larger)
    return np.where((x == 0) & (y == 0), x + y, larger)


def minimum(x: Array, y: Array) -> Array:
    """The smaller; NaN if either is NaN; of two zeros -0 unless both are +0."""
    smaller = np.minimum(x, y)
    if x.dtype not in FLOATS:
        return np.asarray(smaller)
    return np.where((x == 0) & (y == 0), -(-x + -y), smaller)


def _share(wins: Any, ties: Any, x: Any) -> Any:
    """1 where an operand wins, a half where it ties, else 0."""
    part = select_n(ties, scalar_like(x, 0.0), scalar_like(x, 0.5))
    return select_n(wins, part, scalar_like(x, 1.0))


def _sign(x: Array) -> Array:
    if x.dtype in COMPLEX:
        return np.asarray(np.sign(x))
    one = x.dtype.type(1)
    negative = np.where(x < 0, np.negative(one), x) if x.dtype not in UNSIGNED else x
    return np.where(x > 0, one, negative)


def _sign_kernel(b: Any, x: Any) -> Any:
    if x.dtype in UNSIGNED:
        return b.select(b.gt(x, 0), 1, x)
    return b.select(b.gt(x, 0), b.lift(1, x.dtype), b.select(b.lt(x, 0), -1, x))


add: Op = binary("add", "add", ALL, np.add, (lambda t, x, y: t, lambda t, x, y: t),
             lambda b, x, y: b.or_(x, y) if x.dtype == BOOL else b.add(x, y),
             transpose=_add_transpose, commutative=True)  # fmt: skip
sub: Op = binary("sub", "subtract", NUMBERS, np.subtract, (lambda t, x, y: t, lambda t, x, y: neg(t)),
             lambda b, x, y: b.sub(x, y),
             transpose=_sub_transpose)  # fmt: skip
mul: Op = binary("mul", "multiply", ALL, np.multiply, (lambda t, x, y: mul(t, y), lambda t, x, y: mul(x, t)),
             lambda b, x, y: b.and_(x, y) if x.dtype == BOOL else b.mul(x, y),
             transpose=_mul_transpose, commutative=True)  # fmt: skip
div: Op = binary("div", "divide", NUMBERS, _divide,
             (lambda t, x, y: div(t, y), lambda t, x, y: div(neg(mul(t, div(x, y))), y)),
             lambda b, x, y: b.div(x, y), transpose=_div_transpose)  # fmt: skip
rem: Op = binary("rem", "remainder", REALS, _remainder, (lambda t, x, y: t, _rem_jvp_divisor),
             lambda b, x, y: b.rem(x, y))  # fmt: skip
max: Op = binary("max", "maximum", (BOOL, *REALS), maximum,
             (lambda t, x, y: mul(t, _share(gt(x, y), eq(x, y), x)),
              lambda t, x, y: mul(t, _share(gt(y, x), eq(x, y), x))),
             lambda b, x, y: b.max(x, y), commutative=True)  # fmt: skip
min: Op = binary("min", "minimum", (BOOL, *REALS), minimum,
             (lambda t, x, y: mul(t, _share(lt(x, y), eq(x, y), x)),
              lambda t, x, y: mul(t, _share(lt(y, x), eq(x, y), x))),
             lambda b, x, y: b.min(x, y), commutative=True)  # fmt: skip
neg: Op = unary("neg", "negate", NUMBERS, np.negative, LINEAR, lambda b, x: b.neg(x),
            transpose=lambda ct, x: [neg(ct)])  # fmt: skip
abs: Op = unary(
    "abs", "abs", SIGNED + FLOATS, np.absolute, lambda t, x: mul(t, sign(x)), lambda b, x: b.abs(x)
)
sign: Op = unary("sign", "sign", NUMBERS, _sign, ZERO, _sign_kernel)
floor: Op = unary("floor", "floor", FLOATS, np.floor, ZERO, lambda b, x: b.floor(x))
ceil: Op = unary("ceil", "ceil", FLOATS, np.ceil, ZERO, lambda b, x: b.ceil(x))


# --- rounding -----------------------------------------------------------------------------------------
def _round_infer(x: TensorType, *, rounding_method: int) -> TensorType:
    check_dtype("round", "operand", x, FLOATS, "I1")
    if rounding_method not in (0, 1):
        raise UnsupportedError(
            f"round: rounding_method is {rounding_method}; 0 is away from zero, 1 is to even."
        )
    return x


def _round_away(x: Array) -> Array:
    """To nearest, ties away from zero; exact, and -0.4 gives -0."""
    whole = np.trunc(x)
    step = np.copysign(np.where(np.abs(x - whole) >= 0.5, x.dtype.type(1), x.dtype.type(0)), x)
    return np.where(np.isfinite(x), np.copysign(whole + step, x), x)


def _round_away_kernel(b: Any, x: Any) -> Any:
    whole = b.trunc(x)
    far = b.ge(b.abs(b.sub(x, whole)), 0.5)
    # An infinity minus itself is NaN, which is not far, so infinities stay.
    return b.copysign(b.select(far, b.add(whole, b.copysign(b.lift(1.0, x.dtype), x)), whole), x)


def _round_numpy(x: Array, *, rounding_method: int) -> Array:
    return np.asarray(np.rint(x)) if rounding_method == 1 else _round_away(x)


def _round_lower(b: Any, x: Any, *, rounding_method: int) -> Any:
    return b.emit(round_nearest_even_hlo if rounding_method == 1 else round_nearest_afz_hlo, x)


def _round_samples() -> list[Sample]:
    return [(types, {"rounding_method": m}) for types, _ in elementwise_samples(FLOATS)() for m in (0, 1)]


round: Op = Op(
    "round", hlo=None,
    infer=_round_infer, numpy=quiet(_round_numpy), error=EXACT,
    jvp=ZERO, transpose=NOT_LINEAR, batch=ELEMENTWISE, lower=_round_lower,
    kernel=LOWERED, cost=elementwise_cost("round"), samples=_round_samples, attrs=("rounding_method",),
    jax_attrs=dict,
)  # fmt: skip


def _hlo_unary(hlo: str, allowed: Sequence[DType], numpy: Facet, kernel: Facet) -> Op:
    def infer(x: TensorType) -> TensorType:
        check_dtype(hlo, "operand", x, allowed, "I1")
        return x

    return Op(
        None, hlo=hlo,
        infer=infer, numpy=quiet(numpy), error=EXACT,
        jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
        kernel=kernel, cost=elementwise_cost(hlo), samples=elementwise_samples(allowed),
    )  # fmt: skip


round_nearest_even_hlo: Op = _hlo_unary("round_nearest_even", FLOATS, np.rint, lambda b, x: b.rint(x))
round_nearest_afz_hlo: Op = _hlo_unary("round_nearest_afz", FLOATS, _round_away, _round_away_kernel)


# --- powers -------------------------------------------------------------------------------------------
def repeated_squaring(multiply: Callable[[Any, Any], Any], x: Any, y: int) -> Any:
    """x to the power y ≥ 1 by repeated squaring, in one fixed order wherever it is computed."""
    power = None
    while True:
        if y & 1:
            power = x if power is None else multiply(power, x)
        y >>= 1
        if not y:
            return power
        x = multiply(x, x)


def _integer_pow_infer(x: TensorType, *, y: int) -> TensorType:
    check_dtype("integer_pow", "operand", x, NUMBERS, "I1")
    if y < 0 and x.dtype in INTEGERS:
        raise DTypeError(
            f"integer_pow: an operand of {dtypes.short(x.dtype)} has no power of exponent {y}.",
            values=f"operand {x}, y {y}",
            hint="convert it to a float with astype.",
        )
    return x


def _integer_pow_numpy(x: Array, *, y: int) -> Array:
    if y == 0:
        return np.ones_like(x)
    power = repeated_squaring(np.multiply, x, -y if y < 0 else y)
    return np.asarray(np.divide(x.dtype.type(1), power) if y < 0 else power)


def _integer_pow_jvp(t: Any, x: Any, *, y: int) -> Any:
    if y == 0:
        return full_like(t, 0)
    return mul(t, mul(scalar_like(x, y), integer_pow(x, y=y - 1)))


def _integer_pow_lower(b: Any, x: Any, *, y: int) -> Any:
    if y == 0:
        return splat(b, x.type, 1)
    power = repeated_squaring(lambda u, v: b.emit(mul, u, v), x, -y if y < 0 else y)
    return b.emit(div, splat(b, x.type, 1), power) if y < 0 else power


def splat(b: Any, t: TensorType, value: Any) -> Any:
    """One value in every element of a type, in HLO."""
    scalar = b.constant(np.asarray(value).astype(t.dtype))
    if not t.shape:
        return scalar
    return b.emit(PRIMITIVES["broadcast_in_dim"], scalar, shape=t.shape, broadcast_dimensions=())


def _integer_pow_samples() -> list[Sample]:
    return [
        (types, {"y": y})
        for types, _ in elementwise_samples(NUMBERS)()
        for y in ((-3, -1, 0, 1, 2, 3, 7, 10) if types[0].dtype in FLOATS else (0, 1, 2, 7))
    ]


integer_pow: Op = Op(
    "integer_pow", hlo=None,
    infer=_integer_pow_infer, numpy=quiet(_integer_pow_numpy), error=EXACT,
    jvp=(_integer_pow_jvp,), transpose=NOT_LINEAR, batch=ELEMENTWISE, lower=_integer_pow_lower,
    kernel=LOWERED, cost=elementwise_cost("integer_pow", 3), samples=_integer_pow_samples, attrs=("y",),
    jax_attrs=dict,
)  # fmt: skip


def _square_infer(x: TensorType) -> TensorType:
    check_dtype("square", "operand", x, NUMBERS, "I1")
    return x


square: Op = Op(
    "square", hlo=None,
    infer=_square_infer, numpy=quiet(lambda x: np.multiply(x, x)), error=EXACT,
    jvp=(lambda t, x: mul(t, mul(scalar_like(x, 2), x)),), transpose=NOT_LINEAR, batch=ELEMENTWISE,
    lower=lambda b, x: b.emit(mul, x, x),
    kernel=LOWERED, cost=elementwise_cost("square"), samples=elementwise_samples(NUMBERS),
)  # fmt: skip


# --- comparison ---------------------------------------------------------------------------------------
_COMPARISONS: dict[str, tuple[str, Facet]] = {
    "EQ": ("eq", np.equal), "NE": ("ne", np.not_equal), "LT": ("lt", np.less),
    "LE": ("le", np.less_equal), "GT": ("gt", np.greater), "GE": ("ge", np.greater_equal),
}  # fmt: skip


def compare_type_of(dtype: DType) -> str:
    """The compare_type that a dtype calls for."""
    return "FLOAT" if dtypes.is_inexact(dtype) else "SIGNED" if dtype in SIGNED else "UNSIGNED"


def _compare_infer(
    x: TensorType, y: TensorType, *, comparison_direction: str, compare_type: str
) -> TensorType:
    check_alike("compare", ("lhs", "rhs"), (x, y), "C1, C2")
    if comparison_direction not in _COMPARISONS:
        raise DTypeError(
            f"compare: comparison_direction {comparison_direction} is none of {', '.join(_COMPARISONS)}."
        )
    wanted = compare_type_of(x.dtype)
    if compare_type != wanted and not (compare_type == "TOTALORDER" and x.dtype in FLOATS):
        raise DTypeError(
            f"compare (C3): compare_type is {compare_type}, but operands of {dtypes.short(x.dtype)} "
            f"need {wanted}.",
            values=listing(lhs=x, rhs=y),
        )
    if x.dtype in COMPLEX and comparison_direction not in ("EQ", "NE"):
        raise DTypeError(f"compare (C3): {dtypes.short(x.dtype)} has no order.", values=listing(lhs=x, rhs=y))
    return TensorType(x.shape, BOOL)


def _compare_numpy(x: Array, y: Array, *, comparison_direction: str, compare_type: str) -> Array:
    if compare_type == "TOTALORDER":
        x, y = _total_order(x), _total_order(y)
    return np.asarray(_COMPARISONS[comparison_direction][1](x, y))


def _total_order(x: Array) -> Array:
    """Signed integers in the order of IEEE's totalOrder: -NaN, -inf, …, -0, +0, …, inf, NaN."""
    bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}").reshape(x.shape)
    width = 8 * x.dtype.itemsize
    return np.asarray(bits ^ ((bits >> (width - 1)) & ((1 << (width - 1)) - 1)))


def _compare_kernel(b: Any, x: Any, y: Any, *, comparison_direction: str, compare_type: str) -> Any:
    if compare_type == "TOTALORDER":
        bits = {2: I16, 4: I32, 8: I64}[x.dtype.itemsize]

        def ordered(v: Any) -> Any:
            v = b.bitcast(v, bits)
            width = 8 * bits.itemsize
            sign = b.compute("sar_fast", v, width - 1)
            return b.compute("xor", v, b.compute("and", sign, (1 << (width - 1)) - 1))

        x, y = ordered(x), ordered(y)
    return b.compute(_COMPARISONS[comparison_direction][0], x, y)


def _compare_samples() -> list[Sample]:
    return [
        (types, {"comparison_direction": direction, "compare_type": kind})
        for types, _ in elementwise_samples(ALL, 2)()
        for direction in _COMPARISONS
        for kind in (compare_type_of(types[0].dtype), "TOTALORDER")
        if kind != "TOTALORDER" or types[0].dtype in FLOATS
    ]


compare_hlo: Op = Op(
    None, hlo="compare",
    infer=_compare_infer, numpy=_compare_numpy, error=EXACT,
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    kernel=_compare_kernel, cost=elementwise_cost("compare"), samples=_compare_samples,
    attrs=("comparison_direction", "compare_type"),
)  # fmt: skip


def _comparison(direction: str) -> Op:
    name, numpy = _COMPARISONS[direction]

    def infer(x: TensorType, y: TensorType) -> TensorType:
        check_alike(name, ("lhs", "rhs"), (x, y), "C1, C2")
        return _compare_infer(
            x, y, comparison_direction=direction, compare_type=compare_type_of(x.dtype)
        )  # fmt: skip

    def lower(b: Any, x: Any, y: Any) -> Any:
        return b.emit(
            compare_hlo, x, y, comparison_direction=direction, compare_type=compare_type_of(x.type.dtype)
        )

    return Op(
        name, hlo=None,
        infer=infer, numpy=quiet(numpy), error=EXACT,
        jvp=ZERO, transpose=NOT_LINEAR, batch=ELEMENTWISE, lower=lower,
        kernel=LOWERED, cost=elementwise_cost(name), samples=elementwise_samples(ALL, 2),
        commutative=direction in ("EQ", "NE"), keeps_weak_type=False,
    )  # fmt: skip


eq: Op = _comparison("EQ")
ne: Op = _comparison("NE")
lt: Op = _comparison("LT")
le: Op = _comparison("LE")
gt: Op = _comparison("GT")
ge: Op = _comparison("GE")


def _is_finite_infer(x: TensorType) -> TensorType:
    check_dtype("is_finite", "operand", x, FLOATS, "I1")
    return TensorType(x.shape, BOOL)


is_finite: Op = Op(
    "is_finite", hlo="is_finite",
    infer=_is_finite_infer, numpy=quiet(np.isfinite), error=EXACT,
    jvp=ZERO, transpose=NOT_LINEAR, batch=ELEMENTWISE,
    kernel=lambda b, x: b.lt(b.abs(x), float("inf")), cost=elementwise_cost("is_finite"),
    samples=elementwise_samples(FLOATS), keeps_weak_type=False,
)  # fmt: skip


# --- logic and shifts ---------------------------------------------------------------------------------
def _shifted(x: Array, y: Array, shift: Facet, beyond: Array) -> Array:
    """x shifted by y, and `beyond` where y, read as unsigned, reaches the width."""
    width = 8 * x.dtype.itemsize
    unsigned = y.view(f"u{y.dtype.itemsize}")
    inside = unsigned < width
    return np.where(inside, shift(x, np.where(inside, y, y.dtype.type(0))), beyond)


def _shift_left(x: Array, y: Array) -> Array:
    return _shifted(x, y, np.left_shift, np.zeros_like(x))


def _shift_right_logical(x: Array, y: Array) -> Array:
    kind = f"u{x.dtype.itemsize}"
    bits, amount = np.asarray(x).view(kind), np.asarray(y).view(kind)
    return _shifted(bits, amount, np.right_shift, np.zeros_like(bits)).view(x.dtype)


def _shift_right_arithmetic(x: Array, y: Array) -> Array:
    kind = f"i{x.dtype.itemsize}"
    bits, amount = np.asarray(x).view(kind), np.asarray(y).view(kind)
    return _shifted(bits, amount, np.right_shift, np.where(bits < 0, ~np.zeros_like(bits), 0 * bits)).view(
        x.dtype
    )


and_: Op = binary("and", "and", BITS, np.bitwise_and, ZERO, lambda b, x, y: b.and_(x, y), commutative=True)
or_: Op = binary("or", "or", BITS, np.bitwise_or, ZERO, lambda b, x, y: b.or_(x, y), commutative=True)
xor: Op = binary("xor", "xor", BITS, np.bitwise_xor, ZERO, lambda b, x, y: b.xor(x, y), commutative=True)
not_: Op = unary("not", "not", BITS, np.invert, ZERO, lambda b, x: b.not_(x))
shift_left: Op = binary("shift_left", "shift_left", INTEGERS, _shift_left, ZERO, lambda b, x, y: b.shl(x, y))
shift_right_logical: Op = binary("shift_right_logical", "shift_right_logical", INTEGERS, _shift_right_logical,
                             ZERO, lambda b, x, y: b.shr(x, y))  # fmt: skip
shift_right_arithmetic: Op = binary("shift_right_arithmetic", "shift_right_arithmetic", INTEGERS,
                                _shift_right_arithmetic, ZERO, lambda b, x, y: b.sar(x, y))  # fmt: skip


# --- select -------------------------------------------------------------------------------------------
def _select_infer(pred: TensorType, on_true: TensorType, on_false: TensorType) -> TensorType:
    check_dtype("select", "pred", pred, (BOOL,), "I1")
    check_alike("select", ("on_true", "on_false"), (on_true, on_false), "C2")
    if pred.shape not in ((), on_true.shape):
        raise ShapeError(
            f"select (C1): pred has shape {pred.shape}, which is neither () nor the shape "
            f"{on_true.shape} of on_true.",
            values=listing(pred=pred, on_true=on_true, on_false=on_false),
        )
    return on_true


def _select_samples() -> list[Sample]:
    return [
        ((TensorType(shape, BOOL), x, y), {})
        for (x, y), _ in elementwise_samples(ALL, 2)()
        for shape in sorted({(), x.shape})
    ]


select_hlo: Op = Op(
    None, hlo="select",
    infer=_select_infer, numpy=lambda pred, x, y: np.where(pred, x, y), error=EXACT,
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    kernel=lambda b, pred, x, y: b.select(pred, x, y), cost=elementwise_cost("select"),
    samples=_select_samples,
)  # fmt: skip


def _select_n_infer(which: TensorType, *cases: TensorType) -> TensorType:
    if not cases:
        raise ShapeError("select_n: there is no case to select.")
    check_alike("select_n", tuple(f"case{i}" for i in range(len(cases))), cases, "C2")
    check_dtype("select_n", "which", which, (BOOL, I32), "I1")
    if which.dtype == BOOL and len(cases) > 2:
        raise DTypeError(f"select_n (I1): which is bool and can not tell {len(cases)} cases apart.")
    if which.shape not in ((), cases[0].shape):
        raise ShapeError(
            f"select_n (C1): which has shape {which.shape}, which is neither () nor the shape "
            f"{cases[0].shape} of the cases.",
            values=listing(which=which, case0=cases[0]),
        )
    return cases[0]


def _select_n_numpy(which: Array, *cases: Array) -> Array:
    """The case whose number `which` is; numbers outside take the nearest case."""
    chosen = cases[0]
    for i, case in enumerate(cases[1:], 1):
        chosen = np.where(which if which.dtype == bool else which >= i, case, chosen)
    return np.asarray(chosen)


def _select_n_jvp(*args: Any) -> Any:
    half = len(args) // 2
    return select_n(args[half], *args[1:half])


def _select_n_transpose(ct: Any, which: Any, *cases: Any) -> list[Any]:
    zeros = scalar_like(ct, 0)
    return [None] + [
        select_n(which, *[ct if j == i else zeros for j in range(len(cases))])
        if isinstance(case, Undefined)
        else None
        for i, case in enumerate(cases)
    ]


def _select_n_lower(b: Any, which: Any, *cases: Any) -> Any:
    chosen = cases[0]
    for i, case in enumerate(cases[1:], 1):
        holds = which
        if which.type.dtype != BOOL:
            holds = b.emit(
                compare_hlo, which, splat(b, which.type, i), comparison_direction="GE", compare_type="SIGNED"
            )
        chosen = b.emit(select_hlo, holds, case, chosen)
    return chosen


def _select_n_samples() -> list[Sample]:
    two = [((pred, x, y), attrs) for (pred, x, y), attrs in _select_samples()]
    three: list[Sample] = [
        ((TensorType(shape, I32), *[TensorType(shape, F32)] * 3), {}) for shape in ((), (5,))
    ]
    return two + three


select_n: Op = Op(
    "select_n", hlo=None,
    infer=_select_n_infer, numpy=_select_n_numpy, error=EXACT,
    jvp=_select_n_jvp, transpose=_select_n_transpose, batch=ELEMENTWISE, lower=_select_n_lower,
    kernel=LOWERED, cost=elementwise_cost("select_n"), samples=_select_n_samples,
)  # fmt: skip


# --- clamp --------------------------------------------------------------------------------------------
def _clamp_infer(low: TensorType, x: TensorType, high: TensorType) -> TensorType:
    check_dtype("clamp", "operand", x, (BOOL, *REALS), "I2")
    for name, bound, constraint in (("min", low, "C1"), ("max", high, "C2")):
        if bound.dtype != x.dtype:
            raise DTypeError(
                f"clamp (C3): {name} is {dtypes.short(bound.dtype)} and operand is "
                f"{dtypes.short(x.dtype)}, which must be alike.",
                values=listing(min=low, operand=x, max=high),
            )
        if bound.shape not in ((), x.shape):
            raise ShapeError(
                f"clamp ({constraint}): {name} has shape {bound.shape}, which is neither () nor the shape "
                f"{x.shape} of operand.",
                values=listing(min=low, operand=x, max=high),
            )
    return x


def _clamp_low_jvp(t: Any, low: Any, x: Any, high: Any) -> Any:
    return select_n(gt(low, x), scalar_like(t, 0), t)


def _clamp_jvp(t: Any, low: Any, x: Any, high: Any) -> Any:
    return select_n(and_(gt(x, low), lt(x, high)), scalar_like(t, 0), t)


def _clamp_high_jvp(t: Any, low: Any, x: Any, high: Any) -> Any:
    return select_n(lt(high, x), scalar_like(t, 0), t)


def _clamp_kernel(b: Any, low: Any, x: Any, high: Any) -> Any:
    return b.min(b.max(x, low), high)


def _clamp_samples() -> list[Sample]:
    return [
        ((TensorType(shape, x.dtype), x, TensorType(shape, x.dtype)), {})
        for (x,), _ in elementwise_samples((BOOL, *REALS))()
        for shape in sorted({(), x.shape})
    ]


clamp: Op = Op(
    "clamp", hlo="clamp",
    infer=_clamp_infer, numpy=quiet(lambda low, x, high: minimum(maximum(x, low), high)), error=EXACT,
    jvp=(_clamp_low_jvp, _clamp_jvp, _clamp_high_jvp), transpose=NOT_LINEAR, batch=ELEMENTWISE,
    kernel=_clamp_kernel, cost=elementwise_cost("clamp", 2), samples=_clamp_samples,
)  # fmt: skip


# --- conversion ---------------------------------------------------------------------------------------
def convert(x: Array, dtype: DType) -> Array:
    """The values of x in another dtype.

    Floats round to nearest even and overflow to infinity; floats to integers truncate and saturate, NaN
    gives 0; integers wrap; complex to all else drops the imaginary part
    first; to bool is "not zero".
    """
    with np.errstate(all="ignore"):
        if x.dtype in COMPLEX and dtype not in COMPLEX:
            x = x.real
        if dtype == BOOL:
            return np.asarray(x != 0)
        if x.dtype in FLOATS and dtype in INTEGERS:
            return _saturate(x.astype(np.float64), dtype)
        if dtype == BF16 and x.dtype.itemsize >= 4 and x.dtype != F32:
            return _to_odd(x).astype(BF16)  # ml_dtypes would round to f32 first
        return x.astype(dtype)


def _to_odd(x: Array) -> Array:
    """f32 whose last bit is set where something was cut off, so that a second rounding comes out as one alone."""
    if x.dtype in INTEGERS:
        low = x & 0x7FF
        large = (x >= 1 << 53) | (x <= -(1 << 53)) if x.dtype in SIGNED else x >= 1 << 53
        folded = (x - low) | np.where(low != 0, 0x400, 0).astype(x.dtype)
        x = (np.where(large, folded, x) if x.dtype.itemsize == 8 else x).astype(np.float64)
    near = x.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.int32)
    cut = np.where(abs(back) > abs(x), bits - 1, bits)
    return np.asarray(np.where(back != x, cut | 1, bits).astype(np.int32)).view(np.float32)


def _saturate(x: Array, dtype: DType) -> Array:
    limits = np.iinfo(dtype)
    low, high = float(limits.min), float(limits.max + 1)  # both are powers of two, so both are exact
    inside = (x > low - 1) & (x < high) if dtype.itemsize < 8 else (x >= low) & (x < high)
    inside = inside | ((x > -1) & (x < 0))
    whole = np.where(inside, np.trunc(x), 0.0).astype(dtype)
    edge = np.where(x >= high, dtype.type(limits.max), dtype.type(limits.min))
    return np.where(inside | np.isnan(x), whole, edge)


def _check_target(title: str, dtype: DType) -> None:
    if dtype not in ALL:
        raise DTypeError(f"{title}: {dtype} is none of {', '.join(dtypes.short(d) for d in ALL)}.")


def _convert_infer(x: TensorType, *, dtype: DType) -> TensorType:
    _check_target("convert", dtype)
    return TensorType(x.shape, dtype)


def _convert_samples() -> list[Sample]:
    return [((TensorType(shape, x),), {"dtype": y}) for x in SAMPLED for y in SAMPLED for shape in SHAPES]


convert_hlo: Op = Op(
    None, hlo="convert",
    infer=_convert_infer, numpy=lambda x, *, dtype: convert(x, dtype), error=EXACT,
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    kernel=lambda b, x, *, dtype: b.cast(x, dtype), cost=elementwise_cost("convert"),
    samples=_convert_samples, attrs=("dtype",),
)  # fmt: skip


def _convert_element_type_infer(x: TensorType, *, new_dtype: DType, weak_type: bool) -> TensorType:
    _check_target("convert_element_type", new_dtype)
    return TensorType(x.shape, new_dtype, weak_type)


def _convert_element_type_transpose(ct: Any, x: Undefined, *, new_dtype: DType, weak_type: bool) -> list[Any]:
    return [convert_element_type(ct, new_dtype=x.type.dtype, weak_type=x.type.weak_type)]


def _convert_element_type_lower(b: Any, x: Any, *, new_dtype: DType, weak_type: bool) -> Any:
    return x if x.type.dtype == new_dtype else b.emit(convert_hlo, x, dtype=new_dtype)


convert_element_type: Op = Op(
    "convert_element_type", hlo=None,
    infer=_convert_element_type_infer, numpy=lambda x, *, new_dtype, weak_type: convert(x, new_dtype),
    error=EXACT,
    jvp=(lambda t, x, **attrs: convert_element_type(t, **attrs),), transpose=_convert_element_type_transpose,
    batch=ELEMENTWISE, lower=_convert_element_type_lower,
    kernel=LOWERED, cost=elementwise_cost("convert_element_type"),
    samples=lambda: [(t, {"new_dtype": a["dtype"], "weak_type": False}) for t, a in _convert_samples()],
    keeps_weak_type=False, attrs=("new_dtype", "weak_type"), jax_attrs=dict,
)  # fmt: skip


def _bitcast_infer(x: TensorType, *, dtype: DType) -> TensorType:
    _check_target("bitcast_convert_type", dtype)
    if (
        BOOL in (x.dtype, dtype)
        or x.dtype.itemsize != dtype.itemsize
        or (x.dtype in COMPLEX) != (dtype in COMPLEX)
    ):
        raise DTypeError(
            f"bitcast_convert_type (C1): {dtypes.short(x.dtype)} and {dtypes.short(dtype)} do not have "
            "the same number of bits.",
            values=f"operand {x}, dtype {dtypes.short(dtype)}",
        )
    return TensorType(x.shape, dtype)


def _bitcast_samples() -> list[Sample]:
    return [
        ((TensorType(shape, x),), {"dtype": y})
        for x in SAMPLED
        for y in SAMPLED
        if x.itemsize == y.itemsize and BOOL not in (x, y)
        for shape in SHAPES
    ]


bitcast_convert_type: Op = Op(
    "bitcast_convert_type", hlo="bitcast_convert",
    infer=_bitcast_infer, numpy=lambda x, *, dtype: np.ascontiguousarray(x).view(dtype).reshape(x.shape),
    error=EXACT,
    jvp=ZERO, transpose=NOT_LINEAR, batch=ELEMENTWISE,
    kernel=lambda b, x, *, dtype: b.bitcast(x, dtype), keeps_bytes=True, cost=elementwise_cost("bitcast_convert_type", 0),
    samples=_bitcast_samples, keeps_weak_type=False, attrs=("dtype",),
    jax_attrs=lambda attrs: {"new_dtype": attrs["dtype"]},
)  # fmt: skip


# --- stop_gradient --------------------------------------------------------------------------------------
stop_gradient = Op(
    "stop_gradient", hlo=None,
    infer=lambda x: x, numpy=lambda x: x, error=EXACT,
    jvp=ZERO, transpose=NOT_LINEAR, batch=ELEMENTWISE, lower=lambda b, x: x,
    kernel=LOWERED, cost=elementwise_cost("stop_gradient", 0), samples=elementwise_samples(ALL),
)  # fmt: skip
