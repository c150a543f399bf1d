"""Arrays: memory with a type. Two types under one set of functions, in machine code and in Python.

The machine-code type is made at first use (`array_native`); where this interpreter is not known, or LLVM is
missing, the Python class (`array_python`) takes its place. Operators and methods are set on both from
`numpy/methods.py` through `on_type`; here is only what touches memory.

Invariants:
- The memory of an array is never written after it was made, except by a call that it was donated to.
- What is handed out (`to_numpy`, buffers, DLPack) keeps the memory alive, also after `delete`.
- Memory of others (`from_numpy(copy=False)`, `from_dlpack`) is read only, and never donated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from braze import dtypes
from braze.runtime.array_python import PythonArrays
from braze.runtime.deleted import Deleted, raise_deleted
from braze.types import TensorType

NDArray = np.ndarray[Any, Any]


class Arrays(Protocol):
    """What an implementation of the array type provides."""

    name: str
    kind: type

    def empty(self, aval: TensorType) -> Any:
        """An array with memory of its own, contents undefined."""

    def wrap(self, aval: TensorType, source: NDArray) -> Any:
        """An array over the memory of a contiguous ndarray of this shape and dtype, which it keeps."""

    def copy(self, aval: TensorType, source: NDArray) -> Any:
        """An array with a copy of the bytes of such an ndarray."""

    def address(self, array: Any) -> int:
        """Where its memory is; 0 when it is gone."""

    def numpy(self, array: Any) -> NDArray:
        """A read-only ndarray over its memory; raises DeletedArrayError."""

    def writable(self, array: Any) -> NDArray:
        """The same without the flag, for filling new memory and for those who cannot read the flag."""

    def owns_memory(self, array: Any) -> bool:
        """Whether the memory is the array's own."""

    def state(self, array: Any) -> object:
        """Its TensorType, or the Deleted marker in its place."""

    def readers(self, array: Any) -> int:
        """How many views and running calls may read its memory."""

    def delete(self, array: Any, marker: Deleted) -> None:
        """Put the marker in place of the type and release the memory as soon as nobody reads it."""

    def take(self, array: Any, aval: TensorType) -> Any:
        """A new array with the memory of this one, or None if it is not its own, inline or being read."""


_PYTHON = PythonArrays()
_BY_TYPE: dict[type, Arrays] = {}
_INSTALLERS: list[Callable[[type], None]] = []
_CHOSEN: list[Arrays] = []


def implementation() -> Arrays:
    """The implementation that new arrays get; settled at first use."""
    if not _CHOSEN:
        from braze.runtime import native

        loaded = native.load()
        _CHOSEN.append(_PYTHON if loaded is None else _known(loaded.arrays))
    return _CHOSEN[0]


def python_implementation() -> Arrays:
    """The implementation in Python, whether it is in use or not."""
    return _PYTHON


def _known(made: Arrays) -> Arrays:
    if made.kind not in _BY_TYPE:
        _BY_TYPE[made.kind] = made
        for install in _INSTALLERS:
            install(made.kind)
    return made


def on_type(install: Callable[[type], None]) -> None:
    """Call `install(type)` for every concrete array type: now for those that exist, else when one is made."""
    _INSTALLERS.append(install)
    for kind in _BY_TYPE:
        install(kind)


def array_types() -> tuple[type, ...]:
    """The concrete array types that exist now."""
    return tuple(_BY_TYPE)


def is_array(value: object) -> bool:
    return type(value) in _BY_TYPE


# Making arrays.


def empty(aval: TensorType) -> tuple[Any, int]:
    """An array with undefined contents, and the address of its memory."""
    arrays = implementation()
    made = arrays.empty(aval)
    return made, arrays.address(made)


