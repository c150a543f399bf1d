"""Random HLO modules for passes: what rules look for, loops that run no round, dead and constant state, calls,
effects in order. Results are equal bits wherever passes are right: no sum is taken in another order."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import dtypes
from braze.hlo.ir import Builder, Function, Instruction, Module, Region, Value
from braze.ops.elementwise import compare_type_of
from braze.ops.table import HLO_OPS
from braze.types import TensorType

F3, F23, F32X = (TensorType(s, dtypes.F32) for s in ((3,), (2, 3), (3, 2)))
I3, I23, I32X = (TensorType(s, dtypes.I32) for s in ((3,), (2, 3), (3, 2)))
B3, F, I = TensorType((3,), dtypes.BOOL), TensorType((), dtypes.F32), TensorType((), dtypes.I32)
TYPES = (F3, F3, F23, F32X, I3, I3, I23, I32X, B3, F, I)
UNARY = {
    dtypes.F32: ("negate", "abs", "floor", "ceil", "sign", "round_nearest_even", "sine"),
    dtypes.I32: ("negate", "abs", "sign", "not"),
    dtypes.BOOL: ("not",),
}
BINARY = {
    dtypes.F32: ("add", "subtract", "multiply", "divide", "maximum", "minimum"),
    dtypes.I32: ("add", "subtract", "multiply", "maximum", "minimum", "and", "or", "xor", "shift_left"),
    dtypes.BOOL: ("and", "or", "xor", "add", "multiply"),
}
NUMBERS = {
    dtypes.F32: (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, float("inf"), float("nan")),
    dtypes.I32: (0, 1, -1, 2, 5),
    dtypes.BOOL: (False, True),
}


class Generator:
    """Writes one module; effects of evaluating it are appended to `log`."""

    def __init__(self, seed: int, log: list[Any]) -> None:
        self.random = random.Random(seed)
        self.log = log
        self.effects = 0
        self.has_helper = False

    def module(self) -> Module:
        helper = self.region((F3, I), 1, lambda known: [self.pick(known, F3), self.pick(known, I)])
        types = (F3, F3, F23, I3, I3, B3, F, I)
        self.has_helper = True
        main = self.region(types, 3, lambda known: [self.random.choice(known) for _ in range(4)])
        functions = (Function("main", main), Function("helper", helper, public=False))
        return Module({function.name: function for function in functions})

    def region(self, types: Sequence[TensorType], depth: int, results: Callable[..., Any]) -> Region:
        parameters = [Value(t) for t in types]
        self.builder = Builder()
        known = self.fill(list(parameters), depth, self.random.randint(4, 14))
        returned = results(known)
        return Region(parameters, self.builder.instructions, returned)

    def inner(
        self, known: Sequence[Value], types: Sequence[TensorType], depth: int, results: Callable[..., Any]
    ) -> Region:
        """A region that sees values from outside."""
        outer, self.builder = self.builder, Builder()
        parameters = [Value(t) for t in types]
        inside = self.fill([*known, *parameters], depth, self.random.randint(1, 6))
        returned = results(inside, parameters)
        made = Region(parameters, self.builder.instructions, returned)
        self.builder = outer
        return made

    def fill(self, known: list[Value], depth: int, count: int) -> list[Value]:
        for _ in range(count):
            known += self.one(known, depth)
        return known

    def one(self, known: list[Value], depth: int) -> Sequence[Value]:
        kind = self.random.random()
        if depth and kind < 0.08:
            return self.loop(known, depth - 1)
        if depth and kind < 0.14:
            return self.branch(known, depth - 1)
        if self.has_helper and kind < 0.18:
            operands = [self.pick(known, F3), self.pick(known, I)]
            made = Instruction(HLO_OPS["call"], operands, (F3, I), {"callee": "helper"})
            self.builder.instructions.append(made)
            return made.results
        if kind < 0.24:
            return [self.effect(known)]
        if kind < 0.40:
            return [self.move(known)]
        return [self.elementwise(known)]

    # Values ---------------------------------------------------------------------------------------

    def emit(self, name: str, *operands: Value, **attrs: Any) -> Value:
        return self.builder.emit(HLO_OPS[name], *operands, **attrs)

    def pick(self, known: Sequence[Value], type: TensorType) -> Value:
        found = [v for v in known if v.type == type]
        if not found or self.random.random() < 0.3:
            return self.constant(type)
        return self.random.choice(found[-5:] if self.random.random() < 0.7 else found)

    def constant(self, type: TensorType) -> Value:
        number = np.asarray(self.random.choice(NUMBERS[type.dtype]), type.dtype)
        kind = self.random.random()
        if not type.shape or kind < 0.3:
            return self.builder.constant(np.full(type.shape, number))
        if kind < 0.5:
            numbers = [self.random.choice(NUMBERS[type.dtype]) for _ in range(type.size)]
            return self.builder.constant(np.array(numbers, type.dtype).reshape(type.shape))
        scalar = self.builder.constant(number)
        return self.emit("broadcast_in_dim", scalar, shape=type.shape, broadcast_dimensions=())

    # Instructions ---------------------------------------------------------------------------------

    def elementwise(self, known: Sequence[Value]) -> Value:
        type = self.random.choice(TYPES)
        pick = lambda dtype=type.dtype: self.pick(known, type.with_(dtype=dtype))
        kind = self.random.random()
        if kind < 0.3:
            return self.emit(self.random.choice(UNARY[type.dtype]), pick())
        if kind < 0.7:
            return self.emit(self.random.choice(BINARY[type.dtype]), pick(), pick())
        if kind < 0.8:
            direction = self.random.choice(("EQ", "NE", "LT", "LE", "GT", "GE"))
            kind_of = compare_type_of(type.dtype)
            return self.emit("compare", pick(), pick(), comparison_direction=direction, compare_type=kind_of)
        if kind < 0.9:
            return self.emit("select", pick(dtypes.BOOL), pick(), pick())
        return self.emit("convert", pick(), dtype=self.random.choice((dtypes.F32, dtypes.F64, dtypes.I32)))

    def move(self, known: Sequence[Value]) -> Value:
        x = self.pick(known, self.random.choice((F3, F23, F32X, I3, I23, B3, F)))
        rank, index = x.type.ndim, lambda: self.pick(known, I)
        match self.random.randrange(10):
            case 0:
                shape = (2, *x.type.shape)
                dims = tuple(range(1, rank + 1))
                return self.emit("broadcast_in_dim", x, shape=shape, broadcast_dimensions=dims)
            case 1:
                return self.emit("reshape", x, shape=(x.type.size,))
            case 2:
                permutation = tuple(self.random.sample(range(rank), rank))
                return self.emit("transpose", x, permutation=permutation)
            case 3:
                ends = tuple(self.random.randint(0, n) for n in x.type.shape)
                strides = tuple(self.random.choice((1, 2)) for _ in ends)
                return self.emit("slice", x, start_indices=(0,) * rank, limit_indices=ends, strides=strides)
            case 4 if rank:
                return self.emit("concatenate", x, self.pick(known, x.type), dimension=0)
            case 5:
                dims = tuple(sorted(self.random.sample(range(rank), self.random.randint(0, rank))))
                return self.emit("reverse", x, dimensions=dims)
            case 6:
                low = tuple(self.random.choice((-1, 0, 1)) for _ in range(rank))
                filler = self.pick(known, x.type.with_(shape=()))
                return self.emit("pad", x, filler, low=low, high=(0,) * rank, interior=(0,) * rank)
            case 7:
                sizes = tuple(self.random.randint(1, n) for n in x.type.shape)
                return self.emit("dynamic_slice", x, *[index() for _ in sizes], slice_sizes=sizes)
            case 8:
                update = x.type.with_(shape=tuple(self.random.randint(1, n) for n in x.type.shape))
                return self.emit(
                    "dynamic_update_slice", x, self.pick(known, update), *[index() for _ in range(rank)]
                )
            case 9:
                return self.product(known)
            case _:
                return self.reduction(known)

    def product(self, known: Sequence[Value]) -> Value:
        """A product of integer matrices, of transposed ones, or transposed."""
        lhs, rhs = self.pick(known, I23), self.pick(known, I32X)
        if self.random.random() < 0.5:
            lhs = self.emit("transpose", self.pick(known, I32X), permutation=(1, 0))
        attrs = {"lhs_batching_dimensions": (), "rhs_batching_dimensions": (), "precision": None}
        contracting = {"lhs_contracting_dimensions": (1,), "rhs_contracting_dimensions": (0,)}
        made = self.emit("dot_general", lhs, rhs, dtype=dtypes.I32, **attrs, **contracting)
        return self.emit("transpose", made, permutation=(1, 0)) if self.random.random() < 0.5 else made

    def reduction(self, known: Sequence[Value]) -> Value:
        x = self.pick(known, I23)
        add = lambda b, total, element: [b.emit(HLO_OPS["add"], total, element)]
        region = self.builder.region((I, I), add)
        zero = self.builder.constant(np.int32(0))
        (made,) = self.builder.emit_many(HLO_OPS["reduce"], x, zero, regions=(region,), dimensions=(0,))
        return made

    def effect(self, known: Sequence[Value]) -> Value:
        """A callback that notes what it is given and returns it."""
        x = self.pick(known, self.random.choice((F3, I)))
        self.effects += 1
        name = f"effect{self.effects}"

        def callback(array: Any) -> Any:
            self.log.append((name, np.array(array).tobytes()))
            return (np.array(array),)

        (made,) = self.builder.emit_many(
            HLO_OPS["custom_call"], x, call_target_name=name, has_side_effect=True, backend_config="",
            callback=callback, result_types=(x.type,),
        )  # fmt: skip
        return made

    def loop(self, known: list[Value], depth: int) -> Sequence[Value]:
        """A counted loop of 0 to 3 rounds; some of its state never changes, some nobody reads."""
        types = [I, *[self.random.choice((F3, I3, F, I)) for _ in range(self.random.randint(1, 4))]]
        trips = self.random.choice((0, 1, 3))
        initial = [self.builder.constant(np.int32(0)), *[self.pick(known, t) for t in types[1:]]]

        def condition(inside: Any, state: Any) -> list[Value]:
            limit = self.builder.constant(np.int32(trips))
            return [self.emit("compare", state[0], limit, comparison_direction="LT", compare_type="SIGNED")]

        def step(inside: Any, state: Any) -> list[Value]:
            one = self.builder.constant(np.int32(1))
            kept = lambda v: v if self.random.random() < 0.4 else self.pick(inside, v.type)
            return [self.emit("add", state[0], one), *[kept(v) for v in state[1:]]]

        regions = (self.inner([], types, 0, condition), self.inner(known, types, depth, step))
        return self.builder.emit_many(HLO_OPS["while"], *initial, regions=regions)

    def branch(self, known: list[Value], depth: int) -> Sequence[Value]:
        types = [self.random.choice((F3, I3, F)) for _ in range(self.random.randint(1, 2))]
        results = lambda inside, state: [self.pick(inside, t) for t in types]
        regions = tuple(self.inner(known, (), depth, results) for _ in range(self.random.randint(1, 3)))
        return self.builder.emit_many(HLO_OPS["case"], self.pick(known, I), regions=regions)
