"""Text to HLO: reads StableHLO in its pretty and generic forms.

The forms are those that JAX and StableHLO's own test data write. Locations and attributes with a dot in
their name on operations (which say nothing about results) are skipped; the attributes of modules,
parameters and results are kept. Result types come from the text; `verify` compares them with `infer`.

Invariants:
- Any text gives a module, a ParseError that shows the place, or an UnsupportedError that names the
  operation and the line. Depth of nesting is bounded, so Python's recursion limit is never met.
- A value may only be used where MLIR's scoping lets it be seen.

Sources: MLIR's language reference; StableHLO's assembly formats.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from braze import dtypes, errors
from braze.hlo import lexer, literals, syntax
from braze.hlo.ir import Function, Instruction, Module, Region, Value
from braze.hlo.lexer import BANG, BLOCK, END, HASH, NAME, NUMBER, STRING, SYMBOL, TYPE, VALUE
from braze.ops.table import HLO_OPS, Op
from braze.types import TensorType

_MAX_DEPTH = 64
"""Nesting of regions, lists and attributes together; a level takes up to six Python frames."""

_TERMINATORS = frozenset(("return", "func.return", "stablehlo.return", "braze.return"))
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


def parse(text: str) -> Module:
    """Parse StableHLO text.

    Raises: ParseError with line and column; UnsupportedError for operations and types that braze lacks.

    >>> m = parse('''func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    ...   return %x : tensor<3xf32>
    ... }''')
    >>> m.main.region.parameters[0].type
    f32[3]
    """
    import braze.ops.fusion  # noqa: F401  (with its package, fills the table of operations)

    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        tokens = lexer.tokenize(text)
        self.source = text
        self.kinds, self.texts, self.offsets = tokens.kinds, tokens.texts, tokens.offsets
        self.at = 0
        self.depth = 0
        self.scopes: list[dict[str, tuple[Value, ...]]] = []
        self.types: dict[str, TensorType] = {}

    # --- tokens -----------------------------------------------------------------------------------
    def error(self, message: str, at: int | None = None) -> errors.ParseError:
        return lexer.error(self.source, self.offsets[self.at if at is None else at], message)

    def unsupported(self, what: str, at: int) -> errors.UnsupportedError:
        line = lexer.line_of(self.source, self.offsets[at])
        return errors.UnsupportedError(f"parse: {what} at line {line} is not supported.")

    def found(self) -> str:
        text = self.texts[self.at]
        return "the end of the text" if self.kinds[self.at] == END else f"'{text[:40]}'"

    def accept(self, text: str) -> bool:
        if self.texts[self.at] == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error(f"expected '{text}', found {self.found()}")

    def take(self, kind: int, what: str) -> str:
        if self.kinds[self.at] != kind:
            raise self.error(f"expected {what}, found {self.found()}")
        self.at += 1
        return self.texts[self.at - 1]

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.error(f"nesting deeper than {_MAX_DEPTH}")
        yield
        self.depth -= 1

    def skip_balanced(self) -> None:
        """Skip one bracketed group, whatever is in it."""
        start = self.at
        waiting: list[str] = []
        while True:
            text = self.texts[self.at]
            if self.kinds[self.at] == END:
                raise self.error(f"'{self.texts[start]}' is never closed", start)
            if text in _CLOSING and self.kinds[self.at] != STRING:
                waiting.append(_CLOSING[text])
            elif waiting and text == waiting[-1]:
                waiting.pop()
            self.at += 1
            if not waiting:
                return

    def skip_location(self) -> None:
        if self.texts[self.at] == "loc" and self.texts[self.at + 1] == "(":
            self.at += 1
            self.skip_balanced()

    def sequence(self, item: Callable[[], Any], close: str) -> list[Any]:
        """Items with commas between them, up to and including the closing bracket."""
        items: list[Any] = []
        while not self.accept(close):
            if items:
                self.expect(",")
            items.append(item())
        return items

    # --- types ------------------------------------------------------------------------------------
    def type(self) -> TensorType:
        start = self.at
        if self.kinds[start] == BANG:
            raise self.unsupported(f"the type {self.texts[start]}", start)
        text = self.take(TYPE, "a tensor type")
        found = self.types.get(text)
        if found is None:
            found = self.types[text] = self.tensor_type(text, start)
        return found

    def tensor_type(self, text: str, at: int) -> TensorType:
        *sizes, element = text[len("tensor<") : -1].replace(" ", "").split("x")
        if sizes and sizes[-1] == "comple":  # the x of complex<f32> is no separator
            element = f"{sizes.pop()}x{element}"
        for size in sizes:
            if size == "?":
                raise self.unsupported(f"the dynamic type {text}", at)
            if not (size.isascii() and size.isdigit() and len(size) < 19):
                raise self.error(f"{text} is no tensor type", at)
        dtype = dtypes.FROM_HLO.get(element)
        if dtype is None:
            raise self.unsupported(f"the element type of {text}", at)
        return TensorType(map(int, sizes), dtype)

    def type_list(self) -> list[TensorType]:
        """`(T, T)` or `T`."""
        if self.accept("("):
            return self.sequence(self.annotated_type, ")")
        return [self.type()]

    def annotated_type(self) -> TensorType:
        found = self.type()
        self.skip_location()
        return found

    def signature(self) -> tuple[list[TensorType], list[TensorType]]:
        """`(T, T) -> T`."""
        self.expect("(")
        operands = self.sequence(self.type, ")")
        self.expect("->")
        return operands, self.type_list()

    # --- attributes -------------------------------------------------------------------------------
    def dictionary(self, close: str = "}") -> dict[str, Any]:
        """Entries up to the closing brace; the opening one is already read."""
        found: dict[str, Any] = {}
        with self.nested():
            while not self.accept(close):
                if found:
                    self.expect(",")
                name, value = self.entry()
                found[name] = value
        return found

    def entry(self) -> tuple[str, Any]:
        if self.kinds[self.at] == STRING:
            name = lexer.unquote(self.take(STRING, "a name"))
        else:
            name = self.take(NAME, "the name of an attribute")
        return name, self.attribute() if self.accept("=") else None

    def attribute(self) -> Any:
        """One attribute value as plain Python data; a `#dialect<…>` that braze lacks is its text."""
        kind, text = self.kinds[self.at], self.texts[self.at]
        with self.nested():
            if kind == NUMBER:
                return self.number()
            if kind == STRING:
                self.at += 1
                return lexer.unquote(text)
            if kind == SYMBOL:
                return self.symbol()
            if kind == TYPE:
                return self.type()
            if kind == HASH:
                return self.dialect_attribute()
            if text in ("true", "false"):
                self.at += 1
                return text == "true"
            if self.accept("["):
                return tuple(self.sequence(self.attribute, "]"))
            if self.accept("{"):
                return self.dictionary()
            if text == "dense":
                return self.dense_attribute()
            if self.accept("array"):
                return self.array()
            if self.accept("unit"):
                return None
            if text == "(":
                return self.signature()
            if text in ("#", "loc", "affine_map", "dense_resource", "opaque"):
                raise self.unsupported(f"the attribute '{text}'", self.at)
            raise self.error(f"expected an attribute value, found {self.found()}")

    def number(self) -> Any:
        """`3`, `3 : i32` (a NumPy integer where it is not i64), `2.5 : f64`."""
        start = self.at
        text = self.take(NUMBER, "a number")
        is_float = "." in text or ("e" in text.lower() and "x" not in text)
        value: Any = float(text) if is_float else self.integer_from(text, start)
        if self.texts[self.at] != ":":
            return value
        self.at += 1
        name = self.take(NAME, "a type")
        dtype = dtypes.FROM_HLO.get(name)
        if dtype is None or (name == "i64" and not is_float):
            return value
        try:
            array = literals.array_from_elements((text,), None, TensorType((), dtype))
        except (OverflowError, ValueError, KeyError) as why:
            raise self.error(f"not of type {name}: {why}", start) from None
        return float(array) if dtypes.is_float(dtype) else array[()]

    def integer_from(self, text: str, at: int) -> int:
        if len(text) > 40:
            raise self.error("an integer of more than 40 digits", at)
        try:
            return int(text, 16 if "0x" in text else 10)
        except ValueError:
            raise self.error(f"expected an integer, found '{text}'", at) from None

    def integer(self) -> int:
        start = self.at
        return self.integer_from(self.take(NUMBER, "an integer"), start)

    def integers(self) -> tuple[int, ...]:
        self.expect("[")
        return tuple(self.sequence(self.integer, "]"))

    def array(self) -> tuple[Any, ...]:
        """`array<i64: 1, 2>`; `array` is already read."""
        self.expect("<")
        self.take(NAME, "an element type")
        if self.accept(">"):
            return ()
        self.expect(":")
        return tuple(self.sequence(self.attribute, ">"))

    def symbol(self) -> str:
        text = self.take(SYMBOL, "a symbol such as @main")[1:]
        return lexer.unquote(text) if text.startswith('"') else text

    def dialect_attribute(self) -> Any:
        """`#stablehlo<precision HIGH>` is "HIGH"; `#stablehlo.dot<…>` is a dict; others are their text."""
        start = self.at
        name = self.take(HASH, "an attribute")
        if self.texts[self.at] != "<":
            return name
        if name == "#stablehlo" and self.kinds[self.at + 2] == NAME and self.texts[self.at + 3] == ">":
            self.at += 4
            return self.texts[self.at - 2]
        if name.startswith("#stablehlo."):
            self.at += 1
            return self.dictionary(">")
        self.skip_balanced()
        end = self.offsets[self.at - 1] + len(self.texts[self.at - 1])
        return self.source[self.offsets[start] : end]

    def dense_attribute(self) -> np.ndarray[Any, Any]:
        """`dense<[1, 2]> : tensor<2xi32>`."""
        start = self.at
        build = self.dense()
        self.expect(":")
        return self.dense_array(build, self.type(), start)

    # --- dense elements ---------------------------------------------------------------------------
    def dense(self) -> Callable[[TensorType], np.ndarray[Any, Any]]:
        """`dense<…>`; the type that says what the elements are comes later in the text."""
        self.expect("dense")
        self.expect("<")
        if self.kinds[self.at] == STRING:
            text = lexer.unquote(self.take(STRING, "a string"))
            self.expect(">")
            return lambda type: literals.array_from_bytes(_raw_bytes(text), type)
        if self.accept(">"):
            return lambda type: literals.array_from_elements((), (0,), type)
        elements: list[Any] = []
        shape = self.elements(elements)
        self.expect(">")
        return lambda type: literals.array_from_elements(elements, shape, type)

    def dense_array(
        self, build: Callable[[TensorType], np.ndarray[Any, Any]], type: TensorType, at: int
    ) -> np.ndarray[Any, Any]:
        if type.nbytes > _MAX_CONSTANT:
            raise self.unsupported(f"a constant of {type.nbytes} bytes", at)
        try:
            array = build(type)
        except (ValueError, OverflowError, KeyError) as why:
            raise self.error(f"dense<…> does not fit its type: {why}", at) from None
        array.setflags(write=False)
        return array

    def elements(self, into: list[Any]) -> tuple[int, ...] | None:
        """Append the elements of a literal or nested list; returns the list's shape, None for one literal."""
        if not self.accept("["):
            into.append(self.element())
            return None
        inner: tuple[int, ...] | None = None
        count = 0
        with self.nested():
            while not self.accept("]"):
                if count:
                    self.expect(",")
                start = self.at
                shape = self.elements(into)
                if count and shape != inner:
                    raise self.error("the lists inside one list differ in shape", start)
                inner = shape
                count += 1
        return (count, *(inner or ()))

    def element(self) -> Any:
        kind, text = self.kinds[self.at], self.texts[self.at]
        if kind == NUMBER:
            self.at += 1
            return text
        if text in ("true", "false"):
            self.at += 1
            return text == "true"
        if self.accept("("):
            real = self.take(NUMBER, "a number")
            self.expect(",")
            imaginary = self.take(NUMBER, "a number")
            self.expect(")")
            return (real, imaginary)
        raise self.error(f"expected an element, found {self.found()}")

    # --- module and functions ---------------------------------------------------------------------
    def module(self) -> Module:
        found = Module({})
        self.skip_aliases()
        if self.accept("module"):
            if self.kinds[self.at] == SYMBOL:
                found.name = self.symbol()
            if self.accept("attributes"):
                self.expect("{")
                found.attrs = self.dictionary()
            self.expect("{")
            while not self.accept("}"):
                self.function(found)
            self.skip_location()
        elif self.texts[self.at] == '"builtin.module"':
            self.generic_module(found)
        else:
            while self.texts[self.at] in ("func.func", '"func.func"'):
                self.function(found)
        self.skip_aliases()
        if self.kinds[self.at] != END:
            raise self.error(f"expected a function or the end of the text, found {self.found()}")
        return found

    def skip_aliases(self) -> None:
        """Skip `#loc1 = loc(…)` at top level."""
        while self.kinds[self.at] == HASH and self.texts[self.at + 1] == "=":
            self.at += 2
            if self.texts[self.at] == "loc":
                self.skip_location()
            else:
                self.attribute()

    def generic_module(self, into: Module) -> None:
        """`"builtin.module"() <{sym_name = "m"}> ({ … }) {attributes} : () -> ()`."""
        self.at += 1
        self.expect("(")
        self.expect(")")
        into.name = self.properties().get("sym_name", into.name)
        self.expect("(")
        self.expect("{")
        while not self.accept("}"):
            self.function(into)
        self.expect(")")
        if self.accept("{"):
            into.attrs = self.dictionary()
        self.expect(":")
        self.signature()
        self.skip_location()

    def properties(self) -> dict[str, Any]:
        """`<{…}>` where it stands."""
        if self.texts[self.at] != "<":
            return {}
        self.at += 1
        self.expect("{")
        found = self.dictionary()
        self.expect(">")
        return found

    def function(self, module: Module) -> None:
        start = self.at
        self.scopes = [{}]
        if self.accept('"func.func"'):
            made = self.generic_function(start)
        else:
            self.expect("func.func")
            made = self.pretty_function()
        self.skip_location()
        if made.name in module.functions:
            raise self.error(f"@{made.name} is defined twice", start)
        module.functions[made.name] = made

    def pretty_function(self) -> Function:
        public = True
        if self.texts[self.at] in ("public", "private", "nested"):
            public = self.texts[self.at] == "public"
            self.at += 1
        name = self.symbol()
        self.expect("(")
        parameters = self.sequence(self.parameter, ")")
        results: list[tuple[TensorType, dict[str, Any]]] = []
        if self.accept("->"):
            if self.accept("("):
                results = self.sequence(self.function_result, ")")
            else:
                results = [(self.type(), {})]
        if self.accept("attributes"):
            self.expect("{")
            self.dictionary()
        self.expect("{")
        region = self.region_body([value for value, _ in parameters])
        self.check_types("results", region.result_types, [t for t, _ in results], self.at - 1)
        return Function(name, region, public, _attrs_or_none(parameters), _attrs_or_none(results))

    def parameter(self) -> tuple[Value, dict[str, Any]]:
        value = self.block_parameter()
        return value, self.dictionary() if self.accept("{") else {}

    def block_parameter(self) -> Value:
        """`%arg0: tensor<3xf32>`, defined in the innermost scope."""
        start = self.at
        name = self.take(VALUE, "a parameter such as %arg0")
        self.expect(":")
        value = Value(self.type())
        self.skip_location()
        self.define(name, (value,), start)
        return value

    def function_result(self) -> tuple[TensorType, dict[str, Any]]:
        found = self.type()
        return found, self.dictionary() if self.accept("{") else {}

    def generic_function(self, start: int) -> Function:
        """`"func.func"() <{function_type = …, sym_name = …}> ({ … }) : () -> ()`."""
        self.expect("(")
        self.expect(")")
        attrs = self.properties()
        self.expect("(")
        self.expect("{")
        region = self.labelled_body()
        self.expect(")")
        if self.accept("{"):
            attrs |= self.dictionary()
        self.expect(":")
        self.signature()
        signature, name = attrs.get("function_type"), attrs.get("sym_name")
        if not (isinstance(signature, tuple) and len(signature) == 2 and isinstance(name, str)):
            raise self.error("func.func needs function_type and sym_name", start)
        self.check_types("parameters", region.parameter_types, signature[0], start)
        self.check_types("results", region.result_types, signature[1], start)
        counts = len(region.parameters), len(region.results)
        parameter_attrs = self.carried(attrs.get("arg_attrs"), counts[0], start)
        result_attrs = self.carried(attrs.get("res_attrs"), counts[1], start)
        return Function(
            name, region, attrs.get("sym_visibility", "public") == "public", parameter_attrs, result_attrs
        )

    def carried(self, given: Any, count: int, at: int) -> tuple[dict[str, Any], ...]:
        if given is None:
            return ()
        if not (isinstance(given, tuple) and len(given) == count and all(isinstance(d, dict) for d in given)):
            raise self.error(f"expected a list of {count} attribute dictionaries", at)
        return given

    def check_types(self, what: str, have: Sequence[TensorType], want: Sequence[TensorType], at: int) -> None:
        if tuple(have) != tuple(want):
            shown = ", ".join(map(literals.type_text, have)) or "none"
            stated = ", ".join(map(literals.type_text, want)) or "none"
            raise self.error(f"the {what} have types {shown}, where the text says {stated}", at)

    # --- regions and values -----------------------------------------------------------------------
    def define(self, name: str, values: tuple[Value, ...], at: int) -> None:
        if any(name in scope for scope in self.scopes):
            raise self.error(f"{name} is defined twice", at)
        self.scopes[-1][name] = values

    def operand(self) -> Value:
        """`%0` or `%0#1`."""
        start = self.at
        name, _, index = self.take(VALUE, "a value such as %0").partition("#")
        for scope in reversed(self.scopes):
            values = scope.get(name)
            if values is not None:
                position = int(index) if index and len(index) < 7 else 0
                if position >= len(values) or (not index and len(values) != 1) or len(index) > 6:
                    raise self.error(f"{name} has {len(values)} results", start)
                return values[position]
        raise self.error(f"{name} is not defined", start)

    def operands(self) -> list[Value]:
        """`%0, %1`, up to the first comma that no value follows."""
        found = [self.operand()]
        while self.texts[self.at] == "," and self.kinds[self.at + 1] == VALUE:
            self.at += 1
            found.append(self.operand())
        return found

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        with self.nested():
            yield
        self.scopes.pop()

    def region(self) -> Region:
        """`{ ^bb0(…): … stablehlo.return … }`."""
        self.expect("{")
        with self.scope():
            return self.labelled_body()

    def labelled_body(self) -> Region:
        parameters: list[Value] = []
        if self.kinds[self.at] == BLOCK:
            self.at += 1
            if self.accept("("):
                parameters = self.sequence(self.block_parameter, ")")
            self.expect(":")
        return self.region_body(parameters)

    def region_body(self, parameters: Sequence[Value]) -> Region:
        """Instructions, the return, and the closing brace."""
        instructions: list[Instruction] = []
        while True:
            text = self.texts[self.at]
            if text in _TERMINATORS or (self.kinds[self.at] == STRING and text[1:-1] in _TERMINATORS):
                break
            if text == "}":
                raise self.error("a region ends in a return")
            instructions.append(self.instruction())
        results = self.terminator()
        if self.kinds[self.at] == BLOCK:
            raise self.unsupported("a region of several blocks", self.at)
        self.expect("}")
        return Region(parameters, instructions, results)

    def terminator(self) -> list[Value]:
        start = self.at
        generic = self.kinds[self.at] == STRING
        self.at += 1
        if generic:
            self.expect("(")
            values = self.sequence(self.operand, ")")
            self.expect(":")
            types, _ = self.signature()
        else:
            values = self.operands() if self.kinds[self.at] == VALUE else []
            types = []
            if values:
                self.expect(":")
                types = self.types_in_a_row()
        self.check_types("values returned", [v.type for v in values], types, start)
        self.skip_location()
        return values

    def types_in_a_row(self) -> list[TensorType]:
        """`T, T, T`."""
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return found

    # --- instructions -----------------------------------------------------------------------------
    def instruction(self) -> Instruction:
        names: list[tuple[str, int, int]] = []
        while self.kinds[self.at] == VALUE:
            start = self.at
            self.at += 1
            count = self.integer() if self.accept(":") else 1
            names.append((self.texts[start], count, start))
            if not self.accept(","):
                self.expect("=")
                break
        start = self.at
        made = self.generic() if self.kinds[self.at] == STRING else self.pretty()
        self.skip_location()
        total = sum(count for _, count, _ in names)
        if names and total != len(made.results):
            raise self.error(f"{total} names for {len(made.results)} results", start)
        at = 0
        for name, count, where in names:
            self.define(name, made.results[at : at + count], where)
            at += count
        return made

    def op(self, name: str, at: int) -> Op:
        key = "call" if name in ("call", "func.call") else name.removeprefix("stablehlo.")
        op = HLO_OPS.get(key)
        if op is None or (key == name and "." not in name and name != "call"):
            raise self.unsupported(f"the operation {name}", at)
        return op

    def make(
        self,
        op: Op,
        at: int,
        operands: Sequence[Value],
        types: tuple[Sequence[TensorType], Sequence[TensorType]],
        attrs: dict[str, Any],
        regions: Sequence[Region] = (),
    ) -> Instruction:
        """Check operand types against the text's, read the attributes, and build the instruction."""
        self.check_types(f"operands of {op.hlo}", [v.type for v in operands], types[0], at)
        if not op.multiple_results and len(types[1]) != 1:
            raise self.error(f"{op.hlo} has one result, the text has {len(types[1])}", at)
        found, unknown = syntax.from_text(op, attrs, types[0], types[1])
        if unknown is not None:
            raise self.unsupported(f"the attribute {unknown} of {syntax.full_name(op)}", at)
        return Instruction(op, operands, types[1], found, regions)

    def generic(self) -> Instruction:
        """`"stablehlo.add"(%0, %1) <{…}> ({ … }) {…} : (T, T) -> T`."""
        start = self.at
        op = self.op(lexer.unquote(self.take(STRING, "an operation")), start)
        self.expect("(")
        operands = self.sequence(self.operand, ")")
        attrs = self.properties()
        regions: list[Region] = []
        if self.accept("("):
            regions = self.sequence(self.region, ")")
        attrs |= self.optional_dictionary()
        self.expect(":")
        return self.make(op, start, operands, self.signature(), attrs, regions)

    def optional_dictionary(self) -> dict[str, Any]:
        return self.dictionary() if self.accept("{") else {}

    def pretty(self) -> Instruction:
        start = self.at
        op = self.op(self.take(NAME, "an operation"), start)
        form = _FORMS.get(op.hlo or "", _elementwise)
        return form(self, op, start)


