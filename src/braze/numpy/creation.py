"""Functions of `braze.numpy` that make arrays: from values, from sizes, from ranges."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from braze import dtypes, errors
from braze.array import device_put, is_array
from braze.core import Tracer, typeof
from braze.lax import lax
from braze.numpy import shape as shapes
from braze.numpy.promotion import promote

Array = Any
ArrayLike = Any


def array(
    object: Any, dtype: Any = None, *, copy: bool | None = True, order: str = "K", ndmin: int = 0
) -> Array:
    """An array of numbers, nested sequences of them, arrays or tracers.

    Dtypes:  as named; Python floats and ints become the default types, NumPy arrays keep theirs.
    Raises:  IntegerOverflowError for a Python int that does not fit; DTypeError for what is no number.

    >>> array([1.0, 2.0])
    Array([1., 2.], dtype=float32)
    """
    if order not in ("K", "C", "A", None):
        raise errors.ArgumentError(f"array: arrays of braze are in C order, {order!r} was given.")
    wanted = None if dtype is None else dtypes.canonical(dtype)
    result = _from_object(object, wanted, bool(copy))
    rank = typeof(result).ndim
    return result if rank >= ndmin else lax.reshape(result, (1,) * (ndmin - rank) + typeof(result).shape)


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: bool | None = None) -> Array:
    """Like `array`, but shares memory with a contiguous NumPy array instead of copying it."""
    return array(a, dtype, copy=bool(copy), order=order)


def from_dlpack(x: Any, /, *, copy: bool | None = None) -> Array:
    """An array over the memory of another library's array, which must not be written from then on."""
    if not hasattr(x, "__dlpack__"):
        raise errors.ArgumentError(f"from_dlpack: a value of type {type(x).__name__} has no __dlpack__.")
    return device_put(np.from_dlpack(x), copy=bool(copy))


def _from_object(value: Any, dtype: dtypes.DType | None, copy: bool) -> Array:
    if isinstance(value, Tracer) or is_array(value):
        t = typeof(value)
        if dtype is None or (dtype == t.dtype and not t.weak_type):
            return value.copy() if copy and not isinstance(value, Tracer) else value
        return lax.as_dtype(value, dtype)
    if lax.is_scalar(value):
        return device_put(value if dtype is None else lax.as_dtype(value, dtype))
    if isinstance(value, list | tuple):
        return _from_sequence(value, dtype)
    if isinstance(value, np.ndarray | np.generic):
        typeof(value)  # refuses what has no type, masked arrays too
        found = np.asarray(value)
        return _from_numpy(found, dtype, copy)
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
        return _from_numpy(np.asarray(value), dtype, copy)
    try:
        buffer = memoryview(value)
    except TypeError:
        raise errors.DTypeError(
            f"array: a value of type {type(value).__name__} is no array.",
            hint="pass numbers, nested lists of numbers, or an array.",
        ) from None
    return _from_numpy(np.asarray(buffer), dtype, copy)


def _from_numpy(value: np.ndarray[Any, Any], dtype: dtypes.DType | None, copy: bool) -> Array:
    found = dtypes.canonical(value.dtype)
    result = device_put(np.ascontiguousarray(value, dtype=found).reshape(value.shape), copy=copy)
    return result if dtype is None or dtype == found else lax.as_dtype(result, dtype)


def _from_sequence(value: Sequence[Any], dtype: dtypes.DType | None) -> Array:
    leaves: list[Any] = []
    shape = _flatten(value, leaves, ())
    if any(isinstance(leaf, Tracer) or is_array(leaf) for leaf in leaves):
        return _stacked(leaves, shape, dtype)
    if not leaves:
        return device_put(np.zeros(shape, dtypes.default_float() if dtype is None else dtype))
    if dtype is None:
        dtype, _ = dtypes.promote((t.dtype, t.weak_type) for t in {typeof(leaf): None for leaf in leaves})
    for leaf in leaves:
        if isinstance(leaf, int) and not isinstance(leaf, bool):
            dtypes.check_fits(leaf, dtype)
    with np.errstate(over="ignore"):
        flat = np.asarray(leaves) if dtype.kind != "i" else np.asarray(leaves, dtype=object)
        return device_put(flat.astype(dtype).reshape(shape))


