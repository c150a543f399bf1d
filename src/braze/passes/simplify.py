"""Algebraic simplification: named equations, applied from the operands up.

Laws of the table:
1. A rule keeps the type.
2. It never makes more work, and goes strictly down: fewer or cheaper instructions, or the same number in
   canonical form (constants on the right; subtraction of a constant as addition; comparison turned so).
3. Canonical forms: constants stand on the right of commutative ops.
4. Rules are exact: bit for bit, for signed zeros, infinities and NaN (any NaN equals any NaN), unless
   `numerics` says otherwise; such rules fire only under `fast_math`.
5. No rule depends on another firing first.

A rule that holds only for some dtypes says so by `when`, with the reason. Variants by operand order are not
written: commutative ops match both.

Sources: the identities are common knowledge; that an equation is exact is argued beside it where it is not
plain, and tested on random values, infinities, NaN and signed zeros.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import dtypes
from braze.hlo.ir import Module
from braze.ops.elementwise import (
    abs,
    add,
    and_,
    ceil,
    clamp,
    compare_hlo,
    convert_hlo,
    div,
    floor,
    max,
    min,
    mul,
    neg,
    not_,
    or_,
    rem,
    round_nearest_even_hlo,
    select_hlo,
    shift_left,
    sign,
    sub,
    xor,
)
from braze.ops.shape import (
    broadcast_in_dim,
    concatenate,
    dynamic_slice,
    dynamic_update_slice,
    pad,
    reshape,
    rev,
    slice,
    transpose,
)
from braze.passes.log import Log
from braze.passes.rewrite import ANY, Bound, Numerics, Rewriter, Rule, attributes, splat, variables

x, y, z, p = variables("x y z p")
(rest,) = variables("rest*")
d, e, s, t, a, b, k, l, m, n = attributes("d e s t a b k l m n")
_ = ANY


def is_integer(x: Bound) -> bool:
    return x.aval.dtype in dtypes.INTEGERS


def is_float(x: Bound) -> bool:
    return x.aval.dtype in dtypes.FLOATS


def is_exact_dtype(x: Bound) -> bool:
    """Integers and bools: no rounding, no NaN, no signed zero."""
    return x.aval.dtype in dtypes.INTEGERS or x.aval.dtype == dtypes.BOOL


def is_bool(x: Bound) -> bool:
    return x.aval.dtype == dtypes.BOOL


def like(x: Bound, number: Any) -> Bound:
    """A splat of x's type."""
    return x._trace.splat(number, x.aval)  # type: ignore[attr-defined,no-any-return]


def all_ones(x: Bound) -> bool:
    value = splat(x.value)
    if value is None:
        return False
    return (
        bool(value)
        if is_bool(x)
        else is_integer(x)
        and int(value) in (-1, np.iinfo(x.aval.dtype).max)
        and (int(value) == -1 or x.aval.dtype.kind == "u")
    )


