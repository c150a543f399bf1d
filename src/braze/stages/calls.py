"""Calls of compiled functions: entries for the dispatcher, and the way without one.

A `Plan` says which leaves of the arguments are parameters of the program and what captured arrays come with
them. `install` makes an entry of it where the dispatcher can recognise the arguments again; `Plan.run` runs it
on leaves, for arguments that it cannot (custom containers), and on the NumPy target.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from braze import knobs, tree
from braze.core import typeof
from braze.runtime import array as arrays
from braze.runtime import dispatch
from braze.runtime.dispatch import Entry, Leaf
from braze.types import TensorType

if TYPE_CHECKING:
    from braze.stages.arguments import Signature
    from braze.stages.traced import Compiled


class Plan:
    """How leaves become the program's parameters."""

    def __init__(self, compiled: Compiled) -> None:
        lowered = compiled.lowered
        self.compiled = compiled
        self.kept = lowered.lowered.kept
        self.hidden = [_as_array(value) for value in lowered.lowered.hidden]
        self.results: tuple[TensorType, ...] = tuple(lowered.traced.closed.out_avals)
        self.out_tree = lowered.out_tree
        self.donated = lowered.traced.donated
        self.recognisable = True
        """Whether the dispatcher may know the containers of the arguments; it knows no registered ones."""

    @property
    def parameter_of(self) -> dict[int, int]:
        """Leaf to parameter, for leaves that the program takes."""
        return {leaf: parameter for parameter, leaf in enumerate(self.kept)}

    def entry(
        self, leaves: Sequence[Leaf], arguments: tuple[tree.PyTreeDef, ...], keywords: tuple[str, ...]
    ) -> Entry:
        executable = self.compiled.executable
        assert executable.program is not None, "only machine code has entries"
        return Entry(
            positional=len(arguments) - len(keywords),
            keywords=keywords,
            arguments=arguments,
            leaves=tuple(leaves),
            results=self.results,
            result=self.out_tree,
            descriptor=executable.native.descriptor,
            captured={len(self.kept) + i: array for i, array in enumerate(self.hidden)},
            aliases=dict(executable.program.aliases),
            epoch=knobs.epoch(),
            name=executable.name,
            keep=self.compiled,
        )

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run on leaves of the right types; donated ones are deleted."""
        leaves = [_readable(leaf) for leaf in leaves]
        for leaf in leaves:
            if arrays.is_array(leaf):
                arrays.address(leaf)  # raises for a deleted one
        executable = self.compiled.executable
        if executable.program is None or knobs.get("check"):
            return self._run_on_numpy(leaves)
        return self._runner(leaves)

    @functools.cached_property
    def _runner(self) -> Callable[[Sequence[Any]], Any]:
        from braze.runtime.dispatch_python import runner

        parameters, types = self.parameter_of, self.compiled.traced.closed.in_avals
        tests = [
            Leaf(dispatch.Kind.ARRAY, t, parameters.get(i), donated)
            for i, (t, donated) in enumerate(zip(types, self.donated, strict=True))
        ]
        return runner(self.entry(tests, (tree.structure(0),) * len(tests), ()))

    def _run_on_numpy(self, leaves: Sequence[Any]) -> Any:
        types = self.compiled.traced.closed.in_avals
        given = [_as_numpy(leaves[i], types[i]) for i in self.kept]
        given += [arrays.to_numpy(array) for array in self.hidden]
        found = self.compiled.executable.run(given)
        for leaf, donated in zip(leaves, self.donated, strict=True):
            if donated and arrays.is_array(leaf) and not arrays.is_deleted(leaf):
                arrays.donate(leaf, self.compiled.traced.name)
        made = [arrays.from_numpy(r, copy=False, aval=t) for r, t in zip(found, self.results, strict=True)]
        return self.out_tree.unflatten(made)


def _as_array(value: Any) -> Any:
    return value if arrays.is_array(value) else arrays.from_numpy(np.asarray(value), copy=True)


def _as_numpy(value: Any, type: TensorType) -> np.ndarray[Any, Any]:
    return arrays.to_numpy(value) if arrays.is_array(value) else np.asarray(value, type.dtype)


def _readable(leaf: Any) -> Any:
    """A leaf that machine code can read: NumPy arrays are made contiguous, aligned and native."""
    if isinstance(leaf, np.ndarray):
        t = typeof(leaf)
        return np.require(leaf, t.dtype, ("C_CONTIGUOUS", "ALIGNED"))
    return leaf


def install(function: Any, compiled: Compiled, signature: Signature) -> None:
    """Add an entry for calls like this one, where the dispatcher can recognise them."""
    executable = compiled.executable
    if executable.program is None or knobs.get("check") or not compiled.plan.recognisable:
        return
    statics: dict[int | str, Any] = dict(signature.statics)
    keywords = tuple(signature.kwargs)
    values: list[tuple[int | str, Any]] = [*enumerate(signature.args), *signature.kwargs.items()]
    parameters = compiled.plan.parameter_of
    numbers = _numbers(signature)
    structures: list[tree.PyTreeDef] = []
    leaves: list[Leaf] = []
    for key, value in values:
        if key in statics:
            structures.append(tree.structure(0))
            leaves.append(dispatch.static_leaf(value))
            continue
        found, structure = tree.flatten(value)
        structures.append(structure)
        for leaf, number in zip(found, numbers[key], strict=True):
            test = dispatch.leaf_for(leaf, parameters.get(number), donated=signature.donated[number])
            if test is None:
                return
            leaves.append(test)
    compiled.plan.recognisable = dispatch.can_enter(tuple(structures))
    if compiled.plan.recognisable:
        dispatch.add_entry(function, compiled.plan.entry(leaves, tuple(structures), keywords))


def _numbers(signature: Signature) -> dict[int | str, range]:
    """The leaf numbers of each dynamic argument in the flattened (args, kwargs)."""
    statics = {key for key, _ in signature.statics}
    found: dict[int | str, range] = {}
    position = 0
    named = [(k, signature.kwargs[k]) for k in sorted(signature.kwargs)]
    values: list[tuple[int | str, Any]] = [*enumerate(signature.args), *named]
    for key, value in values:
        if key in statics:
            continue
        count = len(tree.leaves(value))
        found[key] = range(position, position + count)
        position += count
    return found