def _flatten(value: Sequence[Any], leaves: list[Any], path: tuple[int, ...]) -> tuple[int, ...]:
    """Append the scalars of nested sequences; returns their shape. Raises ShapeError for a ragged one."""
    shapes_seen = []
    for position, item in enumerate(value):
        if isinstance(item, list | tuple):
            shapes_seen.append(_flatten(item, leaves, (*path, position)))
        elif isinstance(item, np.ndarray) and item.ndim:
            shapes_seen.append(item.shape)
            leaves.extend(item.reshape(-1))
        elif isinstance(item, bool | int | float | complex | np.generic | np.ndarray):
            shapes_seen.append(())
            leaves.append(item[()] if isinstance(item, np.ndarray) else item)
        elif isinstance(item, Tracer) or is_array(item):
            shapes_seen.append(item.aval.shape)
            leaves.append(item)
        else:
            where = "".join(f"[{p}]" for p in (*path, position))
            raise errors.DTypeError(f"array: element {where} is a {type(item).__name__}, which is no number.")
    if len(set(shapes_seen)) > 1:
        where = "".join(f"[{p}]" for p in path) or "the sequence"
        raise errors.ShapeError(
            f"array: the parts of {where} have shapes {' and '.join(str(s) for s in sorted(set(shapes_seen)))}; "
            "an array has one size per axis.",
            hint="pad the shorter parts, or keep them as a list of arrays.",
        )
    return (len(value), *(shapes_seen[0] if shapes_seen else ()))


def _stacked(leaves: list[Any], shape: tuple[int, ...], dtype: dtypes.DType | None) -> Array:
    """Arrays and tracers among the leaves: stacked along one new axis, then shaped."""
    inner = typeof(leaves[0]).shape
    outer = shape[: len(shape) - len(inner)]
    stacked = shapes.stack([leaf if dtype is None else lax.as_dtype(leaf, dtype) for leaf in leaves])
    return lax.reshape(stacked, (*outer, *inner))


def shape_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    """A shape from an int or a sequence of ints. Raises ShapeError for negative sizes."""
    given = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    try:
        sizes = tuple(n.__index__() for n in given)
    except AttributeError:
        raise errors.ArgumentError(f"shape: integers are wanted, {shape!r} was given.") from None
    if any(n < 0 for n in sizes):
        raise errors.ShapeError(f"shape: sizes are not negative, {sizes} was given.")
    return sizes


def full(shape: int | Sequence[int], fill_value: ArrayLike, dtype: Any = None) -> Array:
    """An array of one value, which broadcasts to the shape."""
    sizes = shape_of(shape)
    if typeof(fill_value).ndim == 0:
        return lax.full(sizes, fill_value, dtype)
    value = asarray(fill_value, dtype)
    return shapes.broadcast_to(value, sizes)


def zeros(shape: int | Sequence[int], dtype: Any = None) -> Array:
    """An array of zeros, of the default float unless a dtype is named."""
    return lax.full(shape_of(shape), 0, dtypes.default_float() if dtype is None else dtype)


def ones(shape: int | Sequence[int], dtype: Any = None) -> Array:
    """An array of ones, of the default float unless a dtype is named."""
    return lax.full(shape_of(shape), 1, dtypes.default_float() if dtype is None else dtype)


empty = zeros


def zeros_like(a: ArrayLike, dtype: Any = None, shape: Any = None) -> Array:
    """Zeros of the shape and dtype of a unless given."""
    return lax.full_like(a, 0, dtype, None if shape is None else shape_of(shape))


def ones_like(a: ArrayLike, dtype: Any = None, shape: Any = None) -> Array:
    """Ones of the shape and dtype of a unless given."""
    return lax.full_like(a, 1, dtype, None if shape is None else shape_of(shape))


def full_like(a: ArrayLike, fill_value: ArrayLike, dtype: Any = None, shape: Any = None) -> Array:
    """One value in the shape and dtype of a unless given."""
    return lax.full_like(a, fill_value, dtype, None if shape is None else shape_of(shape))


def empty_like(prototype: ArrayLike, dtype: Any = None, shape: Any = None) -> Array:
    """Zeros of the shape and dtype of the prototype unless given."""
    return zeros_like(prototype, dtype, shape)


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Array:
    """start, start + step, … up to but without stop; `arange(n)` counts from 0.

    Raises: ConcretizationError where a bound is known only at run time, since sizes are static.
    """
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    for name, bound in (("start", start), ("stop", stop), ("step", step)):
        if isinstance(bound, Tracer) and bound.concrete is None:
            raise errors.ConcretizationError(
                f"arange: {name} is known only when the program runs, but sizes are static.",
                hint="make it a Python number, for instance by static_argnums, or index with iota and a mask.",
            )
    given = [b.concrete if isinstance(b, Tracer) else b for b in (start, stop, step)]
    values = [b if lax.is_scalar(b) else np.asarray(b)[()] for b in given]
    if values[2] == 0:
        raise errors.ArgumentError("arange: step is not zero.")
    if dtype is None:
        dtype, _ = dtypes.promote((t.dtype, t.weak_type) for t in map(typeof, values))
    dtype = dtypes.canonical(dtype)
    size = max(0, math.ceil((values[1] - values[0]) / values[2]))
    counted = lax.iota(dtype, size)
    if values[2] != 1:
        counted = lax.mul(counted, lax.as_dtype(values[2], dtype))
    return counted if values[0] == 0 else lax.add(counted, lax.as_dtype(values[0], dtype))


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """num evenly spaced numbers from start to stop, stop included unless `endpoint` is False.

    Args:
        retstep: return a pair with the step.
        axis: of the result, along which the numbers lie where start and stop are arrays.
    """
    count = operator.index(num)
    if count < 0:
        raise errors.ArgumentError(f"linspace: num is not negative, {num} was given.")
    low, high = promote("linspace", start, stop, inexact=True)
    inner = typeof(low).dtype
    wanted = inner if dtype is None else dtypes.canonical(dtype)
    low, high = shapes.broadcast_arrays(lax.as_dtype(low, inner), lax.as_dtype(high, inner))
    points, step = _spaced(low, high, count, count - 1 if endpoint else count)
    if not dtypes.is_inexact(wanted):
        points = lax.floor(points)
    points = shapes.moveaxis(lax.as_dtype(points, wanted), 0, axis)
    return (points, step) if retstep else points