RULES: tuple[Rule, ...] = (
    # Arithmetic.
    Rule("neg_neg", neg(neg(x)), x),
    Rule("add_neg", add(x, neg(y)), sub(x, y)),
    Rule("sub_neg", sub(x, neg(y)), add(x, y)),
    Rule("add_zero", add(x, 0), x, when=lambda x: is_exact_dtype(x), why="-0.0 + 0.0 is 0.0"),
    Rule("add_minus_zero", add(x, -0.0), x, when=is_float, why="x + -0.0 is x for every x, -0.0 too"),
    Rule("sub_zero", sub(x, 0), x),
    Rule("zero_sub", sub(0, x), neg(x), when=is_integer, why="0.0 - 0.0 is 0.0, but -(0.0) is -0.0"),
    Rule("sub_self", sub(x, x), lambda x: like(x, 0), when=is_integer, why="inf - inf is NaN"),
    Rule("sub_constant", sub(x, y), lambda x, y: add(x, like(y, -splat(y.value))),
         when=lambda x, y: is_float(y) and _is_number(y) and splat(x.value) is None,
         why="canonical: x - c is x + (-c), to the bit"),
    Rule("add_sub", sub(add(x, y), y), x, when=is_integer, why="integers wrap, floats round"),
    Rule("sub_add", add(sub(x, y), y), x, when=is_integer, why="integers wrap, floats round"),
    Rule("add_add_constant", add(add(x, y), z), lambda x, y, z: add(x, like(y, _wrapped(y, z, np.add))),
         when=lambda y, z: is_integer(y) and _both(y, z), why="wrapping addition is associative"),
    Rule("mul_one", mul(x, 1), x),
    Rule("mul_minus_one", mul(x, -1), neg(x), when=lambda x: not is_bool(x)),
    Rule("mul_zero", mul(x, 0), lambda x: like(x, 0), when=is_exact_dtype, why="0 * NaN is NaN, 0 * -1.0 is -0.0"),
    Rule("mul_neg_neg", mul(neg(x), neg(y)), mul(x, y)),
    Rule("mul_neg_constant", mul(neg(x), y), lambda x, y: mul(x, like(y, -splat(y.value))),
         when=lambda y: is_float(y) and _is_number(y), why="a sign moves freely in a product"),
    Rule("mul_mul_constant", mul(mul(x, y), z), lambda x, y, z: mul(x, like(y, _wrapped(y, z, np.multiply))),
         when=lambda y, z: is_integer(y) and _both(y, z), why="wrapping multiplication is associative"),
    Rule("div_one", div(x, 1), x),
    Rule("div_minus_one", div(x, -1), neg(x), when=lambda x: x.aval.dtype.kind != "u",
         why="MIN / -1 is MIN, as -MIN is"),
    Rule("div_neg_neg", div(neg(x), neg(y)), div(x, y), when=is_float, why="-MIN is MIN in integers"),
    Rule("div_power_of_two", div(x, y), lambda x, y: mul(x, like(y, 1.0 / float(splat(y.value)))),
         when=lambda y: is_float(y) and _is_power_of_two(y), why="the reciprocal is exact, so both round alike"),
    Rule("rem_one", rem(x, 1), lambda x: like(x, 0), when=is_integer, why="in floats the sign of x stays"),
    Rule("abs_abs", abs(abs(x)), abs(x)),
    Rule("abs_neg", abs(neg(x)), abs(x)),
    Rule("abs_square", abs(mul(x, x)), mul(x, x), when=is_float, why="wrapped integer squares may be negative"),
    Rule("sign_sign", sign(sign(x)), sign(x)),
    Rule("floor_floor", floor(floor(x)), floor(x)),
    Rule("floor_ceil", floor(ceil(x)), ceil(x)),
    Rule("ceil_ceil", ceil(ceil(x)), ceil(x)),
    Rule("ceil_floor", ceil(floor(x)), floor(x)),
    Rule("round_floor", round_nearest_even_hlo(floor(x)), floor(x)),
    Rule("round_round", round_nearest_even_hlo(round_nearest_even_hlo(x)), round_nearest_even_hlo(x)),
    Rule("max_self", max(x, x), x),
    Rule("min_self", min(x, x), x),
    Rule("max_max", max(max(x, y), y), max(x, y)),
    Rule("min_min", min(min(x, y), y), min(x, y)),
    Rule("max_min", max(x, min(x, y)), x, when=is_exact_dtype, why="NaN in y would reach the result"),
    Rule("min_max", min(x, max(x, y)), x, when=is_exact_dtype, why="NaN in y would reach the result"),
    Rule("neg_max_neg", neg(max(neg(x), neg(y))), min(x, y), when=is_float, why="-MIN is MIN in integers"),
    Rule("clamp_same", clamp(y, x, y), y, when=lambda x: is_exact_dtype(x), why="a NaN x stays NaN"),
    Rule("factor", add(mul(x, y), mul(x, z)), mul(x, add(y, z)), numerics=Numerics.REASSOCIATES),
    # Bits and truth values.
    Rule("not_not", not_(not_(x)), x),
    Rule("and_self", and_(x, x), x),
    Rule("or_self", or_(x, x), x),
    Rule("xor_self", xor(x, x), lambda x: like(x, 0)),
    Rule("and_zero", and_(x, y), y, when=lambda y: splat(y.value) is not None and not splat(y.value)),
    Rule("or_zero", or_(x, y), x, when=lambda y: splat(y.value) is not None and not splat(y.value)),
    Rule("xor_zero", xor(x, y), x, when=lambda y: splat(y.value) is not None and not splat(y.value)),
    Rule("and_ones", and_(x, y), x, when=lambda y: all_ones(y)),
    Rule("or_ones", or_(x, y), y, when=lambda y: all_ones(y)),
    Rule("xor_ones", xor(x, y), not_(x), when=lambda y: all_ones(y)),
    Rule("and_not", and_(x, not_(x)), lambda x: like(x, 0)),
    Rule("or_not", or_(x, not_(x)), lambda x: like(x, True if is_bool(x) else -1)),
    Rule("and_or", and_(x, or_(x, y)), x),
    Rule("or_and", or_(x, and_(x, y)), x),
    Rule("shift_zero", shift_left(x, 0), x),
    Rule("compare_self", compare_hlo(x, x, comparison_direction=d, compare_type=_),
         lambda x, d: _truth(x, d in ("EQ", "LE", "GE")),
         when=lambda x, d: is_exact_dtype(x) or d in ("LT", "GT"), why="NaN equals nothing, not even itself"),
    Rule("not_compare", not_(compare_hlo(x, y, comparison_direction=d, compare_type=t)),
         lambda x, y, d, t: compare_hlo(x, y, comparison_direction=_OPPOSITE[d], compare_type=t),
         when=lambda x, d: is_exact_dtype(x) or d in ("EQ", "NE"), why="with NaN, not (x < y) is not x >= y"),
    # Choice.
    Rule("select_same", select_hlo(p, x, x), x),
    Rule("select_true", select_hlo(p, x, y), x, when=lambda p: splat(p.value) is not None and bool(splat(p.value))),
    Rule("select_false", select_hlo(p, x, y), y, when=lambda p: splat(p.value) is not None and not splat(p.value)),
    Rule("select_not", select_hlo(not_(p), x, y), select_hlo(p, y, x)),
    Rule("select_bool", select_hlo(p, x, y), lambda p, x, y: p,
         when=lambda p, x, y: is_bool(x) and p.aval == x.aval and _is_true(x) and _is_false(y)),
    Rule("select_bool_not", select_hlo(p, x, y), lambda p, x, y: not_(p),
         when=lambda p, x, y: is_bool(x) and p.aval == x.aval and _is_false(x) and _is_true(y)),
    Rule("select_inner_true", select_hlo(p, select_hlo(p, x, y), z), select_hlo(p, x, z)),
    Rule("select_inner_false", select_hlo(p, x, select_hlo(p, y, z)), select_hlo(p, x, z)),
    # Conversions.
    Rule("convert_same", convert_hlo(x, dtype=t), x, when=lambda x, t: x.aval.dtype == t),
    Rule("convert_widened", convert_hlo(convert_hlo(x, dtype=s), dtype=t), lambda x, t: convert_hlo(x, dtype=t),
         when=lambda x, s: _holds(s, x.aval.dtype), why="the inner conversion loses nothing"),
    # Moves.
    Rule("reshape_same", reshape(x, shape=s), x, when=lambda x, s: x.aval.shape == tuple(s)),
    Rule("reshape_reshape", reshape(reshape(x, shape=_), shape=s), reshape(x, shape=s)),
    Rule("reshape_splat", reshape(x, shape=s), lambda x, s: _resplat(x, s), when=lambda x: _is_broadcast_splat(x)),
    Rule("reshape_broadcast", reshape(broadcast_in_dim(x, shape=_, broadcast_dimensions=_), shape=s),
         reshape(x, shape=s), when=lambda x, s: x.aval.size == math.prod(s)),
    Rule("transpose_same", transpose(x, permutation=k), x, when=lambda k: tuple(k) == tuple(range(len(k)))),
    Rule("transpose_twice", transpose(transpose(x, permutation=k), permutation=l),
         lambda x, k, l: transpose(x, permutation=tuple(k[i] for i in l))),
    Rule("transpose_units", transpose(x, permutation=k),
         lambda x, k: reshape(x, shape=tuple(x.aval.shape[i] for i in k)),
         when=lambda x, k: _keeps_order(x, k), why="moving axes of size 1 moves no element"),
    Rule("transpose_broadcast", transpose(broadcast_in_dim(x, shape=s, broadcast_dimensions=d), permutation=k),
         lambda x, s, d, k: broadcast_in_dim(
             x, shape=tuple(s[i] for i in k), broadcast_dimensions=tuple(tuple(k).index(i) for i in d)),
         when=lambda d, k: sorted(tuple(k).index(i) for i in d) == [tuple(k).index(i) for i in d]),
    Rule("broadcast_same", broadcast_in_dim(x, shape=s, broadcast_dimensions=d), x,
         when=lambda x, s, d: x.aval.shape == tuple(s) and tuple(d) == tuple(range(len(s)))),
    Rule("broadcast_twice",
         broadcast_in_dim(broadcast_in_dim(x, shape=_, broadcast_dimensions=d), shape=s, broadcast_dimensions=e),
         lambda x, d, s, e: broadcast_in_dim(x, shape=s, broadcast_dimensions=tuple(e[i] for i in d))),
    Rule("broadcast_units", broadcast_in_dim(x, shape=s, broadcast_dimensions=d),
         lambda x, s: reshape(x, shape=s),
         when=lambda x, s, d: x.aval.size == math.prod(s) and list(d) == sorted(d) and x.aval.ndim > 0,
         why="only axes of size 1 are new"),
    Rule("broadcast_reshape",
         broadcast_in_dim(reshape(x, shape=t), shape=s, broadcast_dimensions=d),
         lambda x, t, s, d: _broadcast_squeezed(x, t, s, d)),
    Rule("slice_full", slice(x, start_indices=a, limit_indices=b, strides=k), x,
         when=lambda x, a, b, k: tuple(b) == x.aval.shape and not any(a) and all(i == 1 for i in k)),
    Rule("slice_slice",
         slice(slice(x, start_indices=a, limit_indices=_, strides=k), start_indices=m, limit_indices=n, strides=l),
         lambda x, a, k, m, n, l: _slice_of_slice(x, a, k, m, n, l)),
    Rule("slice_splat", slice(x, start_indices=a, limit_indices=b, strides=k),
         lambda x, a, b, k: _resplat(x, _slice_shape(a, b, k)), when=lambda x: _is_broadcast_splat(x)),
    Rule("rev_rev", rev(rev(x, dimensions=d), dimensions=d), x),
    Rule("rev_units", rev(x, dimensions=d), x, when=lambda x, d: all(x.aval.shape[i] <= 1 for i in d)),
    Rule("rev_splat", rev(x, dimensions=_), x, when=lambda x: _is_broadcast_splat(x)),
    Rule("pad_nothing", pad(x, y, low=a, high=b, interior=k), x,
         when=lambda x, a, b, k: not any(a) and not any(b) and not any(
             i and size > 1 for i, size in zip(k, x.aval.shape))),
    Rule("pad_cut", pad(x, y, low=a, high=b, interior=k),
         lambda x, a, b: slice(
             x, start_indices=tuple(-i for i in a),
             limit_indices=tuple(size + i for size, i in zip(x.aval.shape, b)), strides=(1,) * len(a)),
         when=lambda x, a, b, k: any((*a, *b)) and all(i <= 0 for i in (*a, *b)) and not any(k) and all(
             -i <= size + j for i, j, size in zip(a, b, x.aval.shape)),
         why="negative padding cuts"),
    Rule("concatenate_one", concatenate(x, dimension=_), x),
    Rule("concatenate_slices",
         concatenate(slice(x, start_indices=a, limit_indices=b, strides=k),
                     slice(x, start_indices=m, limit_indices=n, strides=l), dimension=d),
         lambda x, a, b, k, m, n, l, d: _joined_slices(x, a, b, k, m, n, l, d)),
    Rule("dynamic_slice_full", dynamic_slice(x, rest, slice_sizes=s), lambda x: x,
         when=lambda x, s: x.aval.shape == tuple(s), why="positions are clamped, so there is only one"),
    Rule("dynamic_slice_constant", dynamic_slice(x, rest, slice_sizes=s),
         lambda x, rest, s: _static_slice(x, rest, s),
         when=lambda rest: all(splat(i.value) is not None for i in rest)),
    Rule("update_all", dynamic_update_slice(x, y, rest), lambda y: y, when=lambda x, y: x.aval == y.aval),
)  # fmt: skip

