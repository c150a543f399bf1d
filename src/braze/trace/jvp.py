"""Forward-mode differentiation: each value carries its tangent.

`jvp_rule` reads the `jvp` facet of an operation; `linearize` shares it.

Invariants:
- A zero tangent is symbolic (`Zero`); a tracer exists only for a tangent that is not zero.
- A tangent has the shape and dtype of its primal; integers and booleans have none.

Source: Radul et al. 2022, "You only linearize once"; JAX's autodidax for symbolic zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import core, dtypes, tree
from braze.core import bind, typeof
from braze.errors import ArgumentError, DifferentiationError, DTypeError, ShapeError
from braze.ops.table import LINEAR, ZERO, Absent, Op
from braze.trace.calling import Flat
from braze.trace.values import Zero, add, broadcast_to, instantiate, tangent_type, zero_of
from braze.types import TensorType


class JVPTracer(core.Tracer):
    """A primal, which is a value of a lower level, with its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: core.Trace, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.primal = primal
        self.tangent = tangent

    @property
    def aval(self) -> TensorType:
        return typeof(self.primal)

    @property
    def concrete(self) -> Any:
        return self.primal.concrete if isinstance(self.primal, core.Tracer) else self.primal

    def origin(self) -> str:
        return self.primal.origin() if isinstance(self.primal, core.Tracer) else super().origin()

    def __repr__(self) -> str:
        return f"Tracer<{self.aval} with a tangent>"


