"""The matrix micro-kernel against the FMA peak of one core, both measured in this run.

    python benchmarks/micro.py [--json]

The peak is that of a loop of independent multiply-adds in registers. The process is pinned to one core; each
figure is the best of many short samples, taken alternately, since other programs only ever slow one down.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import time
from collections.abc import Callable

import numpy as np
from benchmarks.matrix_strip import Tile, matrix_strip

from braze.dtypes import F32
from braze.kernel.builder import Builder
from braze.kernel.ir import Kernel
from braze.runtime.engine import compile_object, load
from braze.targets.host import host
from braze.targets.llvm import kernel_module, symbol

CHAINS = 12
STEPS = 20_000
BAR = 0.7


def peak_kernel() -> Kernel:
    """As many multiply-adds as the core can do: chains that never touch memory."""
    lanes = host().lanes(F32)
    b = Builder("peak", lanes)
    x, y = b.memory("x", F32, lanes * CHAINS, "in"), b.memory("y", F32, lanes * CHAINS, "out")
    with b.region():
        start = [b.load(x, i * lanes, "unit") for i in range(CHAINS)]
        factor = b.load(x, 0, "unit")
        sums = b.loop(0, STEPS, 1, start, lambda i, *acc: [b.fma(a, factor, factor) for a in acc])
        for i, total in enumerate(sums):
            b.store(y, i * lanes, total, "unit")
    return b.finish(1, flops=2 * lanes * CHAINS * STEPS)


def compiled(kernel: Kernel) -> Callable[[], float]:
    """A function that runs the whole grid once and returns the seconds it took."""
    library = load(compile_object(kernel_module(kernel, host()), host()), {})
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(
        library.address(symbol(kernel))
    )
    arrays = [_aligned(m.size) for m in kernel.parameters]
    pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))

    def run() -> float:
        assert library is not None and arrays
        before = time.perf_counter()
        function(pointers, 0, kernel.grid, None)
        return time.perf_counter() - before

    return run


def _aligned(size: int) -> np.ndarray:
    whole = np.zeros(size + 16, np.float32)
    start = (-whole.ctypes.data % 64) // 4
    made = whole[start : start + size]
    made[:] = np.linspace(0.25, 0.5, size) if size else 0
    return made


def measure(kernels: dict[str, Kernel], rounds: int = 300) -> dict[str, float]:
    """GF/s of each kernel, best of the rounds."""
    runs = {name: compiled(kernel) for name, kernel in kernels.items()}
    best = dict.fromkeys(kernels, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            best[name] = min(best[name], run())
    return {name: kernels[name].flops / best[name] / 1e9 for name in kernels}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    tile = Tile()
    # 32 panels of 256 x 32 are 1 MB: B streams from the second-level cache, as in a blocked product.
    strip = matrix_strip("strip", tile, depth=256, panels=32)
    found = measure({"peak": peak_kernel(), "micro-kernel": strip})
    ratio = found["micro-kernel"] / found["peak"]
    row = {"work": f"micro-kernel {tile.rows}x{tile.lanes} f32", "peak_gflops": found["peak"],
           "ours_gflops": found["micro-kernel"], "ratio": ratio, "bar": BAR, "cores": 1}  # fmt: skip
    if asked.json:
        print(json.dumps(row))
    else:
        print(
            f"{row['work']}: {found['micro-kernel']:.1f} GF/s of {found['peak']:.1f} peak: {ratio:.0%} (bar {BAR:.0%})"
        )


if __name__ == "__main__":
    main()
