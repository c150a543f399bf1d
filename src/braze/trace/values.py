"""The few operations that transformations apply of their own accord, on any value.

Invariant: all of them bind, so they run, or are staged, or are transformed like the user's operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braze import core, dtypes
from braze.core import bind, typeof
from braze.ops import elementwise, reduce, shape
from braze.types import TensorType


class Zero:
    """A tangent or cotangent that is zero, without a value.

    Attributes:
        type: its type; the dtype is float0 where the primal is no float.
    """

    __slots__ = ("type",)

    def __init__(self, type: TensorType) -> None:
        self.type = type

    def __repr__(self) -> str:
        return f"Zero({self.type})"


def tangent_type(type: TensorType) -> TensorType:
    """The type of the tangents of values of a type."""
    dtype = dtypes.tangent_dtype(type.dtype)
    return type if dtype == type.dtype else TensorType(type.shape, dtype)


def zero_of(value: Any) -> Zero:
    """The zero tangent of a value."""
    return Zero(tangent_type(typeof(value)))


def full(type: TensorType, scalar: Any) -> Any:
    """A value of a type with one number in every element."""
    filled = np.asarray(scalar, type.dtype)[()]
    if not type.shape:
        return filled
    return bind(shape.broadcast_in_dim, filled, shape=type.shape, broadcast_dimensions=())


def instantiate(tangent: Any) -> Any:
    """The value of a tangent: zeros where it is symbolic."""
    if not isinstance(tangent, Zero):
        return tangent
    if tangent.type.dtype == dtypes.FLOAT0:
        return np.zeros(tangent.type.shape, dtypes.FLOAT0)
    return full(tangent.type, 0)


def add(x: Any, y: Any) -> Any:
    """The sum of two tangents of one space."""
    if isinstance(x, Zero):
        return y
    if isinstance(y, Zero):
        return x
    return bind(elementwise.add, x, y)


def broadcast_to(x: Any, to: Sequence[int]) -> Any:
    """A scalar, or a value with axes of size 1, at a full shape of its rank."""
    to = tuple(to)
    old = typeof(x).shape
    if old == to:
        return x
    dimensions = tuple(range(len(to))) if old else ()
    return bind(shape.broadcast_in_dim, x, shape=to, broadcast_dimensions=dimensions)


def unbroadcast(x: Any, to: Sequence[int]) -> Any:
    """The transpose of `broadcast_to`: sum over the axes that were repeated."""
    to = tuple(to)
    old = typeof(x).shape
    if old == to:
        return x
    axes = tuple(range(len(old))) if not to else tuple(i for i, (n, m) in enumerate(zip(old, to)) if n != m)
    summed = bind(reduce.reduce_sum, x, axes=axes)
    return summed if not to else bind(shape.reshape, summed, shape=to)


def moveaxis(x: Any, source: int, destination: int) -> Any:
    """One axis moved to another place."""
    if source == destination:
        return x
    order = [i for i in range(typeof(x).ndim) if i != source]
    order.insert(destination, source)
    return bind(shape.transpose, x, permutation=tuple(order))


def repeat(x: Any, size: int, axis: int = 0) -> Any:
    """A value repeated along a new axis."""
    old = typeof(x).shape
    dimensions = tuple(i for i in range(len(old) + 1) if i != axis)
    return bind(
        shape.broadcast_in_dim, x, shape=(*old[:axis], size, *old[axis:]), broadcast_dimensions=dimensions
    )


def convert(x: Any, type: TensorType) -> Any:
    """A value in the dtype of a type; shapes are left."""
    if typeof(x).dtype == type.dtype:
        return x
    return bind(elementwise.convert_element_type, x, new_dtype=type.dtype, weak_type=False)


def as_array(x: Any) -> Any:
    """What a transformation hands to its caller: Python scalars and NumPy values become arrays."""
    if (
        isinstance(x, core.Tracer)
        or core.is_tracing()
        or not isinstance(x, int | float | complex | np.generic | np.ndarray)
    ):
        return x
    type = typeof(x)
    if type.dtype == dtypes.FLOAT0:
        return x
    return bind(elementwise.convert_element_type, x, new_dtype=type.dtype, weak_type=type.weak_type)