def from_numpy(source: Any, *, copy: bool, aval: TensorType | None = None) -> Any:
    """An array with the values of an ndarray or NumPy scalar.

    Args:
        copy: take the values; else share the memory of the ndarray, which must not be written from then on.
            Memory that is not contiguous, aligned and in native byte order is copied in any case.
        aval: the type where it is known: same shape and dtype, possibly weak.
    Raises: DTypeError for a dtype that braze does not have.
    """
    array = np.asarray(source)
    if aval is None:
        aval = TensorType(array.shape, dtypes.canonical(array.dtype))
    assert aval.shape == array.shape, f"a {aval} cannot have the shape {array.shape}"
    arrays = implementation()
    flags = array.flags
    if flags.c_contiguous and flags.aligned and array.dtype == aval.dtype:
        return arrays.copy(aval, array) if copy else arrays.wrap(aval, array)
    made = arrays.empty(aval)
    np.copyto(arrays.writable(made), array)
    return made


def from_dlpack(source: Any) -> Any:
    """An array over the memory of another library's array, without a copy where its layout allows."""
    return from_numpy(np.from_dlpack(source), copy=False)


# Looking at arrays.


def to_numpy(array: Any) -> NDArray:
    """A read-only ndarray over the array's memory, which it keeps alive.

    Raises: DeletedArrayError.
    """
    return _BY_TYPE[type(array)].numpy(array)


def address(array: Any) -> int:
    """Where the array's memory is.

    Raises: DeletedArrayError.
    """
    arrays = _BY_TYPE[type(array)]
    if isinstance(arrays.state(array), Deleted):
        raise_deleted(array)
    return arrays.address(array)


def state(array: Any) -> object:
    """The array's type, or the marker of a deleted array."""
    return _BY_TYPE[type(array)].state(array)


def is_deleted(array: Any) -> bool:
    return isinstance(state(array), Deleted)


def owns_memory(array: Any) -> bool:
    """Whether the memory is the array's own, so that it may be donated."""
    return _BY_TYPE[type(array)].owns_memory(array)


def readers(array: Any) -> int:
    """How many views, buffers and running calls read the array's memory now."""
    return _BY_TYPE[type(array)].readers(array)


# Giving memory away.


def delete(array: Any, reason: str = "was deleted") -> None:
    """Give up the array: every later use raises, and its memory goes as soon as nobody reads it."""
    arrays = _BY_TYPE[type(array)]
    before = arrays.state(array)
    if isinstance(before, TensorType):
        arrays.delete(array, Deleted(before, reason))


def donate(array: Any, receiver: str) -> None:
    """As `delete`, for an array that a call of `receiver` used up."""
    delete(array, f"was donated to {receiver}")


def take(array: Any, aval: TensorType, receiver: str) -> Any:
    """A new array in the memory of a donated one, which is deleted; None where the memory cannot be had."""
    arrays = _BY_TYPE[type(array)]
    before = arrays.state(array)
    if not isinstance(before, TensorType):
        raise_deleted(array)
    made = arrays.take(array, aval)
    if made is not None:
        arrays.delete(array, Deleted(before, f"was donated to {receiver}"))
    return made


# Protocols of other libraries, set on both types.


def _array(self: Any, dtype: Any = None, copy: bool | None = None) -> NDArray:
    view = to_numpy(self)
    if dtype is not None and view.dtype != dtype:
        if copy is False:
            raise ValueError(f"array: a {self.aval} cannot become {np.dtype(dtype)} without a copy.")
        return view.astype(dtype)
    return view.copy() if copy else view


def _dlpack(
    self: Any,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    # Before version 1.0 the protocol has no word for read-only memory and NumPy would refuse; everybody
    # exports such memory as it is, and so must we to be readable at all.
    arrays = _BY_TYPE[type(self)]
    view = arrays.writable(self) if max_version is None or max_version < (1, 0) else arrays.numpy(self)
    return view.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


def _dlpack_device(self: Any) -> tuple[int, int]:
    return (1, 0)  # kDLCPU


def restore(values: NDArray, weak_type: bool) -> Any:
    """The array that `pickle` took apart."""
    aval = TensorType(values.shape, values.dtype, weak_type)
    return from_numpy(values, copy=True, aval=aval)


def _reduce(self: Any) -> tuple[Any, ...]:
    return restore, (to_numpy(self).copy(), self.aval.weak_type)


def _install_protocols(kind: Any) -> None:
    kind.__array__ = _array
    kind.__dlpack__ = _dlpack
    kind.__dlpack_device__ = _dlpack_device
    kind.__reduce__ = _reduce


on_type(_install_protocols)
_known(_PYTHON)
