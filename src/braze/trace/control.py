"""Rules of the operations that hold jaxprs: differentiate, vectorise and transpose calls, branches and loops.

A rule transforms the jaxprs in the attributes (`derive.py`) and binds the same operation again, so that a loop
stays a loop and a call stays a call. The facets in `ops/control.py` receive this module as `transform`.

| rule        | receives | gives |
|-------------|----------|-------|
| `…_jvp`       | tangents (symbolic zeros among them), then primals | (results, their tangents) |
| `…_partial`   | the same; tangents are staged by `linearize` | the same |
| `…_transpose` | cotangents (symbolic zeros among them), then operands, `Undefined` where linear | cotangents |
| `…_batch`     | size, values, axes | (values, axes) |

Invariants:
- Attributes never hold tracers; residuals and captured values are operands.
- Loop-invariant residuals of a scan are computed once, outside it, and not stacked.

Source: the rules of JAX's `lax.control_flow`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from braze.core import bind, typeof
from braze.errors import DifferentiationError, UnsupportedError
from braze.ops import control, elementwise, reduce, shape, windows
from braze.ops.table import Undefined
from braze.trace import jaxpr as ir
from braze.trace import reducing
from braze.trace.derive import (
    Flags,
    Split,
    axes_of,
    batch_jaxpr,
    either,
    fill,
    halves,
    jvp_jaxpr,
    linearize_jaxpr,
    move_batches,
    nonzero_of,
    remember,
    reorder,
    select,
    transpose_jaxpr,
    values_of,
)
from braze.trace.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var
from braze.trace.jvp import jvp_flat
from braze.trace.linearize import has_tangent
from braze.trace.staging import stage
from braze.trace.transpose import backward
from braze.trace.values import Zero, add, full, instantiate, repeat, tangent_type, zero_of
from braze.trace.vmap import vmap_flat
from braze.types import TensorType

# jit.


def _jit(closed: ClosedJaxpr, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
    # Operands differ from the user's, so that what he said of his is no longer true of them.
    said = {"donated_invars": (False,) * len(args), "keep_unused": False}
    return list(bind(control.jit, *args, **{**attrs, **said, "jaxpr": closed}))


def jit_jvp(*args: Any, jaxpr: ClosedJaxpr, **attrs: Any) -> tuple[list[Any], list[Any]]:
    tangents, primals = halves(args)
    derived, nonzero = jvp_jaxpr(jaxpr, nonzero_of(tangents), (False,) * len(jaxpr.out_avals))
    found = _jit(derived, [*primals, *values_of(tangents)], attrs)
    outs = found[: len(nonzero)]
    return outs, fill(found[len(nonzero) :], nonzero, outs)


def jit_partial(*args: Any, jaxpr: ClosedJaxpr, **attrs: Any) -> tuple[list[Any], list[Any]]:
    tangents, primals = halves(args)
    split = linearize_jaxpr(jaxpr, nonzero_of(tangents), (False,) * len(jaxpr.out_avals))
    found = _jit(split.known, primals, attrs)
    outs = found[: len(split.nonzero)]
    if not any(split.nonzero):
        return outs, [zero_of(out) for out in outs]
    pool = [*primals, *found]
    linear = _jit(split.linear, [*(pool[i] for i in split.residuals), *values_of(tangents)], attrs)
    return outs, fill(linear, split.nonzero, outs)


def jit_transpose(cts: Sequence[Any], *operands: Any, jaxpr: ClosedJaxpr, **attrs: Any) -> list[Any]:
    linear = tuple(isinstance(x, Undefined) for x in operands)
    derived, nonzero = transpose_jaxpr(jaxpr, linear, nonzero_of(cts))
    rest = [x for x in operands if not isinstance(x, Undefined)]
    return _spread(_jit(derived, [*rest, *values_of(cts)], attrs), nonzero, operands)


def _spread(found: Sequence[Any], nonzero: Sequence[bool], operands: Sequence[Any]) -> list[Any]:
    """Cotangents of all operands from those that are not zero, of those that are linear."""
    given, flags = iter(found), iter(nonzero)
    cts: list[Any] = []
    for x in operands:
        if not isinstance(x, Undefined):
            cts.append(None)
        else:
            cts.append(next(given) if next(flags) else Zero(tangent_type(x.type)))
    return cts


def jit_batch(
    size: int, args: Sequence[Any], axes: Sequence[int | None], *, jaxpr: ClosedJaxpr, **attrs: Any
) -> tuple[list[Any], list[int | None]]:
    moved, batched = move_batches(args, axes)
    derived, flags = batch_jaxpr(jaxpr, size, batched, (False,) * len(jaxpr.out_avals))
    return _jit(derived, moved, attrs), axes_of(flags)


# cond.


def _cond(
    index: Any, branches: Sequence[ClosedJaxpr], operands: Sequence[Any], attrs: dict[str, Any]
) -> list[Any]:
    return list(bind(control.cond, index, *operands, branches=tuple(branches), **attrs))


def _union(flags: Sequence[Flags]) -> Flags:
    return tuple(any(column) for column in zip(*flags))


def cond_jvp(*args: Any, branches: tuple[ClosedJaxpr, ...], **attrs: Any) -> tuple[list[Any], list[Any]]:
    (_, *tangents), (index, *primals) = halves(args)
    given = nonzero_of(tangents)
    none = (False,) * len(branches[0].out_avals)
    nonzero = _union([jvp_jaxpr(branch, given, none)[1] for branch in branches])
    derived = [jvp_jaxpr(branch, given, nonzero)[0] for branch in branches]
    found = _cond(index, derived, [*primals, *values_of(tangents)], attrs)
    outs = found[: len(nonzero)]
    return outs, fill(found[len(nonzero) :], nonzero, outs)


def cond_partial(*args: Any, branches: tuple[ClosedJaxpr, ...], **attrs: Any) -> tuple[list[Any], list[Any]]:
    (_, *tangents), (index, *primals) = halves(args)
    given = nonzero_of(tangents)
    none = (False,) * len(branches[0].out_avals)
    nonzero = _union([linearize_jaxpr(branch, given, none).nonzero for branch in branches])
    splits = [linearize_jaxpr(branch, given, nonzero) for branch in branches]
    known, linear, taken = _common_residuals(branches, splits, given, nonzero)
    found = _cond(index, known, primals, attrs)
    outs = found[: len(nonzero)]
    if not any(nonzero):
        return outs, [zero_of(out) for out in outs]
    pool = [*primals, *found]
    staged = _cond(index, linear, [*(pool[i] for i in taken), *values_of(tangents)], attrs)
    return outs, fill(staged, nonzero, outs)


def _common_residuals(
    branches: tuple[ClosedJaxpr, ...], splits: Sequence[Split], given: Flags, nonzero: Flags
) -> tuple[list[ClosedJaxpr], list[ClosedJaxpr], list[int]]:
    """Known and linear parts of all branches with one list of residuals.

    Residuals of equal type share a place: only one branch runs. Its place is filled with zeros by the others.
    Returns: known parts, linear parts, and where the linear parts' residuals are found among inputs, results
        and further outputs of the known parts.
    """

    def make() -> tuple[list[ClosedJaxpr], list[ClosedJaxpr], list[int]]:
        base = len(branches[0].in_avals) + len(nonzero)
        slots: list[TensorType] = []
        places: list[dict[int, int]] = []
        for split in splits:
            free = list(range(len(slots)))
            place: dict[int, int] = {}
            for offset, v in enumerate(split.known.out_avals[len(nonzero) :]):
                match = next((i for i in free if slots[i] is v), None)
                if match is None:
                    slots.append(v)
                    match = len(slots) - 1
                else:
                    free.remove(match)
                place[base + offset] = base + match
            places.append(place)
        shared = sorted({i for split in splits for i in split.residuals if i < base})
        taken = [*shared, *range(base, base + len(slots))]
        known = [_fill_slots(s.known, len(nonzero), p, base, slots) for s, p in zip(splits, places)]
        types = [*branches[0].in_avals, *branches[0].out_avals, *slots]
        in_types = [types[i] for i in taken] + [t for t, some in zip(branches[0].in_avals, given) if some]
        linear = [_take_residuals(s, p, taken, in_types) for s, p in zip(splits, places)]
        return known, linear, taken

    return remember(branches[0], ("residuals", branches[1:], given, nonzero), make)  # type: ignore[no-any-return]


def _fill_slots(
    known: ClosedJaxpr, count: int, place: dict[int, int], base: int, slots: Sequence[TensorType]
) -> ClosedJaxpr:
    def f(*args: Any) -> list[Any]:
        found = ir.evaluate(known.jaxpr, known.consts, *args)
        filled: list[Any] = [None] * len(slots)
        for offset, value in enumerate(found[count:]):
            filled[place[base + offset] - base] = value
        return found[:count] + [full(t, 0) if v is None else v for v, t in zip(filled, slots)]

    return stage(f, known.in_avals, name="the derivative")


def _take_residuals(
    split: Split, place: dict[int, int], taken: Sequence[int], in_types: Sequence[TensorType]
) -> ClosedJaxpr:
    def f(*args: Any) -> list[Any]:
        pool = dict(zip(taken, args))
        residuals = [pool[place.get(i, i)] for i in split.residuals]
        return ir.evaluate(split.linear.jaxpr, split.linear.consts, *residuals, *args[len(taken) :])

    return stage(f, in_types, name="the derivative")


def cond_transpose(
    cts: Sequence[Any], index: Any, *operands: Any, branches: tuple[ClosedJaxpr, ...], **attrs: Any
) -> list[Any]:
    linear = tuple(isinstance(x, Undefined) for x in operands)
    given = nonzero_of(cts)
    derived = [transpose_jaxpr(branch, linear, given, True)[0] for branch in branches]
    rest = [x for x in operands if not isinstance(x, Undefined)]
    found = _cond(index, derived, [*rest, *values_of(cts)], attrs)
    return [None, *_spread(found, [True] * sum(linear), operands)]


def cond_batch(
    size: int,
    args: Sequence[Any],
    axes: Sequence[int | None],
    *,
    branches: tuple[ClosedJaxpr, ...],
    **attrs: Any,
) -> tuple[list[Any], list[int | None]]:
    """A common index stays a branch; an index for each example runs all branches and selects."""
    moved, (chosen, *batched) = move_batches(args, axes)
    index, *operands = moved
    none = (False,) * len(branches[0].out_avals)
    if not chosen:
        flags = _union([batch_jaxpr(branch, size, tuple(batched), none)[1] for branch in branches])
        derived = [batch_jaxpr(branch, size, tuple(batched), flags)[0] for branch in branches]
        return _cond(index, derived, operands, attrs), axes_of(flags)
    if any(branch.effects for branch in branches):
        raise UnsupportedError(
            "cond: under vmap an index that differs between examples runs all branches, "
            "and a branch has an effect.",
            hint="move the callback out of the branch, or vectorise by a scan.",
        )
    every = (True,) * len(branches[0].out_avals)
    results = []
    for branch in branches:
        derived_branch = batch_jaxpr(branch, size, tuple(batched), every)[0]
        results.append(ir.evaluate(derived_branch.jaxpr, derived_branch.consts, *operands))
    return [_pick(index, column) for column in zip(*results)], axes_of(every)


def _pick(index: Any, cases: Sequence[Any]) -> Any:
    """For each example the case that its index names."""
    if len(cases) == 1:
        return cases[0]
    which, type = index, typeof(cases[0])
    if len(cases) == 2:
        which = bind(elementwise.ne, index, full(typeof(index), 0))
    return bind(elementwise.select_n, _over(which, type), *cases)


def _over(flags: Any, type: TensorType) -> Any:
    """One flag per example, repeated over the other axes of a batch."""
    if typeof(flags).shape == type.shape:
        return flags
    return bind(shape.broadcast_in_dim, flags, shape=type.shape, broadcast_dimensions=(0,))


# while.


@dataclass(slots=True)
class _While:
    """The operands and attributes of a while in their parts."""

    cond: ClosedJaxpr
    body: ClosedJaxpr
    cond_consts: list[Any]
    body_consts: list[Any]
    carry: list[Any]

    @staticmethod
    def of(
        operands: Sequence[Any], cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, nc: int, nb: int
    ) -> _While:
        values = list(operands)
        return _While(cond_jaxpr, body_jaxpr, values[:nc], values[nc : nc + nb], values[nc + nb :])

    def bind(self) -> list[Any]:
        return list(
            bind(
                control.while_,
                *self.cond_consts,
                *self.body_consts,
                *self.carry,
                cond_jaxpr=self.cond,
                body_jaxpr=self.body,
                cond_nconsts=len(self.cond_consts),
                body_nconsts=len(self.body_consts),
            )
        )


def while_jvp(
    *args: Any, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, cond_nconsts: int, body_nconsts: int
) -> tuple[list[Any], list[Any]]:
    tangents, primals = halves(args)
    loop = _While.of(primals, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts)
    along = _While.of(tangents, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts)
    constant, flags = nonzero_of(along.body_consts), nonzero_of(along.carry)
    while True:
        derived, found = jvp_jaxpr(body_jaxpr, constant + flags, flags)
        if found == flags:
            break
        flags = either(flags, found)
    types = body_jaxpr.out_avals
    nb, nc, moving = len(constant), len(types), sum(constant)
    first = nb + nc
    order = [*range(nb), *range(first, first + moving), *range(nb, first)]
    order += range(first + moving, len(derived.in_avals))
    carried = [instantiate(t) for t in select(along.carry, flags)]
    found_outs = _While(
        _ignore_inputs(cond_jaxpr, select(types, flags)),
        reorder(derived, order),
        loop.cond_consts,
        [*loop.body_consts, *values_of(along.body_consts)],
        [*loop.carry, *carried],
    ).bind()
    outs = found_outs[:nc]
    return outs, fill(found_outs[nc:], flags, outs)


def _ignore_inputs(closed: ClosedJaxpr, types: Sequence[TensorType]) -> ClosedJaxpr:
    """The jaxpr with further inputs at the end, which it does not use."""

    def make() -> ClosedJaxpr:
        inner = closed.jaxpr
        invars = (*inner.invars, *(Var(t) for t in types))
        return ClosedJaxpr(Jaxpr(inner.constvars, invars, inner.eqns, inner.outvars), closed.consts)

    return remember(closed, ("ignore", tuple(types)), make)  # type: ignore[no-any-return]


def while_partial(*args: Any, **attrs: Any) -> tuple[list[Any], list[Any]]:
    """The loop on primals; the tangents come from the loop on both, which repeats the work on primals."""
    tangents, primals = halves(args)
    outs = list(bind(control.while_, *primals, **attrs))
    return outs, while_jvp(*tangents, *primals, **attrs)[1]


def while_transpose(cts: Sequence[Any], *operands: Any, **attrs: Any) -> list[Any]:
    raise DifferentiationError(
        "while: a loop whose number of steps is not known in advance cannot be differentiated in reverse.",
        hint="use lax.scan, or lax.fori_loop with Python ints for bounds; forward mode (jvp, jacfwd) works.",
    )


def while_batch(
    size: int,
    args: Sequence[Any],
    axes: Sequence[int | None],
    *,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
) -> tuple[list[Any], list[int | None]]:
    """Where the predicate differs between examples, the loop runs until all are done and those keep their state."""
    moved, batched = move_batches(args, axes)
    loop = _While.of(moved, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts)
    first, second = cond_nconsts, cond_nconsts + body_nconsts
    cond_flags, body_flags, flags = batched[:first], batched[first:second], batched[second:]
    while True:
        cond, (differs,) = batch_jaxpr(cond_jaxpr, size, cond_flags + flags, (False,))
        if differs:
            flags = (True,) * len(flags)
            cond = batch_jaxpr(cond_jaxpr, size, cond_flags + flags, (True,))[0]
        body, found = batch_jaxpr(body_jaxpr, size, body_flags + flags, flags)
        if found == flags:
            break
        flags = either(flags, found)
    carry = [
        v if had or not now else repeat(v, size) for v, had, now in zip(loop.carry, batched[second:], flags)
    ]
    if not differs:
        return _While(cond, body, loop.cond_consts, loop.body_consts, carry).bind(), axes_of(flags)
    any_cond, masked = _masked_loop(cond, body, cond_nconsts, body_nconsts)
    consts = [*loop.cond_consts, *loop.body_consts]
    return _While(any_cond, masked, loop.cond_consts, consts, carry).bind(), axes_of(flags)


def _masked_loop(cond: ClosedJaxpr, body: ClosedJaxpr, nc: int, nb: int) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Whether any example goes on, and one step of those that do."""

    def make() -> tuple[ClosedJaxpr, ClosedJaxpr]:
        def goes_on(*args: Any) -> list[Any]:
            return [bind(reduce.reduce_or, ir.evaluate(cond.jaxpr, cond.consts, *args)[0], axes=(0,))]

        def step(*args: Any) -> list[Any]:
            cond_consts, body_consts, old = args[:nc], args[nc : nc + nb], args[nc + nb :]
            active = ir.evaluate(cond.jaxpr, cond.consts, *cond_consts, *old)[0]
            new = ir.evaluate(body.jaxpr, body.consts, *body_consts, *old)
            return [bind(elementwise.select_n, _over(active, typeof(n)), o, n) for o, n in zip(old, new)]

        types = [*cond.in_avals[:nc], *body.in_avals]
        return stage(goes_on, cond.in_avals, name="the batch"), stage(step, types, name="the batch")

    return remember(body, ("masked", cond, nc, nb), make)  # type: ignore[no-any-return]


