"""Runs a kernel as machine code and by the evaluator, for tests."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np

from braze.kernel.evaluate import evaluate
from braze.kernel.ir import Kernel
from braze.runtime.engine import compile_object, load
from braze.target import Target
from braze.targets.host import host
from braze.targets.llvm import kernel_module, scratch_bytes, symbol

_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class Machine:
    """A kernel's machine code."""

    def __init__(
        self, kernel: Kernel, target: Target | None = None, symbols: Mapping[str, int] | None = None
    ) -> None:
        self.kernel = kernel
        target = target or host()
        self.library = load(compile_object(kernel_module(kernel, target), target), symbols or {})
        self.function = _KERNEL(self.library.address(symbol(kernel)))
        self._scratch = np.full(scratch_bytes(kernel) + 64, 0xA5, np.uint8)

    def __call__(self, buffers: Sequence[np.ndarray], first: int = 0, last: int | None = None) -> None:
        pointers = (ctypes.c_void_p * max(1, len(buffers)))(*(b.ctypes.data for b in buffers))
        scratch = -(-self._scratch.ctypes.data // 64) * 64
        self.function(pointers, first, self.kernel.grid if last is None else last, scratch)


def same(x: np.ndarray, y: np.ndarray, *, any_nan: bool = True) -> np.ndarray:
    """Where two arrays agree bit for bit, any NaN being any other."""
    bits = x.view(f"u{x.dtype.itemsize}") == y.view(f"u{y.dtype.itemsize}")
    return bits | (any_nan & (x != x) & (y != y))


def agree(kernel: Kernel, buffers: Sequence[np.ndarray], **kwargs: object) -> list[np.ndarray]:
    """Run both ways on copies of the buffers; the results must agree. Returns them."""
    expected = [b.copy() for b in buffers]
    found = [b.copy() for b in buffers]
    evaluate(kernel, expected)
    Machine(kernel, **kwargs)(found)
    for memory, x, y in zip(kernel.parameters, expected, found):
        equal = same(x, y)
        at = np.flatnonzero(~equal)[:5]
        assert equal.all(), f"{memory.name}{at}: evaluator {x[at]}, machine code {y[at]}"
    return found
