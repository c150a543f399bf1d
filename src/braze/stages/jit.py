"""`jit`: a function that is traced and compiled at its first call with each signature.

A call goes to the dispatcher (`runtime/dispatch`), which runs entries that fit without coming here. What
comes here is the slow path: take the arguments apart, find or make the program, install an entry, run it; or,
under a transformation, stage the call as one `jit` equation.
"""

from __future__ import annotations

import functools
import inspect
import operator
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from braze import core, knobs
from braze.cache.explain import Parts
from braze.core import Tracer
from braze.errors import ArgumentError
from braze.ops.control import jit as jit_op
from braze.record import Record
from braze.runtime import dispatch
from braze.stages import calls, report
from braze.stages.arguments import Options, Signature, completed, dynamic_names, static_key, take_apart
from braze.stages.executable import TARGETS
from braze.stages.traced import Compiled, Lowered, Traced
from braze.trace import jaxpr as jaxprs
from braze.trace.jaxpr import ClosedJaxpr, Equation, Jaxpr
from braze.trace.make_jaxpr import ShapeDtypeStruct
from braze.trace.staging import trace_to_jaxpr

Function = TypeVar("Function", bound=Callable[..., Any])

MOST_TRACES = 4096
"""Signatures that one function remembers; the least recently used go first."""


class Wrapped:
    """What `jit` knows about a function; the callable itself is the dispatcher's (`dispatch.make_function`)."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.function = function
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self.options = completed(function, self.name, options)
        self.callable: Any = None
        self._traces: OrderedDict[Any, Traced] = OrderedDict()
        self._told: list[Parts] = []
        self._lock = threading.RLock()

    # The slow path ------------------------------------------------------------------------------

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Everything that no entry took."""
        with core.user_line():
            signature = self.signature(args, kwargs)
            if core.is_tracing() or any(isinstance(leaf, Tracer) for leaf in signature.leaves):
                return self._stage(signature)
            self._check_values(signature.leaves)
            compiled = self.compiled(signature)
            calls.install(self.callable, compiled, signature)
            return compiled.run(signature.leaves)

    def _check_values(self, leaves: Sequence[Any]) -> None:
        for leaf in leaves:
            if isinstance(leaf, ShapeDtypeStruct):
                raise ArgumentError(
                    f"{self.name}: {leaf} has no values to call the function with.",
                    hint="pass arrays, or look at the types of the result with eval_shape.",
                )

    def _stage(self, signature: Signature) -> Any:
        traced = self.traced(signature)
        closed, captured = traced.lifted
        values = [*captured, *signature.leaves]
        if self.options.inline:
            results = jaxprs.evaluate(closed.jaxpr, closed.consts, *values)
        else:
            donated = (*[False] * len(captured), *signature.donated)
            results = core.bind(
                jit_op,
                *values,
                jaxpr=closed,
                name=self.name,
                inline=False,
                donated_invars=donated,
                keep_unused=self.options.keep_unused,
            )
        return traced.out_tree.unflatten(results)

    # Stages -------------------------------------------------------------------------------------

    def signature(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Signature:
        """One call's arguments, taken apart."""
        return take_apart(self.function, self.name, self.options, args, kwargs)

    def traced(self, signature: Signature) -> Traced:
        """The trace of a signature, made once; what captures tracers of outer functions is not kept."""
        target = self.options.target or knobs.get("target")
        key = (
            signature.in_tree,
            signature.types,
            static_key(signature.statics),
            signature.donated,
            knobs.keyed(),
            target,
        )
        with self._lock:
            found = self._traces.get(key)
            if found is not None:
                self._traces.move_to_end(key)
                return found
        # A function of braze that runs as one, such as `where`, is no program of the user's.
        if knobs.get("debug") and not self.options.sourceless:
            parts = self._parts(signature)
            report.tell_miss(self.name, parts, self._told)
            self._told.append(parts)
        made = self._trace(signature)
        if not any(isinstance(c, Tracer) for c in made.closed.consts):
            with self._lock:
                made = self._traces.setdefault(key, made)
                while len(self._traces) > MOST_TRACES:
                    self._traces.popitem(last=False)
        return made

    def _parts(self, signature: Signature) -> Parts:
        """The signature as named texts, to tell what changed."""
        statics = dict(signature.statics)
        names = dynamic_names(self.function, signature.args, signature.kwargs, set(statics))
        parts = [
            (name, repr(t) + " weak" * t.weak_type) for name, t in zip(names, signature.types, strict=True)
        ]
        parts += [(f"static {key}", repr(value)) for key, value in statics.items()]
        parts += [("structure", str(signature.in_tree)), *((k, repr(v)) for k, v in knobs.keyed())]
        return tuple(parts)

    def _trace(self, signature: Signature) -> Traced:
        statics = dict(signature.statics)

        def call(*dynamic: Any, **named: Any) -> Any:
            given = iter(dynamic)
            count = len(signature.args)
            args = [statics[i] if i in statics else next(given) for i in range(count)]
            return self.function(*args, **named, **{k: v for k, v in statics.items() if isinstance(k, str)})

        def names() -> list[str]:
            return dynamic_names(self.function, signature.args, signature.kwargs, set(statics))

        closed, out_tree = trace_to_jaxpr(
            call, signature.types, in_tree=signature.in_tree, name=self.name, names=names
        )
        if self.options.sourceless:
            closed = _without_sources(closed)
        return Traced(self.name, self.options, closed, signature.in_tree, out_tree, signature.donated)

    def compiled(self, signature: Signature) -> Compiled:
        return self.traced(signature).compiled()

    def known(self) -> list[Traced]:
        """The traces that are remembered, the least recently used first."""
        with self._lock:
            return list(self._traces.values())

    def clear(self) -> None:
        """Forget them, and the dispatcher's entries."""
        with self._lock:
            self._traces.clear()
        dispatch.clear_entries(self.callable)


def _without_sources(closed: ClosedJaxpr) -> ClosedJaxpr:
    inner = closed.jaxpr
    eqns = [Equation(e.op, e.inputs, e.outputs, e.attrs) for e in inner.eqns]
    return ClosedJaxpr(Jaxpr(inner.constvars, inner.invars, eqns, inner.outvars), closed.consts)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int | str | np.integer) else tuple(value)


