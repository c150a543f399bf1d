"""From the jaxpr to HLO: each primitive by its record's `lower` facet.

A facet writes through a `LoweringBuilder`. Most primitives are one HLO op of the same record and need no
facet. What happens here for all of them: elementwise primitives take scalars and axes of size 1 beside
full operands, HLO ops do not, so operands are broadcast; literals become constants, one per region; weak
types end.

Captured arrays of up to 64 elements become constants. Larger ones become parameters behind the visible
ones of `main`, and of every private function that needs them; `LoweredModule.hidden` has their values.

Invariant: the walk over equations does not recurse; only regions and functions nest, and time is
linear in the number of equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braze import core
from braze.errors import BrazeError, Source, UnsupportedError
from braze.hlo.ir import Builder, Function, Instruction, Module, Region, Value
from braze.ops.table import DEFAULT, HLO_OPS, Absent, Op
from braze.record import Record
from braze.trace.jaxpr import Atom, ClosedJaxpr, Jaxpr, Literal, dce
from braze.types import TensorType

LARGEST_CONSTANT = 64
"""Elements of a captured array that is still written into the program."""


@dataclass(slots=True, eq=False, repr=False)
class LoweredModule(Record):
    """A module and what it is to be called with.

    Attributes:
        hidden: values of the trailing parameters of `main`: captured arrays, in order.
        kept: which inputs of the jaxpr the leading parameters of `main` stand for.
    """

    module: Module
    hidden: tuple[Any, ...]
    kept: tuple[int, ...]


def lower(
    closed: ClosedJaxpr, name: str = "main", donated: Sequence[bool] = (), keep_unused: bool = True
) -> LoweredModule:
    """Lower a jaxpr to a module whose `main` takes the jaxpr's inputs.

    Args:
        name: the name of the module.
        donated: per input, whether its memory may be reused for results; empty for none.
        keep_unused: whether inputs that nothing reads stay parameters.
    """
    jaxpr = closed.jaxpr if keep_unused else dce(closed.jaxpr)
    kept = tuple(range(len(jaxpr.invars))) if keep_unused else _used_inputs(jaxpr)
    lowering = _Lowering()
    scope = _Scope(lowering)
    parameters = [Value(jaxpr.invars[k].type.strong) for k in kept]
    inputs: list[Value | None] = [None] * len(jaxpr.invars)
    for k, parameter in zip(kept, parameters):
        inputs[k] = parameter
    builder = LoweringBuilder(scope)
    results = builder.run(jaxpr, closed.consts, inputs)
    region = Region([*parameters, *scope.parameters], builder.instructions, results)
    attrs = _donation([bool(donated[k]) for k in kept] if donated else [], region)
    main = Function("main", region, parameter_attrs=attrs)
    module = Module({"main": main, **lowering.functions}, name)
    return LoweredModule(module, tuple(scope.arrays), kept)


def _used_inputs(jaxpr: Jaxpr) -> tuple[int, ...]:
    used: set[Atom] = set(jaxpr.outvars)
    for eqn in jaxpr.eqns:
        used.update(eqn.inputs)
    return tuple(k for k, v in enumerate(jaxpr.invars) if v in used)


def _donation(donated: Sequence[bool], region: Region) -> tuple[dict[str, Any], ...]:
    """Attributes of parameters: `tf.aliasing_output` names the first free result of the same type."""
    if not any(donated):
        return ()
    free: dict[TensorType, list[int]] = {}
    for k, type in enumerate(region.result_types):
        free.setdefault(type, []).append(k)
    attrs: list[dict[str, Any]] = []
    for k, parameter in enumerate(region.parameters):
        if k >= len(donated) or not donated[k]:
            attrs.append({})
        elif free.get(parameter.type):
            attrs.append({"tf.aliasing_output": np.int32(free[parameter.type].pop(0))})
        else:
            attrs.append({"jax.buffer_donor": True})
    return tuple(attrs)


class _Lowering:
    """What one call of `lower` shares: the private functions made so far."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}
        self.made: dict[int, tuple[ClosedJaxpr, str]] = {}
        self.hidden: dict[str, list[Any]] = {}

    def unique(self, wanted: str) -> str:
        name, count = wanted, 0
        while name in self.functions or name == "main":
            name = f"{wanted}_{count}"
            count += 1
        return name

    def function(self, closed: ClosedJaxpr, name: str) -> str:
        found = self.made.get(id(closed))
        if found is not None:
            return found[1]
        name = self.unique(name)
        self.functions[name] = Function(name, Region((), (), ()), public=False)  # holds its place in order
        scope = _Scope(self)
        parameters = [Value(t.strong) for t in closed.in_avals]
        builder = LoweringBuilder(scope)
        results = builder.run(closed.jaxpr, closed.consts, parameters)
        region = Region([*parameters, *scope.parameters], builder.instructions, results)
        self.functions[name] = Function(name, region, public=False)
        self.hidden[name] = scope.arrays
        self.made[id(closed)] = closed, name  # holding the jaxpr keeps its id from being reused
        return name


class _Scope:
    """One function under construction: its parameters for captured arrays."""

    def __init__(self, lowering: _Lowering) -> None:
        self.lowering = lowering
        self.arrays: list[Any] = []
        self.parameters: list[Value] = []
        self.known: dict[int, Value] = {}

    def hidden(self, array: Any) -> Value:
        found = self.known.get(id(array))
        if found is None:
            found = self.known[id(array)] = Value(core.typeof(array).strong)
            self.arrays.append(array)
            self.parameters.append(found)
        return found


