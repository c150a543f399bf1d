"""Stores around the caches: the same numbers wherever the memory lies, and only for large results."""

import ctypes

import numpy as np
import pytest
from tests.targets.run import Machine

import braze as bz
import braze.numpy as bnp
from braze.dtypes import BOOL, F32, F64, I8
from braze.kernel.builder import Builder
from braze.kernel.check import check
from braze.kernel.parse import parse_kernel
from braze.kernel.text import print_kernel
from braze.targets.host import host
from braze.targets.llvm import kernel_module

LANES = 64


def increment(dtype, size):
    """out[i] = not in[i], with a mask where the last vector is not full."""
    b = Builder("increment", LANES)
    x = b.memory("x", dtype, size, "in")
    out = b.memory("out", dtype, size, "out")
    with b.region(), b.for_(0, size, LANES) as i:
        mask = b.lt(b.add(b.lane(), i), size) if size % LANES else None
        value = b.load(x, i, "unit", mask)
        new = b.compute("not", value) if dtype == BOOL else b.add(value, 1)
        b.store(out, i, new, "unit", mask, streams=True)
    return b.finish(1)


def at_offset(values, offset):
    """A copy whose data begins so many bytes after a multiple of 64."""
    room = np.zeros(values.nbytes + 128 + offset, np.uint8)
    start = -room.ctypes.data % 64 + offset
    return room[start : start + values.nbytes].view(values.dtype)


@pytest.mark.parametrize("size", [LANES, 4 * LANES, 4 * LANES + 3])
@pytest.mark.parametrize("dtype", [BOOL, I8, F32, F64], ids=str)
def test_streams_anywhere(dtype, size):
    kernel = increment(dtype, size)
    check(kernel)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    text = kernel_module(kernel, host())
    assert "!nontemporal" in text
    assert "fence seq_cst" in text
    run = Machine(kernel)
    x = (np.arange(size) % 2 if dtype == BOOL else np.arange(size) % 100).astype(dtype)
    want = ~x if dtype == BOOL else x + np.asarray(1, dtype)
    for offset in (0, dtype.itemsize, 32):
        out = at_offset(x, offset)
        run([x, out])
        np.testing.assert_array_equal(out, want)
        out[:] = x
        run([out, out])
        np.testing.assert_array_equal(out, want)


def test_a_line_that_does_not_fill_the_vector_is_stored_as_usual():
    b = Builder("narrow", 4)
    out = b.memory("out", F32, 4, "out")
    with b.region():
        b.store(out, 0, b.cast(b.lane(), F32), "unit", streams=True)
    assert "!nontemporal" not in kernel_module(b.finish(1), host())


def test_only_large_results_stream():
    def kernel(size):
        lowered = bz.jit(lambda x: x + 1).lower(np.zeros(size, np.float32))
        return lowered.compile().as_text("kernel")

    assert "unit streams =" in kernel(4 << 20)
    assert "streams" not in kernel(1 << 20)


def test_a_large_result_in_place_and_apart():
    n = (4 << 20) + 5
    x = np.arange(n, dtype=np.float32)
    apart = bz.jit(lambda x: x * 2 + 1)
    in_place = bz.jit(lambda x: x * 2 + 1, donate_argnums=0)
    np.testing.assert_array_equal(apart(x), x * 2 + 1)
    mine = bnp.array(x)
    address = ctypes.c_void_p(np.asarray(mine).ctypes.data).value
    y = in_place(mine)
    np.testing.assert_array_equal(y, x * 2 + 1)
    assert np.asarray(y).ctypes.data == address
