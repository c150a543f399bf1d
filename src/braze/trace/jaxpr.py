"""The jaxpr, IR 1: primitives in order, with variables between them. From `staging` to `hlo/lower`.

    { lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = mul b 2.0:f32[] in (c,) }

A `Jaxpr` is closed but for its constants: `constvars` stand for arrays that were captured, which a
`ClosedJaxpr` holds. Attributes of region primitives hold closed jaxprs (`op.jaxprs` names them).

Invariants:
- Nothing is changed after construction; `ClosedJaxpr.derived` only remembers what was computed from it.
- Every variable is defined once, before its uses; `check` verifies it together with all types.
- No walk over equations recurses; only nesting of regions does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from braze import core
from braze.errors import BrazeError, Source, VerificationError
from braze.ops.table import Effect, Op
from braze.types import TensorType


class Var:
    """A value that an equation, an input or a constant defines. Its identity is its name."""

    __slots__ = ("type",)

    def __init__(self, type: TensorType) -> None:
        self.type = type

    def __repr__(self) -> str:
        return f"Var({self.type})"


class Literal:
    """A scalar written into the equation that uses it."""

    __slots__ = ("type", "value")

    def __init__(self, value: Any, type: TensorType) -> None:
        self.value = value
        self.type = type

    @property
    def operand(self) -> Any:
        """The scalar as an operand of this very type: a Python scalar where it is weak."""
        return self.value.item() if self.type.weak_type else self.value

    def __repr__(self) -> str:
        return f"Literal({self.value!r})"


Atom = Var | Literal


class Equation:
    """`outputs = op[attrs] inputs`, with the user's line that asked for it."""

    __slots__ = ("attrs", "inputs", "op", "outputs", "source")

    def __init__(
        self,
        op: Op,
        inputs: Sequence[Atom],
        outputs: Sequence[Var],
        attrs: Mapping[str, Any],
        source: Source | None = None,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs
        self.source = source

    @property
    def effects(self) -> frozenset[Effect]:
        """What it does besides giving results, its regions included."""
        return equation_effects(self.op, self.attrs)

    def __repr__(self) -> str:
        return f"Equation({self.op!r})"


_NO_EFFECTS: frozenset[Effect] = frozenset()


def equation_effects(op: Op, attrs: Mapping[str, Any]) -> frozenset[Effect]:
    """The effects of one application of `op`."""
    own = op.effect(attrs)
    effects = _NO_EFFECTS if own is Effect.NONE else frozenset((own,))
    for inner in regions(op, attrs):
        effects |= inner.jaxpr.effects
    return effects


def regions(op: Op, attrs: Mapping[str, Any]) -> Iterator[ClosedJaxpr]:
    """The closed jaxprs in the attributes of an equation."""
    for name in op.jaxprs:
        value = attrs[name]
        if isinstance(value, ClosedJaxpr):
            yield value
        else:
            yield from value


class Jaxpr:
    """Equations between inputs and outputs. See the module."""

    __slots__ = ("__weakref__", "constvars", "effects", "eqns", "invars", "outvars")

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        eqns: Sequence[Equation],
        outvars: Sequence[Atom],
    ) -> None:
        self.constvars = tuple(constvars)
        self.invars = tuple(invars)
        self.eqns = tuple(eqns)
        self.outvars = tuple(outvars)
        effects = _NO_EFFECTS
        for eqn in self.eqns:
            if eqn.op.effects is not Effect.NONE or eqn.op.jaxprs:
                effects |= eqn.effects
        self.effects: frozenset[Effect] = effects

    def __str__(self) -> str:
        from braze.trace.text import text

        return text(self)

    __repr__ = __str__


class ClosedJaxpr:
    """A jaxpr with the values of its constants.

    Attributes:
        derived: what transformations computed from this jaxpr, by what and with which options; it makes a
            function that is differentiated again yield the same jaxprs, so that compiled programs are found.
    """

    __slots__ = ("__weakref__", "consts", "derived", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()) -> None:
        assert len(consts) == len(jaxpr.constvars), "one value per constant variable"
        self.jaxpr = jaxpr
        self.consts = tuple(consts)
        self.derived: dict[Any, Any] = {}

    @property
    def in_avals(self) -> tuple[TensorType, ...]:
        return tuple(v.type for v in self.jaxpr.invars)

    @property
    def out_avals(self) -> tuple[TensorType, ...]:
        return tuple(v.type for v in self.jaxpr.outvars)

    @property
    def eqns(self) -> tuple[Equation, ...]:
        return self.jaxpr.eqns

    @property
    def effects(self) -> frozenset[Effect]:
        return self.jaxpr.effects

    def __str__(self) -> str:
        return str(self.jaxpr)

    __repr__ = __str__


