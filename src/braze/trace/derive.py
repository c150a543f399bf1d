"""Jaxprs from jaxprs: the derivative, the linear part, the transpose and the batch of a closed jaxpr.

The rules of region operations (`control.py`) are built from these.

Invariants:
- What is derived from a jaxpr is remembered with it, so that equal transformations give the same object and
  a compiled program is found again.
- Zero tangents and cotangents are neither inputs nor outputs of what is derived; flags say which those are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from braze import core
from braze.ops.table import Undefined
from braze.trace import jaxpr as ir
from braze.trace.jaxpr import ClosedJaxpr, Jaxpr
from braze.trace.jvp import jvp_flat
from braze.trace.linearize import linearize_flat
from braze.trace.staging import StagingTrace, stage
from braze.trace.transpose import backward
from braze.trace.values import Zero, instantiate, moveaxis, tangent_type, zero_of
from braze.trace.vmap import to_axis, vmap_flat
from braze.types import TensorType

Flags = tuple[bool, ...]


def remember(closed: ClosedJaxpr, key: Any, make: Callable[[], Any]) -> Any:
    found = closed.derived.get(key)
    if found is None:
        found = closed.derived.setdefault(key, make())
    return found


def _function(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    return lambda *args: ir.evaluate(closed.jaxpr, closed.consts, *args)


def nonzero_of(tangents: Sequence[Any]) -> Flags:
    return tuple(not isinstance(t, Zero) for t in tangents)


def values_of(tangents: Sequence[Any]) -> list[Any]:
    return [t for t in tangents if not isinstance(t, Zero)]


def select(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [v for v, flag in zip(values, flags) if flag]


def either(a: Sequence[bool], b: Sequence[bool]) -> Flags:
    return tuple(x or y for x, y in zip(a, b))


def fill(found: Sequence[Any], nonzero: Sequence[bool], outs: Sequence[Any]) -> list[Any]:
    """All tangents of results from those that are not zero."""
    given = iter(found)
    return [next(given) if some else zero_of(out) for some, out in zip(nonzero, outs)]


def halves(args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    count = len(args) // 2
    return list(args[:count]), list(args[count:])


def reorder(closed: ClosedJaxpr, inputs: Sequence[int], outputs: Sequence[int] | None = None) -> ClosedJaxpr:
    """The jaxpr with its inputs (and outputs) in another order, or with fewer outputs."""
    inner = closed.jaxpr
    outvars = inner.outvars if outputs is None else [inner.outvars[i] for i in outputs]
    invars = [inner.invars[i] for i in inputs]
    return ClosedJaxpr(Jaxpr(inner.constvars, invars, inner.eqns, outvars), closed.consts)


# Jaxpr to jaxpr.


def jvp_jaxpr(closed: ClosedJaxpr, nonzero: Flags, instantiated: Flags) -> tuple[ClosedJaxpr, Flags]:
    """From primals and the tangents that are not zero to results and the tangents that are not zero.

    Args:
        nonzero: which inputs have a tangent.
        instantiated: which results must have one, zeros if need be.
    Returns: the jaxpr, and which results have a tangent.
    """

    def make() -> tuple[ClosedJaxpr, Flags]:
        in_types = closed.in_avals
        flags: Flags = ()

        def f(*args: Any) -> list[Any]:
            nonlocal flags
            given = iter(args[len(in_types) :])
            tangents = [next(given) if n else Zero(tangent_type(t)) for n, t in zip(nonzero, in_types)]
            outs, found = jvp_flat(_function(closed), args[: len(in_types)], tangents)
            found = _force(found, instantiated, closed.out_avals)
            flags = nonzero_of(found)
            return [*outs, *values_of(found)]

        types = [*in_types, *select(in_types, nonzero)]
        return stage(f, types, name="the derivative"), flags

    return remember(closed, ("jvp", nonzero, instantiated), make)  # type: ignore[no-any-return]


def _force(tangents: Sequence[Any], instantiated: Flags, types: Sequence[TensorType]) -> list[Any]:
    """Tangents with zeros written out, at the exact type, where they are asked for."""
    return [
        instantiate(t) if wanted and tangent_type(type) is type else t
        for t, wanted, type in zip(tangents, instantiated, types)
    ]


@dataclass(slots=True)
class Split:
    """A jaxpr cut into what needs no tangents and what is linear in them.

    Attributes:
        known: primals -> results, then residuals that are neither inputs nor results.
        linear: residuals, then tangents -> the result tangents that are not zero.
        given: which inputs have a tangent.
        nonzero: which results have a tangent.
        residuals: where each residual is found among inputs, results and further outputs of `known`.
    """

    known: ClosedJaxpr
    linear: ClosedJaxpr
    given: Flags
    nonzero: Flags
    residuals: tuple[int, ...]


def linearize_jaxpr(closed: ClosedJaxpr, nonzero: Flags, instantiated: Flags) -> Split:
    """Split a jaxpr at a point; arguments as for `jvp_jaxpr`."""

    def make() -> Split:
        def f(*args: Any) -> list[Any]:
            outs = ir.evaluate(closed.jaxpr, closed.consts, *args)
            return outs

        trace = StagingTrace("the derivative")
        with core.activate(trace, dynamic=True):
            primals = [trace.new_input(t) for t in closed.in_avals]
            done = linearize_flat(f, primals, nonzero)
            linear, tracers = ir.lift_tracers(done.linear)
            known = trace.close([*done.outs, *tracers])
        flags = tuple(done.nonzero)
        linear, flags = _instantiate_linear(linear, flags, instantiated, closed.out_avals)
        return _forward_residuals(known, linear, nonzero, flags, len(done.outs))

    return remember(closed, ("linearize", nonzero, instantiated), make)  # type: ignore[no-any-return]


def _instantiate_linear(
    linear: ClosedJaxpr, flags: Flags, instantiated: Flags, types: Sequence[TensorType]
) -> tuple[ClosedJaxpr, Flags]:
    """The linear jaxpr with zeros written out where they are asked for."""
    wanted = tuple(i and tangent_type(t) is t for i, t in zip(instantiated, types))

    if either(flags, wanted) == flags:
        return linear, flags

    def f(*args: Any) -> list[Any]:
        given = iter(ir.evaluate(linear.jaxpr, linear.consts, *args))
        tangents = [next(given) if some else Zero(tangent_type(t)) for some, t in zip(flags, types)]
        return values_of(_force(tangents, wanted, types))

    return stage(f, linear.in_avals, name="the derivative"), either(flags, wanted)


def _forward_residuals(
    known: ClosedJaxpr, linear: ClosedJaxpr, given: Flags, nonzero: Flags, count: int
) -> Split:
    """Leave out of the known part's outputs those residuals that are its inputs or results anyway."""
    inner = ir.cse(known.jaxpr)
    outvars = list(inner.outvars[:count])
    positions: dict[Any, int] = {}
    for index, v in enumerate((*inner.invars, *outvars)):
        positions.setdefault(v, index)
    residuals = []
    for v in inner.outvars[count:]:
        if v not in positions:
            positions[v] = len(inner.invars) + len(outvars)
            outvars.append(v)
        residuals.append(positions[v])
    pruned = ir.dce(Jaxpr(inner.constvars, inner.invars, inner.eqns, outvars))
    return Split(ClosedJaxpr(pruned, known.consts), linear, given, nonzero, tuple(residuals))


