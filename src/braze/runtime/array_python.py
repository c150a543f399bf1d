"""The array as a Python class over an ndarray, for interpreters that the machine-code type does not know.

The ndarray is read only and never handed out itself: `numpy` gives views of it, whose base it is. So its
reference count tells how many views there are, and its memory goes when the array and they are gone.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np

from braze.runtime.deleted import Deleted, raise_deleted, raise_out_of_memory
from braze.types import TensorType


class Array:
    """An array; its operators and methods are set from outside, as on the machine-code type."""

    __slots__ = ("__weakref__", "_address", "_data", "_owned", "_state")
    __module__ = "braze"

    _address: int | None  # found when asked for, which takes NumPy a microsecond
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
        return state

    if sys.version_info >= (3, 12):

        def __buffer__(self, flags: int) -> memoryview:
            return _view(self, False).__buffer__(flags)


def _make(aval: TensorType, data: np.ndarray[Any, Any], owned: bool) -> Array:
    made: Array = object.__new__(Array)
    made._state, made._data, made._owned, made._address = aval, data, owned, None
    return made


def _view(array: Array, writable: bool) -> np.ndarray[Any, Any]:
    data = array._data
    if data is None:
        raise_deleted(array)
    if writable and array._owned:
        data.flags.writeable = True  # a view keeps what its base says at this moment
        view = data.view()
        data.flags.writeable = False
        return view
    view = data.view()
    if writable:
        with contextlib.suppress(ValueError):  # the owner has made it read only
            view.flags.writeable = True
    return view


class PythonArrays:
    """The implementation of `array.Arrays` in Python; see there for what each function does."""

    name = "python"
    kind: type = Array

    def empty(self, aval: TensorType) -> Array:
        try:
            data = np.empty(aval.shape, aval.dtype)
        except MemoryError:
            raise_out_of_memory(aval.nbytes)
        data.flags.writeable = False
        return _make(aval, data, True)

    def wrap(self, aval: TensorType, source: np.ndarray[Any, Any]) -> Array:
        data = source.view()
        data.flags.writeable = False
        return _make(aval, data, False)

    def copy(self, aval: TensorType, source: np.ndarray[Any, Any]) -> Array:
        made = self.empty(aval)
        np.copyto(_view(made, True), source)
        return made

    def address(self, array: Array) -> int:
        if array._address is None:
            assert array._data is not None, "`delete` and `take` set the address"
            array._address = int(array._data.__array_interface__["data"][0])
        return array._address

    def numpy(self, array: Array) -> np.ndarray[Any, Any]:
        return _view(array, False)

    def writable(self, array: Array) -> np.ndarray[Any, Any]:
        return _view(array, True)

    def owns_memory(self, array: Array) -> bool:
        return array._owned

    def state(self, array: Array) -> object:
        return array._state

    def readers(self, array: Array) -> int:
        # One reference is the array's, one the argument of getrefcount.
        return 0 if array._data is None else sys.getrefcount(array._data) - 2

    def delete(self, array: Array, marker: Deleted) -> None:
        array._state, array._data, array._address = marker, None, 0

    def take(self, array: Array, aval: TensorType) -> Array | None:
        data = array._data
        # As in `readers`, and the local variable.
        if data is None or not array._owned or sys.getrefcount(data) > 3:
            return None
        if data.shape != aval.shape or data.dtype != aval.dtype:
            return None  # a view of it would own nothing
        array._data, array._address = None, 0
        return _make(aval, data, True)
