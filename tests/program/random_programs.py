"""Random HLO programs of loops, branches, in-place updates and donated arguments, as seen by `schedule`."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import braze.ops  # noqa: F401  # fills the table
from braze.dtypes import F32, I32
from braze.hlo.ir import Builder, Function, Module, Region, Value
from braze.ops.table import HLO_OPS
from braze.types import TensorType

ROW = TensorType((8,), F32)
PART = TensorType((3,), F32)
INDEX = TensorType((), I32)
TYPES = (ROW, PART, INDEX)


def emit(b: Builder, name: str, *operands: Value, **attrs: Any) -> Value:
    return b.emit(HLO_OPS[name], *operands, **attrs)


def region(types: Sequence[TensorType], body: Callable[..., Sequence[Value]]) -> Region:
    """A region whose body is written by `body(builder, *parameters)`."""
    parameters = [Value(t) for t in types]
    b = Builder()
    results = body(b, *parameters)
    return Region(parameters, b.instructions, results)


def module(
    types: Sequence[TensorType], body: Callable[..., Sequence[Value]], donated: Sequence[int] = ()
) -> Module:
    """A module of one function."""
    attrs = tuple({"jax.buffer_donor": True} if i in donated else {} for i in range(len(types)))
    return Module({"main": Function("main", region(types, body), True, attrs)}, "f")


def less(b: Builder, x: Value, y: Value) -> Value:
    return emit(b, "compare", x, y, comparison_direction="LT", compare_type="SIGNED")


def counted(
    b: Builder, trips: int, state: Sequence[Value], body: Callable[..., Sequence[Value]]
) -> tuple[Value, ...]:
    """A while over (counter, *state); gives the state at the end."""
    types = [INDEX, *[s.type for s in state]]
    condition = region(types, lambda c, i, *_: [less(c, i, c.constant(trips, I32))])

    def step(inner: Builder, i: Value, *carried: Value) -> list[Value]:
        results = body(inner, i, *carried)
        return [emit(inner, "add", i, inner.constant(1, I32)), *results]

    start = b.constant(0, I32)
    results = b.emit_many(HLO_OPS["while"], start, *state, regions=(condition, region(types, step)))
    return results[1:]


class Generator:
    """Writes one random module. Arithmetic is exact or rounds once per operation, so results are equal bits."""

    def __init__(self, seed: int, log: list[tuple[int, Any]] | None = None) -> None:
        self.random = random.Random(seed)
        self.log = log
        self.calls = 0

    def module(self) -> Module:
        types = [self.random.choice(TYPES) for _ in range(self.random.randint(2, 5))] + [ROW, INDEX]
        donated = [i for i in range(len(types)) if self.random.random() < 0.5]

        def body(b: Builder, *parameters: Value) -> list[Value]:
            known = self.fill(b, list(parameters), 3, self.random.randint(3, 9))
            return [self.random.choice(known) for _ in range(self.random.randint(1, 4))]

        return module(types, body, donated)

    def arguments(self, made: Module) -> list[np.ndarray[Any, Any]]:
        rng = np.random.default_rng(self.random.randrange(1 << 30))
        return [rng.integers(-2, 9, t.shape).astype(t.dtype) for t in made.main.region.parameter_types]

    def pick(self, known: Sequence[Value], type: TensorType, b: Builder) -> Value:
        found = [v for v in known if v.type is type]
        if not found or self.random.random() < 0.05:
            return b.constant(np.full(type.shape, self.random.randint(-3, 3)), type.dtype)
        return self.random.choice(found[-6:] if self.random.random() < 0.7 else found)

    def fill(self, b: Builder, known: list[Value], depth: int, count: int) -> list[Value]:
        for _ in range(count):
            kind = self.random.random()
            if depth and kind < 0.2:
                known += self.loop(b, known, depth - 1)
            elif depth and kind < 0.35:
                known += self.branch(b, known, depth - 1)
            elif self.log is not None and kind < 0.42:
                known.append(self.callback(b, known))
            else:
                known.append(self.plain(b, known))
        return known

    def plain(self, b: Builder, known: list[Value]) -> Value:
        pick = lambda type: self.pick(known, type, b)
        match self.random.randrange(9):
            case 0 | 1:
                type = self.random.choice(TYPES)
                return emit(b, self.random.choice(("add", "subtract", "maximum")), pick(type), pick(type))
            case 2:
                return emit(b, "negate", pick(self.random.choice(TYPES)))
            case 3:
                return emit(b, "reverse", pick(ROW), dimensions=(0,))
            case 4 | 5:
                return emit(b, "dynamic_update_slice", pick(ROW), pick(PART), pick(INDEX))
            case 6:
                return emit(b, "dynamic_slice", pick(ROW), pick(INDEX), slice_sizes=(3,))
            case 7:
                folded = emit(b, "reshape", pick(ROW), shape=(2, 4))
                return emit(b, "reshape", folded, shape=(8,))
            case _:
                return emit(b, "slice", pick(ROW), start_indices=(2,), limit_indices=(8,), strides=(2,))

    def loop(self, b: Builder, known: list[Value], depth: int) -> tuple[Value, ...]:
        state = [self.pick(known, self.random.choice(TYPES), b) for _ in range(self.random.randint(1, 4))]

        def body(inner: Builder, i: Value, *carried: Value) -> list[Value]:
            captured = list(known) if self.random.random() < 0.5 else []
            inside = self.fill(inner, [*captured, i, *carried], depth, self.random.randint(1, 5))
            own = inside[len(captured) :]
            # Forwarded, swapped and repeated slots come from choosing among all values of the type.
            return [s if self.random.random() < 0.15 else self.pick(own, s.type, inner) for s in carried]

        return counted(b, self.random.randint(0, 3), state, body)

    def branch(self, b: Builder, known: list[Value], depth: int) -> tuple[Value, ...]:
        types = [self.random.choice(TYPES) for _ in range(self.random.randint(1, 3))]

        def side(inner: Builder) -> list[Value]:
            inside = self.fill(inner, list(known), depth, self.random.randint(0, 3))
            return [self.pick(inside, t, inner) for t in types]

        regions = [region([], side) for _ in range(self.random.randint(1, 3))]
        return b.emit_many(HLO_OPS["case"], self.pick(known, INDEX, b), regions=regions)

    def callback(self, b: Builder, known: list[Value]) -> Value:
        number, self.calls = self.calls, self.calls + 1
        log = self.log
        assert log is not None

        def function(x: np.ndarray[Any, Any]) -> list[Any]:
            log.append((number, x.tolist()))
            return [x + 1]

        operand = self.pick(known, self.random.choice(TYPES), b)
        return b.emit_many(
            HLO_OPS["custom_call"],
            operand,
            call_target_name="braze_callback",
            has_side_effect=True,
            backend_config="",
            callback=function,
            result_types=(operand.type,),
        )[0]