class LoweringBuilder(Builder):
    """What `lower` facets write to: a `Builder` that also lowers jaxprs in attributes."""

    __slots__ = ("broadcasts", "literals", "scope")

    def __init__(self, scope: _Scope, source: Source | None = None) -> None:
        super().__init__(source)
        self.scope = scope
        self.literals: dict[tuple[TensorType, bytes], Value] = {}
        self.broadcasts: dict[tuple[Value, tuple[int, ...]], Value] = {}

    # --- for facets -------------------------------------------------------------------------------
    def emit_many(
        self, op: Op, *operands: Value, regions: Sequence[Region] = (), **attrs: Any
    ) -> tuple[Value, ...]:
        """Append an op of any number of results; a call's come from the function called."""
        if op.hlo != "call":
            return super().emit_many(op, *operands, regions=regions, **attrs)
        lowering = self.scope.lowering
        callee = attrs["callee"]
        captured = [self.scope.hidden(array) for array in lowering.hidden[callee]]
        types = lowering.functions[callee].region.result_types
        made = Instruction(op, [*operands, *captured], types, attrs, (), self.source)
        self.instructions.append(made)
        return made.results

    def nested(self) -> LoweringBuilder:
        """A builder for a region inside this one; it may use values of this one."""
        return LoweringBuilder(self.scope, self.source)

    def region(self, types: Sequence[TensorType], body: Callable[..., Sequence[Value]]) -> Region:
        """A region that `body(inner_builder, *parameters)` writes; it may use values of this builder."""
        inner = LoweringBuilder(self.scope, self.source)
        parameters = [Value(t.strong) for t in types]
        results = body(inner, *parameters)
        return Region(parameters, inner.instructions, results)

    def subregion(self, closed: ClosedJaxpr) -> Region:
        """A region that does what the jaxpr does, with its inputs as parameters."""
        return self.region(closed.in_avals, lambda inner, *values: inner.inline(closed, *values))

    def function(self, closed: ClosedJaxpr, name: str) -> str:
        """The name of a private function made of the jaxpr; the same jaxpr is made once."""
        return self.scope.lowering.function(closed, name)

    def inline(self, closed: ClosedJaxpr, *values: Value) -> tuple[Value, ...]:
        """Append the jaxpr's operations to this builder, with these inputs."""
        before = self.source
        results = self.run(closed.jaxpr, closed.consts, values)
        self.source = before
        return tuple(results)

    def broadcast(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Widen a scalar, or axes of size 1, to a shape; the same widening is made once per region."""
        found = self.broadcasts.get((value, shape))
        if found is None:
            have = value.type.shape
            assert not have or len(have) == len(shape), "infer has checked the ranks"
            kept = [k for k, n in enumerate(have) if n == shape[k] or n != 1]
            narrow = value
            if len(kept) != len(have):
                narrow = self.emit(HLO_OPS["reshape"], value, shape=tuple(have[k] for k in kept))
            dims = tuple(kept)
            found = self.emit(HLO_OPS["broadcast_in_dim"], narrow, shape=shape, broadcast_dimensions=dims)
            self.broadcasts[value, shape] = found
        return found

    # --- the walk ---------------------------------------------------------------------------------
    def run(self, jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[Value | None]) -> list[Value]:
        """Append the equations of a jaxpr, given its inputs; returns its outputs."""
        env: dict[Atom, Any] = dict(zip(jaxpr.invars, inputs))
        for var, array in zip(jaxpr.constvars, consts):
            env[var] = self._captured(array)
        append = self.instructions.append
        for eqn in jaxpr.eqns:
            self.source = eqn.source
            op = eqn.op
            values = [self._literal(v) if type(v) is Literal else env[v] for v in eqn.inputs]
            if op.broadcasts and len(values) > 1:
                values = self._broadcast_all(values)
            if op.lower is DEFAULT:
                made = Instruction(
                    op, values, [v.type.strong for v in eqn.outputs], dict(eqn.attrs), (), eqn.source
                )
                append(made)
                env.update(zip(eqn.outputs, made.results))
            else:
                env.update(zip(eqn.outputs, self._by_facet(op, values, eqn.attrs), strict=True))
        return [self._literal(v) if type(v) is Literal else env[v] for v in jaxpr.outvars]

    def _by_facet(self, op: Op, values: Sequence[Value], attrs: Any) -> Sequence[Value]:
        if isinstance(op.lower, Absent):
            raise UnsupportedError(
                f"lower: {op.title} has no HLO form: {op.lower.reason}.", source=self.source
            )
        try:
            found = op.lower(self, *values, **attrs)
        except BrazeError as error:
            error.source = error.source or self.source
            raise
        return (found,) if isinstance(found, Value) else found

    def _broadcast_all(self, values: list[Value]) -> list[Value]:
        """Operands of an elementwise primitive at their common shape, as `core.infer` computes it."""
        first = values[0].type.shape
        if all(v.type.shape == first for v in values):
            return values
        shapes = [v.type.shape for v in values if v.type.shape]
        shape = tuple(next((n for n in sizes if n != 1), 1) for sizes in zip(*shapes))
        return [v if v.type.shape == shape else self.broadcast(v, shape) for v in values]

    def _literal(self, literal: Literal) -> Value:
        type = literal.type.strong
        value = np.asarray(literal.value, type.dtype)
        key = (type, value.tobytes())
        found = self.literals.get(key)
        if found is None:
            found = self.literals[key] = self.constant(value)
        return found

    def _captured(self, array: Any) -> Value:
        type = core.typeof(array).strong
        if type.size <= LARGEST_CONSTANT:
            return self.constant(np.asarray(array, type.dtype))
        if isinstance(array, np.ndarray) and not any(array.strides):
            # One element for all, as `staging.zeros` makes: no memory is worth handing over.
            return self.broadcast(self.constant(array[(0,) * array.ndim]), type.shape)
        return self.scope.hidden(array)
