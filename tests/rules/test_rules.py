"""Every rule is an equation: both sides give the same bits on whatever values, and false equations do not fire."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from tests.rules.instances import DTYPES, instances
from tests.rules.values import arguments, same_bits

from braze.hlo.evaluate import evaluate
from braze.hlo.ir import walk
from braze.hlo.parse import parse
from braze.hlo.text import print_module
from braze.hlo.verify import verify
from braze.passes.log import Log
from braze.passes.patterns import Index, Numerics, Rule, is_number
from braze.passes.rewrite import CONSTANT_RIGHT, Rewriter
from braze.passes.simplify import RULE_NAMES, RULES, simplify

GOLDENS = Path(__file__).parents[1] / "passes" / "simplify"
DRAWS = 80
VALUES = 3


def fired(rule: Rule, module):
    """The module after one rule, or None if the rule does not take it."""
    log = Log()
    after = Rewriter(Index([rule]), log, constant_right=False).run(module)
    assert (after is module) == (not log.counts)
    return after if log.counts else None


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_both_sides_are_equal_on_random_types_and_values(rule: Rule) -> None:
    rng, values = random.Random(rule.name), np.random.default_rng(len(rule.name))
    count = 0
    for dtype in DTYPES:
        for module in instances(rule, rng, dtype, DRAWS):
            after = fired(rule, module)
            if after is None:
                continue
            count += 1
            verify(after)
            assert after.main.region.result_types == module.main.region.result_types
            for _ in range(VALUES if rule.numerics is Numerics.EXACT else 0):
                args = arguments(module, values)
                left, right = evaluate(module, args), evaluate(after, args)
                assert same_bits(left, right), f"{print_module(module)}\n{args}\n{left}\n{right}"
    assert count > 0, f"{rule.name} fires on no instance of its left side"


@pytest.mark.parametrize("rule", [r for r in RULES if r.numerics is not Numerics.EXACT], ids=lambda r: r.name)
def test_inexact_rules_are_close_and_need_fast_math(rule: Rule) -> None:
    rng, values = random.Random(1), np.random.default_rng(1)
    count = 0
    for module in instances(rule, rng, DTYPES[0], 60):
        after = fired(rule, module)
        if after is None or not all(np.isfinite(c) and 1e-3 < abs(c) < 1e3 for c in numbers_of(module)):
            continue
        count += 1
        log = Log()
        simplify(module, log=log)
        assert rule.name not in log.counts
        args = [values.normal(1, 1, t.shape).astype(t.dtype) for t in module.main.region.parameter_types]
        np.testing.assert_allclose(evaluate(after, args)[0], evaluate(module, args)[0], rtol=1e-5, atol=1e-5)
    assert count > 0


def numbers_of(module) -> list[float]:
    found = [i.attrs["value"] for i in walk(module.main.region) if i.op.hlo == "constant"]
    return [float(array.reshape(-1)[0]) for array in found if array.size]


def test_there_are_forty_rules_and_their_names_are_unique() -> None:
    left_sides = {repr(rule.left) for rule in RULES}
    assert len(left_sides) >= 40
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("name", sorted(RULE_NAMES))
def test_every_rule_is_fired_by_the_golden_of_its_name(name: str) -> None:
    path = GOLDENS / f"{name}.mlir"
    assert path.exists(), f"{path.name} is missing: see docs/add-a-rule.md"
    log = Log()
    simplify(parse(path.read_text().split("// ==>")[0]), log=log, fast_math=name in INEXACT)
    assert log.counts[name] > 0


INEXACT = {rule.name for rule in RULES if rule.numerics is not Numerics.EXACT}


def test_every_golden_of_simplify_is_of_a_rule() -> None:
    named = {path.stem for path in GOLDENS.glob("*.mlir")}
    assert {name for name in named if not name.startswith("issue_")} == set(RULE_NAMES)


# False equations ----------------------------------------------------------------------------------------
# What holds for real numbers or for integers, and not for floats; none may change the module.

FALSE = {
    "x - x = 0": "%1 = stablehlo.subtract %x, %x : T",
    "x * 0 = 0": "%1 = stablehlo.multiply %x, %zero : T",
    "x * -0 = 0": "%1 = stablehlo.multiply %x, %minus_zero : T",
    "x / x = 1": "%1 = stablehlo.divide %x, %x : T",
    "0 / x = 0": "%1 = stablehlo.divide %zero, %x : T",
    "x + 0 = x": "%1 = stablehlo.add %x, %zero : T",
    "0 - x = -x": "%1 = stablehlo.subtract %zero, %x : T",
    "x % 1 = 0": "%1 = stablehlo.remainder %x, %one : T",
    "x % x = 0": "%1 = stablehlo.remainder %x, %x : T",
    "-(x - y) = y - x": "%0 = stablehlo.subtract %x, %y : T\n%1 = stablehlo.negate %0 : T",
    "-(x + y) = -x - y": "%0 = stablehlo.add %x, %y : T\n%1 = stablehlo.negate %0 : T",
    "(x * y) / y = x": "%0 = stablehlo.multiply %x, %y : T\n%1 = stablehlo.divide %0, %y : T",
    "(x / y) * y = x": "%0 = stablehlo.divide %x, %y : T\n%1 = stablehlo.multiply %0, %y : T",
    "(x + y) - y = x": "%0 = stablehlo.add %x, %y : T\n%1 = stablehlo.subtract %0, %y : T",
    "(x - y) + y = x": "%0 = stablehlo.subtract %x, %y : T\n%1 = stablehlo.add %0, %y : T",
    "(x + 3) + 3 = x + 6": "%0 = stablehlo.add %x, %three : T\n%1 = stablehlo.add %0, %three : T",
    "(x * 3) * 3 = x * 9": "%0 = stablehlo.multiply %x, %three : T\n%1 = stablehlo.multiply %0, %three : T",
    "x / 3 = x * (1 / 3)": "%1 = stablehlo.divide %x, %three : T",
    "x / 2^127 = x * 2^-127": "%1 = stablehlo.divide %x, %huge : T",
    "1 / (1 / x) = x": "%0 = stablehlo.divide %one, %x : T\n%1 = stablehlo.divide %one, %0 : T",
    "max(x, min(x, y)) = x": "%0 = stablehlo.minimum %x, %y : T\n%1 = stablehlo.maximum %x, %0 : T",
    "min(x, max(x, y)) = x": "%0 = stablehlo.maximum %x, %y : T\n%1 = stablehlo.minimum %x, %0 : T",
    "clamp(y, x, y) = y": "%1 = stablehlo.clamp %y, %x, %y : T",
    "sqrt(x * x) = |x|": "%0 = stablehlo.multiply %x, %x : T\n%1 = stablehlo.sqrt %0 : T",
    "sqrt(x) * sqrt(x) = x": "%0 = stablehlo.sqrt %x : T\n%1 = stablehlo.multiply %0, %0 : T",
    "exp(log(x)) = x": "%0 = stablehlo.log %x : T\n%1 = stablehlo.exponential %0 : T",
    "log(exp(x)) = x": "%0 = stablehlo.exponential %x : T\n%1 = stablehlo.log %0 : T",
    "x * y + x * z = x * (y + z)": (
        "%0 = stablehlo.multiply %x, %y : T\n%2 = stablehlo.multiply %x, %x : T\n%1 = stablehlo.add %0, %2 : T"
    ),
    "abs(x) = x": "%1 = stablehlo.abs %x : T",
    "floor(x + 1) = floor(x) + 1": "%0 = stablehlo.add %x, %one : T\n%1 = stablehlo.floor %0 : T",
    "not (x < y) = x >= y": (
        "%0 = stablehlo.compare LT, %x, %y, FLOAT : (T, T) -> B\n%1 = stablehlo.not %0 : B"
    ),
    "(x == x) = true": "%1 = stablehlo.compare EQ, %x, %x, FLOAT : (T, T) -> B",
    "(x != x) = false": "%1 = stablehlo.compare NE, %x, %x, FLOAT : (T, T) -> B",
    "(x <= x) = true": "%1 = stablehlo.compare LE, %x, %x, FLOAT : (T, T) -> B",
    "select(x < y, x, y) = min(x, y)": (
        "%0 = stablehlo.compare LT, %x, %y, FLOAT : (T, T) -> B\n%1 = stablehlo.select %0, %x, %y : B, T"
    ),
    "select(x == y, x, y) = y": (
        "%0 = stablehlo.compare EQ, %x, %y, FLOAT : (T, T) -> B\n%1 = stablehlo.select %0, %x, %y : B, T"
    ),
    "f64 to f32 and back": (
        "%0 = stablehlo.convert %x : (T) -> tensor<4xN>\n%1 = stablehlo.convert %0 : (tensor<4xN>) -> T"
    ),
    "float to i32 and back": (
        "%0 = stablehlo.convert %x : (T) -> tensor<4xi32>\n%1 = stablehlo.convert %0 : (tensor<4xi32>) -> T"
    ),
}  # fmt: skip
NARROWER = {"f32": "f16", "f64": "f32"}
HUGE = {"f32": "1.7014118346046923e+38", "f64": "8.98846567431158e+307"}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("equation", FALSE)
def test_false_equations_do_not_fire_on_floats(equation: str, dtype: str) -> None:
    log = Log()
    simplify(parse(module_text(FALSE[equation], dtype)), log=log)
    assert not log.counts


def module_text(body: str, dtype: str) -> str:
    result = "tensor<4xi1>" if body.rstrip().endswith("B") and "select" not in body else f"tensor<4x{dtype}>"
    lines = [
        "func.func @main(%x: T, %y: T) -> R {",
        *(f"%{name} = stablehlo.constant dense<{value}> : T" for name, value in constants(dtype).items()),
        body,
        "return %1 : R\n}",
    ]
    text = "\n".join(lines).replace("tensor<4xN>", f"tensor<4x{NARROWER[dtype]}>")
    for short, type in (("T", f"tensor<4x{dtype}>"), ("B", "tensor<4xi1>"), ("R", result)):
        text = text.replace(f": {short}", f": {type}").replace(f"({short}", f"({type}")
        text = text.replace(f", {short}", f", {type}").replace(f"-> {short}", f"-> {type}")
    return text


def constants(dtype: str) -> dict[str, str]:
    return {"zero": "0.0", "minus_zero": "-0.0", "one": "1.0", "three": "3.0", "huge": HUGE[dtype]}


def test_false_equations_of_wrapping_integers_do_not_fire() -> None:
    for body in (
        "%1 = stablehlo.divide %x, %x : T",  # x / x is -1 at 0
        "%0 = stablehlo.multiply %x, %x : T\n%1 = stablehlo.abs %0 : T",
        "%0 = stablehlo.negate %x : T\n%2 = stablehlo.negate %y : T\n%1 = stablehlo.divide %0, %2 : T",
        "%0 = stablehlo.negate %x : T\n%2 = stablehlo.negate %y : T\n"
        "%3 = stablehlo.maximum %0, %2 : T\n%1 = stablehlo.negate %3 : T",
        "%0 = stablehlo.multiply %x, %y : T\n%1 = stablehlo.divide %0, %y : T",
    ):
        text = f"func.func @main(%x: T, %y: T) -> T {{\n{body}\nreturn %1 : T\n}}".replace(
            "T", "tensor<4xi32>"
        )
        log = Log()
        simplify(parse(text), log=log)
        assert not log.counts, body


# Literals -----------------------------------------------------------------------------------------------


def test_numbers_match_by_value_and_sign_and_never_wrap() -> None:
    assert is_number(0, np.float32(0.0)) and not is_number(0, np.float32(-0.0))
    assert is_number(-0.0, np.float64(-0.0)) and not is_number(-0.0, np.float64(0.0))
    assert is_number(0, np.int32(0)) and not is_number(-0.0, np.int32(0)) and not is_number(0.5, np.int32(0))
    assert (
        is_number(1, np.bool_(True)) and is_number(0, np.bool_(False)) and not is_number(-1, np.bool_(True))
    )
    assert not is_number(-1, np.uint8(255)) and not is_number(1, np.float32(np.nan))
    assert not is_number(1, np.complex64(1)) and not is_number(1, None)


def test_constants_go_right_once() -> None:
    module = parse(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        "%c = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>\n"
        "%0 = stablehlo.multiply %c, %x : tensor<2xf32>\nreturn %0 : tensor<2xf32>\n}"
    )
    log = Log()
    after = simplify(module, log=log)
    assert dict(log.counts) == {CONSTANT_RIGHT: 1}
    assert simplify(after) is after
    assert simplify(module, skip=[CONSTANT_RIGHT]) is module
