"""The pretty forms of StableHLO's operations, one function per form.

A form is read from behind the operation's name: operands, what its attributes look like, types. The
printer's forms are in `text`; what both share about attributes is in `syntax`.

Source: the assembly formats in StableHLO's operation definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from braze.hlo import syntax
from braze.hlo.ir import Instruction, Region, Value
from braze.hlo.lexer import NAME, VALUE
from braze.ops.table import Op
from braze.types import TensorType

if TYPE_CHECKING:
    from braze.hlo.parse import Parser

Form: TypeAlias = "Callable[[Parser, Op, int], Instruction]"
"""`(parser, op, where its name stands)` gives the instruction."""


def elementwise(p: Parser, op: Op, at: int) -> Instruction:
    """`%0, %1 : T`, `%0, %1 : (T, T) -> T`, or chlo's `%0, %1 : T, T -> T`."""
    operands = p.operands()
    attrs = p.optional_dictionary()
    p.expect(":")
    return p.make(op, at, operands, _loose_types(p, operands), attrs)


def _loose_types(p: Parser, operands: Sequence[Value]) -> tuple[list[TensorType], list[TensorType]]:
    if p.texts[p.at] == "(":
        return p.signature()
    types = p.types_in_a_row()
    if p.accept("->"):
        return types, p.type_list()
    return types * len(operands) if len(types) == 1 else types, types


def _select(p: Parser, op: Op, at: int) -> Instruction:
    """`%p, %0, %1 : tensor<i1>, T`."""
    operands = p.operands()
    attrs = p.optional_dictionary()
    p.expect(":")
    if p.texts[p.at] == "(":
        return p.make(op, at, operands, p.signature(), attrs)
    types = p.types_in_a_row()
    if len(types) != 2:
        raise p.error(f"select takes two types, found {len(types)}", at)
    return p.make(op, at, operands, ([types[0], types[1], types[1]], [types[1]]), attrs)


def _complex(p: Parser, op: Op, at: int) -> Instruction:
    """`%re, %im : tensor<complex<f32>>`."""
    operands = p.operands()
    attrs = p.optional_dictionary()
    p.expect(":")
    types = p.signature() if p.texts[p.at] == "(" else ([v.type for v in operands], [p.type()])
    return p.make(op, at, operands, types, attrs)


def _constant(p: Parser, op: Op, at: int) -> Instruction:
    """`dense<…> : T`, attributes before or none."""
    attrs = p.optional_dictionary()
    start = p.at
    if p.texts[p.at] == "dense_resource":
        raise p.unsupported("dense_resource", start)
    build = p.dense()
    p.expect(":")
    type = p.type()
    return p.make(op, at, (), ((), [type]), attrs | {"value": p.dense_array(build, type, start)})


def _iota(p: Parser, op: Op, at: int) -> Instruction:
    p.expect("dim")
    p.expect("=")
    attrs = {"iota_dimension": p.integer()} | p.optional_dictionary()
    p.expect(":")
    return p.make(op, at, (), ((), [p.type()]), attrs)


def _compare(p: Parser, op: Op, at: int) -> Instruction:
    """`LT, %0, %1, FLOAT : (T, T) -> T`."""
    attrs: dict[str, Any] = {"comparison_direction": p.take(NAME, "a direction")}
    p.expect(",")
    operands = p.operands()
    if p.accept(","):
        attrs["compare_type"] = p.take(NAME, "a comparison type")
    attrs |= p.optional_dictionary()
    p.expect(":")
    return p.make(op, at, operands, p.signature(), attrs)


def _keywords(**names: str) -> Form:
    """A form with keywords after the operands: `%0, low = [1], high = [2] : …`.

    Args:
        names: keyword to attribute name; a value is one integer or a list of them.
    """

    def form(p: Parser, op: Op, at: int) -> Instruction:
        operands = p.operands()
        attrs: dict[str, Any] = {}
        while p.accept(","):
            start = p.at
            keyword = p.take(NAME, "a keyword")
            if keyword not in names or names[keyword] in attrs:
                raise p.error(f"expected one of {', '.join(names)}, found '{keyword}'", start)
            p.expect("=")
            attrs[names[keyword]] = p.integers() if p.texts[p.at] == "[" else p.integer()
        attrs |= p.optional_dictionary()
        p.expect(":")
        return p.make(op, at, operands, _loose_types(p, operands), attrs)

    return form


def _slice(p: Parser, op: Op, at: int) -> Instruction:
    """`%0 [0:3, 1:4:2] : (T) -> T`."""
    operands = p.operands()
    p.expect("[")
    bounds = p.sequence(lambda: _bounds(p), "]")
    starts, limits, strides = (tuple(b[k] for b in bounds) for k in range(3))
    attrs = {"start_indices": starts, "limit_indices": limits, "strides": strides}
    attrs |= p.optional_dictionary()
    p.expect(":")
    return p.make(op, at, operands, p.signature(), attrs)


def _bounds(p: Parser) -> tuple[int, int, int]:
    start = p.integer()
    p.expect(":")
    limit = p.integer()
    return start, limit, p.integer() if p.accept(":") else 1


