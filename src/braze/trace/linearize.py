"""Linearisation: the results now, and the derivative as a jaxpr that is linear in the tangents.

Two traces are stacked. `LinearizeTrace` (level n) runs the `jvp` rules; the tangents that they work on are
tracers of a staging trace at level n + 1. An operation on primals alone therefore runs at the lower level,
at once or staged outside, and an operation on a tangent is written down. What the tangent jaxpr needs of the
primals, the residuals, are its constants.

Region operations are split by their `partial` facet: one application of the known part, which also gives
residuals, and one of the linear part. A function compiled by `jit` so stays two calls.

Invariant: every equation of the tangent jaxpr depends on a tangent.

Source: Radul et al. 2022, "You only linearize once".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from braze import core, tree
from braze.core import typeof
from braze.ops.table import DEFAULT, Op
from braze.trace import jaxpr as ir
from braze.trace.calling import Flat
from braze.trace.jaxpr import ClosedJaxpr, Jaxpr
from braze.trace.jvp import JVPTrace, check_tangent, jvp_rule
from braze.trace.staging import StagingTrace
from braze.trace.values import Zero, instantiate, tangent_type


class LinearizeTrace(JVPTrace):
    """Runs each operation on primals and stages it on tangents."""

    __slots__ = ()

    def rule(
        self, op: Op, primals: list[Any], tangents: list[Any], attrs: dict[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        if op.partial is DEFAULT or all(isinstance(t, Zero) for t in tangents):
            return jvp_rule(op, primals, tangents, attrs)
        from braze.trace import control

        outs, out_tangents = op.partial(*tangents, *primals, transform=control, **attrs)
        return list(outs), list(out_tangents)


@dataclass(slots=True)
class Linearized:
    """A function at a point.

    Attributes:
        outs: the results.
        linear: from the tangents that are not zero to the result tangents that are not; its constants are
            the residuals: arrays and tracers of outer transformations.
        nonzero: which results have a tangent.
        zeros: the symbolic tangents of the others, by position.
    """

    outs: list[Any]
    linear: ClosedJaxpr
    nonzero: list[bool]
    zeros: list[Any]

    def results(self, tangents: Sequence[Any]) -> list[Any]:
        """All result tangents from those of `linear`."""
        given = iter(tangents)
        return [next(given) if some else zero for some, zero in zip(self.nonzero, self.zeros)]


def linearize_flat(
    f: Callable[..., Sequence[Any]], primals: Sequence[Any], nonzero: Sequence[bool]
) -> Linearized:
    """Linearise a function of flat arguments in those arguments that have a tangent."""
    trace, staging = LinearizeTrace(), StagingTrace("the derivative")
    with core.activate(trace), core.activate(staging):
        args = []
        for primal, some in zip(primals, nonzero):
            type = tangent_type(typeof(primal))
            args.append(trace.lift(primal, staging.new_input(type) if some else Zero(type)))
        outs, tangents = trace.split(f(*args))
        flags = [not isinstance(t, Zero) for t in tangents]
        linear = staging.close([t for t in tangents if not isinstance(t, Zero)])
    return Linearized(outs, _without_dead(linear), flags, tangents)


def _without_dead(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr without equations and constants that no result needs, so that no residual is kept for them."""
    jaxpr = ir.dce(closed.jaxpr)
    used = {v for eqn in jaxpr.eqns for v in eqn.inputs} | set(jaxpr.outvars)
    kept = [(v, c) for v, c in zip(jaxpr.constvars, closed.consts) if v in used]
    return ClosedJaxpr(
        Jaxpr([v for v, _ in kept], jaxpr.invars, jaxpr.eqns, jaxpr.outvars), [c for _, c in kept]
    )


def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Evaluate a function and give its derivative at that point as a function of tangents.

        linearize(f, x)  ->  f(x), t ↦ ∂f(x) · t

    The work on primals is done once; each call of the derivative does only the linear part.
    Raises: ArgumentError, ShapeError, DTypeError from the derivative where tangents do not fit.
    """
    with core.user_line():
        flat, in_tree = tree.flatten(primals)
        flat_f = Flat(f, in_tree, has_aux=has_aux, what="linearize")
        nonzero = [has_tangent(p) for p in flat]
        done = linearize_flat(flat_f, flat, nonzero)

    def derivative(*tangents: Any) -> Any:
        with core.user_line():
            given = in_tree.flatten_up_to(tangents)
            checked = [check_tangent(p, t, "linearize") for p, t in zip(flat, given)]
            wanted = [instantiate(t) for t, some in zip(checked, nonzero) if some]
            found = done.results(ir.evaluate(done.linear.jaxpr, done.linear.consts, *wanted))
            return flat_f.result([instantiate(t) for t in found])

    result = flat_f.result(done.outs), derivative
    return (*result, flat_f.auxiliary(done.outs)) if has_aux else result


def has_tangent(value: Any) -> bool:
    """Whether values like this one can be differentiated."""
    type = typeof(value)
    return tangent_type(type) is type