# scan.


def _scan(
    closed: ClosedJaxpr, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any], attrs: dict[str, Any]
) -> list[Any]:
    return list(
        bind(
            control.scan,
            *consts,
            *carry,
            *xs,
            jaxpr=closed,
            num_consts=len(consts),
            num_carry=len(carry),
            **attrs,
        )
    )


def _parts(values: Sequence[Any], consts: int, carry: int) -> tuple[list[Any], list[Any], list[Any]]:
    everything = list(values)
    return everything[:consts], everything[consts : consts + carry], everything[consts + carry :]


def scan_jvp(
    *args: Any, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, **attrs: Any
) -> tuple[list[Any], list[Any]]:
    tangents, primals = halves(args)
    consts, carry, xs = _parts(primals, num_consts, num_carry)
    t_consts, t_carry, t_xs = _parts(tangents, num_consts, num_carry)
    flags, ys = nonzero_of(t_carry), (False,) * (len(jaxpr.out_avals) - num_carry)
    while True:
        nonzero = nonzero_of(t_consts) + flags + nonzero_of(t_xs)
        derived, found = jvp_jaxpr(jaxpr, nonzero, flags + ys)
        if found[:num_carry] == flags:
            break
        flags = either(flags, found[:num_carry])
    derived = _interleave(derived, nonzero, found, num_consts, num_carry)
    carried = [instantiate(t) for t in select(t_carry, flags)]
    results = _scan(
        derived, [*consts, *values_of(t_consts)], [*carry, *carried], [*xs, *values_of(t_xs)], attrs
    )
    moving = sum(flags)
    count, split = len(jaxpr.out_avals), num_carry + moving
    outs = results[:num_carry] + results[split : split + count - num_carry]
    return outs, fill(results[num_carry:split] + results[split + count - num_carry :], found, outs)


