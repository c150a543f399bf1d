"""The engine: LLVM IR text to an object file, and an object file to addresses in this process.

From `targets/` (module text) to `runtime/executable` (addresses), with the object cache in between.

- Any number of threads compile at once (1.9 times on two cores). LLVM asks only that each compilation has
  its own context and target machine: a machine is taken from a shelf and put back, so that no thread leaves
  one behind.
- No middle-end passes: the kernels are emitted as vectors already, and O2 costs more than all the rest.
- Position-independent code in the small code model: no 10-byte constant per address, 10 % faster to make.
- Loop strength reduction stays on. Turning it off saves 10 % of code generation, but the option is one for
  the whole process and would change what others (Numba) compile beside us.

Invariants:
- LLVM is loaded at the first use, never at import.
- Nothing but names connects an object with the process: what `load` is not given, and the C library does
  not have, is an InternalError that names it, before LLVM links anything.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

from braze import knobs
from braze.cache.disk import Entry, disk_cache
from braze.cache.key import make_key
from braze.errors import InternalError, UnsupportedError
from braze.runtime.objectfile import symbol_table
from braze.target import Target
from braze.targets.binding import LinkElement, SymbolAddress, initialise_all, llvm, message, text_of

# Functions that LLVM may call by itself or that runtime modules import, found in the process's C library.
C_LIBRARY = (
    "memcpy", "memset", "memmove", "fmod", "fmodf", "fma", "fmaf", "floor", "floorf", "ceil", "ceilf", "trunc",
    "truncf", "rint", "rintf", "free", "posix_memalign", "madvise",
    "clock_gettime", "syscall", "sched_getcpu", "_aligned_malloc", "_aligned_free",
)  # fmt: skip

_POINTER = ctypes.c_void_p

# --- machines ---------------------------------------------------------------------------------------
# Idle target machines by (triple, cpu, features). list.pop and append are atomic, so no lock is needed; there
# are never more machines than compilations that ran at once.
_SHELVES: dict[tuple[str, str, str], list[int]] = {}


def _find_target(triple: str) -> tuple[int | None, str]:
    """LLVM's code generator for a machine, or None and what LLVM says."""
    with message() as error:
        return llvm().GetTargetFromTriple(triple.encode(), error), str(error)


def _make_machine(triple: str, cpu: str, features: str, jit: bool = False) -> int:
    found, _ = _find_target(triple)
    if not found:
        initialise_all()
        found, error = _find_target(triple)
        if not found:
            raise UnsupportedError(f"target: LLVM makes no code for {triple!r} ({error}).")
    machine = llvm().CreateTargetMachine(
        found, triple.encode(), cpu.encode(), features.encode(), 2, b"pic", b"small", 0, int(jit), b""
    )
    if not machine:
        raise UnsupportedError(f"target: LLVM makes no code for the CPU {cpu!r} with {features!r}.")
    return int(machine)


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
        yield machine
    finally:
        shelf.append(machine)


# --- compile ----------------------------------------------------------------------------------------
@contextmanager
def _module(text: str, target: Target, verify: bool) -> Iterator[int]:
    """The parsed and verified module of an IR text, in a context of its own."""
    library = llvm()
    context = library.ContextCreate()
    try:
        with message() as error:
            module = library.ParseAssembly(context, text.encode(), error)
            if not module or error:
                if module:
                    library.DisposeModule(module)
                raise InternalError(f"LLVM cannot read the emitted IR: {error}", stage="engine")
        try:
            library.SetTarget(module, target.triple.encode())
            if verify:
                _verify(module)
            yield module
        finally:
            library.DisposeModule(module)
    finally:
        library.ContextDispose(context)


def _verify(module: int) -> None:
    # 1 to 2 % of the time of code generation, and the alternative to an error here is LLVM ending the process.
    with message() as error:
        if llvm().VerifyModule(module, error):
            raise InternalError(f"LLVM rejects the emitted IR: {error}", stage="engine")


def _emit(text: str, target: Target, *, as_object: bool, verify: bool) -> bytes:
    library = llvm()
    with _module(text, target, verify) as module, _machine(target) as machine, message() as error:
        buffer = library.TargetMachineEmitToMemory(machine, module, int(as_object), error)
        if not buffer:
            raise InternalError(f"LLVM cannot make code: {error}", stage="engine")
        try:
            return ctypes.string_at(library.GetBufferStart(buffer), library.GetBufferSize(buffer))
        finally:
            library.DisposeMemoryBuffer(buffer)


def compile_object(text: str, target: Target) -> bytes:
    """Compile a module of LLVM IR text to an object file for the target; any number of threads may.

    Raises: InternalError with LLVM's words when it cannot read or verify the text.
    """
    return _emit(text, target, as_object=True, verify=bool(knobs.get("verify")))


def cached_object(text: str, target: Target) -> bytes:
    """`compile_object`, by way of the object cache on disk; for code that every program shares."""
    key = make_key(text, target)
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

    def __init__(self, name: str, tracker: int, addresses: Mapping[str, int]) -> None:
        self.name = name
        self._tracker = tracker
        self._addresses = dict(addresses)

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the end the process takes everything down, threads may still be inside, and names here are gone.
        if not ends():
            with message() as error:
                llvm().LLJIT_Dylib_Tracker_Dispose(self._tracker, error)

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
_OBJECT_IMAGE = 2
# Where JITLink itself answers for the symbol.
_LINKER_DEFINED = frozenset({"_GLOBAL_OFFSET_TABLE_"})


def process_triple() -> str:
    """LLVM's name for the machine and system that this process runs on."""
    return text_of("GetProcessTriple")


_LINKING = threading.Lock()


@cache
def _linker() -> int:
    """The one LLJIT of this process; never disposed of, since threads may be inside its code when the
    interpreter ends."""
    machine = _make_machine(process_triple(), "", "", jit=True)
    try:
        with message() as error:
            linker = llvm().CreateLLJITCompiler(machine, True, True, error)
            if not linker:
                raise InternalError(f"LLVM cannot make a linker: {error}", stage="engine")
            return int(linker)
    finally:
        llvm().DisposeTargetMachine(machine)


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
    imports = _resolve(wanted, symbols, name)
    elements = (LinkElement * len(objects))(
        *(LinkElement(_OBJECT_IMAGE, image, len(image)) for image in objects)
    )
    given = (SymbolAddress * len(imports))(
        *(SymbolAddress(symbol.encode(), at) for symbol, at in imports.items())
    )
    asked = (SymbolAddress * len(defined))(*(SymbolAddress(symbol.encode(), 0) for symbol in defined))
    unique = f"{name}.{next(_NUMBERS)}"  # ORC takes no name twice, not even after unloading
    with _LINKING, message() as error:
        tracker = llvm().LLJIT_Link(
            _linker(), unique.encode(), elements, len(elements), given, len(given), asked, len(asked), error
        )
        if not tracker:
            raise InternalError(f"{name} cannot be linked: {error}", stage="engine")
    return Library(unique, tracker, {symbol: found.address for symbol, found in zip(defined, asked)})
