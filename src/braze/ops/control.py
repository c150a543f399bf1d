"""Calls, loops, branches and callbacks: the primitives that hold jaxprs, and the HLO ops with regions.

| primitive | HLO | how |
|---|---|---|
| `jit` | `call` | a private function per jaxpr; `inline` ones are written in place |
| `while` | `while` | what the jaxprs take beside the carried values is captured |
| `cond` | `case` | operands are captured; an index out of range takes the last branch |
| `scan` | `while` | a counter, a row of each `xs` in, a row of each `ys` out |
| `debug_callback` | `custom_call` | with a side effect, in order |

The primitives are differentiated, batched and evaluated in part by transforming their jaxprs, which is the
work of `trace/`: those facets pass on to the method of `transform` that is named `<primitive>_<facet>`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braze import core
from braze.dtypes import BOOL, I32, I64
from braze.errors import InternalError, ShapeError, UnsupportedError
from braze.ops import elementwise, shape
from braze.ops.facets import HLO_ONLY, LOWERED, Array, moved, no_cost
from braze.ops.table import EXACT, ZERO, Absent, Cost, Effect, Op, ProgramStep, Sample
from braze.types import TensorType

AS_HLO = Absent("it is lowered to HLO before it runs")


def no_samples() -> list[Sample]:
    """None: jaxprs and regions come from higher layers, whose tests run these ops."""
    return []


def forward(name: str) -> Callable[..., Any]:
    """A facet that hands its arguments to the transformation method of a name."""

    def facet(*args: Any, transform: Any, **attrs: Any) -> Any:
        return getattr(transform, name)(*args, **attrs)

    return facet


def region_primitive(
    name: str,
    infer: Callable[..., list[TensorType]],
    lower: Callable[..., Any],
    *,
    jaxprs: tuple[str, ...],
    attrs: tuple[str, ...],
    jax_attrs: Callable[[Any], dict[str, Any]],
) -> Op:
    """A primitive whose meaning is in the jaxprs that it holds."""
    return Op(
        name, hlo=None,
        infer=infer, numpy=AS_HLO, error=EXACT,
        jvp=forward(f"{name}_jvp"), transpose=forward(f"{name}_transpose"),
        batch=forward(f"{name}_batch"), partial=forward(f"{name}_partial"), lower=lower,
        kernel=LOWERED, cost=no_cost, samples=no_samples,
        multiple_results=True, keeps_weak_type=False, jaxprs=jaxprs, attrs=attrs, jax_attrs=jax_attrs,
    )  # fmt: skip


def _named(*names: str) -> Callable[[Any], dict[str, Any]]:
    """Some attributes, in this order."""
    return lambda attrs: {name: attrs[name] for name in names}


def check_inputs(title: str, what: str, have: Sequence[TensorType], want: Sequence[TensorType]) -> None:
    """Raise ShapeError unless types are alike, weak flags aside."""
    if len(have) != len(want):
        raise ShapeError(f"{title}: {what} has {len(want)} values where {len(have)} are given.")
    for i, (given, wanted) in enumerate(zip(have, want)):
        if given.strong is not wanted.strong:
            raise ShapeError(f"{title}: value {i} of {what} is {wanted} where {given} is given.")


# --- jit ----------------------------------------------------------------------------------------------
def _jit_infer(*types: TensorType, jaxpr: Any, **attrs: Any) -> list[TensorType]:
    check_inputs("jit", "the jaxpr", types, jaxpr.in_avals)
    return list(jaxpr.out_avals)


def _jit_lower(b: Any, *values: Any, jaxpr: Any, name: str, inline: bool, **attrs: Any) -> Any:
    if inline:
        return b.inline(jaxpr, *values)
    return b.emit_many(call_hlo, *values, callee=b.function(jaxpr, name))


def _jit_jax(attrs: Any) -> dict[str, Any]:
    """Name and jaxpr, and what is not the default."""
    shown: dict[str, Any] = {"name": attrs["name"]}
    if any(attrs["donated_invars"]):
        shown["donated_invars"] = attrs["donated_invars"]
    shown["jaxpr"] = attrs["jaxpr"]
    return shown | {name: True for name in ("inline", "keep_unused") if attrs[name]}


jit = region_primitive(
    "jit", _jit_infer, _jit_lower, jaxprs=("jaxpr",),
    attrs=("jaxpr", "name", "inline", "donated_invars", "keep_unused"),
    jax_attrs=_jit_jax,
)  # fmt: skip


# --- while --------------------------------------------------------------------------------------------
def _while_infer(
    *types: TensorType, cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int
) -> list[TensorType]:
    consts = cond_nconsts + body_nconsts
    carry = types[consts:]
    check_inputs("while", "the condition's inputs", (*types[:cond_nconsts], *carry), cond_jaxpr.in_avals)
    check_inputs("while", "the body's inputs", types[cond_nconsts:], body_jaxpr.in_avals)
    if [t.strong for t in cond_jaxpr.out_avals] != [TensorType((), BOOL)]:
        raise ShapeError(
            f"while (C1): the condition gives {_list(cond_jaxpr.out_avals)}, which must be bool[]."
        )
    check_inputs("while (C2)", "the body's results", carry, body_jaxpr.out_avals)
    return list(body_jaxpr.out_avals)


def _list(types: Sequence[TensorType]) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _while_lower(
    b: Any, *values: Any, cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int
) -> Any:
    consts = cond_nconsts + body_nconsts
    of_cond, of_body, carry = values[:cond_nconsts], values[cond_nconsts:consts], values[consts:]
    types = tuple(v.type for v in carry)
    condition = b.region(types, lambda inner, *state: inner.inline(cond_jaxpr, *of_cond, *state))
    body = b.region(types, lambda inner, *state: inner.inline(body_jaxpr, *of_body, *state))
    return b.emit_many(while_hlo, *carry, regions=(condition, body))


while_ = region_primitive(
    "while", _while_infer, _while_lower, jaxprs=("cond_jaxpr", "body_jaxpr"),
    attrs=("cond_jaxpr", "body_jaxpr", "cond_nconsts", "body_nconsts"),
    jax_attrs=_named("body_jaxpr", "body_nconsts", "cond_jaxpr", "cond_nconsts"),
)  # fmt: skip


# --- cond ---------------------------------------------------------------------------------------------
def _cond_infer(index: TensorType, *types: TensorType, branches: tuple[Any, ...]) -> list[TensorType]:
    if index.strong is not TensorType((), I32):
        raise ShapeError(f"cond (I1): the index is {index}, which must be i32[].")
    if not branches:
        raise ShapeError("cond (C1): there is no branch.")
    first = branches[0]
    for i, branch in enumerate(branches):
        check_inputs("cond", f"branch {i}'s inputs", types, branch.in_avals)
        check_inputs("cond (C2)", f"branch {i}'s results", first.out_avals, branch.out_avals)
    return [
        t.with_(weak_type=all(branch.out_avals[i].weak_type for branch in branches))
        for i, t in enumerate(first.out_avals)
    ]


def _cond_lower(b: Any, index: Any, *values: Any, branches: tuple[Any, ...]) -> Any:
    regions = [
        b.region((), lambda inner, branch=branch: inner.inline(branch, *values)) for branch in branches
    ]
    return b.emit_many(case_hlo, index, regions=regions)


cond = region_primitive(
    "cond", _cond_infer, _cond_lower, jaxprs=("branches",), attrs=("branches",), jax_attrs=dict
)


# --- scan ---------------------------------------------------------------------------------------------
def _scan_infer(
    *types: TensorType, jaxpr: Any, length: int, reverse: bool, unroll: int, num_consts: int, num_carry: int
) -> list[TensorType]:
    outer = num_consts + num_carry
    for i, t in enumerate(types[outer:]):
        if t.shape[:1] != (length,):
            raise ShapeError(f"scan: xs {i} is {t}, whose leading axis must have the length {length}.")
    rows = [t.with_(shape=t.shape[1:]) for t in types[outer:]]
    check_inputs("scan", "the body's inputs", (*types[:outer], *rows), jaxpr.in_avals)
    check_inputs("scan", "the carried results", types[num_consts:outer], jaxpr.out_avals[:num_carry])
    carried, stacked = jaxpr.out_avals[:num_carry], jaxpr.out_avals[num_carry:]
    return [*carried, *(t.with_(shape=(length, *t.shape)) for t in stacked)]


def counted_loop(
    b: Any, length: int, initial: Sequence[Any], body: Callable[..., Sequence[Any]]
) -> tuple[Any, ...]:
    """An HLO while that runs `body(b, i, *carried)` for i from 0; gives the carried values at the end."""
    if length == 0:
        return tuple(initial)
    dtype = I32 if length < 2**31 else I64

    def below(b: Any, i: Any, *carried: Any) -> tuple[Any]:
        end = b.constant(length, dtype)
        return (b.emit(elementwise.compare_hlo, i, end, comparison_direction="LT", compare_type="SIGNED"),)

    def step(b: Any, i: Any, *carried: Any) -> tuple[Any, ...]:
        results = body(b, i, *carried)
        return (b.emit(elementwise.add, i, b.constant(1, dtype)), *results)

    start = b.constant(0, dtype)
    types = (start.type, *(v.type for v in initial))
    regions = b.region(types, below), b.region(types, step)
    return tuple(b.emit_many(while_hlo, start, *initial, regions=regions)[1:])


def _scan_lower(
    b: Any,
    *values: Any,
    jaxpr: Any,
    length: int,
    reverse: bool,
    unroll: int,
    num_consts: int,
    num_carry: int,
) -> Any:
    outer = num_consts + num_carry
    consts, carry, xs = values[:num_consts], values[num_consts:outer], values[outer:]
    rows = [t.strong for t in jaxpr.out_avals[num_carry:]]
    stacked = [shape.zeros(b, t.with_(shape=(length, *t.shape))) for t in rows]

    def body(b: Any, i: Any, *state: Any) -> list[Any]:
        if reverse:
            i = b.emit(elementwise.sub, b.constant(length - 1, i.type.dtype), i)
        here = [shape.row(b, x, i) for x in xs]
        found = b.inline(jaxpr, *consts, *state[:num_carry], *here)
        ys = [
            shape.with_row(b, y, new, i)
            for y, new in zip(state[num_carry:], found[num_carry:], strict=True)
        ]  # fmt: skip
        return [*found[:num_carry], *ys]

    return counted_loop(b, length, (*carry, *stacked), body)


scan = region_primitive(
    "scan", _scan_infer, _scan_lower, jaxprs=("jaxpr",),
    attrs=("jaxpr", "length", "reverse", "unroll", "num_consts", "num_carry"),
    jax_attrs=_named("jaxpr", "length", "num_carry", "num_consts", "reverse", "unroll"),
)  # fmt: skip


# --- debug_callback -----------------------------------------------------------------------------------
def _debug_callback_infer(*types: TensorType, **attrs: Any) -> list[TensorType]:
    return []


def _debug_callback_numpy(*arrays: Array, callback: Callable[..., Any], ordered: bool) -> list[Array]:
    callback(*arrays)
    return []


def _debug_callback_batch(size: int, args: Any, axes: Any, *, callback: Any, ordered: bool) -> Any:
    """One call for each entry of the batch, in order."""
    for i in range(size):
        entries = [x if a is None else shape.entry(x, a, i) for x, a in zip(args, axes)]
        debug_callback(*entries, callback=callback, ordered=ordered)
    return [], []


def _debug_callback_lower(b: Any, *values: Any, callback: Any, ordered: bool) -> Any:
    return b.emit_many(
        custom_call_hlo,
        *values,
        call_target_name="braze_callback",
        has_side_effect=True,
        backend_config="",
        callback=callback,
        result_types=(),
    )


debug_callback = Op(
    "debug_callback", hlo=None,
    infer=_debug_callback_infer, numpy=_debug_callback_numpy, error=EXACT, effects=Effect.ORDERED,
    jvp=ZERO, transpose=Absent("it has no results, so no cotangent comes back"),
    batch=_debug_callback_batch, lower=_debug_callback_lower,
    kernel=LOWERED, cost=no_cost, samples=no_samples,
    multiple_results=True, attrs=("callback", "ordered"),
    jax_attrs=lambda a: {"callback": a["callback"], "effect": "OrderedDebug" if a["ordered"] else "Debug"},
)  # fmt: skip


# --- HLO: call, while, case, custom_call ----------------------------------------------------------------
def _call_infer(*types: TensorType, callee: str) -> list[TensorType]:
    raise InternalError(
        f"the results of a call are those of @{callee}, which only the module knows", stage="infer"
    )


call_hlo = Op(
    None, hlo="call",
    infer=_call_infer, numpy=Absent("the evaluator runs the function called"), error=EXACT,
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    effects=Effect.ORDERED,  # it may do anything that the function does; after inlining there are none
    kernel=ProgramStep("call"), cost=lambda *types, **attrs: Cost(bytes=moved(*types)),
    samples=no_samples, multiple_results=True, attrs=("callee",),
)  # fmt: skip


def _while_hlo_infer(*types: TensorType, regions: Sequence[Any]) -> list[TensorType]:
    if len(regions) != 2:
        raise ShapeError(f"while (C1): it takes two regions, not {len(regions)}.")
    condition, body = regions
    if condition.parameter_types != types or condition.result_types != (TensorType((), BOOL),):
        raise ShapeError(
            f"while (C1): the condition goes from {_list(condition.parameter_types)} to "
            f"{_list(condition.result_types)} and must go from {_list(types)} to bool[]."
        )
    if body.parameter_types != types or body.result_types != types:
        raise ShapeError(
            f"while (C2): the body goes from {_list(body.parameter_types)} to {_list(body.result_types)} "
            f"and must go from {_list(types)} to the same."
        )
    return list(types)


def _while_hlo_numpy(
    *arrays: Array, regions: Sequence[Any], apply: Callable[..., list[Array]]
) -> list[Array]:
    condition, body = regions
    carried = list(arrays)
    while apply(condition, *carried)[0]:
        carried = apply(body, *carried)
    return carried


def _region_cost(*types: TensorType, regions: Sequence[Any]) -> Cost:
    """Bytes in and out; what the regions do is counted on their own instructions."""
    return Cost(bytes=2 * moved(*types))


while_hlo = Op(
    None, hlo="while",
    infer=_while_hlo_infer, numpy=_while_hlo_numpy, error=EXACT,
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    kernel=ProgramStep("while", captures=True), cost=_region_cost, samples=no_samples, multiple_results=True,
)  # fmt: skip


def _case_infer(index: TensorType, *, regions: Sequence[Any]) -> list[TensorType]:
    if not regions:
        raise ShapeError("case (C1): there is no branch.")
    if index is not TensorType((), I32):
        raise ShapeError(f"case (I1): index is {index}, which must be i32[].")
    first = regions[0].result_types
    for i, region in enumerate(regions):
        if region.parameter_types:
            raise ShapeError(
                f"case (C2): branch {i} has parameters {_list(region.parameter_types)}, none are taken."
            )
        if region.result_types != first:
            raise ShapeError(
                f"case (C2): branch {i} gives {_list(region.result_types)} and branch 0 gives {_list(first)}, "
                "which must be alike."
            )
    return list(first)


def _case_numpy(index: Array, *, regions: Sequence[Any], apply: Callable[..., list[Array]]) -> list[Array]:
    """The branch of the index; the last one where the index is out of range."""
    chosen = int(index)
    return apply(regions[chosen if 0 <= chosen < len(regions) else -1])


case_hlo = Op(
    None, hlo="case",
    infer=_case_infer, numpy=_case_numpy, error=EXACT,
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    kernel=ProgramStep("case", captures=True), cost=_region_cost, samples=no_samples, multiple_results=True,
)  # fmt: skip


def _custom_call_infer(
    *types: TensorType, result_types: Sequence[TensorType], call_target_name: str, **attrs: Any
) -> list[TensorType]:
    return list(result_types)


def _custom_call_numpy(
    *arrays: Array,
    call_target_name: str,
    callback: Callable[..., Any] | None,
    result_types: Sequence[TensorType],
    **attrs: Any,
) -> list[Array]:
    if callback is None:
        raise UnsupportedError(f"custom_call: there is no function for the target {call_target_name!r} here.")
    return checked_results(callback(*arrays), result_types)


def checked_results(found: Any, types: Sequence[TensorType]) -> list[Array]:
    """What a host callback gave, as arrays of the types that were promised.

    Raises: ShapeError where number, shape or dtype differ.
    """
    values = [] if not types else list(found)
    if len(values) != len(types):
        raise ShapeError(f"callback: it gave {len(values)} results, {len(types)} were promised.")
    arrays = [np.asarray(v) for v in values]
    for i, (x, t) in enumerate(zip(arrays, types)):
        if core.typeof(x).strong is not t.strong:
            raise ShapeError(f"callback: result {i} is {core.typeof(x)}, {t} was promised.")
    return arrays


def _custom_call_effects(attrs: Mapping[str, Any]) -> Effect:
    return Effect.ORDERED if attrs["has_side_effect"] else Effect.NONE


custom_call_hlo = Op(
    None, hlo="custom_call",
    infer=_custom_call_infer, numpy=_custom_call_numpy, error=EXACT, effects=_custom_call_effects,
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    kernel=ProgramStep("custom_call"), cost=lambda *types, **attrs: Cost(bytes=moved(*types, *attrs["result_types"])),
    samples=no_samples, multiple_results=True,
    attrs=("call_target_name", "has_side_effect", "backend_config", "callback", "result_types"),
)  # fmt: skip