def _interleave(
    closed: ClosedJaxpr, nonzero: Flags, found: Flags, num_consts: int, num_carry: int
) -> ClosedJaxpr:
    """Bring (consts, carry, xs, tangents of each) to (consts and tangents, carry and tangents, …); results alike."""

    def make() -> ClosedJaxpr:
        count, outputs = len(nonzero), len(found)
        places = iter(range(count, len(closed.in_avals)))
        tangents = [next(places) if some else None for some in nonzero]
        inputs: list[int] = []
        for start, stop in (
            (0, num_consts),
            (num_consts, num_consts + num_carry),
            (num_consts + num_carry, count),
        ):
            inputs += range(start, stop)
            inputs += [i for i in tangents[start:stop] if i is not None]
        moving = sum(found[:num_carry])
        order = [*range(num_carry), *range(outputs, outputs + moving), *range(num_carry, outputs)]
        order += range(outputs + moving, len(closed.out_avals))
        return reorder(closed, inputs, order)

    return remember(closed, ("interleave", num_consts, num_carry), make)  # type: ignore[no-any-return]


def scan_partial(
    *args: Any, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, **attrs: Any
) -> tuple[list[Any], list[Any]]:
    tangents, primals = halves(args)
    consts, carry, xs = _parts(primals, num_consts, num_carry)
    t_consts, t_carry, t_xs = _parts(tangents, num_consts, num_carry)
    flags, ys = nonzero_of(t_carry), (False,) * (len(jaxpr.out_avals) - num_carry)
    while True:
        nonzero = nonzero_of(t_consts) + flags + nonzero_of(t_xs)
        split = linearize_jaxpr(jaxpr, nonzero, flags + ys)
        if split.nonzero[:num_carry] == flags:
            break
        flags = either(flags, split.nonzero[:num_carry])
    plan = _plan_scan(jaxpr, split, num_consts, num_carry)
    found = _scan(plan.known, consts, carry, xs, attrs)
    count = len(jaxpr.out_avals)
    outs = found[:count]
    if not any(split.nonzero):
        return outs, [zero_of(out) for out in outs]
    invariant = ir.evaluate(plan.hoisted.jaxpr, plan.hoisted.consts, *consts)
    stacked = [xs[i] if i < len(xs) else found[num_carry + i - len(xs)] for i in plan.stacked]
    carried = [instantiate(t) for t in select(t_carry, flags)]
    staged = _scan(
        plan.linear, [*invariant, *values_of(t_consts)], carried, [*stacked, *values_of(t_xs)], attrs
    )
    return outs, fill(staged, split.nonzero, outs)


