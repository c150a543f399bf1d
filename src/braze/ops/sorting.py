"""Sorting along an axis: HLO's `sort` with any comparator over any number of operands, and the primitive.

Every sort is stable and deterministic. A comparator that compares keys in the usual ways (less or greater, any
treatment of signed zeros and NaN, several keys one after another) is recognised by what it says of all orders
that two elements can have, whatever it is made of; keys become unsigned integers whose order is the same, and
`kernel/build` sorts those. Any other comparator runs as it is in a merge sort.

Source: StableHLO sort; JAX's `lax.sort` for the order of floats: -0.0 equals 0.0, all NaN equal each other and
come last.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braze import core, dtypes
from braze.dtypes import BOOL, COMPLEX, F32, F64, FLOATS, I32, INTEGERS, DType
from braze.errors import DifferentiationError, DTypeError, ShapeError
from braze.ops import elementwise, shape
from braze.ops.facets import HLO_ONLY, LOWERED, Array, check_axes, listing, moved
from braze.ops.table import EXACT, HLO_OPS, Cost, Family, Op, Sample, Undefined
from braze.types import TensorType

# Recognising comparators ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Key:
    """One key of an order.

    Attributes:
        operand: which operand of the sort it is.
        descending: whether larger values come first.
        total: whether -0.0 comes before 0.0, and NaN by sign and payload before or behind everything; else zeros
            are equal, and all NaN equal each other and count as largest.
    """

    operand: int
    descending: bool = False
    total: bool = False


MOST_KEYS = 3
"""Keys of an order that is looked for; samples of all pairs grow with the power of their number."""


def _samples(dtype: DType) -> Array:
    """A value of every kind that comparisons with each other and with zero tell apart."""
    if dtype == BOOL:
        return np.array([False, True])
    if dtype in FLOATS:
        numbers = np.array([-np.inf, -2, -1, -0.0, 0.0, 1, 2, np.inf, np.nan, np.nan]).astype(dtype)
        numbers[-1] = -np.abs(numbers[-1])
        return numbers
    low = np.iinfo(dtype).min
    return np.array([0, 1, 2] if low == 0 else [low, -1, 0, 1], dtype)


_DIRECTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip


def _compared(x: Any, y: Any, *, comparison_direction: str, compare_type: str) -> Array:
    if compare_type == "TOTALORDER":
        x, y = (rank(np.asarray(v), Key(0, total=True)) for v in (x, y))
    return np.asarray(_DIRECTIONS[comparison_direction](x, y))


_LOGIC: dict[str, Callable[..., Any]] = {
    "compare": _compared, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.logical_not,
    "select": np.where, "broadcast_in_dim": lambda x, **attrs: x, "reshape": lambda x, **attrs: x,
}  # fmt: skip
"""What the operations of comparators say of arrays of scalars; `and` and its kind of bools."""


def says(region: Any, arguments: Sequence[Array], result: Any = None) -> Array:
    """What a comparator says of pairs; or another value of a region of such operations."""
    values: dict[Any, Any] = dict(zip(region.parameters, arguments, strict=True))
    for i in region.instructions:
        if i.op.hlo == "constant":
            values[i.results[0]] = np.asarray(i.attrs["value"]).reshape(-1)[0]
        else:
            values[i.results[0]] = _LOGIC[i.op.hlo](*[values[v] for v in i.operands], **i.attrs)
    return np.asarray(values[region.results[0] if result is None else result])


def picks_either(region: Any) -> bool:
    """Whether a reducer of pairs picks one of them whole, the same one whichever comes first.

    Elements that no comparison tells apart (zeros of both signs, all NaN) count as the same.
    """
    count = len(region.parameters) // 2
    firsts, seconds = region.parameters[:count], region.parameters[count:]
    if not _only_compares(region, results=False) or not 1 <= count <= 2:
        return False
    choice: Any = None
    for k, result in enumerate(region.results):
        select = result.producer
        if select is None or select.op.hlo != "select" or select.operands[1:] != (firsts[k], seconds[k]):
            return False
        if choice is not None and select.operands[0] is not choice:
            return False
        choice = select.operands[0]
    types = region.parameter_types[:count]
    if any(t.dtype in COMPLEX for t in types) or choice in region.parameters:
        return False
    values = [_samples(t.dtype) for t in types]
    places = np.meshgrid(*[np.arange(len(v)) for v in values * 2], indexing="ij")
    pairs = [v[p.reshape(-1)] for v, p in zip(values * 2, places)]
    x, y = pairs[:count], pairs[count:]
    first, second = (
        np.broadcast_to(says(region, (*u, *v), choice), len(pairs[0])) for u, v in ((x, y), (y, x))
    )
    same = np.ones(len(pairs[0]), bool)
    for u, v in zip(x, y):
        same &= (u == v) | ((u != u) & (v != v))
    return bool(((first != second) | same).all())


def order_of(region: Any) -> tuple[Key, ...] | None:
    """The keys of a comparator, most significant first; None if it is no order that keys can say."""
    if not _only_compares(region):
        return None
    used = {v for i in region.instructions for v in i.operands} | set(region.results)
    types = region.parameter_types
    operands = [
        k for k in range(len(types) // 2) if used & {region.parameters[2 * k], region.parameters[2 * k + 1]}
    ]
    if not 1 <= len(operands) <= MOST_KEYS or any(types[2 * k].dtype in COMPLEX for k in operands):
        return None
    values = {k: _samples(types[2 * k].dtype) for k in operands}

    def said(pairs: dict[int, tuple[Array, Array]]) -> Array:
        n = len(next(iter(pairs.values()))[0])
        arguments: list[Array] = []
        for k in range(len(types) // 2):
            still = np.zeros(n, types[2 * k].dtype)
            arguments += list(pairs.get(k, (still, still)))
        return np.broadcast_to(says(region, arguments), n)

    # Each key alone, the others equal.
    keys: dict[int, Key] = {}
    for k in operands:
        x, y = _pairs(values[k], values[k])
        zero = {j: (np.zeros(len(x), v.dtype),) * 2 for j, v in values.items()}
        found = _key_of(k, x, y, said({**zero, k: (x, y)}))
        if found is None:
            return None
        keys[k] = found

    # A key is more significant than another if it decides where the two disagree.
    def beats(a: int, b: int) -> bool:
        less, more = (_apart(values[k], keys[k]) for k in (a, b))
        pairs = {j: (v[:1], v[:1]) for j, v in values.items()}
        return bool(said({**pairs, a: less, b: (more[1], more[0])})[0])

    ranked = sorted(operands, key=lambda a: -sum(beats(a, b) for b in operands if b != a))
    order = tuple(keys[k] for k in ranked)
    few = {k: v if len(operands) < MOST_KEYS else v[-6:] for k, v in values.items()}
    grid = np.meshgrid(*[np.arange(len(few[k]) ** 2) for k in operands], indexing="ij")
    pairs = {}
    for k, place in zip(operands, grid):
        x, y = _pairs(few[k], few[k])
        pairs[k] = x[place.reshape(-1)], y[place.reshape(-1)]
    wanted = _less(order, pairs)
    comparable = np.ones(len(wanted), bool)
    for k in operands:
        if values[k].dtype in FLOATS and not keys[k].total:
            comparable &= ~(np.isnan(pairs[k][0]) | np.isnan(pairs[k][1]))
    agrees = said(pairs) == wanted
    return order if agrees[comparable].all() else None


def _only_compares(region: Any, results: bool = True) -> bool:
    """Whether a region compares parameters with each other and with zero, and combines what it finds.

    Args:
        results: whether it must give one bool.
    """
    for i in region.instructions:
        result = i.results[0].type.dtype
        if i.op.hlo == "constant":
            value = np.asarray(i.attrs["value"])
            if result != BOOL and not np.all((value == 0) | (value != value)):
                return False
        elif i.op.hlo not in _LOGIC or (i.op.hlo in ("and", "or", "xor", "not") and result != BOOL):
            return False
    return not results or (bool(region.result_types) and region.result_types[0] == TensorType((), BOOL))


def _pairs(x: Array, y: Array) -> tuple[Array, Array]:
    return np.repeat(x, len(y)), np.tile(y, len(x))


def _apart(values: Array, key: Key) -> tuple[Array, Array]:
    """Two values of which the first comes first."""
    low, high = (values[1:2], values[-3:-2]) if values.dtype in FLOATS else (values[:1], values[-1:])
    return (high, low) if key.descending else (low, high)


def _key_of(k: int, x: Array, y: Array, less: Array) -> Key | None:
    """The key that orders pairs as was said; comparisons that say nothing of NaN leave it where it counts as largest."""
    floating = x.dtype in FLOATS
    for descending, total in itertools.product((False, True), (True, False) if floating else (False,)):
        key = Key(k, descending, total)
        wanted = _less((key,), {k: (x, y)})
        partial = np.isnan(x) | np.isnan(y) if floating and not total else np.zeros(len(x), bool)
        if (less == wanted).all() or ((less == wanted)[~partial].all() and not less[partial].any()):
            return key
    return None


def _less(order: Sequence[Key], pairs: dict[int, tuple[Array, Array]]) -> Array:
    less: Any = False
    for key in reversed(order):
        x, y = (rank(v, key) for v in pairs[key.operand])
        less = (x < y) | ((x == y) & less)
    return np.asarray(less)


def rank(x: Array, key: Key) -> Array:
    """Unsigned integers in the order of a key."""
    if x.dtype == BOOL:
        bits = x.astype(np.uint8)
        return 1 - bits if key.descending else bits
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    top = unsigned.type(1 << (8 * x.dtype.itemsize - 1))
    if x.dtype in FLOATS:
        if not key.total:
            x = np.where(x == 0, np.zeros((), x.dtype), x)
            x = np.where(np.isnan(x), np.abs(np.asarray(np.nan, x.dtype)), x)
        bits = np.ascontiguousarray(x).view(unsigned)
        bits = np.where(bits & top, ~bits, bits | top)
    else:
        bits = np.ascontiguousarray(x).view(unsigned)
        bits = bits ^ top if x.dtype in dtypes.SIGNED else bits
    return np.asarray(~bits if key.descending else bits)


# --- sort ---------------------------------------------------------------------------------------------
def _check_alike_shapes(title: str, types: Sequence[TensorType], dimension: int) -> None:
    if not types:
        raise ShapeError(f"{title} (C1): it takes one operand at least.")
    for i, t in enumerate(types):
        if t.shape != types[0].shape:
            raise ShapeError(
                f"{title} (C3): operand 0 has shape {types[0].shape} and operand {i} has shape {t.shape}, "
                "which must be alike.",
                values=listing(**{f"operand{k}": t for k, t in enumerate(types)}),
            )
    check_axes(title, "dimension", (dimension,), types[0].ndim, "C4", "C4")


def _sort_infer(
    *types: TensorType, dimension: int, is_stable: bool, regions: Sequence[Any]
) -> list[TensorType]:
    rank = types[0].ndim if types else 0
    _check_alike_shapes("sort", types, dimension + rank if dimension < 0 else dimension)
    wanted = tuple(TensorType((), t.dtype) for t in types for _ in range(2))
    found = regions[0] if len(regions) == 1 else None
    if found is None or (found.parameter_types, found.result_types) != (wanted, (TensorType((), BOOL),)):
        raise ShapeError("sort (C5): its comparator must go from two scalars of each operand to bool.")
    return [TensorType(t.shape, t.dtype) for t in types]


def _sort_numpy(
    *arrays: Array,
    dimension: int,
    is_stable: bool,
    regions: Sequence[Any],
    apply: Callable[..., list[Array]],
) -> list[Array]:
    axis = dimension % max(arrays[0].ndim, 1)
    order = order_of(regions[0])
    with np.errstate(all="ignore"):
        if order is not None:
            places = places_of(arrays, order, axis)
        else:
            places = _merged(arrays, axis, lambda *scalars: apply(regions[0], *scalars)[0])
    return [np.take_along_axis(x, places, axis) for x in arrays]


def places_of(arrays: Sequence[Array], order: Sequence[Key], axis: int) -> Array:
    """Where each element of the sorted arrays comes from."""
    keys = [rank(arrays[key.operand], key) for key in reversed(order)]
    return np.asarray(np.lexsort(keys, axis=axis)) if keys[0].size else np.zeros(keys[0].shape, np.intp)


def _merged(arrays: Sequence[Array], axis: int, less: Callable[..., Array]) -> Array:
    """The same by merging runs of 1, 2, 4, … elements, all rows at once; a later element goes first only if less."""
    rows = [np.moveaxis(x, axis, -1) for x in arrays]
    outer, n = rows[0].shape[:-1], rows[0].shape[-1]
    flat = [x.reshape(-1, n) for x in rows]
    count = len(flat[0])
    places = np.broadcast_to(np.arange(n), (count, n)).copy()
    each = np.arange(count)
    width = 1
    while width < n and count:
        merged = np.empty_like(places)
        for start in range(0, n, 2 * width):
            middle, stop = min(start + width, n), min(start + 2 * width, n)
            i, j = np.full(count, start), np.full(count, middle)
            for k in range(start, stop):
                left, right = places[each, np.minimum(i, n - 1)], places[each, np.minimum(j, n - 1)]
                scalars = [x[each, at] for x in flat for at in (right, left)]
                first = np.broadcast_to(less(*scalars), count)
                takes_right = (j < stop) & ((i >= middle) | first)
                merged[:, k] = np.where(takes_right, right, left)
                i, j = i + ~takes_right, j + takes_right
        places, width = merged, 2 * width
    return np.moveaxis(places.reshape(*outer, n), -1, axis)


def _sort_cost(*types: TensorType, **attrs: Any) -> Cost:
    n = types[0].size
    return Cost(8 * n * max(n.bit_length(), 1), 0, 2 * moved(*types))


def _no_samples() -> list[Sample]:
    """None: comparators are HLO, which is above this layer; the primitive's samples lower to it."""
    return []


