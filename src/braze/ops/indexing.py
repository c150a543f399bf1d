"""gather and scatter: reading and updating windows of an operand at positions that are data.

Indices come as vectors along one axis of an index array, the last one in the primitives. A vector says where a
window of the operand begins; every window has the same size. What lies outside is clamped into the operand
(gather in HLO, `CLIP`), filled or dropped window by window (`FILL_OR_DROP`), or dropped element by element
(scatter in HLO).

Updates are applied in the order of their index vectors, and within one window no element comes twice. So results
do not depend on who computes them, also where indices repeat: of several `scatter` to one place the last wins.

Sources: StableHLO gather and scatter; JAX for the modes of the primitives.
"""

from __future__ import annotations

import enum
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from braze import core, dtypes
from braze.dtypes import BOOL, FLOATS, I32, I64, INTEGERS, NUMBERS, U64, DType
from braze.errors import DifferentiationError, DTypeError, ShapeError
from braze.ops import elementwise, reduce, shape
from braze.ops.facets import (
    HLO_ONLY,
    LOWERED,
    NOT_LINEAR,
    SAMPLED,
    Array,
    check_axes,
    check_dtype,
    full,
    listing,
    moved,
    only_linear,
    size_of,
)
from braze.ops.table import EXACT, PRIMITIVES, ZERO, Cost, Family, IndexMap, Op, Sample, Undefined
from braze.types import TensorType

Axes = tuple[int, ...]


class GatherDimensionNumbers(NamedTuple):
    """Which axes of a gather are what; the index vector lies along the last axis of the indices.

    Attributes:
        offset_dims: axes of the result that run inside a window, ascending.
        collapsed_slice_dims: axes of the operand in which windows have size 1 and that the result lacks.
        start_index_map: per entry of an index vector, the axis of the operand that it indexes.
        operand_batching_dims: axes of the operand that run along with axes of the indices; collapsed too.
        start_indices_batching_dims: the axes of the indices that they run along with.
    """

    offset_dims: Axes
    collapsed_slice_dims: Axes
    start_index_map: Axes
    operand_batching_dims: Axes = ()
    start_indices_batching_dims: Axes = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axes of a scatter are what; the mirror image of `GatherDimensionNumbers`.

    Attributes:
        update_window_dims: axes of the updates that run inside a window, ascending.
        inserted_window_dims: axes of the operand in which windows have size 1 and that the updates lack.
        scatter_dims_to_operand_dims: per entry of an index vector, the axis of the operand that it indexes.
        operand_batching_dims: axes of the operand that run along with axes of the indices.
        scatter_indices_batching_dims: the axes of the indices that they run along with.
    """

    update_window_dims: Axes
    inserted_window_dims: Axes
    scatter_dims_to_operand_dims: Axes
    operand_batching_dims: Axes = ()
    scatter_indices_batching_dims: Axes = ()


class GatherScatterMode(enum.Enum):
    """What happens to indices out of bounds.

    CLIP: windows are moved into the operand.
    FILL_OR_DROP: a window that is not inside as a whole is filled (gather) or dropped (scatter).
    PROMISE_IN_BOUNDS: the caller knows that all are inside. As in JAX, a gather clips and a scatter drops.
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()

    @staticmethod
    def from_any(mode: Any) -> GatherScatterMode:
        """The mode of a name: "clip", "fill" or "drop" (also None), "promise_in_bounds"."""
        if isinstance(mode, GatherScatterMode):
            return mode
        found = _MODES.get(mode) if mode is None or isinstance(mode, str) else None
        if found is None:
            raise ShapeError(f'mode: {mode!r} is none of "clip", "fill", "drop" and "promise_in_bounds".')
        return found


_MODES: dict[str | None, GatherScatterMode] = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
}
CLIP, FILL, PROMISE = (
    GatherScatterMode.CLIP,
    GatherScatterMode.FILL_OR_DROP,
    GatherScatterMode.PROMISE_IN_BOUNDS,
)


# --- windows ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Windows:
    """How gather's result, or scatter's updates, lies over the operand.

    Attributes:
        sizes: the window's size in each axis of the operand.
        window_axes: axes of the result that run inside a window.
        batch_axes: the other axes of the result: one window per index of them.
        window_dims: per window axis, the axis of the operand that it runs along.
        start_dims: per entry of an index vector, the axis of the operand that it indexes.
        paired: axes of the operand that run along with a batch axis, and that axis's position in `batch_axes`.
        vector_dim: the axis of the indices along which vectors lie; its rank where indices are scalars.
    """

    sizes: Axes
    window_axes: Axes
    batch_axes: Axes
    window_dims: Axes
    start_dims: Axes
    paired: tuple[tuple[int, int], ...]
    vector_dim: int

    def vector(self, batch: Sequence[Any], entry: int, rank: int) -> tuple[Any, ...]:
        """The index, in the array of indices, of one entry of the vector of a batch index."""
        at = list(batch)
        if self.vector_dim < rank:
            at.insert(self.vector_dim, entry)
        return tuple(at)


def _windows(
    sizes: Axes, rank: int, window_axes: Axes, removed: Axes, batching: tuple[Axes, Axes], start_dims: Axes,
    vector_dim: int,
) -> Windows:  # fmt: skip
    return Windows(
        sizes,
        window_axes,
        tuple(i for i in range(rank) if i not in window_axes),
        tuple(d for d in range(len(sizes)) if d not in removed and d not in batching[0]),
        start_dims,
        tuple((d, k - (k > vector_dim)) for d, k in zip(*batching)),
        vector_dim,
    )


def _gather_windows(
    indices_rank: int, *, offset_dims: Axes, collapsed_slice_dims: Axes, operand_batching_dims: Axes,
    start_indices_batching_dims: Axes, start_index_map: Axes, index_vector_dim: int, slice_sizes: Axes, **_: Any,
) -> Windows:  # fmt: skip
    rank = len(offset_dims) + indices_rank - (index_vector_dim < indices_rank)
    batching = operand_batching_dims, start_indices_batching_dims
    return _windows(
        slice_sizes, rank, offset_dims, collapsed_slice_dims, batching, start_index_map, index_vector_dim
    )