@dataclass(slots=True)
class _ScanPlan:
    """How a scan is cut into its known and its linear part.

    Attributes:
        known: the body on primals; further outputs are residuals, stacked over the steps.
        hoisted: from the constants to the residuals that are the same in every step.
        linear: (hoisted residuals, tangents of consts, tangents of the state, stacked residuals, tangents of xs).
        stacked: where each stacked residual is found among xs and the stacked outputs of `known`.
    """

    known: ClosedJaxpr
    hoisted: ClosedJaxpr
    linear: ClosedJaxpr
    stacked: list[int]


def _plan_scan(jaxpr: ClosedJaxpr, split: Split, num_consts: int, num_carry: int) -> _ScanPlan:
    def make() -> _ScanPlan:
        inner = split.known.jaxpr
        pool = (*inner.invars, *inner.outvars)
        fixed = _invariant(inner, num_consts)
        count, inputs = len(jaxpr.out_avals), len(inner.invars)
        num_xs = inputs - num_consts - num_carry
        hoisted: list[Any] = []
        stacked: list[int] = []
        further: list[Any] = []
        order_fixed: list[int] = []
        order_stacked: list[int] = []
        for index, place in enumerate(split.residuals):
            v = pool[place]
            if isinstance(v, Literal) or v in fixed:
                hoisted.append(v)
                order_fixed.append(index)
                continue
            order_stacked.append(index)
            if num_consts + num_carry <= place < inputs:
                stacked.append(place - num_consts - num_carry)
            elif inputs + num_carry <= place < inputs + count:
                stacked.append(num_xs + place - inputs - num_carry)
            else:  # the state before or after the step, or a value inside it
                stacked.append(num_xs + count - num_carry + len(further))
                further.append(v)
        known = ir.dce(Jaxpr(inner.constvars, inner.invars, inner.eqns, [*inner.outvars[:count], *further]))
        outside = ir.dce(Jaxpr(inner.constvars, inner.invars[:num_consts], _pure(inner, fixed), hoisted))
        return _ScanPlan(
            ClosedJaxpr(known, split.known.consts),
            ClosedJaxpr(outside, split.known.consts),
            reorder(split.linear, _linear_order(split, order_fixed, order_stacked, num_consts, num_carry)),
            stacked,
        )

    return remember(split.known, ("scan", num_consts, num_carry), make)  # type: ignore[no-any-return]


