"""The arguments of a jitted function: what `jit` was told about them, and one call's taken apart."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from braze import core, tree
from braze.core import Tracer, typeof
from braze.errors import ArgumentError, ConcretizationError
from braze.record import Record
from braze.trace.calling import argument_names
from braze.trace.make_jaxpr import ShapeDtypeStruct
from braze.types import TensorType


@dataclass(slots=True, eq=False, repr=False)
class Options(Record):
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


def take_apart(
    function: Callable[..., Any], name: str, options: Options, args: Sequence[Any], kwargs: dict[str, Any]
) -> Signature:
    """One call's arguments: statics out, the rest flattened.

    Args:
        name: the function's, for messages.
    Raises: ArgumentError for unhashable statics and for leaves that are no arrays.
    """
    statics: list[tuple[int | str, Any]] = []
    for number in options.static_argnums:
        if number < len(args):
            statics.append((number, _hashable(name, number, args[number])))
    for keyword in options.static_argnames:
        if keyword in kwargs:
            statics.append((keyword, _hashable(name, keyword, kwargs[keyword])))
    fixed = {key for key, _ in statics}
    dynamic = tuple(a for i, a in enumerate(args) if i not in fixed)
    named = {k: v for k, v in kwargs.items() if k not in fixed}
    leaves, in_tree = tree.flatten((dynamic, named))
    try:
        types = tuple([leaf.aval if isinstance(leaf, ShapeDtypeStruct) else typeof(leaf) for leaf in leaves])
    except TypeError:
        _check_leaves(function, name, leaves, args, kwargs, fixed)
        raise
    donated = (False,) * len(leaves)
    if options.donate_argnums or options.donate_argnames:
        donated = _donated(options, args, named, fixed)
    return Signature(leaves, types, in_tree, tuple(statics), donated, tuple(args), kwargs)


def _check_leaves(
    function: Callable[..., Any],
    name: str,
    leaves: Sequence[Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    fixed: set[int | str],
) -> None:
    """Raise with its name for the first leaf that is nothing like an array."""
    for position, leaf in enumerate(leaves):
        if not isinstance(leaf, ShapeDtypeStruct | int | float | complex) and not hasattr(leaf, "__array__"):
            names = dynamic_names(function, args, kwargs, fixed)
            where = names[position] if position < len(names) else f"leaf {position}"
            raise ArgumentError(
                f"{name}: argument {where} is of type {type(leaf).__name__}, which is no array.",
                source=core.user_source(),
                hint="pass arrays or scalars, or name it in static_argnums or static_argnames.",
            ) from None


def _donated(
    options: Options, args: Sequence[Any], named: dict[str, Any], fixed: set[int | str]
) -> tuple[bool, ...]:
    flags: list[bool] = []
    for i, arg in enumerate(args):
        if i not in fixed:
            flags += [i in options.donate_argnums] * len(tree.leaves(arg))
    for name in sorted(named):
        flags += [name in options.donate_argnames] * len(tree.leaves(named[name]))
    return tuple(flags)


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


def static_key(statics: tuple[tuple[int | str, Any], ...]) -> tuple[Any, ...]:
    """Statics as a key, by which equal ones find each other's trace if they trace alike."""
    return tuple((key, _exactly(value)) for key, value in statics)


def _exactly(value: Any) -> Any:
    """A value with what its equality leaves out: 1, 1.0 and True are equal, 0.0 and -0.0 too, also in tuples."""
    if isinstance(value, tuple):
        return type(value), tuple([_exactly(item) for item in value])
    if isinstance(value, float):
        return type(value), value, math.copysign(1.0, value)
    if isinstance(value, complex):
        return type(value), _exactly(value.real), _exactly(value.imag)
    return type(value), value


def dynamic_names(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], fixed: set[int | str]
) -> list[str]:
    """Names of the dynamic leaves, for messages; `fixed` are the static positions and keywords."""
    every = argument_names(function, args, kwargs)
    names: list[str] = []
    position = 0
    keyed: list[tuple[int | str, Any]] = [*enumerate(args), *sorted(kwargs.items())]
    for key, value in keyed:
        count = len(tree.leaves(value))
        names += [] if key in fixed else every[position : position + count]
        position += count
    return names


def completed(function: Callable[..., Any], title: str, options: Options) -> Options:
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
                    f"jit: {what}_argnums={n} names no parameter; {title} has {count} positional ones."
                )
            found_numbers.add(n % count if count is not None else n)
        found_names = set(names)
        for name in found_names:
            if name not in keyword and name not in positional and not anything:
                raise ArgumentError(
                    f"jit: {what}_argnames={name!r} names no parameter of {title}.",
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
