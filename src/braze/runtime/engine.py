"""The engine: LLVM IR text to an object file, and an object file to addresses in this process.

From `targets/` (module text) to `runtime/executable` (addresses), with the object cache in between.

- Compiling goes through a second `ctypes` handle on llvmlite's library. llvmlite guards every call with one
  process-wide lock; the functions of a second handle have none and release the GIL, so two threads compile
  in parallel (measured 1.9 times on two cores). LLVM asks only that each compilation has its own context
  and target machine: a machine is taken from a shelf and put back, so that no thread leaves one behind.
- No middle-end passes: the kernels are emitted as vectors already, and O2 costs more than all the rest.
- Position-independent code in the small code model: no 10-byte constant per address, 10 % faster to make.
- Loop strength reduction stays on. Turning it off saves 10 % of code generation, but the option is one for
  the whole process and would change what others (Numba) compile beside us.

Invariants:
- llvmlite is imported at the first use, never at import.
- Nothing but names connects an object with the process: what `load` is not given, and the C library does
  not have, is an InternalError that names it, before LLVM links anything.
"""

from __future__ import annotations

import ctypes
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

from braze import knobs
from braze.cache.disk import Entry, disk_cache
from braze.cache.key import make_key
from braze.errors import InternalError, UnsupportedError
from braze.runtime.objectfile import symbol_table
from braze.target import Target
from braze.targets.host import initialise

# Functions that LLVM may call by itself or that runtime modules import, found in the process's C library.
C_LIBRARY = (
    "memcpy", "memset", "memmove", "fmod", "fmodf", "fma", "fmaf", "free", "posix_memalign", "madvise",
    "clock_gettime", "syscall", "sched_getcpu", "_aligned_malloc", "_aligned_free",
)  # fmt: skip

_POINTER = ctypes.c_void_p
_ERROR = ctypes.POINTER(ctypes.c_char_p)
_PROTOTYPES: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
    ("ContextCreate", _POINTER, ()),
    ("ContextDispose", None, (_POINTER,)),
    ("ParseAssembly", _POINTER, (_POINTER, ctypes.c_char_p, _ERROR)),
    ("SetTarget", None, (_POINTER, ctypes.c_char_p)),
    ("VerifyModule", ctypes.c_bool, (_POINTER, _ERROR)),
    ("DisposeModule", None, (_POINTER,)),
    ("DisposeString", None, (ctypes.c_char_p,)),
    ("TargetMachineEmitToMemory", _POINTER, (_POINTER, _POINTER, ctypes.c_int, _ERROR)),
    ("GetBufferStart", _POINTER, (_POINTER,)),
    ("GetBufferSize", ctypes.c_size_t, (_POINTER,)),
    ("DisposeMemoryBuffer", None, (_POINTER,)),
)


@cache
def _unlocked() -> dict[str, Any]:
    """The functions of `_PROTOTYPES` from a handle of our own, without llvmlite's lock."""
    handle = ctypes.CDLL(initialise().ffi.lib._name)
    functions = {}
    for name, result, arguments in _PROTOTYPES:
        function = getattr(handle, f"LLVMPY_{name}")
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    return functions


class _Message:
    """A `char**` that LLVM fills with a text of its own."""

    def __init__(self) -> None:
        self.pointer = ctypes.c_char_p()

    def __str__(self) -> str:
        return (self.pointer.value or b"").decode(errors="replace").strip()

    def close(self) -> None:
        if self.pointer:
            _unlocked()["DisposeString"](self.pointer)


@contextmanager
def _message() -> Iterator[_Message]:
    message = _Message()
    try:
        yield message
    finally:
        message.close()


# --- machines ---------------------------------------------------------------------------------------
# Idle target machines by (triple, cpu, features). list.pop and append are atomic, so no lock is needed; there
# are never more machines than compilations that ran at once.
_SHELVES: dict[tuple[str, str, str], list[Any]] = {}


