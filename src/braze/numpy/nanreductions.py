"""Reductions of `braze.numpy` that pass over NaN.

NaN are replaced by what changes nothing and, where a reduction counts its elements, left out of the count. A row
of nothing but NaN has the sum 0 and the product 1; its other statistics are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from braze import dtypes, errors
from braze.core import typeof
from braze.lax import lax
from braze.numpy import reductions
from braze.numpy.promotion import check_arrays, without_out
from braze.numpy.reductions import Axis
from braze.numpy.shape import broadcast_to
from braze.stages import composed

Array = Any
ArrayLike = Any

_STATIC = ("axis", "dtype", "keepdims", "ddof")


def _present(name: str, a: ArrayLike) -> tuple[Array, Array | None]:
    """The array, and where it is no NaN (None where it holds no floats)."""
    check_arrays(name, a)
    value = lax.as_dtype(a, typeof(a).dtype)
    return value, lax.eq(value, value) if dtypes.is_inexact(typeof(value).dtype) else None


def _without_nan(name: str, a: ArrayLike, neutral: float) -> tuple[Array, Array | None]:
    value, present = _present(name, a)
    if present is None:
        return value, None
    return lax.select(present, value, lax.full_like(value, neutral)), present


def _counted(present: Array | None, where: ArrayLike | None) -> ArrayLike | None:
    """Which elements count: those that are no NaN and that `where` marks."""
    if present is None or where is None:
        return where if present is None else present
    sizes = typeof(present).shape
    return lax.bitwise_and(present, broadcast_to(where, sizes))


@composed(*_STATIC)
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """`sum` with NaN as 0."""
    without_out("nansum", out)
    value, _ = _without_nan("nansum", a, 0)
    return reductions.sum(value, axis, dtype, None, keepdims, initial, where)


@composed(*_STATIC)
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """`prod` with NaN as 1."""
    without_out("nanprod", out)
    value, _ = _without_nan("nanprod", a, 1)
    return reductions.prod(value, axis, dtype, None, keepdims, initial, where)


def _extreme(name: str, of: Callable[..., Array], worst: float, doc: str) -> Callable[..., Array]:
    def function(
        a: ArrayLike,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        without_out(name, out)
        value, present = _without_nan(name, a, worst)
        found = of(value, axis, None, keepdims, initial, where)
        if present is None or initial is not None:
            return found
        some = reductions.any(present, axis, None, keepdims, where=where)
        return lax.select(some, found, lax.full_like(found, math.nan))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return composed(*_STATIC)(function)


nanmax = _extreme(
    "nanmax", reductions.max, -math.inf, "The largest element over axes that is no NaN; NaN if there is none."
)
nanmin = _extreme(
    "nanmin", reductions.min, math.inf, "The smallest element over axes that is no NaN; NaN if there is none."
)


@composed(*_STATIC)
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """Mean over axes of the elements that are no NaN."""
    without_out("nanmean", out)
    value, present = _without_nan("nanmean", a, 0)
    return reductions.mean(value, axis, dtype, None, keepdims, where=_counted(present, where))


@composed(*_STATIC)
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Variance over axes of the elements that are no NaN; NaN where there are no more than ddof."""
    without_out("nanvar", out)
    value, present = _without_nan("nanvar", a, 0)
    return reductions.var(value, axis, dtype, None, ddof, keepdims, where=_counted(present, where), mean=mean)


@composed(*_STATIC)
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Standard deviation over axes of the elements that are no NaN."""
    return lax.sqrt(nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))


def _position(name: str, of: Callable[..., Array], worst: float, doc: str) -> Callable[..., Array]:
    def function(
        a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
    ) -> Array:
        without_out(name, out)
        value, present = _without_nan(name, a, worst)
        found = of(value, axis, None, keepdims)
        if present is None:
            return found
        some = reductions.any(present, axis, None, bool(keepdims))
        return lax.select(some, found, lax.full_like(found, -1))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return composed(*_STATIC)(function)


nanargmax = _position(
    "nanargmax",
    reductions.argmax,
    -math.inf,
    "Index of the largest element that is no NaN; -1 if there is none.",
)
nanargmin = _position(
    "nanargmin",
    reductions.argmin,
    math.inf,
    "Index of the smallest element that is no NaN; -1 if there is none.",
)


@composed("axis", "returned", "keepdims")
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """Weighted mean over axes.

    Args:
        weights: of a's shape, or one per element along the one axis; all alike without them.
        returned: whether the sums of the weights come too.
    Raises: ShapeError where weights have another shape.
    """
    check_arrays("average", a)
    if weights is None:
        found = reductions.mean(a, axis, None, None, keepdims)
        count = typeof(a).size // max(typeof(found).size, 1)
        return (found, lax.full_like(found, count)) if returned else found
    check_arrays("average", weights)
    dtype, _ = dtypes.promote((typeof(v).dtype, typeof(v).weak_type) for v in (a, weights))
    dtype = dtype if dtypes.is_inexact(dtype) else dtypes.default_float()
    value, held = lax.as_dtype(a, dtype), lax.as_dtype(weights, dtype)
    t = typeof(value)
    if typeof(held).shape != t.shape:
        if not isinstance(axis, int) or typeof(held).shape != (t.shape[axis],):
            raise errors.ShapeError(
                f"average: weights of shape {typeof(held).shape} are neither of a's shape {t.shape} nor one per "
                f"element along axis {axis}."
            )
        along = lax.canonical_axis(axis, t.ndim)
        held = lax.broadcast_in_dim(held, t.shape, (along,))
    total = reductions.sum(held, axis, None, None, keepdims)
    found = lax.div(reductions.sum(lax.mul(value, held), axis, None, None, keepdims), total)
    return (found, total) if returned else found