def _dot_general(p: Parser, op: Op, at: int) -> Instruction:
    """`%0, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT]`."""
    operands = p.operands()
    dims: dict[str, Any] = dict.fromkeys(syntax.DOT_DIMENSIONS, ())
    attrs: dict[str, Any] = {"dot_dimension_numbers": dims}
    while p.accept(","):
        start = p.at
        keyword = p.take(NAME, "a keyword")
        p.expect("=")
        if keyword in ("batching_dims", "contracting_dims"):
            kind = keyword.removesuffix("_dims")
            dims[f"lhs_{kind}_dimensions"] = p.integers()
            p.expect("x")
            dims[f"rhs_{kind}_dimensions"] = p.integers()
        elif keyword == "precision":
            p.expect("[")
            attrs["precision_config"] = tuple(p.sequence(lambda: p.take(NAME, "a precision"), "]"))
        elif keyword == "algorithm":
            p.skip_balanced()
        else:
            raise p.error(f"'{keyword}' is no keyword of dot_general", start)
    attrs |= p.optional_dictionary()
    p.expect(":")
    return p.make(op, at, operands, p.signature(), attrs)


def _call(p: Parser, op: Op, at: int) -> Instruction:
    """`@f(%0, %1) : (T, T) -> T`."""
    attrs: dict[str, Any] = {"callee" if op.hlo == "call" else "call_target_name": p.symbol()}
    p.expect("(")
    operands = p.sequence(p.operand, ")")
    attrs |= p.optional_dictionary()
    p.expect(":")
    return p.make(op, at, operands, p.signature(), attrs)


def _while(p: Parser, op: Op, at: int) -> Instruction:
    """`(%iterArg = %0) : T cond { … } do { … }`; both regions see the names in the header."""
    p.expect("(")
    names: list[tuple[str, int]] = []
    operands: list[Value] = []

    def pair() -> None:
        names.append((p.take(VALUE, "a value"), p.at - 1))
        p.expect("=")
        operands.append(p.operand())

    p.sequence(pair, ")")
    types: list[TensorType] = []
    if operands:
        p.expect(":")
        types = p.types_in_a_row()
    attrs: dict[str, Any] = {}
    if p.accept("attributes"):
        p.expect("{")
        attrs = p.dictionary()
    p.check_types("operands of while", [v.type for v in operands], types, at)
    regions = []
    for keyword in ("cond", "do"):
        p.expect(keyword)
        p.expect("{")
        with p.scope():
            parameters = [Value(t) for t in types]
            for (name, where), parameter in zip(names, parameters, strict=True):
                p.define(name, (parameter,), where)
            regions.append(p.region_body(parameters))
    return p.make(op, at, operands, (types, types), attrs, regions)


def _reduce(p: Parser, op: Op, at: int) -> Instruction:
    """`(%x init: %i), (%y init: %j) across dimensions = [0] : … reducer(%a: T, %b: T) (…) { … }`."""
    inputs: list[Value] = []
    inits: list[Value] = []
    while p.accept("("):
        inputs.append(p.operand())
        p.expect("init")
        p.expect(":")
        inits.append(p.operand())
        p.expect(")")
        if not p.accept(","):
            break
    inner: tuple[Op, int] | None = None
    if p.accept("applies"):
        start = p.at
        inner = p.op(p.take(NAME, "an operation"), start), start
    for word in ("across", "dimensions", "="):
        p.expect(word)
    attrs: dict[str, Any] = {"dimensions": p.integers()} | p.optional_dictionary()
    p.expect(":")
    types = p.signature()
    if inner is not None:
        region = _applied(p, *inner, inits)
    else:
        p.expect("reducer")
        with p.scope():
            pairs = _reducer_parameters(p)
            p.expect("{")
            region = p.region_body([x for x, _ in pairs] + [y for _, y in pairs])
    return p.make(op, at, [*inputs, *inits], types, attrs, [region])


def _applied(p: Parser, op: Op, at: int, inits: Sequence[Value]) -> Region:
    if len(inits) != 1:
        raise p.error(f"'applies' takes one operand, found {len(inits)}", at)
    type = inits[0].type
    parameters = (Value(type), Value(type))
    only = p.make(op, at, parameters, ([type, type], [type]), {})
    return Region(parameters, (only,), only.results)


def _reducer_parameters(p: Parser) -> list[tuple[Value, Value]]:
    pairs: list[tuple[Value, Value]] = []
    while p.accept("("):
        first = p.block_parameter()
        p.expect(",")
        pairs.append((first, p.block_parameter()))
        p.expect(")")
    return pairs


def _rng_bit_generator(p: Parser, op: Op, at: int) -> Instruction:
    """`%0, algorithm = THREE_FRY : (T) -> (T, T)`."""
    operands = p.operands()
    for word in (",", "algorithm", "="):
        p.expect(word)
    attrs = {"rng_algorithm": p.take(NAME, "an algorithm")} | p.optional_dictionary()
    p.expect(":")
    return p.make(op, at, operands, p.signature(), attrs)


FORMS: dict[str, Form] = {
    "broadcast_in_dim": _keywords(dims="broadcast_dimensions"),
    "call": _call,
    "compare": _compare,
    "complex": _complex,
    "concatenate": _keywords(dim="dimension"),
    "constant": _constant,
    "custom_call": _call,
    "dot_general": _dot_general,
    "dynamic_slice": _keywords(sizes="slice_sizes"),
    "iota": _iota,
    "pad": _keywords(low="edge_padding_low", high="edge_padding_high", interior="interior_padding"),
    "reduce": _reduce,
    "reverse": _keywords(dims="dimensions"),
    "rng_bit_generator": _rng_bit_generator,
    "select": _select,
    "slice": _slice,
    "transpose": _keywords(dims="permutation"),
    "while": _while,
}
"""Pretty form by HLO name; the others read as elementwise."""
