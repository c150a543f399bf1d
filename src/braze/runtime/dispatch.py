"""Calls: from the arguments of a jitted function to its results, past everything that was settled before.

`make_function` gives a callable with a list of entries. An entry says what arguments it is for, leaf by leaf,
and what program to run; the first that fits is run, in machine code (`dispatch_native`) or in Python
(`dispatch_python`). Where none fits, the function's slow path is called with the same arguments; it finds or
compiles the program and adds an entry.

Invariants:
- An entry never runs for arguments that the slow path would treat in another way: tracers, deleted arrays,
  other dtypes, weak types, shapes, containers, statics and settings miss.
- While a thread stages, its calls go the slow way, which stages them.
- At most `MOST_ENTRIES` are tried; the slow path keeps the rest in a dict and adds again what is called again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np

from braze import core, dtypes
from braze.errors import AllocationError, InternalError
from braze.runtime import array as arrays
from braze.runtime import trees
from braze.runtime.descriptor import NO_MEMORY, Descriptor
from braze.tree import PyTreeDef
from braze.types import TensorType

MOST_ENTRIES = 8


class Kind(IntEnum):
    """How a leaf is recognised."""

    ARRAY = 0
    FLOAT = 1
    INT = 2
    BOOL = 3
    COMPLEX = 4
    NDARRAY = 5
    SCALAR = 6  # of NumPy
    STATIC = 7


@dataclass(slots=True, eq=False)
class Leaf:
    """The test for one leaf of the arguments, and where its value goes.

    Attributes:
        kind: the kind of object; a braze array of the type `aval` passes in place of any other kind.
        aval: its type; for Python scalars a weak one. None for statics.
        parameter: which parameter of the program it is, or None where the program does not use it.
        donated: a braze array is deleted by the call.
        value: the static itself; only this very object passes.
    """

    kind: Kind
    aval: TensorType | None = None
    parameter: int | None = None
    donated: bool = False
    value: Any = None


@dataclass(slots=True, eq=False)
class Entry:
    """One signature of a jitted function and its program.

    Attributes:
        positional: number of positional arguments.
        keywords: names of the keyword arguments in the order of the call.
        arguments: structures of the arguments, positional ones first, then by `keywords`.
        leaves: one test for every leaf of these, in order.
        results, result: types of the program's results, and the structure they are put in.
        descriptor: the program.
        captured: arrays that are parameters of the program without being arguments, by parameter.
        aliases: result to the donated parameter whose memory it takes.
        epoch: `knobs.epoch()` of the configuration it was made under.
        name: of the function, for errors.
        keep: what must live as long as the entry (the executable).
    """

    positional: int
    keywords: tuple[str, ...]
    arguments: tuple[PyTreeDef, ...]
    leaves: tuple[Leaf, ...]
    results: tuple[TensorType, ...]
    result: PyTreeDef
    descriptor: Descriptor
    captured: Mapping[int, Any] = field(default_factory=dict)
    aliases: Mapping[int, int] = field(default_factory=dict)
    epoch: int = 0
    name: str = "function"
    keep: Any = None

    @property
    def parameters(self) -> int:
        """How many parameters the program has."""
        return len(self.captured) + sum(leaf.parameter is not None for leaf in self.leaves)

    @property
    def donates(self) -> bool:
        return any(leaf.donated for leaf in self.leaves)

    def source_of(self, result: int) -> int | None:
        """The leaf whose memory a result takes, or None."""
        parameter = self.aliases.get(result)
        if parameter is None:
            return None
        for index, leaf in enumerate(self.leaves):
            if leaf.parameter == parameter:
                assert leaf.donated and leaf.aval, "only donated memory is aliased"
                assert leaf.aval.nbytes == self.results[result].nbytes, "a result fits the memory it takes"
                return index
        raise AssertionError("captured arrays are not donated")


def can_enter(arguments: tuple[PyTreeDef, ...]) -> bool:
    """Whether arguments of these structures can have an entry: nothing but tuples, named tuples, lists, None,
    and dicts with str or int keys."""
    return trees.arguments(arguments) is not None


def leaf_for(value: Any, parameter: int | None, *, donated: bool = False) -> Leaf | None:
    """The test that recognises values like this one, or None for a value that no test recognises.

    Raises: what `core.typeof` raises for a value that is no array.
    """
    kind = type(value)
    if arrays.is_array(value):
        return Leaf(Kind.ARRAY, value.aval, parameter, donated)
    scalar = {float: Kind.FLOAT, int: Kind.INT, bool: Kind.BOOL, complex: Kind.COMPLEX}.get(kind)
    if scalar is not None:
        return Leaf(scalar, core.typeof(value), parameter, donated)
    aval = core.typeof(value)
    # Equal dtypes that are other objects (`long long` beside `long`) and other layouts would never pass.
    if kind is np.ndarray and value.dtype is standard(aval.dtype):
        if value.flags.c_contiguous and value.flags.aligned:
            return Leaf(Kind.NDARRAY, aval, parameter, donated)
    elif kind is aval.dtype.type:
        return Leaf(Kind.SCALAR, aval, parameter, donated)
    return None


def standard(dtype: dtypes.DType) -> dtypes.DType:
    """The one object for this dtype that NumPy's own arrays share."""
    return np.dtype(dtype.type)


