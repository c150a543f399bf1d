"""Operators, properties and methods of arrays, in one table, set on tracers and on both concrete types.

`install()` is called once, by `braze.numpy`. What needs a value (`item`, `tolist`, `float(x)`) is set on
concrete arrays only; tracers have their own conversions in `core`, which explain themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from braze import dtypes, errors
from braze.core import Tracer, public, typeof
from braze.lax import lax
from braze.numpy import cumulative, elementwise, indexing, linalg, reductions, shape, sorting
from braze.runtime import array as arrays

Array = Any


def _operator(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that leaves foreign types to their own."""

    def method(self: Array, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        return function(self, other)

    return method


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Array, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        return function(other, self)

    return method


def _is_operand(value: Any) -> bool:
    kinds = (bool, int, float, complex, np.ndarray, np.generic, Tracer)
    return isinstance(value, kinds) or arrays.is_array(value)


_BINARY: dict[str, Callable[..., Any]] = {
    "add": elementwise.add,
    "sub": elementwise.subtract,
    "mul": elementwise.multiply,
    "truediv": elementwise.true_divide,
    "floordiv": elementwise.floor_divide,
    "mod": elementwise.remainder,
    "divmod": elementwise.divmod,
    "pow": elementwise.power,
    "matmul": linalg.matmul,
    "and": elementwise.bitwise_and,
    "or": elementwise.bitwise_or,
    "xor": elementwise.bitwise_xor,
    "lshift": elementwise.left_shift,
    "rshift": elementwise.right_shift,
}
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "eq": elementwise.equal,
    "ne": elementwise.not_equal,
    "lt": elementwise.less,
    "le": elementwise.less_equal,
    "gt": elementwise.greater,
    "ge": elementwise.greater_equal,
}
_UNARY: dict[str, Callable[..., Any]] = {
    "neg": elementwise.negative,
    "pos": elementwise.positive,
    "abs": elementwise.abs,
    "invert": elementwise.invert,
}


def _reshape(self: Array, *sizes: Any, order: str = "C") -> Array:
    """The same elements in another shape, given as one tuple or as several ints."""
    return shape.reshape(self, sizes[0] if len(sizes) == 1 else sizes, order)


def _transpose(self: Array, *axes: Any) -> Array:
    """Axes reordered, reversed unless an order is given as one tuple or as several ints."""
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else (axes or None)
    return shape.transpose(self, order)


def _astype(self: Array, dtype: Any, copy: bool = True) -> Array:
    """The values in another dtype."""
    return lax.convert_element_type(self, dtypes.canonical(dtype))


def _len(self: Array) -> int:
    t = typeof(self)
    if not t.shape:
        raise errors.ArgumentError("len: an array without axes has no length.", values=f"operand {t}")
    return t.shape[0]


def _iter(self: Array) -> Iterator[Array]:
    for i in range(_len(self)):
        yield indexing.getitem(self, i)


def _setitem(self: Array, index: Any, value: Any) -> None:
    raise errors.ArgumentError(
        "assignment: arrays of braze are not changed in place.",
        hint="x.at[index].set(values) gives a changed copy, which compiled programs write in place where they can.",
    )


def _round(self: Array, ndigits: int | None = None) -> Array:
    return elementwise.round(self, 0 if ndigits is None else ndigits)


_METHODS: dict[str, Callable[..., Any]] = {
    "__getitem__": indexing.getitem,
    "__setitem__": _setitem,
    "__len__": _len,
    "__iter__": _iter,
    "__round__": _round,
    "reshape": _reshape,
    "transpose": _transpose,
    "astype": _astype,
    "ravel": shape.ravel,
    "flatten": shape.ravel,
    "squeeze": shape.squeeze,
    "swapaxes": shape.swapaxes,
    "dot": linalg.dot,
    "sum": reductions.sum,
    "prod": reductions.prod,
    "mean": reductions.mean,
    "var": reductions.var,
    "std": reductions.std,
    "max": reductions.max,
    "min": reductions.min,
    "any": reductions.any,
    "all": reductions.all,
    "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "cumsum": cumulative.cumsum,
    "cumprod": cumulative.cumprod,
    "sort": sorting.sort,
    "argsort": sorting.argsort,
    "argpartition": sorting.argpartition,
    "clip": elementwise.clip,
    "round": elementwise.round,
}

