"""Python types and functions made from machine code, through CPython's own C functions and `ctypes`.

Sources: CPython's C API reference, `PyType_FromSpec`, `PyCFunction_NewEx`, `descrobject.h`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from typing import Any

from braze.runtime.engine import keep_forever

# Numbers of `typeslots.h`, which are part of the stable ABI.
SLOTS = {
    "bf_getbuffer": 1, "bf_releasebuffer": 2, "tp_call": 50, "tp_clear": 51, "tp_dealloc": 52,
    "tp_descr_get": 54, "tp_members": 72, "tp_getset": 73, "tp_traverse": 71,
}  # fmt: skip

DISALLOW_INSTANTIATION = 1 << 7
HAVE_VECTORCALL = 1 << 11
HAVE_GC = 1 << 14
METHOD_DESCRIPTOR = 1 << 17

_SSIZE, _READONLY = 19, 1  # T_PYSSIZET, READONLY of structmember.h
METH_O, METH_FASTCALL = 0x8, 0x80


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    ]


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _GetSet(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("get", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    ]


class _Method(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def python_address(name: str) -> int:
    """The address of one of CPython's functions."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def python_function(name: str, result: Any, *arguments: Any) -> Any:
    """One of CPython's functions with a prototype of our own; that of `ctypes.pythonapi` is everybody's."""
    return ctypes.PYFUNCTYPE(result, *arguments)(python_address(name))


def make_type(
    name: str,
    size: int,
    flags: int,
    slots: Mapping[str, int],
    *,
    offsets: Mapping[str, int] | None = None,
    getters: Mapping[str, tuple[int, int, str]] | None = None,
) -> Any:
    """Make a heap type whose behaviour is machine code.

    Args:
        name: `module.Name`.
        size: bytes of an instance.
        slots: addresses by slot name.
        offsets: `__weaklistoffset__`, `__dictoffset__`, `__vectorcalloffset__`.
        getters: attribute to the addresses of getter and setter (0: read only) and its docstring.
    """
    members = (_Member * (len(offsets or {}) + 1))(
        *(_Member(key.encode(), _SSIZE, offset, _READONLY, None) for key, offset in (offsets or {}).items())
    )
    getsets = (_GetSet * (len(getters or {}) + 1))(
        *(
            _GetSet(key.encode(), get, put or None, doc.encode(), None)
            for key, (get, put, doc) in (getters or {}).items()
        )
    )
    rows = {**slots, "tp_members": ctypes.addressof(members), "tp_getset": ctypes.addressof(getsets)}
    table = (_Slot * (len(rows) + 1))(*(_Slot(SLOTS[key], address) for key, address in rows.items()))
    spec = _Spec(name.encode(), size, 0, flags, table)
    made = python_function("PyType_FromSpec", ctypes.py_object, ctypes.c_void_p)(ctypes.addressof(spec))
    # Instances may outlive every module of this interpreter, and the type reads its tables until then.
    for part in (members, getsets, table, spec, made):
        keep_forever(part)
    return made


def make_functions(rows: Iterable[tuple[str, int, int]]) -> dict[str, Any]:
    """Make built-in functions of (name, address, METH_O or METH_FASTCALL)."""
    make = python_function("PyCFunction_NewEx", ctypes.py_object, *[ctypes.c_void_p] * 3)
    made = {}
    for name, address, flags in rows:
        definition = _Method(name.encode(), address, flags, None)
        keep_forever(definition)
        made[name] = make(ctypes.addressof(definition), None, None)
    return made