def _linear_order(
    split: Split, fixed: Sequence[int], stacked: Sequence[int], num_consts: int, num_carry: int
) -> list[int]:
    """The linear part's inputs as a scan wants them: constants, state, what is stacked."""
    first = len(split.residuals)
    total = len(split.linear.in_avals)
    a = first + sum(split.given[:num_consts])
    b = a + sum(split.given[num_consts : num_consts + num_carry])
    return [*fixed, *range(first, a), *range(a, b), *stacked, *range(b, total)]


def _invariant(jaxpr: Jaxpr, num_consts: int) -> set[Any]:
    """The variables that are the same in every step: they depend on constants only."""
    fixed: set[Any] = {*jaxpr.constvars, *jaxpr.invars[:num_consts]}
    for eqn in jaxpr.eqns:
        if not eqn.effects and all(isinstance(v, Literal) or v in fixed for v in eqn.inputs):
            fixed.update(eqn.outputs)
    return fixed


def _pure(jaxpr: Jaxpr, fixed: set[Any]) -> list[ir.Equation]:
    return [eqn for eqn in jaxpr.eqns if all(v in fixed for v in eqn.outputs) and not eqn.effects]


def scan_transpose(
    cts: Sequence[Any],
    *operands: Any,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    reverse: bool,
    **attrs: Any,
) -> list[Any]:
    """The scan that runs the other way, with the cotangent of the state as its state.

    Cotangents of linear constants are summed over the steps; those of xs are stacked.
    """
    consts, carry, xs = _parts(operands, num_consts, num_carry)
    # A state that begins as a value, not as a linear operand, is a tangent that begins as zeros.
    if not all(isinstance(x, Undefined) or has_tangent(x) for x in carry):
        raise DifferentiationError(
            "scan: its transpose needs a loop state that is linear in the argument; a part of it is not.",
            hint="keep counters out of the state, in xs.",
        )
    ct_carry, ct_ys = list(cts[:num_carry]), list(cts[num_carry:])
    linear = tuple(
        isinstance(x, Undefined) or num_consts <= i < num_consts + num_carry for i, x in enumerate(operands)
    )
    step, found = _transposed_step(jaxpr, linear, nonzero_of(ct_ys), num_consts, num_carry)
    types = jaxpr.in_avals
    sums = [full(t, 0) for t, lin in zip(types[:num_consts], linear) if lin]
    state = [instantiate(ct) for ct, t in zip(ct_carry, types[num_consts:])]
    results = _scan(
        step,
        [x for x in consts if not isinstance(x, Undefined)],
        [*sums, *state],
        [*values_of(ct_ys), *(x for x in xs if not isinstance(x, Undefined))],
        {**attrs, "reverse": not reverse},
    )
    placeholders = [Undefined(t) if lin else None for t, lin in zip(jaxpr.in_avals, linear)]
    spread = _spread(results, [True] * (len(sums) + num_carry) + list(found), placeholders)
    return [ct if isinstance(x, Undefined) else None for ct, x in zip(spread, operands)]


