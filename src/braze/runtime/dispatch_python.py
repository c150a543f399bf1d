"""The dispatcher in Python, for interpreters that the machine code does not know.

It does what `dispatch_native` does, step by step and with the same names, an order of magnitude slower. The
program still decides about the GIL itself, in `braze_call`.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import core, knobs
from braze.runtime import array as arrays
from braze.runtime import trees
from braze.runtime.descriptor import OK
from braze.runtime.dispatch import Entry, Kind, Leaf, raise_bad_status

_INT_RANGE = {4: (-(1 << 31), (1 << 31) - 1), 8: (-(1 << 63), (1 << 63) - 1)}
_SCALARS = {Kind.FLOAT: float, Kind.INT: int, Kind.BOOL: bool, Kind.COMPLEX: complex}


class JitFunction:
    """A callable with entries and a slow path."""

    __module__ = "braze"

    _slow: Callable[..., Any]
    _entries: tuple[Entry, ...]

    def __new__(cls, *args: object, **kwargs: object) -> JitFunction:
        raise TypeError("cannot create 'braze.JitFunction' instances")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._entries and not core.is_tracing():
            epoch, names = knobs.epoch(), tuple(kwargs)
            for entry in self._entries:
                if entry.positional != len(args) or entry.keywords != names or entry.epoch != epoch:
                    continue
                leaves = entry_match(entry, (*args, *kwargs.values()))
                if leaves is not None:
                    return entry_run(entry, leaves)
        return self._slow(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)


def _flatten(program: trees.Program, values: Sequence[Any]) -> list[Any] | None:
    """The leaves of the arguments, or None where their structure differs."""
    leaves: list[Any] = []
    words = iter(program)

    def take(value: Any) -> bool:
        word = next(words)
        kind = type(value)
        if word == trees.LEAF:
            leaves.append(value)
            return True
        if word == trees.NONE:
            return value is None
        if word == trees.DICT:
            count = next(words)
            return kind is dict and len(value) == count and all(take_key(value) for _ in range(count))
        expected: Any = {trees.TUPLE: tuple, trees.LIST: list}.get(word)  # type: ignore[call-overload]
        if expected is None:
            expected = next(words).value  # type: ignore[union-attr]
        count = next(words)
        return kind is expected and len(value) == count and all(take(child) for child in value)

    def take_key(value: dict[Any, Any]) -> bool:
        key = next(words).value  # type: ignore[union-attr]
        return key in value and take(value[key])

    return leaves if all(take(value) for value in values) else None


def _build(program: trees.Program, results: Sequence[Any]) -> Any:
    """The container of a call's results."""
    words, remaining = iter(program), iter(results)

    def make() -> Any:
        word = next(words)
        if word == trees.LEAF:
            return next(remaining)
        if word == trees.NONE:
            return None
        if word == trees.DICT:
            return {next(words).value: make() for _ in range(next(words))}  # type: ignore[arg-type, union-attr]
        call = (next(words).value, next(words).value) if word == trees.CALL else None  # type: ignore[union-attr]
        children = [make() for _ in range(next(words))]  # type: ignore[arg-type]
        if call is not None:
            unflatten, aux = call
            return unflatten(aux, tuple(children))
        return tuple(children) if word == trees.TUPLE else children

    return make()


def entry_match(entry: Entry, values: Sequence[Any]) -> list[Any] | None:
    """The leaves of the arguments, or None if the entry is not for them."""
    program = trees.arguments(entry.arguments)
    assert program is not None, "the caller asked `can_enter`"
    leaves = _flatten(program, values)
    if leaves is None or not all(map(_passes, entry.leaves, leaves)):
        return None
    return leaves


def _passes(leaf: Leaf, value: Any) -> bool:
    kind = type(value)
    if arrays.is_array(value):
        return arrays.state(value) is leaf.aval
    aval = leaf.aval
    if aval is None:
        return value is leaf.value
    if leaf.kind in _SCALARS:
        if kind is not _SCALARS[leaf.kind]:
            return False
        least, most = _INT_RANGE.get(aval.nbytes, (0, 0))
        return leaf.kind is not Kind.INT or least <= value <= most
    dtype = np.dtype(aval.dtype.type)
    if leaf.kind is Kind.SCALAR:
        return kind is dtype.type
    return (
        leaf.kind is Kind.NDARRAY
        and kind is np.ndarray
        and value.dtype is dtype
        and value.shape == aval.shape
        and value.flags.c_contiguous
        and value.flags.aligned
    )


def entry_run(entry: Entry, leaves: Sequence[Any]) -> Any:
    """Make the results, run the program, build what the call returns."""
    from braze.runtime.services import services

    held: list[Any] = list(leaves)
    parameters = (ctypes.c_void_p * max(1, entry.parameters))()
    for leaf, value in zip(entry.leaves, leaves):
        if leaf.parameter is not None:
            parameters[leaf.parameter] = _address(leaf, value, held)
    for parameter, captured in entry.captured.items():
        parameters[parameter] = arrays.address(captured)
    results = [_result(entry, i, leaves, parameters) for i in range(len(entry.results))]
    addresses = (ctypes.c_void_p * max(1, len(results)))(*map(arrays.address, results))
    for leaf, value in zip(entry.leaves, leaves):
        if leaf.donated and arrays.is_array(value):
            if not arrays.is_deleted(value):
                held.append(arrays.to_numpy(value))  # its memory is read until the call is over
            arrays.donate(value, entry.name)
    status = services().call(ctypes.addressof(entry.descriptor), parameters, addresses)
    if status != OK:
        raise_bad_status(entry, status)
    return _build(trees.results(entry.result), results)


def _address(leaf: Leaf, value: Any, held: list[Any]) -> int:
    """Where the value of a leaf is; what keeps it there goes into `held`."""
    if arrays.is_array(value):
        view = arrays.to_numpy(value)
    else:
        assert leaf.aval is not None, "statics are no parameters"
        view = np.asarray(value, leaf.aval.dtype)
    if leaf.donated and leaf.parameter is not None and arrays.is_array(value):
        return arrays.address(value)  # a view would keep the memory from being given away
    held.append(view)
    return int(view.__array_interface__["data"][0])


def _result(entry: Entry, index: int, leaves: Sequence[Any], parameters: Any) -> Any:
    """The array for a result: in the memory of a donated leaf, a copy of that, or fresh."""
    aval, source = entry.results[index], entry.source_of(index)
    if source is None:
        return arrays.empty(aval)[0]
    value = leaves[source]
    if arrays.is_array(value) and sum(other is value for other in leaves) == 1:
        taken = arrays.take(value, aval, entry.name)
        if taken is not None:
            return taken
    made, address = arrays.empty(aval)
    parameter = entry.leaves[source].parameter
    assert parameter is not None, "a result aliases a parameter"
    ctypes.memmove(address, parameters[parameter], aval.nbytes)
    parameters[parameter] = address
    return made


class PythonFunctions:
    """The implementation of `dispatch.Functions` in Python."""

    name = "python"
    kind: type = JitFunction

    def make(self, slow: Callable[..., Any], attributes: dict[str, Any]) -> Any:
        made: JitFunction = object.__new__(JitFunction)
        made.__dict__.update(attributes)
        made._slow, made._entries = slow, ()
        return made

    def set_entries(self, function: Any, entries: tuple[Entry, ...]) -> None:
        function._entries = entries

    def entries(self, function: Any) -> tuple[Entry, ...]:
        return function._entries  # type: ignore[no-any-return]


FUNCTIONS = PythonFunctions()
