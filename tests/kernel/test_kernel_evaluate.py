"""The evaluator's own promises: exact multiply-adds, checked accesses, poisoned scratch."""

from fractions import Fraction

import numpy as np
import pytest

from braze.dtypes import BOOL, F32, F64, I64
from braze.errors import InternalError
from braze.kernel.builder import Builder
from braze.kernel.evaluate import evaluate, fma, poison


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_fma_is_the_exact_sum_rounded_once(dtype):
    rng = np.random.default_rng(7)
    x, y = (rng.standard_normal(300).astype(dtype) for _ in range(2))
    eps = np.finfo(dtype).eps
    z = np.concatenate([
        -(x[:100] * y[:100]) * (1 + eps * rng.integers(-2, 3, 100)),
        rng.standard_normal(100) * np.exp2(rng.integers(-60, 60, 100)),
        np.exp2(rng.integers(-60, 60, 100)),
    ]).astype(dtype)  # fmt: skip
    found = fma(x, y, z)
    for a, b, c, f in zip(x, y, z, found):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        error = abs(Fraction(float(f)) - exact)
        neighbours = [np.nextafter(f, dtype.type(s * np.inf)) for s in (-1, 1)]
        assert all(error <= abs(Fraction(float(n)) - exact) for n in neighbours), (a, b, c, f)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize(
    "x, y, z, result",
    [
        (0.0, 1.0, -0.0, 0.0),
        (-0.0, 1.0, -0.0, -0.0),
        (2.0, 3.0, -6.0, 0.0),
        (np.inf, 0.0, 1.0, np.nan),
        (np.inf, 1.0, -np.inf, np.nan),
        (1.0, 1.0, -np.inf, -np.inf),
        ("max", 2.0, -np.inf, -np.inf),
        ("max", 2.0, "-max", "max"),
        ("max", 2.0, 0.0, np.inf),
        ("tiny", "-tiny", 0.0, -0.0),
        ("tiny", "tiny", 0.0, 0.0),
    ],
)
def test_fma_of_special_values(dtype, x, y, z, result):
    def value(given):
        if not isinstance(given, str):
            return np.array([given], dtype)
        size = getattr(np.finfo(dtype), given.removeprefix("-"))
        return np.array([-size if given.startswith("-") else size], dtype)

    with np.errstate(all="ignore"):
        found = fma(value(x), value(y), value(z))
    wanted = value(result)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert np.signbit(found) == np.signbit(wanted) or np.isnan(wanted)


def access_kernel(index, access="unit", mask=None):
    b = Builder("access", 8)
    x, y = b.memory("x", F32, 10, "in"), b.memory("y", F32, 10, "out")
    with b.region():
        flags = None if mask is None else b.lt(b.lane(), mask)
        b.store(y, 0, b.load(x, index, access, flags), "unit")
    return b.finish(1)


@pytest.mark.parametrize("index, outside", [(3, 10), (-1, -1)])
def test_access_outside_a_memory_names_the_statement(index, outside):
    with pytest.raises(InternalError) as caught:
        evaluate(access_kernel(index), [np.zeros(10, np.float32), np.zeros(10, np.float32)])
    assert f"x[{outside}] is outside its 10 elements: v0: f32 = load x[{index}] unit" in str(caught.value)
    assert "kernel access" in str(caught.value)


def test_masked_lanes_may_lie_outside():
    y = np.ones(10, np.float32)
    evaluate(access_kernel(7, mask=3), [np.full(10, 5, np.float32), y])
    assert y.tolist() == [5, 5, 5, 0, 0, 0, 0, 0, 1, 1]


def test_scratch_begins_as_poison():
    b = Builder("poison", 4)
    y = b.memory("y", F32, 4, "out")
    own = b.memory("own", F32, 2, "private")
    with b.region():
        b.store(y, 0, b.load(own, 1, "uniform"), "unit")
    y = np.zeros(4, np.float32)
    evaluate(b.finish(1), [y])
    assert np.isnan(y).all()
    assert poison(I64, 2).tolist() == [np.int64(0xA5A5A5A5A5A5A5A5 - (1 << 64))] * 2
    assert poison(BOOL, 1).tolist() == [True]


def test_blocks_run_as_asked():
    b = Builder("blocks", 1)
    y = b.memory("y", I64, 5, "out")
    b.store(y, b.block, b.add(b.block, 1), "uniform")
    y = np.zeros(5, np.int64)
    evaluate(b.finish(5), [y], blocks=[3, 1])
    assert y.tolist() == [0, 2, 0, 4, 0]


def test_lane_outside_the_kernel_is_an_error():
    b = Builder("lane", 4)
    y = b.memory("y", I64, 1, "out")
    with b.region():
        b.store(y, 0, b.extract(b.lane(), 4), "uniform")
    with pytest.raises(InternalError, match="there is no lane 4"):
        evaluate(b.finish(1), [np.zeros(1, np.int64)])
