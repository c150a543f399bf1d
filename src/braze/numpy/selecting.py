"""Functions that take, put, choose and find elements, by one gather or scatter each.

Functions whose result's shape depends on values (`nonzero` and its kind, `unique`, `bincount`) run where the values
are known; a static `size` (`length`) makes them work in programs: what is too much is cut off, what is missing is
filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braze import dtypes, errors
from braze.core import Tracer, typeof
from braze.lax import indexing as gathers
from braze.lax import lax
from braze.numpy import cumulative, elementwise, indexing, reductions, shape, sorting
from braze.numpy.creation import linspace
from braze.numpy.promotion import check_arrays, promote_dtypes, without_out
from braze.ops.indexing import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

Array = Any
ArrayLike = Any


def _known(title: str, value: ArrayLike, way_out: str) -> np.ndarray[Any, Any]:
    """The values of an array, on which the result's shape depends.

    Raises: ConcretizationError while tracing.
    """
    if isinstance(value, Tracer) and value.concrete is None:
        raise errors.ConcretizationError(
            f"{title}: the shape of the result depends on values that are not known while tracing.",
            values=f"operand {typeof(value)}",
            hint=way_out,
        )
    return np.asarray(value.concrete if isinstance(value, Tracer) else value)


def _integers(title: str, indices: ArrayLike) -> Array:
    indices = np.asarray(indices) if isinstance(indices, int | list | tuple) else indices
    t = typeof(indices)
    if t.dtype not in dtypes.INTEGERS:
        raise errors.DTypeError(f"{title}: indices are integers, {dtypes.short(t.dtype)} was given.")
    return indices


# Taking ---------------------------------------------------------------------------------------------


def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """Elements at indices of one axis, or of all elements in a row.

    Args:
        mode: for indices outside: "fill" (the default: fill_value, which is NaN by default), "clip" or "wrap".
    """
    without_out("take", out)
    check_arrays("take", a)
    indices = _integers("take", indices)
    if axis is None:
        a, axis = shape.ravel(a), 0
    t = typeof(a)
    axis = lax.canonical_axis(axis, t.ndim)
    if mode == "raise":
        raise errors.UnsupportedError('take: mode "raise" is not available; "fill", "clip" and "wrap" are.')
    if mode == "wrap":
        size = max(t.shape[axis], 1)
        indices, mode = elementwise.remainder(indices, size), "promise_in_bounds"
    parts = (*(slice(None),) * axis, np.asarray(indices) if isinstance(indices, int) else indices)
    return indexing.take(
        lax.as_array(a),
        parts,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode="fill" if mode is None else mode,
        fill_value=fill_value,
        wrap=mode != "clip",
    )


def _along(title: str, arr: ArrayLike, indices: ArrayLike, axis: int) -> tuple[Array, Array, tuple[int, ...]]:
    """Both operands with the same sizes beside the axis, and those axes."""
    t, i = typeof(arr), typeof(indices)
    if t.ndim != i.ndim:
        raise errors.ShapeError(
            f"{title}: the array has {t.ndim} axes and indices have {i.ndim}, which must be as many.",
            values=f"arr {t}, indices {i}",
        )
    others = tuple(d for d in range(t.ndim) if d != axis)
    sizes = [np.broadcast_shapes((t.shape[d],), (i.shape[d],))[0] if d != axis else -1 for d in range(t.ndim)]
    wide = [[n if d != axis else own.shape[axis] for d, n in enumerate(sizes)] for own in (t, i)]
    return shape.broadcast_to(arr, wide[0]), shape.broadcast_to(indices, wide[1]), others


def _column(indices: Array, size: int, wrap: bool) -> Array:
    wide = dtypes.I64 if typeof(indices).dtype.itemsize == 8 else dtypes.I32
    wrapped = indexing.wrapped(indices, size, wide, wrap)
    return lax.expand_dims(wrapped, (typeof(indices).ndim,))


def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """For each place of the indices the element of that row: what `argsort` and `argmax` point at.

    Args:
        mode: for indices outside: "fill" (the default: fill_value, which is NaN by default) or "clip".
    """
    check_arrays("take_along_axis", arr, indices)
    indices = _integers("take_along_axis", indices)
    if axis is None:
        arr, indices, axis = shape.ravel(arr), shape.ravel(indices), 0
    axis = lax.canonical_axis(axis, typeof(arr).ndim)
    arr, indices, others = _along("take_along_axis", arr, indices, axis)
    return gathers.gather(
        arr,
        _column(indices, typeof(arr).shape[axis], wrap_negative_indices is not False),
        GatherDimensionNumbers((), (axis,), (axis,), others, others),
        (1,) * typeof(arr).ndim,
        mode="fill" if mode is None else mode,
        fill_value=fill_value,
    )


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """The array with the elements replaced that `take_along_axis` would take; `inplace` must be False."""
    if inplace:
        raise errors.ArgumentError(
            "put_along_axis: arrays of braze are not changed in place.",
            hint="pass inplace=False and use the result.",
        )
    check_arrays("put_along_axis", arr, indices, values)
    original = typeof(arr).shape
    indices = _integers("put_along_axis", indices)
    if axis is None:
        arr, indices, axis = shape.ravel(arr), shape.ravel(indices), 0
    axis = lax.canonical_axis(axis, typeof(arr).ndim)
    arr, indices, others = _along("put_along_axis", arr, indices, axis)
    t = typeof(arr)
    updates = shape.broadcast_to(lax.as_dtype(values, t.dtype), typeof(indices).shape)
    found = gathers.scatter(
        arr,
        _column(indices, t.shape[axis], True),
        updates,
        ScatterDimensionNumbers((), (axis,), (axis,), others, others),
        mode=mode,
    )
    return lax.reshape(found, original) if typeof(found).shape != original else found


def repeated(a: ArrayLike, repeats: ArrayLike, axis: int | None, total: int | None) -> Array:
    """`repeat` with a count for each element."""
    if axis is None:
        a, axis = shape.ravel(a), 0
    axis = lax.canonical_axis(axis, typeof(a).ndim)
    count = typeof(a).shape[axis]
    repeats = _integers("repeat", repeats)
    if typeof(repeats).shape not in ((), (1,), (count,)):
        raise errors.ShapeError(
            f"repeat: repeats have shape {typeof(repeats).shape}, where the axis has {count} entries."
        )
    if total is None:
        known = _known("repeat", repeats, "pass total_repeat_length=, the length of the result.")
        source: Array = np.repeat(np.arange(count, dtype=np.int32), known)
    else:
        ends = cumulative.cumsum(shape.broadcast_to(repeats, (count,)))
        source = searchsorted(ends, lax.iota(typeof(ends).dtype, total), "right")
    return take(a, source, axis, mode="clip")


def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """For each element of a, the element of the choice of that number; all broadcast.

    Args:
        mode: for numbers outside: "raise" (where they are known), "clip" or "wrap".
    """
    without_out("choose", out)
    arrays = [lax.as_array(c) for c in choices]
    a = _integers("choose", a)
    count = len(arrays)
    if mode == "raise":
        known = _known("choose", a, 'pass mode="clip" or mode="wrap".')
        if ((known < 0) | (known >= count)).any():
            raise errors.OutOfBoundsError(f"choose: a number is not in 0 to {count - 1}.")
    elif mode == "wrap":
        a = elementwise.remainder(a, count)
    elif mode == "clip":
        a = elementwise.clip(a, 0, count - 1)
    else:
        raise errors.ArgumentError(f'choose: mode {mode!r} is none of "raise", "clip" and "wrap".')
    a, *arrays = shape.broadcast_arrays(a, *promote_dtypes(*arrays))
    found = take_along_axis(shape.stack(arrays), lax.expand_dims(a, (0,)), 0, "clip")
    return lax.squeeze(found, (0,))


def select(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Array:
    """The element of the first choice whose condition holds, else the default."""
    if len(condlist) != len(choicelist) or not condlist:
        raise errors.ArgumentError(
            f"select: there are {len(condlist)} conditions and {len(choicelist)} choices; "
            "as many are wanted, one at least."
        )
    *choices, found = promote_dtypes(*choicelist, default)
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        found = elementwise.where(condition, choice, found)
    return found


# Finding --------------------------------------------------------------------------------------------

_SIZE = "pass size=, the most places that there may be."


def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """The indices of the elements that are not zero, one array per axis.

    Args:
        size: the length of the results, which makes them possible in programs.
        fill_value: what stands where there are fewer, for all axes or one by one (0 by default).
    Raises: ConcretizationError in a program without size.
    """
    check_arrays("nonzero", a)
    if size is None:
        known = _known("nonzero", a, _SIZE)
        if not known.ndim:
            raise errors.ArgumentError("nonzero: an array of at least one axis is wanted.")
        return tuple(lax.as_array(i.astype(np.int32)) for i in np.nonzero(known))
    sizes = typeof(a).shape
    mask = elementwise.not_equal(shape.ravel(a), 0)
    (count,) = typeof(mask).shape
    numbers = lax.as_dtype(mask, dtypes.I32)
    if not count or not size:
        return tuple(lax.full((size,), 0, dtypes.I32) for _ in sizes)
    place = elementwise.where(mask, cumulative.cumsum(numbers) - 1, size)
    flat = lax.full((size,), 0, dtypes.I32)
    flat = indexing.IndexUpdates(flat)[place].set(lax.iota(dtypes.I32, count), mode="drop")
    there = elementwise.less(lax.iota(dtypes.I32, size), reductions.sum(numbers))
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value or 0,) * len(sizes)
    found = unravel_index(flat, sizes)
    return tuple(
        elementwise.where(there, i, lax.as_dtype(f, dtypes.I32)) for i, f in zip(found, fills, strict=True)
    )


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The positions of the elements that are not zero, in row-major order; see `nonzero`."""
    return nonzero(shape.ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The indices of the elements that are not zero, one row each; see `nonzero`."""
    return shape.stack(nonzero(a, size=size, fill_value=fill_value), axis=-1)


def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """x where the condition holds, else y; without them, the indices at which it holds (`nonzero`)."""
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None or size is not None or fill_value is not None:
        raise errors.ArgumentError("where: x and y go together, and then without size and fill_value.")
    return elementwise.where(condition, x, y)


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """Those entries of an axis (or of all elements) where the condition, which may be shorter, holds."""
    without_out("compress", out)
    condition = np.asarray(condition) if isinstance(condition, list | tuple) else condition
    if axis is None:
        a, axis = shape.ravel(a), 0
    axis = lax.canonical_axis(axis, typeof(a).ndim)
    (length,) = typeof(condition).shape
    limit = min(length, typeof(a).shape[axis])
    kept = indexing.getitem(lax.as_array(condition), slice(0, limit))
    places = flatnonzero(kept, size=size, fill_value=typeof(a).shape[axis])
    return take(a, places, axis, mode="fill", fill_value=fill_value)


def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0
) -> Array:
    """The elements where the condition holds, in row-major order."""
    return compress(shape.ravel(condition), arr, size=size, fill_value=fill_value)


def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None, *, method: str = "scan"
) -> Array:
    """Where elements would go into a sorted array: before equal ones (left) or behind them (right).

    Args:
        sorter: the order that sorts a.
        method: accepted for JAX's sake; the search halves the array.
    """
    if side not in ("left", "right"):
        raise errors.ArgumentError(f'searchsorted: side {side!r} is neither "left" nor "right".')
    check_arrays("searchsorted", a, v)
    a, v = promote_dtypes(a, v)
    t = typeof(a)
    if t.ndim != 1:
        raise errors.ShapeError(f"searchsorted: a has {t.ndim} axes, one is wanted.", values=f"a {t}")
    if sorter is not None:
        a = take(a, sorter, mode="clip")
    (n,) = t.shape
    sizes = typeof(v).shape
    low = lax.full(sizes, 0, dtypes.I32)
    if not n:
        return low
    high = lax.full(sizes, n, dtypes.I32)

    def step(_: Any, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = lax.add(low, lax.div(lax.sub(high, low), lax.full_like(low, 2)))
        here = indexing.take(lax.as_array(a), (middle,), mode="clip")
        before = _before(here, v) if side == "left" else lax.bitwise_not(_before(v, here))
        open_ = lax.lt(low, high)
        up = lax.bitwise_and(open_, before)
        down = lax.bitwise_and(open_, lax.bitwise_not(before))
        return lax.select(up, lax.add(middle, lax.full_like(low, 1)), low), lax.select(down, middle, high)

    from braze.lax.control_flow import fori_loop

    found: Array = fori_loop(0, n.bit_length(), step, (low, high))[0]
    return found


def _before(x: Array, y: Array) -> Array:
    """Whether x comes before y; NaN comes last."""
    less = elementwise.less(x, y)
    if dtypes.is_inexact(typeof(x).dtype):
        ordered = lax.bitwise_and(lax.bitwise_not(elementwise.isnan(x)), elementwise.isnan(y))
        return lax.bitwise_or(less, shape.broadcast_to(ordered, typeof(less).shape))
    return less


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """The number of the bin of each element; edges rise or fall, and belong to the bin above (below if right)."""
    side = "left" if right else "right"
    rising = searchsorted(bins, x, side)
    (count,) = typeof(bins).shape
    if count < 2:
        return rising
    falling = count - searchsorted(shape.flip(bins), x, side)
    first, last = (indexing.getitem(lax.as_array(bins), k) for k in (0, -1))
    return elementwise.where(elementwise.greater_equal(last, first), rising, falling)


def isin(
    element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *,
    method: str = "auto",
) -> Array:  # fmt: skip
    """Whether each element is among others; NaN is among none."""
    element, test = promote_dtypes(element, test_elements)
    others = shape.ravel(test)
    same = elementwise.equal(lax.expand_dims(element, (typeof(element).ndim,)), others)
    found = reductions.any(same, axis=-1)
    return elementwise.logical_not(found) if invert else found


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """The distinct elements in order, or the distinct entries of an axis.

    Args:
        return_index, return_inverse, return_counts: also where each stands first, which of them each element is,
            and how often it occurs.
        size: the length of the results, which makes them possible in programs (for all elements, not along axes).
        fill_value: what stands where there are fewer; the smallest element by default.
    """
    wanted = (return_index, return_inverse, return_counts)
    if size is None:
        known = _known("unique", ar, "pass size=, the most distinct elements that there may be.")
        plain: Any = np.unique
        found = plain(known, *wanted, axis, equal_nan=equal_nan)
        parts = found if isinstance(found, tuple) else (found,)
        made = [
            lax.as_array(np.ascontiguousarray(p) if k == 0 else p.astype(np.int32))
            for k, p in enumerate(parts)
        ]
        return tuple(made) if len(made) > 1 else made[0]
    if axis is not None:
        raise errors.UnsupportedError("unique: size and axis are not available together.")
    flat = shape.ravel(ar)
    (count,) = typeof(flat).shape
    if not count:
        raise errors.ArgumentError("unique: with size, at least one element is wanted.")
    order = sorting.argsort(flat)
    rows = take(flat, order, mode="clip")
    fresh = elementwise.not_equal(rows[1:], rows[:-1])
    if equal_nan and dtypes.is_inexact(typeof(rows).dtype):
        fresh = lax.bitwise_and(
            fresh, lax.bitwise_not(lax.bitwise_and(elementwise.isnan(rows[1:]), elementwise.isnan(rows[:-1])))
        )
    first = shape.concatenate([lax.full((1,), True, dtypes.BOOL), fresh])
    places = flatnonzero(first, size=size, fill_value=count)
    there = elementwise.less(places, count)
    filler = rows[0] if fill_value is None else lax.as_dtype(fill_value, typeof(rows).dtype)
    values = elementwise.where(there, take(rows, places, mode="clip"), filler)
    results = [values]
    if return_index:
        smallest = take(order, places, mode="clip")
        results.append(elementwise.where(there, smallest, smallest[0]))
    if return_inverse:
        group = cumulative.cumsum(lax.as_dtype(first, dtypes.I32)) - 1
        inverse = indexing.IndexUpdates(lax.full((count,), 0, dtypes.I32))[order].set(group)
        results.append(lax.reshape(inverse, typeof(ar).shape))
    if return_counts:
        ends = shape.concatenate([places[1:], lax.full((1,), count, dtypes.I32)])
        results.append(ends - places)
    return tuple(results) if any(wanted) else values


# Counting -------------------------------------------------------------------------------------------


def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None
) -> Array:
    """How often each number occurs, or the sum of its weights; negative numbers count as 0.

    Args:
        length: the length of the result, which makes it possible in programs; larger numbers are left out.
    """
    x = _integers("bincount", x)
    if length is None:
        known = _known("bincount", x, "pass length=, one more than the largest number that counts.")
        length = max(minlength, int(known.max(initial=-1)) + 1)
    one = 1 if weights is None else weights
    dtype = dtypes.I32 if weights is None else typeof(weights).dtype
    counts = indexing.IndexUpdates(lax.full((length,), 0, dtype))
    return counts[elementwise.clip(x, 0, None)].add(one, mode="drop")


def histogram_bin_edges(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
) -> Array:
    """Edges of bins of equal width over the range of a, or over the one given."""
    if isinstance(bins, str):
        raise errors.UnsupportedError(f"histogram_bin_edges: the rule {bins!r} is not available.")
    if typeof(bins).ndim:
        return lax.as_array(bins)
    low, high = (reductions.min(a), reductions.max(a)) if range is None else range
    wide = elementwise.equal(low, high)
    low, high = elementwise.where(wide, low - 0.5, low), elementwise.where(wide, high + 0.5, high)
    return linspace(low, high, int(bins) + 1)


def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """How many elements fall into each bin, as floats, and the bins' edges; the last bin has both its edges."""
    a = shape.ravel(a)
    if typeof(a).dtype not in dtypes.FLOATS:
        a = lax.as_dtype(a, dtypes.F32)
    edges = histogram_bin_edges(a, bins, range, weights)
    (count,) = typeof(edges).shape
    place = searchsorted(edges, a, "right")
    place = elementwise.where(elementwise.equal(a, edges[-1]), count - 1, place)
    amounts: ArrayLike = lax.full_like(a, 1) if weights is None else shape.ravel(weights)
    counts = indexing.IndexUpdates(lax.full((count,), 0, typeof(amounts).dtype))
    found = counts[place].add(amounts, mode="drop")[1:]
    if density:
        found = found / (edges[1:] - edges[:-1]) / reductions.sum(found)
    return found, edges


# Indices --------------------------------------------------------------------------------------------


def unravel_index(indices: ArrayLike, shape: Sequence[int]) -> tuple[Array, ...]:
    """Positions in row-major order as indices, one array per axis; those outside are clipped."""
    indices = _integers("unravel_index", indices)
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    total = int(np.prod(sizes, dtype=np.int64))
    left = elementwise.clip(
        elementwise.where(elementwise.less(indices, 0), indices + total, indices), 0, total - 1
    )
    found: list[Array] = []
    for n in reversed(sizes):
        found.append(elementwise.remainder(left, max(n, 1)))
        left = elementwise.floor_divide(left, max(n, 1))
    return tuple(reversed(found))


def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: Any = None,
) -> Array:
    """Indices, one array per axis, as positions in row-major order (order "F": column-major).

    Args:
        mode: for indices outside: "raise" (where they are known), "clip" or "wrap".
    """
    if len(multi_index) != len(dims):
        raise errors.ShapeError(
            f"ravel_multi_index: {len(multi_index)} indices are given for {len(dims)} axes."
        )
    if order not in ("C", "F") or mode not in ("raise", "clip", "wrap"):
        raise errors.ArgumentError(f"ravel_multi_index: mode {mode!r} or order {order!r} is not known.")
    total: ArrayLike = 0
    pairs = list(zip(multi_index, dims, strict=True))
    for index, n in pairs if order == "C" else pairs[::-1]:
        index = _integers("ravel_multi_index", index)
        if mode == "raise":
            known = _known("ravel_multi_index", index, 'pass mode="clip" or mode="wrap".')
            if ((known < 0) | (known >= n)).any():
                raise errors.OutOfBoundsError(f"ravel_multi_index: an index is not in 0 to {n - 1}.")
        elif mode == "clip":
            index = elementwise.clip(index, 0, n - 1)
        else:
            index = elementwise.remainder(index, n)
        total = elementwise.add(elementwise.multiply(total, n), index)
    wide = dtypes.I32 if dtype is None else dtypes.canonical(dtype)
    return lax.as_array(lax.as_dtype(total, wide))


