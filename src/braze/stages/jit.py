"""`jit`, and the stages between a Python function and an executable: Wrapped → Traced → Lowered → Compiled.

    f = jit(g)                 Wrapped: callable, with trace, lower and eval_shape
    f.trace(*args)             Traced: the jaxpr
    f.trace(*args).lower()     Lowered: HLO
    ….compile()                Compiled: callable with arguments of the same types

A call goes to the dispatcher (`runtime/dispatch`), which runs entries that fit without coming here. What
comes here is the slow path: take the arguments apart, find or make the program, install an entry, run it; or,
under a transformation, stage the call as one `jit` equation.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np

from braze import core, knobs, tree
from braze.core import Tracer, typeof
from braze.errors import ArgumentError, ConcretizationError
from braze.hlo.lower import LoweredModule, lower
from braze.ops.control import jit as jit_op
from braze.program.records import KernelRecord, MemoryAnalysis
from braze.runtime import dispatch
from braze.stages import calls
from braze.stages.executable import TARGETS, Executable, compile_module, target_of
from braze.target import Target
from braze.trace import jaxpr as jaxprs
from braze.trace.calling import argument_names
from braze.trace.jaxpr import ClosedJaxpr, Equation, Jaxpr
from braze.trace.make_jaxpr import ShapeDtypeStruct
from braze.trace.staging import trace_to_jaxpr
from braze.types import TensorType

Function = TypeVar("Function", bound=Callable[..., Any])

MOST_TRACES = 4096
"""Signatures that one function remembers; the least recently used go first."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `jit` was told."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()
    keep_unused: bool = False
    inline: bool = False
    target: str | None = None
    fast_math: bool | None = None
    sourceless: bool = False
    """Equations take the line of the call: for braze's own functions, which are traced once for all callers."""


