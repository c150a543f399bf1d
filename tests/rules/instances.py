"""Instances of rules: modules whose `main` has the form of a rule's left side, with random types and attributes.

A pattern is drawn from the top down where an op keeps types (elementwise ops), and from the bottom up where it
moves elements. What does not fit, because an op refuses a dtype or an attribute is bound twice, is drawn anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import dtypes
from braze.errors import BrazeError
from braze.hlo.ir import Builder, Function, Module, Region, Value
from braze.ops import shape as moves
from braze.ops.elementwise import clamp, compare_hlo, compare_type_of, convert_hlo, select_hlo
from braze.passes.patterns import ANY, Attribute, Pattern, Rule
from braze.types import TensorType

DTYPES = (dtypes.F32, dtypes.F64, dtypes.I32, dtypes.I64, dtypes.BOOL)
NUMBERS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -0.25,
    3.0,
    5.5,
    float("inf"),
    float("-inf"),
    float("nan"),
    2.0**-126,
    1e30,
)
"""Splats of floats; integers take those that they can hold, and their smallest and largest."""


class Misfit(Exception):
    """The draw cannot be completed."""


class Draw:
    """One attempt to make an instance."""

    def __init__(self, rng: random.Random, dtype: dtypes.DType, shape: tuple[int, ...]) -> None:
        self.rng = rng
        self.builder = Builder()
        self.parameters: list[Value] = []
        self.values: dict[str, Value] = {}
        self.attrs: dict[str, Any] = {}
        self.dtype = dtype
        self.shape = shape

    # Values ---------------------------------------------------------------------------------------

    def pattern(self, pattern: Any, type: TensorType) -> Value:
        """A value of the pattern's form; of this type, if its op keeps types."""
        if not isinstance(pattern, Pattern):
            return self.splat(pattern, type)
        if pattern.op is None:
            return self.variable(pattern, type)
        form = _FORMS.get(pattern.op.hlo or "", _elementwise)
        operands, attrs = form(self, pattern, type)
        return self.builder.emit(pattern.op, *operands, **attrs)

    def variable(self, pattern: Pattern, type: TensorType) -> Value:
        known = self.values.get(pattern.name)
        if known is None:
            known = self.splat(self.number(type.dtype), type) if pattern.constant else self.parameter(type)
            self.values[pattern.name] = known
        if known.type != type:
            raise Misfit(f"{pattern.name} is {known.type}, {type} is wanted")
        return known

    def parameter(self, type: TensorType) -> Value:
        self.parameters.append(Value(type))
        return self.parameters[-1]

    def number(self, dtype: dtypes.DType) -> Any:
        if dtype in dtypes.FLOATS:
            return self.rng.choice(NUMBERS)
        if dtype == dtypes.BOOL:
            return self.rng.choice((False, True))
        limits = np.iinfo(dtype)
        return self.rng.choice((0, 1, -1, 2, -7, limits.min, limits.max))

    def splat(self, number: Any, type: TensorType) -> Value:
        """A splat in one of its forms: a dense constant, or a scalar's broadcast."""
        array = np.asarray(number).astype(type.dtype)
        if not type.shape:
            return self.builder.constant(array)
        if self.rng.random() < 0.3 and type.size:
            return self.builder.constant(np.full(type.shape, array))
        scalar = self.builder.constant(array)
        return self.builder.emit(moves.broadcast_in_dim, scalar, shape=type.shape, broadcast_dimensions=())

    def any(self, pattern: Any) -> Value:
        """An operand of an op that moves elements: any type, or the one it has been drawn with before."""
        if isinstance(pattern, Pattern) and pattern.op is None and pattern.name in self.values:
            return self.values[pattern.name]
        return self.pattern(pattern, TensorType(self.shape, self.dtype))

    # Attributes -----------------------------------------------------------------------------------

    def attributes(self, pattern: Pattern, drawn: dict[str, Any]) -> dict[str, Any]:
        """Attributes as drawn, or as the pattern or an earlier draw has them."""
        made = {}
        for name, value in drawn.items():
            wanted = pattern.attrs.get(name, ANY)
            if isinstance(wanted, Attribute):
                made[name] = self.attrs.setdefault(wanted.name, value)
            else:
                made[name] = value if wanted is ANY else wanted
        return made


