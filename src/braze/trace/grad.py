"""Reverse-mode differentiation: `vjp`, `grad`, and Jacobians built from both modes.

vjp = linearise, then transpose the linear part
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import core, dtypes, tree
from braze.core import bind, typeof
from braze.errors import ArgumentError, DifferentiationError, DTypeError, ShapeError
from braze.ops import elementwise, shape
from braze.ops.table import Undefined
from braze.trace.calling import Flat
from braze.trace.jvp import jvp
from braze.trace.linearize import Linearized, has_tangent, linearize_flat
from braze.trace.transpose import backward
from braze.trace.values import Zero, as_array, full, instantiate, tangent_type
from braze.trace.vmap import vmap
from braze.types import TensorType


def _pull_back(done: Linearized, types: Sequence[TensorType], cotangents: Sequence[Any]) -> list[Any]:
    """Cotangents of all arguments from those of all results."""
    given = [ct for ct, some in zip(cotangents, done.nonzero) if some]
    args = [Undefined(t) for t in types if tangent_type(t) is t]
    found = iter(backward(done.linear.jaxpr, done.linear.consts, args, given))
    return [next(found) if tangent_type(t) is t else Zero(tangent_type(t)) for t in types]


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Evaluate a function and give its transposed derivative at that point.

        vjp(f, x)  ->  f(x), ct ↦ (∂f(x)ᵀ · ct,)

    Args:
        has_aux: `f` returns (result, auxiliary); the third result is then the auxiliary.
    Returns: the result, and a function from a cotangent of its structure to a tuple with one entry per
        argument; the cotangent of an integer is float0.
    Raises: from that function ArgumentError, ShapeError, DTypeError where the cotangent does not fit.
    """
    with core.user_line():
        flat, in_tree = tree.flatten(primals)
        types = [typeof(p) for p in flat]
        flat_f = Flat(f, in_tree, has_aux=has_aux, what="vjp")
        done = linearize_flat(flat_f, flat, [has_tangent(p) for p in flat])
    out_types = [typeof(out) for out in done.outs]

    def pull_back(cotangent: Any) -> Any:
        with core.user_line():
            given = flat_f.out_tree.flatten_up_to(cotangent)
            cts = [_check_cotangent(t, ct) for t, ct in zip(out_types, given)]
            cts += [Zero(tangent_type(t)) for t in out_types[len(cts) :]]
            found = _pull_back(done, types, cts)
        return in_tree.unflatten([as_array(instantiate(ct)) for ct in found])

    result = flat_f.result(done.outs), pull_back
    return (*result, flat_f.auxiliary(done.outs)) if has_aux else result


def _check_cotangent(type: TensorType, cotangent: Any) -> Any:
    wanted = tangent_type(type)
    if wanted.dtype == dtypes.FLOAT0:
        return Zero(wanted)
    given = typeof(cotangent)
    if given.dtype != wanted.dtype:
        raise DTypeError(f"vjp: a cotangent of type {wanted} is wanted, {given} was given.")
    if given.shape != wanted.shape:
        raise ShapeError(f"vjp: a cotangent of type {wanted} is wanted, {given} was given.")
    return cotangent


