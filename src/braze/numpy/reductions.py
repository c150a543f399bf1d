"""Reductions of `braze.numpy` over one, several or all axes.

Sums of bools and small integers widen to the default integer; means and variances are floating.
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
from braze.numpy.promotion import as_axes, check_arrays
from braze.stages import composed

Array = Any
ArrayLike = Any
Axis = int | tuple[int, ...] | None

_STATIC = ("axis", "dtype", "keepdims", "ddof", "correction")


def _keep(result: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return lax.expand_dims(result, axes) if keepdims and axes else result


def _widened(dtype: DType) -> DType:
    """The dtype in which NumPy sums and multiplies: bools and narrow integers widen."""
    if dtype == dtypes.BOOL:
        return dtypes.default_int()
    if dtype.kind in "iu" and dtype.itemsize < dtypes.default_int().itemsize:
        return (
            dtypes.default_int()
            if dtype.kind == "i"
            else (dtypes.U64 if dtypes.default_int() == dtypes.I64 else dtypes.U32)
        )
    return dtype


@composed(*_STATIC)
def sum(a: ArrayLike, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Sum over axes."""
    return _accumulate("sum", lax.reduce_sum, a, axis, dtype, keepdims)


@composed(*_STATIC)
def prod(a: ArrayLike, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Product over axes."""
    return _accumulate("prod", lax.reduce_prod, a, axis, dtype, keepdims)


def _accumulate(
    name: str, of: Callable[..., Array], a: ArrayLike, axis: Axis, dtype: Any, keepdims: bool
) -> Array:
    check_arrays(name, a)
    t = typeof(a)
    axes = as_axes(axis, t.ndim)
    wanted = _widened(t.dtype) if dtype is None else dtypes.canonical(dtype)
    value = lax.as_dtype(a, wanted, t.weak_type and wanted == t.dtype and not lax.is_scalar(a))
    return _keep(of(value, axes), axes, keepdims)


def _extreme(name: str, of: Callable[..., Array], doc: str) -> Callable[..., Array]:
    def function(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
        check_arrays(name, a)
        t = typeof(a)
        axes = as_axes(axis, t.ndim)
        if math.prod(t.shape[d] for d in axes) == 0 and axes:
            raise errors.ShapeError(
                f"{name}: an empty reduction has no {name}.", values=f"operand {t}, axis {axis}"
            )
        value = lax.as_dtype(a, t.dtype) if lax.is_scalar(a) else a
        return _keep(of(value, axes), axes, keepdims)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return composed(*_STATIC)(function)


max = _extreme("max", lax.reduce_max, "The largest element over axes; NaN if there is one.")
min = _extreme("min", lax.reduce_min, "The smallest element over axes; NaN if there is one.")
amax = max
amin = min


@composed(*_STATIC)
def any(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether any element over axes is true."""
    return _truth("any", lax.reduce_or, a, axis, keepdims)


@composed(*_STATIC)
def all(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether all elements over axes are true."""
    return _truth("all", lax.reduce_and, a, axis, keepdims)


def _truth(name: str, of: Callable[..., Array], a: ArrayLike, axis: Axis, keepdims: bool) -> Array:
    check_arrays(name, a)
    t = typeof(a)
    axes = as_axes(axis, t.ndim)
    value = a if t.dtype == dtypes.BOOL else lax.ne(a, 0)
    return _keep(of(value, axes), axes, keepdims)


def _floating(a: ArrayLike, dtype: Any) -> tuple[Array, DType]:
    t = typeof(a)
    wanted = dtypes.canonical(dtype) if dtype is not None else t.dtype
    if not dtypes.is_inexact(wanted):
        wanted = dtypes.default_float()
    return lax.as_dtype(a, wanted, t.weak_type and wanted == t.dtype and not lax.is_scalar(a)), wanted


@composed(*_STATIC)
def mean(a: ArrayLike, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Arithmetic mean over axes; NaN over none."""
    check_arrays("mean", a)
    value, wanted = _floating(a, dtype)
    t = typeof(value)
    axes = as_axes(axis, t.ndim)
    count = math.prod(t.shape[d] for d in axes)
    total = _keep(lax.reduce_sum(value, axes), axes, keepdims)
    return lax.div(total, lax.as_dtype(builtins.float(count), wanted))


@composed(*_STATIC)
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    correction: int | float | None = None,
) -> Array:
    """Variance over axes: the mean squared distance from the mean, over n - ddof; NaN where that is not positive."""
    check_arrays("var", a)
    if correction is not None:
        if ddof != 0:
            raise errors.ArgumentError("var: ddof and correction are two names of one thing; give one.")
        ddof = correction  # type: ignore[assignment]
    value, wanted = _floating(a, dtype)
    t = typeof(value)
    axes = as_axes(axis, t.ndim)
    count = math.prod(t.shape[d] for d in axes)
    centre = lax.div(
        lax.expand_dims(lax.reduce_sum(value, axes), axes), lax.as_dtype(builtins.float(count), wanted)
    )
    centred = lax.sub(value, centre)
    total = _keep(lax.reduce_sum(lax.square(centred), axes), axes, keepdims)
    divisor = builtins.float(count - ddof)
    return lax.div(total, lax.as_dtype(divisor if divisor > 0 else math.nan, wanted))


@composed(*_STATIC)
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    correction: int | float | None = None,
) -> Array:
    """Standard deviation over axes: the square root of the variance."""
    return lax.sqrt(var(a, axis, dtype, ddof, keepdims, correction=correction))


def _arg(name: str, of: Callable[..., Array], doc: str) -> Callable[..., Array]:
    def function(a: ArrayLike, axis: int | None = None, keepdims: bool = False) -> Array:
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


def ptp(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Largest minus smallest element over axes."""
    return lax.sub(max(a, axis=axis, keepdims=keepdims), min(a, axis=axis, keepdims=keepdims))
