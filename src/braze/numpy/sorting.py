"""Sorting of `braze.numpy`, and the statistics that come from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from braze import dtypes, errors
from braze.core import typeof
from braze.lax import lax
from braze.lax import sorting as ops
from braze.numpy import indexing, shape
from braze.numpy.promotion import as_axes, check_arrays, without_out
from braze.stages import composed
from braze.trace.vmap import vmap

Array = Any
ArrayLike = Any
Axes = int | tuple[int, ...] | None

METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def _along(name: str, a: ArrayLike, axis: int | None) -> tuple[Array, int]:
    """The array and axis to sort along; without an axis the flat array."""
    check_arrays(name, a)
    t = typeof(a)
    if axis is None:
        return lax.reshape(a, (t.size,)), 0
    return a, lax.canonical_axis(axis, t.ndim)


def _no_kind(name: str, kind: None, order: None) -> None:
    if kind is not None or order is not None:
        raise errors.ArgumentError(
            f"{name}: kind and order must be None.", hint="stable=True or False is the choice there is."
        )


@composed("axis", "kind", "order", "stable", "descending")
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The elements in order along an axis, of the flat array if axis is None; NaN last.

    >>> import braze.numpy as bnp
    >>> bnp.sort(bnp.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    _no_kind("sort", kind, order)
    value, along = _along("sort", a, axis)
    found = ops.sort(value, along, stable)
    return lax.rev(found, (along,)) if descending else found


@composed("axis", "kind", "order", "stable", "descending", "dtype")
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Array:
    """The indices that sort an array along an axis; equal elements keep their order.

    >>> import braze.numpy as bnp
    >>> bnp.argsort(bnp.array([30, 10, 20]))
    Array([1, 2, 0], dtype=int32)
    """
    _no_kind("argsort", kind, order)
    value, along = _along("argsort", a, axis)
    wanted = dtypes.default_int() if dtype is None else dtypes.canonical(dtype)
    places = lax.broadcasted_iota(wanted, typeof(value).shape, along)
    if descending and stable:
        value, places = lax.rev(value, (along,)), lax.rev(places, (along,))
    _, found = ops.sort_key_val(value, places, along, stable)
    return lax.rev(found, (along,)) if descending else found


@composed("axis")
def lexsort(keys: ArrayLike | Sequence[ArrayLike], axis: int = -1) -> Array:
    """The indices that sort by several keys; the last key is compared first.

    Args:
        keys: arrays of one shape, or one array whose first axis numbers them.
    """
    arrays = list(keys)
    if not arrays:
        raise errors.ArgumentError("lexsort: at least one key is wanted.")
    check_arrays("lexsort", *arrays)
    t = typeof(arrays[0])
    if t.ndim == 0:
        return lax.full((), 0, dtypes.default_int())
    along = lax.canonical_axis(axis, t.ndim)
    places = lax.broadcasted_iota(dtypes.default_int(), t.shape, along)
    return ops.sort((*arrays[::-1], places), along, num_keys=len(arrays))[-1]


@composed("kth", "axis")
def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The elements along an axis so that the kth is in its sorted place, smaller ones before it."""
    value, along = _along("partition", a, axis)
    lax.canonical_axis(kth, typeof(value).shape[along])
    return ops.sort(value, along)


