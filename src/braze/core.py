"""Tracers and `bind`: how a call of an operation finds out who handles it.

Every public function ends in `bind(op, *values, **attrs)`. The handler is the active trace of highest
level among the tracers in `values`, or the innermost staging trace of this thread (so that everything
inside a `jit` is staged, constants too), or, with neither, eager execution through a hook that `stages`
sets. Each transformation is one trace class in `trace/`: it receives the operation and its operands
(tracers of its own, and values of lower levels, which are constants to it) and binds operations of lower
level in turn. Nesting needs nothing more.

Invariants:
- A trace lives exactly as long as its `with` block; a tracer used later is an error that says where it
  came from.
- `bind` is where weak types are settled: `infer` sees strong types, and a result is weak when all operands
  were and the dtype is theirs.

Source: levels as in JAX's autodidax; the dynamic trace as in its omnistaging.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from braze import dtypes, errors, knobs
from braze.errors import BrazeError, Source
from braze.types import TensorType

if TYPE_CHECKING:
    from braze.ops.table import Op


P = ParamSpec("P")
R = TypeVar("R")


def user_source() -> Source | None:
    """The nearest frame outside braze, or None where there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        if not errors.is_ours(frame.f_code):
            return Source(frame.f_code, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None


class user_line:
    """Put around public entry points: errors that leave give the user's line and hide braze's frames.

    The line is the innermost outside braze: of the user's function if it was running, else of the call. Frames
    stay where the fault is braze's own: an InternalError, or a foreign exception raised inside braze.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, entry: TracebackType | None) -> None:
        if error is not None:
            _at_users_line(error, entry)


def public(function: Callable[P, R]) -> Callable[P, R]:
    """`user_line` around a function: what it raises ends at the caller's line. Costs 50 ns where it raises nothing."""

    @functools.wraps(function)
    def entry(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            _at_users_line(error, error.__traceback__)
            raise

    return entry


def publish(names: Sequence[str], module: dict[str, Any]) -> None:
    """Make the functions of a package's namespace public ones; inside braze they are called as they are."""
    for name in names:
        if isinstance(module[name], FunctionType):
            module[name] = public(module[name])


def _at_users_line(error: BaseException, entry: TracebackType | None) -> None:
    if isinstance(error, BrazeError):
        if error.source is None:
            error.source = CONTEXT.source or user_source()
    elif isinstance(error, errors.InternalError) or _raised_inside(entry):
        return
    if knobs.get("traceback") != "full":
        # What is raised anew, by `with` or by `raise` alone, does not add its own frame, so none of ours is left.
        error.__traceback__ = errors.users_frames(entry)


def _raised_inside(entry: TracebackType | None) -> bool:
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    return entry is not None and errors.is_ours(entry.tb_frame.f_code)


class Trace:
    """One transformation at work. Subclasses implement `process`."""

    __slots__ = ("alive", "level", "thread")

    def __init__(self) -> None:
        self.level = -1
        self.alive = False
        self.thread = 0

    def process(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
        """Handle one operation.

        Args:
            args: tracers of this trace, and values of lower levels (arrays, Python scalars, lower tracers).

        Returns: the results, one value per result of the operation.
        """
        raise NotImplementedError


class Tracer:
    """Stands for an array while a function is being transformed.

    Its operators and methods are set from `numpy/methods.py`. Subclasses give `aval`.
    """

    __slots__ = ("__weakref__", "_trace")
    _trace: Trace

    __array_priority__ = 1000

    @property
    def aval(self) -> TensorType:
        raise NotImplementedError

    @property
    def concrete(self) -> Any:
        """The array behind this tracer where one is known (under `grad` outside `jit`), else None."""
        return None

    def origin(self) -> str:
        """Why Python cannot have the value, to complete "…, but it <origin>"."""
        return "is not known while the function is traced"

    def _value(self, conversion: str, hint: str) -> Any:
        """The concrete value for a Python conversion; raises ConcretizationError where there is none."""
        value = self.concrete
        if value is None:
            raise errors.ConcretizationError(
                f"{conversion}: a value of type {self.aval} is needed in Python, but it {self.origin()}.",
                source=user_source(),
                hint=hint,
            )
        return value

    def _constant(self, conversion: str, hint: str) -> Any:
        """Like `_value`, for conversions of floats to what can carry no derivative."""
        value = self._value(conversion, hint)
        if dtypes.is_inexact(self.aval.dtype):
            raise errors.ConcretizationError(
                f"{conversion}: a value of type {self.aval} that is being differentiated "
                "would become a constant, and its derivative zero.",
                source=user_source(),
                hint="compute with braze.numpy, or cut the derivative off on purpose with lax.stop_gradient.",
            )
        return value

    def __bool__(self) -> bool:
        return bool(self._value("bool", _HINT_BOOL))

    def __int__(self) -> int:
        return int(self._value("int", _HINT_INT))

    def __index__(self) -> int:
        return operator.index(self._value("index", _HINT_INDEX))

    def __float__(self) -> float:
        return float(self._constant("float", _HINT_FLOAT))

    def __complex__(self) -> complex:
        return complex(self._constant("complex", _HINT_FLOAT))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self._constant("numpy", _HINT_NUMPY), dtype=dtype)

    def item(self, *index: int) -> Any:
        """One element as a Python scalar, where the value is known."""
        return np.asarray(self._constant("item", _HINT_ITEM)).item(*index)

    def tolist(self) -> Any:
        """All elements as nested lists of Python scalars, where the values are known."""
        return np.asarray(self._constant("tolist", _HINT_ITEM)).tolist()

    def __hash__(self) -> int:
        raise TypeError(f"a tracer of type {self.aval} has no hash, because its value is not known")


_HINT_BOOL = (
    "use braze.numpy.where or braze.lax.cond (while_loop for loops), "
    "or make the argument static with jit(..., static_argnums=...)."
)
_HINT_INT = "use x.astype(int) to convert inside the program, or make the argument static."
_HINT_INDEX = (
    "index an array of braze with it, as in braze.numpy.asarray(sequence)[i]; "
    "shapes and axes must be Python ints or static arguments."
)
_HINT_FLOAT = "use x.astype(float) to convert inside the program, or make the argument static."
_HINT_ITEM = "compute with the array itself, or return it and convert what the call gives."
_HINT_NUMPY = "use the function of braze.numpy in place of NumPy's."


class Context(threading.local):
    """The active traces of a thread, innermost last, and the innermost staging trace.

    `source` is the user's line while an operation is replayed or transformed on its behalf, else None.
    """

    def __init__(self) -> None:
        self.stack: list[Trace] = []
        self.dynamic: Trace | None = None
        self.source: Source | None = None


CONTEXT = Context()


@contextlib.contextmanager
def activate(trace: Trace, *, dynamic: bool = False, above: Trace | None = None) -> Iterator[Any]:
    """Make a trace active for the block, at the next higher level.

    Args:
        dynamic: it stages everything, also operations on constants alone.
        above: a trace of this thread that must lie below it (default: whatever is active).
    """
    context = CONTEXT
    before = context.dynamic
    trace.level = (context.stack[-1].level + 1) if context.stack else 0
    trace.alive = True
    trace.thread = threading.get_ident()
    context.stack.append(trace)
    if dynamic:
        context.dynamic = trace
        _staging_changed()
    try:
        yield trace
    finally:
        context.dynamic = before
        if dynamic:
            _staging_changed()
        popped = context.stack.pop()
        assert popped is trace, "traces end in the reverse order of their beginning"
        trace.alive = False


_STAGING_LISTENERS: list[Callable[[], None]] = []


def on_staging(listener: Callable[[], None]) -> None:
    """Call `listener()` whenever a thread begins or ends staging, in that thread (the dispatcher's gate)."""
    _STAGING_LISTENERS.append(listener)


def _staging_changed() -> None:
    for listener in _STAGING_LISTENERS:
        listener()


def is_tracing() -> bool:
    """Whether a staging trace is active in this thread."""
    return CONTEXT.dynamic is not None


EagerHook = Callable[["Op", Sequence[Any], dict[str, Any]], list[Any]]
_EAGER: list[EagerHook] = []


def set_eager(hook: EagerHook) -> None:
    """Set who runs operations outside any trace; called once, by `stages`."""
    _EAGER[:] = [hook]


def bind(op: Op, *args: Any, **attrs: Any) -> Any:
    """Apply an operation to values, by whoever handles it now.

    Returns: one value, or a list of values for an operation with several results.
    Raises: what `infer` raises, with the user's line; LeakedTracerError.
    """
    context = CONTEXT
    handler = context.dynamic
    level = -1 if handler is None else handler.level
    for arg in args:
        if isinstance(arg, Tracer):
            trace = arg._trace
            if not trace.alive or trace.thread != threading.get_ident():
                raise leaked(arg)
            if trace.level > level:
                handler, level = trace, trace.level
    try:
        if handler is not None:
            results = handler.process(op, args, attrs)
        else:
            results = _EAGER[0](op, args, attrs)
    except BrazeError as error:
        if error.source is None:
            error.source = context.source or user_source()
        raise
    return results if op.multiple_results else results[0]


def leaked(tracer: Tracer) -> errors.LeakedTracerError:
    return errors.LeakedTracerError(
        f"tracer: a value of type {tracer.aval} was used after the function that made it had ended.",
        source=user_source(),
        hint="return the value from the function instead of storing it in a global, an attribute or a closure.",
    )


def infer(op: Op, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
    """Result types of an operation, weak flags settled.

    A result is weak when all operands are weak and its dtype is theirs, as in JAX's n-ary rule. Bools are never
    weak and have no say: they are what is chosen by, as in `select_n`.
    An op whose results carry their own flag (`convert_element_type` with `weak_type=True`) sets it in `infer`.
    """
    weak = None
    for t in types:
        if t.weak_type:
            weak = weak or t.dtype
        elif t.dtype != dtypes.BOOL:
            weak = None
            break
    operands = [t.strong if t.weak_type else t for t in types]
    if op.broadcasts:
        operands = broadcast_operands(op, operands)
    found = op.infer(*operands, **attrs)
    results = list(found) if op.multiple_results else [found]
    if weak is not None and op.keeps_weak_type:
        results = [r.with_(weak_type=True) if r.dtype == weak else r for r in results]
    return results


def broadcast_operands(op: Op, types: Sequence[TensorType]) -> list[TensorType]:
    """Operand types of an elementwise primitive at their common shape.

    Primitives take scalars and axes of size 1 beside full operands, as JAX's do; HLO ops do not, so lowering
    broadcasts. Operands that are no scalars must have the same rank.
    Raises: ShapeError.
    """
    first = types[0].shape
    if all(t.shape == first for t in types):
        return list(types)
    shapes = [t.shape for t in types if t.shape]
    if len({len(s) for s in shapes}) > 1:
        raise errors.ShapeError(
            f"{op.title}: operands have {' and '.join(str(len(s)) for s in shapes)} axes.",
            values=", ".join(map(str, types)),
            hint="bring them to the same number of axes, or use braze.numpy, which broadcasts.",
        )
    shape = []
    for axis, sizes in enumerate(zip(*shapes)):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            raise errors.ShapeError(
                f"{op.title} (C1): axis {axis} has sizes {' and '.join(map(str, sizes))}, "
                "which are neither equal nor 1.",
                values=", ".join(map(str, types)),
            )
        shape.append(wide.pop() if wide else 1)
    return [t.with_(shape=shape) for t in types]


def typeof(value: Any) -> TensorType:
    """The type of anything that may be an operand.

    NumPy arrays and NumPy scalars count as named types, Python scalars are weak.
    Raises: DTypeError for what is no array.
    """
    aval = getattr(type(value), "aval", None)
    if aval is not None:
        return value.aval  # type: ignore[no-any-return]
    if isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic):
        return TensorType((), dtypes.scalar_dtype(value), weak_type=not isinstance(value, bool))
    if isinstance(value, np.ndarray | np.generic):
        if _is_masked(value):
            raise errors.DTypeError(
                "argument: a masked array is no array of braze, which would compute with what is masked.",
                hint="pass the mask beside it, or fill it with x.filled(value).",
            )
        return TensorType(value.shape, dtypes.canonical(value.dtype))
    raise errors.DTypeError(
        f"argument: a value of type {type(value).__name__} is not an array.",
        hint="pass arrays, Python scalars, or containers of them registered as pytrees.",
    )


def _is_masked(value: Any) -> bool:
    """Whether it is a masked array, asked without importing `numpy.ma`, which takes 15 ms."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)