_MAX_CONSTANT = 1 << 30
"""Bytes of the largest constant: one digit too many in a splat should not ask for all memory."""


def _raw_bytes(text: str) -> bytes:
    if not text.startswith("0x"):
        raise ValueError("a string that does not begin with 0x")
    return bytes.fromhex(text[2:])


def _attrs_or_none(pairs: Sequence[tuple[Any, dict[str, Any]]]) -> tuple[dict[str, Any], ...]:
    return tuple(attrs for _, attrs in pairs) if any(attrs for _, attrs in pairs) else ()


# --- pretty forms: one function per form, read after the operation's name -------------------------
_Form = Callable[[_Parser, Op, int], Instruction]


def _elementwise(p: _Parser, op: Op, at: int) -> Instruction:
    """`%0, %1 : T`, `%0, %1 : (T, T) -> T`, or chlo's `%0, %1 : T, T -> T`."""
    operands = p.operands()
    attrs = p.optional_dictionary()
    p.expect(":")
    return p.make(op, at, operands, _loose_types(p, operands), attrs)


def _loose_types(p: _Parser, operands: Sequence[Value]) -> tuple[list[TensorType], list[TensorType]]:
    if p.texts[p.at] == "(":
        return p.signature()
    types = p.types_in_a_row()
    if p.accept("->"):
        return types, p.type_list()
    return types * len(operands) if len(types) == 1 else types, types


