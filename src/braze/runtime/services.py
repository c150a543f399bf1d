"""The runtime's machine code in this process: loaded once, and the names under which programs find it.

`services().symbols` is what every program object is linked with. Made at first use: from the object cache in
2 to 5 ms, else compiled in about 40 ms.

Invariant: the code is never unloaded. Workers sleep inside it and arrays are freed through it, both until the
process ends.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from braze.record import Record
from braze.runtime import engine, services_ir
from braze.target import Target

PYTHON = (
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals",
    "PyThread_get_thread_ident", "PyObject_CallFunction", "Py_DecRef",
)  # fmt: skip
PROGRAM_SYMBOLS = (
    "braze_parallel", "braze_host", "braze_poll", "braze_alloc", "braze_free", "braze_call",
    "braze_sin_huge", "braze_cos_huge", "braze_tan_huge",
)  # fmt: skip


@dataclass(slots=True, eq=False, repr=False)
class Services(Record):
    """The loaded runtime.

    Attributes:
        library: all its symbols, variables too.
        symbols: addresses of what programs and the dispatcher may import.
        call: `braze_call(descriptor, inputs, outputs) -> status`; raises what the program raised.
        allocate, free: `braze_alloc(bytes) -> address or None`, `braze_free(address, bytes)`.
        uses_callbacks: whether threads sleep through Python, since the system has no futex.
    """

    library: engine.Library
    symbols: Mapping[str, int]
    call: Any
    allocate: Any
    free: Any
    uses_callbacks: bool

    def variable(self, name: str, kind: type[Any] = ctypes.c_int64) -> Any:
        """A variable of the runtime as a `ctypes` object on its memory."""
        return kind.from_address(self.library.address(name))


# --- sleep and wake where there is no futex -----------------------------------------------------------
_CONDITION = threading.Condition()


def _sleep(word: int, seen: int) -> None:
    value = ctypes.c_int32.from_address(word)
    with _CONDITION:
        if value.value == seen:
            _CONDITION.wait()


def _wake(word: int, threads: int) -> None:
    # One condition serves all words, so everyone looks again.
    with _CONDITION:
        _CONDITION.notify_all()


_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)
_CALLBACKS = {"braze_sleep": _CALLBACK(_sleep), "braze_wake": _CALLBACK(_wake)}


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def load_services(*, callbacks: bool) -> Services:
    """Compile or fetch the runtime's code and link it; `services` keeps the one that everybody uses."""
    triple = engine.process_triple()
    uses_callbacks = services_ir.machine(triple, callbacks=callbacks).futex is None
    image = engine.cached_object(
        services_ir.module_text(triple, callbacks=callbacks), Target("cpu", triple=triple)
    )
    given = {name: _address(getattr(ctypes.pythonapi, name)) for name in PYTHON}
    if uses_callbacks:
        given |= {name: _address(function) for name, function in _CALLBACKS.items()}
    library = engine.load(image, given, "braze.runtime")
    engine.keep_forever(library)
    pointer, word = ctypes.c_void_p, ctypes.c_int64
    # PYFUNCTYPE: the native side decides about the GIL, and a Python exception it leaves set is raised.
    made = Services(
        library,
        {name: library.address(name) for name in PROGRAM_SYMBOLS},
        ctypes.PYFUNCTYPE(ctypes.c_int32, pointer, pointer, pointer)(library.address("braze_call")),
        ctypes.PYFUNCTYPE(pointer, word)(library.address("braze_alloc")),
        ctypes.PYFUNCTYPE(None, pointer, word)(library.address("braze_free")),
        uses_callbacks,
    )
    _remember_main_thread(made)
    return made


def _remember_main_thread(made: Services) -> None:
    made.variable("braze_main_thread").value = threading.main_thread().ident or 0


_LOCK = threading.Lock()
_SERVICES: list[Services] = []


def services() -> Services:
    """The runtime of this process, loaded at the first call."""
    if not _SERVICES:
        with _LOCK:
            if not _SERVICES:
                made = load_services(callbacks=False)
                made.variable("braze_heap_cap").value = _cache_limit()
                _SERVICES.append(made)
    return _SERVICES[0]


def _cache_limit() -> int:
    """How many free bytes the allocator keeps: a quarter of what this process may use."""
    known = hasattr(os, "sysconf")
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if known else 4 << 30]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as file:
                limits.append(int(file.read()))
        except (OSError, ValueError):
            continue  # no such control group, or "max"
    return min(limits) // 4


def _after_fork() -> None:
    global _LOCK, _CONDITION
    _LOCK, _CONDITION = threading.Lock(), threading.Condition()
    for made in _SERVICES:
        for name in ("braze_heap_after_fork", "braze_pool_after_fork"):
            ctypes.PYFUNCTYPE(None)(made.library.address(name))()
        _remember_main_thread(made)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
