"""Every rule of the kernel IR is broken once; all faults of a kernel are reported under their statements."""

import pytest

from braze.dtypes import BOOL, F32, F64, I32, I64, U8
from braze.errors import VerificationError
from braze.kernel.builder import Builder, constant
from braze.kernel.check import check
from braze.kernel.ir import (
    Atomic,
    Call,
    Compute,
    Constant,
    Extract,
    For,
    If,
    Kernel,
    LaneReduce,
    LaneShift,
    Load,
    Memory,
    Region,
    Store,
    Value,
    While,
)

X, Y = Memory("x", F32, 8, "in"), Memory("y", F32, 8, "out")
OWN = Memory("own", F32, 4, "private")
BLOCK = Value(I64, False)
ONE, ZERO = constant(F32, 1.0), constant(I64, 0)
YES = constant(BOOL, True)


def uniform(dtype=F32):
    return Value(dtype, False)


def varying(dtype=F32):
    return Value(dtype, True)


def kernel(*body, inside=True, **changes):
    statements = (Region(body),) if inside else body
    parts = {"name": "k", "parameters": (X, Y), "scratch": (OWN,), "grid": 1, "block": BLOCK, "lanes": 8}
    return Kernel(**{**parts, "body": statements, **changes})


LOADED = varying()
LOAD = Load(LOADED, X, ZERO, "unit")
LANE = varying(I64)
LANES = Compute(LANE, "lane", ())
FLAG = varying(BOOL)
FLAGS = Compute(FLAG, "lt", (LANE, ZERO))
COUNT = Value(I64, False)
TWICE = Compute(COUNT, "add", (BLOCK, ZERO))

