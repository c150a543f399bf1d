"""`make_jaxpr` and `eval_shape`: look at a function's program, or at its types, without running it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from braze import core, dtypes, tree
from braze.core import typeof
from braze.errors import ArgumentError
from braze.trace.calling import argument_names
from braze.trace.jaxpr import ClosedJaxpr
from braze.trace.staging import trace_to_jaxpr
from braze.types import TensorType


class ShapeDtypeStruct:
    """The shape and dtype of an array, in place of an array where no values are needed."""

    __slots__ = ("_type",)

    def __init__(self, shape: Sequence[int], dtype: Any, *, weak_type: bool = False) -> None:
        self._type = TensorType(tuple(shape), dtypes.canonical(dtype), weak_type)

    @property
    def aval(self) -> TensorType:
        return self._type

    @property
    def shape(self) -> tuple[int, ...]:
        return self._type.shape

    @property
    def dtype(self) -> Any:
        return self._type.dtype

    @property
    def weak_type(self) -> bool:
        return self._type.weak_type

    @property
    def ndim(self) -> int:
        return self._type.ndim

    @property
    def size(self) -> int:
        return self._type.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._type is other._type

    def __hash__(self) -> int:
        return hash(self._type)

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{weak})"


def make_jaxpr(
    f: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: None = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that gives the jaxpr of `f` at arguments of the types given.

    Args:
        static_argnums: positional arguments that are passed as they are.
        axis_env: must be None; it is there for JAX's signature.
        return_shape: give a pair of the jaxpr and the result's shapes and dtypes.
    """
    if axis_env is not None:
        raise ArgumentError("make_jaxpr: named axes do not exist, so axis_env must be None.")
    static = [static_argnums] if isinstance(static_argnums, int) else list(static_argnums)

    @functools.wraps(f)
    def traced(*args: Any, **kwargs: Any) -> Any:
        with core.user_line():
            closed, out_tree = _trace(f, args, kwargs, static)
            if not return_shape:
                return closed
            return closed, out_tree.unflatten([_struct(t) for t in closed.out_avals])

    return traced


def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes that `f` would return, without any computation.

    >>> eval_shape(lambda x: (x, x), ShapeDtypeStruct((3,), "float32"))[0]
    ShapeDtypeStruct(shape=(3,), dtype=float32)
    """
    with core.user_line():
        closed, out_tree = _trace(f, args, kwargs, ())
    return out_tree.unflatten([_struct(t) for t in closed.out_avals])


def _trace(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], static: Sequence[int]
) -> tuple[ClosedJaxpr, tree.PyTreeDef]:
    for number in static:
        if not -len(args) <= number < len(args):
            raise ArgumentError(
                f"make_jaxpr: static_argnums={number} names no argument, {len(args)} were given."
            )
    fixed = {number % len(args): args[number % len(args)] for number in static}
    dynamic = tuple(arg for i, arg in enumerate(args) if i not in fixed)
    leaves, in_tree = tree.flatten((dynamic, kwargs))

    def call(*given: Any, **keywords: Any) -> Any:
        rest = iter(given)
        return f(*[fixed[i] if i in fixed else next(rest) for i in range(len(args))], **keywords)

    def names() -> list[str]:
        every = argument_names(f, args, kwargs)
        keep: list[str] = []
        position = 0
        for i, arg in enumerate(args):
            count = len(tree.leaves(arg))
            keep += [] if i in fixed else every[position : position + count]
            position += count
        return keep + every[position:]

    name = getattr(f, "__name__", type(f).__name__)
    return trace_to_jaxpr(call, [typeof(leaf) for leaf in leaves], in_tree=in_tree, name=name, names=names)


def _struct(t: TensorType) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak_type)
