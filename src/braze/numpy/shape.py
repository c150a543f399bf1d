"""Functions of `braze.numpy` that move elements: reshape, transpose, join, split, repeat, pad."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from braze import dtypes, errors
from braze.core import typeof
from braze.lax import lax, slicing
from braze.numpy.promotion import as_axes, broadcast_shapes, check_arrays, promote_dtypes, without_out

Array = Any
ArrayLike = Any


def shape(a: ArrayLike) -> tuple[int, ...]:
    """Sizes of the axes."""
    return typeof(a).shape


def ndim(a: ArrayLike) -> int:
    """Number of axes."""
    return typeof(a).ndim


def size(a: ArrayLike, axis: int | None = None) -> int:
    """Number of elements, or the size of one axis."""
    t = typeof(a)
    return t.size if axis is None else t.shape[lax.canonical_axis(axis, t.ndim)]


def reshape(a: ArrayLike, shape: int | Sequence[int], order: str = "C", *, copy: bool | None = None) -> Array:
    """The same elements in another shape; one size may be -1, to be worked out.

    Args:
        copy: accepted for NumPy's sake; results share no memory that anyone can write.
    Raises: ShapeError where the number of elements differs.
    """
    check_arrays("reshape", a)
    if order not in ("C", "F"):
        raise errors.ArgumentError(f"reshape: order is 'C' or 'F', {order!r} was given.")
    t = typeof(a)
    sizes = _resolve(t.size, shape, str(t))
    if order == "F":
        backwards = lax.transpose(a, tuple(range(t.ndim))[::-1])
        return lax.transpose(lax.reshape(backwards, sizes[::-1]), tuple(range(len(sizes)))[::-1])
    return lax.as_array(a) if sizes == t.shape else lax.reshape(a, sizes)


def _resolve(total: int, shape: int | Sequence[int], operand: str) -> tuple[int, ...]:
    given = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    try:
        sizes = [n.__index__() for n in given]
    except AttributeError:
        raise errors.ArgumentError(f"reshape: sizes are integers, {shape!r} was given.") from None
    unknown = [i for i, n in enumerate(sizes) if n == -1]
    if len(unknown) > 1 or any(n < -1 for n in sizes):
        raise errors.ShapeError(f"reshape: at most one size is -1 and none lower, {tuple(sizes)} was given.")
    if unknown:
        known = math.prod(n for n in sizes if n != -1)
        if known == 0 or total % known:
            raise errors.ShapeError(
                f"reshape: {total} elements do not divide into {tuple(sizes)}.", values=f"operand {operand}"
            )
        sizes[unknown[0]] = total // known
    if math.prod(sizes) != total:
        raise errors.ShapeError(
            f"reshape: shape {tuple(sizes)} has {math.prod(sizes)} elements, the operand {total}.",
            values=f"operand {operand}",
        )
    return tuple(sizes)


def ravel(a: ArrayLike, order: str = "C") -> Array:
    """All elements along one axis."""
    return reshape(a, (-1,) if typeof(a).size else (0,), order)


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Axes reordered, reversed unless an order is given."""
    check_arrays("transpose", a)
    rank = typeof(a).ndim
    order = tuple(range(rank))[::-1] if axes is None else tuple(lax.canonical_axis(d, rank) for d in axes)
    return lax.transpose(a, order)


def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """Axes reordered: result axis i is operand axis `axes[i]`."""
    return transpose(a, axes)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two axes exchanged."""
    return swapaxes(x, -1, -2)


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged."""
    rank = typeof(a).ndim
    i, j = lax.canonical_axis(axis1, rank), lax.canonical_axis(axis2, rank)
    order = list(range(rank))
    order[i], order[j] = order[j], order[i]
    return lax.transpose(a, order)


