"""Operations outside any trace.

EXACT operations whose meaning is one NumPy call run at once. All others run as programs of one operation, so
that `f(x)` and `jit(f)(x)` agree bit for bit per operation; a `jit` equation runs as the program it is. Each
operation with its attributes has one function of the dispatcher, so a repeated call costs what a jitted one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braze import core, knobs
from braze.core import typeof
from braze.errors import AllocationError
from braze.hlo.lower import lower
from braze.ops.table import EXACT, Absent, Op
from braze.passes.cse import frozen
from braze.runtime import array as arrays
from braze.runtime import dispatch
from braze.stages.arguments import Options
from braze.stages.executable import compile_module, target_of
from braze.stages.traced import Compiled, Lowered, Traced
from braze.trace.jaxpr import ClosedJaxpr, Equation, Jaxpr, Var
from braze.trace.staging import result_types
from braze.tree import structure
from braze.types import TensorType

_FUNCTIONS: dict[Any, Any] = {}
_PROGRAMS: dict[Any, Compiled] = {}

MOST_PROGRAMS = 4096
"""Programs of one operation, and functions of the dispatcher, that are remembered; the oldest go first."""


def run(op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
    """The results of one operation on concrete values."""
    if runs_at_once(op):
        return _at_once(op, args, attrs)
    key = (op, frozen(attrs)) if attrs else op
    function = _FUNCTIONS.get(key)
    if function is None:
        function = _remember(_FUNCTIONS, key, _function(op, attrs))
    return function(*args)  # type: ignore[no-any-return]


def runs_at_once(op: Op) -> bool:
    """Whether the NumPy facet does outside of programs; effects then happen as the call does."""
    return (
        op.error is EXACT
        and op.at_once
        and not op.jaxprs
        and not isinstance(op.numpy, Absent)
        and not knobs.get("check")
    )


def _at_once(op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
    types = [typeof(a) for a in args]
    results = result_types(op, types, attrs)
    values = [
        arrays.to_numpy(a) if arrays.is_array(a) else np.asarray(a, t.dtype) for a, t in zip(args, types)
    ]
    if op.broadcasts and len(args) > 2:  # NumPy itself broadcasts two operands, and faster
        shape = results[0].shape
        values = [v if v.shape == shape else np.broadcast_to(v, shape) for v in values]
    try:
        found = op.numpy(*values, **attrs)  # type: ignore[operator]
    except MemoryError:
        wanted = sum(t.nbytes for t in results)
        raise AllocationError(f"{op.title}: {wanted} bytes for the result could not be allocated.") from None
    listed = found if op.multiple_results else [found]
    # A result that views memory of a caller's NumPy array would change with it.
    foreign = [v for a, v in zip(args, values) if isinstance(a, np.ndarray)]
    return [
        arrays.from_numpy(r, copy=any(np.may_share_memory(r, v) for v in foreign), aval=t)
        for r, t in zip(listed, results, strict=True)
    ]


def _function(op: Op, attrs: dict[str, Any]) -> Any:
    """A function of the dispatcher that runs one operation with these attributes."""

    def slow(*args: Any) -> Any:
        types = [typeof(a) for a in args]
        compiled = _program(op, types, attrs)
        if compiled.executable.program is not None and not knobs.get("check"):
            parameters = compiled.plan.parameter_of
            leaves = [dispatch.leaf_for(a, parameters.get(i)) for i, a in enumerate(args)]
            known = [leaf for leaf in leaves if leaf is not None]
            if len(known) == len(leaves):
                one = structure(0)
                dispatch.add_entry(function, compiled.plan.entry(known, (one,) * len(args), ()))
        return compiled.run(args)

    slow.__name__ = slow.__qualname__ = attrs.get("name") or op.title
    function = dispatch.make_function(slow, slow)
    return function


def _program(op: Op, types: Sequence[TensorType], attrs: dict[str, Any]) -> Compiled:
    key = (op, tuple(types), frozen(attrs), knobs.keyed())
    found = _PROGRAMS.get(key)
    if found is None:
        closed = _closed(op, types, attrs)
        found = _remember(_PROGRAMS, key, compile_closed(closed, attrs.get("name") or op.title))
        # The attributes are in the key by identity where they do not compare; they must live as long.
        found.keep = attrs
    return found


def _remember(known: dict[Any, Any], key: Any, made: Any) -> Any:
    while len(known) >= MOST_PROGRAMS:
        known.pop(next(iter(known)), None)
    return known.setdefault(key, made)


def _closed(op: Op, types: Sequence[TensorType], attrs: dict[str, Any]) -> ClosedJaxpr:
    """The jaxpr of one equation; a `jit` equation's own jaxpr."""
    if op.name == "jit":
        inner: ClosedJaxpr = attrs["jaxpr"]
        return inner
    inputs = [Var(t) for t in types]
    outputs = [Var(t) for t in core.infer(op, types, attrs)]
    equation = Equation(op, inputs, outputs, attrs, core.user_source())
    return ClosedJaxpr(Jaxpr((), inputs, [equation], outputs))


def compile_closed(closed: ClosedJaxpr, name: str) -> Compiled:
    """Compile a jaxpr whose inputs are leaves and whose results come as a list."""
    leaves = structure([0] * len(closed.in_avals))
    out = structure([0] * len(closed.out_avals))
    traced = Traced(name, Options(), closed, leaves, out, (False,) * len(closed.in_avals))
    lowered = lower(closed, name, keep_unused=False)
    fast_math = knobs.get("fast_math")
    executable = compile_module(lowered.module, target_of(None), fast_math)
    return Compiled(Lowered(traced, lowered), executable)


core.set_eager(run)
