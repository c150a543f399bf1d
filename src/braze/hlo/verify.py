"""The rules of HLO, checked: scoping, types against `infer`, attributes, calls, returns.

All faults of a module are collected and shown in one error, each under its line of the listing, with the
constraint of StableHLO's specification where `infer` names one.

Invariant: a module that passes can be printed, parsed again, evaluated and compiled without a look at its
well-formedness; passes and targets rely on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braze.errors import BrazeError, VerificationError
from braze.hlo.ir import Function, Instruction, Module, Region, Value, walk
from braze.hlo.text import Printer
from braze.types import TensorType

_FUSION = "braze.fusion"
_CONTEXT = 2
"""Lines of the listing shown before and after a fault."""


def verify(module: Module) -> None:
    """Check a module; raises VerificationError that lists every fault under its line."""
    checker = _Checker(module)
    checker.run()
    if checker.faults:
        raise VerificationError(_listing(module, checker.faults))


class _Checker:
    """Collects faults as pairs: `id` of the instruction or function, and the sentence."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.faults: list[tuple[int, str]] = []
        self.defined: set[Value] = set()
        self.seen: set[int] = set()

    def run(self) -> None:
        for name, function in self.module.functions.items():
            if name != function.name:
                self.fault(function, f"@{function.name} is registered as @{name}")
            self.attributes_per_value(function)
            self.region(function.region, set(), function)
        self.call_cycles()

    def fault(self, node: Instruction | Function, sentence: str) -> None:
        self.faults.append((id(node), sentence))

    def attributes_per_value(self, function: Function) -> None:
        for what, attrs, values in (
            ("parameter", function.parameter_attrs, function.region.parameters),
            ("result", function.result_attrs, function.region.results),
        ):
            if attrs and len(attrs) != len(values):
                self.fault(function, f"{len(attrs)} {what} attribute dictionaries for {len(values)} {what}s")

    def region(self, region: Region, visible: set[Value], owner: Instruction | Function) -> None:
        """Check one region.

        Args:
            visible: values of the regions around it; the same again when this returns, since a copy for
                each nested region would cost the square of a program's size.
        """
        inside = list(region.parameters)
        self.define(region.parameters, visible, owner)
        for instruction in region.instructions:
            if id(instruction) in self.seen:
                self.fault(instruction, "the instruction stands in the module twice")
                continue
            self.seen.add(id(instruction))
            for k, operand in enumerate(instruction.operands):
                if operand not in visible:
                    self.fault(instruction, f"operand {k} is {self.invisible(operand)}")
            for inner in instruction.regions:
                self.region(inner, set() if instruction.op.hlo == _FUSION else visible, instruction)
            self.instruction(instruction)
            self.define(instruction.results, visible, instruction)
            inside += instruction.results
        for k, result in enumerate(region.results):
            if result not in visible:
                self.fault(owner, f"returned value {k} is {self.invisible(result)}")
        visible.difference_update(inside)

    def invisible(self, value: Value) -> str:
        if value in self.defined:
            return "defined in a region that this place cannot see"
        return "used before its definition, or never defined"

    def define(self, values: Sequence[Value], visible: set[Value], owner: Instruction | Function) -> None:
        for value in values:
            if value in self.defined:
                self.fault(owner, f"a value of type {value.type} is defined twice")
            self.defined.add(value)
            visible.add(value)

    def instruction(self, instruction: Instruction) -> None:
        """Attributes and result types of one instruction, without its regions."""
        op = instruction.op
        bad = [name for name, value in instruction.attrs.items() if not _is_plain(name, value)]
        unknown = [name for name in instruction.attrs if name not in op.attrs]
        missing = [name for name in op.attrs if name not in instruction.attrs]
        for name in bad:
            kind = type(instruction.attrs[name]).__name__
            self.fault(instruction, f"attribute {name} is a {kind}, which is no plain data")
        for name in unknown:
            self.fault(instruction, f"{op.title} has no attribute {name}")
        for name in missing:
            self.fault(instruction, f"attribute {name} of {op.title} is missing")
        if not (bad or unknown or missing):
            self.types(instruction)

    def types(self, instruction: Instruction) -> None:
        op = instruction.op
        attrs: dict[str, Any] = dict(instruction.attrs)
        if op.hlo == "call":
            self.call(instruction)
            return
        if instruction.regions:
            attrs["regions"] = instruction.regions
        have = [r.type for r in instruction.results]
        try:
            inferred = op.infer(*[v.type for v in instruction.operands], **attrs)
        except BrazeError as error:
            self.fault(instruction, error.message.rstrip("."))
            return
        except Exception as error:  # a rule handed operands or regions that it cannot even look at
            self.fault(instruction, f"{op.title} does not take these operands and regions ({error})")
            return
        want = list(inferred) if op.multiple_results else [inferred]
        if have != want:
            self.fault(instruction, f"result types {_shown(have)} differ from {_shown(want)} that follow")

    def call(self, instruction: Instruction) -> None:
        name = instruction.attrs["callee"]
        callee = self.module.functions.get(name)
        if callee is None:
            self.fault(instruction, f"call of @{name}, which is not in the module")
            return
        for what, have, want in (
            ("operand", [v.type for v in instruction.operands], callee.region.parameter_types),
            ("result", [r.type for r in instruction.results], callee.region.result_types),
        ):
            if tuple(have) != tuple(want):
                self.fault(instruction, f"{what} types {_shown(have)} differ from {_shown(want)} of @{name}")

    def call_cycles(self) -> None:
        """Functions that call themselves, directly or not: there is no stack to run them on."""
        calls = {
            name: [
                i.attrs.get("callee") for i in _each(function.region) if i.op.hlo == "call"
            ]
            for name, function in self.module.functions.items()
        }  # fmt: skip
        for name, function in self.module.functions.items():
            reached: set[str] = set()
            waiting = list(calls[name])
            while waiting:
                callee = waiting.pop()
                if isinstance(callee, str) and callee in calls and callee not in reached:
                    reached.add(callee)
                    waiting += calls[callee]
            if name in reached:
                self.fault(function, f"@{name} calls itself")


