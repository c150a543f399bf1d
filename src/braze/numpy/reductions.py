"""Reductions of `braze.numpy` over one, several or all axes.

Sums and products of bools and narrow integers widen to the default integer; means and variances are floating.
All take NumPy's parameters: `where` picks the elements that count, `initial` joins them, `out` must be None.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from braze import dtypes, errors
from braze.core import typeof
from braze.dtypes import DType
from braze.lax import lax
from braze.numpy import elementwise, shape
from braze.numpy.promotion import as_axes, broadcast_shapes, check_arrays, without_out
from braze.stages import composed

Array = Any
ArrayLike = Any
Axis = int | tuple[int, ...] | None

_STATIC = ("axis", "dtype", "keepdims", "ddof", "correction", "promote_integers")


def _keep(result: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return lax.expand_dims(result, axes) if keepdims and axes else result


def widened(dtype: DType) -> DType:
    """The dtype in which NumPy sums and multiplies: bools and narrow integers widen."""
    default = dtypes.default_int()
    if dtype == dtypes.BOOL:
        return default
    if dtype.kind in "iu" and dtype.itemsize < default.itemsize:
        return default if dtype.kind == "i" else dtypes.U64 if default == dtypes.I64 else dtypes.U32
    return dtype


def _masked(name: str, a: Array, where: ArrayLike | None, neutral: ArrayLike) -> Array:
    """The operand with the neutral element wherever `where` does not hold; both broadcast."""
    if where is None:
        return a
    check_arrays(name, where)
    t, w = typeof(a), typeof(where)
    if w.dtype != dtypes.BOOL:
        raise errors.DTypeError(f"{name}: where is bool, {dtypes.short(w.dtype)} was given.")
    sizes = broadcast_shapes(name, t.shape, w.shape)
    filler = lax.full(sizes, neutral, t.dtype)
    return lax.select(shape.broadcast_to(where, sizes), shape.broadcast_to(a, sizes), filler)


@composed(*_STATIC)
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Sum over axes; 0 over none."""
    without_out("sum", out)
    total = _accumulate("sum", lax.reduce_sum, 0, a, axis, dtype, keepdims, where, promote_integers)
    return (
        total if initial is None else lax.add(total, lax.convert_element_type(initial, typeof(total).dtype))
    )


@composed(*_STATIC)
def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Product over axes; 1 over none."""
    without_out("prod", out)
    total = _accumulate("prod", lax.reduce_prod, 1, a, axis, dtype, keepdims, where, promote_integers)
    return (
        total if initial is None else lax.mul(total, lax.convert_element_type(initial, typeof(total).dtype))
    )


def _accumulate(
    name: str,
    of: Callable[..., Array],
    neutral: int,
    a: ArrayLike,
    axis: Axis,
    dtype: Any,
    keepdims: bool,
    where: ArrayLike | None,
    promote_integers: bool,
) -> Array:
    check_arrays(name, a)
    t = typeof(a)
    wanted = dtypes.canonical(dtype) if dtype is not None else t.dtype
    if dtype is None and (promote_integers or t.dtype == dtypes.BOOL):
        wanted = widened(t.dtype)
    value = lax.as_dtype(a, wanted)
    value = _masked(name, value, where, neutral)
    axes = as_axes(axis, typeof(value).ndim)
    return _keep(of(value, axes), axes, keepdims)


def _least(dtype: DType) -> Any:
    if dtype == dtypes.BOOL:
        return False
    return -math.inf if dtypes.is_inexact(dtype) else int(dtypes.integer_limits(dtype).min)


def _greatest(dtype: DType) -> Any:
    if dtype == dtypes.BOOL:
        return True
    return math.inf if dtypes.is_inexact(dtype) else int(dtypes.integer_limits(dtype).max)


def _extreme(
    name: str,
    of: Callable[..., Array],
    joined: Callable[..., Array],
    neutral: Callable[[DType], Any],
    doc: str,
) -> Callable[..., Array]:
    def function(
        a: ArrayLike,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        without_out(name, out)
        check_arrays(name, a)
        t = typeof(a)
        if where is not None and initial is None:
            raise errors.ArgumentError(
                f"{name}: with where, an initial value is wanted for rows that have none."
            )
        value = _masked(name, lax.as_dtype(a, t.dtype), where, neutral(t.dtype))
        t = typeof(value)
        axes = as_axes(axis, t.ndim)
        empty = builtins.any(t.shape[d] == 0 for d in axes)
        if empty and initial is None:
            raise errors.ShapeError(
                f"{name}: an empty reduction has no {name}.", values=f"operand {t}, axis {axis}"
            )
        if empty:
            kept = tuple(n for d, n in enumerate(t.shape) if d not in axes)
            found = lax.full(kept, neutral(t.dtype), t.dtype)
        else:
            found = of(value, axes)
        found = _keep(found, axes, keepdims)
        return found if initial is None else joined(found, lax.convert_element_type(initial, t.dtype))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return composed(*_STATIC)(function)


max = _extreme("max", lax.reduce_max, lax.max, _least, "The largest element over axes; NaN if there is one.")
min = _extreme(
    "min", lax.reduce_min, lax.min, _greatest, "The smallest element over axes; NaN if there is one."
)
amax = max
amin = min


@composed(*_STATIC)
def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether any element over axes is true."""
    return _truth("any", lax.reduce_or, False, a, axis, out, keepdims, where)


