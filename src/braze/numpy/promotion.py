"""Implicit conversion and broadcasting of `braze.numpy`: JAX's rules in one place.

A function of several arrays first brings them to one dtype (`promote_dtypes`, JAX's lattice) and one rank
(`promote_shapes`); axes of size 1 and scalars are left to the operations, which broadcast them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braze import dtypes, errors
from braze.core import Tracer, typeof
from braze.dtypes import DType
from braze.lax import lax

Array = Any
ArrayLike = Any


def check_arrays(name: str, *values: Any) -> None:
    """Raise for what is no array: lists and strings in the place of arrays."""
    for position, value in enumerate(values):
        if isinstance(value, Tracer | np.ndarray | np.generic | bool | int | float | complex):
            continue
        if hasattr(type(value), "aval"):
            continue
        raise errors.DTypeError(
            f"{name}: arrays or scalars are wanted, argument {position} is a {type(value).__name__}.",
            hint="make an array of it first, with braze.numpy.array.",
        )


def without_out(name: str, out: object) -> None:
    """Raise unless the `out` that NumPy takes is None: arrays are not written in place."""
    if out is not None:
        raise errors.ArgumentError(f"{name}: arrays of braze are not written in place, so out must be None.")


def result_type(*values: ArrayLike) -> tuple[DType, bool]:
    """The dtype at which values meet, and whether it is weak."""
    types = [typeof(v) for v in values]
    return dtypes.promote((t.dtype, t.weak_type) for t in types)


def promote_dtypes(*values: ArrayLike) -> list[ArrayLike]:
    """Values in their common dtype."""
    dtype, weak = result_type(*values)
    return [lax.as_dtype(v, dtype, weak) for v in values]


def promote_shapes(name: str, *values: ArrayLike) -> list[ArrayLike]:
    """Values of one rank; scalars stay scalars. Raises ShapeError where shapes do not broadcast."""
    shapes = [typeof(v).shape for v in values]
    ranks = {len(s) for s in shapes if s}
    broadcast_shapes(name, *shapes)
    if len(ranks) < 2:
        return list(values)
    rank = max(ranks)
    return [_to_rank(v, s, rank) for v, s in zip(values, shapes, strict=True)]


def _to_rank(value: ArrayLike, shape: tuple[int, ...], rank: int) -> ArrayLike:
    if not shape or len(shape) == rank:
        return value
    new = rank - len(shape)
    return lax.broadcast_in_dim(value, (1,) * new + shape, range(new, rank))


def broadcast_shapes(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape at which shapes meet by NumPy's rule."""
    rank = max((len(s) for s in shapes), default=0)
    result = []
    for axis in range(rank):
        sizes = [s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0]
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            raise errors.ShapeError(
                f"{name}: shapes {' and '.join(str(s) for s in shapes)} do not broadcast: "
                f"axis {axis - rank} has sizes {' and '.join(map(str, sizes))}, which are neither equal nor 1.",
                hint="insert an axis with x[:, None], or transpose one of them.",
            )
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def promote(name: str, *values: ArrayLike, inexact: bool = False) -> list[ArrayLike]:
    """Common dtype and rank: what every elementwise function of several arrays begins with."""
    try:
        types = [typeof(v) for v in values]
    except errors.DTypeError:
        check_arrays(name, *values)
        raise
    first = types[0]
    fits = not lax.is_scalar(values[0]) and (not inexact or dtypes.is_inexact(first.dtype))
    if fits and len(values) > 1 and all(t is first for t in types):
        return list(values)
    dtype, weak = dtypes.promote((t.dtype, t.weak_type) for t in types)
    if inexact and not dtypes.is_inexact(dtype):
        dtype = dtypes.default_float()
    converted = [lax.as_dtype(v, dtype, weak) for v in values]
    shapes = {t.shape for t in types if t.shape}
    return converted if len(shapes) < 2 else promote_shapes(name, *converted)


def as_axes(axis: int | tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """Non-negative axes in order; None means all of them. Raises ShapeError for repeats and strangers."""
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = tuple(lax.canonical_axis(a, rank) for a in given)
    if len(set(axes)) != len(axes):
        raise errors.ShapeError(f"axis: {axis} names an axis twice.")
    return tuple(sorted(axes))
