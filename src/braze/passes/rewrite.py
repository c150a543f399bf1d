"""The engine under `simplify`: patterns, rules, and the walk that applies them.

A pattern is made by calling operations on pattern variables, so a rule reads like the code it rewrites:

    Rule("neg_neg", neg(neg(x)), x)

Instructions are visited once, producers first. Before an instruction is kept, the rules of its op are tried
on it; the right side is built through the same door, so what it makes is simplified on the way. Operands are
always simplified already, which is why one walk is enough for rules that only look at operands.

A literal in a pattern matches a splat: a constant of equal elements, or a broadcast of one. Commutative ops
match both orders, at every level of the pattern.

Invariant: a right side has the type of the left; what a rule leaves unused is for `dce`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from braze import core
from braze.core import Tracer
from braze.errors import Source
from braze.hlo.ir import Builder, Function, Instruction, Module, Region, Value
from braze.ops.table import HLO_OPS, Op
from braze.passes.log import Log
from braze.types import TensorType


class Numerics(Enum):
    """What a rule does to results. All but EXACT fire only under `fast_math`."""

    EXACT = "exact"
    REASSOCIATES = "reassociates"
    CONTRACTS = "contracts"


class Wildcard:
    """Matches any attribute value; `_` in patterns."""


ANY = Wildcard()


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute variable of a pattern."""

    name: str