_OPPOSITE = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}


def _is_number(x: Bound) -> bool:
    """A splat of a finite or infinite number; NaN keeps its place."""
    value = splat(x.value)
    return value is not None and bool(value == value)


def _both(x: Bound, y: Bound) -> bool:
    return splat(x.value) is not None and splat(y.value) is not None


def _wrapped(x: Bound, y: Bound, combine: Callable[[Any, Any], Any]) -> Any:
    with np.errstate(all="ignore"):
        return combine(np.asarray(splat(x.value)), np.asarray(splat(y.value)))


def _is_power_of_two(x: Bound) -> bool:
    """A power of two whose reciprocal is a normal number of the dtype."""
    value = splat(x.value)
    if value is None or not np.isfinite(value) or value == 0:
        return False
    if math.frexp(_magnitude(float(value)))[0] != 0.5:
        return False
    limits = np.finfo(x.aval.dtype) if x.aval.dtype.kind == "f" else None
    return limits is not None and float(limits.tiny) <= 1.0 / _magnitude(float(value)) <= float(limits.max)


def _magnitude(number: float) -> float:
    return -number if number < 0 else number


def _is_true(x: Bound) -> bool:
    value = splat(x.value)
    return value is not None and bool(value)


def _is_false(x: Bound) -> bool:
    value = splat(x.value)
    return value is not None and not value