def _transposed_step(
    jaxpr: ClosedJaxpr, linear: Flags, nonzero: Flags, num_consts: int, num_carry: int
) -> tuple[ClosedJaxpr, Flags]:
    """One step backwards: (residual consts; sums, ct of state; cts of ys, residual xs) -> (sums, ct; cts of xs)."""

    def make() -> tuple[ClosedJaxpr, Flags]:
        in_types, out_types = jaxpr.in_avals, jaxpr.out_avals
        first = num_consts + num_carry
        lin_consts, _, lin_xs = _parts(linear, num_consts, num_carry)
        sum_types = select(in_types, lin_consts)
        state_types = in_types[num_consts:first]
        known_consts = [t for t, lin in zip(in_types, lin_consts) if not lin]
        known_xs = [t for t, lin in zip(in_types[first:], lin_xs) if not lin]
        ct_ys = select(out_types[num_carry:], nonzero)
        flags: Flags = ()

        def f(*args: Any) -> list[Any]:
            nonlocal flags
            rest = list(args)
            groups = []
            for types in (known_consts, sum_types, state_types, ct_ys, known_xs):
                groups.append(rest[: len(types)])
                rest = rest[len(types) :]
            k_consts, sums, state, ys, k_xs = groups
            known = iter([*k_consts, *k_xs])
            given = iter(ys)
            operands = [Undefined(t) if lin else next(known) for t, lin in zip(in_types, linear)]
            cts = [
                *state,
                *(
                    next(given) if n else Zero(tangent_type(t))
                    for n, t in zip(nonzero, out_types[num_carry:])
                ),
            ]
            found = backward(jaxpr.jaxpr, jaxpr.consts, operands, cts)
            c, s, x = _parts(found, num_consts, num_carry)
            totals = [add(total, ct) for total, ct in zip(sums, select(c, lin_consts))]
            new_state = [instantiate(ct) for ct in s]
            ct_xs = select(x, lin_xs)
            flags = nonzero_of(ct_xs)
            return [*totals, *new_state, *values_of(ct_xs)]

        types = [*known_consts, *sum_types, *state_types, *ct_ys, *known_xs]
        return stage(f, types, name="the transpose"), flags

    key = ("scan transpose", linear, nonzero, num_consts, num_carry)
    return remember(jaxpr, key, make)  # type: ignore[no-any-return]


