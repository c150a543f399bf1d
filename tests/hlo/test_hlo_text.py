"""HLO text: what braze prints is what MLIR prints, reads back as the same module, and jaxlib parses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from braze import dtypes
from braze.hlo import literals, parse
from braze.hlo.ir import Function, Instruction, Module, Region, Value, equal
from braze.hlo.text import print_module
from braze.ops.table import HLO_OPS
from braze.types import TensorType

FORMS = (Path(__file__).parent / "all_forms.mlir").read_text()
F3 = TensorType((3,), dtypes.F32)


def jaxlib_print(text: str, generic: bool = False) -> str:
    pytest.importorskip("jaxlib")
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        return str(module.operation.get_asm(print_generic_op_form=generic)) + "\n"


def test_every_form_prints_as_it_was_read() -> None:
    assert print_module(parse(FORMS)) == FORMS


def test_every_form_is_what_jaxlib_prints() -> None:
    assert jaxlib_print(FORMS).rstrip() == FORMS.rstrip()


def test_generic_form_of_jaxlib_reads_as_the_same_module() -> None:
    assert equal(parse(jaxlib_print(FORMS, generic=True)), parse(FORMS))


def test_text_with_locations_and_comments_reads_as_the_same_module() -> None:
    lines = []
    for line in FORMS.splitlines():
        closed = line.rstrip().endswith(("{", "}", "({", "}, {")) or "^bb0" in line
        lines.append(
            line if closed or "while" in line or "reduce(" in line else f'{line} loc("x.py":1:2) // c'
        )
    text = "#loc = loc(unknown)\n" + "\n".join(lines) + "\n#loc1 = loc(callsite(#loc at #loc))\n"
    assert equal(parse(text), parse(FORMS))


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=dtypes.short)
def test_constants_of_every_dtype_round_trip(dtype: dtypes.DType) -> None:
    rng = np.random.default_rng(7)
    raw = rng.integers(0, 256, (300, dtype.itemsize), dtype=np.uint8)
    if dtype == dtypes.BOOL:
        raw &= 1
    flat = raw.reshape(-1).view(dtype)
    for value in (flat, flat[:24].reshape(2, 3, 4), flat[:1].reshape(()), flat[:0], np.full((2, 2), flat[0])):
        type = TensorType(value.shape, dtype)
        text = f"{literals.dense_text(value)} : {literals.type_text(type)}"
        source = f"func.func @main() {{\n  %0 = stablehlo.constant {text}\n  return\n}}"
        again = parse(source).main.region.instructions[0].attrs["value"]
        assert again.dtype == dtype
        assert again.shape == value.shape
        if dtype.kind in "biu" or value.size > literals.HEX_ABOVE:
            assert again.tobytes() == value.tobytes()
        else:
            np.testing.assert_array_equal(again, value)


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (2.0, dtypes.F32, "2.000000e+00"),
        (0.1, dtypes.F32, "1.000000e-01"),
        (1 / 3, dtypes.F32, "3.3333334e-01"),
        (0.1 + 0.2, dtypes.F64, "3.0000000000000004e-01"),
        (1e22, dtypes.F64, "1.000000e+22"),
        (-0.0, dtypes.F64, "-0.000000e+00"),
        (np.nan, dtypes.F32, "0x7FC00000"),
        (-np.inf, dtypes.F16, "0xFC00"),
        (1.5, dtypes.BF16, "1.500000e+00"),
    ],
)
def test_floats_print_with_the_fewest_digits_from_six_on(
    value: float, dtype: dtypes.DType, text: str
) -> None:
    assert literals.float_text(dtype.type(value), dtype) == text


def test_fusion_prints_in_generic_form_and_reads_back() -> None:
    x, inner = Value(F3), Value(F3)
    doubled = Instruction(HLO_OPS["add"], [inner, inner], [F3])
    fusion = Instruction(
        HLO_OPS["braze.fusion"],
        [x],
        [F3],
        {"kind": "loop", "name": "add", "aliases": ((0, 0),)},
        [Region([inner], [doubled], doubled.results)],
    )
    module = Module({"main": Function("main", Region([x], [fusion], fusion.results))}, "m")
    text = print_module(module)
    assert text == (
        "module @m {\n"
        "  func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {\n"
        '    %0 = "braze.fusion"(%arg0) <{aliases = [[0, 0]], kind = "loop", name = "add"}> ({\n'
        "    ^bb0(%arg1: tensor<3xf32>):\n"
        "      %1 = stablehlo.add %arg1, %arg1 : tensor<3xf32>\n"
        "      braze.return %1 : tensor<3xf32>\n"
        "    }) : (tensor<3xf32>) -> tensor<3xf32>\n"
        "    return %0 : tensor<3xf32>\n"
        "  }\n"
        "}\n"
    )
    assert equal(parse(text), module)


def test_broken_instructions_print_in_generic_form() -> None:
    x, stray = Value(F3), Value(F3)
    broken = [
        Instruction(HLO_OPS["transpose"], [x], [F3], {}),
        Instruction(HLO_OPS["slice"], [stray], [F3], {"start_indices": object()}),
        Instruction(HLO_OPS["while"], [x], [F3], {}, [Region([], [], [stray])]),
        Instruction(HLO_OPS["constant"], [], [F3], {"value": "no array"}),
        Instruction(HLO_OPS["add"], [], [], {}),
    ]
    module = Module({"main": Function("main", Region([x], broken, [stray]))})
    text = print_module(module)
    assert '"stablehlo.transpose"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>' in text
    assert text.count("%undefined") == 3


def test_source_lines_follow_as_comments() -> None:
    from braze.errors import Source

    x = Value(F3)
    add = Instruction(
        HLO_OPS["add"],
        [x, x],
        [F3],
        source=Source(test_broken_instructions_print_in_generic_form.__code__, 12),
    )
    module = Module({"main": Function("main", Region([x], [add], add.results))})
    assert "%0 = stablehlo.add %arg0, %arg0 : tensor<3xf32>  // test_hlo_text.py:12" in print_module(
        module, True
    )
    assert "//" not in print_module(module)