def _make_machine(triple: str, cpu: str, features: str) -> Any:
    llvm = initialise()
    try:
        found = llvm.Target.from_triple(triple)
    except RuntimeError:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        try:
            found = llvm.Target.from_triple(triple)
        except RuntimeError as error:
            raise UnsupportedError(f"target: LLVM makes no code for {triple!r} ({error}).") from None
    return found.create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small", jit=False
    )


@contextmanager
def _machine(target: Target) -> Iterator[int]:
    """A target machine that nobody else uses meanwhile."""
    key = (target.triple, target.cpu, target.features)
    if not target.triple:
        raise UnsupportedError(f"target {target.name}: it has no triple, so there is no code to make for it.")
    shelf = _SHELVES.setdefault(key, [])
    try:
        machine = shelf.pop()
    except IndexError:
        machine = _make_machine(*key)
    try:
        yield ctypes.cast(machine._ptr, _POINTER).value or 0
    finally:
        shelf.append(machine)


# --- compile ----------------------------------------------------------------------------------------
@contextmanager
def _module(text: str, target: Target, verify: bool) -> Iterator[int]:
    """The parsed and verified module of an IR text, in a context of its own."""
    llvm = _unlocked()
    context = llvm["ContextCreate"]()
    try:
        with _message() as message:
            module = llvm["ParseAssembly"](context, text.encode(), ctypes.byref(message.pointer))
            if not module or message.pointer:
                if module:
                    llvm["DisposeModule"](module)
                raise InternalError(f"LLVM cannot read the emitted IR: {message}", stage="engine")
        try:
            llvm["SetTarget"](module, target.triple.encode())
            if verify:
                _verify(module)
            yield module
        finally:
            llvm["DisposeModule"](module)
    finally:
        llvm["ContextDispose"](context)


def _verify(module: int) -> None:
    # 1 to 2 % of the time of code generation, and the alternative to an error here is LLVM ending the process.
    with _message() as message:
        if _unlocked()["VerifyModule"](module, ctypes.byref(message.pointer)):
            raise InternalError(f"LLVM rejects the emitted IR: {message}", stage="engine")


def _emit(text: str, target: Target, *, as_object: bool, verify: bool) -> bytes:
    llvm = _unlocked()
    with _module(text, target, verify) as module, _machine(target) as machine, _message() as message:
        buffer = llvm["TargetMachineEmitToMemory"](
            machine, module, int(as_object), ctypes.byref(message.pointer)
        )
        if not buffer:
            raise InternalError(f"LLVM cannot make code: {message}", stage="engine")
        try:
            return ctypes.string_at(llvm["GetBufferStart"](buffer), llvm["GetBufferSize"](buffer))
        finally:
            llvm["DisposeMemoryBuffer"](buffer)


def compile_object(text: str, target: Target) -> bytes:
    """Compile a module of LLVM IR text to an object file for the target.

    Any number of threads may compile at once.
    Raises: InternalError with LLVM's words when it cannot read or verify the text.
    """
    return _emit(text, target, as_object=True, verify=bool(knobs.get("verify")))


def compile_objects(texts: Sequence[str], target: Target) -> list[bytes]:
    """Compile several modules at once, on as many threads as the target has cores."""
    if len(texts) == 1 or target.cores == 1:
        return [compile_object(text, target) for text in texts]
    verify = bool(knobs.get("verify"))  # knobs are per thread: the caller's counts
    with ThreadPoolExecutor(min(len(texts), target.cores), thread_name_prefix="braze-compile") as executor:
        return list(executor.map(lambda text: _emit(text, target, as_object=True, verify=verify), texts))


def cached_object(text: str, target: Target) -> bytes:
    """`compile_object`, by way of the object cache on disk; for code that every program shares."""
    key = make_key("object", text, target)
    folder = disk_cache()
    entry = folder.get(key) if folder else None
    if entry is None:
        entry = Entry(compile_object(text, target))
        if folder:
            folder.put(key, entry)
    return entry.image


