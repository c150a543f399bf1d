"""Arrays that end, or begin, at a page nobody may touch: an access outside them ends the process."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_PAGE = mmap.PAGESIZE
_NO_ACCESS = 0


class Guarded:
    """Memory between two forbidden pages.

    Args:
        source: what the array begins with.
        front: whether its first element, rather than its last, touches a forbidden page.
    """

    def __init__(self, source: np.ndarray, *, front: bool = False) -> None:
        room = -(-max(1, source.nbytes) // _PAGE) * _PAGE
        self._map = mmap.mmap(-1, room + 2 * _PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for page in (base, base + _PAGE + room):
            assert protect(page, _PAGE, _NO_ACCESS) == 0, f"mprotect: errno {ctypes.get_errno()}"
        start = _PAGE if front else _PAGE + room - source.nbytes
        self.array = np.frombuffer(self._map, source.dtype, source.size, start)
        self.array[:] = source
