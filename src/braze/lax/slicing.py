"""Slices at static and dynamic positions, under their JAX names."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from braze import errors
from braze.core import bind, typeof
from braze.dtypes import BOOL, INTEGERS, short
from braze.lax import lax
from braze.ops import shape as shape_ops

Array = Any
ArrayLike = Any


def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """Elements from start (inclusive) to limit (exclusive) of every axis, by strides of at least 1."""
    steps = (1,) * len(start_indices) if strides is None else strides
    return bind(
        shape_ops.slice,
        operand,
        start_indices=tuple(map(int, start_indices)),
        limit_indices=tuple(map(int, limit_indices)),
        strides=tuple(map(int, steps)),
    )


def slice_in_dim(
    operand: ArrayLike, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Array:
    """`slice` along one axis; indices may be None or negative, as in Python."""
    t = typeof(operand)
    axis = lax.canonical_axis(axis, t.ndim)
    start, limit, _ = builtins.slice(start_index, limit_index).indices(t.shape[axis])
    starts, limits, strides = [0] * t.ndim, list(t.shape), [1] * t.ndim
    starts[axis], limits[axis], strides[axis] = start, builtins.max(start, limit), stride
    return slice(operand, starts, limits, strides)


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The elements at one static index of an axis."""
    t = typeof(operand)
    axis = lax.canonical_axis(axis, t.ndim)
    size = t.shape[axis]
    if not -size <= index < size:
        raise errors.OutOfBoundsError(f"index {index} is out of bounds for axis {axis} of size {size}.")
    found = slice_in_dim(operand, index % size, index % size + 1, 1, axis)
    return found if keepdims else lax.squeeze(found, (axis,))


def _starts(operand: ArrayLike, start_indices: Any, from_end: bool) -> list[ArrayLike]:
    """Scalar start indices, negative ones counted from the end (before clamping, as in JAX)."""
    t = typeof(operand)
    given = (
        list(start_indices)
        if isinstance(start_indices, tuple | list)
        else [index_in_dim(start_indices, i, keepdims=False) for i in range(typeof(start_indices).shape[0])]
    )
    if len(given) != t.ndim:
        raise errors.ShapeError(
            f"dynamic_slice (C2): {len(given)} start indices were given for an operand of {t.ndim} axes.",
            values=f"operand {t}",
        )
    return [_from_end(index, size, from_end) for index, size in zip(given, t.shape, strict=True)]


def _from_end(index: ArrayLike, size: int, from_end: bool) -> ArrayLike:
    t = typeof(index)
    if t.dtype not in INTEGERS or t.dtype == BOOL:
        raise errors.DTypeError(f"dynamic_slice: start indices are integers, {short(t.dtype)} was given.")
    if lax.is_scalar(index):
        return lax.as_dtype(index + size if index < 0 and from_end else index, t.dtype)
    if t.dtype.kind == "u" or not from_end:
        return index
    return lax.select(lax.lt(index, 0), lax.add(index, size), index)


def dynamic_slice(
    operand: ArrayLike,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """A window of static size at a position known only at run time, clamped into the operand.

    Args:
        allow_negative_indices: count negative positions from the end, before clamping.
    """
    return bind(
        shape_ops.dynamic_slice,
        operand,
        *_starts(operand, start_indices, allow_negative_indices),
        slice_sizes=tuple(map(int, slice_sizes)),
    )


def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_slice` along one axis."""
    t = typeof(operand)
    axis = lax.canonical_axis(axis, t.ndim)
    starts: list[ArrayLike] = [lax.as_dtype(0, typeof(start_index).dtype)] * t.ndim
    starts[axis] = start_index
    sizes = list(t.shape)
    sizes[axis] = slice_size
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(
    operand: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The elements at one index of an axis, clamped into it."""
    found = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return found if keepdims else lax.squeeze(found, (axis,))


def dynamic_update_slice(
    operand: ArrayLike, update: ArrayLike, start_indices: Any, *, allow_negative_indices: bool = True
) -> Array:
    """The operand with a window replaced; the position is clamped so that the window fits."""
    update = lax.as_dtype(update, typeof(operand).dtype) if lax.is_scalar(update) else update
    return bind(
        shape_ops.dynamic_update_slice,
        operand,
        update,
        *_starts(operand, start_indices, allow_negative_indices),
    )


def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_update_slice` along one axis."""
    t = typeof(operand)
    axis = lax.canonical_axis(axis, t.ndim)
    starts: list[ArrayLike] = [lax.as_dtype(0, typeof(start_index).dtype)] * t.ndim
    starts[axis] = start_index
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The operand with the elements at one index of an axis replaced."""
    t = typeof(operand)
    axis = lax.canonical_axis(axis, t.ndim)
    if typeof(update).ndim != t.ndim:
        update = lax.expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )
