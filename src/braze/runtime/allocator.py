"""The allocator from Python: blocks of memory, and arrays that give theirs back when they die.

The work is done in native code (`heap_ir`), which the call path shares. First touch of fresh
pages costs ten times the work of an elementwise kernel, so blocks are kept and reused: a freed block goes to
the list of its size class, up to a cap of a quarter of the memory; beyond it the class that has been idle
longest gives back to the system. Blocks of 4 MB and more are aligned to 2 MB and ask for huge pages.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from braze.errors import AllocationError
from braze.runtime.services import services
from braze.types import TensorType


class HeapInfo(NamedTuple):
    """Bytes in use, bytes kept for reuse, and the most that are kept; sizes as rounded to classes."""

    used: int
    cached: int
    cap: int


def allocate(nbytes: int) -> int:
    """The address of a block of at least so many bytes, 64-byte aligned, its contents undefined.

    Raises: AllocationError, which is a MemoryError, naming the bytes wanted.
    """
    address = services().allocate(nbytes)
    if address is None:
        raise AllocationError(
            f"allocate: {nbytes:,} bytes are wanted, which the system does not give.",
            hint="use smaller arrays, or free some with `del` or by donating them.",
        )
    return int(address)


def free(address: int, nbytes: int) -> None:
    """Take back a block of `allocate(nbytes)`."""
    services().free(address, nbytes)


def trim(limit: int = 0) -> None:
    """Give kept blocks back to the system until at most `limit` bytes are kept."""
    ctypes.PYFUNCTYPE(None, ctypes.c_int64)(services().library.address("braze_heap_trim"))(limit)


def heap_info() -> HeapInfo:
    """What the allocator holds."""
    runtime = services()
    names = ("braze_heap_used", "braze_heap_cached", "braze_heap_cap")
    return HeapInfo(*(runtime.variable(name).value for name in names))


class Block:
    """A block of the allocator that is freed with this object; NumPy arrays keep it as their base."""

    __slots__ = ("_free", "address", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.address = allocate(nbytes)
        self.nbytes = nbytes
        self._free: Callable[[int, int], Any] = services().free  # at hand when modules are already gone

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False)}

    def __del__(self) -> None:
        if hasattr(self, "_free"):
            self._free(self.address, self.nbytes)


def empty(type_: TensorType) -> np.ndarray[Any, Any]:
    """A NumPy array of a type on a block of the allocator, its contents undefined."""
    if type_.nbytes == 0:
        return np.empty(type_.shape, type_.dtype)
    return np.asarray(Block(type_.nbytes)).view(type_.dtype).reshape(type_.shape)
