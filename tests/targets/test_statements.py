"""Statements other than opcodes: machine code equals the evaluator for all dtypes, lane counts and masks."""

import ctypes

import numpy as np
import pytest
from tests.targets.run import Machine, agree, same

from braze.dtypes import BOOL, F32, F64, FLOATS, I8, I32, I64, U16, U64
from braze.kernel.builder import Builder
from braze.kernel.check import REDUCERS, check, takes
from braze.kernel.evaluate import evaluate
from braze.kernel.ir import Call, Constant, Value
from braze.runtime.engine import compile_object, load
from braze.targets.host import host
from braze.targets.llvm import kernel_module, scratch_bytes

DTYPES = (BOOL, I8, I32, U16, U64, F32, F64)
LANES = (1, 2, 8, 16, 32)


def values(dtype, size, seed=1):
    rng = np.random.default_rng(seed)
    if dtype == BOOL:
        return rng.integers(0, 2, size).astype(bool)
    if dtype in FLOATS:
        found = rng.standard_normal(size).astype(dtype)
        found[:: max(1, size // 4)] = [-0.0, 0.0, np.inf, -1.0, 2.0][: len(found[:: max(1, size // 4)])]
        return found
    return rng.integers(0, 256, size * dtype.itemsize, np.uint8).view(dtype)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_lanes_meet(dtype, lanes):
    """lane_reduce in its stated order, lane_shift both ways and beyond, extract by constant and by value."""
    b = Builder("lanes", lanes)
    x = b.memory("x", dtype, lanes, "in")
    where = b.memory("where", I64, 1, "in")
    with b.region():
        value = b.load(x, 0, "unit")
        for opcode in REDUCERS:
            if takes(opcode, dtype):
                out = b.memory(f"reduce_{opcode}", dtype, 1, "out")
                b.store(out, 0, b.lane_reduce(opcode, value), "uniform")
        for amount in (0, 1, lanes - 1, lanes + 3, -1):
            out = b.memory(
                f"shift_{'minus' if amount < 0 else ''}{abs(amount)}_{len(b._parameters)}",
                dtype,
                lanes,
                "out",
            )
            b.store(out, 0, b.lane_shift(value, amount, 1), "unit")
        last = b.memory("last", dtype, 2, "out")
        b.store(last, 0, b.extract(value, lanes - 1), "uniform")
        b.store(last, 1, b.extract(value, b.load(where, 0, "uniform")), "uniform")
    kernel = b.finish(1)
    check(kernel)
    outputs = [np.zeros(m.size, m.dtype) for m in kernel.parameters[2:]]
    agree(kernel, [values(dtype, lanes), np.array([lanes // 2]), *outputs])


def test_minimum_of_lanes_propagates_nan():
    b = Builder("lanes", 8)
    x, y = b.memory("x", F32, 8, "in"), b.memory("y", F32, 2, "out")
    with b.region():
        b.store(y, 0, b.lane_reduce("min", b.load(x, 0, "unit")), "uniform")
        b.store(y, 1, b.lane_reduce("max", b.load(x, 0, "unit")), "uniform")
    data = np.array([1, 2, 3, np.nan, 5, 6, 7, 8], np.float32)
    found = agree(b.finish(1), [data, np.zeros(2, np.float32)])
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_memory(dtype, lanes):
    """Every kind of access with every kind of mask, on parameters, private and shared memory."""
    size = 2 * lanes
    b = Builder("memory", lanes)
    x = b.memory("x", dtype, size, "in")
    at = b.memory("at", I32, lanes, "in")
    flags = b.memory("flags", BOOL, lanes + 2, "in")
    made = [b.memory(f"out{i}", dtype, size, "inout") for i in range(9)]
    own = b.memory("own", dtype, 3, "private")
    common = b.memory("common", dtype, size, "shared")
    with b.region():
        mask = b.load(flags, 2, "unit")
        on, off = b.load(flags, 0, "uniform"), b.load(flags, 1, "uniform")
        index = b.cast(b.load(at, 0, "unit"), I64)
        near = b.load(x, 0, "unit")
        far = b.load(x, index, "gather", mask, 1)
        b.store(made[0], 0, far, "unit")
        b.store(made[1], 0, b.load(x, lanes, "unit", mask, near), "unit", mask)
        # Lanes that meet in one element leave the last one's value.
        b.store(made[2], b.shr_fast(index, 1), near, "gather")
        b.store(made[3], b.load(at, 0, "unit"), near, "gather", mask)
        for flag, out in ((on, made[4]), (off, made[5])):
            b.store(out, 0, b.load(x, 0, "uniform", flag, 1), "uniform", flag)
            b.store(out, lanes, b.load(x, 0, "unit", flag, near), "unit", flag)
        b.store(own, 0, near, "uniform")
        b.store(own, 1, far, "uniform", mask)
        b.store(own, b.add(b.and_(index, 1), 1), near, "gather", mask)
        b.store(made[6], 0, b.load(own, 0, "uniform"), "unit")
        b.store(made[6], lanes, b.load(own, b.add(b.and_(index, 1), 1), "gather", mask), "unit")
        if lanes == 1:
            b.store(made[7], 0, b.load(own, 0, "unit"), "unit")
        b.store(common, 0, near, "unit")
        b.store(common, lanes, far, "unit")
        b.store(made[8], 0, b.load(common, index, "gather"), "unit")
        b.store(made[8], lanes, b.load(common, lanes // 2, "unit"), "unit")
    kernel = b.finish(1)
    check(kernel)
    rng = np.random.default_rng(2)
    flagged = np.concatenate([[True, False], rng.integers(0, 2, lanes).astype(bool)])
    buffers = [values(dtype, size), rng.integers(0, size, lanes).astype(np.int32), flagged]
    agree(kernel, buffers + [values(dtype, size, 9) for _ in made])


@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_atomic(dtype, lanes, grid):
    """More than one block makes the updates atomic; lanes meet in one element, masked or not."""
    b = Builder("atomic", lanes)
    x = b.memory("x", dtype, lanes, "in")
    at = b.memory("at", I64, lanes, "in")
    flags = b.memory("flags", BOOL, lanes, "in")
    own = b.memory("own", dtype, 4, "private")
    with b.region():
        value, index, mask = (b.load(m, 0, "unit") for m in (x, at, flags))
        for opcode in (r for r in REDUCERS if takes(r, dtype)):
            if grid > 1 and dtype in FLOATS and opcode in ("add", "mul"):
                continue  # their order would show
            out = b.memory(f"to_{opcode}", dtype, 4, "inout")
            b.atomic(opcode, out, index, value, mask)
            b.atomic(opcode, out, b.lift(2, I64), value)
            b.store(own, 1, value, "uniform")
            b.atomic(opcode, own, b.lift(1, I64), value, mask)
            b.store(out, 3, b.lane_reduce("max", b.load(own, 1, "uniform")), "uniform")
    kernel = b.finish(grid)
    check(kernel)
    assert ("cmpxchg" in kernel_module(kernel, host())) == (grid > 1)
    rng = np.random.default_rng(2)
    buffers = [values(dtype, lanes), rng.integers(0, 3, lanes), rng.integers(0, 2, lanes).astype(bool)]
    agree(kernel, buffers + [values(dtype, 4, 9) for _ in kernel.parameters[3:]])


HALF = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x / 2)


@pytest.mark.parametrize("lanes", [1, 8])
def test_call_of_each_lane(lanes):
    b = Builder("calls", lanes)
    x, y = b.memory("x", F64, lanes, "in"), b.memory("y", F64, lanes, "out")
    z = b.memory("z", F64, 3, "out")
    with b.region():
        value = b.load(x, 0, "unit")
        mask = b.lt(b.lane(), 3)
        (half,) = b.call_lanes("half", (value,), (F64,), mask)
        b.store(y, 0, half, "unit")
        (one,) = b.call("half", (b.lift(3.0, F64),), (F64,))
        b.store(z, 0, one, "uniform")
        for place, flag in ((1, False), (2, True)):
            condition = b.eq(b.load(z, 0, "uniform"), 1.5 if flag else 7.0)
            (some,) = b.call_lanes("half", (one,), (F64,), condition)
            b.store(z, place, some, "uniform")
    kernel = b.finish(1)
    check(kernel)
    data = np.arange(lanes, dtype=float) + 1
    expected, found = ([data, np.zeros(lanes), np.zeros(3)] for _ in range(2))
    evaluate(kernel, expected, symbols={"half": lambda x: x / 2})
    Machine(kernel, symbols={"half": ctypes.cast(HALF, ctypes.c_void_p).value})(found)
    for e, f in zip(expected, found):
        assert (e == f).all()
    assert found[1].tolist() == [(i + 1) / 2 if i < 3 else 0.0 for i in range(lanes)]
    assert found[2].tolist() == [1.5, 0.0, 0.75]


def test_call_with_two_results():
    text = """define {double, i64} @both(double %x, i64 %n) {
      %a = fadd double %x, 1.0
      %b = add i64 %n, 2
      %r0 = insertvalue {double, i64} poison, double %a, 0
      %r1 = insertvalue {double, i64} %r0, i64 %b, 1
      ret {double, i64} %r1
    }"""
    library = load(compile_object(text, host()), {})
    b = Builder("two", 4)
    x, n = b.memory("x", F64, 4, "inout"), b.memory("n", I64, 4, "inout")
    with b.region():
        results = (Value(F64, True), Value(I64, True))
        b.append(Call(results, "both", (b.load(x, 0, "unit"), b.load(n, 0, "unit"))))
        b.store(x, 0, results[0], "unit")
        b.store(n, 0, results[1], "unit")
    kernel = b.finish(1)
    check(kernel)
    expected, found = ([np.arange(4.0), np.arange(4)] for _ in range(2))
    evaluate(kernel, expected, symbols={"both": lambda x, n: (x + 1, n + 2)})
    Machine(kernel, symbols={"both": library.address("both")})(found)
    assert found[0].tolist() == expected[0].tolist() == [1, 2, 3, 4]
    assert found[1].tolist() == expected[1].tolist() == [2, 3, 4, 5]


def test_large_scratch_lies_in_the_scratch_buffer():
    b = Builder("large", 8)
    x, y = b.memory("x", F32, 8, "in"), b.memory("y", F32, 8, "out")
    big, row = b.memory("big", F32, 5000, "private"), b.memory("row", F32, 100, "shared")
    with b.region():
        b.store(big, 4999, b.load(x, 0, "unit"), "uniform")
        b.store(row, 92, b.load(big, 4999, "uniform"), "unit")
        b.store(y, 0, b.load(row, 92, "unit"), "unit")
    kernel = b.finish(1)
    assert scratch_bytes(kernel) == 5000 * 8 * 4 + 448
    agree(kernel, [values(F32, 8), np.zeros(8, np.float32)])


@pytest.mark.parametrize("bounds", [(0, 0), (0, 1), (3, 10), (5, 2), (-4, 3)], ids=str)
def test_loops_and_branches_with_bounds_from_memory(bounds):
    """Loops that may not run, nested, with carried uniform and varying values, and a vector made in a branch."""
    b = Builder("flow", 8)
    limits = b.memory("limits", I64, 2, "in")
    y, z = b.memory("y", F32, 8, "out"), b.memory("z", I64, 1, "out")
    with b.region():
        start, stop = b.load(limits, 0, "uniform"), b.load(limits, 1, "uniform")
        shade = b.cast(start, F32)

        def inner(j, total):
            def odd():
                return (b.add(total, b.mul(b.cast(b.lane(), F32), shade)),)

            return b.if_(b.eq(b.and_(j, 1), 1), odd, lambda: (total,))

        def outer(i, count, total):
            (total,) = b.loop(i, stop, 2, (total,), inner)
            return b.add(count, 1), total

        count, total = b.loop(start, stop, 1, (b.lift(0, I64), b.lift(1.0, F32)), outer, (False, True))
        (last,) = b.if_(b.lt(count, 2), lambda: (shade,), lambda: (b.splat(shade),))
        b.store(y, 0, b.add(b.add(total, shade), last), "unit")
        b.store(z, 0, count, "uniform")
    kernel = b.finish(1)
    check(kernel)
    found = agree(kernel, [np.array(bounds), np.zeros(8, np.float32), np.zeros(1, np.int64)])
    assert found[2][0] == max(0, bounds[1] - bounds[0])


@pytest.mark.parametrize("bounds", [(0, 5), (5, 0)], ids=str)
def test_loops_with_constant_bounds(bounds):
    b = Builder("constant", 1)
    y = b.memory("y", I64, 1, "out")
    (total,) = b.loop(*bounds, 2, (b.lift(7, I64),), lambda i, t: (b.add(t, i),), varying=False)
    b.store(y, 0, total, "uniform")
    kernel = b.finish(1)
    check(kernel)
    assert agree(kernel, [np.zeros(1, np.int64)])[0][0] == 7 + sum(range(*bounds, 2))


def test_signalling_nan_is_kept():
    b = Builder("nan", 8)
    x, y = b.memory("x", F32, 8, "in"), b.memory("y", F32, 16, "out")
    bits = np.array([0x7F800001, 0xFFC01234], np.uint32).view(np.float32)
    with b.region():
        for i, pattern in enumerate((0x7F800001, 0xFFC01234)):
            chosen = b.select(b.lt(b.load(x, 0, "unit"), 0.5), Constant(F32, pattern), 1.0)
            b.store(y, 8 * i, chosen, "unit")
    found = agree(b.finish(1), [np.zeros(8, np.float32), np.zeros(16, np.float32)])[1]
    assert same(found, np.repeat(bits, 8), any_nan=False).all()


def test_text_of_a_module_is_the_same_each_time():
    from tests.kernel.kernels import CASES

    case = CASES["merge"]
    assert kernel_module(case.make(40), host()) == kernel_module(case.make(40), host())


def test_multiplication_and_addition_round_twice():
    """No contraction to a fused multiply-add: x*x - x*x is zero, and each step rounds to its own dtype."""
    b = Builder("twice", 16)
    x, y = b.memory("x", F32, 1024, "in"), b.memory("y", F32, 1024, "out")
    with b.region(), b.for_(0, 1024, 16) as i:
        value = b.load(x, i, "unit")
        b.store(y, i, b.sub(b.mul(value, value), b.mul(value, value)), "unit")
    data = np.random.default_rng(3).standard_normal(1024).astype(np.float32)
    found = agree(b.finish(1), [data, np.ones(1024, np.float32)])
    assert (found[1] == 0).all()
    b = Builder("chain", 16)
    x, y = b.memory("x", F32, 1024, "in"), b.memory("y", F32, 1024, "inout")
    with b.region(), b.for_(0, 1024, 16) as i:
        value = b.load(x, i, "unit")
        b.store(y, i, b.add(b.mul(value, value), b.load(y, i, "unit")), "unit")
    found = agree(b.finish(1), [data, -data * data])
    assert (found[1] == 0).all()


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", (F32, F64), ids=str)
def test_extremes_of_lanes_order_zeros_and_propagate_nan(dtype, lanes):
    b = Builder("lanes", lanes)
    x, y = b.memory("x", dtype, lanes, "in"), b.memory("y", dtype, 2, "out")
    with b.region():
        b.store(y, 0, b.lane_reduce("min", b.load(x, 0, "unit")), "uniform")
        b.store(y, 1, b.lane_reduce("max", b.load(x, 0, "unit")), "uniform")
    kernel = b.finish(1)
    rng = np.random.default_rng(lanes)
    specials = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0], dtype)
    for count in (2, 3, 7):  # zeros alone, zeros and NaN, all
        for _ in range(8):
            data = rng.choice(specials[:count], lanes)
            found = agree(kernel, [data, np.zeros(2, dtype)])[1]
            if not np.isnan(data).any():
                assert np.signbit(found[0]) == np.signbit(data[data == data.min()]).any()
                assert np.signbit(found[1]) == np.signbit(data[data == data.max()]).all()