def scatter_windows(
    operand: TensorType, updates: TensorType, *, update_window_dims: Axes, inserted_window_dims: Axes,
    input_batching_dims: Axes, scatter_indices_batching_dims: Axes, scatter_dims_to_operand_dims: Axes,
    index_vector_dim: int, **_: Any,
) -> Windows:  # fmt: skip
    """How the updates of an HLO scatter lie over its operand."""
    along = iter(update_window_dims)
    removed = {*inserted_window_dims, *input_batching_dims}
    sizes = tuple(1 if d in removed else updates.shape[next(along)] for d in range(operand.ndim))
    batching = input_batching_dims, scatter_indices_batching_dims
    return _windows(
        sizes, updates.ndim, update_window_dims, inserted_window_dims, batching,
        scatter_dims_to_operand_dims, index_vector_dim,
    )  # fmt: skip


def _starts(w: Windows, indices: Array) -> list[Array]:
    """Per entry of the index vectors, an i64 array over the batch axes; what does not fit is at the limit."""
    if indices.dtype == U64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
    wide = indices.astype(np.int64)
    if w.vector_dim == indices.ndim:
        return [wide]
    return list(np.moveaxis(wide, w.vector_dim, 0))


def _positions(w: Windows, result: Sequence[int], starts: Sequence[Array]) -> list[Array]:
    """Per axis of the operand, the index that each element of the result comes from; they broadcast."""
    rank = len(result)

    def along(axis: int) -> Array:
        return np.arange(result[axis]).reshape([-1 if i == axis else 1 for i in range(rank)])

    positions: list[Array] = [np.zeros((1,) * rank, np.int64) for _ in w.sizes]
    for axis, d in zip(w.window_axes, w.window_dims):
        positions[d] = along(axis)
    for d, k in w.paired:
        positions[d] = along(w.batch_axes[k])
    for start, d in zip(starts, w.start_dims):
        positions[d] = positions[d] + np.expand_dims(start, w.window_axes)
    return positions


def _clamped(w: Windows, operand: Sequence[int], starts: Sequence[Array]) -> list[Array]:
    return [np.clip(s, 0, operand[d] - w.sizes[d]) for s, d in zip(starts, w.start_dims)]


def _inside(w: Windows, operand: Sequence[int], starts: Sequence[Array]) -> Array | None:
    """Per batch index, whether its window lies inside the operand; None without starts."""
    found = [(s >= 0) & (s <= operand[d] - w.sizes[d]) for s, d in zip(starts, w.start_dims)]
    return functools.reduce(np.logical_and, found) if found else None


def start_lane(b: Any, start: Any, room: int) -> Any:
    """A start index as i64, clamped to 0 … room."""
    if start.dtype == U64:
        start = b.min(start, room)  # before it becomes signed
    elif start.dtype == I32 and room <= np.iinfo(np.int32).max:
        return b.cast(b.max(b.min(start, room), 0), I64)  # narrow lanes: half the work
    return b.max(b.min(b.cast(start, I64), room), 0)


# --- HLO's gather -------------------------------------------------------------------------------------
def _check_ascending(title: str, name: str, axes: Sequence[int], constraint: str) -> None:
    if list(axes) != sorted(axes):
        raise ShapeError(f"{title} ({constraint}): {name} {tuple(axes)} are not in ascending order.")


def _check_vectors(
    title: str, indices: TensorType, vector_dim: int, entries: tuple[str, Axes], constraints: tuple[str, str]
) -> None:
    name, axes = entries
    in_range, count = constraints
    check_dtype(title, "indices", indices, INTEGERS, "I2")
    if not 0 <= vector_dim <= indices.ndim:
        raise ShapeError(
            f"{title} ({in_range}): index_vector_dim {vector_dim} is not in 0 to {indices.ndim}.",
            values=f"indices {indices}",
        )
    size = indices.shape[vector_dim] if vector_dim < indices.ndim else 1
    if len(axes) != size:
        raise ShapeError(
            f"{title} ({count}): {name} has {len(axes)} entries and index vectors have {size}, "
            "which must be as many.",
            values=f"indices {indices}, index_vector_dim {vector_dim}",
        )


def _check_batching(
    title: str,
    operand: TensorType,
    indices: TensorType,
    vector_dim: int,
    batching: tuple[tuple[str, Axes], tuple[str, Axes]],
    constraints: tuple[str, str, str, str, str, str, str],
) -> None:
    """Constraints on axes of the operand that run along with axes of the indices, in the spec's order."""
    (name, dims), (other, axes) = batching
    ascending, in_operand, unique, in_indices, no_vector, count, alike = constraints
    _check_ascending(title, name, dims, ascending)
    check_axes(title, name, dims, operand.ndim, in_operand, unique)
    check_axes(title, other, axes, indices.ndim, in_indices, unique)
    if vector_dim in axes:
        raise ShapeError(f"{title} ({no_vector}): {other} {axes} has the axis {vector_dim} of index vectors.")
    if len(dims) != len(axes):
        raise ShapeError(
            f"{title} ({count}): {name} has {len(dims)} axes and {other} has {len(axes)}, "
            "which must be as many."
        )
    for d, k in zip(dims, axes):
        if operand.shape[d] != indices.shape[k]:
            raise ShapeError(
                f"{title} ({alike}): axis {d} of operand has size {operand.shape[d]} and axis {k} of indices "
                f"has size {indices.shape[k]}, which must be alike.",
                values=listing(operand=operand, indices=indices),
            )


def _check_disjoint(title: str, x: tuple[str, Axes], y: tuple[str, Axes], constraint: str) -> None:
    both = sorted(set(x[1]) & set(y[1]))
    if both:
        raise ShapeError(f"{title} ({constraint}): axis {both[0]} is among {x[0]} and among {y[0]}.")