@composed(*_STATIC)
def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether all elements over axes are true."""
    return _truth("all", lax.reduce_and, True, a, axis, out, keepdims, where)


def _truth(
    name: str,
    of: Callable[..., Array],
    neutral: bool,
    a: ArrayLike,
    axis: Axis,
    out: None,
    keepdims: bool,
    where: ArrayLike | None,
) -> Array:
    without_out(name, out)
    check_arrays(name, a)
    value = _masked(name, a if typeof(a).dtype == dtypes.BOOL else lax.ne(a, 0), where, neutral)
    axes = as_axes(axis, typeof(value).ndim)
    return _keep(of(value, axes), axes, keepdims)


def _floating(a: ArrayLike, dtype: Any) -> tuple[Array, DType]:
    t = typeof(a)
    wanted = dtypes.canonical(dtype) if dtype is not None else t.dtype
    if not dtypes.is_inexact(wanted):
        wanted = dtypes.default_float()
    return lax.as_dtype(a, wanted), wanted


def _count(value: Array, axes: tuple[int, ...], where: ArrayLike | None, wanted: DType) -> Array:
    """How many elements each result is made of: a number, or with `where` an array with kept axes."""
    t = typeof(value)
    if where is None:
        return lax.as_dtype(float(math.prod(t.shape[d] for d in axes)), wanted)
    held = lax.as_dtype(shape.broadcast_to(where, t.shape), wanted)
    return lax.expand_dims(lax.reduce_sum(held, axes), axes)


@composed(*_STATIC)
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Arithmetic mean over axes; NaN over none."""
    without_out("mean", out)
    check_arrays("mean", a)
    value, wanted = _floating(a, dtype)
    value = _masked("mean", value, where, 0)
    axes = as_axes(axis, typeof(value).ndim)
    count = _count(value, axes, where, wanted)
    if where is None:
        return lax.div(_keep(lax.reduce_sum(value, axes), axes, keepdims), count)
    found = lax.div(lax.expand_dims(lax.reduce_sum(value, axes), axes), count)
    return found if keepdims else lax.squeeze(found, axes)


@composed(*_STATIC)
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | float | None = None,
) -> Array:
    """Variance over axes: the mean squared distance from the mean, over n - ddof; NaN where that is not positive.

    Args:
        mean: the mean where it is known, with kept axes.
        correction: another name of ddof.
    """
    without_out("var", out)
    check_arrays("var", a)
    if correction is not None and ddof != 0:
        raise errors.ArgumentError("var: ddof and correction are two names of one thing; give one.")
    value, wanted = _floating(a, dtype)
    value = _masked("var", value, where, 0)
    axes = as_axes(axis, typeof(value).ndim)
    count = _count(value, axes, where, wanted)
    if mean is None:
        centre = lax.div(lax.expand_dims(lax.reduce_sum(value, axes), axes), count)
    else:
        centre = lax.convert_element_type(mean, wanted)
    centred = _masked("var", elementwise.subtract(value, centre), where, 0)
    total = lax.expand_dims(lax.reduce_sum(lax.square(centred), axes), axes)
    divisor = lax.sub(count, lax.as_dtype(float(ddof if correction is None else correction), wanted))
    divisor = lax.select(lax.gt(divisor, 0), divisor, lax.full_like(divisor, math.nan))
    found = lax.div(total, divisor)
    return found if keepdims else lax.squeeze(found, axes)


@composed(*_STATIC)
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | float | None = None,
) -> Array:
    """Standard deviation over axes: the square root of the variance."""
    return lax.sqrt(var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))


def _arg(name: str, of: Callable[..., Array], doc: str) -> Callable[..., Array]:
    def function(
        a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
    ) -> Array:
        without_out(name, out)
        check_arrays(name, a)
        t = typeof(a)
        value, along = (
            (lax.reshape(a, (t.size,)), 0) if axis is None else (a, lax.canonical_axis(axis, t.ndim))
        )
        if typeof(value).shape[along] == 0:
            raise errors.ShapeError(
                f"{name}: an empty reduction has no {name}.", values=f"operand {t}, axis {axis}"
            )
        result = of(value, along, dtypes.default_int())
        if not keepdims:
            return result
        return lax.expand_dims(result, tuple(range(t.ndim)) if axis is None else (along,))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return composed(*_STATIC)(function)


argmax = _arg(
    "argmax", lax.argmax, "Index of the largest element along an axis, of the flat array without one."
)
argmin = _arg(
    "argmin", lax.argmin, "Index of the smallest element along an axis, of the flat array without one."
)


def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Number of elements that are not zero."""
    check_arrays("count_nonzero", a)
    return sum(lax.ne(a, 0), axis=axis, dtype=dtypes.default_int(), keepdims=keepdims)


def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Largest minus smallest element over axes."""
    without_out("ptp", out)
    check_arrays("ptp", a)
    return lax.sub(max(a, axis=axis, keepdims=keepdims), min(a, axis=axis, keepdims=keepdims))