def _select(p: _Parser, op: Op, at: int) -> Instruction:
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


def _complex(p: _Parser, op: Op, at: int) -> Instruction:
    """`%re, %im : tensor<complex<f32>>`."""
    operands = p.operands()
    attrs = p.optional_dictionary()
    p.expect(":")
    types = p.signature() if p.texts[p.at] == "(" else ([v.type for v in operands], [p.type()])
    return p.make(op, at, operands, types, attrs)


def _constant(p: _Parser, op: Op, at: int) -> Instruction:
    """`dense<…> : T`, attributes before or none."""
    attrs = p.optional_dictionary()
    start = p.at
    if p.texts[p.at] == "dense_resource":
        raise p.unsupported("dense_resource", start)
    build = p.dense()
    p.expect(":")
    type = p.type()
    return p.make(op, at, (), ((), [type]), attrs | {"value": p.dense_array(build, type, start)})


def _iota(p: _Parser, op: Op, at: int) -> Instruction:
    p.expect("dim")
    p.expect("=")
    attrs = {"iota_dimension": p.integer()} | p.optional_dictionary()
    p.expect(":")
    return p.make(op, at, (), ((), [p.type()]), attrs)


def _compare(p: _Parser, op: Op, at: int) -> Instruction:
    """`LT, %0, %1, FLOAT : (T, T) -> T`."""
    attrs: dict[str, Any] = {"comparison_direction": p.take(NAME, "a direction")}
    p.expect(",")
    operands = p.operands()
    if p.accept(","):
        attrs["compare_type"] = p.take(NAME, "a comparison type")
    attrs |= p.optional_dictionary()
    p.expect(":")
    return p.make(op, at, operands, p.signature(), attrs)


