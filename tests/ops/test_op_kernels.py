"""The `kernel` facet of every HLO op, over its samples: the kernels built from it, run by the evaluator.

Machine code against the same facets is tested where machine code is made; here the lane code and the index
maps stand alone, with every access checked against its memory.
"""

from __future__ import annotations

import numpy as np
import pytest
from op_values import arguments, as_list, assert_facet

from braze.hlo.ir import Builder, Value
from braze.kernel.build import build
from braze.kernel.evaluate import evaluate
from braze.ops.table import HLO_OPS, PRIMITIVES, Absent, Op
from braze.target import Target
from braze.types import TensorType

TARGET = Target("cpu", vector_bytes=16, masked_memory=True, has_fma=True)
KERNELS = [op for op in HLO_OPS.values() if not isinstance(op.kernel, Absent) and list(op.samples())]
LARGEST = 2200
"""Elements up to which the evaluator, which runs lane by lane in Python, is asked."""


def run_kernels(op: Op, arrays: list[np.ndarray], attrs: dict) -> list[np.ndarray]:
    """One instruction on its own: build, evaluate each launch on flat buffers."""
    types = [TensorType(x.shape, x.dtype) for x in arrays]
    b = Builder()
    results = b.emit_many(op, *[Value(t) for t in types], **attrs)
    built = build(results[0].producer, "k", TARGET)
    buffers = {("operand", i): np.ascontiguousarray(x).reshape(-1) for i, x in enumerate(arrays)}
    for i, r in enumerate(results):
        buffers["result", i] = np.full(r.type.size, 1, r.type.dtype)
    for i, t in enumerate(built.temporaries):
        buffers["temporary", i] = np.full(t.size, 1, t.dtype)
    for launch in built.launches:
        evaluate(launch.kernel, [buffers[name] for name in launch.buffers], symbols=SYMBOLS)
    return [buffers["result", i].reshape(r.type.shape) for i, r in enumerate(results)]


SYMBOLS = {"braze_sin_huge": np.sin, "braze_cos_huge": np.cos}


@pytest.mark.parametrize("op", KERNELS, ids=str)
def test_lane_code_means_what_the_numpy_facet_means(op: Op) -> None:
    for types, attrs in op.samples():
        if any(t.size > LARGEST for t in types):
            continue
        arrays = arguments(op, types, attrs)
        wanted = as_list(op, op.numpy(*arrays, **attrs))
        if any(not 0 < np.asarray(w).size <= LARGEST for w in wanted):
            continue
        with np.errstate(all="ignore"):
            found = run_kernels(op, arrays, attrs)
        for have, want in zip(found, wanted, strict=True):
            assert_facet(op, have, np.asarray(want), arrays, attrs)


def test_every_hlo_op_has_kernels_or_says_why() -> None:
    without = {op.hlo for op in HLO_OPS.values() if isinstance(op.kernel, Absent)}
    assert without == {"call", "case", "custom_call", "while", "braze.fusion"}
    assert all(isinstance(op.kernel, Absent) for op in PRIMITIVES.values() if op.hlo is None)
