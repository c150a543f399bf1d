"""Reading HLO text: its errors show the place, and no text makes it crash, hang or recurse without bound."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from braze import dtypes
from braze.errors import BrazeError, ParseError, UnsupportedError
from braze.hlo import lexer, parse
from braze.hlo.ir import Module
from braze.hlo.text import print_module
from braze.types import TensorType

FORMS = (Path(__file__).parent / "all_forms.mlir").read_text()


def in_main(body: str, result: str = "") -> str:
    return f"func.func @main(%x: tensor<3xf32>, %i: tensor<i32>){result} {{\n{body}\n}}"


def constant(text: str) -> np.ndarray:
    module = parse(in_main(f"  %0 = stablehlo.constant {text}\n  return"))
    return module.main.region.instructions[0].attrs["value"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("  %0 = stablehlo.add %x, %y : tensor<3xf32>", "%y is not defined, at line 2, column 26."),
        ("  %0 = stablehlo.add %x %x : tensor<3xf32>", "expected ':', found '%x', at line 2, column 25."),
        (
            "  %0 = stablehlo.add %x, %x : tensor<4xf32>",
            "the operands of add have types tensor<3xf32>, tensor<3xf32>, where the text says "
            "tensor<4xf32>, tensor<4xf32>, at line 2, column 8.",
        ),
        ("  %x = stablehlo.sine %x : tensor<3xf32>", "%x is defined twice, at line 2, column 3."),
        ("  %0:2 = stablehlo.sine %x : tensor<3xf32>", "2 names for 1 results, at line 2, column 10."),
        ("  %0 = stablehlo.constant dense<[1, 2]> : tensor<3xi32>", "a list of shape (2,), where"),
        (
            "  %0 = stablehlo.constant dense<[[1], 2]> : tensor<2xi32>",
            "differ in shape, at line 2, column 39.",
        ),
        ("  %0 = stablehlo.constant dense<300> : tensor<i8>", "300, where i8 holds -128 to 127"),
        ('  %0 = stablehlo.constant dense<"0x00"> : tensor<2xi32>', "1 bytes, where tensor<2xi32> has 8"),
        ("  %0 = stablehlo.sine %x : tensor<3xf32>\n}", "a region ends in a return, at line 3, column 1."),
        ("  return %x : tensor<3xf32>", "the results have types tensor<3xf32>, where the text says none"),
        ("  %0 = ;", "';' begins no token, at line 2, column 8."),
        ("  %0 = stablehlo.sine %x#3 : tensor<3xf32>", "%x has 1 results, at line 2, column 23."),
    ],
)
def test_errors_name_the_place(body: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(in_main(body))
    assert message in caught.value.message


def test_errors_show_the_line_with_a_caret() -> None:
    with pytest.raises(ParseError) as caught:
        parse(in_main("  %0 = stablehlo.add %x, %y : tensor<3xf32>"))
    assert str(caught.value).startswith(
        "parse: %y is not defined, at line 2, column 26.\n"
        "    %0 = stablehlo.add %x, %y : tensor<3xf32>\n"
        "                           ^"
    )


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ('  %0 = "stablehlo.frobnicate"(%x) : (tensor<3xf32>) -> tensor<3xf32>', "stablehlo.frobnicate"),
        ("  %0 = stablehlo.frobnicate %x : tensor<3xf32>", "the operation stablehlo.frobnicate at line 2"),
        ("  %0 = add %x, %x : tensor<3xf32>", "the operation add at line 2"),
        ("  %0 = stablehlo.constant dense<0> : tensor<?xi32>", "the dynamic type tensor<?xi32> at line 2"),
        ("  %0 = stablehlo.constant dense<0> : tensor<f99>", "the element type of tensor<f99> at line 2"),
        ("  %0 = stablehlo.sine %x {zip = 1} : tensor<3xf32>", "the attribute zip of stablehlo.sine"),
        ("  %0 = stablehlo.constant dense<0> : tensor<999999999999xi8>", "999999999999 bytes"),
    ],
)
def test_what_braze_lacks_is_named_with_its_line(body: str, what: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse(in_main(body))
    assert what in caught.value.message
    assert "line 2" in caught.value.message


def test_element_literals() -> None:
    np.testing.assert_array_equal(constant("dense<[1, -2, 0x1F]> : tensor<3xi32>"), [1, -2, 31])
    np.testing.assert_array_equal(constant('dense<"0x0000803F00000040"> : tensor<2xf32>'), [1, 2])
    np.testing.assert_array_equal(constant('dense<"0x01"> : tensor<3xi1>'), [True] * 3)
    np.testing.assert_array_equal(constant("dense<[0x7F800000, 1.5E+2]> : tensor<2xf32>"), [np.inf, 150])
    np.testing.assert_array_equal(constant("dense<(1.0, -2.0)> : tensor<complex<f32>>"), 1 - 2j)
    np.testing.assert_array_equal(constant("dense<[[], []]> : tensor<2x0xi32>"), np.zeros((2, 0)))
    assert np.signbit(constant("dense<-0.0> : tensor<f64>"))
    assert not constant("dense<1> : tensor<4xi32>").flags.writeable


def test_values_of_a_region_are_not_seen_outside() -> None:
    body = """
      %0 = "stablehlo.case"(%i) ({
        %1 = stablehlo.sine %x : tensor<3xf32>
        stablehlo.return %1 : tensor<3xf32>
      }) : (tensor<i32>) -> tensor<3xf32>
      %2 = stablehlo.sine %1 : tensor<3xf32>
      return"""
    with pytest.raises(ParseError, match="%1 is not defined"):
        parse(in_main(body))


def test_comparison_type_follows_the_operands_where_the_text_has_none() -> None:
    module = parse(
        in_main(
            "  %0 = stablehlo.compare  LT, %x, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>\n"
            '  %1 = "stablehlo.compare"(%i, %i) {comparison_direction = #stablehlo<comparison_direction GE>}'
            " : (tensor<i32>, tensor<i32>) -> tensor<i1>\n  return"
        )
    )
    first, second = module.main.region.instructions
    assert first.attrs == {"comparison_direction": "LT", "compare_type": "FLOAT"}
    assert second.attrs == {"comparison_direction": "GE", "compare_type": "SIGNED"}


def test_numbers_of_attributes_keep_type_and_bits() -> None:
    attrs = parse(
        "module attributes {a = 3, b = 3 : i64, c = -1 : i8, d = 0x7FF0000000000000 : f64, e = 2.5 : f32, "
        "f = true, g = [1, [2]], h = array<i64: 1, 2>, i = dense<1> : tensor<2xi32>, j = unit, k, "
        "l = #stablehlo<precision HIGH>, m = #stablehlo.dot<a = [1]>, n = #sdy.x<[{}, {}]>, "
        "o = @f, p = tensor<2xf32>} {}"
    ).attrs
    np.testing.assert_array_equal(attrs.pop("i"), [1, 1])
    assert attrs == {
        "a": 3, "b": 3, "c": np.int8(-1), "d": np.inf, "e": 2.5, "f": True, "g": (1, (2,)), "h": (1, 2),
        "j": None, "k": None, "l": "HIGH", "m": {"a": (1,)}, "n": "#sdy.x<[{}, {}]>", "o": "f",
        "p": TensorType((2,), dtypes.F32),
    }  # fmt: skip
    assert type(attrs["a"]) is int
    assert type(attrs["c"]) is np.int8


def test_attributes_of_modules_and_functions_are_kept() -> None:
    module = parse(FORMS)
    assert module.attrs["a.b"] == (1, 2.5, 'x"y')
    assert module.attrs["mhlo.num_partitions"] == np.int32(1)
    assert module.main.donated == (True, False, False, False)
    assert module.main.result_attrs[0] == {"jax.result_info": "result"}


@pytest.mark.parametrize("text", ["[" * 100_000, "{" * 100_000, '"stablehlo.case"(%i) ({' * 10_000])
def test_deep_nesting_is_an_error_not_a_recursion(text: str) -> None:
    with pytest.raises(BrazeError):
        parse(in_main(f"  %0 = stablehlo.constant dense<{text}"))
    with pytest.raises(BrazeError):
        parse(in_main(text))
    with pytest.raises(BrazeError):
        parse(f"module attributes {{a = {text}")


def test_long_chains_need_no_recursion() -> None:
    lines = [f"  %{k + 1} = stablehlo.sine %{k} : tensor<f32>" for k in range(5000)]
    text = "func.func @main(%0: tensor<f32>) -> tensor<f32> {\n" + "\n".join(lines)
    module = parse(f"{text}\n  return %5000 : tensor<f32>\n}}")
    assert len(module.main.region.instructions) == 5000
    assert print_module(module).count("sine") == 5000


@pytest.mark.parametrize("seed", range(4))
def test_mutated_text_gives_a_module_or_an_error(seed: int) -> None:
    rng = random.Random(seed)
    tokens = lexer.tokenize(FORMS)
    pieces = [FORMS[a:b] for a, b in zip(tokens.offsets, [*tokens.offsets[1:], len(FORMS)])]
    modules = 0
    for _ in range(150):
        mutated = list(pieces)
        for _ in range(rng.randint(0, 2)):
            at = rng.randrange(len(mutated))
            match rng.randrange(4):
                case 0:
                    del mutated[at : at + rng.randint(1, 4)]
                case 1:
                    mutated[at:at] = mutated[at : at + rng.randint(1, 20)]
                case 2:
                    mutated[at] = rng.choice(pieces)
                case 3:
                    text = mutated[at]
                    cut = rng.randrange(len(text) + 1)
                    mutated[at] = text[:cut] + rng.choice('%"<>(){}[]0x-e.#@^!\\\x00é') + text[cut:]
        try:
            made = parse("".join(mutated))
        except BrazeError:
            continue
        assert isinstance(made, Module)
        print_module(made)
        modules += 1
    assert modules > 0