def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Axes moved to new places, the others in their order."""
    rank = typeof(a).ndim
    sources = (source,) if isinstance(source, int) else tuple(source)
    destinations = (destination,) if isinstance(destination, int) else tuple(destination)
    if len(sources) != len(destinations):
        raise errors.ArgumentError(
            f"moveaxis: as many destinations as sources are wanted, {len(sources)} and {len(destinations)} were given."
        )
    pairs = sorted(
        (lax.canonical_axis(d, rank), lax.canonical_axis(s, rank))
        for s, d in zip(sources, destinations, strict=True)
    )
    order = [axis for axis in range(rank) if axis not in {s for _, s in pairs}]
    for d, s in pairs:
        order.insert(d, s)
    return lax.transpose(a, order)


def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """Axes of size 1 inserted so that they stand at `axis` of the result."""
    return lax.expand_dims(a, (axis,) if isinstance(axis, int) else tuple(axis))


def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Axes of size 1 dropped, all of them unless some are named."""
    t = typeof(a)
    if axis is None:
        axes = tuple(i for i, n in enumerate(t.shape) if n == 1)
    else:
        axes = as_axes(axis if isinstance(axis, int) else tuple(axis), t.ndim)
    return lax.squeeze(a, axes)


def broadcast_to(array: ArrayLike, shape: int | Sequence[int]) -> Array:
    """The array repeated to a shape by NumPy's rule."""
    t = typeof(array)
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if broadcast_shapes("broadcast_to", t.shape, sizes) != sizes:
        raise errors.ShapeError(
            f"broadcast_to: shape {t.shape} does not broadcast to {sizes}.", values=f"operand {t}"
        )
    if t.shape == sizes:
        return lax.as_array(array)
    lead = len(sizes) - t.ndim
    return lax.broadcast_in_dim(array, sizes, range(lead, len(sizes)))


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """Arrays at their common shape."""
    sizes = broadcast_shapes("broadcast_arrays", *(typeof(a).shape for a in args))
    return [broadcast_to(a, sizes) for a in args]


def concatenate(arrays: Sequence[ArrayLike], axis: int | None = 0, dtype: Any = None) -> Array:
    """Arrays joined along an axis that exists; flattened first if it is None."""
    parts = list(arrays)
    if not parts:
        raise errors.ShapeError("concatenate: at least one array is wanted.")
    check_arrays("concatenate", *parts)
    if axis is None:
        parts, axis = [ravel(p) for p in parts], 0
    if typeof(parts[0]).ndim == 0:
        raise errors.ShapeError("concatenate: scalars have no axis to join along.", hint="use stack.")
    parts = (
        promote_dtypes(*parts)
        if dtype is None
        else [lax.convert_element_type(p, dtypes.canonical(dtype)) for p in parts]
    )
    return lax.concatenate(parts, lax.canonical_axis(axis, typeof(parts[0]).ndim))


def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """Arrays joined along an axis that exists."""
    return concatenate(arrays, axis)


def stack(arrays: Sequence[ArrayLike], axis: int = 0, out: None = None, dtype: Any = None) -> Array:
    """Arrays of one shape joined along a new axis."""
    without_out("stack", out)
    parts = list(arrays)
    if not parts:
        raise errors.ShapeError("stack: at least one array is wanted.")
    shapes = {typeof(p).shape for p in parts}
    if len(shapes) > 1:
        raise errors.ShapeError(
            f"stack: arrays of one shape are wanted, {' and '.join(map(str, sorted(shapes)))} were given."
        )
    axis = lax.canonical_axis(axis, typeof(parts[0]).ndim + 1)
    return concatenate([lax.expand_dims(p, (axis,)) for p in parts], axis, dtype)


def _at_least(rank: int, value: ArrayLike) -> Array:
    shape = typeof(value).shape
    if len(shape) >= rank:
        return lax.as_array(value)
    return lax.reshape(value, (1,) * (rank - len(shape)) + shape)


def atleast_1d(*arys: ArrayLike) -> Any:
    """Arrays with at least one axis."""
    found = [_at_least(1, a) for a in arys]
    return found[0] if len(found) == 1 else found


def atleast_2d(*arys: ArrayLike) -> Any:
    """Arrays with at least two axes."""
    found = [_at_least(2, a) for a in arys]
    return found[0] if len(found) == 1 else found


def vstack(tup: Sequence[ArrayLike], dtype: Any = None) -> Array:
    """Arrays joined along rows."""
    return concatenate([_at_least(2, a) for a in tup], 0, dtype)