def _keywords(**names: str) -> _Form:
    """A form with keywords after the operands: `%0, low = [1], high = [2] : …`.

    Args:
        names: keyword to attribute name; a value is one integer or a list of them.
    """

    def form(p: _Parser, op: Op, at: int) -> Instruction:
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


def _slice(p: _Parser, op: Op, at: int) -> Instruction:
    """`%0 [0:3, 1:4:2] : (T) -> T`."""
    operands = p.operands()
    p.expect("[")
    bounds = p.sequence(lambda: _bounds(p), "]")
    starts, limits, strides = (tuple(b[k] for b in bounds) for k in range(3))
    attrs = {"start_indices": starts, "limit_indices": limits, "strides": strides}
    attrs |= p.optional_dictionary()
    p.expect(":")
    return p.make(op, at, operands, p.signature(), attrs)


def _bounds(p: _Parser) -> tuple[int, int, int]:
    start = p.integer()
    p.expect(":")
    limit = p.integer()
    return start, limit, p.integer() if p.accept(":") else 1


def _dot_general(p: _Parser, op: Op, at: int) -> Instruction:
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


def _call(p: _Parser, op: Op, at: int) -> Instruction:
    """`@f(%0, %1) : (T, T) -> T`."""
    attrs: dict[str, Any] = {"callee" if op.hlo == "call" else "call_target_name": p.symbol()}
    p.expect("(")
    operands = p.sequence(p.operand, ")")
    attrs |= p.optional_dictionary()
    p.expect(":")
    return p.make(op, at, operands, p.signature(), attrs)


def _while(p: _Parser, op: Op, at: int) -> Instruction:
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


def _reduce(p: _Parser, op: Op, at: int) -> Instruction:
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


def _applied(p: _Parser, op: Op, at: int, inits: Sequence[Value]) -> Region:
    if len(inits) != 1:
        raise p.error(f"'applies' takes one operand, found {len(inits)}", at)
    type = inits[0].type
    parameters = (Value(type), Value(type))
    only = p.make(op, at, parameters, ([type, type], [type]), {})
    return Region(parameters, (only,), only.results)


def _reducer_parameters(p: _Parser) -> list[tuple[Value, Value]]:
    pairs: list[tuple[Value, Value]] = []
    while p.accept("("):
        first = p.block_parameter()
        p.expect(",")
        pairs.append((first, p.block_parameter()))
        p.expect(")")
    return pairs


_FORMS: dict[str, _Form] = {
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
    "select": _select,
    "slice": _slice,
    "transpose": _keywords(dims="permutation"),
    "while": _while,
}
"""Pretty form by HLO name; the others read as elementwise."""