def _gather_hlo_infer(
    operand: TensorType, indices: TensorType, *, offset_dims: Axes, collapsed_slice_dims: Axes,
    operand_batching_dims: Axes, start_indices_batching_dims: Axes, start_index_map: Axes, index_vector_dim: int,
    slice_sizes: Axes, indices_are_sorted: bool = False,
) -> TensorType:  # fmt: skip
    title = "gather"
    collapsed = "collapsed_slice_dims", collapsed_slice_dims
    batching = "operand_batching_dims", operand_batching_dims
    if operand.ndim != len(offset_dims) + len(collapsed_slice_dims) + len(operand_batching_dims):
        raise ShapeError(
            f"{title} (C1): operand has {operand.ndim} axes, and there are {len(offset_dims)} offset_dims, "
            f"{len(collapsed_slice_dims)} collapsed_slice_dims and {len(operand_batching_dims)} "
            "operand_batching_dims.",
            values=listing(operand=operand, indices=indices),
        )
    vectors = "start_index_map", start_index_map
    _check_vectors(title, indices, index_vector_dim, vectors, ("C2", "C3"))
    _check_ascending(title, "offset_dims", offset_dims, "C4")
    rank = len(offset_dims) + indices.ndim - (index_vector_dim < indices.ndim)
    check_axes(title, "offset_dims", offset_dims, rank, "C5", "C4")
    _check_disjoint(title, collapsed, batching, "C6")
    _check_ascending(title, *collapsed, "C7")
    check_axes(title, *collapsed, operand.ndim, "C8", "C6")
    both = batching, ("start_indices_batching_dims", start_indices_batching_dims)
    numbers = ("C10", "C11", "C13", "C14", "C15", "C16", "C17")
    _check_batching(title, operand, indices, index_vector_dim, both, numbers)
    _check_disjoint(title, vectors, batching, "C18")
    check_axes(title, *vectors, operand.ndim, "C19", "C18")
    if len(slice_sizes) != operand.ndim:
        raise ShapeError(
            f"{title} (C20): slice_sizes has {len(slice_sizes)} entries for an operand of {operand.ndim} axes."
        )
    for d, (size, n) in enumerate(zip(slice_sizes, operand.shape)):
        if not 0 <= size <= n:
            raise ShapeError(
                f"{title} (C21): slice size {size} of axis {d} is not in 0 to {n}.",
                values=f"operand {operand}, slice_sizes {tuple(slice_sizes)}",
            )
        for (name, dims), constraint in ((collapsed, "C9"), (batching, "C12")):
            if d in dims and size > 1:
                raise ShapeError(
                    f"{title} ({constraint}): slice size {size} of axis {d}, which is among {name}, is above 1."
                )
    kept = [s for d, s in enumerate(slice_sizes) if d not in (*collapsed_slice_dims, *operand_batching_dims)]
    batch = [n for d, n in enumerate(indices.shape) if d != index_vector_dim]
    sizes = iter(batch), iter(kept)
    return TensorType([next(sizes[axis in offset_dims]) for axis in range(rank)], operand.dtype)


def _gather_hlo_numpy(operand: Array, indices: Array, **attrs: Any) -> Array:
    w = _gather_windows(indices.ndim, **attrs)
    return _read(w, operand, indices, _clamped(w, operand.shape, _starts(w, indices)))


def _read(w: Windows, operand: Array, indices: Array, starts: Sequence[Array]) -> Array:
    batch = [n for d, n in enumerate(indices.shape) if d != w.vector_dim]
    sizes = iter(batch), iter([w.sizes[d] for d in w.window_dims])
    rank = len(w.window_axes) + len(w.batch_axes)
    result = [next(sizes[axis in w.window_axes]) for axis in range(rank)]
    if 0 in result:
        return np.zeros(result, operand.dtype)
    found = operand[tuple(_positions(w, result, starts))]
    return np.array(np.broadcast_to(found, result))


def _gather_hlo_kernel(b: Any, index: Any, operand: Any, indices: Any, **attrs: Any) -> Any:
    w = _gather_windows(indices.type.ndim, **attrs)
    place: list[Any] = [0] * operand.type.ndim
    batch = [index[axis] for axis in w.batch_axes]
    for axis, d in zip(w.window_axes, w.window_dims):
        place[d] = index[axis]
    for d, k in w.paired:
        place[d] = batch[k]
    for entry, d in enumerate(w.start_dims):
        room = operand.type.shape[d] - w.sizes[d]
        if room > 0:
            start = start_lane(b, indices.at(w.vector(batch, entry, indices.type.ndim)), room)
            place[d] = b.add(start, b.lift(place[d], I64))
    return operand.at(tuple(place))


def _gather_hlo_cost(operand: TensorType, indices: TensorType, **attrs: Any) -> Cost:
    result = _gather_hlo_infer(operand, indices, **attrs)
    return Cost(bytes=2 * result.nbytes + indices.nbytes)


def _gather_hlo_samples() -> Iterator[Sample]:
    for (operand, indices), attrs in gather_samples():
        numbers: GatherDimensionNumbers = attrs["dimension_numbers"]
        yield (
            (operand, indices),
            {
                **numbers._asdict(),
                "index_vector_dim": indices.ndim - 1,
                "slice_sizes": attrs["slice_sizes"],
                "indices_are_sorted": False,
            },
        )
    scalars: dict[str, Any] = {"offset_dims": (1,), "collapsed_slice_dims": (0,), "operand_batching_dims": (),
               "start_indices_batching_dims": (), "start_index_map": (0,), "slice_sizes": (1, 3),
               "indices_are_sorted": False}  # fmt: skip
    operand = TensorType((30, 3), dtypes.F32)
    yield (operand, TensorType((5,), I32)), {**scalars, "index_vector_dim": 1}
    yield (operand, TensorType((1, 5), I32)), {**scalars, "index_vector_dim": 0}


gather_hlo: Op = Op(
    None, hlo="gather",
    infer=_gather_hlo_infer, numpy=_gather_hlo_numpy, error=EXACT,
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    kernel=IndexMap(_gather_hlo_kernel), cost=_gather_hlo_cost, samples=_gather_hlo_samples,
    attrs=("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
           "start_index_map", "index_vector_dim", "slice_sizes", "indices_are_sorted"),
)  # fmt: skip


# --- gather -------------------------------------------------------------------------------------------
def _hlo_gather_attrs(indices: TensorType, attrs: dict[str, Any]) -> dict[str, Any]:
    if not indices.ndim:
        raise ShapeError(
            "gather (C2): indices have no axis; index vectors lie along their last one.",
            hint="add an axis of size 1 at the end.",
        )
    numbers: GatherDimensionNumbers = attrs["dimension_numbers"]
    return {
        **numbers._asdict(),
        "index_vector_dim": indices.ndim - 1,
        "slice_sizes": attrs["slice_sizes"],
        "indices_are_sorted": attrs["indices_are_sorted"],
    }


def _gather_infer(operand: TensorType, indices: TensorType, **attrs: Any) -> TensorType:
    return _gather_hlo_infer(operand, indices, **_hlo_gather_attrs(indices, attrs))


