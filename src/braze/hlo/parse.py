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
from collections.abc import Iterator, Sequence
from typing import Any

from braze.hlo import assembly, lexer, literals, syntax
from braze.hlo.ir import Function, Instruction, Module, Region, Value
from braze.hlo.lexer import BLOCK, END, HASH, NAME, STRING, SYMBOL, VALUE
from braze.hlo.reader import Reader
from braze.ops.table import HLO_OPS, Op
from braze.types import TensorType

_TERMINATORS = frozenset(("return", "func.return", "stablehlo.return", "braze.return"))


def parse(text: str) -> Module:
    """Parse StableHLO text.

    Raises: ParseError with line and column; UnsupportedError for operations and types that braze lacks.

    >>> m = parse('''func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    ...   return %x : tensor<3xf32>
    ... }''')
    >>> m.main.region.parameters[0].type
    f32[3]
    """
    return Parser(text).module()


class Parser(Reader):
    """Reads a module; values are known by name in the scope they are defined in and those inside it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.scopes: list[dict[str, tuple[Value, ...]]] = []

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

    def pretty(self) -> Instruction:
        start = self.at
        op = self.op(self.take(NAME, "an operation"), start)
        form = assembly.FORMS.get(op.hlo or "", assembly.elementwise)
        return form(self, op, start)


def _attrs_or_none(pairs: Sequence[tuple[Any, dict[str, Any]]]) -> tuple[dict[str, Any], ...]:
    return tuple(attrs for _, attrs in pairs) if any(attrs for _, attrs in pairs) else ()
