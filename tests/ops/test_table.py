"""Every record, over its samples: types, completeness, and the primitive's facet against what it lowers to."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from op_values import arguments, as_list, assert_facet, run

from braze.hlo.ir import walk
from braze.hlo.lower import lower
from braze.ops.table import HLO_OPS, PRIMITIVES, Absent, Op
from braze.trace.staging import stage

RECORDS = sorted({*PRIMITIVES.values(), *HLO_OPS.values()}, key=lambda op: (op.title, op.name is None))
FACETS = ("infer", "numpy", "error", "effects", "jvp", "transpose", "batch", "partial", "lower", "kernel", "cost",
          "samples")  # fmt: skip
WITHOUT_SAMPLES = {"jit", "while", "cond", "scan", "debug_callback", "call", "case", "custom_call", "reduce",
                   "reduce_window", "scatter", "select_and_scatter", "sort", "braze.fusion"}  # fmt: skip
SAMPLED_PRIMITIVES = [PRIMITIVES["sort"], PRIMITIVES["scatter"]]
"""Primitives of the same name as an HLO op with regions."""
READS_IN_PART = {"reduce", "gather"}
"""Ops that need not read all of their operands."""


@pytest.mark.parametrize("op", RECORDS, ids=str)
def test_facets_are_functions_or_argued(op: Op) -> None:
    for field in dataclasses.fields(Op):
        if field.name not in ("name", "hlo"):
            assert getattr(op, field.name) is not None, field.name
    for facet in FACETS:
        value = getattr(op, facet)
        if isinstance(value, Absent):
            assert re.fullmatch(r"\S.{8,}\w", value.reason), f"{facet}: {value.reason!r}"
    parts = op.jvp if isinstance(op.jvp, tuple) else ()
    assert None not in parts
    assert op.name is not None or isinstance(op.jvp, Absent)
    assert (op.name is None) == (op in HLO_OPS.values() and op not in PRIMITIVES.values())


@pytest.mark.parametrize("op", RECORDS, ids=str)
def test_samples_cover_every_op_but_those_with_regions(op: Op) -> None:
    samples = list(op.samples())
    assert bool(samples) != (op.title in WITHOUT_SAMPLES and op not in SAMPLED_PRIMITIVES)
    for types, attrs in samples:
        assert set(attrs) == set(op.attrs), "samples name all attributes"
        cost = op.cost(*types, **attrs)
        assert cost.flops >= 0 and cost.bytes >= sum(t.nbytes for t in types if op.title not in READS_IN_PART)


@pytest.mark.parametrize("op", [op for op in RECORDS if not isinstance(op.numpy, Absent)], ids=str)
def test_infer_gives_the_type_of_the_numpy_facet(op: Op) -> None:
    for types, attrs in op.samples():
        arrays = arguments(op, types, attrs)
        kept = [x.copy() for x in arrays]
        found = as_list(op, op.numpy(*arrays, **attrs))
        wanted = as_list(op, op.infer(*types, **attrs))
        assert all(isinstance(x, np.ndarray) for x in found)
        assert [(x.shape, x.dtype) for x in found] == [(t.shape, t.dtype) for t in wanted], (types, attrs)
        for x, before in zip(arrays, kept):
            assert x.tobytes() == before.tobytes(), "facets leave their operands alone"


@pytest.mark.parametrize("op", [op for op in PRIMITIVES.values() if op.title not in WITHOUT_SAMPLES], ids=str)
def test_lowered_primitive_means_the_same(op: Op) -> None:
    seen = set()
    for types, attrs in op.samples():
        shape = (
            types[0].shape if types else attrs["shape"],
            types[0].dtype if types else attrs["dtype"],
            str(attrs),
        )
        if shape in seen:
            continue
        seen.add(shape)
        arrays = arguments(op, types, attrs)
        found = run(lambda *xs, attrs=attrs: as_list(op, op(*xs, **attrs)), *arrays)
        with np.errstate(all="ignore"):
            wanted = as_list(op, op.numpy(*arrays, **attrs))
        for have, want in zip(found, wanted, strict=True):
            assert_facet(op, have, np.asarray(want), arrays, attrs)


@pytest.mark.parametrize("op", [op for op in PRIMITIVES.values() if op.title not in WITHOUT_SAMPLES], ids=str)
def test_lowering_leaves_hlo_ops_only(op: Op) -> None:
    types, attrs = next(iter(op.samples()))
    module = lower(stage(lambda *xs: as_list(op, op(*xs, **attrs)), types, name="f")).module
    for instruction in walk(module.main.region):
        assert HLO_OPS[instruction.op.hlo] is instruction.op
