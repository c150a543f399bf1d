"""The array as a Python class over an ndarray, for interpreters that the machine-code type does not know.

The ndarray is never handed out itself: `numpy` gives views of it, whose base it is. So its reference count
tells how many views there are, and its memory goes when the array and they are gone.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from braze.runtime.deleted import Deleted, raise_deleted
from braze.types import TensorType


class Array:
    """An array; its operators and methods are set from outside, as on the machine-code type."""

    __slots__ = ("__weakref__", "_data", "_owned", "_state")
    __module__ = "braze"

    _data: np.ndarray[Any, Any] | None
    _owned: bool
    _state: TensorType | Deleted

    def __new__(cls, *args: object, **kwargs: object) -> Array:
        raise TypeError("cannot create 'braze.Array' instances")

    @property
    def aval(self) -> TensorType:
        """The type of the array."""
        state = self._state
        if isinstance(state, Deleted):
            raise_deleted(self)
        return state  # type: ignore[return-value]

    if sys.version_info >= (3, 12):

        def __buffer__(self, flags: int) -> memoryview:
            return _view(self, False).__buffer__(flags)


def _make(aval: TensorType, data: np.ndarray[Any, Any], owned: bool) -> Array:
    made: Array = object.__new__(Array)
    made._state, made._data, made._owned = aval, data, owned
    return made


def _view(array: Array, writable: bool) -> np.ndarray[Any, Any]:
    if array._data is None:
        raise_deleted(array)
    assert array._data is not None, "raised above"
    view = array._data.view()
    view.flags.writeable = writable and array._data.flags.writeable
    return view


class PythonArrays:
    """The implementation of `array.Arrays` in Python; see there for what each function does."""

    name = "python"
    kind: type = Array

    def empty(self, aval: TensorType) -> Array:
        return _make(aval, np.empty(aval.shape, aval.dtype), True)

    def wrap(self, aval: TensorType, source: np.ndarray[Any, Any]) -> Array:
        return _make(aval, source, False)

    def copy(self, aval: TensorType, source: np.ndarray[Any, Any]) -> Array:
        return _make(aval, source.copy(), True)

    def address(self, array: Array) -> int:
        return 0 if array._data is None else int(array._data.__array_interface__["data"][0])

    def numpy(self, array: Array, writable: bool = False) -> np.ndarray[Any, Any]:
        return _view(array, writable)

    def owns_memory(self, array: Array) -> bool:
        return array._owned

    def state(self, array: Array) -> object:
        return array._state

    def readers(self, array: Array) -> int:
        # One reference is the array's, one the argument of getrefcount.
        return 0 if array._data is None else sys.getrefcount(array._data) - 2

    def delete(self, array: Array, marker: Deleted) -> None:
        array._state, array._data = marker, None

    def take(self, array: Array, aval: TensorType) -> Array | None:
        data = array._data
        # As `readers`, and the local variable.
        if data is None or not array._owned or sys.getrefcount(data) > 3:
            return None
        array._data = None
        return _make(aval, data.reshape(aval.shape), True)
