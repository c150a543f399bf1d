"""The dispatcher in Python, for interpreters that the machine code does not know.

It does what `dispatch_native` does, step by step and with the same names. What can be settled when an entry
is added is settled in its `_Plan`. The program still decides about the GIL itself, in `braze_call`.
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
from braze.runtime.dispatch import Entry, Kind, Leaf, raise_bad_status, standard

_SCALARS = {Kind.FLOAT: float, Kind.INT: int, Kind.BOOL: bool, Kind.COMPLEX: complex}


class JitFunction:
    """A callable with entries and a slow path."""

    __module__ = "braze"

    _slow: Callable[..., Any]
    _plans: tuple[_Plan, ...]

    def __new__(cls, *args: object, **kwargs: object) -> JitFunction:
        raise TypeError("cannot create 'braze.JitFunction' instances")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._plans and not core.is_tracing():
            epoch, names = knobs.epoch(), tuple(kwargs)
            for plan in self._plans:
                entry = plan.entry
                if entry.positional != len(args) or entry.keywords != names or entry.epoch != epoch:
                    continue
                leaves = plan.match((*args, *kwargs.values()) if kwargs else args)
                if leaves is not None:
                    return plan.run(leaves)
        return self._slow(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)


# Taking arguments apart and putting results together.


def _flatten(program: trees.Program, values: Sequence[Any]) -> list[Any] | None:
    """The leaves of the arguments, or None where their structure differs."""
    leaves: list[Any] = []
    words = iter(program)

    def take(value: Any) -> bool:
        word = next(words)
        if word == trees.LEAF:
            leaves.append(value)
            return True
        if word == trees.NONE:
            return value is None
        if word == trees.DICT:
            count = next(words)
            return type(value) is dict and len(value) == count and all(take_key(value) for _ in range(count))
        expected = next(words).value if word == trees.NAMED else tuple if word == trees.TUPLE else list
        count = next(words)
        return type(value) is expected and len(value) == count and all(map(take, value))

    def take_key(value: dict[Any, Any]) -> bool:
        key = next(words).value
        return key in value and take(value[key])

    return leaves if all(map(take, values)) else None


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
            return {next(words).value: make() for _ in range(next(words))}
        call = (next(words).value, next(words).value) if word == trees.CALL else None
        children = [make() for _ in range(next(words))]
        if call is not None:
            return call[0](call[1], tuple(children))
        return tuple(children) if word == trees.TUPLE else children

    return make()


# Tests of leaves.


def _test(leaf: Leaf) -> Callable[[Any], bool]:
    """What `Leaf` says, as a function of the value."""
    aval = leaf.aval
    other = _test_static(leaf.value) if aval is None else _TESTS.get(leaf.kind, _test_scalar)(leaf)

    def passes(value: Any) -> bool:
        return arrays.state(value) is aval if arrays.is_array(value) else other(value)

    return passes


def _test_static(static: Any) -> Callable[[Any], bool]:
    return lambda value: value is static


def _test_array(leaf: Leaf) -> Callable[[Any], bool]:
    return lambda value: False


def _test_scalar(leaf: Leaf) -> Callable[[Any], bool]:
    kind = _SCALARS[leaf.kind]
    return lambda value: type(value) is kind


def _test_int(leaf: Leaf) -> Callable[[Any], bool]:
    assert leaf.aval is not None, "statics have a test of their own"
    limit = 1 << (8 * leaf.aval.nbytes - 1)
    return lambda value: type(value) is int and -limit <= value < limit


def _test_numpy_scalar(leaf: Leaf) -> Callable[[Any], bool]:
    assert leaf.aval is not None, "statics have a test of their own"
    kind = leaf.aval.dtype.type
    return lambda value: type(value) is kind


def _test_ndarray(leaf: Leaf) -> Callable[[Any], bool]:
    assert leaf.aval is not None, "statics have a test of their own"
    dtype, shape = standard(leaf.aval.dtype), leaf.aval.shape

    def passes(value: Any) -> bool:
        if type(value) is not np.ndarray or value.dtype is not dtype or value.shape != shape:
            return False
        flags = value.flags
        return flags.c_contiguous and flags.aligned

    return passes


_TESTS = {
    Kind.ARRAY: _test_array,
    Kind.INT: _test_int,
    Kind.SCALAR: _test_numpy_scalar,
    Kind.NDARRAY: _test_ndarray,
}


class _Plan:
    """An entry, with all that is the same for each of its calls."""

    __slots__ = ("_arguments", "_call", "_descriptor", "_inputs", "_outputs", "_result", "_tests", "entry")

    def __init__(self, entry: Entry) -> None:
        from braze.runtime.services import services

        arguments, result = trees.arguments(entry.arguments), trees.results(entry.result)
        assert arguments is not None, "the caller asked `can_enter`"
        self.entry = entry
        self._arguments = None if trees.is_flat(arguments) else arguments
        self._result = None if result == (trees.LEAF,) else result
        self._tests = tuple(map(_test, entry.leaves))
        self._call = services().call
        self._descriptor = ctypes.addressof(entry.descriptor)
        self._inputs = ctypes.c_void_p * max(1, entry.parameters)
        self._outputs = ctypes.c_void_p * max(1, len(entry.results))

    def match(self, values: Sequence[Any]) -> Sequence[Any] | None:
        """The leaves of the arguments, or None if the entry is not for them."""
        leaves = values if self._arguments is None else _flatten(self._arguments, values)
        if leaves is not None:
            for test, value in zip(self._tests, leaves):
                if not test(value):
                    return None
        return leaves

    def run(self, leaves: Sequence[Any]) -> Any:
        """Make the results, run the program, build what the call returns."""
        entry, inputs = self.entry, self._inputs()
        held: list[Any] = []
        for leaf, value in zip(entry.leaves, leaves):
            if leaf.parameter is not None:
                inputs[leaf.parameter] = _address(leaf, value, held)
        for parameter, captured in entry.captured.items():
            inputs[parameter] = arrays.address(captured)
        results = [_result(entry, i, leaves, inputs) for i in range(len(entry.results))]
        outputs = self._outputs(*map(arrays.address, results))
        if entry.donates:
            _donate(entry, leaves, held)
        status = self._call(self._descriptor, inputs, outputs)
        if status != OK:
            raise_bad_status(entry, status)
        return results[0] if self._result is None else _build(self._result, results)


def _address(leaf: Leaf, value: Any, held: list[Any]) -> int:
    """Where the value of a leaf is; what must live until the call is over goes into `held`."""
    if arrays.is_array(value):
        if not leaf.donated:  # a view of donated memory would keep it from being given away
            held.append(arrays.to_numpy(value))
        return arrays.address(value)
    assert leaf.aval is not None, "statics are no parameters"
    view = np.asarray(value, leaf.aval.dtype)
    held.append(view)
    return int(view.__array_interface__["data"][0])


def _result(entry: Entry, index: int, leaves: Sequence[Any], inputs: Any) -> Any:
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
    ctypes.memmove(address, inputs[parameter], aval.nbytes)
    inputs[parameter] = address
    return made


def _donate(entry: Entry, leaves: Sequence[Any], held: list[Any]) -> None:
    """Delete the donated leaves; memory that no result took is held until the call is over."""
    for leaf, value in zip(entry.leaves, leaves):
        if leaf.donated and arrays.is_array(value) and not arrays.is_deleted(value):
            held.append(arrays.to_numpy(value))
            arrays.donate(value, entry.name)


def runner(entry: Entry) -> Callable[[Sequence[Any]], Any]:
    """A function that runs an entry's program on leaves known to fit, without tests; the slow path's way to call."""
    return _Plan(entry).run


class PythonFunctions:
    """The implementation of `dispatch.Functions` in Python."""

    name = "python"
    kind: type = JitFunction

    def make(self, slow: Callable[..., Any], attributes: dict[str, Any]) -> Any:
        made: JitFunction = object.__new__(JitFunction)
        made.__dict__.update(attributes)
        made._slow, made._plans = slow, ()
        return made

    def set_entries(self, function: Any, entries: tuple[Entry, ...]) -> None:
        known = {plan.entry: plan for plan in function._plans}
        function._plans = tuple(known.get(entry) or _Plan(entry) for entry in entries)

    def entries(self, function: Any) -> tuple[Entry, ...]:
        return tuple(plan.entry for plan in function._plans)


FUNCTIONS = PythonFunctions()