def _gather_numpy(operand: Array, indices: Array, **attrs: Any) -> Array:
    hlo = _hlo_gather_attrs(TensorType(indices.shape, indices.dtype), attrs)
    w = _gather_windows(indices.ndim, **hlo)
    starts = _starts(w, indices)
    found = _read(w, operand, indices, _clamped(w, operand.shape, starts))
    inside = _inside(w, operand.shape, starts) if attrs["mode"] is FILL else None
    if inside is None:
        return found
    filler = np.asarray(attrs["fill_value"]).astype(operand.dtype)
    return np.where(np.expand_dims(inside, w.window_axes), found, filler)


def _gather_jvp(*args: Any, **attrs: Any) -> Any:
    t, _, _, indices = args
    return gather(t, indices, **attrs | {"fill_value": 0 if attrs["mode"] is FILL else None})


def _gather_transpose(ct: Any, x: Undefined, indices: Any, **attrs: Any) -> list[Any]:
    zeros = full(x.type.shape, x.type.dtype, 0)
    numbers = ScatterDimensionNumbers(*attrs["dimension_numbers"])
    kept = {name: attrs[name] for name in ("indices_are_sorted", "unique_indices")}
    # A gather that promises clips all the same; so does what adds the cotangents up.
    mode = FILL if attrs["mode"] is FILL else CLIP
    return [scatter_add(zeros, indices, ct, dimension_numbers=numbers, mode=mode, **kept), None]


def _moved(axes: Axes) -> Axes:
    return tuple(a + 1 for a in axes)


def _gather_batch(size: int, args: Any, axes: Any, **attrs: Any) -> Any:
    numbers: GatherDimensionNumbers = attrs["dimension_numbers"]
    operand, indices = (x if a is None else shape.move_axis(x, a, 0) for x, a in zip(args, axes))
    on_operand, on_indices = (a is not None for a in axes)
    changes: dict[str, Any] = {}
    offset, collapsed, starts, dims, others = numbers
    offset = _moved(offset)
    if on_operand:
        collapsed, starts, dims = _moved(collapsed), _moved(starts), _moved(dims)
    if on_indices:
        others = _moved(others)
    if on_operand and on_indices:
        dims, others = (0, *dims), (0, *others)
        changes["slice_sizes"] = (min(size, 1), *attrs["slice_sizes"])
    elif on_operand:
        offset = (0, *offset)
        changes["slice_sizes"] = (size, *attrs["slice_sizes"])
    else:
        changes["unique_indices"] = changes["indices_are_sorted"] = False
    changes["dimension_numbers"] = GatherDimensionNumbers(offset, collapsed, starts, dims, others)
    return gather(operand, indices, **attrs | changes), 0


def _limits(b: Any, indices: Any, limits: Sequence[int]) -> Any:
    """A number per entry of the index vectors, in every vector."""
    highest = np.iinfo(indices.type.dtype).max
    row = b.constant(np.asarray([min(n, int(highest)) for n in limits]), indices.type.dtype)
    last = (indices.type.ndim - 1,)
    return b.emit(shape.broadcast_in_dim, row, shape=indices.type.shape, broadcast_dimensions=last)


def _are_inside(b: Any, indices: Any, operand: TensorType, sizes: Axes, dims: Axes) -> Any:
    """Per entry of the index vectors, whether the window begins inside and ends inside."""
    kind = elementwise.compare_type_of(indices.type.dtype)
    above = _compare(b, "LE", indices, _limits(b, indices, [operand.shape[d] - sizes[d] for d in dims]), kind)
    if indices.type.dtype not in dtypes.SIGNED:
        return above
    below = _compare(b, "GE", indices, elementwise.splat(b, indices.type, 0), kind)
    return b.emit(elementwise.and_, below, above)


def _compare(b: Any, direction: str, x: Any, y: Any, kind: str) -> Any:
    return b.emit(elementwise.compare_hlo, x, y, comparison_direction=direction, compare_type=kind)


def _all_of_last(b: Any, x: Any) -> Any:
    """Whether all entries along the last axis are true; few, so that they are taken one by one."""
    *outer, count = x.type.shape
    total = None
    for k in range(count):
        starts, limits = (*[0] * len(outer), k), (*outer, k + 1)
        column = b.emit(
            shape.slice, x, start_indices=starts, limit_indices=limits, strides=(1,) * len(limits)
        )
        column = b.emit(shape.reshape, column, shape=tuple(outer))
        total = column if total is None else b.emit(elementwise.and_, total, column)
    return total


def _gather_lower(b: Any, operand: Any, indices: Any, **attrs: Any) -> Any:
    hlo = _hlo_gather_attrs(indices.type, attrs)
    found = b.emit(gather_hlo, operand, indices, **hlo)
    if attrs["mode"] is not FILL or not indices.type.shape[-1]:
        return found
    w = _gather_windows(indices.type.ndim, **hlo)
    inside = _all_of_last(b, _are_inside(b, indices, operand.type, w.sizes, w.start_dims))
    mask = b.emit(shape.broadcast_in_dim, inside, shape=found.type.shape, broadcast_dimensions=w.batch_axes)
    filler = elementwise.splat(b, found.type, np.asarray(attrs["fill_value"]).astype(found.type.dtype))
    return b.emit(elementwise.select_hlo, mask, found, filler)


def _gather_cost(operand: TensorType, indices: TensorType, **attrs: Any) -> Cost:
    return _gather_hlo_cost(operand, indices, **_hlo_gather_attrs(indices, attrs))


_GATHERS: tuple[tuple[Axes, Axes, GatherDimensionNumbers, Axes], ...] = (
    ((5,), (4, 1), GatherDimensionNumbers((), (0,), (0,)), (1,)),
    ((5, 3), (1,), GatherDimensionNumbers((0,), (0,), (0,)), (1, 3)),
    ((5, 3), (2, 2, 2), GatherDimensionNumbers((), (0, 1), (1, 0)), (1, 1)),
    ((6, 40), (3, 1), GatherDimensionNumbers((1,), (0,), (0,)), (1, 40)),
    ((4, 7), (3, 1), GatherDimensionNumbers((0,), (1,), (1,)), (4, 1)),
    ((9, 4), (3, 2), GatherDimensionNumbers((0, 2), (), (0, 1)), (3, 2)),
    ((2, 5, 3), (4, 2, 1), GatherDimensionNumbers((2,), (1,), (1,), (0,), (1,)), (1, 1, 3)),
    ((3, 4), (2, 0), GatherDimensionNumbers((0, 1), (), ()), (3, 4)),
    ((5, 0), (3, 1), GatherDimensionNumbers((1,), (0,), (0,)), (1, 0)),
    ((5,), (0, 1), GatherDimensionNumbers((), (0,), (0,)), (1,)),
    ((77,), (1031, 1), GatherDimensionNumbers((), (0,), (0,)), (1,)),
)
"""Shapes of operands and indices, dimension numbers and window sizes worth testing."""