def _numbers(option: str, value: Any) -> tuple[int, ...]:
    """Positions of parameters; raises ArgumentError for what counts nothing."""
    try:
        return tuple(operator.index(n) for n in _as_tuple(value))
    except TypeError:
        raise ArgumentError(
            f"jit: {option}={value!r}; an integer or a sequence of integers is wanted.",
            hint=f"names go into {option.removesuffix('nums')}names.",
        ) from None


def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    inline: bool = False,
    target: str | None = None,
    fast_math: bool | None = None,
) -> Any:
    """Compile a function at its first call with each signature; later calls run the machine code.

    Args:
        static_argnums, static_argnames: arguments whose values are part of the program; they must be hashable.
        donate_argnums, donate_argnames: arguments whose memory the results may take; they are deleted.
        keep_unused: whether arguments that the function does not use stay parameters of the program.
        inline: whether a call inside another jitted function is written out there.
        target: `cpu` or `numpy`; the knob's without one.
        fast_math: allow rules that reassociate or contract.
    Raises: ArgumentError for options that name no parameter.

    >>> import braze.numpy as bnp
    >>> jit(lambda x: x * x + 2.0)(bnp.array([1.0, 2.0]))
    Array([3., 6.], dtype=float32)
    """
    if target not in (None, *TARGETS):
        raise ArgumentError(f"jit: {target!r} is not a target.", hint=f"targets: {', '.join(TARGETS)}.")
    options = Options(
        _numbers("static_argnums", static_argnums),
        tuple(_as_tuple(static_argnames)),
        _numbers("donate_argnums", donate_argnums),
        tuple(_as_tuple(donate_argnames)),
        keep_unused,
        inline,
        target,
        fast_math,
    )
    if fun is None:
        return lambda f: _jitted(f, options)
    return _jitted(fun, options)


def _jitted(function: Any, options: Options) -> Any:
    if not callable(function):
        raise ArgumentError(f"jit: a function is wanted, not {type(function).__name__}.")
    wrapped = Wrapped(function, options)
    made = dispatch.make_function(wrapped.call, function)
    wrapped.callable = made
    made._wrapped = wrapped
    return made


def composed(*static_argnames: str) -> Callable[[Function], Function]:
    """`jit(inline=True)` for public functions of several operations, so that they run as one program.

    The jitted function is made at the first call: importing braze loads no machine code.

    Args:
        static_argnames: static arguments; names that are no parameters are passed over.
    """

    def decorate(fun: Function) -> Function:
        known = inspect.signature(fun).parameters
        static = tuple(n for n in static_argnames if n in known)
        options = Options(static_argnames=static, inline=True, sourceless=True)
        made: list[Any] = []

        @functools.wraps(fun)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not made:
                made.append(_jitted(fun, options))
            return made[0](*args, **kwargs)

        return cast(Function, call)

    return decorate


# Methods of jitted functions ----------------------------------------------------------------------


def _trace_method(self: Any, *args: Any, **kwargs: Any) -> Traced:
    """Trace the function at the types of the arguments."""
    with core.user_line():
        wrapped: Wrapped = self._wrapped
        return wrapped.traced(wrapped.signature(args, kwargs))


def _lower_method(self: Any, *args: Any, **kwargs: Any) -> Lowered:
    """Trace and lower the function at the types of the arguments."""
    with core.user_line():
        return _trace_method(self, *args, **kwargs).lower()


def _eval_shape_method(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of the result, without computing it."""
    with core.user_line():
        return _trace_method(self, *args, **kwargs).out_info


@dataclass(slots=True, eq=False, repr=False)
class FunctionCacheInfo(Record):
    """What a jitted function remembers.

    Attributes:
        traces: signatures that were traced; `types` has the types of each one's arguments.
        entries: signatures that the dispatcher tries before it asks the slow path.
    """

    traces: int
    entries: int
    types: tuple[str, ...]


def _cache_info_method(self: Any) -> FunctionCacheInfo:
    """How many signatures the function knows."""
    wrapped: Wrapped = self._wrapped
    shown = tuple(", ".join(map(str, t.closed.in_avals)) for t in wrapped.known())
    return FunctionCacheInfo(len(shown), len(dispatch.entries(self)), shown)


def _clear_cache_method(self: Any) -> None:
    """Forget all signatures; the next call traces anew."""
    self._wrapped.clear()


def _install_methods(kind: Any) -> None:
    kind.trace = _trace_method
    kind.lower = _lower_method
    kind.eval_shape = _eval_shape_method
    kind.cache_info = _cache_info_method
    kind.clear_cache = _clear_cache_method


dispatch.on_type(_install_methods)
