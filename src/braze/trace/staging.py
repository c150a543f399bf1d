"""Tracing: run a function once with tracers and write down what it binds, as a jaxpr.

    trace_to_jaxpr(f, [f32[3]])  ->  { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }

Scalars that the function brings along become literals. Arrays become constants: NumPy arrays, which may
change later, are copied when they are met. Tracers of outer transformations become constants too; an inner
`jit` passes them as operands (`jaxpr.lift_tracers`).

Invariants:
- Equations stand in program order, dead ones included; every one has the user's line.
- The cost per operation is a few microseconds and independent of the program's size.

Source: JAX's omnistaging for what is staged; its dynamic jaxpr trace for constants.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from braze import core, dtypes, tree
from braze.core import Tracer, user_source
from braze.errors import ArgumentError, BrazeError, IntegerOverflowError
from braze.ops.table import Op
from braze.trace.jaxpr import Atom, ClosedJaxpr, Equation, Jaxpr, Literal, Var
from braze.types import TensorType


class StagingTracer(Tracer):
    """A variable of the jaxpr under construction."""

    __slots__ = ("variable",)

    _trace: StagingTrace

    def __init__(self, trace: StagingTrace, var: Var) -> None:
        self._trace = trace
        self.variable = var

    @property
    def aval(self) -> TensorType:
        return self.variable.type

    def origin(self) -> str:
        return self._trace.explain(self.variable)

    def __repr__(self) -> str:
        return f"Tracer<{self.variable.type}>"


_INFERRED: dict[tuple[Any, ...], list[TensorType]] = {}
"""Result types of operations without attributes, by operation and operand types."""


def result_types(op: Op, types: list[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
    """`core.infer`, remembered where the operand types alone decide."""
    if attrs:
        return core.infer(op, types, attrs)
    key = (op, *types)
    found = _INFERRED.get(key)
    if found is None:
        found = _INFERRED[key] = core.infer(op, types, attrs)
    return found


class StagingTrace(core.Trace):
    """Builds one jaxpr.

    Args:
        name: the function's name, for messages.
        names: gives the names of the inputs, for messages; asked only when one is written.
    """

    __slots__ = ("consts", "eqns", "invars", "name", "names")

    def __init__(self, name: str = "the function", names: Callable[[], Sequence[str]] | None = None) -> None:
        super().__init__()
        self.name = name
        self.names = names
        self.invars: list[Var] = []
        self.eqns: list[Equation] = []
        self.consts: dict[int, list[tuple[Var, Any, Any]]] = {}

    def new_input(self, type: TensorType) -> StagingTracer:
        var = Var(type)
        self.invars.append(var)
        return StagingTracer(self, var)

    def process(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
        inputs: list[Atom] = []
        for arg in args:
            if type(arg) is StagingTracer and arg._trace is self:
                inputs.append(arg.variable)
            else:
                inputs.append(self.atom(arg))
        outputs = [Var(t) for t in result_types(op, [v.type for v in inputs], attrs)]
        self.eqns.append(Equation(op, inputs, outputs, attrs, core.CONTEXT.source or user_source()))
        return [StagingTracer(self, v) for v in outputs]

    def atom(self, value: Any) -> Atom:
        """The variable or literal for any value."""
        if isinstance(value, Tracer):
            trace = value._trace
            if trace is self and isinstance(value, StagingTracer):
                return value.variable
            if not trace.alive or trace.thread != threading.get_ident() or trace.level > self.level:
                raise core.leaked(value)
            return self._constant(value, value)
        if isinstance(value, bool | int | float | complex | np.generic) or (
            isinstance(value, np.ndarray) and value.ndim == 0
        ):
            type = core.typeof(value)
            return Literal(np.asarray(value, type.dtype)[()], type)
        if isinstance(value, np.ndarray):
            return self._constant(value, None)
        return self._constant(value, value)

    def _constant(self, value: Any, kept: Any) -> Var:
        """The variable of a captured value; `kept` is what becomes the constant (None: a copy)."""
        known = self.consts.setdefault(id(value), [])
        for var, constant, _ in known:
            if kept is not None or _unchanged(constant, value):
                return var
        type = core.typeof(value)
        if kept is None:
            kept = _frozen(value, type)
        var = Var(type)
        # The value itself is held too, so that its id stays its own.
        known.append((var, kept, value))
        return var

    def close(self, results: Iterable[Any]) -> ClosedJaxpr:
        """The jaxpr with the given results."""
        outvars = [self.atom(value) for value in results]
        constants = [entry for entries in self.consts.values() for entry in entries]
        jaxpr = Jaxpr([var for var, _, _ in constants], self.invars, self.eqns, outvars)
        return ClosedJaxpr(jaxpr, [kept for _, kept, _ in constants])

    def explain(self, var: Var) -> str:
        """What a variable depends on, to complete "…, but it depends on …"."""
        needed: set[Atom] = {var}
        for eqn in reversed(self.eqns):
            if any(v in needed for v in eqn.outputs):
                needed.update(eqn.inputs)
        positions = [i for i, v in enumerate(self.invars) if v in needed]
        if not positions:
            return f"is computed inside {self.name}, which is being traced"
        names = self.names() if self.names is not None else [f"{i}" for i in range(len(self.invars))]
        shown = [names[i] for i in positions[:3]]
        plural = "s" if len(positions) > 1 else ""
        more = f" and {len(positions) - 3} more" if len(positions) > 3 else ""
        joined = " and ".join(shown) if not more else ", ".join(shown) + more
        return f"depends on the value of argument{plural} {joined}, not known while {self.name} is traced"


def _frozen(value: np.ndarray[Any, Any], type: TensorType) -> np.ndarray[Any, Any]:
    """A contiguous copy that nobody can write to; the array itself where that holds already."""
    if (
        not value.flags.writeable
        and value.flags.owndata
        and value.flags.c_contiguous
        and value.dtype == type.dtype
    ):
        return value
    copy = np.array(value, dtype=type.dtype, order="C", copy=True)
    copy.setflags(write=False)
    return copy


def _unchanged(constant: np.ndarray[Any, Any], value: np.ndarray[Any, Any]) -> bool:
    """Whether an array met before still has the contents of its copy."""
    return constant is value or constant.tobytes() == np.ascontiguousarray(value, constant.dtype).tobytes()


def stage(
    f: Callable[..., Iterable[Any]],
    in_types: Iterable[TensorType],
    *,
    name: str = "the function",
    names: Callable[[], Sequence[str]] | None = None,
) -> ClosedJaxpr:
    """Trace a function of flat arguments that returns a sequence of values."""
    trace = StagingTrace(name, names)
    with core.activate(trace, dynamic=True):
        return trace.close(f(*[trace.new_input(type) for type in in_types]))


def trace_to_jaxpr(
    f: Callable[..., Any],
    in_types: Iterable[TensorType],
    *,
    in_tree: tree.PyTreeDef | None = None,
    name: str | None = None,
    names: Callable[[], Sequence[str]] | None = None,
) -> tuple[ClosedJaxpr, tree.PyTreeDef]:
    """Trace a function of pytrees.

    Args:
        in_types: one type per leaf.
        in_tree: the structure of `(args, kwargs)`; without it each leaf is one positional argument.
        names: gives the name of each leaf, for messages.
    Returns: the jaxpr, whose constants may hold tracers of outer transformations, and the result's structure.
    Raises: what `f` raises; ArgumentError where a result is no array.
    """
    out_tree: tree.PyTreeDef | None = None
    title = str(name or getattr(f, "__name__", type(f).__name__))

    def flat(*leaves: Any) -> list[Any]:
        nonlocal out_tree
        args, kwargs = (leaves, {}) if in_tree is None else in_tree.unflatten(leaves)
        result = f(*args, **kwargs)
        found, out_tree = tree.flatten(result)
        check_results(result, found, title)
        return found

    closed = stage(flat, in_types, name=title, names=names)
    assert out_tree is not None
    return closed, out_tree


def check_results(result: Any, leaves: Sequence[Any], name: str) -> None:
    """Raise ArgumentError, with the path, for a leaf of a function's result that is no array."""
    for index, leaf in enumerate(leaves):
        try:
            core.typeof(leaf)
        except IntegerOverflowError:
            raise
        except BrazeError:
            path = tree.keystr(tree.leaves_with_path(result)[index][0])
            raise ArgumentError(
                f"{name}: the result{' at ' + path if path else ''} is a value of type {type(leaf).__name__}, "
                "which is not an array.",
                hint="return arrays, Python scalars, or containers of them registered as pytrees.",
            ) from None


def zeros(type: TensorType) -> Any:
    """Zeros of a type as a value: a NumPy scalar, or a read-only array that takes no memory until it is used."""
    if type.dtype == dtypes.FLOAT0:
        return np.zeros(type.shape, dtypes.FLOAT0)
    scalar: Any = np.zeros((), type.dtype)[()]
    return np.broadcast_to(scalar, type.shape) if type.shape else scalar
