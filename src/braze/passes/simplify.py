"""Algebraic simplification: named equations, applied from the operands up.

Laws of the table:
1. A rule keeps the type.
2. It never makes more work, and goes strictly down: fewer or cheaper instructions, or the same number in
   canonical form.
3. Canonical forms: constants stand on the right of commutative ops; a constant is added, not subtracted; a
   splat is the broadcast of a scalar.
4. Rules are exact: bit for bit, for signed zeros, infinities and NaN (any NaN equals any NaN), unless
   `numerics` says otherwise; such rules fire only under `fast_math`.
5. No rule depends on another firing first.

A rule that holds only for some dtypes says so by `when`, with the reason. Variants by operand order are not
written: commutative ops match both.

Sources: the identities are common knowledge; that an equation is exact is argued beside it where it is not
plain, and tested on random values, infinities, NaN and signed zeros.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from braze import dtypes
from braze.hlo.ir import Module
from braze.ops.elementwise import abs as abs_
from braze.ops.elementwise import (
    add,
    and_,
    ceil,
    clamp,
    compare_hlo,
    convert_hlo,
    div,
    floor,
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
from braze.ops.elementwise import max as max_
from braze.ops.elementwise import min as min_
from braze.ops.shape import (
    broadcast_in_dim,
    concatenate,
    dynamic_slice,
    dynamic_update_slice,
    pad,
    reshape,
    rev,
    transpose,
)
from braze.ops.shape import slice as slice_
from braze.passes.log import Log
from braze.passes.patterns import ANY, Index, Numerics, Rule, attributes, constants, variables
from braze.passes.rewrite import CONSTANT_RIGHT, Bound, Rewriter

x, y, z, p = variables("x y z p")
c, q = constants("c q")
(rest,) = variables("rest*")
d, e, s, t, a, b, k, l, m, n = attributes("d e s t a b k l m n")
_ = ANY


def is_integer(x: Bound) -> bool:
    return x.aval.dtype in dtypes.INTEGERS


def is_float(x: Bound) -> bool:
    return x.aval.dtype in dtypes.FLOATS


def is_bool(x: Bound) -> bool:
    return x.aval.dtype == dtypes.BOOL


def is_whole(x: Bound) -> bool:
    """Integers and bools: no rounding, no NaN, no signed zero."""
    return is_integer(x) or is_bool(x)


def all_ones(c: Bound) -> bool:
    """Whether every bit is set."""
    return is_whole(c) and bool(np.invert(c.number) == 0)


_OPPOSITE: dict[str, str] = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}

RULES: tuple[Rule, ...] = (
    # Arithmetic.
    Rule("neg_neg", neg(neg(x)), x),
    Rule("add_neg", add(x, neg(y)), sub(x, y)),
    Rule("sub_neg", sub(x, neg(y)), add(x, y)),
    Rule("add_zero", add(x, 0), x, when=is_whole, why="-0.0 + 0.0 is 0.0"),
    Rule("add_minus_zero", add(x, -0.0), x, why="x + -0.0 is x for every x, -0.0 too"),
    Rule("sub_zero", sub(x, 0), x, why="-0.0 - 0.0 is -0.0"),
    Rule("zero_sub", sub(0, x), neg(x), when=is_integer, why="0.0 - 0.0 is 0.0, but -(0.0) is -0.0"),
    Rule("sub_self", sub(x, x), 0, when=is_integer, why="inf - inf is NaN"),
    Rule("sub_constant", sub(x, c), lambda x, c: add(x, c.like(_negative(c))),
         when=lambda x, c: x.number is None and not _is_nan(c), why="canonical: x - c is x + (-c), to the bit"),
    Rule("add_sub", sub(add(x, y), y), x, when=is_integer, why="integers wrap, floats round"),
    Rule("sub_add", add(sub(x, y), y), x, when=is_integer, why="integers wrap, floats round"),
    Rule("add_add_constant", add(add(x, c), q), lambda x, c, q: add(x, c.like(_combined(np.add, c, q))),
         when=is_whole, why="wrapping addition is associative, and so is or"),
    Rule("mul_one", mul(x, 1), x),
    Rule("mul_minus_one", mul(x, -1), neg(x)),
    Rule("mul_zero", mul(x, 0), 0, when=is_whole, why="0 * NaN is NaN, 0 * -1.0 is -0.0"),
    Rule("mul_neg_neg", mul(neg(x), neg(y)), mul(x, y)),
    Rule("mul_neg_constant", mul(neg(x), c), lambda x, c: mul(x, c.like(_negative(c))),
         when=lambda c: not _is_nan(c), why="a sign moves freely in a product"),
    Rule("mul_mul_constant", mul(mul(x, c), q), lambda x, c, q: mul(x, c.like(_combined(np.multiply, c, q))),
         when=is_whole, why="wrapping multiplication is associative, and so is and"),
    Rule("div_one", div(x, 1), x),
    Rule("div_minus_one", div(x, -1), neg(x), why="MIN / -1 is MIN, as -MIN is"),
    Rule("div_neg_neg", div(neg(x), neg(y)), div(x, y), when=is_float, why="-MIN is MIN in integers"),
    Rule("div_power_of_two", div(x, c), lambda x, c: mul(x, c.like(1.0 / float(c.number))),
         when=lambda c: _is_power_of_two(c), why="the reciprocal is exact, so both round alike"),
    Rule("rem_one", rem(x, 1), 0, when=is_integer, why="in floats the fraction and the sign of x stay"),
    Rule("abs_abs", abs_(abs_(x)), abs_(x)),
    Rule("abs_neg", abs_(neg(x)), abs_(x)),
    Rule("abs_square", abs_(mul(x, x)), mul(x, x), when=is_float, why="wrapped integer squares may be negative"),
    Rule("sign_sign", sign(sign(x)), sign(x)),
    Rule("floor_floor", floor(floor(x)), floor(x)),
    Rule("floor_ceil", floor(ceil(x)), ceil(x)),
    Rule("ceil_ceil", ceil(ceil(x)), ceil(x)),
    Rule("ceil_floor", ceil(floor(x)), floor(x)),
    Rule("round_floor", round_nearest_even_hlo(floor(x)), floor(x)),
    Rule("round_round", round_nearest_even_hlo(round_nearest_even_hlo(x)), round_nearest_even_hlo(x)),
    Rule("max_self", max_(x, x), x),
    Rule("min_self", min_(x, x), x),
    Rule("max_max", max_(max_(x, y), y), max_(x, y)),
    Rule("min_min", min_(min_(x, y), y), min_(x, y)),
    Rule("max_min", max_(x, min_(x, y)), x, when=is_whole, why="NaN in y would reach the result"),
    Rule("min_max", min_(x, max_(x, y)), x, when=is_whole, why="NaN in y would reach the result"),
    Rule("neg_max_neg", neg(max_(neg(x), neg(y))), min_(x, y), when=is_float, why="-MIN is MIN in integers"),
    Rule("clamp_same", clamp(y, x, y), y, when=lambda x, y: is_whole(x) and x.aval == y.aval, why="a NaN x stays NaN"),
    Rule("reassociated_sum", add(add(x, c), q), lambda x, c, q: add(x, c.like(_combined(np.add, c, q))),
         when=is_float, numerics=Numerics.REASSOCIATES),
    Rule("reassociated_product", mul(mul(x, c), q), lambda x, c, q: mul(x, c.like(_combined(np.multiply, c, q))),
         when=is_float, numerics=Numerics.REASSOCIATES),
    Rule("reciprocal", div(x, c), lambda x, c: mul(x, c.like(1.0 / float(c.number))),
         when=lambda c: is_float(c) and c.number != 0, numerics=Numerics.REASSOCIATES),
    # Bits and truth values.
    Rule("not_not", not_(not_(x)), x),
    Rule("and_self", and_(x, x), x),
    Rule("or_self", or_(x, x), x),
    Rule("xor_self", xor(x, x), 0),
    Rule("and_zero", and_(x, 0), 0),
    Rule("or_zero", or_(x, 0), x),
    Rule("xor_zero", xor(x, 0), x),
    Rule("and_ones", and_(x, c), x, when=all_ones),
    Rule("or_ones", or_(x, c), c, when=all_ones),
    Rule("xor_ones", xor(x, c), not_(x), when=all_ones),
    Rule("and_not", and_(x, not_(x)), 0),
    Rule("or_not", or_(x, not_(x)), -1),
    Rule("and_or", and_(x, or_(x, y)), x),
    Rule("or_and", or_(x, and_(x, y)), x),
    Rule("shift_zero", shift_left(x, 0), x),
    Rule("compare_self", compare_hlo(x, x, comparison_direction=d, compare_type=_),
         lambda x, d: x.like(d in ("EQ", "LE", "GE"), dtype=dtypes.BOOL),
         when=lambda x, d: is_whole(x) or d in ("LT", "GT"), why="NaN equals nothing, not even itself"),
    Rule("not_compare", not_(compare_hlo(x, y, comparison_direction=d, compare_type=t)),
         lambda x, y, d, t: compare_hlo(x, y, comparison_direction=_OPPOSITE[d], compare_type=t),
         when=lambda x, d: is_whole(x) or d in ("EQ", "NE"), why="with NaN, not (x < y) is not x >= y"),
    # Choice.
    Rule("select_same", select_hlo(p, x, x), x),
    Rule("select_true", select_hlo(1, x, y), x),
    Rule("select_false", select_hlo(0, x, y), y),
    Rule("select_not", select_hlo(not_(p), x, y), select_hlo(p, y, x)),
    Rule("select_bool", select_hlo(p, c, q), p, when=lambda p, c, q: p.aval == c.aval and c.number and not q.number),
    Rule("select_bool_not", select_hlo(p, c, q), not_(p),
         when=lambda p, c, q: p.aval == c.aval and q.number and not c.number),
    Rule("select_inner_true", select_hlo(p, select_hlo(p, x, y), z), select_hlo(p, x, z)),
    Rule("select_inner_false", select_hlo(p, x, select_hlo(p, y, z)), select_hlo(p, x, z)),
    # Conversions.
    Rule("convert_same", convert_hlo(x, dtype=t), x, when=lambda x, t: x.aval.dtype == t),
    Rule("convert_widened", convert_hlo(convert_hlo(x, dtype=s), dtype=t), lambda x, t: convert_hlo(x, dtype=t),
         when=lambda x, s, t: _passes_through(x.aval.dtype, s, t), why="the inner conversion loses nothing"),
    # Moves.
    Rule("reshape_same", reshape(x, shape=s), x, when=lambda x, s: x.aval.shape == tuple(s)),
    Rule("reshape_reshape", reshape(reshape(x, shape=_), shape=s), reshape(x, shape=s)),
    Rule("reshape_splat", reshape(c, shape=s), lambda c, s: c.like(c.number, shape=s)),
    Rule("reshape_broadcast", reshape(broadcast_in_dim(x, shape=_, broadcast_dimensions=_), shape=s),
         broadcast_in_dim(x, shape=s, broadcast_dimensions=()), when=lambda x: x.aval.ndim == 0,
         why="one number everywhere takes any shape"),
    Rule("transpose_same", transpose(x, permutation=k), x, when=lambda k: _is_sorted(k)),
    Rule("transpose_twice", transpose(transpose(x, permutation=k), permutation=l),
         lambda x, k, l: transpose(x, permutation=tuple(k[i] for i in l))),
    Rule("transpose_units", transpose(x, permutation=k),
         lambda x, k: reshape(x, shape=tuple(x.aval.shape[i] for i in k)),
         when=lambda x, k: _is_sorted([i for i in k if x.aval.shape[i] != 1]),
         why="moving axes of size 1 moves no element"),
    Rule("transpose_broadcast", transpose(broadcast_in_dim(x, shape=s, broadcast_dimensions=d), permutation=k),
         lambda x, s, d, k: broadcast_in_dim(
             x, shape=tuple(s[i] for i in k), broadcast_dimensions=tuple(tuple(k).index(i) for i in d)),
         when=lambda d, k: _is_sorted([tuple(k).index(i) for i in d]), why="else the elements of x move"),
    Rule("broadcast_same", broadcast_in_dim(x, shape=s, broadcast_dimensions=d), x,
         when=lambda x, s, d: x.aval.shape == tuple(s) and _is_sorted(d)),
    Rule("broadcast_splat", broadcast_in_dim(c, shape=s, broadcast_dimensions=_),
         lambda c, s: c.like(c.number, shape=s), when=lambda c: c.aval.ndim > 0, why="a scalar is cheaper to keep"),
    Rule("broadcast_twice",
         broadcast_in_dim(broadcast_in_dim(x, shape=_, broadcast_dimensions=d), shape=s, broadcast_dimensions=e),
         lambda x, d, s, e: broadcast_in_dim(x, shape=s, broadcast_dimensions=tuple(e[i] for i in d))),
    Rule("broadcast_units", broadcast_in_dim(x, shape=s, broadcast_dimensions=d), reshape(x, shape=s),
         when=lambda x, s, d: x.aval.size == math.prod(s) and _is_sorted(d) and x.aval.ndim > 0,
         why="only axes of size 1 are new"),
    Rule("broadcast_reshape",
         broadcast_in_dim(reshape(x, shape=t), shape=s, broadcast_dimensions=d),
         lambda x, t, s, d: broadcast_in_dim(
             x, shape=s, broadcast_dimensions=tuple(d[i] for i, size in enumerate(t) if size != 1)),
         when=lambda x, t: tuple(size for size in t if size != 1) == x.aval.shape,
         why="the reshape only added axes of size 1"),
    Rule("slice_full", slice_(x, start_indices=a, limit_indices=b, strides=k), x,
         when=lambda x, a, b, k: tuple(b) == x.aval.shape and not any(a) and all(i == 1 for i in k)),
    Rule("slice_slice",
         slice_(slice_(x, start_indices=a, limit_indices=b, strides=k), start_indices=m, limit_indices=n, strides=l),
         lambda x, a, b, k, m, n, l: _slice_of_slice(x, (a, b, k), (m, n, l))),
    Rule("slice_splat", slice_(c, start_indices=a, limit_indices=b, strides=k),
         lambda c, a, b, k: c.like(c.number, shape=_slice_shape(a, b, k))),
    Rule("rev_rev", rev(rev(x, dimensions=d), dimensions=d), x),
    Rule("rev_units", rev(x, dimensions=d), x, when=lambda x, d: all(x.aval.shape[i] <= 1 for i in d)),
    Rule("rev_splat", rev(c, dimensions=_), c),
    Rule("pad_nothing", pad(x, y, low=a, high=b, interior=k), x,
         when=lambda x, a, b, k: not any((*a, *b)) and not _goes_between(k, x)),
    Rule("pad_cut", pad(x, y, low=a, high=b, interior=k), lambda x, a, b: _cut(x, a, b),
         when=lambda x, a, b, k: all(i <= 0 for i in (*a, *b)) and not _goes_between(k, x) and _overlaps(x, a, b),
         why="negative padding cuts"),
    Rule("concatenate_one", concatenate(x, dimension=_), x),
    Rule("concatenate_slices",
         concatenate(slice_(x, start_indices=a, limit_indices=b, strides=k),
                     slice_(x, start_indices=m, limit_indices=n, strides=k), dimension=d),
         lambda x, a, b, k, n, d: slice_(x, start_indices=a, limit_indices=(*b[:d], n[d], *b[d + 1 :]), strides=k),
         when=lambda a, b, k, m, n, d: k[d] == 1 and b[d] == m[d] and _others(a, d) == _others(m, d)
         and _others(b, d) == _others(n, d)),
    Rule("dynamic_slice_full", dynamic_slice(x, rest, slice_sizes=s), x,
         when=lambda x, s: x.aval.shape == tuple(s), why="positions are clamped, so there is only one"),
    Rule("dynamic_slice_constant", dynamic_slice(x, rest, slice_sizes=s),
         lambda x, rest, s: _static_slice(x, rest, s), when=lambda rest: all(i.number is not None for i in rest)),
    Rule("update_all", dynamic_update_slice(x, y, rest), y, when=lambda x, y: x.aval == y.aval,
         why="positions are clamped, so there is only one"),
)  # fmt: skip

RULE_NAMES = frozenset((CONSTANT_RIGHT, *(rule.name for rule in RULES)))


def _is_sorted(numbers: Sequence[int]) -> bool:
    return list(numbers) == sorted(numbers)


def _is_nan(c: Bound) -> bool:
    return bool(c.number != c.number)


def _negative(c: Bound) -> np.ndarray[Any, Any]:
    return _combined(np.negative, c)


def _combined(function: Callable[..., Any], *numbers: Bound) -> np.ndarray[Any, Any]:
    """An exact function of splats; integers wrap."""
    with np.errstate(all="ignore"):
        return np.asarray(function(*[np.asarray(c.number) for c in numbers]))


def _is_power_of_two(c: Bound) -> bool:
    """A power of two whose reciprocal is a normal number of the dtype."""
    if not is_float(c) or not np.isfinite(c.number) or c.number == 0:
        return False
    magnitude = math.fabs(float(c.number))
    limits = _finfo(c.aval.dtype)
    if math.frexp(magnitude)[0] != 0.5:
        return False
    return float(limits.smallest_normal) <= 1.0 / magnitude <= float(limits.max)


def _passes_through(source: dtypes.DType, middle: dtypes.DType, target: dtypes.DType) -> bool:
    """Whether a conversion by way of `middle` gives what the direct one gives.

    `middle` has to hold every value of `source`. Conversions of integers to narrower ones wrap but those of
    floats saturate, so an integer that passes through a float has to fit where it ends.
    """
    if not _holds(middle, source):
        return False
    wraps = source in dtypes.INTEGERS and target in dtypes.INTEGERS and not _holds(target, source)
    return not (wraps and middle in dtypes.FLOATS)


def _holds(outer: dtypes.DType, inner: dtypes.DType) -> bool:
    """Whether every value of `inner` is a value of `outer`, and conversion leaves it as it is."""
    if inner == outer or inner == dtypes.BOOL:
        return True
    if inner in dtypes.INTEGERS and outer in dtypes.INTEGERS:
        ours, theirs = np.iinfo(inner), np.iinfo(outer)
        return theirs.min <= ours.min and ours.max <= theirs.max
    if outer not in dtypes.FLOATS:
        return False
    floats = _finfo(outer)
    if inner in dtypes.INTEGERS:
        bits = np.iinfo(inner).bits - (inner.kind == "i")
        return bool(bits <= floats.nmant + 1 and bits <= floats.maxexp)
    if inner in dtypes.FLOATS:
        held = _finfo(inner)
        digits = held.nmant <= floats.nmant
        return bool(digits and held.maxexp <= floats.maxexp and held.minexp >= floats.minexp)
    return False


def _finfo(dtype: dtypes.DType) -> Any:
    """Limits of a float dtype, those of ml_dtypes too."""
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def _slice_shape(start: Sequence[int], limit: Sequence[int], stride: Sequence[int]) -> tuple[int, ...]:
    return tuple(len(range(i, j, step)) for i, j, step in zip(start, limit, stride))


Slice = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Starts, limits and strides."""