def scan_batch(
    size: int,
    args: Sequence[Any],
    axes: Sequence[int | None],
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    **attrs: Any,
) -> tuple[list[Any], list[int | None]]:
    """Batches lie on axis 0 of consts and state, on axis 1 of xs and ys, behind the steps."""
    first = num_consts + num_carry
    moved, before = move_batches(args[:first], axes[:first])
    xs, xs_flags = move_batches(args[first:], axes[first:], 1)
    const_flags, flags = before[:num_consts], before[num_consts:]
    ys = (False,) * (len(jaxpr.out_avals) - num_carry)
    while True:
        derived, found = batch_jaxpr(jaxpr, size, const_flags + flags + xs_flags, flags + ys)
        if found[:num_carry] == flags:
            break
        flags = either(flags, found[:num_carry])
    had = before[num_consts:]
    carry = [v if was or not now else repeat(v, size) for v, was, now in zip(moved[num_consts:], had, flags)]
    results = _scan(derived, moved[:num_consts], carry, xs, attrs)
    return results, axes_of(flags) + axes_of(found[num_carry:], 1)


# reduce and reduce_window with a reducer of their own.


def _reducer_jvp(written_out: Any, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    tangents, primals = halves(args)
    return jvp_flat(written_out, primals, tangents)


def reduce_jvp(*args: Any, jaxpr: ClosedJaxpr, dimensions: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    return _reducer_jvp(reducing.reduced(jaxpr, dimensions), args)


reduce_partial = reduce_jvp


def reduce_batch(
    size: int,
    args: Sequence[Any],
    axes: Sequence[int | None],
    *,
    jaxpr: ClosedJaxpr,
    dimensions: tuple[int, ...],
) -> tuple[list[Any], list[int | None]]:
    """One axis more in front; init values with a batch of their own join element by element at the end."""
    count = len(args) // 2
    if any(a is not None for a in axes[count:]):
        return vmap_flat(reducing.reduced(jaxpr, dimensions), size, args, axes)
    operands = [shape.to_front(size, x, a) for x, a in zip(args[:count], axes)]
    shifted = tuple(d + 1 for d in dimensions)
    found = list(bind(reduce.reduce, *operands, *args[count:], jaxpr=jaxpr, dimensions=shifted))
    return found, [0] * len(found)


def reduce_window_jvp(*args: Any, jaxpr: ClosedJaxpr, **window: Any) -> tuple[list[Any], list[Any]]:
    return _reducer_jvp(reducing.windowed(jaxpr, **window), args)


reduce_window_partial = reduce_window_jvp


def reduce_window_batch(
    size: int, args: Sequence[Any], axes: Sequence[int | None], *, jaxpr: ClosedJaxpr, **window: Any
) -> tuple[list[Any], list[int | None]]:
    count = len(args) // 2
    if any(a is not None for a in axes[count:]):
        return vmap_flat(reducing.windowed(jaxpr, **window), size, args, axes)
    operands = [shape.to_front(size, x, a) for x, a in zip(args[:count], axes)]
    wider = windows.batched_window(**window)
    found = list(bind(windows.reduce_window, *operands, *args[count:], jaxpr=jaxpr, **wider))
    return found, [0] * len(found)
