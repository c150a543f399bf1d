"""HLO: the graph that passes rewrite, shaped like StableHLO. Data only.

A module holds functions, a function one region, a region instructions in an order that puts producers
first. An instruction has operands (values), attributes, regions and results (values). Values are dense and
row-major, types carry no weak flag.

Invariants:
- Nodes are not mutated after construction. A pass makes new instructions and returns a new module, or the
  same object if nothing changed.
- A value belongs to one region; regions of `while`, `case` and `reduce` may use values of the regions
  around them (captures), except in `braze.fusion`, which is closed.
- Walks over operands never recurse; nesting of regions is the only recursion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from braze.errors import Source
from braze.ops.table import HLO_OPS, Cost, Effect, Family, Fused, Op, ProgramStep, Update
from braze.types import TensorType


class Value:
    """A result of an instruction, or a parameter of a region (then `producer` is None)."""

    __slots__ = ("index", "producer", "type")

    def __init__(self, type: TensorType, producer: Instruction | None = None, index: int = 0) -> None:
        self.type = type
        self.producer = producer
        self.index = index

    def __repr__(self) -> str:
        name = "parameter" if self.producer is None else self.producer.op.title
        return f"<{name}#{self.index}: {self.type}>"


class Instruction:
    """One operation applied to values.

    Attributes:
        op: the record in `ops/`.
        attrs: attribute name to plain Python data (ints, strings, tuples, dtypes, NumPy arrays).
        source: the user's line it came from, or None.
    """

    __slots__ = ("attrs", "op", "operands", "regions", "results", "source")

    def __init__(
        self,
        op: Op,
        operands: Sequence[Value],
        types: Sequence[TensorType],
        attrs: dict[str, Any] | None = None,
        regions: Sequence[Region] = (),
        source: Source | None = None,
    ) -> None:
        self.op = op
        self.operands = tuple(operands)
        self.attrs = attrs if attrs is not None else {}
        self.regions = tuple(regions)
        self.source = source
        self.results = tuple([Value(t, self, i) for i, t in enumerate(types)])

    @property
    def result(self) -> Value:
        assert len(self.results) == 1, f"{self.op} has {len(self.results)} results"
        return self.results[0]

    @property
    def overwrites(self) -> dict[int, int]:
        """Results that take over the memory of an operand of which they change a part: result to operand."""
        match self.op.kernel:
            case Update():
                return {0: 0}
            case Family(_, overwrites):
                return dict(overwrites(len(self.results)) if callable(overwrites) else overwrites)
            case Fused():
                return dict(self.attrs.get("aliases", ()))
        return {}

    @property
    def captures(self) -> bool:
        """Whether its regions see the values around it."""
        return isinstance(self.op.kernel, ProgramStep) and self.op.kernel.captures

    @property
    def has_effects(self) -> bool:
        """Whether it, or anything in its regions, must run even if nobody uses its results."""
        if self.op.effect(self.attrs) is not Effect.NONE:
            return True
        if not self.regions:
            return False
        return any(i.has_effects for region in self.regions for i in region.instructions)

    def __repr__(self) -> str:
        return f"<{self.op.title}({', '.join(str(v.type) for v in self.operands)})>"


def cost_of(instruction: Instruction) -> Cost:
    """The cost facet of its op."""
    regions = {"regions": instruction.regions} if instruction.regions else {}
    return instruction.op.cost(*[v.type for v in instruction.operands], **regions, **instruction.attrs)


class Region:
    """Parameters, instructions in order, and the values that it returns."""

    __slots__ = ("instructions", "parameters", "results")

    def __init__(
        self, parameters: Sequence[Value], instructions: Sequence[Instruction], results: Sequence[Value]
    ) -> None:
        self.parameters = tuple(parameters)
        self.instructions = tuple(instructions)
        self.results = tuple(results)

    @property
    def parameter_types(self) -> tuple[TensorType, ...]:
        return tuple(p.type for p in self.parameters)

    @property
    def result_types(self) -> tuple[TensorType, ...]:
        return tuple(r.type for r in self.results)


@dataclass(slots=True)
class Function:
    """A named region.

    Attributes:
        public: whether it can be called from outside the module; `main` is.
        parameter_attrs, result_attrs: MLIR attributes per parameter and result that braze carries along
            (`tf.aliasing_output`, `jax.buffer_donor`, `jax.result_info`).
    """

    name: str
    region: Region
    public: bool = True
    parameter_attrs: tuple[dict[str, Any], ...] = ()
    result_attrs: tuple[dict[str, Any], ...] = ()

    @property
    def donated(self) -> tuple[bool, ...]:
        """Per parameter: whether its memory may be reused for results."""
        attrs = self.parameter_attrs or ({},) * len(self.region.parameters)
        return tuple("tf.aliasing_output" in a or "jax.buffer_donor" in a for a in attrs)


@dataclass(slots=True, eq=False)
class Module:
    """Functions by name; execution begins at `main`."""

    functions: dict[str, Function]
    name: str = "module"
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def main(self) -> Function:
        return self.functions["main"]

    def with_function(self, function: Function) -> Module:
        """This module with one function replaced."""
        return Module({**self.functions, function.name: function}, self.name, self.attrs)


def walk(region: Region) -> Iterator[Instruction]:
    """All instructions of a region and of the regions inside it, outer ones first."""
    for instruction in region.instructions:
        yield instruction
        for inner in instruction.regions:
            yield from walk(inner)


class Builder:
    """Appends instructions to a region being made. `lower` facets and passes write through it.

    >>> # b.emit(add, x, y) appends an add and returns its result value
    """

    __slots__ = ("instructions", "source")

    def __init__(self, source: Source | None = None) -> None:
        self.instructions: list[Instruction] = []
        self.source = source

    def emit(self, op: Op, *operands: Value, regions: Sequence[Region] = (), **attrs: Any) -> Value:
        """Append an op of one result; its type comes from `infer`."""
        (result,) = self.emit_many(op, *operands, regions=regions, **attrs)
        return result

    def emit_many(
        self, op: Op, *operands: Value, regions: Sequence[Region] = (), **attrs: Any
    ) -> tuple[Value, ...]:
        """Append an op of any number of results."""
        extra = {"regions": tuple(regions)} if regions else {}
        types = op.infer(*[v.type for v in operands], **extra, **attrs)
        made = Instruction(
            op, operands, types if op.multiple_results else (types,), attrs, regions, self.source
        )
        self.instructions.append(made)
        return made.results

    def nested(self) -> Builder:
        """A builder for a region inside this one."""
        return Builder(self.source)

    def region(self, types: Sequence[TensorType], body: Callable[..., Sequence[Value]]) -> Region:
        """A region with parameters of these types; `body(b, *parameters)` writes it and gives its results."""
        parameters = [Value(t) for t in types]
        inner = self.nested()
        results = body(inner, *parameters)
        return Region(parameters, inner.instructions, results)

    def constant(self, array: Any, dtype: Any = None) -> Value:
        """Append a constant; the array is copied and made read-only."""
        value = np.array(array, dtype=dtype, order="C")
        value.setflags(write=False)
        return self.emit(HLO_OPS["constant"], value=value)


def equal(first: Module, second: Module) -> bool:
    """Whether two modules are the same but for the identity of nodes and source lines.

    Names of functions count, order of functions, names of values and sources do not. Arrays are compared
    bit for bit.
    """
    if first.name != second.name or not _same(first.attrs, second.attrs):
        return False
    if first.functions.keys() != second.functions.keys():
        return False
    return all(_same_function(f, second.functions[name]) for name, f in first.functions.items())


def _same_function(first: Function, second: Function) -> bool:
    alike = first.public == second.public
    for one, other, count in (
        (first.parameter_attrs, second.parameter_attrs, len(first.region.parameters)),
        (first.result_attrs, second.result_attrs, len(first.region.results)),
    ):
        alike = alike and _same(one or ({},) * count, other or ({},) * count)
    return alike and _same_region(first.region, second.region, {})


def _same_region(first: Region, second: Region, partner: dict[Value, Value]) -> bool:
    """Compare two regions; `partner` maps the first's values to the second's and is extended."""
    if first.parameter_types != second.parameter_types:
        return False
    if len(first.instructions) != len(second.instructions) or len(first.results) != len(second.results):
        return False
    partner.update(zip(first.parameters, second.parameters))
    for one, other in zip(first.instructions, second.instructions):
        if one.op is not other.op or len(one.operands) != len(other.operands):
            return False
        if any(partner.get(x) is not y for x, y in zip(one.operands, other.operands)):
            return False
        if [r.type for r in one.results] != [r.type for r in other.results]:
            return False
        if not _same(one.attrs, other.attrs) or len(one.regions) != len(other.regions):
            return False
        if not all(_same_region(x, y, partner) for x, y in zip(one.regions, other.regions)):
            return False
        partner.update(zip(one.results, other.results))
    return all(partner.get(x) is y for x, y in zip(first.results, second.results))


def _same(first: Any, second: Any) -> bool:
    """Whether attribute values are equal, arrays by their bits."""
    if isinstance(first, np.ndarray):
        alike = isinstance(second, np.ndarray) and (first.dtype, first.shape) == (second.dtype, second.shape)
        return alike and first.tobytes() == second.tobytes()
    if isinstance(first, dict):
        alike = isinstance(second, dict) and first.keys() == second.keys()
        return alike and all(_same(value, second[name]) for name, value in first.items())
    if isinstance(first, tuple | list):
        alike = isinstance(second, tuple | list) and len(first) == len(second)
        return alike and all(_same(x, y) for x, y in zip(first, second))
    return bool(first == second)