def _spaced(low: Array, high: Array, count: int, parts: int) -> tuple[Array, Array]:
    """The points along a new leading axis, and their distance."""
    t = typeof(low)
    if parts <= 0:
        return lax.broadcast(low, (count,)), lax.full_like(low, math.nan)
    divisor = lax.as_dtype(float(parts), t.dtype)
    ratio = lax.div(lax.iota(t.dtype, count), divisor)
    ratio = lax.broadcast_in_dim(ratio, (count,) + (1,) * t.ndim, (0,))
    low_rows, high_rows = (lax.broadcast(v, (1,)) for v in (low, high))
    # Weighted from both ends, so that the last number is stop exactly.
    rest = lax.sub(lax.full_like(ratio, 1), ratio)
    return lax.add(lax.mul(low_rows, rest), lax.mul(high_rows, ratio)), lax.div(lax.sub(high, low), divisor)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Array:
    """Ones on a diagonal, zeros elsewhere; k counts diagonals up from the main one."""
    wanted = dtypes.default_float() if dtype is None else dtypes.canonical(dtype)
    sizes = (N, N if M is None else M)
    rows, columns = (lax.broadcasted_iota(dtypes.I32, sizes, d) for d in (0, 1))
    return lax.as_dtype(lax.eq(lax.add(rows, k), columns), wanted)


def identity(n: int, dtype: Any = None) -> Array:
    """The identity matrix."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Array:
    """Ones at and below a diagonal, zeros above."""
    wanted = dtypes.default_float() if dtype is None else dtypes.canonical(dtype)
    sizes = (N, N if M is None else M)
    rows, columns = (lax.broadcasted_iota(dtypes.I32, sizes, d) for d in (0, 1))
    return lax.as_dtype(lax.ge(lax.add(rows, k), columns), wanted)


def tril(m: ArrayLike, k: int = 0) -> Array:
    """The matrix with zeros above a diagonal."""
    return _triangle(m, k, lower=True)


def triu(m: ArrayLike, k: int = 0) -> Array:
    """The matrix with zeros below a diagonal."""
    return _triangle(m, k - 1, lower=False)


def _triangle(m: ArrayLike, k: int, lower: bool) -> Array:
    t = typeof(m)
    if t.ndim < 2:
        raise errors.ShapeError("tril, triu: a matrix or a stack of them is wanted.", values=f"operand {t}")
    rows, columns = (lax.broadcasted_iota(dtypes.I32, t.shape, d) for d in (t.ndim - 2, t.ndim - 1))
    below = lax.ge(lax.add(rows, k), columns)
    zero = lax.full(t.shape, 0, t.dtype)
    return lax.select(below, m, zero) if lower else lax.select(below, zero, m)


def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Array]:
    """Coordinate grids of vectors: of rows and columns (`xy`) or of axes in order (`ij`).

    Args:
        copy: accepted for NumPy's sake; results share no memory that anyone can write.
        sparse: leave the grids at size 1 along the other axes.
    """
    if indexing not in ("xy", "ij"):
        raise errors.ArgumentError(f"meshgrid: indexing is 'xy' or 'ij', {indexing!r} was given.")
    types = [typeof(x) for x in xi]
    order = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        order[0], order[1] = 1, 0
    sizes = [0] * len(xi)
    for t, axis in zip(types, order, strict=True):
        sizes[axis] = t.size
    grids = []
    for x, t, axis in zip(xi, types, order, strict=True):
        shape = [t.size if d == axis else 1 for d in range(len(xi))] if sparse else sizes
        grids.append(lax.broadcast_in_dim(lax.reshape(x, (t.size,)), shape, (axis,)))
    return grids
