"""Running sums and products of `braze.numpy`, with and without NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from braze import dtypes, errors
from braze.core import typeof
from braze.dtypes import DType
from braze.lax import lax, windowed
from braze.numpy.promotion import check_arrays, without_out
from braze.numpy.reductions import widened
from braze.stages import composed

Array = Any
ArrayLike = Any


def _running(
    name: str,
    of: Callable[..., Array],
    a: ArrayLike,
    axis: int | None,
    dtype: Any,
    *,
    nan: int | None = None,
    widens: bool = False,
) -> Array:
    """`nan` replaces NaN; `widens` says whether narrow integers become the default integer."""
    check_arrays(name, a)
    t = typeof(a)
    if axis is None or t.ndim == 0:
        a, axis = lax.reshape(a, (t.size,)), axis or 0
    if nan is not None and dtypes.is_inexact(t.dtype):
        a = lax.select(lax.ne(a, a), lax.full_like(a, nan), a)
    wanted = t.dtype if dtype is None else dtypes.canonical(dtype)
    if dtype is None and (widens or t.dtype == dtypes.BOOL):
        wanted = widened(t.dtype)
    within: DType = wanted
    if wanted == dtypes.BOOL:
        within = dtypes.default_int()
        a = a if t.dtype == dtypes.BOOL else lax.ne(a, 0)
    found = of(lax.as_dtype(a, within), axis)
    return lax.as_dtype(found, wanted)


@composed("axis", "dtype")
def cumsum(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """Sums of all elements up to each one along an axis, of the flat array without one.

    >>> import braze.numpy as bnp
    >>> bnp.cumsum(bnp.array([[1, 2], [3, 4]]), axis=0)
    Array([[1, 2],
           [4, 6]], dtype=int32)
    """
    without_out("cumsum", out)
    return _running("cumsum", windowed.cumsum, a, axis, dtype)


@composed("axis", "dtype")
def cumprod(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """Products of all elements up to each one along an axis, of the flat array without one."""
    without_out("cumprod", out)
    return _running("cumprod", windowed.cumprod, a, axis, dtype)


@composed("axis", "dtype")
def nancumsum(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """`cumsum` with NaN as 0."""
    without_out("nancumsum", out)
    return _running("nancumsum", windowed.cumsum, a, axis, dtype, nan=0)


@composed("axis", "dtype")
def nancumprod(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """`cumprod` with NaN as 1."""
    without_out("nancumprod", out)
    return _running("nancumprod", windowed.cumprod, a, axis, dtype, nan=1)


@composed("axis", "dtype", "include_initial")
def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Sums of all elements up to each one along an axis, after a 0 with `include_initial`.

    Raises: ShapeError without an axis for an array that has not exactly one.
    """
    return _standard("cumulative_sum", windowed.cumsum, x, axis, dtype, 0, include_initial)


@composed("axis", "dtype", "include_initial")
def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Products of all elements up to each one along an axis, after a 1 with `include_initial`.

    Raises: ShapeError without an axis for an array that has not exactly one.
    """
    return _standard("cumulative_prod", windowed.cumprod, x, axis, dtype, 1, include_initial)


def _standard(
    name: str, of: Callable[..., Array], x: ArrayLike, axis: int | None, dtype: Any, first: int, initial: bool
) -> Array:
    """As the Array API standard has it."""
    check_arrays(name, x)
    t = typeof(x)
    if t.ndim == 0 or (axis is None and t.ndim != 1):
        raise errors.ShapeError(
            f"{name}: an axis is wanted for an array of {t.ndim} axes; only arrays of one axis need none."
        )
    along = lax.canonical_axis(axis or 0, t.ndim)
    found = _running(name, of, x, along, dtype, widens=True)
    if not initial:
        return found
    result = typeof(found)
    sizes = (*result.shape[:along], 1, *result.shape[along + 1 :])
    return lax.concatenate([lax.full(sizes, first, result.dtype), found], along)