@composed("kth", "axis")
def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The indices of `partition`."""
    value, along = _along("argpartition", a, axis)
    lax.canonical_axis(kth, typeof(value).shape[along])
    return argsort(value, along)


def sort_complex(a: ArrayLike) -> Array:
    """The elements in order along the last axis, as complex numbers: by real, then by imaginary part."""
    check_arrays("sort_complex", a)
    dtype = typeof(a).dtype
    wide = dtypes.C128 if dtype in (dtypes.F64, dtypes.C128) else dtypes.C64
    return lax.convert_element_type(ops.sort(a), wide)


# Quantiles --------------------------------------------------------------------------------------------


def _rows(name: str, a: ArrayLike, axis: Axes) -> tuple[Array, tuple[int, ...]]:
    """The reduced axes as one in front, and which they were."""
    check_arrays(name, a)
    t = typeof(a)
    if dtypes.is_complex(t.dtype):
        raise errors.DTypeError(f"{name}: complex numbers have no order.", values=f"operand {t}")
    wanted = t.dtype if dtypes.is_inexact(t.dtype) else dtypes.default_float()
    axes = as_axes(axis, t.ndim)
    rest = [d for d in range(t.ndim) if d not in axes]
    moved = lax.transpose(lax.as_dtype(a, wanted), (*axes, *rest))
    kept = tuple(t.shape[d] for d in rest)
    return lax.reshape(moved, (math.prod(t.shape[d] for d in axes), *kept)), axes


def _quantile(
    name: str, a: ArrayLike, q: ArrayLike, axis: Axes, method: str, keepdims: bool, skips_nan: bool
) -> Array:
    if method not in METHODS:
        raise errors.ArgumentError(f"{name}: method {method!r} is none of {', '.join(METHODS)}.")
    rank = typeof(a).ndim
    rows, axes = _rows(name, a, axis)
    n = typeof(rows).shape[0]
    if n == 0:
        raise errors.ShapeError(f"{name}: an empty array has no {name}.", values=f"operand {typeof(a)}")
    dtype = typeof(rows).dtype
    nan = lax.ne(rows, rows)
    ordered = ops.sort(rows, 0)
    if skips_nan:
        count = lax.sub(lax.full((), n, dtype), lax.reduce_sum(lax.convert_element_type(nan, dtype), (0,)))
    else:
        count = lax.full(typeof(rows).shape[1:], n, dtype)
    q = lax.as_dtype(q, dtype)
    if typeof(q).ndim > 1:
        raise errors.ShapeError(f"{name}: q has {typeof(q).ndim} axes; one at most is possible.")
    one = lax.full(typeof(count).shape, 1, dtype)
    last = lax.max(lax.sub(count, one), lax.sub(one, one))

    def at(q: Array) -> Array:
        place = lax.mul(lax.broadcast(q, typeof(last).shape), last)
        low = lax.clamp(0.0, lax.floor(place), last)
        high = lax.clamp(0.0, lax.ceil(place), last)
        below, above = _pick(ordered, low), _pick(ordered, high)
        weight = lax.sub(place, low)
        match method:
            case "lower":
                return below
            case "higher":
                return above
            case "nearest":
                return lax.select(lax.le(weight, 0.5), below, above)
            case "midpoint":
                return lax.mul(lax.add(below, above), 0.5)
        return lax.add(lax.mul(below, lax.sub(one, weight)), lax.mul(above, weight))

    found = vmap(at)(q) if typeof(q).ndim else at(q)
    if not skips_nan:
        bad = lax.reduce_or(nan, (0,))
        bad = shape.broadcast_to(bad, typeof(found).shape)
        found = lax.select(bad, lax.full_like(found, math.nan), found)
    if not keepdims:
        return found
    front = typeof(q).ndim
    return lax.expand_dims(found, tuple(front + d for d in range(rank) if d in axes))


def _pick(ordered: Array, place: Array) -> Array:
    """Of each column the element at its place."""
    t = typeof(ordered)
    index = lax.convert_element_type(place, dtypes.default_int())
    size = math.prod(t.shape[1:])
    columns = lax.reshape(ordered, (t.shape[0], size))
    found = indexing.getitem(columns, (lax.reshape(index, (size,)), lax.iota(dtypes.default_int(), size)))
    return lax.reshape(found, t.shape[1:])


def _no_weights(name: str, overwrite_input: bool, weights: ArrayLike | None) -> None:
    if overwrite_input or weights is not None:
        raise errors.ArgumentError(f"{name}: overwrite_input must be False and weights None.")


@composed("axis", "overwrite_input", "method", "keepdims")
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The value below which a share q of the elements lies; NaN if there is one.

    Args:
        q: a number from 0 to 1, or several along one axis, which comes first in the result.
        method: between two elements: `linear`, `lower`, `higher`, `midpoint` or `nearest`.

    >>> import braze.numpy as bnp
    >>> bnp.quantile(bnp.arange(5.0), bnp.array([0.25, 0.6]))
    Array([1. , 2.4], dtype=float32)
    """
    without_out("quantile", out)
    _no_weights("quantile", overwrite_input, weights)
    return _quantile("quantile", a, q, axis, method, keepdims, False)


@composed("axis", "overwrite_input", "method", "keepdims")
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """`quantile` of the elements that are not NaN."""
    without_out("nanquantile", out)
    _no_weights("nanquantile", overwrite_input, weights)
    return _quantile("nanquantile", a, q, axis, method, keepdims, True)


def _hundredth(q: ArrayLike) -> Array:
    t = typeof(q)
    wanted = t.dtype if dtypes.is_inexact(t.dtype) else dtypes.default_float()
    return lax.div(lax.as_dtype(q, wanted), 100.0)


@composed("axis", "overwrite_input", "method", "keepdims")
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """`quantile` with q from 0 to 100."""
    without_out("percentile", out)
    _no_weights("percentile", overwrite_input, weights)
    return _quantile("percentile", a, _hundredth(q), axis, method, keepdims, False)


@composed("axis", "overwrite_input", "method", "keepdims")
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """`nanquantile` with q from 0 to 100."""
    without_out("nanpercentile", out)
    _no_weights("nanpercentile", overwrite_input, weights)
    return _quantile("nanpercentile", a, _hundredth(q), axis, method, keepdims, True)


@composed("axis", "overwrite_input", "keepdims")
def median(
    a: ArrayLike, axis: Axes = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """The middle element over axes, or the mean of the middle two; NaN if there is one."""
    without_out("median", out)
    _no_weights("median", overwrite_input, None)
    return _quantile("median", a, 0.5, axis, "midpoint", keepdims, False)


@composed("axis", "overwrite_input", "keepdims")
def nanmedian(
    a: ArrayLike, axis: Axes = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """`median` of the elements that are not NaN."""
    without_out("nanmedian", out)
    _no_weights("nanmedian", overwrite_input, None)
    return _quantile("nanmedian", a, 0.5, axis, "midpoint", keepdims, True)