def gather_samples() -> list[Sample]:
    """Every case in every sampled dtype, the modes and index dtypes taking turns."""
    modes = (PROMISE, CLIP, FILL)

    def fill(dtype: DType) -> Any:
        return 0 if dtype == dtypes.F64 else default_fill(dtype)  # f64 is differentiated, and linear with 0

    return [
        (
            (TensorType(operand, d), TensorType(indices, (I32, I64)[(turn + k) % 2])),
            {
                "dimension_numbers": numbers,
                "slice_sizes": sizes,
                "indices_are_sorted": False,
                "unique_indices": False,
                "mode": modes[(turn + k) % 3],
                "fill_value": fill(d) if modes[(turn + k) % 3] is FILL else None,
            },
        )
        for turn, d in enumerate(SAMPLED)
        for k, (operand, indices, numbers, sizes) in enumerate(_GATHERS)
    ]


def default_fill(dtype: DType) -> Any:
    """What a gather fills in where nothing is given: NaN, the limit of integers, True."""
    if dtypes.is_inexact(dtype):
        return np.nan
    if dtype == BOOL:
        return True
    return int(np.iinfo(dtype).min if dtype in dtypes.SIGNED else np.iinfo(dtype).max)


def _gather_jax(attrs: Any) -> dict[str, Any]:
    return {name: attrs[name] for name in gather.attrs}


gather: Op = Op(
    "gather", hlo=None,
    infer=_gather_infer, numpy=_gather_numpy, error=EXACT,
    jvp=_gather_jvp, transpose=_gather_transpose, batch=_gather_batch, lower=_gather_lower,
    kernel=LOWERED, cost=_gather_cost, samples=gather_samples,
    attrs=("dimension_numbers", "slice_sizes", "indices_are_sorted", "unique_indices", "mode", "fill_value"),
    jax_attrs=_gather_jax,
)  # fmt: skip


# --- HLO's scatter ------------------------------------------------------------------------------------
def _scatter_hlo_infer(
    *types: TensorType, update_window_dims: Axes, inserted_window_dims: Axes, input_batching_dims: Axes,
    scatter_indices_batching_dims: Axes, scatter_dims_to_operand_dims: Axes, index_vector_dim: int,
    regions: Sequence[Any], indices_are_sorted: bool = False, unique_indices: bool = False,
) -> list[TensorType]:  # fmt: skip
    title = "scatter"
    count = len(types) // 2
    if len(types) < 3 or len(types) % 2 == 0:
        raise ShapeError(
            f"{title} (C5): {len(types)} operands are not as many inputs as updates, and indices."
        )
    inputs, indices, updates = types[:count], types[count], types[count + 1 :]
    for constraint, name, group in (("C1", "input", inputs), ("C3", "updates", updates)):
        for k, t in enumerate(group):
            if t.shape != group[0].shape:
                raise ShapeError(
                    f"{title} ({constraint}): {name} 0 has shape {group[0].shape} and {name} {k} has shape "
                    f"{t.shape}, which must be alike."
                )
    operand, update = inputs[0], updates[0]
    for k, (x, u) in enumerate(zip(inputs, updates)):
        if x.dtype != u.dtype:
            raise DTypeError(
                f"{title} (C6): input {k} is {dtypes.short(x.dtype)} and its updates are "
                f"{dtypes.short(u.dtype)}, which must be alike.",
                values=listing(input=x, updates=u),
            )
    inserted = "inserted_window_dims", inserted_window_dims
    batching = "input_batching_dims", input_batching_dims
    if operand.ndim != len(update_window_dims) + len(inserted_window_dims) + len(input_batching_dims):
        raise ShapeError(
            f"{title} (C2): input has {operand.ndim} axes, and there are {len(update_window_dims)} "
            f"update_window_dims, {len(inserted_window_dims)} inserted_window_dims and "
            f"{len(input_batching_dims)} input_batching_dims.",
            values=listing(input=operand, indices=indices, updates=update),
        )
    vectors = "scatter_dims_to_operand_dims", scatter_dims_to_operand_dims
    _check_vectors(title, indices, index_vector_dim, vectors, ("C22", "C19"))
    _check_ascending(title, "update_window_dims", update_window_dims, "C7")
    check_axes(title, "update_window_dims", update_window_dims, update.ndim, "C8", "C7")
    _check_disjoint(title, inserted, batching, "C9")
    _check_ascending(title, *inserted, "C10")
    check_axes(title, *inserted, operand.ndim, "C11", "C9")
    both = batching, ("scatter_indices_batching_dims", scatter_indices_batching_dims)
    numbers = ("C12", "C13", "C14", "C15", "C16", "C17", "C18")
    _check_batching(title, operand, indices, index_vector_dim, both, numbers)
    _check_disjoint(title, vectors, batching, "C20")
    check_axes(title, *vectors, operand.ndim, "C21", "C20")
    batch = tuple(n for d, n in enumerate(indices.shape) if d != index_vector_dim)
    have = tuple(n for d, n in enumerate(update.shape) if d not in update_window_dims)
    if have != batch:
        raise ShapeError(
            f"{title} (C4): updates have shape {have} outside of their windows, where indices have {batch}.",
            values=listing(input=operand, indices=indices, updates=update),
        )
    kept = [d for d in range(operand.ndim) if d not in (*inserted_window_dims, *input_batching_dims)]
    for axis, d in zip(update_window_dims, kept):
        if update.shape[axis] > operand.shape[d]:
            raise ShapeError(
                f"{title} (C4): axis {axis} of updates has size {update.shape[axis]}, "
                f"where axis {d} of input has {operand.shape[d]}.",
                values=listing(input=operand, indices=indices, updates=update),
            )
    _check_computation(title, inputs, regions)
    return list(inputs)


def _check_computation(title: str, inputs: Sequence[TensorType], regions: Sequence[Any]) -> None:
    scalars = tuple(TensorType((), t.dtype) for t in inputs)
    if len(regions) != 1:
        raise ShapeError(f"{title} (C23): it takes one region, not {len(regions)}.")
    (region,) = regions
    if region.parameter_types != scalars * 2 or region.result_types != scalars:
        have, want = ", ".join(map(str, region.parameter_types)), ", ".join(map(str, scalars * 2))
        raise ShapeError(
            f"{title} (C23): the region takes ({have}) and gives "
            f"({', '.join(map(str, region.result_types))}), and must take ({want}) and give "
            f"({', '.join(map(str, scalars))})."
        )