def _truth(x: Bound, value: bool) -> Bound:
    return x._trace.splat(value, x.aval.with_(dtype=dtypes.BOOL))  # type: ignore[attr-defined,no-any-return]


def _is_broadcast_splat(x: Bound) -> bool:
    return splat(x.value) is not None


def _resplat(x: Bound, shape: Sequence[int]) -> Bound:
    return x._trace.splat(splat(x.value), x.aval.with_(shape=shape))  # type: ignore[attr-defined,no-any-return]


def _keeps_order(x: Bound, k: Sequence[int]) -> bool:
    moved = [i for i in k if x.aval.shape[i] != 1]
    return moved == sorted(moved) and list(k) != sorted(k)


def _broadcast_squeezed(x: Bound, t: Sequence[int], s: Sequence[int], d: Sequence[int]) -> Bound | None:
    """A broadcast of a reshape that only added axes of size 1 is a broadcast of what was reshaped."""
    kept = [i for i, size in enumerate(t) if size != 1]
    if tuple(t[i] for i in kept) != x.aval.shape:
        return None
    return broadcast_in_dim(x, shape=s, broadcast_dimensions=tuple(d[i] for i in kept))  # type: ignore[no-any-return]


def _slice_shape(start: Sequence[int], limit: Sequence[int], stride: Sequence[int]) -> tuple[int, ...]:
    return tuple(len(range(i, j, step)) for i, j, step in zip(start, limit, stride))