def evaluate(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Run a jaxpr by binding its equations to values, under whatever traces are active."""
    env: dict[Atom, Any] = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    context = core.CONTEXT
    before = context.source
    try:
        for eqn in jaxpr.eqns:
            inputs = [v.operand if type(v) is Literal else env[v] for v in eqn.inputs]
            context.source = eqn.source
            results = core.bind(eqn.op, *inputs, **eqn.attrs)
            if eqn.op.multiple_results:
                env.update(zip(eqn.outputs, results))
            else:
                env[eqn.outputs[0]] = results
    finally:
        context.source = before
    return [v.operand if type(v) is Literal else env[v] for v in jaxpr.outvars]


def check(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Verify scoping and types of a jaxpr, regions included.

    Raises: VerificationError, which lists every fault with the equation it is in.
    """
    faults: list[str] = []
    pending = [jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr]
    while pending:
        _check_one(pending.pop(), faults, pending)
    if faults:
        raise VerificationError(
            f"jaxpr: {len(faults)} fault{'s' if len(faults) > 1 else ''}: " + "; ".join(faults) + "."
        )


def _check_one(jaxpr: Jaxpr, faults: list[str], pending: list[Jaxpr]) -> None:
    defined: set[Var] = set()

    def define(variables: Iterable[Var], where: str) -> None:
        for v in variables:
            if v in defined:
                faults.append(f"a variable of type {v.type} is defined a second time by {where}")
            defined.add(v)

    def use(atoms: Iterable[Atom], where: str) -> None:
        for v in atoms:
            if isinstance(v, Var) and v not in defined:
                faults.append(f"{where} uses a variable of type {v.type} before its definition")

    define(jaxpr.constvars, "the constants")
    define(jaxpr.invars, "the inputs")
    for index, eqn in enumerate(jaxpr.eqns):
        where = f"equation {index} ({eqn.op.title})"
        use(eqn.inputs, where)
        try:
            types = core.infer(eqn.op, [v.type for v in eqn.inputs], dict(eqn.attrs))
        except BrazeError as error:
            faults.append(f"{where}: {error.message.rstrip('.')}")
        else:
            found = [v.type.strong for v in eqn.outputs]
            if [t.strong for t in types] != found:
                faults.append(f"{where} has results {found}, its rule gives {types}")
        define(eqn.outputs, where)
        pending.extend(inner.jaxpr for inner in regions(eqn.op, eqn.attrs))
    use(jaxpr.outvars, "the result")


def dce(jaxpr: Jaxpr, keep: Sequence[bool] | None = None) -> Jaxpr:
    """The jaxpr without equations that no output (of those kept) and no effect needs. Inputs stay."""
    outvars = jaxpr.outvars if keep is None else [v for v, kept in zip(jaxpr.outvars, keep) if kept]
    used: set[Atom] = set(outvars)
    kept_eqns = []
    for eqn in reversed(jaxpr.eqns):
        if any(v in used for v in eqn.outputs) or (eqn.effects - {Effect.READ}):
            kept_eqns.append(eqn)
            used.update(eqn.inputs)
    kept_eqns.reverse()
    return Jaxpr(jaxpr.constvars, jaxpr.invars, kept_eqns, outvars)


def cse(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with equal equations written once: derivative rules compute again what the program has."""
    seen: dict[Any, Sequence[Var]] = {}
    same: dict[Atom, Atom] = {}
    kept = []
    for eqn in jaxpr.eqns:
        inputs = [same.get(v, v) for v in eqn.inputs]
        key = _equation_key(eqn, inputs)
        found = seen.get(key) if key is not None else None
        if found is not None:
            same.update(zip(eqn.outputs, found))
            continue
        if key is not None:
            seen[key] = eqn.outputs
        changed = any(new is not old for new, old in zip(inputs, eqn.inputs))
        kept.append(Equation(eqn.op, inputs, eqn.outputs, eqn.attrs, eqn.source) if changed else eqn)
    if len(kept) == len(jaxpr.eqns):
        return jaxpr
    return Jaxpr(jaxpr.constvars, jaxpr.invars, kept, [same.get(v, v) for v in jaxpr.outvars])


def _equation_key(eqn: Equation, inputs: Sequence[Atom]) -> Any:
    """What makes equations equal; None for those with effects, regions or attributes that do not compare."""
    if eqn.op.jaxprs or eqn.op.effects is not Effect.NONE:
        return None
    # The bytes of a literal tell -0.0 from 0.0 and hold for NaN.
    operands = tuple((v.value.tobytes(), v.type) if isinstance(v, Literal) else v for v in inputs)
    key = (eqn.op, operands, tuple(eqn.attrs.items()), tuple(v.type for v in eqn.outputs))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def consts_as_inputs(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """The jaxpr with its constants as leading inputs, and their values: for loops and branches."""
    inner = closed.jaxpr
    opened = Jaxpr((), (*inner.constvars, *inner.invars), inner.eqns, inner.outvars)
    return ClosedJaxpr(opened), list(closed.consts)


def common_consts(closed: Sequence[ClosedJaxpr]) -> tuple[list[ClosedJaxpr], list[Any]]:
    """Jaxprs of equal inputs (branches) with all constants of all of them as leading inputs."""
    groups = [[Var(v.type) for v in one.jaxpr.constvars] for one in closed]
    opened = []
    for index, one in enumerate(closed):
        before = [Var(v.type) for group in groups[:index] for v in group]
        after = [Var(v.type) for group in groups[index + 1 :] for v in group]
        inner = one.jaxpr
        invars = (*before, *inner.constvars, *after, *inner.invars)
        opened.append(ClosedJaxpr(Jaxpr((), invars, inner.eqns, inner.outvars)))
    return opened, [value for one in closed for value in one.consts]


def lift_tracers(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """The jaxpr with captured tracers as leading inputs, and those tracers; arrays stay constants.

    A function traced for an inner `jit` may capture tracers of outer transformations. They cannot stay in an
    attribute; they become operands.
    """
    inner = closed.jaxpr
    tracers = [(v, c) for v, c in zip(inner.constvars, closed.consts) if isinstance(c, core.Tracer)]
    if not tracers:
        return closed, []
    arrays = [(v, c) for v, c in zip(inner.constvars, closed.consts) if not isinstance(c, core.Tracer)]
    opened = Jaxpr(
        [v for v, _ in arrays], [*(v for v, _ in tracers), *inner.invars], inner.eqns, inner.outvars
    )
    return ClosedJaxpr(opened, [c for _, c in arrays]), [c for _, c in tracers]