@dataclass(slots=True)
class Signature:
    """One call's arguments, taken apart.

    Attributes:
        leaves: the dynamic leaves; types: their types; in_tree: structure of (args, kwargs) without statics.
        statics: positions and names of static arguments with their values.
        donated: per leaf.
    """

    leaves: list[Any]
    types: tuple[TensorType, ...]
    in_tree: tree.PyTreeDef
    statics: tuple[tuple[int | str, Any], ...]
    donated: tuple[bool, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Wrapped:
    """What `jit` knows about a function; the callable itself is the dispatcher's (`dispatch.make_function`)."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.function = function
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self.options = _completed(function, options)
        self.callable: Any = None
        self._traces: OrderedDict[Any, Traced] = OrderedDict()
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
        """Arguments taken apart: statics out, the rest flattened.

        Raises: ArgumentError for unhashable statics and for leaves that are no arrays.
        """
        options = self.options
        statics: list[tuple[int | str, Any]] = []
        for number in options.static_argnums:
            if number < len(args):
                statics.append((number, _hashable(self.name, number, args[number])))
        for name in options.static_argnames:
            if name in kwargs:
                statics.append((name, _hashable(self.name, name, kwargs[name])))
        static_numbers = {key for key, _ in statics}
        dynamic = tuple(a for i, a in enumerate(args) if i not in static_numbers)
        named = {k: v for k, v in kwargs.items() if k not in static_numbers}
        leaves, in_tree = tree.flatten((dynamic, named))
        types = tuple(
            map(self._leaf_type, leaves, range(len(leaves)), [args] * len(leaves), [kwargs] * len(leaves))
        )
        donated = self._donated(args, kwargs, static_numbers) if self._donates else (False,) * len(leaves)
        return Signature(leaves, types, in_tree, tuple(statics), donated, tuple(args), kwargs)

    def _leaf_type(self, leaf: Any, position: int, args: Sequence[Any], kwargs: dict[str, Any]) -> TensorType:
        if isinstance(leaf, ShapeDtypeStruct):
            return leaf.aval
        try:
            return typeof(leaf)
        except TypeError as error:
            if isinstance(leaf, str) or not hasattr(leaf, "__array__"):
                names = argument_names(self.function, args, kwargs)
                where = names[position] if position < len(names) else f"leaf {position}"
                raise ArgumentError(
                    f"{self.name}: argument {where} is of type {type(leaf).__name__}, which is no array.",
                    source=core.user_source(),
                    hint="pass arrays or scalars, or name it in static_argnums or static_argnames.",
                ) from error
            raise

    @property
    def _donates(self) -> bool:
        return bool(self.options.donate_argnums or self.options.donate_argnames)

    def _donated(
        self, args: Sequence[Any], kwargs: dict[str, Any], statics: set[int | str]
    ) -> tuple[bool, ...]:
        flags: list[bool] = []
        for i, arg in enumerate(args):
            if i not in statics:
                flags += [i in self.options.donate_argnums] * len(tree.leaves(arg))
        named = {k: v for k, v in kwargs.items() if k not in statics}
        for name in sorted(named):
            flags += [name in self.options.donate_argnames] * len(tree.leaves(named[name]))
        return tuple(flags)

    def traced(self, signature: Signature) -> Traced:
        """The trace of a signature, made once; what captures tracers of outer functions is not kept."""
        target = self.options.target or knobs.get("target")
        key = (
            signature.in_tree,
            signature.types,
            _static_key(signature.statics),
            signature.donated,
            knobs.keyed(),
            target,
        )
        with self._lock:
            found = self._traces.get(key)
            if found is not None:
                self._traces.move_to_end(key)
                return found
        made = self._trace(signature)
        if not any(isinstance(c, Tracer) for c in made.closed.consts):
            with self._lock:
                made = self._traces.setdefault(key, made)
                while len(self._traces) > MOST_TRACES:
                    self._traces.popitem(last=False)
        return made

    def _trace(self, signature: Signature) -> Traced:
        statics = dict(signature.statics)

        def call(*dynamic: Any, **named: Any) -> Any:
            given = iter(dynamic)
            count = len(signature.args)
            args = [statics[i] if i in statics else next(given) for i in range(count)]
            return self.function(*args, **named, **{k: v for k, v in statics.items() if isinstance(k, str)})

        def names() -> list[str]:
            return _dynamic_names(self.function, signature)

        closed, out_tree = trace_to_jaxpr(
            call, signature.types, in_tree=signature.in_tree, name=self.name, names=names
        )
        if self.options.sourceless:
            closed = _without_sources(closed)
        return Traced(self, closed, signature.in_tree, out_tree, signature.donated)

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


def _completed(function: Callable[..., Any], options: Options) -> Options:
    """Options with numbers for names and names for numbers, as far as the signature tells.

    Raises: ArgumentError for names that are no parameters.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return options
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keyword = {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
    count = None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(positional)

    def both(
        what: str, numbers: Iterable[int], names: Iterable[str]
    ) -> tuple[tuple[int, ...], tuple[str, ...]]:
        found_numbers = set()
        for n in numbers:
            if count is not None and not -count <= n < count:
                raise ArgumentError(
                    f"jit: {what}_argnums={n} names no parameter; {function.__name__} has {count} positional ones."
                )
            found_numbers.add(n % count if count is not None else n)
        found_names = set(names)
        for name in found_names:
            if name not in keyword and name not in positional and not anything:
                raise ArgumentError(
                    f"jit: {what}_argnames={name!r} names no parameter of {function.__name__}.",
                    hint=f"parameters: {', '.join(p.name for p in parameters)}.",
                )
        numbers_of_names = {positional.index(n) for n in found_names if n in positional}
        names_of_numbers = {
            positional[n] for n in found_numbers if n < len(positional) and positional[n] in keyword
        }
        return tuple(sorted(found_numbers | numbers_of_names)), tuple(sorted(found_names | names_of_numbers))

    static = both("static", options.static_argnums, options.static_argnames)
    donate = both("donate", options.donate_argnums, options.donate_argnames)
    if set(static[0]) & set(donate[0]):
        raise ArgumentError(
            "jit: an argument is static and donated at once; a static has no memory to donate."
        )
    return replace(
        options,
        static_argnums=static[0],
        static_argnames=static[1],
        donate_argnums=donate[0],
        donate_argnames=donate[1],
    )


def _hashable(name: str, which: int | str, value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        shown = f"argument {which}" if isinstance(which, int) else f"argument {which!r}"
        if isinstance(value, Tracer):
            raise ConcretizationError(
                f"{name}: static {shown} is known only when the program runs.", source=core.user_source()
            ) from None
        raise ArgumentError(
            f"{name}: static {shown} is of type {type(value).__name__}, which has no hash; programs are found by "
            "the hash and equality of statics.",
            source=core.user_source(),
            hint="pass a tuple instead of a list, or make it an ordinary argument.",
        ) from None
    return value


def _static_key(statics: tuple[tuple[int | str, Any], ...]) -> tuple[Any, ...]:
    """Statics as a key; the type is part of it, since 1, 1.0 and True are equal but trace differently."""
    return tuple((key, type(value), value) for key, value in statics)


def _dynamic_names(function: Callable[..., Any], signature: Signature) -> list[str]:
    """Names of the dynamic leaves, for messages."""
    every = argument_names(function, signature.args, signature.kwargs)
    statics = {key for key, _ in signature.statics}
    names: list[str] = []
    position = 0
    for i, arg in enumerate(signature.args):
        count = len(tree.leaves(arg))
        names += [] if i in statics else every[position : position + count]
        position += count
    for key in sorted(signature.kwargs):
        count = len(tree.leaves(signature.kwargs[key]))
        names += [] if key in statics else every[position : position + count]
        position += count
    return names


class Traced:
    """A function at argument types: its jaxpr."""

    def __init__(
        self,
        wrapped: Wrapped,
        closed: ClosedJaxpr,
        in_tree: tree.PyTreeDef,
        out_tree: tree.PyTreeDef,
        donated: tuple[bool, ...],
    ) -> None:
        self.wrapped = wrapped
        self.closed = closed
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.donated = donated
        self._lifted: tuple[ClosedJaxpr, list[Any]] | None = None
        self._compiled: Compiled | None = None
        self._lock = threading.Lock()

    @property
    def jaxpr(self) -> ClosedJaxpr:
        return self.closed

    @property
    def fun_name(self) -> str:
        return self.wrapped.name

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the result."""
        return self.out_tree.unflatten(
            [ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak_type) for t in self.closed.out_avals]
        )

    @property
    def lifted(self) -> tuple[ClosedJaxpr, list[Any]]:
        """The jaxpr with captured tracers as leading inputs, and those tracers."""
        if self._lifted is None:
            self._lifted = jaxprs.lift_tracers(self.closed)
        return self._lifted

    def lower(self) -> Lowered:
        """Lower the jaxpr to HLO."""
        options = self.wrapped.options
        lowered = lower(self.closed, self.wrapped.name, donated=self.donated, keep_unused=options.keep_unused)
        return Lowered(self, lowered)

    def compiled(self) -> Compiled:
        """The compiled function, made once."""
        if self._compiled is None:
            with self._lock:
                if self._compiled is None:
                    self._compiled = self.lower().compile()
        return self._compiled

    def as_text(self, stage: str = "jaxpr", *, source: bool = False) -> str:
        """The jaxpr's text; `source=True` adds the user's lines."""
        if stage != "jaxpr":
            raise ArgumentError(f"as_text: a traced function has no stage {stage!r}.", hint="stages: jaxpr.")
        from braze.trace.text import text

        return text(self.closed, source=source)


class Lowered:
    """A function at argument types: its HLO."""

    def __init__(self, traced: Traced, lowered: LoweredModule) -> None:
        self.traced = traced
        self.lowered = lowered

    @property
    def module(self) -> Any:
        return self.lowered.module

    @property
    def in_tree(self) -> tree.PyTreeDef:
        return self.traced.in_tree

    @property
    def out_tree(self) -> tree.PyTreeDef:
        return self.traced.out_tree

    def as_text(self, stage: str = "hlo") -> str:
        """The text of the jaxpr or of the HLO."""
        if stage == "jaxpr":
            return self.traced.as_text()
        if stage != "hlo":
            raise ArgumentError(
                f"as_text: a lowered function has no stage {stage!r}.", hint="stages: jaxpr, hlo."
            )
        from braze.hlo.text import print_module

        return print_module(self.lowered.module)

    def compile(self) -> Compiled:
        """Compile for the target."""
        options = self.traced.wrapped.options
        target = target_of(options.target)
        fast_math = knobs.get("fast_math") if options.fast_math is None else options.fast_math
        executable = compile_module(self.lowered.module, target, fast_math)
        return Compiled(self, executable)


class Compiled:
    """A function compiled for argument types; call it with arguments of these types."""

    def __init__(self, lowered: Lowered, executable: Executable) -> None:
        self.lowered = lowered
        self.executable = executable
        self.plan = calls.Plan(self)
        self.keep: Any = None
        """What must live as long."""

    @property
    def traced(self) -> Traced:
        return self.lowered.traced

    @property
    def target(self) -> Target:
        return self.executable.target

    @property
    def in_tree(self) -> tree.PyTreeDef:
        return self.traced.in_tree

    @property
    def out_tree(self) -> tree.PyTreeDef:
        return self.traced.out_tree

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run on leaves of the right types and build the result."""
        return self.plan.run(leaves)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arguments of the types it was compiled for, without the static ones.

        Raises: ArgumentError for another structure, ShapeError or DTypeError for other types.
        """
        with core.user_line():
            leaves, in_tree = tree.flatten((args, kwargs))
            self._check(leaves, in_tree)
            return self.run(leaves)

    def _check(self, leaves: Sequence[Any], in_tree: tree.PyTreeDef) -> None:
        name = self.traced.wrapped.name
        if in_tree != self.in_tree:
            raise ArgumentError(
                f"{name}: it was compiled for arguments {self.in_tree}, called with {in_tree}.",
                hint="call the jitted function itself, which compiles for each structure.",
            )
        for i, (leaf, wanted) in enumerate(zip(leaves, self.traced.closed.in_avals, strict=True)):
            if isinstance(leaf, Tracer):
                raise ConcretizationError(
                    f"{name}: leaf {i} is known only when the program runs; a compiled function runs at once.",
                    hint="call the jitted function itself, which becomes part of the program.",
                )
            found = typeof(leaf)
            if found.strong is not wanted.strong:
                raise ArgumentError(
                    f"{name}: leaf {i} was compiled as {wanted}, called with {found}.",
                    hint="call the jitted function itself, which compiles for each type.",
                )

    @property
    def kernels(self) -> tuple[KernelRecord, ...]:
        return self.executable.kernels

    @property
    def fusion_decisions(self) -> Any:
        return self.executable.fusion_decisions

    def cost_analysis(self) -> dict[str, float]:
        return self.executable.cost_analysis()

    def memory_analysis(self) -> MemoryAnalysis:
        return self.executable.memory_analysis()

    def as_text(self, stage: str = "hlo-opt") -> str:
        """The text of any stage: `jaxpr`, `hlo`, `hlo-opt`, and on the CPU `program`, `kernel`, `llvm`, `asm`."""
        if stage == "jaxpr":
            return self.traced.as_text()
        if stage not in self.executable.stages:
            raise ArgumentError(
                f"as_text: there is no stage {stage!r} on target {self.target.name!r}.",
                hint=f"stages: jaxpr, {', '.join(self.executable.stages)}.",
            )
        return self.executable.as_text(stage)

    def __repr__(self) -> str:
        return f"<Compiled {self.traced.wrapped.name} for {self.target.name}>"


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int | str | np.integer) else tuple(value)


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
        tuple(int(n) for n in _as_tuple(static_argnums)),
        tuple(_as_tuple(static_argnames)),
        tuple(int(n) for n in _as_tuple(donate_argnums)),
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


@dataclass(frozen=True, slots=True)
class FunctionCacheInfo:
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
