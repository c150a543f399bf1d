"""The verifier: every rule, all faults at once, each under its line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braze import dtypes
from braze.errors import VerificationError
from braze.hlo import parse
from braze.hlo.ir import Function, Instruction, Module, Region, Value
from braze.hlo.verify import verify
from braze.ops.table import HLO_OPS
from braze.types import TensorType

F3 = TensorType((3,), dtypes.F32)
F = TensorType((), dtypes.F32)
I = TensorType((), dtypes.I32)


def make(hlo: str, /, *operands: Value, types: Sequence[TensorType] = (F3,), regions: Any = (), **attrs: Any):
    return Instruction(HLO_OPS[hlo], operands, types, attrs, regions)


def module(parameters: Sequence[Value], instructions: Sequence[Instruction], results: Sequence[Value]):
    return Module({"main": Function("main", Region(parameters, instructions, results))})


def faults(broken: Module) -> str:
    with pytest.raises(VerificationError) as caught:
        verify(broken)
    return caught.value.message


def test_all_forms_pass() -> None:
    verify(parse((Path(__file__).parent / "all_forms.mlir").read_text()))


def test_faults_stand_under_their_lines_with_constraint_numbers() -> None:
    x, y = Value(F3), Value(TensorType((4,), dtypes.F32))
    bad = make("add", x, y)
    wrong = make("multiply", x, x, types=[TensorType((3,), dtypes.I32)])
    assert faults(module([x, y], [bad, wrong], [x])) == "\n".join(
        [
            "verify: 2 faults in module @module.",
            "    1 module @module {",
            "    2   func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<4xf32>) -> tensor<3xf32> {",
            "    3     %0 = stablehlo.add %arg0, %arg1 : (tensor<3xf32>, tensor<4xf32>) -> tensor<3xf32>",
            "          ^ add (C1): lhs has shape (3,) and rhs has shape (4,), which must be alike.",
            "    4     %1 = stablehlo.multiply %arg0, %arg0 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi32>",
            "          ^ result types (i32[3]) differ from (f32[3]) that follow.",
            "    5     return %arg0 : tensor<3xf32>",
            "    6   }",
            "      …",
        ]
    )


def test_use_before_definition() -> None:
    x = Value(F3)
    first = make("sine", x)
    second = make("sine", first.result)
    text = faults(module([x], [second, first], [second.result]))
    assert "operand 0 is used before its definition, or never defined" in text


def test_results_must_be_visible() -> None:
    x = Value(F3)
    assert "returned value 0 is used before its definition" in faults(module([x], [], [Value(F3)]))


def test_values_of_a_nested_region_are_not_visible_outside() -> None:
    x, i = Value(F3), Value(I)
    inner = make("sine", x)
    case = make("case", i, regions=[Region([], [inner], inner.results)])
    outside = make("sine", inner.result)
    text = faults(module([x, i], [case, outside], [outside.result]))
    assert "defined in a region that this place cannot see" in text


def test_fusion_regions_are_closed() -> None:
    x, p = Value(F3), Value(F3)
    captures = make("add", p, x)
    attrs = {"kind": "loop", "name": "f", "aliases": ()}
    fusion = make("braze.fusion", x, regions=[Region([p], [captures], captures.results)], **attrs)
    assert "operand 1 is defined in a region that this place cannot see" in faults(
        module([x], [fusion], fusion.results)
    )


def test_a_value_or_instruction_stands_in_one_place() -> None:
    x = Value(F3)
    sine = make("sine", x)
    assert "the instruction stands in the module twice" in faults(module([x], [sine, sine], [x]))
    assert "a value of type f32[3] is defined twice" in faults(module([x, x], [], [x]))


def test_attributes_are_known_present_and_plain() -> None:
    x = Value(F3)
    text = faults(
        module(
            [x],
            [
                make("sine", x, colour=1),
                make("transpose", x),
                make("transpose", x, permutation=object()),
                make("constant", value=np.zeros(3, np.float32)),
            ],
            [x],
        )
    )
    assert "sin has no attribute colour" in text
    assert "attribute permutation of transpose is missing" in text
    assert "attribute permutation is a object, which is no plain data" in text
    assert "attribute value is a ndarray, which is no plain data" in text


def test_calls_match_their_function() -> None:
    text = """
    func.func @main(%x: tensor<3xf32>) {
      %0 = call @f(%x) : (tensor<3xf32>) -> tensor<3xf32>
      %1 = call @g(%x) : (tensor<3xf32>) -> tensor<f32>
      return
    }
    func.func private @g(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
    """
    found = faults(parse(text))
    assert "call of @f, which is not in the module" in found
    assert "operand types (f32[3]) differ from (f32[]) of @g" in found


def test_recursion_is_a_fault() -> None:
    text = """
    func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %0 = call @f(%x) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func private @f(%x: tensor<f32>) -> tensor<f32> {
      %0 = call @main(%x) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    """
    assert "@f calls itself" in faults(parse(text))


def test_a_rule_that_cannot_look_at_the_operands_is_a_fault() -> None:
    x = Value(F3)
    assert "does not take these operands" in faults(module([x], [make("add", x)], [x]))
