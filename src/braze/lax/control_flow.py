"""Loops and branches of traced programs: `while_loop`, `fori_loop`, `scan`, `cond`, `switch`, `map`.

Bodies are traced once, at the types of the carried values; inside, everything is staged. The result of a body
must have the carry's structure and types, since a loop has one buffer per carried value.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import core, dtypes, errors, tree
from braze.core import bind, typeof
from braze.lax import lax
from braze.ops import control
from braze.trace.jaxpr import ClosedJaxpr, common_consts, consts_as_inputs
from braze.trace.staging import trace_to_jaxpr
from braze.types import TensorType

Array = Any


def _trace(
    f: Callable[..., Any], types: Sequence[TensorType], in_tree: tree.PyTreeDef
) -> tuple[ClosedJaxpr, tree.PyTreeDef]:
    """Trace a function of positional pytrees."""
    closed, out_tree = trace_to_jaxpr(
        f, types, in_tree=tree.structure((in_tree_args(in_tree), {})), name=getattr(f, "__name__", "function")
    )
    return closed, out_tree


def in_tree_args(in_tree: tree.PyTreeDef) -> Any:
    """An example of the positional arguments of a structure."""
    return in_tree.unflatten([0] * in_tree.num_leaves)


def _check_carry(
    what: str,
    init_tree: tree.PyTreeDef,
    init: Sequence[TensorType],
    out_tree: tree.PyTreeDef,
    out: Sequence[TensorType],
) -> None:
    """Raise where a body does not give back what it carries."""
    if out_tree != init_tree:
        raise errors.ArgumentError(
            f"{what}: the body must return the structure of the carry, {init_tree}, but returned {out_tree}.",
            source=core.user_source(),
        )
    paths = [
        tree.keystr(path)
        for path, _ in tree.leaves_with_path(init_tree.unflatten([0] * init_tree.num_leaves))
    ]
    for path, before, after in zip(paths, init, out, strict=True):
        if before.strong is not after.strong:
            where = f" at {path}" if path else ""
            raise errors.ShapeError(
                f"{what}: the carry{where} enters as {before} and leaves the body as {after}; a loop keeps its types.",
                source=core.user_source(),
                hint="convert the initial value with astype, or the body's result.",
            )


def _settled(values: Sequence[Any], out: Sequence[TensorType]) -> list[Any]:
    """Initial values with the weak types of the body's results, so that the loop's types do not change."""
    settled = []
    for value, after in zip(values, out, strict=True):
        t = typeof(value)
        if t.weak_type and not after.weak_type and t.dtype == after.dtype:
            value = lax.as_dtype(value, t.dtype)
        elif t.weak_type and t.dtype != after.dtype and t.shape == after.shape:
            value = lax.as_dtype(value, after.dtype, after.weak_type)
        settled.append(value)
    return settled


def _body(
    what: str,
    f: Callable[..., Any],
    init: Sequence[Any],
    init_tree: tree.PyTreeDef,
    rest: Sequence[TensorType] = (),
    rest_tree: tree.PyTreeDef | None = None,
) -> tuple[ClosedJaxpr, list[Any]]:
    """Trace a body of a carry alone, twice where the first trace shows that weak initial values settle."""
    for _ in range(2):
        types = [typeof(v) for v in init]
        closed, out_tree = _trace(f, [*types, *rest], _pair(init_tree, rest_tree))
        if out_tree.num_leaves != init_tree.num_leaves:
            break
        settled = _settled(init, closed.out_avals)
        if [typeof(v) for v in settled] == types:
            break
        init = settled
    _check_carry(what, init_tree, types, out_tree, closed.out_avals)
    return _exactly(closed, types), list(init)


def _pair(first: tree.PyTreeDef, second: tree.PyTreeDef | None) -> tree.PyTreeDef:
    example = (in_tree_args(first),) if second is None else (in_tree_args(first), in_tree_args(second))
    return tree.structure(example)


def _exactly(closed: ClosedJaxpr, types: Sequence[TensorType]) -> ClosedJaxpr:
    """The jaxpr with results converted to types that differ in weakness only."""
    if tuple(closed.out_avals) == tuple(types):
        return closed
    from braze.trace.jaxpr import evaluate
    from braze.trace.staging import stage

    def f(*args: Any) -> list[Any]:
        outs = evaluate(closed.jaxpr, closed.consts, *args)
        return [lax.as_dtype(o, t.dtype, t.weak_type) for o, t in zip(outs, types, strict=True)]

    return stage(f, closed.in_avals)


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """Run `val = body_fun(val)` while `cond_fun(val)` holds.

    Args:
        init_val: a pytree of arrays; the body returns the same structure and types.
    Raises: ShapeError where the body changes a type; DTypeError where the condition is no scalar bool.
    """
    init, init_tree = tree.flatten(init_val)
    body, init = _body("while_loop", body_fun, init, init_tree)
    types = [typeof(v) for v in init]
    cond, _ = _trace(cond_fun, types, _pair(init_tree, None))
    if list(cond.out_avals) != [TensorType((), dtypes.BOOL)]:
        raise errors.DTypeError(
            f"while_loop: the condition is a scalar bool, {', '.join(builtins.map(str, cond.out_avals))} was returned.",
            source=core.user_source(),
            hint="compare, as in x < 10, and reduce with all() or any().",
        )
    cond, cond_consts = consts_as_inputs(cond)
    body, body_consts = consts_as_inputs(body)
    results = bind(
        control.while_,
        *cond_consts,
        *body_consts,
        *init,
        cond_jaxpr=cond,
        body_jaxpr=body,
        cond_nconsts=len(cond_consts),
        body_nconsts=len(body_consts),
    )
    return init_tree.unflatten(results)


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """Run `val = body_fun(i, val)` for i in range(lower, upper).

    With Python integers as bounds it is a scan and can be differentiated in reverse; else it is a while loop.
    """
    if isinstance(lower, int) and isinstance(upper, int):
        length = builtins.max(upper - lower, 0)
        dtype = dtypes.default_int()
        for bound in (lower, upper):
            dtypes.check_fits(bound, dtype)

        @functools.wraps(body_fun)
        def step(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
            i, value = carry
            return (lax.add(i, 1), body_fun(i, value)), None

        (_, result), _ = scan(
            step, (np.asarray(lower, dtype)[()], init_val), None, length=length, unroll=unroll or 1
        )
        return result
    low, high = typeof(lower), typeof(upper)
    dtype, _ = dtypes.promote([(low.dtype, low.weak_type), (high.dtype, high.weak_type)])
    lower, upper = lax.as_dtype(lower, dtype), lax.as_dtype(upper, dtype)

    def condition(carry: tuple[Any, Any, Any]) -> Any:
        return lax.lt(carry[0], carry[1])

    @functools.wraps(body_fun)
    def body(carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        i, limit, value = carry
        return lax.add(i, 1), limit, body_fun(i, value)

    return while_loop(condition, body, (lower, upper, init_val))[2]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """Run `carry, y = f(carry, x)` over the leading axis of xs; returns the last carry and the stacked ys.

    Args:
        xs: a pytree of arrays with one leading size, or None with a `length`.
        reverse: go from the last x to the first; ys stand where their xs did.
    Raises: ShapeError where sizes differ or the body changes a type.
    """
    carry, carry_tree = tree.flatten(init)
    scanned, xs_tree = tree.flatten(xs)
    length = _scan_length(scanned, length)
    row_types = [typeof(x).with_(shape=typeof(x).shape[1:]) for x in scanned]

    @functools.wraps(f)
    def carry_only(c: Any, x: Any) -> Any:
        result = f(c, x)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise errors.ArgumentError(
                "scan: the body must return a pair (carry, y).", source=core.user_source()
            )
        return tuple(result)

    for _ in range(2):
        types = [typeof(v) for v in carry]
        closed, out_tree = _trace(carry_only, [*types, *row_types], _pair(carry_tree, xs_tree))
        carry_out_tree, ys_tree = out_tree.children()
        outs = closed.out_avals
        count = carry_out_tree.num_leaves
        if count != carry_tree.num_leaves:
            break
        settled = _settled(carry, outs[:count])
        if [typeof(v) for v in settled] == types:
            break
        carry = settled
    _check_carry("scan", carry_tree, types, carry_out_tree, outs[:count])
    closed = _exactly(closed, [*types, *outs[count:]])
    closed, consts = consts_as_inputs(closed)
    results = bind(
        control.scan,
        *consts,
        *carry,
        *scanned,
        jaxpr=closed,
        length=length,
        reverse=bool(reverse),
        unroll=int(unroll) if unroll is not True else length,
        num_consts=len(consts),
        num_carry=len(carry),
    )
    return carry_tree.unflatten(results[: len(carry)]), ys_tree.unflatten(results[len(carry) :])


def _scan_length(scanned: Sequence[Any], length: int | None) -> int:
    sizes = []
    for x in scanned:
        t = typeof(x)
        if not t.ndim:
            raise errors.ShapeError(f"scan: xs have a leading axis, {t} has none.", source=core.user_source())
        sizes.append(t.shape[0])
    if length is not None:
        if int(length) < 0:
            raise errors.ArgumentError(
                f"scan: length is {length}, 0 or more is wanted.", source=core.user_source()
            )
        sizes.append(int(length))
    if not sizes:
        raise errors.ArgumentError("scan: xs or a length is wanted.", source=core.user_source())
    if len(set(sizes)) > 1:
        raise errors.ShapeError(
            f"scan: xs and length have one leading size, {' and '.join(builtins.map(str, sorted(set(sizes))))} were given.",
            source=core.user_source(),
        )
    return sizes[0]


def _branches(
    what: str, functions: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> tuple[list[ClosedJaxpr], tree.PyTreeDef, list[Any]]:
    """Trace branches to one type of result; weak results settle on the strong ones beside them."""
    leaves, in_tree = tree.flatten(tuple(operands))
    types = [typeof(v) for v in leaves]
    traced = [_trace(f, types, in_tree) for f in functions]
    out_tree = traced[0][1]
    for i, (_, other) in enumerate(traced[1:], 1):
        if other != out_tree:
            raise errors.ArgumentError(
                f"{what}: branches return one structure, branch 0 returned {out_tree}, branch {i} {other}.",
                source=core.user_source(),
            )
    common: list[TensorType] = []
    for position, candidates in enumerate(zip(*(closed.out_avals for closed, _ in traced), strict=True)):
        strong = [t for t in candidates if not t.weak_type] or list(candidates)
        for t in candidates:
            if t.strong is not strong[0].strong and not (t.weak_type and t.shape == strong[0].shape):
                raise errors.ShapeError(
                    f"{what}: result {position} of the branches is {' and '.join(builtins.map(str, dict.fromkeys(candidates)))}; "
                    "branches return one type.",
                    source=core.user_source(),
                )
        common.append(strong[0])
    return [_exactly(closed, common) for closed, _ in traced], out_tree, leaves


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """true_fun(*operands) where pred holds, else false_fun(*operands); only that branch runs.

    Raises: DTypeError where pred is no scalar.
    """
    t = typeof(pred)
    if t.ndim:
        raise errors.DTypeError(
            f"cond: the predicate is a scalar, {t} was given.",
            source=core.user_source(),
            hint="use braze.numpy.where for a choice per element.",
        )
    index = lax.convert_element_type(pred if t.dtype == dtypes.BOOL else lax.ne(pred, 0), dtypes.I32)
    return _conditional("cond", index, (false_fun, true_fun), operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """branches[index](*operands), the index clamped to those that exist."""
    if not branches:
        raise errors.ArgumentError("switch: at least one branch is wanted.")
    t = typeof(index)
    if t.ndim or t.dtype not in dtypes.INTEGERS:
        raise errors.DTypeError(
            f"switch: the index is a scalar integer, {t} was given.", source=core.user_source()
        )
    if len(branches) == 1:
        return branches[0](*operands)
    clamped = lax.clamp(
        lax.as_dtype(0, t.dtype), lax.as_dtype(index, t.dtype), lax.as_dtype(len(branches) - 1, t.dtype)
    )
    return _conditional("switch", lax.convert_element_type(clamped, dtypes.I32), branches, operands)


def _conditional(
    what: str, index: Any, functions: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    closed, out_tree, leaves = _branches(what, functions, operands)
    opened, consts = common_consts(closed)
    results = bind(control.cond, index, *consts, *leaves, branches=tuple(opened))
    return out_tree.unflatten(results)


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """f over the leading axis of xs, one after the other, results stacked."""
    return scan(lambda _, x: (None, f(x)), None, xs)[1]