BROKEN = {
    "V1: a result is defined twice": kernel(LOAD, LOAD),
    "V1: operand 0 is used where it is not defined": kernel(Compute(varying(), "neg", (varying(),))),
    "V1: the stored value is used where it is not defined": kernel(
        If(YES, (LOAD,), (), (), (), ()), Store(Y, ZERO, LOADED, "unit")
    ),
    "V2: a varying value stands outside every region": kernel(LOAD, inside=False),
    "V2: a unit access stands outside every region": kernel(LOAD, inside=False),
    "V2: a region stands inside a region": kernel(Region(())),
    "V2: the index of a unit access varies from lane to lane": kernel(LANES, Load(varying(), X, LANE, "unit")),
    "V2: the result is uniform, the operands make it varying": kernel(LOAD, Compute(uniform(), "neg", (LOADED,))),
    "V2: the result of lane is uniform": kernel(Compute(uniform(I64), "lane", ())),
    "V2: the condition varies from lane to lane": kernel(LANES, FLAGS, If(FLAG, (), (), (), (), ())),
    "V2: the lane varies from lane to lane": kernel(LANES, LOAD, Extract(uniform(), LOADED, LANE)),
    "V2: a result is uniform, the call varying": kernel(LOAD, Call((uniform(),), "f", (LOADED,))),
    "V3: operand 0 is no immediate of its dtype": kernel(Compute(uniform(), "neg", (Constant(F32, 1 << 32),))),
    "V3: there is no opcode frob": kernel(Compute(uniform(), "frob", ())),
    "V3: add takes 2 operands, not 1": kernel(Compute(uniform(), "add", (ONE,))),
    "V3: operands mix f32, i64": kernel(Compute(uniform(), "add", (ONE, ZERO))),
    "V3: and does not take f32": kernel(Compute(uniform(), "and", (ONE, ONE))),
    "V3: the result is f32, not bool": kernel(Compute(uniform(), "lt", (ONE, ONE))),
    "V3: operand 0 is f32, not bool": kernel(Compute(uniform(), "select", (ONE, ONE, ONE))),
    "V3: f32 has not the bits of f64": kernel(Compute(uniform(F64), "bitcast", (ONE,))),
    "V3: cast_fast gives f64": kernel(Compute(uniform(F64), "cast_fast", (ONE,))),
    "V3: lane gives f32": kernel(Compute(varying(), "lane", ())),
    "V3: the result is f64, the memory f32": kernel(Load(varying(F64), X, ZERO, "unit")),
    "V3: no lane_reduce sub on f32": kernel(LOAD, LaneReduce(uniform(), "sub", LOADED)),
    "V3: no atomic and on f32": kernel(Atomic("and", Y, ZERO, ONE)),
    "V3: the fill is i64, not f32": kernel(LOAD, LaneShift(varying(), LOADED, 1, ZERO)),
    "V3: object is no statement": kernel(object()),
    "V4: the kernel does not declare z": kernel(Load(varying(), Memory("z", F32, 1, "in"), ZERO, "unit")),
    "V4: x is an input and is written": kernel(Store(X, ZERO, ONE, "unit")),
    "V4: the index is f32": kernel(Load(varying(), X, ONE, "unit")),
    "V4: 'far' is no kind of access": kernel(Load(varying(), X, ZERO, "far")),
    "V4: masked lanes have a value, but there is no mask": kernel(Load(varying(), X, ZERO, "unit", None, ONE)),
    "V5: the mask of a uniform access varies": kernel(LANES, FLAGS, Load(uniform(), X, ZERO, "uniform", FLAG)),
    "V5: a uniform access stores a value that varies": kernel(LOAD, Store(Y, ZERO, LOADED, "uniform")),
    "V5: the result is varying": kernel(Load(varying(), X, ZERO, "uniform")),
    "V6: 1 values are carried, yield has 0": kernel(
        For(uniform(I64), ZERO, ZERO, 1, (uniform(),), (ONE,), (), (), (uniform(),))
    ),
    "V6: yield 0 is i64, not f32": kernel(If(YES, (), (ZERO,), (), (ONE,), (uniform(),))),
    "V6: yield 0 varies, its place is uniform": kernel(LOAD, If(YES, (), (LOADED,), (), (ONE,), (uniform(),))),
    "V6: the step is 0": kernel(For(uniform(I64), ZERO, ZERO, 0, (), (), (), (), ())),
    "V6: the results are not of the kinds that are carried": kernel(
        While((uniform(),), (ONE,), (), constant(BOOL, False), (), (ONE,), (uniform(F64),))
    ),
    "V7: 3 lanes are no power of two": kernel(lanes=3),
    "V7: the grid has -1 blocks": kernel(grid=-1),
    "V7: 'a b' is no name of a symbol": kernel(name="a b"),
    "V8: 2 blocks add f32 in no stated order": kernel(Atomic("add", Y, ZERO, ONE), grid=2),
    "V7: two memories have the name x": kernel(parameters=(X, Memory("x", F32, 1, "out"))),
    "V7: own is listed with the wrong kind": kernel(parameters=(X, OWN)),
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_rule_is_reported(fault):
    with pytest.raises(VerificationError) as caught:
        check(BROKEN[fault])
    assert fault in str(caught.value)


def test_several_blocks_may_take_the_maximum_of_floats():
    check(kernel(Atomic("max", Y, ZERO, ONE), grid=2))
    check(kernel(Atomic("add", Y, ZERO, ONE)))


def test_all_faults_stand_under_their_statements():
    broken = kernel(
        TWICE,
        Compute(uniform(), "add", (ONE, ZERO)),
        Store(X, COUNT, ONE, "unit"),
        Atomic("add", Y, COUNT, constant(I32, 1)),
        lanes=6,
    )
    with pytest.raises(VerificationError) as caught:
        check(broken)
    assert str(caught.value).startswith(
        """\
kernel k: it breaks rules of the kernel IR, 4 faults.
# V7: 6 lanes are no power of two
kernel k(x: in f32[8], y: out f32[8]) lanes 6 grid 1 block u0 {
  private own: f32[4]
  region {
    u1: i64 = add(u0, 0)
    u2: f32 = add(1.0, 0)
    # ^ V3: operands mix f32, i64
    store x[u1] unit = 1.0
    # ^ V4: x is an input and is written
    atomic add y[u1] = 1:i32
    # ^ V3: the value is i32, not f32
  }
}
"""
    )


def test_uniform_results_of_a_region_are_seen_after_it():
    b = Builder("k", 8)
    x, y = b.memory("x", U8, 8, "in"), b.memory("y", U8, 1, "out")
    with b.region():
        largest = b.lane_reduce("max", b.load(x, 0, "unit"))
    b.store(y, 0, largest, "uniform")
    check(b.finish(1))