Form = Callable[[Draw, Pattern, TensorType], tuple[Sequence[Value], dict[str, Any]]]


def _elementwise(draw: Draw, pattern: Pattern, type: TensorType) -> Any:
    return [draw.pattern(o, type) for o in pattern.operands], draw.attributes(pattern, dict(pattern.attrs))


def _select(draw: Draw, pattern: Pattern, type: TensorType) -> Any:
    predicate = type.with_(dtype=dtypes.BOOL)
    which, yes, no = pattern.operands
    return [draw.pattern(which, predicate), draw.pattern(yes, type), draw.pattern(no, type)], {}


def _clamp(draw: Draw, pattern: Pattern, type: TensorType) -> Any:
    low, x, high = pattern.operands
    bound = type.with_(shape=()) if draw.rng.random() < 0.3 else type
    return [draw.pattern(low, bound), draw.pattern(x, type), draw.pattern(high, bound)], {}


def _compare(draw: Draw, pattern: Pattern, type: TensorType) -> Any:
    operand = type.with_(dtype=draw.rng.choice(DTYPES))
    attrs = {
        "comparison_direction": draw.rng.choice(("EQ", "NE", "LT", "LE", "GT", "GE")),
        "compare_type": compare_type_of(operand.dtype),
    }
    return [draw.pattern(o, operand) for o in pattern.operands], draw.attributes(pattern, attrs)


def _convert(draw: Draw, pattern: Pattern, type: TensorType) -> Any:
    operand = type.with_(dtype=draw.rng.choice(DTYPES))
    return [draw.pattern(pattern.operands[0], operand)], draw.attributes(pattern, {"dtype": type.dtype})


def _moving(attributes: Callable[[random.Random, TensorType], dict[str, Any]]) -> Form:
    """The form of an op on one operand whose attributes are drawn for its type."""

    def form(draw: Draw, pattern: Pattern, type: TensorType) -> Any:
        x = draw.any(pattern.operands[0])
        return [x], draw.attributes(pattern, attributes(draw.rng, x.type))

    return form


def _reshape_attrs(rng: random.Random, x: TensorType) -> dict[str, Any]:
    sizes = [n for n in x.shape if n != 1]
    if len(sizes) > 1 and rng.random() < 0.3:
        sizes = [int(np.prod(sizes))]
    for _ in range(rng.randrange(3)):
        sizes.insert(rng.randint(0, len(sizes)), 1)
    return {"shape": x.shape if rng.random() < 0.3 else tuple(sizes)}


def _broadcast_attrs(rng: random.Random, x: TensorType) -> dict[str, Any]:
    rank = x.ndim + rng.choice((0, 0, 1, 2))
    dims = rng.sample(range(rank), x.ndim)
    if rng.random() < 0.6:
        dims.sort()
    shape = [rng.choice((1, 1, 2, 0)) for _ in range(rank)]
    for axis, size in zip(dims, x.shape):
        shape[axis] = size if size != 1 or rng.random() < 0.5 else rng.randrange(3)
    return {"shape": tuple(shape), "broadcast_dimensions": tuple(dims)}


def _transpose_attrs(rng: random.Random, x: TensorType) -> dict[str, Any]:
    return {"permutation": tuple(rng.sample(range(x.ndim), x.ndim))}


def _slice_attrs(rng: random.Random, x: TensorType) -> dict[str, Any]:
    if rng.random() < 0.2:
        return {"start_indices": (0,) * x.ndim, "limit_indices": x.shape, "strides": (1,) * x.ndim}
    starts = [rng.randint(0, n) for n in x.shape]
    limits = [rng.randint(a, n) for a, n in zip(starts, x.shape)]
    strides = [rng.choice((1, 1, 2, 3)) for _ in starts]
    return {"start_indices": tuple(starts), "limit_indices": tuple(limits), "strides": tuple(strides)}


def _rev_attrs(rng: random.Random, x: TensorType) -> dict[str, Any]:
    return {"dimensions": tuple(sorted(rng.sample(range(x.ndim), rng.randint(0, x.ndim))))}


def _pad(draw: Draw, pattern: Pattern, type: TensorType) -> Any:
    x = draw.any(pattern.operands[0])
    filler = draw.pattern(pattern.operands[1], x.type.with_(shape=()))
    edge = draw.rng.choice(((0,), (-1, 0), (-1, 0, 1)))
    attrs = {name: tuple(draw.rng.choice(edge) for _ in x.type.shape) for name in ("low", "high")}
    interior = tuple(draw.rng.choice((0, 0, 1)) for _ in x.type.shape)
    return [x, filler], draw.attributes(pattern, attrs | {"interior": interior})


