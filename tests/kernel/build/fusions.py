"""HLO written by hand for tests of fusion and kernel building, and the three ways to run it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tests.kernel.guard import Guarded
from tests.targets.run import Machine, same

import braze.ops
from braze.dtypes import F32, DType
from braze.hlo.evaluate import evaluate as evaluate_hlo
from braze.hlo.ir import Builder, Function, Instruction, Module, Region, Value
from braze.kernel.build import Built, build
from braze.kernel.check import check
from braze.kernel.evaluate import evaluate as evaluate_kernel
from braze.ops.table import HLO_OPS
from braze.runtime.services import services
from braze.target import Target
from braze.targets.host import host
from braze.types import TensorType

assert braze.ops, "importing the ops fills the table"


def f32(*shape: int) -> TensorType:
    return TensorType(shape, F32)


class Graph:
    """A region being written: `g.add(x, y)` appends an op, `g.sum(x, 1)` a reduction."""

    def __init__(self, *types: TensorType) -> None:
        self.parameters = [Value(t) for t in types]
        self.builder = Builder()

    def __getattr__(self, name: str):
        return lambda *values, **attrs: self.builder.emit(HLO_OPS[name], *values, **attrs)

    def constant(self, value: object, dtype: DType = F32) -> Value:
        return self.builder.constant(value, dtype)

    def spread(self, x: Value, shape: Sequence[int], axes: Sequence[int] = ()) -> Value:
        return self.broadcast_in_dim(x, shape=tuple(shape), broadcast_dimensions=tuple(axes))

    def full(self, value: float, shape: Sequence[int], dtype: DType = F32) -> Value:
        return self.spread(self.constant(value, dtype), shape)

    def reduce(self, op: str, x: Value, init: object, axes: Sequence[int]) -> Value:
        scalar = TensorType((), x.type.dtype)
        a, b = Value(scalar), Value(scalar)
        inner = Builder()
        reducer = Region((a, b), [], ())
        result = inner.emit(HLO_OPS[op], a, b)
        reducer = Region((a, b), inner.instructions, (result,))
        init = init if isinstance(init, Value) else self.constant(init, x.type.dtype)
        made = self.builder.emit_many(HLO_OPS["reduce"], x, init, regions=(reducer,), dimensions=tuple(axes))
        return made[0]

    def sum(self, x: Value, *axes: int) -> Value:
        return self.reduce("add", x, 0, axes)

    def max(self, x: Value, *axes: int) -> Value:
        return self.reduce("maximum", x, -np.inf, axes)

    def dot(self, x: Value, y: Value, contract=((1,), (0,)), batch=((), ())) -> Value:
        return self.dot_general(
            x,
            y,
            lhs_batching_dimensions=batch[0],
            rhs_batching_dimensions=batch[1],
            lhs_contracting_dimensions=contract[0],
            rhs_contracting_dimensions=contract[1],
            dtype=x.type.dtype,
            precision=None,
        )

    def region(self, *results: Value) -> Region:
        return Region(self.parameters, self.builder.instructions, results)

    def module(self, *results: Value) -> Module:
        return Module({"main": Function("main", self.region(*results))})

    def fusion(self, *results: Value, **attrs: object) -> Instruction:
        region = self.region(*results)
        operands = [Value(p.type) for p in self.parameters]
        attrs = {"kind": "loop", "name": "k", "aliases": (), **attrs}
        return Instruction(HLO_OPS["braze.fusion"], operands, region.result_types, attrs, (region,))


# Rows ---------------------------------------------------------------------------------------------


def _rows(x: Value, axis: int) -> list[int]:
    return [i for i in range(x.type.ndim) if i != axis % x.type.ndim]


def softmax(g: Graph, x: Value, axis: int = -1) -> Value:
    axis %= x.type.ndim
    shape, rows = x.type.shape, _rows(x, axis)
    e = g.exponential(g.subtract(x, g.spread(g.max(x, axis), shape, rows)))
    return g.divide(e, g.spread(g.sum(e, axis), shape, rows))


def log_softmax(g: Graph, x: Value) -> Value:
    axis, shape, rows = x.type.ndim - 1, x.type.shape, _rows(x, -1)
    s = g.subtract(x, g.spread(g.max(x, axis), shape, rows))
    return g.subtract(s, g.spread(g.log(g.sum(g.exponential(s), axis)), shape, rows))


def logsumexp(g: Graph, x: Value) -> Value:
    axis = x.type.ndim - 1
    m = g.max(x, axis)
    return g.add(g.log(g.sum(g.exponential(g.subtract(x, g.spread(m, x.type.shape, _rows(x, -1)))), axis)), m)


def _mean(g: Graph, x: Value) -> Value:
    total = g.sum(x, x.type.ndim - 1)
    return g.divide(total, g.full(float(x.type.shape[-1]), total.type.shape))


def variance(g: Graph, x: Value) -> Value:
    d = g.subtract(x, g.spread(_mean(g, x), x.type.shape, _rows(x, -1)))
    return _mean(g, g.multiply(d, d))


def layernorm(g: Graph, x: Value, w: Value, b: Value) -> Value:
    shape, rows, last = x.type.shape, _rows(x, -1), (x.type.ndim - 1,)
    d = g.subtract(x, g.spread(_mean(g, x), shape, rows))
    v = _mean(g, g.multiply(d, d))
    r = g.rsqrt(g.add(v, g.full(1e-5, v.type.shape)))
    return g.add(
        g.multiply(g.multiply(d, g.spread(r, shape, rows)), g.spread(w, shape, last)),
        g.spread(b, shape, last),
    )


def rmsnorm(g: Graph, x: Value, w: Value) -> Value:
    shape, rows = x.type.shape, _rows(x, -1)
    kept = (*shape[:-1], 1)  # as `mean(x * x, -1, keepdims=True)` traces
    m = g.spread(_mean(g, g.multiply(x, x)), kept, rows)
    r = g.reshape(g.rsqrt(g.add(m, g.full(1e-5, kept))), shape=shape[:-1])
    return g.multiply(g.multiply(x, g.spread(r, shape, rows)), g.spread(w, shape, (x.type.ndim - 1,)))


def gaussian_sum(g: Graph, x: Value, y: Value, v: Value, by_dot: bool = False) -> Value:
    """sum_j exp(-|x_i - y_j|^2) v_j"""
    shape = (x.type.shape[0], y.type.shape[0], x.type.shape[1])
    d = g.subtract(g.spread(x, shape, (0, 2)), g.spread(y, shape, (1, 2)))
    k = g.exponential(g.negate(g.sum(g.multiply(d, d), 2)))
    return g.dot(k, v) if by_dot else g.sum(g.multiply(k, g.spread(v, shape[:2], (1,))), 1)


# Running ------------------------------------------------------------------------------------------


def samples(types: Sequence[TensorType], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = []
    for t in types:
        if t.dtype.kind == "f":
            arrays.append(rng.standard_normal(t.shape).astype(t.dtype))
        elif t.dtype.kind == "b":
            arrays.append(rng.random(t.shape) < 0.5)
        else:
            arrays.append(rng.integers(-9, 9, t.shape).astype(t.dtype))
    return arrays


def expected(instruction: Instruction, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the operations' NumPy facets say."""
    return evaluate_hlo(Module({"main": Function("main", instruction.regions[0])}), args)