Combine = Callable[..., Sequence[Array]]
"""`(*old, *updates)` to new values, elementwise."""


def _update(
    w: Windows, inputs: Sequence[Array], indices: Array, updates: Sequence[Array], combine: Combine,
    starts: Sequence[Array] | None = None,
) -> list[Array]:  # fmt: skip
    """Apply updates in the order of their windows; what lies outside is dropped element by element."""
    operand = inputs[0].shape
    positions = _positions(w, updates[0].shape, _starts(w, indices) if starts is None else starts)
    out = [np.array(x, order="C") for x in inputs]
    if not updates[0].size or not inputs[0].size:
        return out
    order = (*w.batch_axes, *w.window_axes)
    inside: Array = np.ones((1,) * len(order), bool)
    for p, n in zip(positions, operand):
        inside = inside & (p >= 0) & (p < n)
    flat = np.zeros((1,) * len(order), np.int64)
    for p, n in zip(positions, operand):
        flat = flat * n + p
    picked = np.broadcast_to(inside, updates[0].shape).transpose(order).reshape(-1)
    targets = np.broadcast_to(flat, updates[0].shape).transpose(order).reshape(-1)[picked]
    values = [u.transpose(order).reshape(-1)[picked] for u in updates]
    lines = [x.reshape(-1) for x in out]
    for chosen in _rounds(targets):
        at = targets[chosen]
        found = combine(*[x[at] for x in lines], *[u[chosen] for u in values])
        for x, new in zip(lines, found):
            x[at] = new
    return out


def _rounds(targets: Array) -> Iterator[Array]:
    """Updates as sets without repeated targets: the first of each target, then the second, and so on."""
    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(targets) else np.zeros(0, bool)
    count = np.arange(len(targets))
    turn = count - np.maximum.accumulate(np.where(first, count, 0))
    by_turn = np.argsort(turn, kind="stable")
    bounds = np.searchsorted(turn[by_turn], np.arange(turn.max(initial=-1) + 2))
    for start, stop in itertools.pairwise(bounds):
        yield order[by_turn[start:stop]]


def _scatter_hlo_numpy(
    *arrays: Array, regions: Sequence[Any], apply: Callable[..., list[Array]], **attrs: Any
) -> list[Array]:
    count = len(arrays) // 2
    inputs, indices, updates = arrays[:count], arrays[count], arrays[count + 1 :]
    types = [TensorType(x.shape, x.dtype) for x in (inputs[0], updates[0])]
    (region,) = regions

    def whole(*values: Array) -> list[Array]:
        return [np.broadcast_to(y, values[0].shape) for y in apply(region, *values)]

    def one_by_one(*values: Array) -> list[Array]:
        out = [np.empty_like(x) for x in values[:count]]
        for i in range(len(values[0])):
            for y, new in zip(out, apply(region, *[np.asarray(x[i]) for x in values])):
                y[i] = new
        return out

    combine = whole if reduce.is_lanewise(region) else one_by_one
    with np.errstate(all="ignore"):
        return _update(scatter_windows(*types, **attrs), inputs, indices, updates, combine)


def _scatter_hlo_cost(*types: TensorType, regions: Sequence[Any] = (), **attrs: Any) -> Cost:
    count = len(types) // 2
    work = sum(len(r.instructions) for r in regions)
    updates = types[count + 1 :]
    return Cost(work * updates[0].size, 0, moved(types[count]) + 3 * moved(*updates))


def _no_samples() -> list[Sample]:
    """None: regions are HLO, which is above this layer; the primitives' samples lower to it."""
    return []


scatter_hlo: Op = Op(
    None, hlo="scatter",
    infer=_scatter_hlo_infer, numpy=_scatter_hlo_numpy, error=EXACT,
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    kernel=Family("scatter", lambda count: tuple((k, k) for k in range(count))), cost=_scatter_hlo_cost,
    samples=_no_samples, multiple_results=True,
    attrs=("update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
           "scatter_dims_to_operand_dims", "index_vector_dim", "indices_are_sorted", "unique_indices"),
)  # fmt: skip


# --- scatter, scatter-add, scatter-mul, scatter-min, scatter-max ----------------------------------------
def _hlo_scatter_attrs(
    title: str, indices: TensorType, numbers: ScatterDimensionNumbers, sorted_: bool, unique: bool
) -> dict[str, Any]:
    if not indices.ndim:
        raise ShapeError(
            f"{title} (C22): indices have no axis; index vectors lie along their last one.",
            hint="add an axis of size 1 at the end.",
        )
    return {
        "update_window_dims": numbers.update_window_dims,
        "inserted_window_dims": numbers.inserted_window_dims,
        "input_batching_dims": numbers.operand_batching_dims,
        "scatter_indices_batching_dims": numbers.scatter_indices_batching_dims,
        "scatter_dims_to_operand_dims": numbers.scatter_dims_to_operand_dims,
        "index_vector_dim": indices.ndim - 1,
        "indices_are_sorted": sorted_,
        "unique_indices": unique,
    }


class _Region(NamedTuple):
    """What stands for the region where only types are compared."""

    parameter_types: tuple[TensorType, ...]
    result_types: tuple[TensorType, ...]


def gathered(x: Any, indices: Any, updates: Any, numbers: ScatterDimensionNumbers, mode: Any) -> Any:
    """The windows of x that a scatter with these updates writes, in the shape of the updates; 0 outside."""
    along = iter(numbers.update_window_dims)
    sizes = core.typeof(updates).shape if not isinstance(updates, Undefined) else updates.type.shape
    removed = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    return gather(
        x,
        indices,
        dimension_numbers=GatherDimensionNumbers(*numbers),
        slice_sizes=tuple(1 if d in removed else sizes[next(along)] for d in range(core.typeof(x).ndim)),
        indices_are_sorted=False,
        unique_indices=False,
        mode=CLIP if mode is CLIP else FILL,
        fill_value=None if mode is CLIP else 0,
    )