def _concatenate(draw: Draw, pattern: Pattern, type: TensorType) -> Any:
    """Two slices are drawn next to each other half of the time; chance would hardly do it."""
    if len(pattern.operands) == 1:
        x = draw.any(pattern.operands[0])
        axis = draw.rng.randrange(max(x.type.ndim, 1))
        return [x], draw.attributes(pattern, {"dimension": axis})
    first = draw.pattern(pattern.operands[0], type)
    of_first = first.producer.attrs
    axis = draw.rng.randrange(max(first.type.ndim, 1))
    if draw.rng.random() < 0.8 and first.type.ndim:
        x = first.producer.operands[0].type
        start, limit = list(of_first["start_indices"]), list(of_first["limit_indices"])
        start[axis], limit[axis] = limit[axis], draw.rng.randint(limit[axis], x.shape[axis])
        names = pattern.operands[1].attrs
        draw.attrs[names["start_indices"].name] = tuple(start)
        draw.attrs[names["limit_indices"].name] = tuple(limit)
    second = draw.pattern(pattern.operands[1], type)
    return [first, second], draw.attributes(pattern, {"dimension": axis})


def _indices(draw: Draw, count: int) -> list[Value]:
    index = TensorType((), dtypes.I32)
    constant = draw.rng.random() < 0.5
    return [
        draw.splat(draw.rng.randint(-2, 4), index) if constant else draw.parameter(index)
        for _ in range(count)
    ]


def _dynamic_slice(draw: Draw, pattern: Pattern, type: TensorType) -> Any:
    x = draw.any(pattern.operands[0])
    full = draw.rng.random() < 0.3
    sizes = tuple(n if full else draw.rng.randint(0, n) for n in x.type.shape)
    return [x, *_indices(draw, x.type.ndim)], draw.attributes(pattern, {"slice_sizes": sizes})


def _dynamic_update_slice(draw: Draw, pattern: Pattern, type: TensorType) -> Any:
    x = draw.any(pattern.operands[0])
    full = draw.rng.random() < 0.3
    update = x.type.with_(shape=tuple(n if full else draw.rng.randint(0, n) for n in x.type.shape))
    return [x, draw.pattern(pattern.operands[1], update), *_indices(draw, x.type.ndim)], {}


_FORMS: dict[str, Form] = {
    select_hlo.hlo: _select,
    clamp.hlo: _clamp,
    compare_hlo.hlo: _compare,
    convert_hlo.hlo: _convert,
    moves.reshape.hlo: _moving(_reshape_attrs),
    moves.broadcast_in_dim.hlo: _moving(_broadcast_attrs),
    moves.transpose.hlo: _moving(_transpose_attrs),
    moves.slice.hlo: _moving(_slice_attrs),
    moves.rev.hlo: _moving(_rev_attrs),
    moves.pad.hlo: _pad,
    moves.concatenate.hlo: _concatenate,
    moves.dynamic_slice.hlo: _dynamic_slice,
    moves.dynamic_update_slice.hlo: _dynamic_update_slice,
}


def instance(
    left: Pattern, rng: random.Random, dtype: dtypes.DType, shape: tuple[int, ...] = (3,)
) -> Module | None:
    """A module of the form of a pattern, or None where the draw did not fit."""
    draw = Draw(rng, dtype, shape)
    try:
        result = draw.pattern(left, TensorType(shape, dtype))
    except (Misfit, BrazeError):
        return None
    region = Region(draw.parameters, draw.builder.instructions, [result])
    return Module({"main": Function("main", region)})


def random_shape(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.choice((0, 1, 1, 2, 2, 3, 3)) for _ in range(rng.randrange(4)))


def instances(rule: Rule, rng: random.Random, dtype: dtypes.DType, draws: int) -> list[Module]:
    """Instances of a rule's left side; most have random shapes."""
    shapes = [random_shape(rng) if rng.random() < 0.7 else (3,) for _ in range(draws)]
    made = [instance(rule.left, rng, dtype, shape) for shape in shapes]
    return [module for module in made if module is not None]
