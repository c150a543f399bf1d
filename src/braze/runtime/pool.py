"""The thread pool: daemon threads of Python that live in native code.

The pool itself is native (`pool_ir`). Python starts the threads, since `threading` is the one way to do
that on every system: each enters `braze_pool_worker` through `ctypes`, which releases the GIL, and never comes
back; at exit it sleeps or spins outside Python, so the interpreter can end at any moment.

Workers are pinned, one to a CPU, on systems that allow it; a pinned worker that finds the caller on its CPU is
moved to the one the caller left. A forked child has no threads but the forking one; the pool is started anew
there if the parent had it.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

from braze import knobs
from braze.runtime.pool_ir import MAX_WORKERS
from braze.runtime.services import Services, services

_LOCK = threading.Lock()
_STARTED: list[Services] = []


def allowed_threads() -> int:
    """How many threads a call may use: CPUs of this process, the control group's quota, the knob `threads`."""
    allowed = min(len(_cpus()), _quota(), MAX_WORKERS + 1)
    setting = knobs.get("threads")
    return allowed if setting is None else min(setting, allowed)


def _cpus() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _quota() -> int:
    """CPUs that the control group grants, rounded up; very many where there is none."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return MAX_WORKERS + 1
    return MAX_WORKERS + 1 if quota == "max" else max(1, -(-int(quota) // int(period)))


def start() -> int:
    """Start the workers if they are not there, and return how many threads a call may use, itself included.

    The pool has a worker for every CPU but one, whatever the knob says now; a call takes fewer if it is told to.
    """
    if not _STARTED:
        with _LOCK:
            if not _STARTED:
                runtime = services()
                start_workers(runtime, min(len(_cpus()), _quota(), MAX_WORKERS + 1) - 1)
                _STARTED.append(runtime)
    return allowed_threads()


def start_workers(runtime: Services, count: int) -> None:
    """Give the pool of a loaded runtime its workers."""
    cpus = _cpus()
    word: type[Any] = ctypes.c_int32 * (MAX_WORKERS + 1)
    homes, threads = (runtime.variable(f"braze_pool_{name}", word) for name in ("homes", "threads"))
    enter = ctypes.CFUNCTYPE(None, ctypes.c_int32)(runtime.library.address("braze_pool_worker"))
    homes[0] = cpus[0]
    for number in range(1, count + 1):
        thread = threading.Thread(target=enter, args=(number,), name=f"braze-{number}", daemon=True)
        thread.start()
        threads[number] = thread.native_id or 0
        homes[number] = cpus[number % len(cpus)]
        _pin(thread, homes[number])
    runtime.variable("braze_pool_workers", ctypes.c_int32).value = count


def _pin(thread: threading.Thread, cpu: int) -> None:
    if hasattr(os, "sched_setaffinity") and thread.native_id:
        try:
            os.sched_setaffinity(thread.native_id, {cpu})
        except OSError:
            return  # the system does not let us; the scheduler places it


def _after_fork() -> None:
    global _LOCK
    _LOCK = threading.Lock()
    if _STARTED:
        _STARTED.clear()
        start()


if hasattr(os, "register_at_fork"):
    # Registered after that of `services`, which is imported above: its reset comes first.
    os.register_at_fork(after_in_child=_after_fork)
