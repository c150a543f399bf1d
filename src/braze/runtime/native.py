"""Loads the machine code of arrays and calls, if this interpreter is one that it knows.

One object for both: compiled once, kept in the object cache, linked with CPython's and NumPy's functions and
with the runtime's services by name.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from braze.record import Record
from braze.runtime import array_native, dispatch_native, gate
from braze.runtime.array_native import NativeArrays
from braze.runtime.deleted import raise_deleted, raise_out_of_memory
from braze.runtime.dispatch import raise_bad_status
from braze.runtime.dispatch_native import NativeFunctions
from braze.runtime.heaptype import python_address, python_function
from braze.runtime.irtext import Module
from braze.runtime.layout import Layout, check, layout, unsupported
from braze.target import Target
from braze.targets.binding import llvm
from braze.types import TensorType

PYTHON = (
    "PyDict_GetItemWithError", "PyDict_New", "PyDict_Next", "PyDict_SetItem", "PyErr_Clear", "PyErr_NoMemory",
    "PyList_New", "PyLong_AsLongLongAndOverflow", "PyLong_AsSsize_t", "PyLong_AsVoidPtr", "PyLong_FromSsize_t",
    "PyLong_FromVoidPtr", "PyMem_RawFree", "PyMem_RawMalloc", "PyMethod_New", "PyObject_CallOneArg",
    "PyObject_ClearWeakRefs", "PyObject_Free", "PyObject_GC_Del", "PyObject_GC_UnTrack", "PyObject_GetBuffer",
    "PyObject_Init", "PyObject_Malloc", "PyObject_Vectorcall", "PyThreadState_Get", "PyThreadState_GetID",
    "PyTuple_New", "PyType_GenericAlloc", "Py_DecRef", "Py_IncRef", "_Py_Dealloc", "_Py_NewReference",
)  # fmt: skip
OBJECTS: dict[str, object] = {
    "_Py_NoneStruct": None, "_Py_TrueStruct": True, "PyBool_Type": bool, "PyComplex_Type": complex,
    "PyDict_Type": dict, "PyFloat_Type": float, "PyList_Type": list, "PyLong_Type": int, "PyTuple_Type": tuple,
    "PyArray_Type": np.ndarray, "braze_tensor_type": TensorType, "braze_deleted": raise_deleted,
    "braze_out_of_memory": raise_out_of_memory, "braze_bad_status": raise_bad_status,
}  # fmt: skip

# Rows of NumPy's C API table, which are fixed for good by its binary interface.
_NUMPY_ROWS = {"PyArray_NewFromDescr": 94, "PyArray_SetBaseObject": 282}


@dataclass(slots=True, eq=False, repr=False)
class Native(Record):
    """Both implementations in machine code."""

    arrays: NativeArrays
    functions: NativeFunctions


def text(at: Layout) -> str:
    """The LLVM IR of arrays and calls for objects of this layout."""
    module = Module()
    array_native.emit(module, at)
    dispatch_native.emit(module, at)
    return module.text()


def _numpy_functions() -> dict[str, int]:
    pointer = python_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    module = importlib.import_module("numpy._core._multiarray_umath")
    table = pointer(module._ARRAY_API, None)
    return {name: ctypes.c_size_t.from_address(table + 8 * row).value for name, row in _NUMPY_ROWS.items()}


def _build(at: Layout) -> Native:
    from braze.runtime import engine
    from braze.runtime.services import services

    target = Target("cpu", triple=engine.process_triple())
    image = engine.cached_object(text(at), target)
    given = {name: python_address(name) for name in PYTHON}
    for name, value in OBJECTS.items():
        engine.keep_forever(value)
        given[name] = id(value)
    given |= _numpy_functions()
    given |= services().symbols
    given["braze_gate"] = ctypes.addressof(gate.WORDS)
    library = engine.load(image, given, "braze.calls")
    engine.keep_forever(library)
    addresses = {name: library.address(name) for name in library.names}
    made = Native(NativeArrays(addresses, at), NativeFunctions(addresses, at))
    types = {
        "array_type": made.arrays.kind, "view_type": made.arrays.view, "function_type": made.functions.kind,
    }  # fmt: skip
    for variable, kind in types.items():
        ctypes.c_size_t.from_address(addresses[variable]).value = id(kind)
    return made


def why_not(at: Callable[[], Layout] = layout) -> str | None:
    """What keeps machine code from reading this interpreter's objects, or None."""
    return unsupported() or check(at())


_LOCK = threading.Lock()
_LOADED: list[Native | None] = []


def load() -> Native | None:
    """The machine code, loaded at the first call; None where Python must do."""
    if not _LOADED:
        with _LOCK:
            if not _LOADED:
                _LOADED.append(_try())
    return _LOADED[0]


def _try() -> Native | None:
    if why_not() is not None:
        return None
    try:
        llvm()
    except (ImportError, OSError):
        return None
    return _build(layout())
