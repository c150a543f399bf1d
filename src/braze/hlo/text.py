"""HLO to text: StableHLO's pretty form, as MLIR prints it.

Values are named as MLIR names them (`%arg0`, `%0`, `%cst`, `%c_1`, `%iterArg`), so that what braze prints
and what jaxlib prints of the same module are the same text. An op without a pretty form, and every
instruction that its pretty form cannot show, prints in the generic form `"name"(operands) <{attributes}> …`.

Invariants:
- Printing never raises: this is what one looks at broken IR with. A value that no instruction in view
  defines prints as `%undefined`.
- The same module gives the same text: names go by position, attributes are sorted.

Source: MLIR's AsmPrinter (numbering of values), StableHLO's assembly formats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from braze import dtypes
from braze.hlo import literals, syntax
from braze.hlo.ir import Function, Instruction, Module, Region, Value
from braze.types import TensorType


def print_module(module: Module, source: bool = False) -> str:
    """Print a module as StableHLO text.

    Args:
        source: add the user's `file:line` as a comment after each instruction.
    """
    return "\n".join(Printer(module, source).lines) + "\n"


class _Names:
    """Names in use in one region; the regions inside it see them, its siblings do not."""

    __slots__ = ("arguments", "conflicts", "outer", "used", "values")

    def __init__(self, outer: _Names | None) -> None:
        self.outer = outer
        self.used: set[str] = set()
        self.values: int = outer.values if outer else 0
        self.arguments: int = outer.arguments if outer else 0
        self.conflicts: int = outer.conflicts if outer else 0

    def taken(self, name: str) -> bool:
        scope: _Names | None = self
        while scope is not None:
            if name in scope.used:
                return True
            scope = scope.outer
        return False

    def unique(self, wanted: str) -> str:
        name = wanted
        while self.taken(name):
            name = f"{wanted}_{self.conflicts}"
            self.conflicts += 1
        self.used.add(name)
        return f"%{name}"

    def argument(self) -> str:
        self.arguments += 1
        return f"%arg{self.arguments - 1}"

    def value(self) -> str:
        self.values += 1
        return f"%{self.values - 1}"


class Printer:
    """The lines of a module's text, and where each instruction stands in them.

    Attributes:
        lines: the text.
        places: `id` of an instruction or function to the index of its first line.
        call_name: how a call is written here; only directly in a function is the dialect understood.
    """

    def __init__(self, module: Module, source: bool = False) -> None:
        self.lines: list[str] = []
        self.places: dict[int, int] = {}
        self._names: dict[Value, str] = {}
        self.call_name = "call"
        self._source = source
        self._indent = 0
        attrs = f" attributes {literals.dictionary_text(module.attrs)}" if module.attrs else ""
        self.line(f"module {literals.symbol_text(module.name)}{attrs} {{")
        self._indent = 1
        for function in module.functions.values():
            self._function(function)
        self._indent = 0
        self.line("}")

    # --- names ------------------------------------------------------------------------------------
    def name(self, value: Value) -> str:
        """`%arg0`, `%3`, `%3#1`; `%undefined…` for a value that nothing in view defines."""
        found = self._names.get(value)
        if found is None:
            found = self._names[value] = f"%undefined_{len(self._names)}"
        return found

    def names(self, values: Sequence[Value]) -> str:
        return ", ".join(map(self.name, values))

    def _number(self, region: Region) -> None:
        """Name every value of a function: a whole region first, then the regions inside it."""
        waiting: list[tuple[Region, _Names | None, bool]] = [(region, None, False)]
        while waiting:
            region, outer, is_loop = waiting.pop()
            scope = _Names(outer)
            for parameter in region.parameters:
                self._names[parameter] = scope.unique("iterArg") if is_loop else scope.argument()
            for instruction in region.instructions:
                self._name_results(instruction, scope)
            for instruction in region.instructions:
                waiting += [(inner, scope, instruction.op.hlo == "while") for inner in instruction.regions]

    def _name_results(self, instruction: Instruction, scope: _Names) -> None:
        results = instruction.results
        if len(results) == 1:
            if instruction.op.hlo == "constant":
                inexact = dtypes.is_inexact(results[0].type.dtype)
                self._names[results[0]] = scope.unique("cst" if inexact else "c")
            else:
                self._names[results[0]] = scope.value()
        elif results:
            base = scope.value()
            for k, result in enumerate(results):
                self._names[result] = f"{base}#{k}"

    # --- lines ------------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append(f"{'  ' * self._indent}{text}")

    def _function(self, function: Function) -> None:
        region = function.region
        self._number(region)
        self.places[id(function)] = len(self.lines)
        given = function.parameter_attrs or ({},) * len(region.parameters)
        parameters = [f"{self.name(p)}: {_with_attrs(p.type, a)}" for p, a in zip(region.parameters, given)]
        given = function.result_attrs or ({},) * len(region.results)
        results = [_with_attrs(t, a) for t, a in zip(region.result_types, given)]
        shown = ", ".join(results)
        if len(results) != 1 or given[0]:
            shown = f"({shown})"
        arrow = f" -> {shown}" if results else ""
        visibility = "public" if function.public else "private"
        name = literals.symbol_text(function.name)
        self.line(f"func.func {visibility} {name}({', '.join(parameters)}){arrow} {{")
        self.body(region, "return")
        self.line("}")

    def body(self, region: Region, terminator: str = "stablehlo.return") -> None:
        """The instructions of a region, indented, and its return."""
        self._indent += 1
        before, self.call_name = self.call_name, "call" if terminator == "return" else "func.call"
        for instruction in region.instructions:
            self._instruction(instruction)
        self.call_name = before
        shown = f" {self.names(region.results)} : {_types(region.result_types)}" if region.results else ""
        self.line(f"{terminator}{shown}")
        self._indent -= 1

    def _instruction(self, instruction: Instruction) -> None:
        start = self.places[id(instruction)] = len(self.lines)
        indent = self._indent
        results = instruction.results
        left = ""
        if results:
            first = self.name(results[0]).split("#")[0]
            left = f"{first}:{len(results)} = " if len(results) > 1 else f"{first} = "
        form = _PRETTY.get(instruction.op.hlo or "", _elementwise)
        try:
            form(self, instruction, left)
        except Exception:  # a broken instruction: whatever its form expected does not hold
            del self.lines[start:]
            self._indent = indent
            self.generic(instruction, left)
        if self._source and instruction.source is not None:
            self.lines[start] += f"  // {instruction.source.short}"

    def generic(self, instruction: Instruction, left: str) -> None:
        """`%0 = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({ … }) : (…) -> …`."""
        try:
            attrs = syntax.to_text(instruction.op, instruction.attrs)
        except Exception:  # attributes that are no plain data
            attrs = {k: literals.string_text(repr(v)) for k, v in sorted(instruction.attrs.items())}
        name = syntax.full_name(instruction.op)
        listed = ", ".join(_entries(attrs))
        head = f'{left}"{name}"({self.names(instruction.operands)})' + (f" <{{{listed}}}>" if attrs else "")
        types = literals.function_type_text(
            [v.type for v in instruction.operands], [r.type for r in instruction.results]
        )
        if not instruction.regions:
            self.line(f"{head} : {types}")
            return
        self.line(f"{head} ({{")
        terminator = "braze.return" if name.startswith("braze.") else "stablehlo.return"
        for k, region in enumerate(instruction.regions):
            if k:
                self.line("}, {")
            if region.parameters:
                shown = ", ".join(f"{self.name(p)}: {literals.type_text(p.type)}" for p in region.parameters)
                self.line(f"^bb0({shown}):")
            self.body(region, terminator)
        self.line(f"}}) : {types}")


def _types(types: Sequence[TensorType]) -> str:
    return ", ".join(map(literals.type_text, types))


def _with_attrs(type: TensorType, attrs: dict[str, Any]) -> str:
    return literals.type_text(type) + (f" {literals.dictionary_text(attrs)}" if attrs else "")


def _entries(attrs: dict[str, str]) -> list[str]:
    return [f"{name} = {text}" if text else name for name, text in attrs.items()]


def _list(numbers: Sequence[int]) -> str:
    return f"[{', '.join(str(int(n)) for n in numbers)}]"


def _signature(instruction: Instruction) -> str:
    return literals.function_type_text(
        [v.type for v in instruction.operands], [r.type for r in instruction.results]
    )


# --- pretty forms: one function per form, `(printer, instruction, "%0 = ")` ----------------------
_Form = Callable[[Printer, Instruction, str], None]


def _elementwise(p: Printer, i: Instruction, left: str) -> None:
    """`stablehlo.add %0, %1 : tensor<3xf32>`, the types in full where they are not all alike."""
    if i.regions or not i.operands or syntax.to_text(i.op, i.attrs):
        p.generic(i, left)
        return
    types = {v.type for v in (*i.operands, *i.results)}
    name = syntax.full_name(i.op)
    if name.startswith("chlo."):
        shown = f"{_types([v.type for v in i.operands])} -> {literals.type_text(i.result.type)}"
    else:
        shown = literals.type_text(i.result.type) if len(types) == 1 else _signature(i)
    p.line(f"{left}{name} {p.names(i.operands)} : {shown}")


def _same_or_signature(i: Instruction) -> str:
    alike = all(v.type == i.result.type for v in i.operands)
    return literals.type_text(i.result.type) if alike else _signature(i)


def _convert(p: Printer, i: Instruction, left: str) -> None:
    p.line(f"{left}stablehlo.convert {p.names(i.operands)} : {_same_or_signature(i)}")


def _changing(p: Printer, i: Instruction, left: str) -> None:
    """`stablehlo.reshape %0 : (T) -> T`: the types in full, also where they are alike."""
    p.line(f"{left}{syntax.full_name(i.op)} {p.names(i.operands)} : {_signature(i)}")


def _constant(p: Printer, i: Instruction, left: str) -> None:
    value = literals.dense_text(i.attrs["value"])
    p.line(f"{left}stablehlo.constant {value} : {literals.type_text(i.result.type)}")


def _iota(p: Printer, i: Instruction, left: str) -> None:
    dimension = int(i.attrs["iota_dimension"])
    p.line(f"{left}stablehlo.iota dim = {dimension} : {literals.type_text(i.result.type)}")


def _compare(p: Printer, i: Instruction, left: str) -> None:
    direction, kind = i.attrs["comparison_direction"], i.attrs["compare_type"]
    p.line(f"{left}stablehlo.compare {direction}, {p.names(i.operands)}, {kind} : {_signature(i)}")


def _select(p: Printer, i: Instruction, left: str) -> None:
    which, on_true, on_false = (v.type for v in i.operands)
    alike = on_true == on_false == i.result.type
    shown = _types((which, on_true)) if alike else _signature(i)
    p.line(f"{left}stablehlo.select {p.names(i.operands)} : {shown}")


def _complex(p: Printer, i: Instruction, left: str) -> None:
    p.line(f"{left}stablehlo.complex {p.names(i.operands)} : {literals.type_text(i.result.type)}")


def _listed(keyword: str, attribute: str, same: bool = False) -> _Form:
    """A form with one list of numbers: `stablehlo.transpose %0, dims = [1, 0] : …`."""

    def form(p: Printer, i: Instruction, left: str) -> None:
        shown = _same_or_signature(i) if same else _signature(i)
        numbers = _list(i.attrs[attribute])
        name = syntax.full_name(i.op)
        p.line(f"{left}{name} {p.names(i.operands)}, {keyword} = {numbers} : {shown}")

    return form


def _concatenate(p: Printer, i: Instruction, left: str) -> None:
    dimension = int(i.attrs["dimension"])
    p.line(f"{left}stablehlo.concatenate {p.names(i.operands)}, dim = {dimension} : {_signature(i)}")


def _slice(p: Printer, i: Instruction, left: str) -> None:
    bounds = zip(i.attrs["start_indices"], i.attrs["limit_indices"], i.attrs["strides"], strict=True)
    shown = ", ".join(f"{a}:{b}" if step == 1 else f"{a}:{b}:{step}" for a, b, step in bounds)
    p.line(f"{left}stablehlo.slice {p.names(i.operands)} [{shown}] : {_signature(i)}")


def _pad(p: Printer, i: Instruction, left: str) -> None:
    lists = ", ".join(f"{name} = {_list(i.attrs[name])}" for name in ("low", "high", "interior"))
    p.line(f"{left}stablehlo.pad {p.names(i.operands)}, {lists} : {_signature(i)}")


def _dot_general(p: Printer, i: Instruction, left: str) -> None:
    lhs_batch, rhs_batch, lhs_sum, rhs_sum = (_list(i.attrs[name]) for name in syntax.DOT_DIMENSIONS)
    batch = f"batching_dims = {lhs_batch} x {rhs_batch}, " if lhs_batch != "[]" or rhs_batch != "[]" else ""
    precision = i.attrs.get("precision")
    shown = f", precision = [{', '.join(precision)}]" if precision else ""
    dims = f"{batch}contracting_dims = {lhs_sum} x {rhs_sum}{shown}"
    p.line(f"{left}stablehlo.dot_general {p.names(i.operands)}, {dims} : {_signature(i)}")


def _call(p: Printer, i: Instruction, left: str) -> None:
    callee = literals.symbol_text(i.attrs["callee"])
    p.line(f"{left}{p.call_name} {callee}({p.names(i.operands)}) : {_signature(i)}")


def _custom_call(p: Printer, i: Instruction, left: str) -> None:
    attrs = syntax.to_text(i.op, i.attrs)
    del attrs["call_target_name"]
    target = literals.symbol_text(i.attrs["call_target_name"])
    shown = f" {{{', '.join(_entries(attrs))}}}" if attrs else ""
    p.line(f"{left}stablehlo.custom_call {target}({p.names(i.operands)}){shown} : {_signature(i)}")


def _while(p: Printer, i: Instruction, left: str) -> None:
    condition, body = i.regions
    for inner, outer in zip(body.parameters, condition.parameters, strict=True):
        p._names[inner] = p.name(outer)  # both regions see the names in the header
    pairs = zip(condition.parameters, i.operands, strict=True)
    header = ", ".join(f"{p.name(parameter)} = {p.name(operand)}" for parameter, operand in pairs)
    types = f" : {_types([v.type for v in i.operands])}" if i.operands else ""
    p.line(f"{left}stablehlo.while({header}){types}")
    p.line("cond {")
    p.body(condition)
    p.line("} do {")
    p.body(body)
    p.line("}")


def _reduce(p: Printer, i: Instruction, left: str) -> None:
    (region,) = i.regions
    count = len(i.operands) // 2
    pairs = zip(i.operands[:count], i.operands[count:], strict=True)
    inputs = ", ".join(f"({p.name(x)} init: {p.name(init)})" for x, init in pairs)
    tail = f"across dimensions = {_list(i.attrs['dimensions'])} : {_signature(i)}"
    reducer = _compact_reducer(region)
    if reducer is not None:
        p.line(f"{left}stablehlo.reduce{inputs} applies {reducer} {tail}")
        return
    p.line(f"{left}stablehlo.reduce{inputs} {tail}")
    shown = " ".join(
        f"({p.name(x)}: {literals.type_text(x.type)}, {p.name(y)}: {literals.type_text(y.type)})"
        for x, y in zip(region.parameters[:count], region.parameters[count:], strict=True)
    )
    p.line(f" reducer{shown}  {{")
    p.body(region)
    p.line("}")


def _compact_reducer(region: Region) -> str | None:
    """The op's name where a reducer is one commutative op on its two parameters in order."""
    if len(region.instructions) != 1 or len(region.parameters) != 2:
        return None
    (only,) = region.instructions
    compact = only.op.commutative and not only.attrs and only.operands == region.parameters
    alike = {p.type for p in region.parameters} == {r.type for r in only.results}
    if not (compact and alike and region.results == only.results):
        return None
    name = syntax.full_name(only.op)
    return name if name.startswith("stablehlo.") else None


_PRETTY: dict[str, _Form] = {
    "bitcast_convert": _changing,
    "broadcast_in_dim": _listed("dims", "broadcast_dimensions"),
    "call": _call,
    "compare": _compare,
    "complex": _complex,
    "concatenate": _concatenate,
    "constant": _constant,
    "convert": _convert,
    "custom_call": _custom_call,
    "dot_general": _dot_general,
    "dynamic_slice": _listed("sizes", "slice_sizes"),
    "dynamic_update_slice": _changing,
    "iota": _iota,
    "pad": _pad,
    "reduce": _reduce,
    "reshape": _changing,
    "reverse": _listed("dims", "dimensions", same=True),
    "select": _select,
    "slice": _slice,
    "transpose": _listed("dims", "permutation"),
    "while": _while,
}
"""Pretty form by HLO name; ops without attributes and regions print elementwise, all others generic."""