def _constants(arrays: Sequence[np.ndarray[Any, Any]]) -> tuple[Array, ...]:
    return tuple(lax.as_array(np.ascontiguousarray(a).astype(np.int32)) for a in arrays)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The indices of the lower triangle of an n by m matrix, up to diagonal k."""
    rows, columns = _constants(np.tril_indices(n, k, m))
    return rows, columns


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The indices of the upper triangle of an n by m matrix, from diagonal k on."""
    rows, columns = _constants(np.triu_indices(n, k, m))
    return rows, columns


def _matrix(title: str, arr: ArrayLike) -> tuple[int, int]:
    t = typeof(arr)
    if t.ndim != 2:
        raise errors.ShapeError(f"{title}: a matrix is wanted, {t} was given.")
    return t.shape[0], t.shape[1]


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The indices of the lower triangle of a matrix."""
    n, m = _matrix("tril_indices_from", arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The indices of the upper triangle of a matrix."""
    n, m = _matrix("triu_indices_from", arr)
    return triu_indices(n, k, m)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array with axes of size n."""
    return _constants(np.diag_indices(n, ndim))


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array whose axes have one size."""
    t = typeof(arr)
    if t.ndim < 2 or len(set(t.shape)) != 1:
        raise errors.ShapeError(f"diag_indices_from: two axes or more of one size are wanted, {t} was given.")
    return diag_indices(t.shape[0], t.ndim)


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """One-dimensional indices, each along an axis of its own, so that they index every combination."""
    found = []
    for k, a in enumerate(args):
        a = np.asarray(a, np.int32) if isinstance(a, list | tuple) else a
        t = typeof(a)
        if t.ndim != 1:
            raise errors.ShapeError(
                f"ix_: argument {k} has {t.ndim} axes, one is wanted.", values=f"argument {t}"
            )
        if t.dtype == dtypes.BOOL:
            a = flatnonzero(a)
            t = typeof(a)
        sizes = [1] * len(args)
        sizes[k] = t.shape[0]
        found.append(lax.reshape(a, sizes))
    return tuple(found)


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The index of every element of an array of that shape: one array per axis, stacked unless sparse."""
    sizes = tuple(dimensions)
    wide = dtypes.I32 if dtype is None else dtypes.canonical(dtype)
    if sparse:
        found = []
        for d, n in enumerate(sizes):
            found.append(lax.reshape(lax.iota(wide, n), [n if i == d else 1 for i in range(len(sizes))]))
        return tuple(found)
    if not sizes:
        return lax.full((0,), 0, wide)
    return shape.stack([lax.broadcasted_iota(wide, sizes, d) for d in range(len(sizes))])


# Diagonals ------------------------------------------------------------------------------------------


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of two axes, as the last axis."""
    t = typeof(a)
    if t.ndim < 2:
        raise errors.ShapeError(f"diagonal: two axes at least are wanted, {t} was given.")
    x = shape.moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = typeof(x).shape[-2:]
    first = max(-offset, 0), max(offset, 0)
    count = max(min(rows - first[0], columns - first[1]), 0)
    line = np.arange(count, dtype=np.int32)
    return indexing.getitem(lax.as_array(x), (Ellipsis, line + first[0], line + first[1]))


