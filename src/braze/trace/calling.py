"""Functions of pytrees as functions of leaves: the common frame of all transformations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from braze import core, tree
from braze.errors import ArgumentError
from braze.trace.staging import check_results
from braze.trace.values import as_array


class Flat:
    """A function of leaves that calls `f` on trees and remembers the structure of what it returned.

    Args:
        in_tree: the structure of the arguments, a tuple.
        kwargs: keyword arguments, passed as they are.
        has_aux: `f` returns (result, auxiliary). Auxiliary leaves need not be arrays.
        what: the transformation, for messages.

    Calling it gives the leaves of the result, then those auxiliary leaves that are tracers.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        in_tree: tree.PyTreeDef,
        *,
        kwargs: Mapping[str, Any] | None = None,
        has_aux: bool = False,
        what: str,
    ) -> None:
        self.f = f
        self.in_tree = in_tree
        self.kwargs = dict(kwargs or {})
        self.has_aux = has_aux
        self.what = what
        self.name: str = getattr(f, "__name__", type(f).__name__)

    def __call__(self, *leaves: Any) -> list[Any]:
        result = self.f(*self.in_tree.unflatten(leaves), **self.kwargs)
        extra = None
        if self.has_aux:
            if not isinstance(result, tuple | list) or len(result) != 2:
                raise ArgumentError(
                    f"{self.what}: with has_aux=True the function must return a pair (result, auxiliary)."
                )
            result, extra = result
        found, self.out_tree = tree.flatten(result)
        check_results(result, found, self.name)
        self.extra, self.extra_tree = tree.flatten(extra)
        self.count = len(found)
        return [*found, *(leaf for leaf in self.extra if isinstance(leaf, core.Tracer))]

    def result(self, outs: Sequence[Any]) -> Any:
        """The result's tree from the values (or tangents) of its leaves."""
        return self.out_tree.unflatten([as_array(out) for out in outs[: self.count]])

    def auxiliary(self, outs: Sequence[Any]) -> Any:
        """The auxiliary tree, with tracers replaced by the values behind them."""
        lowered = iter(outs[self.count :])
        return self.extra_tree.unflatten(
            [next(lowered) if isinstance(leaf, core.Tracer) else leaf for leaf in self.extra]
        )


def argument_names(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """The name of each leaf of `(args, kwargs)`: `x`, `params['w']`, `args[1]`."""
    try:
        bound = inspect.signature(f).bind(*args, **kwargs).arguments
        parameters = inspect.signature(f).parameters
    except (TypeError, ValueError):
        return [f"args{tree.keystr(path)}" for path, _ in tree.leaves_with_path((args, dict(kwargs)))]
    positional: list[str] = []
    for name in bound:
        if parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            positional += [f"{name}[{i}]" for i in range(len(bound[name]))]
        elif parameters[name].kind is not inspect.Parameter.VAR_KEYWORD and name not in kwargs:
            positional.append(name)
    names = [
        f"{positional[path[0].idx]}{tree.keystr(path[1:])}" for path, _ in tree.leaves_with_path(tuple(args))
    ]
    names += [f"{path[0].key}{tree.keystr(path[1:])}" for path, _ in tree.leaves_with_path(dict(kwargs))]
    return names
