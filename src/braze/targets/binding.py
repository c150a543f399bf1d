"""LLVM's functions, called straight in the library that llvmlite brings.

The package `llvmlite.binding` is not imported: it takes a global lock around every call, so that two threads
could not compile at once (1.9 times on two cores without it), and its import takes 30 ms, a tenth of
a program's first call. llvmlite gives the library, the C functions that wrap LLVM's C++, and the version.

Invariants:
- The library is opened at the first call of `llvm`, never at import.
- A function that gives a text or an error takes a `Message` last; what it points to is LLVM's until `close`.

Sources: llvmlite 0.50, `ffi/*.cpp` (names and argument types of the `LLVMPY_` functions).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

_P, _TEXT, _OUT = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)
_INT, _SIZE, _BOOL = ctypes.c_int, ctypes.c_size_t, ctypes.c_bool


class LinkElement(ctypes.Structure):
    """What a library is linked from: kind 2 is the image of an object file."""

    _fields_ = [("kind", ctypes.c_uint8), ("value", _TEXT), ("size", _SIZE)]


class SymbolAddress(ctypes.Structure):
    """A symbol that is given to the linker, or asked of it."""

    _fields_ = [("name", _TEXT), ("address", ctypes.c_uint64)]


_PROTOTYPES: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
    ("InitializeNativeTarget", None, ()),
    ("InitializeNativeAsmPrinter", None, ()),
    ("InitializeNativeAsmParser", None, ()),
    ("InitializeAllTargetInfos", None, ()),
    ("InitializeAllTargets", None, ()),
    ("InitializeAllTargetMCs", None, ()),
    ("InitializeAllAsmPrinters", None, ()),
    ("GetProcessTriple", None, (_OUT,)),
    ("GetHostCPUName", None, (_OUT,)),
    ("GetHostCPUFeatures", _INT, (_OUT,)),
    ("DisposeString", None, (_P,)),
    ("GetTargetFromTriple", _P, (_TEXT, _OUT)),
    # target, triple, cpu, features, opt, reloc, code model, print instructions, jit, abi
    ("CreateTargetMachine", _P, (_P, _TEXT, _TEXT, _TEXT, _INT, _TEXT, _TEXT, _INT, _INT, _TEXT)),
    ("DisposeTargetMachine", None, (_P,)),
    ("ContextCreate", _P, ()),
    ("ContextDispose", None, (_P,)),
    ("ParseAssembly", _P, (_P, _TEXT, _OUT)),
    ("SetTarget", None, (_P, _TEXT)),
    ("VerifyModule", _BOOL, (_P, _OUT)),
    ("DisposeModule", None, (_P,)),
    ("TargetMachineEmitToMemory", _P, (_P, _P, _INT, _OUT)),
    ("GetBufferStart", _P, (_P,)),
    ("GetBufferSize", _SIZE, (_P,)),
    ("DisposeMemoryBuffer", None, (_P,)),
    # machine, whether errors stay off standard error, whether JITLink links
    ("CreateLLJITCompiler", _P, (_P, _BOOL, _BOOL, _OUT)),
    # linker, name, elements, imports and exports with their numbers
    ("LLJIT_Link", _P, (_P, _TEXT, ctypes.POINTER(LinkElement), _SIZE, ctypes.POINTER(SymbolAddress), _SIZE,
                        ctypes.POINTER(SymbolAddress), _SIZE, _OUT)),
    ("LLJIT_Dylib_Tracker_Dispose", _BOOL, (_P, _OUT)),
)  # fmt: skip


def _path() -> str:
    """Where llvmlite keeps its library."""
    import llvmlite
    from llvmlite.utils import get_library_name

    path = os.path.join(os.path.dirname(llvmlite.__file__), "binding", get_library_name())
    if not os.path.exists(path):
        from llvmlite.binding import ffi  # it knows, wherever a distributor has put it

        path = ffi.lib._name
    return path


@cache
def llvm() -> Any:
    """The functions of `_PROTOTYPES` by name, with the code generator for this machine ready.

    Raises: ImportError without llvmlite; OSError where its library does not load.
    """
    library = ctypes.CDLL(_path())
    functions: dict[str, Callable[..., Any]] = {}
    for name, result, arguments in _PROTOTYPES:
        function = getattr(library, f"LLVMPY_{name}")
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    found = SimpleNamespace(**functions)
    found.InitializeNativeTarget()
    found.InitializeNativeAsmPrinter()
    found.InitializeNativeAsmParser()
    return found


def initialise_all() -> None:
    """Make the code generators of every machine ready, not only that of this one."""
    for name in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
        getattr(llvm(), f"InitializeAll{name}")()


class Message:
    """A `char**` that LLVM fills with a text of its own."""

    def __init__(self) -> None:
        self.pointer = ctypes.c_char_p()
        self._as_parameter_ = ctypes.byref(self.pointer)

    def __bool__(self) -> bool:
        return bool(self.pointer)

    def __str__(self) -> str:
        return (self.pointer.value or b"").decode(errors="replace").strip()


@contextmanager
def message() -> Iterator[Message]:
    """A message that is given back to LLVM in the end."""
    made = Message()
    try:
        yield made
    finally:
        if made:
            llvm().DisposeString(ctypes.cast(made.pointer, _P))


def text_of(name: str) -> str:
    """What one of LLVM's functions with nothing but a text to give says."""
    with message() as made:
        getattr(llvm(), name)(made)
        return str(made)


@cache
def version() -> str:
    """llvmlite's version, which decides LLVM's."""
    import llvmlite

    return str(llvmlite.__version__)