def hstack(tup: Sequence[ArrayLike], dtype: Any = None) -> Array:
    """Arrays joined along columns (vectors: end to end)."""
    parts = [_at_least(1, a) for a in tup]
    return concatenate(parts, 0 if parts and typeof(parts[0]).ndim == 1 else 1, dtype)


def split(ary: ArrayLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """Parts along an axis: so many of equal size, or cut at indices."""
    t = typeof(ary)
    axis = lax.canonical_axis(axis, t.ndim)
    length = t.shape[axis]
    if isinstance(indices_or_sections, int | np.integer):
        count = int(indices_or_sections)
        if count <= 0 or length % count:
            raise errors.ShapeError(
                f"split: axis {axis} of size {length} does not divide into {count} parts."
            )
        cuts = [length // count * i for i in range(count + 1)]
    else:
        cuts = [
            0,
            *(min(max(int(i) + (length if int(i) < 0 else 0), 0), length) for i in indices_or_sections),
            length,
        ]
    return [
        slicing.slice_in_dim(ary, low, max(low, high), axis=axis) for low, high in itertools.pairwise(cuts)
    ]


def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Elements in reverse order along axes."""
    axes = as_axes(axis if axis is None or isinstance(axis, int) else tuple(axis), typeof(m).ndim)
    return lax.rev(m, axes)


def roll(a: ArrayLike, shift: int, axis: int | None = None) -> Array:
    """Elements moved along an axis, those that fall off entering at the other end."""
    t = typeof(a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), t.shape)
    axis = lax.canonical_axis(axis, t.ndim)
    length = t.shape[axis]
    if length == 0 or shift % length == 0:
        return lax.as_array(a)
    cut = length - shift % length
    return lax.concatenate(
        [slicing.slice_in_dim(a, cut, length, axis=axis), slicing.slice_in_dim(a, 0, cut, axis=axis)], axis
    )


def tile(A: ArrayLike, reps: int | Sequence[int]) -> Array:
    """The array laid side by side, so often along each axis."""
    t = typeof(A)
    counts = (reps,) if isinstance(reps, int) else tuple(reps)
    rank = max(t.ndim, len(counts))
    counts = (1,) * (rank - len(counts)) + counts
    sizes = (1,) * (rank - t.ndim) + t.shape
    spread = [n for pair in zip(counts, sizes, strict=True) for n in pair]
    repeated = lax.broadcast_in_dim(lax.reshape(A, sizes), spread, range(1, 2 * rank, 2))
    return lax.reshape(repeated, [c * n for c, n in zip(counts, sizes, strict=True)])


def repeat(
    a: ArrayLike, repeats: ArrayLike, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Array:
    """Each element so many times in a row: one count for all, or a count each.

    Args:
        total_repeat_length: the length of the result where counts are not known while tracing; what is too much
            is cut off, and the last element fills up.
    """
    if not isinstance(repeats, int) or total_repeat_length is not None:
        from braze.numpy.selecting import repeated

        return repeated(a, repeats, axis, total_repeat_length)
    if axis is None:
        a, axis = ravel(a), 0
    t = typeof(a)
    axis = lax.canonical_axis(axis, t.ndim)
    spread = (*t.shape[: axis + 1], repeats, *t.shape[axis + 1 :])
    kept = [d for d in range(t.ndim + 1) if d != axis + 1]
    sizes = (*t.shape[:axis], t.shape[axis] * repeats, *t.shape[axis + 1 :])
    return lax.reshape(lax.broadcast_in_dim(a, spread, kept), sizes)


def pad(array: ArrayLike, pad_width: Any, mode: str = "constant", constant_values: ArrayLike = 0) -> Array:
    """The array with a border of one value: (low, high) for all axes or for each."""
    if mode != "constant":
        raise errors.UnsupportedError(f"pad: mode {mode!r} is not available; 'constant' is.")
    t = typeof(array)
    widths = np.broadcast_to(np.asarray(pad_width), (t.ndim, 2))
    if (widths < 0).any():
        raise errors.ArgumentError("pad: widths are not negative.", hint="cut with a slice.")
    return lax.pad(
        array, lax.as_dtype(constant_values, t.dtype), [(int(low), int(high), 0) for low, high in widths]
    )