def _slice_of_slice(x: Bound, inner: Slice, outer: Slice) -> Bound:
    """Positions m, m + l, … of positions a, a + k, …: start a + m·k, stride k·l, as many elements."""
    starts, limits, strides = [], [], []
    for a, b, k, m, n, l in zip(*inner, *outer):
        count = len(range(m, n, l))
        start = a + m * k if count else b
        starts.append(start)
        limits.append(start + (count - 1) * k * l + 1 if count else b)
        strides.append(k * l)
    made = slice_(x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=tuple(strides))
    return made  # type: ignore[no-any-return]


def _others(numbers: Sequence[int], place: int) -> tuple[int, ...]:
    return (*numbers[:place], *numbers[place + 1 :])


def _goes_between(interior: Sequence[int], x: Bound) -> bool:
    """Whether interior padding has elements to go between."""
    return any(i and size > 1 for i, size in zip(interior, x.aval.shape))


def _overlaps(x: Bound, low: Sequence[int], high: Sequence[int]) -> bool:
    """Whether what is cut off below and above leaves each axis a size of 0 or more."""
    return all(size + i + j >= 0 for size, i, j in zip(x.aval.shape, low, high))


def _cut(x: Bound, low: Sequence[int], high: Sequence[int]) -> Bound:
    """The slice that negative padding leaves."""
    starts = tuple(-i for i in low)
    limits = tuple(size + i for size, i in zip(x.aval.shape, high))
    return slice_(x, start_indices=starts, limit_indices=limits, strides=(1,) * len(starts))  # type: ignore[no-any-return]


