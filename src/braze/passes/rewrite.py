"""The engine under `simplify`: the walk that applies rules (`patterns.py`) to a module.

Instructions are visited once, producers first. Before an instruction is kept, the rules of its op are tried
on it; the right side is built through the same door, so what it makes is simplified on the way. Operands are
always simplified already, which is why one walk is enough for rules that only look at operands.

Invariants:
- A right side has the type of the left; what a rule leaves unused is for `dce`.
- A rewrite is counted before its right side is built, so fuel ends exactly where it is said to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import core
from braze.core import Tracer
from braze.errors import Source
from braze.hlo.ir import Builder, Instruction, Module, Region, Value
from braze.ops.table import HLO_OPS, Immediate, Op
from braze.passes.copying import Env, each_function, is_open, remade
from braze.passes.log import Log
from braze.passes.patterns import (
    SPLAT_SOURCES,
    Bindings,
    Index,
    Pattern,
    Rule,
    Splats,
    attrs_of,
    matches,
    wanted_names,
)
from braze.types import TensorType

CONSTANT_RIGHT = "constant_right"
"""The one rewrite that is no row of a table: a constant stands on the right of a commutative op."""


class Bound(Tracer):
    """A value of the graph, for right sides and conditions: operations on it append instructions."""

    __slots__ = ("_rewriter", "value")

    def __init__(self, rewriter: Rewriter, value: Value) -> None:
        self._trace = self._rewriter = rewriter
        self.value = value

    @property
    def aval(self) -> TensorType:
        return self.value.type

    @property
    def number(self) -> Any:
        """The one number that all elements are, as a NumPy scalar, or None."""
        return self._rewriter.splats(self.value)

    def like(self, number: Any, **changes: Any) -> Bound:
        """A splat of this value's type, `changes` (shape, dtype) aside."""
        return self._rewriter.splat(number, self.aval.with_(**changes) if changes else self.aval)


class Rewriter(core.Trace):
    """One walk over a module's functions with a set of rules."""

    __slots__ = ("builder", "constant_right", "index", "log", "source", "splats")

    def __init__(self, index: Index, log: Log | None = None, constant_right: bool = True) -> None:
        super().__init__()
        self.index = index
        self.log = log if log is not None else Log()
        self.constant_right = constant_right
        self.splats = Splats()
        self.builder = Builder()
        self.source: Source | None = None

    def run(self, module: Module) -> Module:
        with core.activate(self):
            return each_function(module, lambda region: self.region(region, {}))

    def region(self, region: Region, env: Env) -> Region:
        """The region simplified; `env` maps values that were replaced, of outer regions too."""
        outer, self.builder = self.builder, Builder()
        changed = False
        for instruction in region.instructions:
            changed |= self.visit(instruction, env)
        made, self.builder = self.builder, outer
        if not changed:
            # Values of outer regions may have been replaced even where no instruction here reads them.
            results = tuple(env.get(v, v) for v in region.results)
            if results == region.results:
                return region
        return Region(region.parameters, made.instructions, [env.get(v, v) for v in region.results])

    def visit(self, instruction: Instruction, env: Env) -> bool:
        """Append the instruction or what replaces it; returns whether anything changed."""
        operands: Sequence[Value] = instruction.operands
        if env:
            operands = [env.get(v, v) for v in operands]
        regions: Sequence[Region] = instruction.regions
        if is_open(instruction):
            regions = [self.region(r, env) for r in regions]
        current = remade(instruction, self._ordered(instruction.op, operands), regions)
        self.source = instruction.source
        replaced = self.rewrite(current)
        if replaced is not None:
            env[instruction.results[0]] = replaced
            return True
        self.builder.instructions.append(current)
        if current is instruction:
            return False
        env.update(zip(instruction.results, current.results, strict=True))
        return True

    def _ordered(self, op: Op, operands: Sequence[Value]) -> Sequence[Value]:
        """Operands in canonical order."""
        if not (op.commutative and self.constant_right and len(operands) == 2):
            return operands
        left, right = operands
        if not self._is_constant(left) or self._is_constant(right) or self.log.exhausted:
            return operands
        self.log.count(CONSTANT_RIGHT)
        return right, left

    def _is_constant(self, value: Value) -> bool:
        producer = value.producer
        if producer is None or producer.op not in SPLAT_SOURCES:
            return False
        return isinstance(producer.op.kernel, Immediate) or self.splats(value) is not None

    def rewrite(self, instruction: Instruction) -> Value | None:
        """The value that replaces an instruction's result, by the first rule that fires."""
        for form in self.index.forms(instruction):
            bindings: Bindings = {}
            if matches(form.left, instruction, bindings, self.splats) and self._may_fire(form.rule, bindings):
                self.log.count(form.rule.name)
                return self._replacement(form.rule, instruction, bindings)
        return None

    def _may_fire(self, rule: Rule, bindings: Bindings) -> bool:
        return not self.log.exhausted and (rule.when is None or self._call(rule.when, bindings))

    def _call(self, function: Callable[..., Any], bindings: Bindings) -> Any:
        """A condition or right side on the bindings that it names."""
        return function(*[self._bound(bindings[name]) for name in wanted_names(function)])

    def _bound(self, value: Any) -> Any:
        if isinstance(value, Value):
            return Bound(self, value)
        if isinstance(value, tuple) and value and isinstance(value[0], Value):
            return tuple(Bound(self, v) for v in value)
        return value

    def _replacement(self, rule: Rule, instruction: Instruction, bindings: Bindings) -> Value:
        wanted = instruction.results[0].type
        if isinstance(rule.right, Pattern):
            value = self._build(rule.right, bindings)
        elif callable(rule.right):
            value = self._call(rule.right, bindings).value
        else:
            value = self.splat(rule.right, wanted).value
        assert value.type == wanted, f"rule {rule.name} gave {value.type} for {wanted}"
        return value

    def _build(self, pattern: Pattern, bindings: Bindings) -> Value:
        """The right side as instructions; what the left side had already is taken from there."""
        known = bindings.get(pattern.name)
        if known is not None:
            return known  # type: ignore[no-any-return]
        assert pattern.op is not None, f"{pattern} is no variable of the left side"
        operands = [self._build(o, bindings) for o in pattern.operands]
        return self._emit(pattern.op, operands, attrs_of(pattern, bindings))[0]

    def process(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
        return [Bound(self, v) for v in self._emit(op, [a.value for a in args], attrs)]

    def _emit(self, op: Op, operands: Sequence[Value], attrs: dict[str, Any]) -> Sequence[Value]:
        """Append an instruction, or what rules make of it."""
        found = op.infer(*[v.type for v in operands], **attrs)
        types = found if op.multiple_results else (found,)
        made = Instruction(op, self._ordered(op, operands), types, attrs, (), self.source)
        replaced = self.rewrite(made)
        if replaced is not None:
            return (replaced,)
        self.builder.instructions.append(made)
        return made.results

    def splat(self, number: Any, type: TensorType) -> Bound:
        """A splat of a type: a scalar constant, broadcast."""
        with np.errstate(all="ignore"):
            array = np.asarray(number).astype(type.dtype)
        array.setflags(write=False)
        (value,) = self._emit(HLO_OPS["constant"], (), {"value": array})
        if type.shape:
            attrs = {"shape": type.shape, "broadcast_dimensions": ()}
            (value,) = self._emit(HLO_OPS["broadcast_in_dim"], (value,), attrs)
        return Bound(self, value)