class _PatternTrace(core.Trace):
    """Turns operations on patterns into patterns."""

    def process(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
        return [Pattern(op=op, operands=tuple(args), attrs=attrs)]


class Pattern(Tracer):
    """A variable (`name`), or an op applied to patterns and literals."""

    __slots__ = ("attrs", "name", "op", "operands")

    def __init__(
        self,
        name: str = "",
        op: Op | None = None,
        operands: tuple[Any, ...] = (),
        attrs: dict[str, Any] | None = None,
    ) -> None:
        self._trace = _PATTERNS
        self.name = name
        self.op = op
        self.operands = operands
        self.attrs = attrs or {}

    def __repr__(self) -> str:
        if self.op is None:
            return self.name
        inner = [repr(o) for o in self.operands]
        inner += [f"{k}={'_' if v is ANY else getattr(v, 'name', v)}" for k, v in self.attrs.items()]
        return f"{self.op.hlo}({', '.join(inner)})"


_PATTERNS = _PatternTrace()
# Patterns are made while rule tables are imported, in whatever thread; they belong to no nesting of traces.
_PATTERNS.alive = True
_PATTERNS.level = 0
_PATTERNS.thread = threading.get_ident()


def variables(names: str) -> list[Pattern]:
    """Pattern variables."""
    return [Pattern(name) for name in names.split()]


def attributes(names: str) -> list[Attribute]:
    """Attribute variables."""
    return [Attribute(name) for name in names.split()]


Bindings = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named equation: the left side is replaced by the right.

    Attributes:
        left: a pattern whose root is an op.
        right: a pattern, or a function of the bound variables (by name) that builds the replacement by
            calling operations, or returns None to decline.
        when: a condition on bound variables, by name.
        why: the reason of the condition, or of an equation that surprises.
    """

    name: str
    left: Pattern
    right: Pattern | Callable[..., Any]
    when: Callable[..., bool] | None = None
    why: str = ""
    numerics: Numerics = Numerics.EXACT


class Bound(Tracer):
    """A value of the graph, for right sides and conditions: operations on it append instructions."""

    __slots__ = ("value",)

    def __init__(self, trace: Rewriter, value: Value) -> None:
        self._trace = trace
        self.value = value

    @property
    def aval(self) -> TensorType:
        return self.value.type

    @property
    def producer(self) -> Instruction | None:
        return self.value.producer


def splat(value: Value) -> np.generic | None:
    """The one number that all elements of a value are, where that is known."""
    producer = value.producer
    while producer is not None and producer.op.hlo in ("broadcast_in_dim", "reshape"):
        producer = producer.operands[0].producer
    if producer is None or producer.op.hlo != "constant":
        return None
    array: np.ndarray[Any, Any] = producer.attrs["value"]
    if array.size == 0 or array.size > 4096:
        return None
    first = array.reshape(-1)[0]
    if (
        array.size == 1
        or (array.reshape(-1).view(f"V{array.itemsize}") == first.view(f"V{array.itemsize}")).all()
    ):
        return first  # type: ignore[no-any-return]
    return None


def _literal_matches(literal: Any, value: Value) -> bool:
    found = splat(value)
    if found is None:
        return False
    if value.type.dtype == np.bool_ and not isinstance(literal, bool):
        return False
    with np.errstate(all="ignore"):
        wanted = np.asarray(literal).astype(value.type.dtype)[()]
    signs_agree = wanted.dtype.kind != "f" or np.signbit(found) == np.signbit(wanted)
    return bool(found == wanted) and bool(signs_agree)


class Rewriter(core.Trace):
    """One walk over a module's functions with a set of rules."""

    def __init__(self, rules: Sequence[Rule], log: Log | None = None) -> None:
        super().__init__()
        self.rules = _index(rules)
        self.log = log if log is not None else Log()
        self.builder = Builder()
        self.source: Source | None = None

    def run(self, module: Module) -> Module:
        changed = {}
        with core.activate(self, dynamic=True):
            for function in module.functions.values():
                region = self.region(function.region, {})
                if region is not function.region:
                    changed[function.name] = Function(
                        function.name,
                        region,
                        function.public,
                        function.parameter_attrs,
                        function.result_attrs,
                    )
        return Module({**module.functions, **changed}, module.name, module.attrs) if changed else module

    def region(self, region: Region, env: dict[Value, Value]) -> Region:
        """The region simplified; `env` maps values that were replaced, of outer regions too."""
        outer, self.builder = self.builder, Builder()
        changed = False
        for instruction in region.instructions:
            changed |= self.visit(instruction, env)
        made, self.builder = self.builder, outer
        results = tuple(env.get(v, v) for v in region.results)
        if not changed and results == region.results:
            return region
        return Region(region.parameters, made.instructions, results)

    def visit(self, instruction: Instruction, env: dict[Value, Value]) -> bool:
        """Append the instruction or what replaces it; returns whether anything changed."""
        operands = tuple([env.get(v, v) for v in instruction.operands]) if env else instruction.operands
        op = instruction.op
        regions = instruction.regions
        if regions and op.hlo != "braze.fusion":
            regions = tuple(self.region(r, env) for r in regions)
        if (
            op.commutative
            and len(operands) == 2
            and _is_constant(operands[0])
            and not _is_constant(operands[1])
        ):
            operands = operands[::-1]
        same = operands == instruction.operands and regions == instruction.regions
        current = instruction if same else self._remade(instruction, operands, regions)
        self.source = instruction.source
        replaced = self.rewrite(current)
        if replaced is None:
            self.builder.instructions.append(current)
            if same:
                return False
            env.update(zip(instruction.results, current.results, strict=True))
        else:
            env[instruction.results[0]] = replaced
        return True

    @staticmethod
    def _remade(
        instruction: Instruction, operands: tuple[Value, ...], regions: tuple[Region, ...]
    ) -> Instruction:
        types = [v.type for v in instruction.results]
        return Instruction(instruction.op, operands, types, instruction.attrs, regions, instruction.source)

    def rewrite(self, instruction: Instruction) -> Value | None:
        """The value that replaces an instruction's result, by the first rule that fires."""
        for rule, producers in self.rules.get(instruction.op, ()):
            if not _may_match(producers, instruction):
                continue
            for bindings in _match_instruction(rule.left, instruction, {}):
                replaced = self._apply(rule, instruction, bindings)
                if replaced is not None:
                    return replaced
        return None

    def _apply(self, rule: Rule, instruction: Instruction, bindings: Bindings) -> Value | None:
        if self.log.exhausted:
            return None
        bound = {k: self._bound(v) for k, v in bindings.items()}
        if rule.when is not None and not rule.when(**_wanted(rule.when, bound)):
            return None
        mark = len(self.builder.instructions)
        if isinstance(rule.right, Pattern):
            result = self._build(rule.right, bound, instruction.results[0].type)
        else:
            result = rule.right(**_wanted(rule.right, bound))
        if result is None:
            del self.builder.instructions[mark:]
            return None
        value = result.value
        wanted = instruction.results[0].type
        assert value.type == wanted, f"rule {rule.name} gave {value.type} for {wanted}"
        self.log.count(rule.name)
        return value  # type: ignore[no-any-return]

    def _bound(self, value: Any) -> Any:
        if isinstance(value, Value):
            return Bound(self, value)
        if isinstance(value, tuple) and value and isinstance(value[0], Value):
            return tuple(Bound(self, v) for v in value)
        return value

    def _build(self, pattern: Any, bound: Bindings, type: TensorType) -> Any:
        """The right side as instructions; `type` is the result's, which literals take."""
        if not isinstance(pattern, Pattern):
            return self.splat(pattern, type)
        if pattern.op is None:
            return bound[pattern.name]
        like = next((bound[v.name].aval for v in _leaves(pattern) if v.name in bound), type)
        operands = [self._build(o, bound, like) for o in pattern.operands]
        attrs = {k: bound[v.name] if isinstance(v, Attribute) else v for k, v in pattern.attrs.items()}
        return core.bind(pattern.op, *operands, **attrs)

    def process(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
        types = [a.aval for a in args if isinstance(a, Tracer)]
        values = [a.value if isinstance(a, Bound) else self.splat(a, types[0]).value for a in args]
        found = op.infer(*[v.type for v in values], **attrs)
        made = Instruction(op, values, found if op.multiple_results else (found,), attrs, (), self.source)
        replaced = None if op.multiple_results else self.rewrite(made)
        if replaced is not None:
            return [Bound(self, replaced)]
        self.builder.instructions.append(made)
        return [Bound(self, v) for v in made.results]

    def splat(self, number: Any, type: TensorType) -> Bound:
        """A splat of a type: a scalar constant, broadcast."""
        with np.errstate(all="ignore"):
            array = np.asarray(number).astype(type.dtype)
        array.setflags(write=False)
        constant = core.bind(HLO_OPS["constant"], value=array)
        if not type.shape:
            return constant  # type: ignore[no-any-return]
        return core.bind(HLO_OPS["broadcast_in_dim"], constant, shape=type.shape, broadcast_dimensions=())  # type: ignore[no-any-return]


def _leaves(pattern: Pattern) -> Iterator[Pattern]:
    if pattern.op is None:
        yield pattern
    for operand in pattern.operands:
        if isinstance(operand, Pattern):
            yield from _leaves(operand)


def _is_constant(value: Value) -> bool:
    return splat(value) is not None or (value.producer is not None and value.producer.op.hlo == "constant")


def _wanted(function: Callable[..., Any], bound: Bindings) -> Bindings:
    """The bindings that a function names among its parameters."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: bound[name] for name in names}


Producers = tuple[Op | None, ...]


def _index(rules: Sequence[Rule]) -> dict[Op, list[tuple[Rule, Producers]]]:
    table: dict[Op, list[tuple[Rule, Producers]]] = {}
    for rule in rules:
        assert rule.left.op is not None, f"{rule.name}: the left side is an op"
        producers = tuple(o.op if isinstance(o, Pattern) else None for o in rule.left.operands)
        table.setdefault(rule.left.op, []).append((rule, producers))
    return table


def _may_match(producers: Producers, instruction: Instruction) -> bool:
    """A cheap test before matching: each op that the pattern wants below the root is there, in any order."""
    for wanted in producers:
        if wanted is not None and not any(
            v.producer is not None and v.producer.op is wanted for v in instruction.operands
        ):
            return False
    return True


def _match_instruction(pattern: Pattern, instruction: Instruction, bindings: Bindings) -> Iterator[Bindings]:
    if instruction.op is not pattern.op:
        return
    wanted_operands = pattern.operands
    if _is_rest(wanted_operands):
        *wanted_operands, rest = wanted_operands  # type: ignore[assignment]
        tail = instruction.operands[len(wanted_operands) :]
        bindings = {**bindings, rest.name.rstrip("*"): tail}
    elif len(wanted_operands) != len(instruction.operands):
        return
    for name, wanted in pattern.attrs.items():
        value = instruction.attrs.get(name)
        if wanted is ANY:
            continue
        if isinstance(wanted, Attribute):
            if wanted.name in bindings and bindings[wanted.name] != value:
                return
            bindings = {**bindings, wanted.name: value}
        elif value != wanted:
            return
    orders: Iterator[tuple[Value, ...]] = iter((instruction.operands,))
    if instruction.op.commutative and len(instruction.operands) == 2:
        orders = itertools.chain(orders, (instruction.operands[::-1],))
    for operands in orders:
        yield from _match_all(wanted_operands, operands[: len(wanted_operands)], bindings)


def _is_rest(operands: Sequence[Any]) -> bool:
    """Whether the last operand stands for all that follow (`variables("rest*")`)."""
    return bool(operands) and isinstance(operands[-1], Pattern) and operands[-1].name.endswith("*")


def _match_all(patterns: Sequence[Any], values: Sequence[Value], bindings: Bindings) -> Iterator[Bindings]:
    if not patterns:
        yield bindings
        return
    for found in _match(patterns[0], values[0], bindings):
        yield from _match_all(patterns[1:], values[1:], found)


def _match(pattern: Any, value: Value, bindings: Bindings) -> Iterator[Bindings]:
    if not isinstance(pattern, Pattern):
        if _literal_matches(pattern, value):
            yield bindings
    elif pattern.op is None:
        known = bindings.get(pattern.name)
        if known is None:
            yield {**bindings, pattern.name: value}
        elif known is value:
            yield bindings
    elif value.producer is not None:
        yield from _match_instruction(pattern, value.producer, bindings)