def value_and_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., tuple[Any, Any]]:
    """A function that gives the value of `f` and its gradient.

    Args:
        argnums: the positional arguments to differentiate in; one, or a sequence for a tuple of gradients.
        has_aux: `f` returns (value, auxiliary); so does the new function in place of the value.
        holomorphic: `f` is complex-differentiable; its arguments and result are then complex.
        allow_int: integer arguments get a gradient of dtype float0 in place of an error.
    Raises: DifferentiationError, from the new function, where the value is no real scalar or an argument
        cannot be differentiated in; ArgumentError where argnums names no argument.
    """

    @functools.wraps(f)
    def value_and_gradient(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        with core.user_line():
            return _value_and_gradient(f, argnums, has_aux, holomorphic, allow_int, args, kwargs)

    return value_and_gradient


def _value_and_gradient(
    f: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, Any]:
    positions, chosen = _chosen(args, argnums)
    flat, in_tree = tree.flatten(tuple(chosen))
    for leaf, (path, _) in zip(flat, tree.leaves_with_path(tuple(chosen))):
        _check_input(leaf, positions[path[0].idx], tree.keystr(path[1:]), holomorphic, allow_int)

    def of_chosen(*new: Any) -> Any:
        full_args = list(args)
        for position, value in zip(positions, new):
            full_args[position] = value
        return f(*full_args, **kwargs)

    flat_f = Flat(of_chosen, in_tree, has_aux=has_aux, what="grad")
    flat_f.name = getattr(f, "__name__", "the function")
    done = linearize_flat(flat_f, flat, [has_tangent(leaf) for leaf in flat])
    _check_output(flat_f, done.outs, holomorphic)
    out_type = typeof(done.outs[0])
    is_default = out_type.weak_type and out_type.dtype == dtypes.default_float()
    cts = [
        1.0 if is_default else full(out_type, 1),
        *(Zero(tangent_type(typeof(out))) for out in done.outs[1:]),
    ]
    found = _pull_back(done, [typeof(leaf) for leaf in flat], cts)
    gradients = in_tree.unflatten([_of_weakness(instantiate(ct), leaf) for ct, leaf in zip(found, flat)])
    value = flat_f.result(done.outs)
    if has_aux:
        value = value, flat_f.auxiliary(done.outs)
    return value, gradients[0] if isinstance(argnums, int) else gradients


def _of_weakness(gradient: Any, leaf: Any) -> Any:
    """A gradient as an array, weakly typed where what it belongs to is."""
    type = typeof(gradient)
    if type.weak_type or not typeof(leaf).weak_type or type.dtype != typeof(leaf).dtype:
        return as_array(gradient)
    return bind(elementwise.convert_element_type, gradient, new_dtype=type.dtype, weak_type=True)


def grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that gives the gradient of `f`; see `value_and_grad`.

    >>> grad(lambda x: x * x * x)(2.0)  # doctest: +SKIP
    Array(12., dtype=float32)
    """
    both = value_and_grad(f, argnums, has_aux, holomorphic, allow_int)

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        with core.user_line():
            value, found = both(*args, **kwargs)
            return (found, value[1]) if has_aux else found

    return gradient


def _chosen(args: Sequence[Any], argnums: int | Sequence[int]) -> tuple[list[int], list[Any]]:
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise ArgumentError(
                f"grad: argnums={number} needs at least {number + 1 if number >= 0 else -number} positional "
                f"arguments, {len(args)} were given.",
                hint="pass the arguments to differentiate in by position.",
            )
    positions = [number % len(args) for number in numbers]
    return positions, [args[position] for position in positions]


def _check_input(leaf: Any, position: int, path: str, holomorphic: bool, allow_int: bool) -> None:
    type = typeof(leaf)
    where = f"argument {position}{path}"
    if holomorphic and not dtypes.is_complex(type.dtype):
        raise DifferentiationError(f"grad: with holomorphic=True {where} must be complex, it is {type}.")
    if dtypes.is_complex(type.dtype) and not holomorphic:
        raise DifferentiationError(
            f"grad: {where} is {type}, a real value is wanted.",
            hint="pass holomorphic=True where the function is, or use vjp.",
        )
    if not dtypes.is_inexact(type.dtype) and not allow_int:
        raise DifferentiationError(
            f"grad: {where} is {type}, a float is wanted.",
            hint="convert it to a float, name another argument in argnums, or pass allow_int=True.",
        )


def _check_output(flat_f: Flat, outs: Sequence[Any], holomorphic: bool) -> None:
    if flat_f.count != 1 or flat_f.out_tree.num_nodes != 1:
        raise DifferentiationError(
            f"grad: the function must return one scalar, {flat_f.name} returned {flat_f.out_tree}.",
            hint="return a pair with has_aux=True for values that are not differentiated.",
        )
    type = typeof(outs[0])
    if type.shape:
        raise DifferentiationError(
            f"grad: the function must return a scalar, {flat_f.name} returned {type}.",
            hint="sum it, or use jacrev, or vjp with a cotangent.",
        )
    if holomorphic != dtypes.is_complex(type.dtype) or not dtypes.is_inexact(type.dtype):
        kind = "complex" if holomorphic else "real"
        raise DifferentiationError(
            f"grad: the function must return a {kind} float, {flat_f.name} returned {type}.",
            hint="use vjp for other results.",
        )


def _basis(types: Sequence[TensorType]) -> list[Any]:
    """For each type the standard basis of the sum of all spaces, stacked along a new leading axis."""
    total = sum(t.size for t in types)
    bases, offset = [], 0
    for t in types:
        block = np.zeros((total, t.size), t.dtype)
        block[offset : offset + t.size] = np.eye(t.size, dtype=t.dtype)
        bases.append(block.reshape((total, *t.shape)))
        offset += t.size
    return bases


def _cut(stacked: Any, types: Sequence[TensorType], axis: int) -> list[Any]:
    """A value stacked along the basis, cut into one block per type."""
    full_shape, blocks, offset = typeof(stacked).shape, [], 0
    for t in types:
        start = [0] * len(full_shape)
        limit = list(full_shape)
        start[axis], limit[axis] = offset, offset + t.size
        block = stacked
        if t.size != full_shape[axis]:
            block = bind(
                shape.slice,
                stacked,
                start_indices=tuple(start),
                limit_indices=tuple(limit),
                strides=(1,) * len(full_shape),
            )
        blocks.append(block)
        offset += t.size
    return blocks


def _reshape(x: Any, to: tuple[int, ...]) -> Any:
    return x if typeof(x).shape == to else bind(shape.reshape, x, shape=to)


def _check_real(leaves: Sequence[Any], what: str) -> None:
    for leaf in leaves:
        if not dtypes.is_float(typeof(leaf).dtype):
            raise DifferentiationError(f"{what}: real floats are wanted, {typeof(leaf)} was given.")


def _of_chosen(
    f: Callable[..., Any], argnums: int | Sequence[int], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], list[Any], tree.PyTreeDef]:
    """The function of the leaves of the chosen arguments, those leaves, and their structure."""
    positions, chosen = _chosen(args, argnums)
    leaves, in_tree = tree.flatten(chosen[0] if isinstance(argnums, int) else tuple(chosen))

    def of_leaves(*new: Any) -> Any:
        trees = in_tree.unflatten(new)
        replaced = list(args)
        for position, value in zip(positions, [trees] if isinstance(argnums, int) else trees):
            replaced[position] = value
        return f(*replaced, **kwargs)

    return of_leaves, leaves, in_tree


def jacfwd(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `f`, a column at a time, all at once by `vmap` of `jvp`.

    The result has the structure of `f`'s result, each leaf of it that of the arguments; a block has the axes
    of the result, then those of the argument.
    """

    @functools.wraps(f)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        with core.user_line():
            of_leaves, leaves, in_tree = _of_chosen(f, argnums, args, kwargs)
            _check_real(leaves, "jacfwd")
            types = [typeof(leaf) for leaf in leaves]

            def push(*tangents: Any) -> Any:
                return jvp(of_leaves, leaves, tangents, has_aux=has_aux)

            out_axes = (None, -1, None) if has_aux else (None, -1)
            value, tangent, *aux = vmap(push, out_axes=out_axes)(*_basis(types))
            columns, out_tree = tree.flatten(tangent)
            rows = []
            for out, column in zip(tree.leaves(value), columns):
                sizes = typeof(out).shape
                blocks = zip(_cut(column, types, len(sizes)), types)
                rows.append(in_tree.unflatten([_reshape(block, sizes + t.shape) for block, t in blocks]))
            result = out_tree.unflatten(rows)
            return (result, aux[0]) if has_aux else result

    return jacobian


def jacrev(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `f`, a row at a time, all at once by `vmap` of `vjp`."""

    @functools.wraps(f)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        with core.user_line():
            of_leaves, leaves, in_tree = _of_chosen(f, argnums, args, kwargs)
            _check_real(leaves, "jacrev")
            value, pull_back, *aux = vjp(of_leaves, *leaves, has_aux=has_aux)
            outs, out_tree = tree.flatten(value)
            _check_real(outs, "jacrev")
            types = [typeof(out) for out in outs]
            pulled = vmap(lambda *cts: pull_back(out_tree.unflatten(cts)))(*_basis(types))
            columns = []
            for leaf, stacked in zip(leaves, pulled):
                sizes = typeof(leaf).shape
                columns.append(
                    [_reshape(block, t.shape + sizes) for block, t in zip(_cut(stacked, types, 0), types)]
                )
            result = out_tree.unflatten([in_tree.unflatten(list(row)) for row in zip(*columns)])
            return (result, aux[0]) if has_aux else result

    return jacobian


def hessian(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the matrix of second derivatives of `f`: forward over reverse mode."""
    return jacfwd(jacrev(f, argnums, has_aux), argnums, has_aux)
