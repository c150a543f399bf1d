"""One kernel through LLVM: the smallest thing that can go wrong."""

import ctypes

import numpy as np

from braze.dtypes import F32
from braze.kernel.builder import Builder
from braze.runtime.engine import compile_object, load
from braze.targets.host import host
from braze.targets.llvm import kernel_module


def test_kernel_runs_as_machine_code():
    b = Builder("double", lanes=16)
    x, y = b.memory("x", F32, 1024, "in"), b.memory("y", F32, 1024, "out")
    with b.region(), b.for_(0, 1024, 16) as i:
        b.store(y, i, b.mul(b.load(x, i, "unit"), 2.0), "unit")
    text = kernel_module(b.finish(grid=1), host())
    library = load(compile_object(text, host()), {})
    source = np.arange(1024, dtype=np.float32)
    result = np.zeros_like(source)
    buffers = (ctypes.c_void_p * 2)(source.ctypes.data, result.ctypes.data)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    function(library.address("double"))(buffers, 0, 1, None)
    assert (result == source * 2).all()