def static_leaf(value: Any) -> Leaf:
    """The test that lets exactly this object pass."""
    return Leaf(Kind.STATIC, value=value)


class Functions(Protocol):
    """What an implementation of the dispatcher provides."""

    name: str
    kind: type

    def make(self, slow: Callable[..., Any], attributes: dict[str, Any]) -> Any:
        """A callable without entries, with these attributes."""

    def set_entries(self, function: Any, entries: tuple[Entry, ...]) -> None:
        """Replace the entries, first to be tried first."""

    def entries(self, function: Any) -> tuple[Entry, ...]:
        """The entries in the order in which they are tried."""


_CHOSEN: list[Functions] = []
_BY_TYPE: dict[type, Functions] = {}
_INSTALLERS: list[Callable[[type], None]] = []


def implementation() -> Functions:
    """The implementation that new functions get; it goes with the array's."""
    if not _CHOSEN:
        from braze.runtime import native

        loaded = native.load()
        _CHOSEN.append(python_implementation() if loaded is None else known(loaded.functions))
    return _CHOSEN[0]


def python_implementation() -> Functions:
    """The implementation in Python, whether it is in use or not."""
    from braze.runtime.dispatch_python import FUNCTIONS

    return known(FUNCTIONS)


def known(made: Functions) -> Functions:
    """Take note of an implementation and set what is to be set on its type."""
    if made.kind not in _BY_TYPE:
        _BY_TYPE[made.kind] = made
        for install in _INSTALLERS:
            install(made.kind)
    return made


def on_type(install: Callable[[type], None]) -> None:
    """Call `install(type)` for every type of jitted function, now or when it is made; it sets methods."""
    _INSTALLERS.append(install)
    for kind in _BY_TYPE:
        install(kind)


def is_function(value: object) -> bool:
    """Whether a value was made by `make_function`."""
    return type(value) in _BY_TYPE


def make_function(
    slow: Callable[..., Any], wrapped: Callable[..., Any], *, functions: Functions | None = None
) -> Any:
    """Make a callable that tries its entries and else calls `slow(*args, **kwargs)`.

    It has the name, docstring and attributes of `wrapped`, which is its `__wrapped__`, and binds to instances
    as a function does.
    """
    attributes: dict[str, Any] = {
        name: getattr(wrapped, name) for name in functools.WRAPPER_ASSIGNMENTS if hasattr(wrapped, name)
    }
    attributes |= getattr(wrapped, "__dict__", {})
    attributes["__wrapped__"] = wrapped
    return (functions or implementation()).make(slow, attributes)


def add_entry(function: Any, entry: Entry) -> None:
    """Put an entry in front; of more than `MOST_ENTRIES`, the last are dropped."""
    implemented = _BY_TYPE[type(function)]
    others = tuple(other for other in implemented.entries(function) if other is not entry)
    implemented.set_entries(function, (entry, *others)[:MOST_ENTRIES])


def clear_entries(function: Any) -> None:
    """Drop all entries."""
    _BY_TYPE[type(function)].set_entries(function, ())


def entries(function: Any) -> tuple[Entry, ...]:
    """The entries in the order in which they are tried."""
    return _BY_TYPE[type(function)].entries(function)


def raise_bad_status(entry: Entry, status: int) -> None:
    """Raise the error for a status that a program ended with (`descriptor`)."""
    if status == NO_MEMORY:
        raise AllocationError(
            f"{entry.name}: {entry.descriptor.lease_bytes} bytes for temporaries could not be allocated."
        )
    raise InternalError(f"{entry.name} ended with status {status}", stage="program")


def _repr(self: Any) -> str:
    return f"<jit of {getattr(self, '__qualname__', 'function')}>"


def _install_repr(kind: Any) -> None:
    kind.__repr__ = _repr


on_type(_install_repr)
