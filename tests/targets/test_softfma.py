"""The multiply-add without FMA: equal to the instruction on hard and random operands."""

from dataclasses import replace

import numpy as np
import pytest
from tests.targets.run import Machine, same

from braze.dtypes import F32, F64
from braze.kernel.builder import Builder
from braze.kernel.evaluate import fma
from braze.targets.host import host

WITHOUT = replace(host(), has_fma=False)


def hard_operands(dtype, rng):
    """Random ones of all exponents, close cancellations, ties, subnormal results, and special values."""
    limits = np.finfo(dtype)
    special = np.array([0, 1, 3, limits.max, limits.tiny, limits.smallest_subnormal, np.inf, np.nan], dtype)
    special = np.concatenate([special, -special, [1 + limits.eps, 1 - limits.eps]]).astype(dtype)
    corners = [m.ravel() for m in np.meshgrid(special, special, special)]
    bits = [rng.integers(0, 256, 20_000 * dtype.itemsize, np.uint8).view(dtype) for _ in range(3)]
    x, y = (rng.uniform(1, 2, 20_000).astype(dtype) for _ in range(2))
    near = -(x * y) * (1 + limits.eps * rng.integers(-2, 3, 20_000)).astype(dtype)
    small = rng.integers(-1074, -900, 20_000) if dtype == F64 else rng.integers(-149, -100, 20_000)
    with np.errstate(all="ignore"):
        tiny = np.ldexp(y, small).astype(dtype)
        ties = np.ldexp(x, rng.integers(-60, 61, 20_000)).astype(dtype)
    groups = [corners, bits, [x, y, near], [x, tiny, -tiny], [x, tiny, np.roll(tiny, 1)], [x, y, ties]]
    return [np.concatenate(column) for column in zip(*groups)]


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_equals_the_instruction(dtype, lanes):
    operands = hard_operands(dtype, np.random.default_rng(11))
    size = len(operands[0]) // lanes * lanes
    operands = [o[:size] for o in operands]
    b = Builder("fused", lanes)
    sources = [b.memory(name, dtype, size, "in") for name in "xyz"]
    out = b.memory("out", dtype, size, "out")
    with b.region(), b.for_(0, size, lanes) as i:
        b.store(out, i, b.fma(*(b.load(m, i, "unit") for m in sources)), "unit")
    kernel = b.finish(grid=1)
    found = np.zeros(size, dtype)
    Machine(kernel, WITHOUT)([*operands, found])
    with np.errstate(all="ignore"):
        expected = fma(*operands)
    references = [expected]
    if host().has_fma:
        references.append(np.zeros(size, dtype))
        Machine(kernel)([*operands, references[1]])
    for reference in references:
        wrong = np.flatnonzero(~same(found, reference))[:3]
        shown = [([float(o[i]).hex() for o in operands], found[i], reference[i]) for i in wrong]
        assert not len(wrong), shown