def _slice_of_slice(
    x: Bound, a: Sequence[int], k: Sequence[int], m: Sequence[int], n: Sequence[int], l: Sequence[int]
) -> Bound:
    """Positions m, m + l, … of positions a, a + k, …: start a + m·k, stride k·l, as many elements."""
    starts = tuple(i + j * step for i, j, step in zip(a, m, k))
    strides = tuple(i * j for i, j in zip(k, l))
    counts = _slice_shape(m, n, l)
    limits = tuple(
        first if count == 0 else first + (count - 1) * step + 1
        for first, count, step in zip(starts, counts, strides)
    )
    return slice(x, start_indices=starts, limit_indices=limits, strides=strides)  # type: ignore[no-any-return]


def _holds(outer: dtypes.DType, inner: dtypes.DType) -> bool:
    """Whether every value of the inner dtype is a value of the outer one."""
    if inner == dtypes.BOOL:
        return outer != dtypes.BOOL
    return inner != outer and bool(np.can_cast(inner, outer, casting="safe"))


def _joined_slices(
    x: Bound,
    a: Sequence[int],
    b: Sequence[int],
    k: Sequence[int],
    m: Sequence[int],
    n: Sequence[int],
    l: Sequence[int],
    d: int,
) -> Bound | None:
    """Two neighbouring slices of one operand are one slice."""
    others = [i for i in range(len(a)) if i != d]
    if tuple(k) != tuple(l) or k[d] != 1 or b[d] != m[d] or any((a[i], b[i]) != (m[i], n[i]) for i in others):
        return None
    return slice(x, start_indices=a, limit_indices=(*b[:d], n[d], *b[d + 1 :]), strides=k)  # type: ignore[no-any-return]


def _static_slice(x: Bound, rest: Sequence[Bound], s: Sequence[int]) -> Bound:
    """A dynamic slice at constant positions, clamped as StableHLO says."""
    starts = [
        builtins.min(builtins.max(int(splat(i.value)), 0), size - window)  # type: ignore[call-overload]
        for i, size, window in zip(rest, x.aval.shape, s, strict=True)
    ]
    limits = tuple(start + window for start, window in zip(starts, s, strict=True))
    return slice(x, start_indices=tuple(starts), limit_indices=limits, strides=(1,) * len(starts))  # type: ignore[no-any-return]


def simplify(
    module: Module, *, skip: Sequence[str] = (), fast_math: bool = False, log: Log | None = None
) -> Module:
    """Apply the rules to every instruction.

    Args:
        skip: names of rules to leave out.
        fast_math: also apply rules that reassociate or contract.
        log: counts the rewrites, and stops them when its fuel is used up.
    """
    rules = [
        rule for rule in RULES if rule.name not in skip and (fast_math or rule.numerics is Numerics.EXACT)
    ]
    return Rewriter(rules, log).run(module)
