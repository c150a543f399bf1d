"""Operations that move elements: shapes, axes, windows, constants and iota.

All of them keep the bits of what they move and are linear in it. Lane code is an `IndexMap`: it says from
where the element at an index comes, and never reads outside an operand, whichever side a select then takes.

Start indices of dynamic_slice and dynamic_update_slice are clamped so that the window lies inside.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from braze import core, dtypes
from braze.dtypes import BOOL, I32, I64, INTEGERS, NUMBERS, U64, DType
from braze.errors import DTypeError, ShapeError
from braze.ops import elementwise
from braze.ops.facets import (
    HLO_ONLY,
    LOWERED,
    SAMPLED,
    SHAPES,
    Array,
    check_axes,
    check_dtype,
    check_length,
    elementwise_cost,
    full,
    listing,
    size_of,
)
from braze.ops.table import (
    EXACT,
    LINEAR,
    PRIMITIVES,
    ZERO,
    Absent,
    Axes,
    Cost,
    Immediate,
    IndexMap,
    Op,
    Regroup,
    Sample,
    Undefined,
    Update,
)
from braze.types import TensorType

NO_OPERANDS = Absent("it has no operands")


# --- batching -----------------------------------------------------------------------------------------
def move_axis(x: Any, source: int, target: int) -> Any:
    """x with one axis moved, the others in their order."""
    if source == target:
        return x
    rest = [i for i in range(core.typeof(x).ndim) if i != source]
    rest.insert(target, source)
    return transpose(x, permutation=tuple(rest))


def to_front(size: int, x: Any, axis: int | None) -> Any:
    """x with the mapped axis in front; a value without one is repeated."""
    if axis is not None:
        return move_axis(x, axis, 0)
    t = core.typeof(x)
    return broadcast_in_dim(x, shape=(size, *t.shape), broadcast_dimensions=tuple(range(1, t.ndim + 1)))


def _shifted(axes: Sequence[int]) -> tuple[int, ...]:
    """Axes of an operand after a mapped axis has come in front."""
    return tuple(a + 1 for a in axes)


def entry(x: Any, axis: int, i: int) -> Any:
    """Entry i of an axis, without that axis."""
    sizes = core.typeof(x).shape
    start, limit = [0] * len(sizes), list(sizes)
    start[axis], limit[axis] = i, i + 1
    cut = slice(x, start_indices=tuple(start), limit_indices=tuple(limit), strides=(1,) * len(sizes))
    return squeeze(cut, dimensions=(axis,))


# --- constant -----------------------------------------------------------------------------------------
def _constant_infer(*, value: Array) -> TensorType:
    return TensorType(value.shape, dtypes.canonical(value.dtype))


def _constant_samples() -> list[Sample]:
    return [((), {"value": np.ones(s, d)}) for d in SAMPLED for s in SHAPES]


constant_hlo: Op = Op(
    None, hlo="constant",
    infer=_constant_infer, numpy=lambda *, value: value, error=EXACT,
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    kernel=Immediate(), cost=lambda *, value: Cost(bytes=value.nbytes), samples=_constant_samples,
    attrs=("value",),
)  # fmt: skip


# --- iota ---------------------------------------------------------------------------------------------
def _iota_infer(*, iota_dimension: int, shape: tuple[int, ...], dtype: DType) -> TensorType:
    result = TensorType(shape, dtype)
    check_dtype("iota", "result", result, NUMBERS, "I1")
    if not 0 <= iota_dimension < len(shape):
        raise ShapeError(
            f"iota (C1): iota_dimension is {iota_dimension}, which is no axis of the shape {shape}.",
            values=f"result {result}",
        )
    return result


def _iota_numpy(*, iota_dimension: int, shape: tuple[int, ...], dtype: DType) -> Array:
    line = elementwise.convert(np.arange(shape[iota_dimension], dtype=np.int64), dtype)
    across = [1] * len(shape)
    across[iota_dimension] = -1
    return np.broadcast_to(line.reshape(across), shape)


def _iota_kernel(b: Any, index: Any, *, iota_dimension: int, shape: tuple[int, ...], dtype: DType) -> Any:
    return b.cast(b.lift(index[iota_dimension], I64), dtype)


def _iota_samples() -> list[Sample]:
    return [
        ((), {"iota_dimension": d, "shape": s, "dtype": t})
        for t in SAMPLED
        if t != BOOL
        for s in SHAPES
        for d in range(len(s))
    ]


iota: Op = Op(
    "iota", hlo="iota",
    infer=_iota_infer, numpy=_iota_numpy, error=EXACT,
    jvp=ZERO, transpose=NO_OPERANDS, batch=NO_OPERANDS,
    kernel=IndexMap(_iota_kernel, along=lambda *, iota_dimension, **_: (iota_dimension,)),
    cost=elementwise_cost("iota", 0), samples=_iota_samples,
    attrs=("iota_dimension", "shape", "dtype"),
    jax_attrs=lambda a: {"dimension": a["iota_dimension"], "dtype": a["dtype"], "shape": a["shape"]},
)  # fmt: skip


# --- broadcast_in_dim ---------------------------------------------------------------------------------
def _broadcast_in_dim_infer(
    x: TensorType, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> TensorType:
    check_length("broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions, x.ndim, "C2")
    check_axes("broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions, len(shape), "C3", "C4")
    for axis, (size, target) in enumerate(zip(x.shape, broadcast_dimensions)):
        if size not in (1, shape[target]):
            raise ShapeError(
                f"broadcast_in_dim (C5): operand axis {axis} has size {size}, which is neither 1 nor the "
                f"size {shape[target]} of result axis {target}.",
                values=f"operand {x}, shape {shape}, broadcast_dimensions {broadcast_dimensions}",
                hint="insert an axis with x[:, None], or check that the operand has one entry per axis.",
            )
    return TensorType(shape, x.dtype)


def _broadcast_in_dim_numpy(x: Array, *, shape: Any, broadcast_dimensions: Any) -> Array:
    order = sorted(range(x.ndim), key=broadcast_dimensions.__getitem__)
    across = [1] * len(shape)
    for size, target in zip(x.shape, broadcast_dimensions):
        across[target] = size
    return np.broadcast_to(x.transpose(order).reshape(across), shape)


def _broadcast_in_dim_transpose(ct: Any, x: Undefined, *, shape: Any, broadcast_dimensions: Any) -> list[Any]:
    repeated = tuple(
        axis
        for axis in range(len(shape))
        if axis not in broadcast_dimensions or x.type.shape[broadcast_dimensions.index(axis)] != shape[axis]
    )
    summed = PRIMITIVES["reduce_sum"](ct, axes=repeated) if repeated else ct
    kept = [axis for axis in range(len(shape)) if axis not in repeated]
    # The kept axes are in the result's order; the operand's follow broadcast_dimensions.
    wide = [d for d in broadcast_dimensions if d in kept]
    order = tuple(kept.index(d) for d in wide)
    if order != tuple(range(len(order))):
        summed = transpose(summed, permutation=order)
    return [reshape(summed, shape=x.type.shape) if core.typeof(summed).shape != x.type.shape else summed]


def _broadcast_in_dim_batch(size: int, args: Any, axes: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
    x = move_axis(args[0], axes[0], 0)
    moved = (0, *_shifted(broadcast_dimensions))
    return broadcast_in_dim(x, shape=(size, *shape), broadcast_dimensions=moved), 0


def _broadcast_in_dim_samples() -> list[Sample]:
    cases = [
        ((), (), ()), ((), (5,), ()), ((), (2, 0), ()), ((5,), (3, 5), (1,)), ((3,), (3, 5), (0,)),
        ((3, 1), (3, 5), (0, 1)), ((1, 4), (2, 3, 4), (1, 2)), ((3, 4), (4, 2, 3), (2, 0)),
        ((1,), (1031,), (0,)), ((0,), (2, 0), (1,)), ((1, 1), (7, 3), (1, 0)),
    ]  # fmt: skip
    return [
        ((TensorType(x, d),), {"shape": shape, "broadcast_dimensions": dims})
        for d in SAMPLED
        for x, shape, dims in cases
    ]


broadcast_in_dim: Op = Op(
    "broadcast_in_dim", hlo="broadcast_in_dim",
    infer=_broadcast_in_dim_infer, numpy=_broadcast_in_dim_numpy, error=EXACT,
    jvp=LINEAR, transpose=_broadcast_in_dim_transpose, batch=_broadcast_in_dim_batch,
    kernel=Axes(lambda x, *, shape, broadcast_dimensions: broadcast_dimensions),
    cost=elementwise_cost("broadcast_in_dim", 0), samples=_broadcast_in_dim_samples,
    attrs=("shape", "broadcast_dimensions"),
    # As JAX prints it: the result type shows the shape.
    jax_attrs=lambda a: {name: a[name] for name in ("broadcast_dimensions",) if a[name]},
)  # fmt: skip


# --- reshape ------------------------------------------------------------------------------------------
def _reshape_infer(x: TensorType, *, shape: tuple[int, ...]) -> TensorType:
    if size_of(shape) != x.size:
        raise ShapeError(
            f"reshape (C2): operand has {x.size} elements and the shape {shape} holds {size_of(shape)}.",
            values=f"operand {x}, shape {shape}",
        )
    return TensorType(shape, x.dtype)


def _reshape_transpose(ct: Any, x: Undefined, *, shape: Any) -> list[Any]:
    return [reshape(ct, shape=x.type.shape)]


def _reshape_batch(size: int, args: Any, axes: Any, *, shape: tuple[int, ...]) -> Any:
    return reshape(move_axis(args[0], axes[0], 0), shape=(size, *shape)), 0


def _reshape_samples() -> list[Sample]:
    cases = [
        ((), (1,)), ((1,), ()), ((), (1, 1)), ((6,), (2, 3)), ((2, 3), (6,)), ((2, 3), (3, 2)), ((0,), (0, 5)),
        ((2, 1, 3), (2, 3)), ((4, 6), (2, 2, 3, 2)), ((1031,), (1, 1031)), ((3, 1, 5), (1, 15)),
    ]  # fmt: skip
    return [((TensorType(x, d),), {"shape": shape}) for d in SAMPLED for x, shape in cases]


reshape: Op = Op(
    "reshape", hlo="reshape",
    infer=_reshape_infer, numpy=lambda x, *, shape: x.reshape(shape), error=EXACT,
    jvp=LINEAR, transpose=_reshape_transpose, batch=_reshape_batch,
    kernel=Regroup(), keeps_bytes=True, cost=elementwise_cost("reshape", 0), samples=_reshape_samples,
    attrs=("shape",), jax_attrs=lambda a: {"dimensions": None, "new_sizes": a["shape"]},
)  # fmt: skip


# --- squeeze ------------------------------------------------------------------------------------------
def _squeeze_infer(x: TensorType, *, dimensions: tuple[int, ...]) -> TensorType:
    check_axes("squeeze", "dimensions", dimensions, x.ndim, "C1", "C2")
    for axis in dimensions:
        if x.shape[axis] != 1:
            raise ShapeError(
                f"squeeze (C3): operand axis {axis} has size {x.shape[axis]}, which is not 1.",
                values=f"operand {x}, dimensions {dimensions}",
            )
    return TensorType((n for i, n in enumerate(x.shape) if i not in dimensions), x.dtype)


def _squeeze_numpy(x: Array, *, dimensions: tuple[int, ...]) -> Array:
    return x.squeeze(dimensions)


def _squeeze_transpose(ct: Any, x: Undefined, *, dimensions: tuple[int, ...]) -> list[Any]:
    return [reshape(ct, shape=x.type.shape)]


def _squeeze_batch(size: int, args: Any, axes: Any, *, dimensions: tuple[int, ...]) -> Any:
    return squeeze(move_axis(args[0], axes[0], 0), dimensions=_shifted(dimensions)), 0


def _squeeze_lower(b: Any, x: Any, *, dimensions: tuple[int, ...]) -> Any:
    return b.emit(reshape, x, shape=_squeeze_infer(x.type, dimensions=dimensions).shape)


def _squeeze_samples() -> list[Sample]:
    cases = [((1,), (0,)), ((3, 1), (1,)), ((1, 4, 1), (0, 2)), ((1, 4, 1), ()), ((0, 1), (1,))]
    return [((TensorType(x, d),), {"dimensions": dims}) for d in SAMPLED for x, dims in cases]


squeeze: Op = Op(
    "squeeze", hlo=None,
    infer=_squeeze_infer, numpy=_squeeze_numpy, error=EXACT,
    jvp=LINEAR, transpose=_squeeze_transpose, batch=_squeeze_batch, lower=_squeeze_lower,
    kernel=LOWERED, cost=elementwise_cost("squeeze", 0), samples=_squeeze_samples,
    attrs=("dimensions",), jax_attrs=dict,
)  # fmt: skip


# --- transpose ----------------------------------------------------------------------------------------
def _transpose_infer(x: TensorType, *, permutation: tuple[int, ...]) -> TensorType:
    if sorted(permutation) != list(range(x.ndim)):
        raise ShapeError(
            f"transpose (C2): permutation {tuple(permutation)} does not name each of the {x.ndim} axes once.",
            values=f"operand {x}",
        )
    return TensorType([x.shape[i] for i in permutation], x.dtype)


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    back = [0] * len(permutation)
    for i, p in enumerate(permutation):
        back[p] = i
    return tuple(back)


def _transpose_transpose(ct: Any, x: Undefined, *, permutation: tuple[int, ...]) -> list[Any]:
    return [transpose(ct, permutation=inverse(permutation))]


def _transpose_batch(size: int, args: Any, axes: Any, *, permutation: tuple[int, ...]) -> Any:
    axis = axes[0]
    rest = [p + (p >= axis) for p in permutation]
    return transpose(args[0], permutation=(axis, *rest)), 0


def _transpose_samples() -> list[Sample]:
    cases = [((), ()), ((5,), (0,)), ((3, 4), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((2, 3, 4), (0, 2, 1)),
             ((0, 3), (1, 0)), ((1, 7, 1), (2, 1, 0)), ((33, 65), (1, 0))]  # fmt: skip
    return [((TensorType(x, d),), {"permutation": p}) for d in SAMPLED for x, p in cases]


transpose: Op = Op(
    "transpose", hlo="transpose",
    infer=_transpose_infer, numpy=lambda x, *, permutation: x.transpose(permutation), error=EXACT,
    jvp=LINEAR, transpose=_transpose_transpose, batch=_transpose_batch,
    kernel=Axes(lambda x, *, permutation: inverse(permutation)),
    cost=elementwise_cost("transpose", 0), samples=_transpose_samples,
    attrs=("permutation",), jax_attrs=dict,
)  # fmt: skip


# --- rev ----------------------------------------------------------------------------------------------
def _rev_infer(x: TensorType, *, dimensions: tuple[int, ...]) -> TensorType:
    check_axes("reverse", "dimensions", dimensions, x.ndim, "C3", "C2")
    return x


def _rev_batch(size: int, args: Any, axes: Any, *, dimensions: tuple[int, ...]) -> Any:
    return rev(move_axis(args[0], axes[0], 0), dimensions=_shifted(dimensions)), 0


def _rev_kernel(b: Any, index: Any, x: Any, *, dimensions: tuple[int, ...]) -> Any:
    sizes = x.type.shape
    return x.at(tuple(b.sub(b.lift(n - 1, I64), i) if d in dimensions else i
                      for d, (i, n) in enumerate(zip(index, sizes))))  # fmt: skip


def _rev_samples() -> list[Sample]:
    cases = [((), ()), ((5,), (0,)), ((3, 4), (1,)), ((3, 4), (0, 1)), ((0, 3), (1,)), ((1031,), (0,))]
    return [((TensorType(x, d),), {"dimensions": dims}) for d in SAMPLED for x, dims in cases]


rev: Op = Op(
    "rev", hlo="reverse",
    infer=_rev_infer, numpy=lambda x, *, dimensions: np.asarray(np.flip(x, dimensions)), error=EXACT,
    jvp=LINEAR, transpose=lambda ct, x, **attrs: [rev(ct, **attrs)], batch=_rev_batch,
    kernel=IndexMap(_rev_kernel), cost=elementwise_cost("rev", 0), samples=_rev_samples,
    attrs=("dimensions",), jax_attrs=dict,
)  # fmt: skip


# --- slice --------------------------------------------------------------------------------------------
def _slice_infer(
    x: TensorType,
    *,
    start_indices: tuple[int, ...],
    limit_indices: tuple[int, ...],
    strides: tuple[int, ...],
) -> TensorType:
    for name, entries in (("start_indices", start_indices), ("limit_indices", limit_indices),
                          ("strides", strides)):  # fmt: skip
        check_length("slice", name, entries, x.ndim, "C2")
    for axis, (start, limit, stride, n) in enumerate(zip(start_indices, limit_indices, strides, x.shape)):
        if not 0 <= start <= limit <= n:
            raise ShapeError(
                f"slice (C3): on axis {axis} of size {n}, start {start} and limit {limit} do not hold "
                f"0 <= start <= limit <= {n}.",
                values=f"operand {x}, start_indices {start_indices}, limit_indices {limit_indices}",
            )
        if stride < 1:
            raise ShapeError(f"slice (C4): on axis {axis} the stride is {stride}, which is not positive.")
    shape = [-((start - limit) // stride) for start, limit, stride in
             zip(start_indices, limit_indices, strides)]  # fmt: skip
    return TensorType(shape, x.dtype)


def _slice_numpy(x: Array, *, start_indices: Any, limit_indices: Any, strides: Any) -> Array:
    return np.asarray(x[tuple(map(builtins.slice, start_indices, limit_indices, strides))])


def _slice_transpose(
    ct: Any, x: Undefined, *, start_indices: Any, limit_indices: Any, strides: Any
) -> list[Any]:
    sizes = core.typeof(ct).shape
    high = tuple(
        n - start - (m - 1) * stride - 1 if m else n - start
        for n, start, stride, m in zip(x.type.shape, start_indices, strides, sizes)
    )
    interior = tuple(stride - 1 for stride in strides)
    zero = np.zeros((), x.type.dtype)[()]
    return [pad(ct, zero, low=tuple(start_indices), high=high, interior=interior)]


def _slice_batch(
    size: int, args: Any, axes: Any, *, start_indices: Any, limit_indices: Any, strides: Any
) -> Any:
    (x,), (axis,) = args, axes

    def at(entries: Any, entry: int) -> tuple[int, ...]:
        return (*entries[:axis], entry, *entries[axis:])

    sliced = slice(
        x, start_indices=at(start_indices, 0), limit_indices=at(limit_indices, size), strides=at(strides, 1)
    )
    return sliced, axis


def _slice_kernel(b: Any, index: Any, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    return x.at(
        tuple(
            b.add(b.mul(b.lift(i, I64), stride), start)
            for i, start, stride in zip(index, start_indices, strides)
        )
    )


def _slice_samples() -> list[Sample]:
    cases = [
        ((), (), (), ()), ((5,), (0,), (5,), (1,)), ((5,), (1,), (4,), (2,)), ((5,), (2,), (2,), (1,)),
        ((3, 4), (1, 0), (3, 4), (1, 3)), ((1031,), (3,), (1030,), (2,)), ((0, 3), (0, 1), (0, 2), (1, 1)),
        ((7, 33), (2, 5), (6, 30), (1, 1)),
    ]  # fmt: skip
    return [
        ((TensorType(x, d),), {"start_indices": start, "limit_indices": limit, "strides": strides})
        for d in SAMPLED
        for x, start, limit, strides in cases
    ]


def _slice_jax(a: Any) -> dict[str, Any]:
    unit = all(s == 1 for s in a["strides"])
    return {
        "limit_indices": a["limit_indices"],
        "start_indices": a["start_indices"],
        "strides": None if unit else a["strides"],
    }


slice: Op = Op(
    "slice", hlo="slice",
    infer=_slice_infer, numpy=_slice_numpy, error=EXACT,
    jvp=LINEAR, transpose=_slice_transpose, batch=_slice_batch,
    kernel=IndexMap(_slice_kernel), cost=elementwise_cost("slice", 0), samples=_slice_samples,
    attrs=("start_indices", "limit_indices", "strides"), jax_attrs=_slice_jax,
)  # fmt: skip


# --- concatenate --------------------------------------------------------------------------------------
def _concatenate_infer(*operands: TensorType, dimension: int) -> TensorType:
    if not operands:
        raise ShapeError("concatenate (C3): there is no operand.")
    first = operands[0]
    if not 0 <= dimension < first.ndim:
        raise ShapeError(
            f"concatenate (C4): dimension is {dimension}, which is no axis of an operand of {first.ndim} axes.",
            values=f"operand {first}",
        )
    for i, t in enumerate(operands[1:], 1):
        values = listing(**{f"operand{j}": u for j, u in ((0, first), (i, t))})
        if t.dtype != first.dtype:
            raise DTypeError(
                f"concatenate (C1): operand 0 is {dtypes.short(first.dtype)} and operand {i} is "
                f"{dtypes.short(t.dtype)}, which must be alike.",
                values=values,
            )
        if _without(t.shape, dimension) != _without(first.shape, dimension) or t.ndim != first.ndim:
            raise ShapeError(
                f"concatenate (C2): operand 0 has shape {first.shape} and operand {i} has shape {t.shape}, "
                f"which may differ on axis {dimension} only.",
                values=values,
            )
    total = sum(t.shape[dimension] for t in operands)
    return TensorType((*first.shape[:dimension], total, *first.shape[dimension + 1 :]), first.dtype)


def _without(entries: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return entries[:axis] + entries[axis + 1 :]


def _concatenate_transpose(ct: Any, *operands: Any, dimension: int) -> list[Any]:
    t = core.typeof(ct)
    offset = 0
    parts: list[Any] = []
    for x in operands:
        n = (x.type if isinstance(x, Undefined) else core.typeof(x)).shape[dimension]
        start, limit = [0] * t.ndim, list(t.shape)
        start[dimension], limit[dimension] = offset, offset + n
        offset += n
        if isinstance(x, Undefined):
            parts.append(slice(ct, start_indices=tuple(start), limit_indices=tuple(limit),
                               strides=(1,) * t.ndim))  # fmt: skip
        else:
            parts.append(None)
    return parts


def _concatenate_batch(size: int, args: Any, axes: Any, *, dimension: int) -> Any:
    return concatenate(*[to_front(size, x, a) for x, a in zip(args, axes)], dimension=dimension + 1), 0


def _clamped(b: Any, i: Any, size: int) -> Any:
    """An index brought into an axis of at least one element."""
    return b.clamp_index(i, size)


def _concatenate_kernel(b: Any, index: Any, *operands: Any, dimension: int) -> Any:
    i = b.lift(index[dimension], I64)
    value = None
    offset = 0
    for x in operands:
        n = x.type.shape[dimension]
        if n == 0:
            continue
        at = list(index)
        at[dimension] = _clamped(b, b.sub(i, offset), n)
        element = x.at(tuple(at))
        value = element if value is None else b.select(b.ge(i, offset), element, value)
        offset += n
    # Without elements no lane runs this, but a reduction over the result still writes it down.
    return operands[0].at(tuple(index)) if value is None else value


def _concatenate_samples() -> list[Sample]:
    cases = [
        (((5,),), 0), (((2,), (3,)), 0), (((0,), (3,), (0,), (1,)), 0), (((3, 4), (3, 1)), 1),
        (((2, 3), (5, 3), (1, 3)), 0), (((513,), (518,)), 0), (((2, 0, 3), (2, 2, 3)), 1),
    ]  # fmt: skip
    return [(tuple(TensorType(s, d) for s in xs), {"dimension": k}) for d in SAMPLED for xs, k in cases]


concatenate: Op = Op(
    "concatenate", hlo="concatenate",
    infer=_concatenate_infer, numpy=lambda *xs, dimension: np.concatenate(xs, dimension), error=EXACT,
    jvp=LINEAR, transpose=_concatenate_transpose, batch=_concatenate_batch,
    kernel=IndexMap(_concatenate_kernel, chooses=True), cost=elementwise_cost("concatenate", 0),
    samples=_concatenate_samples, attrs=("dimension",), jax_attrs=dict,
)  # fmt: skip


# --- pad ----------------------------------------------------------------------------------------------
Entries = tuple[int, ...]


def _pad_infer(
    x: TensorType, value: TensorType, *, low: Entries, high: Entries, interior: Entries
) -> TensorType:
    if value.dtype != x.dtype:
        raise DTypeError(
            f"pad (C1): operand is {dtypes.short(x.dtype)} and padding_value is "
            f"{dtypes.short(value.dtype)}, which must be alike.",
            values=listing(operand=x, padding_value=value),
        )
    if value.shape:
        raise ShapeError(f"pad (I2): padding_value has shape {value.shape}, which is not ().")
    for name, entries in (("low", low), ("high", high), ("interior", interior)):
        check_length("pad", name, entries, x.ndim, "C2")
    shape = []
    for axis, (n, before, after, between) in enumerate(zip(x.shape, low, high, interior)):
        if between < 0:
            raise ShapeError(f"pad (C3): interior padding of axis {axis} is {between}, which is negative.")
        size = before + n + (n - 1 if n else 0) * between + after
        if size < 0:
            raise ShapeError(
                f"pad (C4): axis {axis} of size {n} with low {before}, high {after} and interior {between} "
                f"would get size {size}.",
                values=f"operand {x}",
            )
        shape.append(size)
    return TensorType(shape, x.dtype)


def _pad_numpy(x: Array, value: Array, *, low: Entries, high: Entries, interior: Entries) -> Array:
    t = TensorType(x.shape, x.dtype)
    shape = _pad_infer(t, TensorType((), x.dtype), low=low, high=high, interior=interior).shape
    out = np.full(shape, value, x.dtype)
    sources, targets = [], []
    for n, size, before, between in zip(x.shape, shape, low, interior):
        step = between + 1
        first = max(-(before // step), 0)  # the first element that is not cut off in front
        last = min(n, (size - 1 - before) // step + 1)
        if last <= first:
            return out
        sources.append(builtins.slice(first, last))
        start = before + first * step
        targets.append(builtins.slice(start, start + (last - first - 1) * step + 1, step))
    out[tuple(targets)] = x[tuple(sources)]
    return out


def _pad_transpose(
    ct: Any, x: Any, value: Any, *, low: Entries, high: Entries, interior: Entries
) -> list[Any]:
    ct_x = ct_value = None
    if isinstance(x, Undefined):
        # Undo the outer padding, which may be negative, then skip what lies between.
        none = (0,) * len(low)
        zero = np.zeros((), x.type.dtype)[()]
        inner = pad(ct, zero, low=tuple(-n for n in low), high=tuple(-n for n in high), interior=none)
        ct_x = slice(
            inner,
            start_indices=none,
            limit_indices=core.typeof(inner).shape,
            strides=tuple(n + 1 for n in interior),
        )
    if isinstance(value, Undefined):
        axes = tuple(range(len(low)))
        t = core.typeof(ct)
        shape = x.type.shape if isinstance(x, Undefined) else core.typeof(x).shape
        holes = pad(
            full(shape, BOOL, False), np.bool_(True), low=low, high=high, interior=interior
        )  # True where the padding value went
        kept = elementwise.select_n(holes, full(t.shape, t.dtype, 0), ct)
        ct_value = PRIMITIVES["reduce_sum"](kept, axes=axes) if axes else kept
    return [ct_x, ct_value]


def _pad_batch(size: int, args: Any, axes: Any, *, low: Entries, high: Entries, interior: Entries) -> Any:
    x = to_front(size, args[0], axes[0])
    if axes[1] is None:
        return pad(x, args[1], low=(0, *low), high=(0, *high), interior=(0, *interior)), 0
    # Each entry has its own padding value: pad a mask alongside and select.
    zero = np.zeros((), core.typeof(x).dtype)[()]
    padded = pad(x, zero, low=(0, *low), high=(0, *high), interior=(0, *interior))
    t = core.typeof(padded)
    inside = pad(
        full(core.typeof(x).shape[1:], BOOL, True), np.bool_(False), low=low, high=high, interior=interior
    )
    value = broadcast_in_dim(args[1], shape=t.shape, broadcast_dimensions=(0,))
    return elementwise.select_n(to_front(size, inside, None), value, padded), 0


def _pad_kernel(
    b: Any, index: Any, x: Any, value: Any, *, low: Entries, high: Entries, interior: Entries
) -> Any:
    filler = value.at(())
    if x.type.size == 0:
        return filler
    inside: Any = None
    source = []
    for axis, (i, n) in enumerate(zip(index, x.type.shape)):
        step = interior[axis] + 1
        shifted = b.sub(b.lift(i, I64), low[axis])
        conditions = []
        if low[axis] > 0:
            conditions.append(b.ge(shifted, 0))
        if high[axis] > 0:
            conditions.append(b.le(shifted, (n - 1) * step))
        bounded = _clamped(b, shifted, (n - 1) * step + 1) if conditions else shifted
        if step > 1:
            conditions.append(b.eq(b.rem_fast(bounded, step), 0))
            bounded = b.div_fast(bounded, step)
        source.append(bounded)
        for condition in conditions:
            inside = condition if inside is None else b.and_(inside, condition)
    element = x.at(tuple(source))
    return element if inside is None else b.select(inside, element, filler)


def _pad_samples() -> list[Sample]:
    cases = [
        ((), (), (), ()), ((5,), (1,), (2,), (0,)), ((5,), (0,), (0,), (2,)), ((5,), (-1,), (-2,), (0,)),
        ((5,), (-2,), (3,), (1,)), ((3, 4), (1, -1), (0, 2), (2, 0)), ((0,), (2,), (1,), (3,)),
        ((3,), (-3,), (0,), (0,)), ((1031,), (7,), (0,), (0,)), ((4,), (2,), (-9,), (2,)),
    ]  # fmt: skip
    return [
        ((TensorType(x, d), TensorType((), d)), {"low": low, "high": high, "interior": interior})
        for d in SAMPLED
        for x, low, high, interior in cases
    ]


pad: Op = Op(
    "pad", hlo="pad",
    infer=_pad_infer, numpy=_pad_numpy, error=EXACT,
    jvp=LINEAR, transpose=_pad_transpose, batch=_pad_batch,
    kernel=IndexMap(_pad_kernel), cost=elementwise_cost("pad", 0), samples=_pad_samples,
    attrs=("low", "high", "interior"),
    jax_attrs=lambda a: {"padding_config": tuple(zip(a["low"], a["high"], a["interior"]))},
)  # fmt: skip


# --- dynamic_slice ------------------------------------------------------------------------------------
def _check_starts(
    title: str, x: TensorType, starts: Sequence[TensorType], constraints: tuple[str, str]
) -> None:
    count, alike = constraints
    if len(starts) != x.ndim:
        raise ShapeError(
            f"{title} ({count}): there are {len(starts)} start indices for an operand of {x.ndim} axes.",
            values=f"operand {x}",
        )
    for i, t in enumerate(starts):
        if t.shape:
            raise ShapeError(f"{title} (I2): start index {i} has shape {t.shape}, which is not ().")
        check_dtype(title, f"start index {i}", t, INTEGERS, "I2")
        if t.dtype != starts[0].dtype:
            raise DTypeError(
                f"{title} ({alike}): start index 0 is {dtypes.short(starts[0].dtype)} and start index {i} is "
                f"{dtypes.short(t.dtype)}, which must be alike."
            )


def _dynamic_slice_infer(x: TensorType, *starts: TensorType, slice_sizes: Entries) -> TensorType:
    _check_starts("dynamic_slice", x, starts, ("C2", "C3"))
    check_length("dynamic_slice", "slice_sizes", slice_sizes, x.ndim, "C2")
    for axis, (n, size) in enumerate(zip(x.shape, slice_sizes)):
        if not 0 <= size <= n:
            raise ShapeError(
                f"dynamic_slice (C4): slice size {size} of axis {axis} is not in 0 to {n}.",
                values=f"operand {x}, slice_sizes {slice_sizes}",
            )
    return TensorType(slice_sizes, x.dtype)


def window(shape: Sequence[int], starts: Sequence[Any], sizes: Sequence[int]) -> tuple[builtins.slice, ...]:
    """The window with its start clamped, in Python ints, which do not wrap."""
    first = [max(min(int(s), n - size), 0) for s, n, size in zip(starts, shape, sizes)]
    return tuple(builtins.slice(s, s + size) for s, size in zip(first, sizes))


def _dynamic_slice_numpy(x: Array, *starts: Array, slice_sizes: Entries) -> Array:
    return np.asarray(x[window(x.shape, starts, slice_sizes)])


def _dynamic_slice_jvp(*args: Any, slice_sizes: Entries) -> Any:
    half = len(args) // 2
    return dynamic_slice(args[0], *args[half + 1 :], slice_sizes=slice_sizes)


def _dynamic_slice_transpose(ct: Any, x: Undefined, *starts: Any, slice_sizes: Entries) -> list[Any]:
    zeros = full(x.type.shape, x.type.dtype, 0)
    return [dynamic_update_slice(zeros, ct, *starts), *[None] * len(starts)]


def _zero_start(starts: Sequence[Any]) -> Any:
    return np.zeros((), core.typeof(starts[0]).dtype if starts else I32)[()]


def _dynamic_slice_batch(size: int, args: Any, axes: Any, *, slice_sizes: Entries) -> Any:
    x = to_front(size, args[0], axes[0])
    if all(a is None for a in axes[1:]):
        starts = (_zero_start(args[1:]), *args[1:])
        return dynamic_slice(x, *starts, slice_sizes=(size, *slice_sizes)), 0
    starts = tuple(to_front(size, s, a) for s, a in zip(args[1:], axes[1:]))
    from braze.ops import mapped

    return mapped.mapped_dynamic_slice(x, *starts, slice_sizes=slice_sizes), 0


def _start(b: Any, operand: Any, n: int, size: int) -> Any:
    """A start index in i64, clamped so that a window of a size lies inside an axis of n."""
    start = operand.at(())
    if start.dtype == U64:
        start = b.min(start, n)  # before it becomes signed
    start = b.cast(start, I64)
    return b.max(b.min(start, n - size), 0)


def _dynamic_slice_kernel(b: Any, index: Any, x: Any, *starts: Any, slice_sizes: Entries) -> Any:
    return x.at(
        tuple(
            b.add(_start(b, s, n, size), b.lift(i, I64))
            for i, s, n, size in zip(index, starts, x.type.shape, slice_sizes)
        )
    )


def window_cases() -> list[tuple[Entries, Entries]]:
    """Shapes and window sizes worth testing."""
    return [
        ((), ()),
        ((5,), (2,)),
        ((5,), (5,)),
        ((5,), (0,)),
        ((3, 4), (2, 1)),
        ((0, 3), (0, 2)),
        ((1031,), (77,)),
    ]


def _dynamic_slice_samples() -> list[Sample]:
    return [
        ((TensorType(x, d), *[TensorType((), i)] * len(x)), {"slice_sizes": sizes})
        for d in SAMPLED
        for i in (I32, I64)
        for x, sizes in window_cases()
    ]


dynamic_slice: Op = Op(
    "dynamic_slice", hlo="dynamic_slice",
    infer=_dynamic_slice_infer, numpy=_dynamic_slice_numpy, error=EXACT,
    jvp=_dynamic_slice_jvp, transpose=_dynamic_slice_transpose, batch=_dynamic_slice_batch,
    kernel=IndexMap(_dynamic_slice_kernel), cost=elementwise_cost("dynamic_slice", 0),
    samples=_dynamic_slice_samples, attrs=("slice_sizes",), jax_attrs=dict,
)  # fmt: skip


# --- dynamic_update_slice -----------------------------------------------------------------------------
def _dynamic_update_slice_infer(x: TensorType, update: TensorType, *starts: TensorType) -> TensorType:
    title = "dynamic_update_slice"
    if update.dtype != x.dtype:
        raise DTypeError(
            f"{title} (C2): operand is {dtypes.short(x.dtype)} and update is {dtypes.short(update.dtype)}, "
            "which must be alike.",
            values=listing(operand=x, update=update),
        )
    if update.ndim != x.ndim:
        raise ShapeError(
            f"{title} (C3): operand has {x.ndim} axes and update has {update.ndim}.",
            values=listing(operand=x, update=update),
        )
    _check_starts(title, x, starts, ("C4", "C5"))
    for axis, (n, size) in enumerate(zip(x.shape, update.shape)):
        if size > n:
            raise ShapeError(
                f"{title} (C6): update has size {size} on axis {axis}, where operand has {n}.",
                values=listing(operand=x, update=update),
            )
    return x


def _dynamic_update_slice_numpy(x: Array, update: Array, *starts: Array) -> Array:
    out = x.copy()
    out[window(x.shape, starts, update.shape)] = update
    return out


def _dynamic_update_slice_jvp(*args: Any) -> Any:
    half = len(args) // 2
    return dynamic_update_slice(args[0], args[1], *args[half + 2 :])


def _dynamic_update_slice_transpose(ct: Any, x: Any, update: Any, *starts: Any) -> list[Any]:
    t = update.type if isinstance(update, Undefined) else core.typeof(update)
    ct_x = ct_update = None
    if isinstance(x, Undefined):
        ct_x = dynamic_update_slice(ct, full(t.shape, t.dtype, 0), *starts)
    if isinstance(update, Undefined):
        ct_update = dynamic_slice(ct, *starts, slice_sizes=t.shape)
    return [ct_x, ct_update, *[None] * len(starts)]


def _dynamic_update_slice_batch(size: int, args: Any, axes: Any) -> Any:
    x, update = (to_front(size, v, a) for v, a in zip(args[:2], axes[:2]))
    if all(a is None for a in axes[2:]):
        return dynamic_update_slice(x, update, _zero_start(args[2:]), *args[2:]), 0
    starts = tuple(to_front(size, s, a) for s, a in zip(args[2:], axes[2:]))
    from braze.ops import mapped

    return mapped.mapped_dynamic_update_slice(x, update, *starts), 0


def _dynamic_update_slice_kernel(b: Any, index: Any, x: Any, update: Any, *starts: Any) -> Any:
    old = x.at(tuple(index))
    if update.type.size == 0:
        return old
    inside: Any = None
    source = []
    for i, s, n, size in zip(index, starts, x.type.shape, update.type.shape):
        if size == n:  # the window is the axis
            source.append(i)
            continue
        offset = b.sub(b.lift(i, I64), _start(b, s, n, size))
        here = b.and_(b.ge(offset, 0), b.lt(offset, size))
        inside = here if inside is None else b.and_(inside, here)
        source.append(_clamped(b, offset, size))
    new = update.at(tuple(source))
    return new if inside is None else b.select(inside, new, old)


def _dynamic_update_slice_place(b: Any, index: Any, x: Any, update: Any, *starts: Any) -> list[Any]:
    return [
        b.add(_start(b, s, n, size), b.lift(i, I64))
        for i, s, n, size in zip(index, starts, x.type.shape, update.type.shape)
    ]


def _dynamic_update_slice_samples() -> list[Sample]:
    return [
        ((TensorType(x, d), TensorType(sizes, d), *[TensorType((), i)] * len(x)), {})
        for d in SAMPLED
        for i in (I32, I64)
        for x, sizes in window_cases()
    ]


dynamic_update_slice: Op = Op(
    "dynamic_update_slice", hlo="dynamic_update_slice",
    infer=_dynamic_update_slice_infer, numpy=_dynamic_update_slice_numpy, error=EXACT,
    jvp=_dynamic_update_slice_jvp, transpose=_dynamic_update_slice_transpose,
    batch=_dynamic_update_slice_batch,
    kernel=Update(
        _dynamic_update_slice_kernel, place=_dynamic_update_slice_place, reader=dynamic_slice
    ),
    cost=elementwise_cost("dynamic_update_slice", 0),
    samples=_dynamic_update_slice_samples,
)  # fmt: skip


# --- rows, in HLO -------------------------------------------------------------------------------------
def row(b: Any, x: Any, i: Any) -> Any:
    """Entry i of the leading axis, without that axis."""
    shape = x.type.shape
    zeros = [b.constant(0, i.type.dtype)] * (len(shape) - 1)
    cut = b.emit(dynamic_slice, x, i, *zeros, slice_sizes=(1, *shape[1:]))
    return b.emit(reshape, cut, shape=shape[1:])


def with_row(b: Any, x: Any, new: Any, i: Any) -> Any:
    """x with entry i of the leading axis replaced."""
    zeros = [b.constant(0, i.type.dtype)] * new.type.ndim
    return b.emit(dynamic_update_slice, x, b.emit(reshape, new, shape=(1, *new.type.shape)), i, *zeros)


def zeros(b: Any, t: TensorType) -> Any:
    """Zeros of a type, in HLO."""
    return elementwise.splat(b, t, 0)