class Executed:
    """A fusion run by the kernel evaluator and as machine code, between guard pages; both agree in every bit."""

    def __init__(
        self, instruction: Instruction, args: Sequence[np.ndarray], target: Target | None = None
    ) -> None:
        self.instruction = instruction
        self.built: Built = build(instruction, "kernel", target or host())
        found = self._run(args, by_machine=False)
        for front in (False, True):
            machine = self._run(args, by_machine=True, front=front)
            for x, y in zip(found, machine, strict=True):
                at = np.flatnonzero(~same(x.reshape(-1), y.reshape(-1)))[:4]
                assert not at.size, f"evaluator {x.reshape(-1)[at]}, machine code {y.reshape(-1)[at]} at {at}"
        self.results = found

    def _run(self, args: Sequence[np.ndarray], by_machine: bool, front: bool = False) -> list[np.ndarray]:
        results = [r.type for r in self.instruction.results]
        make = (lambda a: Guarded(a, front=front)) if by_machine else _Plain
        places = {
            "operand": [make(np.ascontiguousarray(a).reshape(-1)) for a in args],
            "result": [make(np.zeros(t.size, t.dtype)) for t in results],
            "temporary": [make(np.zeros(t.size, t.dtype)) for t in self.built.temporaries],
        }
        for launch in self.built.launches:
            buffers = [places[kind][k].array for kind, k in launch.buffers]
            check(launch.kernel)
            if by_machine:
                Machine(launch.kernel, symbols=services().symbols)(buffers)
            else:
                evaluate_kernel(launch.kernel, buffers, symbols=_HUGE)
        for result, operand in self.instruction.attrs.get("aliases", ()):
            places["result"][result] = places["operand"][operand]
        return [p.array.copy().reshape(t.shape) for p, t in zip(places["result"], results, strict=True)]


class _Plain:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array.copy()


_HUGE = {"braze_sin_huge": np.sin, "braze_cos_huge": np.cos, "braze_tan_huge": np.tan}


def run(instruction: Instruction, args: Sequence[np.ndarray] | None = None, **kwargs: float) -> Executed:
    """Run a fusion and compare with the NumPy facets; without tolerances every bit must agree."""
    args = samples([v.type for v in instruction.operands]) if args is None else args
    executed = Executed(instruction, args)
    for x, y in zip(executed.results, expected(instruction, args), strict=True):
        if kwargs:
            np.testing.assert_allclose(x, y, **kwargs)
        else:
            at = np.flatnonzero(~same(x.reshape(-1), y.reshape(-1)))[:4]
            assert not at.size, f"kernel {x.reshape(-1)[at]}, NumPy {y.reshape(-1)[at]} at {at}"
    return executed
