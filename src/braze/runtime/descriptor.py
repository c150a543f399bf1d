"""Descriptor: what machine code must know to call a program, as a C structure.

`Executable` fills one in; the native `braze_call` reads it, and so both ways of calling are one: `ctypes`
from `Executable.run`, and the machine-code dispatcher, which holds descriptors in its entries.

    i32 @braze_call(ptr descriptor, ptr inputs, ptr outputs)

`inputs` and `outputs` are arrays of data pointers. The caller holds the GIL and gets it back; in between it
is released if `RELEASES_GIL` is set. `braze_call` leases arena and scratch from the allocator (up to 2 KB lie
on its stack), builds the context and calls the entry.

| status | means | the caller |
|---|---|---|
| `OK` | results are written | |
| `RAISED` | a Python exception is set in this thread | returns NULL, or lets `ctypes.PYFUNCTYPE` raise it |
| `INTERNAL` | the program found itself wrong | raises InternalError |
| `NO_MEMORY` | arena or scratch could not be had, nothing has run | raises AllocationError with `lease_bytes` |

The context is eight 8-byte fields on the native stack, alive for one call:

| offset | field |
|---|---|
| 0 | arena, 64-byte aligned |
| 8 | scratch of thread 0; the others follow, `scratch_bytes` apart |
| 16 | scratch bytes per thread |
| 24 | thread pool, or 0 |
| 32 | the Python callable behind `braze_host`, or 0 |
| 40 | most threads that may work on one launch, the caller among them |
| 48 | time of the next look at signals; 0 never looks |
| 56 | reserved, 0 |
"""

from __future__ import annotations

import ctypes

OK, RAISED, INTERNAL, NO_MEMORY = range(4)

RELEASES_GIL = 1
"""The GIL is free while the program runs."""
CHECKS_SIGNALS = 2
"""On the main thread, `braze_poll` looks at signals every few milliseconds."""

CONTEXT_BYTES = 64


class Descriptor(ctypes.Structure):
    """One program for machine code; 64 bytes, never moved or changed while an entry points to it.

    Units: bytes. `arena_bytes` and `scratch_bytes` are multiples of 64.
    """

    entry: int
    arena_bytes: int
    scratch_bytes: int
    threads: int
    flags: int
    host: int
    inputs: int
    outputs: int

    _fields_ = (
        ("entry", ctypes.c_void_p),  # 0: i32 (ptr context, ptr inputs, ptr outputs)
        ("arena_bytes", ctypes.c_int64),  # 8
        ("scratch_bytes", ctypes.c_int64),  # 16: for each thread
        ("threads", ctypes.c_int64),  # 24: 1 keeps the program off the pool
        ("flags", ctypes.c_int64),  # 32: RELEASES_GIL | CHECKS_SIGNALS
        (
            "host",
            ctypes.c_void_p,
        ),  # 40: borrowed PyObject*, called as host(callback, operands, results), or 0
        ("inputs", ctypes.c_int64),  # 48: how many
        ("outputs", ctypes.c_int64),  # 56: how many
    )

    @property
    def lease_bytes(self) -> int:
        """What one call takes from the allocator."""
        return self.arena_bytes + self.scratch_bytes * self.threads


def aligned(nbytes: int) -> int:
    """The next multiple of 64."""
    return (nbytes + 63) & ~63