sort_hlo = Op(
    None, hlo="sort",
    infer=_sort_infer, numpy=_sort_numpy, error=EXACT,
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    kernel=Family("sort"), cost=_sort_cost, samples=_no_samples,
    multiple_results=True, attrs=("dimension", "is_stable"),
)  # fmt: skip


def _sort_keys_infer(*types: TensorType, dimension: int, is_stable: bool, num_keys: int) -> list[TensorType]:
    _check_alike_shapes("sort", types, dimension)
    if not 1 <= num_keys <= len(types):
        raise ShapeError(f"sort: num_keys is {num_keys}, which must be from 1 to the {len(types)} operands.")
    for i, t in enumerate(types[:num_keys]):
        if t.dtype not in (BOOL, *INTEGERS, *FLOATS, *COMPLEX):
            raise DTypeError(f"sort: key {i} is {dtypes.short(t.dtype)}, which has no order.")
    return [TensorType(t.shape, t.dtype) for t in types]


def _sort_keys_numpy(*arrays: Array, dimension: int, is_stable: bool, num_keys: int) -> list[Array]:
    keys: list[Array] = []
    for x in arrays[:num_keys]:
        keys += [x.real, x.imag] if dtypes.is_complex(x.dtype) else [x]
    with np.errstate(all="ignore"):
        places = places_of(keys, [Key(k) for k in range(len(keys))], dimension)
    return [np.take_along_axis(x, places, dimension) for x in arrays]


