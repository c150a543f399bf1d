"""Operations outside any trace.

EXACT operations whose meaning is one NumPy call run at once. All others run as programs of one operation, so
that `f(x)` and `jit(f)(x)` agree bit for bit per operation; a `jit` equation runs as the program it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braze import core, knobs
from braze.core import typeof
from braze.errors import AllocationError
from braze.hlo.lower import lower
from braze.ops.table import EXACT, Absent, Effect, Op
from braze.passes.cse import frozen
from braze.runtime import array as arrays
from braze.stages.executable import compile_module, target_of
from braze.stages.jit import Compiled, Lowered, Options, Traced, Wrapped
from braze.trace.jaxpr import ClosedJaxpr, Equation, Jaxpr, Var
from braze.tree import structure
from braze.types import TensorType

_PROGRAMS: dict[Any, Compiled] = {}
MOST_PROGRAMS = 4096


def run(op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
    """The results of one operation on concrete values."""
    types = [typeof(a) for a in args]
    results = core.infer(op, types, attrs)
    if _runs_at_once(op):
        return _at_once(op, args, types, results, attrs)
    return list(_program(op, types, results, attrs).run(args))


def _runs_at_once(op: Op) -> bool:
    return (
        op.error is EXACT
        and not isinstance(op.numpy, Absent)
        and op.effects is Effect.NONE
        and not op.jaxprs
        and not knobs.get("check")
    )


def _at_once(
    op: Op,
    args: Sequence[Any],
    types: Sequence[TensorType],
    results: Sequence[TensorType],
    attrs: dict[str, Any],
) -> list[Any]:
    values = [
        arrays.to_numpy(a) if arrays.is_array(a) else np.asarray(a, t.dtype) for a, t in zip(args, types)
    ]
    if op.broadcasts:
        values = list(np.broadcast_arrays(*values)) if len({v.shape for v in values}) > 1 else values
    try:
        found = op.numpy(*values, **attrs)  # type: ignore[operator]
    except MemoryError:
        wanted = sum(t.nbytes for t in results)
        raise AllocationError(f"{op.title}: {wanted} bytes for the result could not be allocated.") from None
    listed = found if op.multiple_results else [found]
    # A result that views memory of a caller's NumPy array would change with it.
    return [
        arrays.from_numpy(r, copy=_shares_foreign(r, args, values), aval=t)
        for r, t in zip(listed, results, strict=True)
    ]


def _shares_foreign(result: Any, args: Sequence[Any], values: Sequence[np.ndarray[Any, Any]]) -> bool:
    return any(isinstance(a, np.ndarray) and np.may_share_memory(result, v) for a, v in zip(args, values))


def _program(
    op: Op, types: Sequence[TensorType], results: Sequence[TensorType], attrs: dict[str, Any]
) -> Compiled:
    key = (op, tuple(types), frozen(attrs), knobs.keyed())
    found = _PROGRAMS.get(key)
    if found is None:
        if len(_PROGRAMS) >= MOST_PROGRAMS:
            _PROGRAMS.pop(next(iter(_PROGRAMS)))
        closed = _closed(op, types, results, attrs)
        found = _PROGRAMS[key] = compile_closed(closed, attrs.get("name") or op.title)
        # The attributes are in the key by identity where they do not compare; they must live as long.
        found.keep = attrs  # type: ignore[attr-defined]
    return found


def _closed(
    op: Op, types: Sequence[TensorType], results: Sequence[TensorType], attrs: dict[str, Any]
) -> ClosedJaxpr:
    """The jaxpr of one equation; a `jit` equation's own jaxpr."""
    if op.name == "jit":
        inner: ClosedJaxpr = attrs["jaxpr"]
        return inner
    inputs = [Var(t) for t in types]
    outputs = [Var(t) for t in results]
    equation = Equation(op, inputs, outputs, attrs, core.user_source())
    return ClosedJaxpr(Jaxpr((), inputs, [equation], outputs))


def compile_closed(closed: ClosedJaxpr, name: str) -> Compiled:
    """Compile a jaxpr whose inputs are leaves."""
    leaves = structure([0] * len(closed.in_avals))
    out = structure([0] * len(closed.out_avals))
    wrapped = Wrapped(lambda *args: args, Options())
    wrapped.name = name
    traced = Traced(wrapped, closed, leaves, out, (False,) * len(closed.in_avals))
    lowered = lower(closed, name, keep_unused=False)
    fast_math = knobs.get("fast_math")
    executable = compile_module(lowered.module, target_of(None), fast_math)
    return Compiled(Lowered(traced, lowered), executable)


core.set_eager(run)
