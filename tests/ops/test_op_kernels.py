"""The `kernel` facet of every HLO op, over its samples: the kernels built from it, run by the evaluator.

Machine code against the same facets is tested where machine code is made; here the lane code and the index
maps stand alone, with every access checked against its memory.
"""

from __future__ import annotations

import numpy as np
import pytest
from op_values import arguments, as_list, assert_facet

from braze.hlo.ir import Builder, Instruction, Region, Value
from braze.kernel.build import FAMILIES, build
from braze.kernel.evaluate import evaluate
from braze.ops.fusion import fusion_hlo
from braze.ops.table import HLO_OPS, PRIMITIVES, Absent, Family, Op, ProgramStep, Update
from braze.target import Target
from braze.types import TensorType

TARGET = Target("cpu", vector_bytes=16, masked_memory=True, has_fma=True)
KERNELS = [op for op in HLO_OPS.values() if not isinstance(op.kernel, Absent) and list(op.samples())]
LARGEST = 2200
"""Elements up to which the evaluator, which runs lane by lane in Python, is asked."""


def run_kernels(op: Op, arrays: list[np.ndarray], attrs: dict, fused: bool = False) -> list[np.ndarray]:
    """One instruction on its own, or alone in a fusion: build, evaluate each launch on flat buffers."""
    b = Builder()
    parameters = [Value(TensorType(x.shape, x.dtype)) for x in arrays]
    results = b.emit_many(op, *parameters, **attrs)
    made = results[0].producer
    if fused:
        closed = (Region(parameters, b.instructions, results),)
        attrs = {"kind": "loop", "name": "one", "aliases": ()}
        made = Instruction(fusion_hlo, parameters, [r.type for r in results], attrs, closed)
    built = build(made, "k", TARGET)
    buffers = {("operand", i): np.array(x, order="C").reshape(-1) for i, x in enumerate(arrays)}
    for i, r in enumerate(results):
        buffers["result", i] = np.full(r.type.size, 1, r.type.dtype)
    for i, t in enumerate(built.temporaries):
        buffers["temporary", i] = np.full(t.size, 1, t.dtype)
    for launch in built.launches:
        evaluate(launch.kernel, [buffers[name] for name in launch.buffers], symbols=SYMBOLS)
    for i, operand in made.overwrites.items():
        buffers["result", i] = buffers["operand", operand]
    return [buffers["result", i].reshape(r.type.shape) for i, r in enumerate(results)]


SYMBOLS = {"braze_sin_huge": np.sin, "braze_cos_huge": np.cos, "braze_tan_huge": np.tan}


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
            # In a fusion of its own, an update writes all of its result.
            found += run_kernels(op, arrays, attrs, fused=True) if isinstance(op.kernel, Update) else []
        for have, want in zip(found, wanted * (len(found) // len(wanted)), strict=True):
            assert_facet(op, have, np.asarray(want), arrays, attrs)


def test_every_hlo_op_has_kernels_or_says_why() -> None:
    assert not any(isinstance(op.kernel, Absent) for op in HLO_OPS.values())
    assert {op.hlo for op in HLO_OPS.values() if isinstance(op.kernel, ProgramStep)} == {
        "call",
        "case",
        "custom_call",
        "while",
    }
    assert all(op.kernel.name in FAMILIES for op in HLO_OPS.values() if isinstance(op.kernel, Family))
    assert all(isinstance(op.kernel, Absent) for op in PRIMITIVES.values() if op.hlo is None)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("start", [0, 3, 2**63, 2**64 - 1])
def test_updates_at_unsigned_starts_end_at_the_end_of_the_axis(start: int, fused: bool) -> None:
    op = HLO_OPS["dynamic_update_slice"]
    arrays = [np.arange(5.0), np.full(2, 9.0), np.asarray(start, np.uint64)]
    (found,) = run_kernels(op, arrays, {}, fused)
    np.testing.assert_array_equal(found, op.numpy(*arrays))
    assert found[min(start, 3)] == 9.0