def _sort_jvp(*args: Any, **attrs: Any) -> list[Any]:
    """Tangents move with their primals: they are sorted along as further operands."""
    half = len(args) // 2
    tangents, primals = args[:half], args[half:]
    given = [core.typeof(x).dtype in (*FLOATS, *COMPLEX) for x in primals]
    moving = [t for t, has in zip(tangents, given) if has]
    found = iter(sort(*primals, *moving, **attrs)[half:])
    return [next(found) if has else t for t, has in zip(tangents, given)]


def _sort_transpose(
    cts: Sequence[Any], *operands: Any, dimension: int, is_stable: bool, num_keys: int
) -> list[Any]:
    """Cotangents go back to where their operands came from: sorted by those places."""
    if any(isinstance(x, Undefined) for x in operands[:num_keys]):
        raise DifferentiationError("sort: it is not linear in its keys.")
    known = [x for x in operands if not isinstance(x, Undefined)]
    t = core.typeof(known[0])
    numbers = shape.iota(iota_dimension=dimension, shape=t.shape, dtype=I32)
    options = {"dimension": dimension, "is_stable": True}
    *_, places = sort(*known, numbers, num_keys=num_keys, **options)
    linear = [ct for ct, x in zip(cts, operands) if isinstance(x, Undefined)]
    back = iter(sort(places, *linear, num_keys=1, **options)[1:])
    return [next(back) if isinstance(x, Undefined) else None for x in operands]