def transpose_jaxpr(
    closed: ClosedJaxpr, linear: Flags, nonzero: Flags, instantiated: bool = False
) -> tuple[ClosedJaxpr, Flags]:
    """From the inputs that are not linear and the cotangents that are not zero to cotangents of linear inputs.

    Returns: the jaxpr, and which of the linear inputs have a cotangent.
    """

    def make() -> tuple[ClosedJaxpr, Flags]:
        in_types, out_types = closed.in_avals, closed.out_avals
        flags: Flags = ()
        rest = [t for t, lin in zip(in_types, linear) if not lin]

        def f(*args: Any) -> list[Any]:
            nonlocal flags
            known, given = iter(args[: len(rest)]), iter(args[len(rest) :])
            operands = [Undefined(t) if lin else next(known) for t, lin in zip(in_types, linear)]
            cts = [next(given) if n else Zero(tangent_type(t)) for n, t in zip(nonzero, out_types)]
            found = select(backward(closed.jaxpr, closed.consts, operands, cts), linear)
            if instantiated:
                found = [instantiate(ct) for ct, t in zip(found, select(in_types, linear))]
            flags = nonzero_of(found)
            return values_of(found)

        return stage(f, [*rest, *select(out_types, nonzero)], name="the transpose"), flags

    return remember(closed, ("transpose", linear, nonzero, instantiated), make)  # type: ignore[no-any-return]


def batch_jaxpr(
    closed: ClosedJaxpr, size: int, batched: Flags, instantiated: Flags
) -> tuple[ClosedJaxpr, Flags]:
    """The jaxpr on batches along axis 0 of the inputs flagged.

    Returns: the jaxpr, and which results are batches (those in `instantiated` always are).
    """

    def make() -> tuple[ClosedJaxpr, Flags]:
        flags: Flags = ()

        def f(*args: Any) -> list[Any]:
            nonlocal flags
            outs, axes = vmap_flat(_function(closed), size, args, [0 if b else None for b in batched])
            flags = tuple(a is not None or i for a, i in zip(axes, instantiated))
            return [to_axis(v, a, size, 0) if b else v for v, a, b in zip(outs, axes, flags)]

        types = [t.with_(shape=(size, *t.shape)) if b else t for t, b in zip(closed.in_avals, batched)]
        return stage(f, types, name="the batch"), flags

    return remember(closed, ("batch", size, batched, instantiated), make)  # type: ignore[no-any-return]


def move_batches(values: Sequence[Any], axes: Sequence[int | None], to: int = 0) -> tuple[list[Any], Flags]:
    """Values with their batches on one axis, and which have one."""
    moved = [v if a is None else moveaxis(v, a, to) for v, a in zip(values, axes)]
    return moved, tuple(a is not None for a in axes)


def axes_of(flags: Sequence[bool], axis: int = 0) -> list[int | None]:
    return [axis if flag else None for flag in flags]