def _static_slice(x: Bound, rest: Sequence[Bound], s: Sequence[int]) -> Bound:
    """A dynamic slice at constant positions, clamped as StableHLO says."""
    starts = [
        min(max(int(i.number), 0), size - window)
        for i, size, window in zip(rest, x.aval.shape, s, strict=True)
    ]
    limits = tuple(start + window for start, window in zip(starts, s, strict=True))
    return slice_(x, start_indices=tuple(starts), limit_indices=limits, strides=(1,) * len(starts))  # type: ignore[no-any-return]


def simplify(
    module: Module, *, skip: Sequence[str] = (), fast_math: bool = False, log: Log | None = None
) -> Module:
    """Apply the rules to every instruction.

    Args:
        skip: names of rules to leave out.
        fast_math: also apply rules that reassociate.
        log: counts the rewrites, and stops them when its fuel is used up.
    """
    index = _index(tuple(skip), fast_math)
    return Rewriter(index, log, constant_right=CONSTANT_RIGHT not in skip).run(module)


@functools.cache
def _index(skip: tuple[str, ...], fast_math: bool) -> Index:
    """The rules in force; making their index costs more than simplifying a small program."""
    return Index(
        [rule for rule in RULES if rule.name not in skip and (fast_math or rule.numerics is Numerics.EXACT)]
    )
