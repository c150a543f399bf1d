"""What a running program calls back: Python functions behind `braze_host`.

A `Host` step hands over the number of a callback and two arrays of data pointers. The functions get copies of
their operands as NumPy arrays, which they may keep; what they return is checked against the types that were
promised when the program was traced, and copied into place. An exception leaves the program at once: it stays
set in the thread, with the user's traceback, until the call has returned.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braze.errors import DTypeError, ShapeError
from braze.record import Record
from braze.types import TensorType

Array = np.ndarray[Any, Any]


@dataclass(slots=True, eq=False, repr=False)
class HostCallback(Record):
    """A Python function that a program calls.

    Attributes:
        function: called with one array per operand; returns the results as a sequence, or one array, or None.
        operands, results: their types.
    """

    function: Callable[..., Any]
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...] = ()


class Host:
    """The callable that native code knows: `host(callback, operands, results)`."""

    __slots__ = ("callbacks",)

    def __init__(self, callbacks: Sequence[HostCallback]) -> None:
        self.callbacks = tuple(callbacks)

    def __call__(self, number: int, operands: int, results: int) -> None:
        callback = self.callbacks[number]
        read = _pointers(operands, len(callback.operands))
        values = callback.function(*[view(at, t).copy() for at, t in zip(read, callback.operands)])
        if not callback.results:
            return
        write = _pointers(results, len(callback.results))
        for at, type_, value in zip(write, callback.results, _results(values, callback)):
            view(at, type_)[...] = value


def _pointers(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(address)) if count else []


def view(address: int, type_: TensorType) -> Array:
    """The memory at an address as an array that does not own it."""
    if type_.nbytes == 0:
        return np.empty(type_.shape, type_.dtype)
    memory = (ctypes.c_uint8 * type_.nbytes).from_address(address)
    return np.frombuffer(memoryview(memory), np.uint8).view(type_.dtype).reshape(type_.shape)


def _results(values: Any, callback: HostCallback) -> list[Array]:
    """What a callback returned, as arrays of the promised types."""
    name = getattr(callback.function, "__name__", "callback")
    given = list(values) if isinstance(values, tuple | list) else [values]
    if len(given) != len(callback.results):
        raise ShapeError(
            f"callback {name}: it returned {len(given)} values and {len(callback.results)} were promised."
        )
    arrays = [np.asarray(value) for value in given]
    for i, (array, type_) in enumerate(zip(arrays, callback.results)):
        if array.shape != type_.shape:
            raise ShapeError(
                f"callback {name}: result {i} has shape {array.shape}, and {type_.shape} was promised."
            )
        if not np.can_cast(array.dtype, type_.dtype, casting="same_kind"):
            raise DTypeError(
                f"callback {name}: result {i} has dtype {array.dtype}, and {type_} was promised."
            )
    return arrays
