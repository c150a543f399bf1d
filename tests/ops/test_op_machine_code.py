"""Machine code of every primitive, over all its samples, within the op's error of its `numpy` facet.

Samples of one op are compiled a dozen to a program, which saves most of the time that programs cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_values import arguments, as_list, assert_facet

import braze as bz
from braze.ops.table import PRIMITIVES, Op, Sample

TESTED = [op for op in PRIMITIVES.values() if list(op.samples())]
TOGETHER = 12


@pytest.mark.parametrize("op", TESTED, ids=str)
def test_machine_code_means_what_the_numpy_facet_means(op: Op) -> None:
    samples = list(op.samples())
    for i in range(0, len(samples), TOGETHER):
        check(op, samples[i : i + TOGETHER])


def check(op: Op, samples: list[Sample]) -> None:
    operands = [arguments(op, types, attrs) for types, attrs in samples]

    def program(groups: Any) -> Any:
        return [as_list(op, op(*xs, **attrs)) for xs, (_, attrs) in zip(groups, samples)]

    found = bz.jit(program, target="cpu")(operands)
    for results, arrays, (_, attrs) in zip(found, operands, samples, strict=True):
        with np.errstate(all="ignore"):
            wanted = as_list(op, op.numpy(*arrays, **attrs))
        for have, want in zip(results, wanted, strict=True):
            assert_facet(op, np.asarray(have), np.asarray(want), arrays, attrs)