def _winners(operand: TensorType, indices: Any, updates: TensorType, attrs: dict[str, Any]) -> Any:
    """Which elements of the updates a `scatter` leaves in the operand; the others are overwritten later."""
    numbers: ScatterDimensionNumbers = attrs["dimension_numbers"]
    outer = [n for axis, n in enumerate(updates.shape) if axis not in numbers.update_window_dims]
    dims = tuple(axis for axis in range(updates.ndim) if axis not in numbers.update_window_dims)
    count = size_of(outer)
    dtype = I32 if count < np.iinfo(np.int32).max else I64
    line = shape.iota(iota_dimension=0, shape=(count,), dtype=dtype)
    ids = shape.broadcast_in_dim(
        shape.reshape(line, shape=tuple(outer)), shape=updates.shape, broadcast_dimensions=dims
    )
    left = scatter(full(operand.shape, dtype, -1), indices, ids, **attrs)
    return elementwise.eq(ids, gathered(left, indices, ids, numbers, attrs["mode"]))


def _scatter_transpose(ct: Any, x: Any, indices: Any, updates: Any, **attrs: Any) -> list[Any]:
    """Places that were written pass nothing to the operand; an update that stayed takes its place's."""
    ct_x = ct_updates = None
    t = updates.type if isinstance(updates, Undefined) else core.typeof(updates)
    if isinstance(x, Undefined):
        ct_x = scatter(ct, indices, full(t.shape, t.dtype, 0), **attrs)
    if isinstance(updates, Undefined):
        numbers, mode = attrs["dimension_numbers"], attrs["mode"]
        ct_updates = gathered(ct, indices, updates, numbers, mode)
        if not attrs["unique_indices"]:
            kept = _winners(core.typeof(ct), indices, t, attrs)
            ct_updates = elementwise.select_n(kept, full(t.shape, t.dtype, 0), ct_updates)
    return [ct_x, None, ct_updates]


def _scatter_add_transpose(ct: Any, x: Any, indices: Any, updates: Any, **attrs: Any) -> list[Any]:
    ct_updates = None
    if isinstance(updates, Undefined):
        ct_updates = gathered(ct, indices, updates, attrs["dimension_numbers"], attrs["mode"])
    return [ct if isinstance(x, Undefined) else None, None, ct_updates]


def _linear_scatter_jvp(name: str) -> Callable[..., Any]:
    """The scatter of the tangents: the same updates stay, or add, as in the primal one."""

    def jvp(*args: Any, **attrs: Any) -> Any:
        t, _, t_updates, _, indices, _ = args
        return PRIMITIVES[name](t, indices, t_updates, **attrs)

    return jvp


def _scatter_mul_updates_jvp(t: Any, x: Any, indices: Any, updates: Any, **attrs: Any) -> Any:
    if not attrs["unique_indices"]:
        raise DifferentiationError(
            "scatter-mul: the derivative by the updates exists only with unique_indices=True.",
            hint="pass unique_indices=True if no place is written twice.",
        )
    x_type = core.typeof(x)
    return elementwise.mul(x, scatter_add(full(x_type.shape, x_type.dtype, 0), indices, t, **attrs))


def _scatter_mul_transpose(ct: Any, x: Any, indices: Any, updates: Any, **attrs: Any) -> list[Any]:
    if only_linear("scatter-mul", x, indices, updates):
        raise DifferentiationError("scatter-mul: it is linear in its operand only.")
    return [scatter_mul(ct, indices, updates, **attrs), None, None]


def _extremal_jvp(name: str) -> Callable[..., Any]:
    """The tangent of what the extremum is equal to, shared evenly where that is several values."""

    def jvp(*args: Any, **attrs: Any) -> Any:
        t, _, t_updates, x, indices, updates = args
        out = PRIMITIVES[name](x, indices, updates, **attrs)
        dtype = core.typeof(x).dtype

        def equal(u: Any, v: Any) -> Any:
            return elementwise.convert_element_type(elementwise.eq(u, v), new_dtype=dtype, weak_type=False)

        here = equal(x, out)
        numbers, mode = attrs["dimension_numbers"], attrs["mode"]
        there = equal(updates, gathered(out, indices, updates, numbers, mode))
        mul = elementwise.mul
        total = scatter_add(mul(t, here), indices, mul(t_updates, there), **attrs)
        return elementwise.div(total, scatter_add(here, indices, there, **attrs))

    return jvp


def _scatter_lower(b: Any, operand: Any, indices: Any, updates: Any, combine: Any, attrs: Any) -> Any:
    """HLO's scatter, of windows that are inside: StableHLO drops element by element, JAX window by window."""
    numbers: ScatterDimensionNumbers = attrs["dimension_numbers"]
    hlo = _hlo_scatter_attrs(
        "scatter", indices.type, numbers, attrs["indices_are_sorted"], attrs["unique_indices"]
    )
    w = scatter_windows(operand.type, updates.type, **hlo)
    dims = w.start_dims
    if attrs["mode"] is CLIP and dims:
        room = [operand.type.shape[d] - w.sizes[d] for d in dims]
        zeros = elementwise.splat(b, indices.type, 0)
        indices = b.emit(elementwise.clamp, zeros, indices, _limits(b, indices, room))
    elif any(w.sizes[d] > 1 for d in dims):
        largest = max(operand.type.shape[d] for d in dims)
        if largest > np.iinfo(indices.type.dtype).max:
            indices = b.emit(elementwise.convert_hlo, indices, dtype=I64)
        inside = _are_inside(b, indices, operand.type, w.sizes, dims)
        outside = _limits(b, indices, [operand.type.shape[d] for d in dims])
        indices = b.emit(elementwise.select_hlo, inside, indices, outside)
    scalar = TensorType((), operand.type.dtype)
    region = b.region((scalar, scalar), lambda inner, x, y: (combine(inner, x, y),))
    return b.emit_many(scatter_hlo, operand, indices, updates, regions=(region,), **hlo)[0]


