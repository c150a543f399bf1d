"""No pass recurses over instructions or takes the square of their number."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from braze import dtypes
from braze.hlo.evaluate import evaluate
from braze.hlo.ir import Builder, Function, Module, Region, Value
from braze.ops.table import HLO_OPS
from braze.passes import manager
from braze.passes.pipeline import PIPELINE
from braze.target import NUMPY
from braze.types import TensorType

LENGTH = 20_000
BEFORE_FUSION = [row for row in PIPELINE if row.name != "fusion"]


def chain(length: int) -> Module:
    """Negations of negations, sums with constants, and a dead instruction beside every living one."""
    x = Value(TensorType((4,), dtypes.I32))
    b = Builder()
    value = x
    for i in range(length // 4):
        one = b.constant(np.full(4, i % 5), dtypes.I32)
        value = b.emit(HLO_OPS["add"], value, one)
        value = b.emit(HLO_OPS["negate"], value)
        b.emit(HLO_OPS["sign"], value)
    return Module({"main": Function("main", Region([x], b.instructions, [value]))})


@pytest.mark.parametrize("row", BEFORE_FUSION, ids=lambda row: row.name)
def test_long_chains_meet_no_recursion_limit(row) -> None:
    module = chain(LENGTH)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(250)
    try:
        made = manager.run(module, NUMPY, passes=[row], verify=0)
    finally:
        sys.setrecursionlimit(limit)
    x = np.arange(4, dtype=np.int32)
    assert np.array_equal(evaluate(made, [x])[0], evaluate(module, [x])[0])


@pytest.mark.parametrize("row", BEFORE_FUSION, ids=lambda row: row.name)
def test_work_grows_with_the_length_and_not_its_square(row) -> None:
    """Counted in calls of Python functions, which do not depend on the machine."""
    short, long = (calls_of(row, chain(length)) for length in (2_000, 8_000))
    assert long < 5 * short + 1_000


def calls_of(row, module: Module) -> int:
    count = 0

    def profile(frame, event, arg) -> None:
        nonlocal count
        count += 1

    sys.setprofile(profile)
    try:
        manager.run(module, NUMPY, passes=[row], verify=0)
    finally:
        sys.setprofile(None)
    return count