class JVPTrace(core.Trace):
    """Runs each operation on primals and tangents at once."""

    __slots__ = ()

    def process(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
        primals, tangents = self.split(args)
        outs, out_tangents = self.rule(op, primals, tangents, attrs)
        return [p if isinstance(t, Zero) else JVPTracer(self, p, t) for p, t in zip(outs, out_tangents)]

    def rule(
        self, op: Op, primals: list[Any], tangents: list[Any], attrs: dict[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        return jvp_rule(op, primals, tangents, attrs)

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Primals and tangents of operands or results."""
        primals: list[Any] = []
        tangents: list[Any] = []
        for arg in args:
            if isinstance(arg, JVPTracer) and arg._trace is self:
                primals.append(arg.primal)
                tangents.append(arg.tangent)
            else:
                primals.append(arg)
                tangents.append(zero_of(arg))
        return primals, tangents

    def lift(self, primal: Any, tangent: Any) -> Any:
        return primal if isinstance(tangent, Zero) else JVPTracer(self, primal, tangent)


def apply(op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
    """Bind an operation; always a list of results."""
    results = bind(op, *args, **attrs)
    return list(results) if op.multiple_results else [results]


def jvp_rule(
    op: Op, primals: Sequence[Any], tangents: Sequence[Any], attrs: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Results and their tangents by the operation's `jvp` facet; tangents may be symbolic zeros."""
    if op.jaxprs and not isinstance(op.jvp, Absent | type(ZERO)):
        from braze.trace import control

        outs, out_tangents = op.jvp(*tangents, *primals, transform=control, **attrs)
        return list(outs), list(out_tangents)
    outs = apply(op, primals, attrs)
    types = [tangent_type(typeof(out)) for out in outs]
    if all(isinstance(t, Zero) for t in tangents) or all(t.dtype == dtypes.FLOAT0 for t in types):
        return outs, [Zero(t) for t in types]
    found = _tangents(op, primals, tangents, attrs)
    if found is None:
        return outs, [Zero(t) for t in types]
    for index, (tangent, wanted) in enumerate(zip(found, types)):
        if wanted.dtype == dtypes.FLOAT0:
            found[index] = Zero(wanted)
        elif not isinstance(tangent, Zero) and typeof(tangent).shape != wanted.shape:
            found[index] = broadcast_to(tangent, wanted.shape)
    return outs, found


def _tangents(
    op: Op, primals: Sequence[Any], tangents: Sequence[Any], attrs: dict[str, Any]
) -> list[Any] | None:
    """Tangents of the results by the rule; None for zeros."""
    rule = op.jvp
    if isinstance(rule, Absent):
        raise DifferentiationError(f"{op.title}: it has no derivative: {rule.reason.rstrip('.')}.")
    if rule is ZERO:
        return None
    if rule is LINEAR:
        return apply(op, [instantiate(t) for t in tangents], attrs)
    if not isinstance(rule, tuple):
        # An operand that is no float has no tangent; its rule does not read it.
        full = [
            t if isinstance(t, Zero) and t.type.dtype == dtypes.FLOAT0 else instantiate(t) for t in tangents
        ]
        found = rule(*full, *primals, **attrs)
        return list(found) if op.multiple_results else [found]
    total: Any = None
    for part, tangent in zip(rule, tangents):
        if isinstance(tangent, Zero) or part is ZERO:
            continue
        if isinstance(part, Absent):
            raise DifferentiationError(f"{op.title}: it has no derivative: {part.reason.rstrip('.')}.")
        term = part(tangent, *primals, **attrs)
        total = term if total is None else add(total, term)
    return None if total is None else [total]


def jvp_flat(
    f: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Results and tangents of a function of flat arguments; tangents may be symbolic zeros."""
    trace = JVPTrace()
    with core.activate(trace):
        results = f(*[trace.lift(p, t) for p, t in zip(primals, tangents)])
        return trace.split(results)


def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """Evaluate a function and its derivative along a direction.

        jvp(f, (x,), (t,))  ->  f(x), ∂f(x) · t

    Args:
        primals, tangents: tuples of equal structure; the tangent of an integer is float0 or omitted by zeros.
        has_aux: `f` returns (result, other); the third result is then the other.
    Raises: ArgumentError, ShapeError, DTypeError where primals and tangents do not fit.

    >>> jvp(lambda x: x * x, (3.0,), (1.0,))  # doctest: +SKIP
    (Array(9., dtype=float32), Array(6., dtype=float32))
    """
    with core.user_line():
        if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
            raise ArgumentError(
                "jvp: primals and tangents must be tuples or lists of arguments; "
                f"{type(primals).__name__} and {type(tangents).__name__} were given."
            )
        flat, in_tree = tree.flatten(tuple(primals))
        flat_tangents = in_tree.flatten_up_to(tuple(tangents))
        checked = [check_tangent(p, t, "jvp") for p, t in zip(flat, flat_tangents)]
        flat_f = Flat(f, in_tree, has_aux=has_aux, what="jvp")
        outs, out_tangents = jvp_flat(flat_f, flat, checked)
        result = flat_f.result(outs), flat_f.result([instantiate(t) for t in out_tangents])
        return (*result, flat_f.auxiliary(outs)) if has_aux else result


def check_tangent(primal: Any, tangent: Any, what: str) -> Any:
    """A tangent for a primal, symbolic where it is float0.

    Raises: ShapeError, DTypeError.
    """
    wanted = tangent_type(typeof(primal))
    if isinstance(tangent, Zero):
        return tangent
    if isinstance(tangent, np.ndarray | np.generic) and tangent.dtype == dtypes.FLOAT0:
        given = TensorType(tangent.shape, dtypes.FLOAT0)
    else:
        given = typeof(tangent)
    if given.dtype != wanted.dtype:
        raise DTypeError(
            f"{what}: the tangent of a value of type {typeof(primal)} has dtype "
            f"{dtypes.short(wanted.dtype)}, {dtypes.short(given.dtype)} was given.",
        )
    if given.shape != wanted.shape:
        raise ShapeError(
            f"{what}: the tangent of a value of type {typeof(primal)} has shape {wanted.shape}, "
            f"{given.shape} was given."
        )
    return Zero(wanted) if wanted.dtype == dtypes.FLOAT0 else tangent