def diag(v: ArrayLike, k: int = 0) -> Array:
    """The diagonal of a matrix, or a matrix with a diagonal."""
    t = typeof(v)
    if t.ndim == 2:
        return diagonal(v, k)
    if t.ndim != 1:
        raise errors.ShapeError(f"diag: one or two axes are wanted, {t} was given.")
    n = t.shape[0] + abs(k)
    line = np.arange(t.shape[0], dtype=np.int32)
    place = line + max(-k, 0), line + max(k, 0)
    return indexing.IndexUpdates(lax.full((n, n), 0, t.dtype))[place].set(v)


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with all elements of v along diagonal k."""
    return diag(shape.ravel(v), k)


# Inserting and deleting -------------------------------------------------------------------------------


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """The array with values behind it, along an axis or as one row."""
    if axis is None:
        return shape.concatenate([shape.ravel(arr), shape.ravel(values)])
    return shape.concatenate([arr, values], axis)


def delete(
    arr: ArrayLike, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Array:
    """The array without the entries of an axis that an integer, a slice, integers or a mask name."""
    if axis is None:
        arr, axis = shape.ravel(arr), 0
    t = typeof(arr)
    axis = lax.canonical_axis(axis, t.ndim)
    size = t.shape[axis]
    if not isinstance(obj, slice):
        obj = _known("delete", obj, "indices to delete are static.")
    kept = np.delete(np.arange(size, dtype=np.int32), obj)
    return take(arr, kept, axis, mode="clip")


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """The array with values inserted before entries of an axis, which an integer, a slice or integers name."""
    if axis is None:
        arr, axis = shape.ravel(arr), 0
    arr, values = promote_dtypes(arr, values)
    t = typeof(arr)
    axis = lax.canonical_axis(axis, t.ndim)
    size = t.shape[axis]
    if isinstance(obj, slice):
        obj = np.arange(*obj.indices(size))
    places = _known("insert", obj, "places to insert at are static.")
    if places.dtype == bool:
        places = np.flatnonzero(places)
    scalar = not places.ndim
    given = lax.as_array(values)
    if scalar:
        # One place: values are as many entries as they have along the axis.
        rank = t.ndim - typeof(given).ndim
        given = lax.reshape(given, (1,) * rank + typeof(given).shape)
        count = typeof(given).shape[axis]
        places = np.full(count, int(places))
    count = places.size
    if ((places < -size) | (places > size)).any():
        raise errors.OutOfBoundsError(f"insert: a place is not in {-size} to {size}.")
    given = shape.broadcast_to(given, (*t.shape[:axis], count, *t.shape[axis + 1 :]))
    places = np.where(places < 0, places + size, places)
    order = np.argsort(places, kind="stable")
    source = np.insert(np.arange(size), places[order], size + order).astype(np.int32)
    return take(shape.concatenate([lax.as_array(arr), given], axis), source, axis, mode="clip")