def assembly(text: str, target: Target) -> str:
    """Compile a module of LLVM IR text to the target's assembly language."""
    return _emit(text, target, as_object=False, verify=bool(knobs.get("verify"))).decode()


# --- load -------------------------------------------------------------------------------------------
class Library:
    """Machine code in this process. It is unloaded when the last reference goes, so whoever keeps an address
    that code may still use keeps the library."""

    __slots__ = ("_addresses", "_tracker", "name")

    def __init__(self, name: str, tracker: Any, addresses: Mapping[str, int]) -> None:
        self.name = name
        self._tracker = tracker
        self._addresses = dict(addresses)

    def address(self, name: str) -> int:
        """The address of a function or variable that the object defines."""
        try:
            return self._addresses[name]
        except KeyError:
            known = ", ".join(sorted(self._addresses))
            raise InternalError(
                f"{self.name} has no symbol {name}; it has {known}.", stage="engine"
            ) from None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._addresses)


_NUMBERS = itertools.count()
# Where JITLink itself answers for the symbol.
_LINKER_DEFINED = frozenset({"_GLOBAL_OFFSET_TABLE_"})


def process_triple() -> str:
    """LLVM's name for the machine and system that this process runs on."""
    return str(initialise().get_process_triple())


@cache
def _linker() -> Any:
    """The one LLJIT of this process. It gets a reference that is never given back: threads may be inside its
    code when the interpreter ends."""
    llvm = initialise()
    machine = llvm.Target.from_triple(process_triple()).create_target_machine(
        cpu="", features="", opt=2, reloc="pic", codemodel="small", jit=True
    )
    linker = llvm.create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)
    keep_forever(linker)
    return linker


def keep_forever(value: object) -> None:
    """Give an object one reference too many, so that it outlives the interpreter's modules."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


@cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL("ucrtbase") if os.name == "nt" else ctypes.CDLL(None)


@cache
def _c_address(name: str) -> int | None:
    if name not in C_LIBRARY:
        return None
    try:
        return ctypes.cast(getattr(_c_library(), name), _POINTER).value
    except AttributeError:
        return None


def _resolve(wanted: Iterable[str], given: Mapping[str, int], library: str) -> dict[str, int]:
    """Addresses for the symbols that objects import."""
    found: dict[str, int] = {}
    missing = []
    for name in wanted:
        address = given.get(name) or _c_address(name)
        if address:
            found[name] = address
        elif name not in _LINKER_DEFINED:
            missing.append(name)
    if missing:
        raise InternalError(f"{library} wants symbols that nobody has: {', '.join(missing)}.", stage="engine")
    return found


def load(images: bytes | Sequence[bytes], symbols: Mapping[str, int], name: str = "object") -> Library:
    """Link one object file, or several that belong together, into this process.

    Args:
        images: what `compile_object` gave.
        symbols: addresses for the names that the objects import; it may hold more than that.
        name: for messages and debuggers; need not be unique.
    Raises: InternalError that names the symbols which are neither given nor in the C library.
    """
    objects = (images,) if isinstance(images, bytes) else tuple(images)
    tables = [symbol_table(image) for image in objects]
    defined = dict.fromkeys(symbol for table in tables for symbol in table.defined)
    wanted = dict.fromkeys(symbol for table in tables for symbol in table.undefined if symbol not in defined)
    builder = initialise().JITLibraryBuilder()
    for image in objects:
        builder.add_object_img(image)
    for symbol, address in _resolve(wanted, symbols, name).items():
        builder.import_symbol(symbol, address)
    for symbol in defined:
        builder.export_symbol(symbol)
    unique = f"{name}.{next(_NUMBERS)}"  # ORC takes no name twice, not even after unloading
    try:
        tracker = builder.link(_linker(), unique)  # one at a time: llvmlite's own lock sees to that
    except RuntimeError as error:
        raise InternalError(f"{name} cannot be linked: {error}", stage="engine") from None
    return Library(unique, tracker, {symbol: tracker[symbol] for symbol in defined})
