"""The gate of the machine-code dispatcher: one word that is zero while every call may take the short way.

Entries belong to a configuration, and a call during staging must be staged. Both are settings of one thread,
which machine code cannot read, so this module keeps three words for it:

| `mode` | means |
|---|---|
| 0 | every thread has the environment's configuration, none is staging |
| 1 | only the thread `thread` differs: its epoch is `epoch`, or -1 while it stages |
| 2 | several threads differ: every call goes the slow way, which asks `knobs` and `core` |

Invariants:
- A thread that differs is noted before `config` or `activate` lets it run on.
- Threads are told apart by CPython's serial number of thread states, which is never used twice.
"""

from __future__ import annotations

import ctypes
import os
import threading

from braze import core, knobs
from braze.runtime.engine import keep_forever
from braze.runtime.heaptype import python_function

BASE_EPOCH = 0
"""The epoch of the environment's configuration, the first that `knobs` numbers."""
STAGING = -1


class Words(ctypes.Structure):
    """What machine code reads: `mode` at 0, `thread` at 8, `epoch` at 16."""

    mode: int
    thread: int
    epoch: int

    _fields_ = (("mode", ctypes.c_int64), ("thread", ctypes.c_uint64), ("epoch", ctypes.c_int64))


WORDS = Words(0, 0, BASE_EPOCH)
keep_forever(WORDS)  # machine code reads it as long as the process lives

_LOCK = threading.Lock()
_DIFFERENT: dict[int, int] = {}  # thread to its epoch, or STAGING


_STATE = python_function("PyThreadState_Get", ctypes.c_void_p)
_NUMBER = python_function("PyThreadState_GetID", ctypes.c_uint64, ctypes.c_void_p)


def _thread() -> int:
    return int(_NUMBER(_STATE()))


def _update() -> None:
    """Note how this thread stands; called in it after every change."""
    thread = _thread()
    epoch = STAGING if core.is_tracing() else knobs.epoch()
    with _LOCK:
        if epoch == BASE_EPOCH:
            _DIFFERENT.pop(thread, None)
        else:
            _DIFFERENT[thread] = epoch
        _publish()


def _publish() -> None:
    mode = min(2, len(_DIFFERENT))
    if mode == 1:
        WORDS.mode = 2  # until both words below are there, since other threads may run in between
        ((WORDS.thread, WORDS.epoch),) = _DIFFERENT.items()
    WORDS.mode = mode


def _after_fork() -> None:
    """Only the forking thread lives on in the child."""
    global _LOCK
    _LOCK = threading.Lock()
    thread = _thread()
    for other in [t for t in _DIFFERENT if t != thread]:
        del _DIFFERENT[other]
    _publish()


knobs.on_change(lambda epoch: _update())
core.on_staging(_update)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
_update()
