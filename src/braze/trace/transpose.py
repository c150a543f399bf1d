"""Transposition: from cotangents of the results of a linear jaxpr to cotangents of its linear inputs.

The equations are walked backwards; each operation's `transpose` facet gives the cotangents of its operands.
Operands that do not depend on a linear input are computed first, forwards.

Invariants:
- A cotangent that is zero is symbolic; an equation whose cotangents are all zero is not visited.
- Cotangents meet by `add`, in the order of the walk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from braze import core
from braze.core import bind, typeof
from braze.errors import DifferentiationError
from braze.ops.table import Absent, Undefined
from braze.trace.jaxpr import Atom, Equation, Jaxpr, Literal
from braze.trace.staging import stage
from braze.trace.values import Zero, add, instantiate, tangent_type, unbroadcast


def backward(
    jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Cotangents of the inputs of a jaxpr.

    Args:
        args: `Undefined` for each linear input, values for the others.
        cotangents: one per result, values or symbolic zeros.
    Returns: one per input: a value or a symbolic zero; None for the inputs that are not linear.
    """
    known: dict[Atom, Any] = dict(zip(jaxpr.constvars, consts))
    known.update((v, a) for v, a in zip(jaxpr.invars, args) if not isinstance(a, Undefined))
    linear = _evaluate_known(jaxpr, known)
    pending: dict[Atom, Any] = {}

    def give(v: Atom, ct: Any) -> None:
        if ct is None or isinstance(ct, Zero) or isinstance(v, Literal) or v in known:
            return
        pending[v] = add(pending[v], ct) if v in pending else ct

    for v, ct in zip(jaxpr.outvars, cotangents):
        give(v, ct)
    context = core.CONTEXT
    before = context.source
    try:
        for eqn in reversed(linear):
            cts = [pending.pop(v, None) for v in eqn.outputs]
            if all(ct is None for ct in cts):
                continue
            context.source = eqn.source
            given = [Zero(tangent_type(v.type)) if ct is None else ct for v, ct in zip(eqn.outputs, cts)]
            operands = [_operand(v, known) for v in eqn.inputs]
            for v, ct in zip(eqn.inputs, transpose_equation(eqn, given, operands)):
                give(v, ct)
    finally:
        context.source = before
    return [None if v in known else pending.get(v, Zero(tangent_type(v.type))) for v in jaxpr.invars]


def _evaluate_known(jaxpr: Jaxpr, known: dict[Atom, Any]) -> list[Equation]:
    """Compute what does not depend on a linear input; returns the equations that do."""
    linear = []
    for eqn in jaxpr.eqns:
        if not all(isinstance(v, Literal) or v in known for v in eqn.inputs):
            linear.append(eqn)
            continue
        results = bind(eqn.op, *[_operand(v, known) for v in eqn.inputs], **eqn.attrs)
        known.update(zip(eqn.outputs, results if eqn.op.multiple_results else [results]))
    return linear


def _operand(v: Atom, known: dict[Atom, Any]) -> Any:
    if isinstance(v, Literal):
        return v.value
    return known[v] if v in known else Undefined(v.type)


def transpose_equation(eqn: Equation, cotangents: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Cotangents of the operands of one linear equation, by its operation's `transpose` facet."""
    op = eqn.op
    if isinstance(op.transpose, Absent):
        raise DifferentiationError(
            f"{op.title}: it cannot be differentiated in reverse: {op.transpose.reason.rstrip('.')}.",
            source=eqn.source,
        )
    try:
        if op.jaxprs:
            from braze.trace import control

            found = op.transpose(cotangents, *operands, transform=control, **eqn.attrs)
        elif op.multiple_results:
            found = op.transpose([instantiate(ct) for ct in cotangents], *operands, **eqn.attrs)
        else:
            found = op.transpose(instantiate(cotangents[0]), *operands, **eqn.attrs)
    except DifferentiationError as error:
        # The line of the operation, not of the call of grad.
        error.source = eqn.source or error.source
        raise
    cts = list(found) if isinstance(found, tuple | list) else [found]
    if op.broadcasts:
        for index, (ct, operand) in enumerate(zip(cts, operands)):
            if ct is not None and not isinstance(ct, Zero) and isinstance(operand, Undefined):
                cts[index] = unbroadcast(ct, operand.type.shape)
    return cts


def linear_transpose(f: Callable[..., Any], *primals: Any) -> Callable[[Any], Any]:
    """The transpose of a function that is linear.

        ⟨linear_transpose(f, x)(ct), t⟩ = ⟨ct, f(t)⟩

    Args:
        primals: give shapes and dtypes of the arguments; their values are not used.
    Returns: a function from a cotangent of the result to the tuple of those of the arguments.
    """
    from braze import tree
    from braze.trace.calling import Flat

    flat, in_tree = tree.flatten(primals)
    types = [typeof(p) for p in flat]
    flat_f = Flat(f, in_tree, what="linear_transpose")
    closed = stage(flat_f, types, name=flat_f.name)

    def transposed(cotangent: Any) -> Any:
        cts = flat_f.out_tree.flatten_up_to(cotangent)
        found = backward(closed.jaxpr, closed.consts, [Undefined(t) for t in types], cts)
        return in_tree.unflatten([instantiate(ct) for ct in found])

    return transposed
