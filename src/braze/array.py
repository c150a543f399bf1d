"""`braze.Array`, and moving values between Python and arrays.

`Array` is an abstract class: concrete arrays of both kinds (`runtime/array`) and tracers are instances of
it, so that `isinstance(x, braze.Array)` holds inside and outside `jit`.
"""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from braze import dtypes, errors, tree
from braze.core import Tracer
from braze.runtime import array as arrays
from braze.types import TensorType


class _ArrayMeta(abc.ABCMeta):
    """Instances are concrete arrays and tracers; the concrete types appear at first use."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tracer) or arrays.is_array(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, Tracer) or subclass in arrays.array_types()


class Array(metaclass=_ArrayMeta):
    """An array of braze: concrete, or a tracer that stands for one. Make one with `braze.numpy.array`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Array:
        raise errors.ArgumentError(
            "Array: it is not made by calling its type.", hint="use braze.numpy.array."
        )


def is_array(value: object) -> bool:
    """Whether a value is a concrete array of braze."""
    return arrays.is_array(value)


def _put(value: Any, copy: bool) -> Any:
    if isinstance(value, Tracer) or arrays.is_array(value):
        return value
    if isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic):
        dtype = dtypes.scalar_dtype(value)
        aval = TensorType((), dtype, weak_type=not isinstance(value, bool))
        return arrays.from_numpy(np.asarray(value).astype(dtype), copy=True, aval=aval)
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        return arrays.from_numpy(np.asarray(value), copy=copy)
    raise errors.DTypeError(
        f"device_put: a value of type {type(value).__name__} is not an array.",
        hint="pass arrays, scalars, or containers of them registered as pytrees.",
    )


def device_put(x: Any, device: Any = None, *, copy: bool = True) -> Any:
    """Arrays of braze with the values of a pytree of arrays and scalars.

    Args:
        device: accepted for JAX's sake; there is one device, the CPU.
        copy: whether NumPy arrays are copied or shared (then they must not be written afterwards).
    """
    if not isinstance(x, dict | list | tuple):
        return _put(x, copy)
    return tree.map(lambda leaf: _put(leaf, copy), x)


def device_get(x: Any) -> Any:
    """NumPy arrays with the values of a pytree of arrays; other leaves stay."""
    return tree.map(lambda leaf: np.asarray(leaf) if arrays.is_array(leaf) else leaf, x)


def block_until_ready(x: Any) -> Any:
    """x itself: calls are synchronous, so its values exist. Raises DeletedArrayError for deleted arrays."""
    for leaf in tree.leaves(x):
        if arrays.is_array(leaf):
            arrays.address(leaf)
    return x