def scattering(
    name: str, op: Op | None, allowed: Sequence[DType], combine: Callable[[Array, Array], Array],
    jvp: Any, transpose: Any = NOT_LINEAR,
) -> Op:  # fmt: skip
    """A primitive that updates windows by one binary op, or replaces them.

    Args:
        op: the op that combines what is there with an update; None replaces.
    """

    def infer(operand: TensorType, indices: TensorType, updates: TensorType, **attrs: Any) -> TensorType:
        check_dtype(name, "operand", operand, allowed, "I1")
        hlo = _hlo_scatter_attrs(
            name, indices, attrs["dimension_numbers"], attrs["indices_are_sorted"], attrs["unique_indices"]
        )
        scalar = TensorType((), operand.dtype)
        region = _Region((scalar, scalar), (scalar,))
        return _scatter_hlo_infer(operand, indices, updates, regions=(region,), **hlo)[0]

    def numpy(operand: Array, indices: Array, updates: Array, **attrs: Any) -> Array:
        types = [TensorType(x.shape, x.dtype) for x in (operand, indices, updates)]
        hlo = _hlo_scatter_attrs(name, types[1], attrs["dimension_numbers"], False, False)
        w = scatter_windows(types[0], types[2], **hlo)
        starts = _starts(w, indices)
        if attrs["mode"] is CLIP:
            starts = _clamped(w, operand.shape, starts)
        else:
            inside = _inside(w, operand.shape, starts)
            if inside is not None:
                starts = [np.where(inside, s, operand.shape[d]) for s, d in zip(starts, w.start_dims)]

        def new(x: Array, y: Array) -> tuple[Array]:
            return (combine(x, y),)

        with np.errstate(all="ignore"):
            return _update(w, (operand,), indices, (updates,), new, starts)[0]

    def batch(size: int, args: Any, axes: Any, **attrs: Any) -> Any:
        numbers: ScatterDimensionNumbers = attrs["dimension_numbers"]
        operand, updates = (shape.to_front(size, args[k], axes[k]) for k in (0, 2))
        window, inserted, starts, dims, others = numbers
        window, inserted, starts, dims = _moved(window), _moved(inserted), _moved(starts), _moved(dims)
        indices = args[1]
        if axes[1] is None:
            window = (0, *window)
        else:
            indices = shape.move_axis(indices, axes[1], 0)
            dims, others = (0, *dims), (0, *_moved(others))
        new = ScatterDimensionNumbers(window, inserted, starts, dims, others)
        return PRIMITIVE(operand, indices, updates, **attrs | {"dimension_numbers": new}), 0

    def lower(b: Any, operand: Any, indices: Any, updates: Any, **attrs: Any) -> Any:
        def region(inner: Any, x: Any, y: Any) -> Any:
            return y if op is None else inner.emit(op, x, y)

        return _scatter_lower(b, operand, indices, updates, region, attrs)

    def cost(operand: TensorType, indices: TensorType, updates: TensorType, **attrs: Any) -> Cost:
        work = 0 if op is None else updates.size
        return Cost(work, 0, moved(operand, operand, indices, updates))

    def samples() -> list[Sample]:
        return _scatter_samples(name, [d for d in SAMPLED if d in allowed])

    PRIMITIVE = Op(
        name, hlo=None,
        infer=infer, numpy=numpy, error=EXACT,
        jvp=jvp, transpose=transpose, batch=batch, lower=lower,
        kernel=LOWERED, cost=cost, samples=samples,
        attrs=("dimension_numbers", "indices_are_sorted", "unique_indices", "mode"), jax_attrs=dict,
    )  # fmt: skip
    return PRIMITIVE


_SCATTERS: tuple[tuple[Axes, Axes, Axes, ScatterDimensionNumbers], ...] = (
    ((5,), (1,), (), ScatterDimensionNumbers((), (0,), (0,))),
    ((5,), (40, 1), (40,), ScatterDimensionNumbers((), (0,), (0,))),
    ((5, 3), (4, 1), (4, 3), ScatterDimensionNumbers((1,), (0,), (0,))),
    ((4, 40), (3, 1), (3, 40), ScatterDimensionNumbers((1,), (0,), (0,))),
    ((4, 7), (3, 1), (4, 3), ScatterDimensionNumbers((0,), (1,), (1,))),
    ((5, 3), (2, 2, 2), (2, 2), ScatterDimensionNumbers((), (0, 1), (1, 0))),
    ((9, 4), (3, 2), (3, 3, 2), ScatterDimensionNumbers((0, 2), (), (0, 1))),
    ((2, 5, 3), (4, 2, 1), (4, 2, 3), ScatterDimensionNumbers((2,), (1,), (1,), (0,), (1,))),
    ((3, 4), (2, 0), (2, 3, 4), ScatterDimensionNumbers((1, 2), (), ())),
    ((5, 0), (3, 1), (3, 0), ScatterDimensionNumbers((1,), (0,), (0,))),
    ((5,), (0, 1), (0,), ScatterDimensionNumbers((), (0,), (0,))),
    ((77,), (531, 1), (531,), ScatterDimensionNumbers((), (0,), (0,))),
)
"""Shapes of operands, indices and updates, and dimension numbers worth testing."""


def _scatter_samples(name: str, allowed: Sequence[DType]) -> list[Sample]:
    """Every case in every dtype, the modes and index dtypes taking turns.

    In f64, which is differentiated, products have one update only, so that no place is written twice.
    """
    modes = (PROMISE, CLIP, FILL)
    found: list[Sample] = []
    for turn, d in enumerate(allowed):
        for k, (operand, indices, updates, numbers) in enumerate(_SCATTERS):
            unique = name == "scatter-mul" and d == dtypes.F64
            if unique and k:
                continue
            types = (
                TensorType(operand, d),
                TensorType(indices, (I32, I64)[(turn + k) % 2]),
                TensorType(updates, d),
            )
            attrs = {
                "dimension_numbers": numbers,
                "indices_are_sorted": False,
                "unique_indices": unique,
                "mode": modes[(turn + k) % 3],
            }
            found.append((types, attrs))
    return found


def _replace(x: Array, y: Array) -> Array:
    return y


ORDERED: tuple[DType, ...] = (BOOL, *INTEGERS, *FLOATS)

scatter = scattering(
    "scatter", None, dtypes.ALL, _replace, _linear_scatter_jvp("scatter"), _scatter_transpose
)
scatter_add = scattering("scatter-add", elementwise.add, (BOOL, *NUMBERS), np.add,
                         _linear_scatter_jvp("scatter-add"), _scatter_add_transpose)  # fmt: skip
scatter_mul: Op = scattering("scatter-mul", elementwise.mul, (BOOL, *NUMBERS), np.multiply,
                         (lambda t, x, i, u, **attrs: scatter_mul(t, i, u, **attrs),
                          ZERO, _scatter_mul_updates_jvp),
                         _scatter_mul_transpose)  # fmt: skip
scatter_min = scattering("scatter-min", elementwise.min, ORDERED, elementwise.minimum,
                         _extremal_jvp("scatter-min"))  # fmt: skip
scatter_max = scattering("scatter-max", elementwise.max, ORDERED, elementwise.maximum,
                         _extremal_jvp("scatter-max"))  # fmt: skip
