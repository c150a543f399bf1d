"""Every opcode, dtype and lane count: machine code equals the evaluator bit for bit on special values."""

import numpy as np
import pytest
from tests.targets.run import Machine, same

from braze.dtypes import BOOL, F32, F64, FLOATS, I32, I64, INTEGERS, SIGNED, UNSIGNED
from braze.kernel.builder import Builder
from braze.kernel.evaluate import evaluate
from braze.kernel.ir import OPCODES

DTYPES = (BOOL, *INTEGERS, F32, F64)
SCALARS = 1
KEEPS_NAN_BITS = ("neg", "abs", "copysign", "select", "bitcast", "splat")


def takes(opcode, dtype):
    """Whether an opcode is defined on a dtype."""
    kinds = {
        "any": True,
        "number": dtype != BOOL,
        "integer": dtype in INTEGERS,
        "float": dtype in FLOATS,
        "bits": dtype not in FLOATS,
        "bool": dtype == BOOL,
    }
    return kinds[OPCODES[opcode].operands]


def specials(dtype):
    """Values at which arithmetic goes wrong."""
    if dtype == BOOL:
        return np.array([False, True])
    if dtype in FLOATS:
        limits = np.finfo(dtype)
        sizes = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 1e-7, 255.0, 256.5, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 127.99]
        sizes += [
            limits.max,
            limits.tiny,
            limits.smallest_subnormal,
            limits.eps,
            np.inf,
            np.nan,
            1 + limits.eps,
        ]
        return np.array([sign * s for s in sizes for sign in (1, -1)], dtype)
    limits = np.iinfo(dtype)
    width = 8 * dtype.itemsize
    near = [0, 1, 2, 3, 5, 7, width - 1, width, width + 1, limits.max, limits.max - 1, limits.max // 2]
    near += [limits.min, limits.min + 1, -1, -2, -width] if dtype in SIGNED else []
    return np.array(near, dtype)


def operands(dtype, count, rng):
    """All pairs of special values, then random bits; three operands."""
    values = specials(dtype)
    x, y = (m.ravel() for m in np.meshgrid(values, values))
    z = rng.permutation(np.resize(values, len(x)))
    if dtype == BOOL:
        extra = [rng.integers(0, 2, 64).astype(bool) for _ in range(3)]
    else:
        extra = [rng.integers(0, 256, 64 * dtype.itemsize, np.uint8).view(dtype) for _ in range(3)]
    if count == SCALARS:
        # The evaluator takes scalars one by one; every seventh pair keeps each value with most others.
        x, y, z = x[::7], y[::7], z[::7]
    joined = [np.concatenate(pair) for pair in zip((x, y, z), extra)]
    return [np.resize(a, -(-len(a) // count) * count) for a in joined]


def casts(dtype):
    targets = [d for d in DTYPES if d != dtype]
    found = [("cast", d) for d in targets]
    if dtype != BOOL:
        found += [("bitcast", d) for d in targets if d != BOOL and d.itemsize == dtype.itemsize]
    return found


def results(b, dtype, x, y, z):
    """Name and value of every opcode that the dtype takes, but those with preconditions."""
    for opcode, spec in OPCODES.items():
        if not takes(opcode, dtype) or opcode in ("cast", "bitcast", "cast_fast", "lane", "splat", "select"):
            continue
        if opcode == "scale_fast":
            continue
        if opcode.endswith("_fast") and dtype in INTEGERS:
            continue
        yield opcode, b.compute(opcode, *(x, y, z)[: spec.arity])
    yield "select", b.select(b.lt(x, z), y, z)
    for opcode, target in casts(dtype):
        yield f"{opcode}_{target}", b.compute(opcode, x, dtype=target)


def fast_results(b, dtype, x, y):
    """The opcodes with preconditions, on operands made to meet them."""
    if dtype in INTEGERS:
        width = 8 * dtype.itemsize
        amount = b.and_(y, width - 1)
        for opcode in ("shl_fast", "shr_fast", "sar_fast"):
            yield opcode, b.compute(opcode, x, amount)
        divisor = b.add(b.and_(y, 7), 1)
        for opcode in ("div_fast", "rem_fast"):
            yield opcode, b.compute(opcode, x, divisor)
        for value in (7, 1, 0, -1 if dtype in SIGNED else 3):
            yield f"div_by_{value}", b.div(x, value)
            yield f"rem_by_{value}", b.rem(x, value)
        for value in (1, width - 1, width):
            yield f"shl_by_{value}", b.shl(x, value)
            yield f"sar_by_{value}", b.sar(x, value)
    if dtype in FLOATS:
        small = b.min_fast(b.max_fast(x, -100.0), 100.0)
        for target in SIGNED:
            yield f"cast_fast_{target}", b.compute("cast_fast", small, dtype=target)
        for target in UNSIGNED:
            yield f"cast_fast_{target}", b.compute("cast_fast", b.abs(small), dtype=target)
        integer, fraction, one = (
            (I32, 0x7FFFFF, 127 << 23) if dtype == F32 else (I64, (1 << 52) - 1, 1023 << 52)
        )
        near_one = b.bitcast(b.or_(b.and_(b.bitcast(x, integer), fraction), one), dtype)
        limit = 200.0 if dtype == F32 else 1200.0
        whole = b.rint(b.min_fast(b.max_fast(y, -limit), limit))
        yield "scale_fast", b.scale_fast(near_one, whole)
        yield "scale_fast_small", b.scale_fast(near_one, b.sub(b.abs(b.rint(small)), limit - 70))
        yield "scale_fast_nan", b.scale_fast(b.mul(near_one, float("nan")), b.mul(whole, float("nan")))


def opcode_kernel(dtype, lanes, size, varying):
    """A kernel that stores the result of each opcode in a memory of its own."""
    b = Builder("opcodes", lanes)
    sources = [b.memory(name, dtype, size, "in") for name in "xyz"]
    access, step = ("unit", lanes) if varying else ("uniform", 1)
    names = []
    with b.region(), b.for_(0, size, step) as i:
        loaded = [b.load(m, i, access) for m in sources]
        found = [*results(b, dtype, *loaded), *fast_results(b, dtype, *loaded[:2])]
        if varying:
            found.append(("lane", b.lane(I64 if dtype in (BOOL, *FLOATS) else dtype)))
            found.append(("splat", b.splat(b.load(sources[0], i, "uniform"))))
        for name, value in found:
            names.append(name)
            b.store(b.memory(name, value.dtype, size, "out"), i, value, access)
    return b.finish(grid=1), names


@pytest.mark.parametrize("lanes", [1, 8, 16, 32, 0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_machine_code_equals_evaluator(dtype, lanes):
    """Zero lanes stand for uniform values in a kernel of 8 lanes."""
    inputs = operands(dtype, lanes if lanes > 1 else SCALARS, np.random.default_rng(5))
    size = len(inputs[0])
    kernel, names = opcode_kernel(dtype, lanes or 8, size, lanes > 0)
    outputs = [np.zeros(size, m.dtype) for m in kernel.parameters[3:]]
    expected = [o.copy() for o in outputs]
    evaluate(kernel, [*inputs, *expected])
    Machine(kernel)([*inputs, *outputs])
    assert {n.split("_")[0] for n in names} >= {"eq", "select", "cast"}
    faults = []
    for name, x, y in zip(names, expected, outputs):
        wrong = np.flatnonzero(~same(x, y, any_nan=name.split("_")[0] not in KEEPS_NAN_BITS))
        if len(wrong):
            at = wrong[0]
            given = [i[at] for i in inputs]
            faults.append(f"{name}{given}: evaluator {x[at]!r}, machine {y[at]!r} ({len(wrong)} in all)")
    assert not faults, "\n".join(faults)