_PROPERTIES: dict[str, Callable[[Array], Any]] = {
    "shape": lambda self: self.aval.shape,
    "dtype": lambda self: self.aval.dtype,
    "ndim": lambda self: self.aval.ndim,
    "size": lambda self: self.aval.size,
    "nbytes": lambda self: self.aval.nbytes,
    "itemsize": lambda self: self.aval.dtype.itemsize,
    "weak_type": lambda self: self.aval.weak_type,
    "T": shape.transpose,
    "at": indexing.IndexUpdates,
    "mT": shape.matrix_transpose,
}


def _repr(self: Array) -> str:
    """As JAX prints it: `Array([1., 2.], dtype=float32)`."""
    if arrays.is_deleted(self):
        return f"<deleted Array {arrays.state(self)}>"
    aval = self.aval
    tail = f", dtype={aval.dtype}{', weak_type=True' if aval.weak_type else ''})"
    values = arrays.to_numpy(self)
    if aval.size == 0:
        return f"Array([], shape={aval.shape}{tail}"
    return "Array(" + np.array2string(values, separator=", ", prefix="Array(", suffix=tail) + tail


def _scalar(conversion: Callable[[Any], Any], name: str) -> Callable[[Array], Any]:
    def method(self: Array) -> Any:
        values = arrays.to_numpy(self)
        if values.size != 1:
            raise errors.ArgumentError(
                f"{name}: an array of {values.size} elements is not a scalar.",
                values=f"operand {self.aval}",
                hint="use any() or all(), or index one element." if name == "bool" else "index one element.",
            )
        return conversion(values.reshape(())[()])

    return method


def _index(self: Array) -> int:
    values = arrays.to_numpy(self)
    if values.ndim or values.dtype.kind not in "iu":
        raise errors.DTypeError("index: an integer without axes is wanted.", values=f"operand {self.aval}")
    return int(values)


def _hash(self: Array) -> int:
    raise errors.ArgumentError(
        "hash: arrays have none, since they compare elementwise.",
        hint="make a tuple of the values with tolist(), or pass the array as an ordinary argument.",
    )


def _item(self: Array, *index: int) -> Any:
    """One element as a Python scalar."""
    return arrays.to_numpy(self).item(*index)


def _tolist(self: Array) -> Any:
    """All elements as nested lists of Python scalars."""
    return arrays.to_numpy(self).tolist()


def _copy(self: Array) -> Array:
    """The array with memory of its own."""
    return arrays.from_numpy(arrays.to_numpy(self), copy=True, aval=self.aval)


def _format(self: Array, spec: str) -> str:
    return format(arrays.to_numpy(self)[()], spec) if self.aval.ndim == 0 else format(repr(self), spec)


_CONCRETE: dict[str, Any] = {
    "__repr__": _repr,
    "__str__": lambda self: _repr(self) if arrays.is_deleted(self) else str(arrays.to_numpy(self)),
    "__format__": _format,
    "__bool__": _scalar(bool, "bool"),
    "__int__": _scalar(int, "int"),
    "__float__": _scalar(float, "float"),
    "__complex__": _scalar(complex, "complex"),
    "__index__": _index,
    "__hash__": _hash,
    "__copy__": _copy,
    "__deepcopy__": lambda self, memo: _copy(self),
    "__array_priority__": 100,
    "item": _item,
    "tolist": _tolist,
    "copy": _copy,
    "delete": arrays.delete,
    "is_deleted": arrays.is_deleted,
    "block_until_ready": lambda self: (arrays.address(self), self)[1],
}


def _install_shared(kind: Any) -> None:
    for name, function in _BINARY.items():
        setattr(kind, f"__{name}__", public(_operator(function)))
        setattr(kind, f"__r{name}__", public(_reflected(function)))
    for name, function in _COMPARISONS.items():
        setattr(kind, f"__{name}__", public(_operator(function)))
    for name, function in _UNARY.items():
        setattr(kind, f"__{name}__", public(_plain(function)))
    for name, function in _METHODS.items():
        setattr(kind, name, public(_plain(function)))
    for name, getter in _PROPERTIES.items():
        setattr(kind, name, property(getter))


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method from a function whatever its type: jitted functions are no Python functions."""

    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__doc__ = function.__doc__
    return method


def _install_concrete(kind: Any) -> None:
    _install_shared(kind)
    for name, value in _CONCRETE.items():
        setattr(kind, name, public(value) if callable(value) else value)


def install() -> None:
    """Give tracers and arrays their operators and methods."""
    _install_shared(Tracer)
    arrays.on_type(_install_concrete)