def _sort_batch(
    size: int, args: Any, axes: Any, *, dimension: int, **attrs: Any
) -> tuple[list[Any], list[int]]:
    found = sort(*[shape.to_front(size, x, a) for x, a in zip(args, axes)], dimension=dimension + 1, **attrs)
    return list(found), [0] * len(found)


def _sort_lower(b: Any, *values: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
    types = [TensorType((), v.type.dtype) for v in values for _ in range(2)]

    def comparator(inner: Any, *scalars: Any) -> tuple[Any]:
        pairs: list[tuple[Any, Any]] = []
        for k in range(num_keys):
            x, y = scalars[2 * k], scalars[2 * k + 1]
            if dtypes.is_complex(x.type.dtype):
                for op in ("real", "imag"):
                    part = HLO_OPS[op]
                    pairs.append((inner.emit(part, x), inner.emit(part, y)))
            else:
                pairs.append((x, y))
        pairs = [(_ordered(inner, x), _ordered(inner, y)) for x, y in pairs]
        found: Any = None
        for x, y in reversed(pairs):
            less = _compare(inner, "LT", x, y)
            if found is not None:
                tie = inner.emit(elementwise.and_, _compare(inner, "EQ", x, y), found)
                less = inner.emit(elementwise.or_, less, tie)
            found = less
        return (found,)

    region = b.region(types, comparator)
    return b.emit_many(sort_hlo, *values, regions=(region,), dimension=dimension, is_stable=is_stable)


def _ordered(b: Any, x: Any) -> Any:
    """A float with one zero and one NaN."""
    dtype = x.type.dtype
    if dtype not in FLOATS:
        return x
    zero, nan = b.constant(0, dtype), b.constant(np.nan, dtype)

    def choose(direction: str, y: Any, on_true: Any, on_false: Any) -> Any:
        holds = b.emit(elementwise.compare_hlo, x, y, comparison_direction=direction, compare_type="FLOAT")
        return b.emit(elementwise.select_hlo, holds, on_true, on_false)

    return choose("NE", x, nan, choose("EQ", zero, zero, x))


def _compare(b: Any, direction: str, x: Any, y: Any) -> Any:
    dtype = x.type.dtype
    kind = "TOTALORDER" if dtype in FLOATS else elementwise.compare_type_of(dtype)
    return b.emit(elementwise.compare_hlo, x, y, comparison_direction=direction, compare_type=kind)


def _sort_samples() -> list[Sample]:
    def case(sizes: tuple[int, ...], dimension: int, num_keys: int, *kinds: DType) -> Sample:
        attrs = {"dimension": dimension, "is_stable": True, "num_keys": num_keys}
        return tuple(TensorType(sizes, d) for d in kinds), attrs

    sizes: list[tuple[tuple[int, ...], int]] = [
        ((5,), 0), ((1,), 0), ((0,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 0, 3), 1), ((2, 0, 3), 2), ((2, 33, 3), 1),
        ((130,), 0), ((300,), 0), ((3, 1031), 1),
    ]  # fmt: skip
    return [
        case(s, axis, keys, *kinds)
        for s, axis in sizes
        for keys, kinds in (
            (1, (F32,)), (1, (F64,)), (1, (I32,)), (1, (dtypes.I64,)), (1, (BOOL,)), (1, (F32, I32)), (1, (BOOL, F64)),
            (1, (F64, F64, I32)), (2, (I32, F32)), (2, (BOOL, I32, F64)), (3, (BOOL, BOOL, F32)),
        )
    ]  # fmt: skip


sort: Op = Op(
    "sort", hlo=None,
    infer=_sort_keys_infer, numpy=_sort_keys_numpy, error=EXACT,
    jvp=_sort_jvp, transpose=_sort_transpose, batch=_sort_batch, lower=_sort_lower,
    kernel=LOWERED, cost=_sort_cost, samples=_sort_samples, at_once=False,
    multiple_results=True, attrs=("dimension", "is_stable", "num_keys"),
    jax_attrs=lambda attrs: {name: attrs[name] for name in ("dimension", "is_stable", "num_keys")},
)  # fmt: skip