def _each(region: Region) -> list[Instruction]:
    return list(walk(region))


def _is_plain(name: str, value: Any) -> bool:
    if name == "callback":
        return value is None or callable(value)
    if isinstance(value, tuple):
        return all(_is_plain("", v) for v in value)
    if isinstance(value, np.ndarray):
        return not value.flags.writeable  # nobody may change a constant under a compiled program
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_plain("", v) for k, v in value.items())
    return value is None or isinstance(value, bool | int | float | str | np.dtype | TensorType)


def _shown(types: Sequence[TensorType]) -> str:
    return f"({', '.join(map(str, types))})"


def _listing(module: Module, faults: Sequence[tuple[int, str]]) -> str:
    """The lines around each fault, the faults under them."""
    printer = Printer(module)
    under: dict[int, list[str]] = {}
    for node, sentence in faults:
        under.setdefault(printer.places.get(node, 0), []).append(sentence)
    shown = sorted(
        {
            line
            for place in under
            for line in range(max(0, place - _CONTEXT), min(len(printer.lines), place + _CONTEXT + 1))
        }
    )
    count = len(faults)
    parts = [f"verify: {count} fault{'s' if count > 1 else ''} in module @{module.name}."]
    before = -1
    for line in shown:
        if line > before + 1:
            parts.append("      …")
        parts.append(f"{line + 1:5} {printer.lines[line]}")
        indent = len(printer.lines[line]) - len(printer.lines[line].lstrip())
        parts += [f"      {' ' * indent}^ {sentence}." for sentence in under.get(line, ())]
        before = line
    if before < len(printer.lines) - 1:
        parts.append("      …")
    return "\n".join(parts)
