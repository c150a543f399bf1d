"""The printer on small kernels: text, machine code, and what it refuses."""

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.golden import compare
from tests.kernel.kernels import CASES
from tests.targets.run import agree

from braze.dtypes import C64, C128, F32, short
from braze.errors import UnsupportedError
from braze.kernel.builder import Builder
from braze.runtime.engine import compile_object, load
from braze.target import Target
from braze.targets.host import host
from braze.targets.llvm import Module, emit_kernel, kernel_module

GOLDENS = Path(__file__).parent / "goldens"


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
    function(library.address("braze.double"))(buffers, 0, 1, None)
    assert (result == source * 2).all()


def small_kernel(dtype=F32):
    """A masked loop over a grid, with a reduction."""
    b = Builder("small", lanes=4)
    x, y = b.memory("x", dtype, 10, "in"), b.memory("y", dtype, 3, "out")
    with b.region():
        first = b.mul(b.block, 4)
        inside = b.lt(b.lane(), b.sub(10, first))
        value = b.load(x, first, "unit", inside, 0.0)
        b.store(y, b.block, b.lane_reduce("add", b.max_fast(value, 0.1)), "uniform")
    return b.finish(grid=3)


def test_text_is_golden(bless):
    compare(GOLDENS / "small.ll", kernel_module(small_kernel(), Target("cpu")), bless)


@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
def test_dtypes_that_it_does_not_compute_with_are_an_error(dtype):
    with pytest.raises(UnsupportedError, match=f"target cpu: kernels do not compute with {short(dtype)}"):
        kernel_module(small_kernel(dtype), host())


def test_module_holds_each_part_once():
    module = Module()
    for _ in range(2):
        emit_kernel(small_kernel(), host(), module)
        module.declare("declare void @f(ptr)")
        module.add_global("@g", "@g = internal constant i64 7")
    text = module.text()
    assert [text.count(part) for part in ("define void @braze.small", "declare void @f", "@g =")] == [1, 1, 1]
    with pytest.raises(AssertionError, match="declared twice"):
        module.declare("declare i32 @f(ptr)")
    with pytest.raises(AssertionError, match="defined twice, differently"):
        module.add_function("braze.small", "define void @braze.small() { ret void }")


@pytest.mark.skipif("x86_64" not in host().triple, reason="names x86 processors")
@pytest.mark.parametrize("cpu, has_fma", [("haswell", True), ("nehalem", False)])
@pytest.mark.parametrize("name", CASES)
def test_golden_kernels_on_older_processors(name, cpu, has_fma):
    """Without AVX-512 masks, and without masks, gathers and multiply-adds at all."""
    case = CASES[name]
    kernel = case.make(*case.golden)
    buffers, _ = case.inputs(*case.golden, np.random.default_rng(3))
    agree(kernel, buffers, target=replace(host(), cpu=cpu, features="", has_fma=has_fma))
