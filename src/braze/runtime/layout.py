"""Where CPython and NumPy keep the fields that machine code reads, found in the running process.

Offsets follow from sizes that Python itself reports, so one text serves every version. `check` compares each
of them with objects whose contents are known; a Python that it does not recognise gets the array and the
dispatcher written in Python.

Invariant: nothing here is taken from a header file without `check` proving it.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from dataclasses import dataclass
from functools import cache

import numpy as np

from braze import dtypes
from braze.record import Record
from braze.types import TensorType


@dataclass(slots=True, eq=False, repr=False)
class Layout(Record):
    """Byte offsets.

    Attributes:
        header: size of a plain object's header; the first field of float, complex, list and dict.
        kind: `ob_type`.
        tuple_items: first item of a tuple.
        list_items: the pointer to a list's items.
        type_shape, type_dtype, type_nbytes: slots of `TensorType`.
        dims, strides, descr, flags: fields of an ndarray (its data pointer is at `header`, `nd` behind it).
    """

    header: int
    kind: int
    tuple_items: int
    list_items: int
    type_shape: int
    type_dtype: int
    type_nbytes: int
    nd: int
    dims: int
    strides: int
    descr: int
    flags: int


CONTIGUOUS_ALIGNED = 0x101
"""NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED."""


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _signed(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _slot(probe: object, value: object) -> int:
    """The offset of the slot that holds this very object; looking at known memory only, it cannot crash."""
    kind = type(probe)
    for offset in range(object.__basicsize__, kind.__basicsize__, 8):
        if _word(id(probe) + offset) == id(value):
            return offset
    return 0  # that of the reference count, which `check` refuses


def unsupported() -> str | None:
    """Why this interpreter cannot take machine code that reads its objects, or None."""
    if sys.implementation.name != "cpython":
        return f"{sys.implementation.name} does not have CPython's objects"
    if object.__basicsize__ != 2 * struct.calcsize("P"):  # an owner and a mutex more (sysconfig takes 4 ms)
        return "free-threaded builds count references in another way"
    if struct.calcsize("P") != 8 or sys.byteorder != "little":
        return "objects are read as 64-bit little-endian words"
    return None


@cache
def layout() -> Layout:
    """The offsets in this process; ask `unsupported` first."""
    header = object.__basicsize__
    probe = TensorType((3, 5, 7), dtypes.F64)
    return Layout(
        header=header,
        kind=header - 8,
        tuple_items=tuple.__basicsize__,
        list_items=header + 8,
        type_shape=_slot(probe, probe.shape),
        type_dtype=_slot(probe, probe.dtype),
        type_nbytes=_slot(probe, probe.nbytes),
        nd=header + 8,
        dims=header + 16,
        strides=header + 24,
        descr=header + 40,
        flags=header + 48,
    )


def check(found: Layout) -> str | None:
    """Compare offsets with known objects; gives what is wrong, or None."""
    tests = (_check_headers, _check_containers, _check_numbers, _check_types, _check_ndarrays)
    for test in tests:
        wrong = test(found)
        if wrong:
            return wrong
    return None


def _check_headers(at: Layout) -> str | None:
    probe = type("Probe", (), {"__slots__": ()})()
    if ctypes.c_uint32.from_address(id(probe)).value != sys.getrefcount(probe) - 1:
        return "the reference count is not the first word of an object"
    for value in (probe, 1.5, "text", (1,), [1], {1: 2}, np.zeros(2), TensorType((), dtypes.F32)):
        if _word(id(value) + at.kind) != id(type(value)):
            return f"the type of a {type(value).__name__} is not at {at.kind}"
    return None


def _check_containers(at: Layout) -> str | None:
    items = [object() for _ in range(5)]
    addresses = [id(item) for item in items]
    pair, names = tuple(items), {str(i): i for i in range(4)}
    del names["2"]
    if [_word(id(pair) + at.tuple_items + 8 * i) for i in range(5)] != addresses:
        return "items of a tuple"
    if any(_word(id(value) + at.header) != len(value) for value in (pair, items, names, (), [], {})):
        return "the length of a tuple, list or dict"
    pointer = _word(id(items) + at.list_items)
    if not pointer or [_word(pointer + 8 * i) for i in range(5)] != addresses:
        return "items of a list"
    return None


def _check_numbers(at: Layout) -> str | None:
    pair = complex(-2.5, 3.25)
    if ctypes.c_double.from_address(id(pair.real) + at.header).value != -2.5:
        return "the value of a float"
    if [ctypes.c_double.from_address(id(pair) + at.header + 8 * i).value for i in range(2)] != [-2.5, 3.25]:
        return "the value of a complex"
    for dtype in dtypes.ALL:
        scalar = dtype.type(3)
        if ctypes.string_at(id(scalar) + at.header, dtype.itemsize) != np.asarray(scalar, dtype).tobytes():
            return f"the value of a NumPy scalar of {dtype}"
    return None


def _check_types(at: Layout) -> str | None:
    made = TensorType((3, 5, 7), dtypes.F64)
    fields = {at.type_shape: made.shape, at.type_dtype: made.dtype, at.type_nbytes: made.nbytes}
    if any(_word(id(made) + offset) != id(value) for offset, value in fields.items()):
        return "the attributes of a TensorType"
    return None


def _check_ndarrays(at: Layout) -> str | None:
    base = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for array in (base, base[:, ::2], base.T, np.array(1.5), base.astype(dtypes.BF16), base[1:]):
        start, flags = id(array), array.flags
        axes = range(array.ndim)
        # Pointers are followed last, when the fields around them have been found right.
        if (
            _word(start + at.header) != array.__array_interface__["data"][0]
            or ctypes.c_int32.from_address(start + at.nd).value != array.ndim
            or _word(start + at.descr) != id(array.dtype)
            or _word(start + at.flags) & CONTIGUOUS_ALIGNED
            != 0x1 * flags.c_contiguous + 0x100 * flags.aligned
            or [_signed(_word(start + at.dims) + 8 * i) for i in axes] != list(array.shape)
            or [_signed(_word(start + at.strides) + 8 * i) for i in axes] != list(array.strides)
        ):
            return f"the fields of an ndarray of shape {array.shape}"
    return None
