"""Calls of C functions by name: what they read and write is stated, and a status ends the program."""

from __future__ import annotations

import numpy as np
import pytest

from braze.errors import UnsupportedError
from braze.hlo.parse import parse
from braze.program.assign import assign
from braze.program.check import check
from braze.program.evaluate import evaluate
from braze.program.schedule import schedule
from braze.program.text import print_program
from braze.stages.native import emit
from braze.targets.host import host

TEXT = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %x : tensor<3xf32>
  %1 = stablehlo.custom_call @twice(%0) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = stablehlo.add %1, %0 : tensor<3xf32>
  return %2 : tensor<3xf32>
}
"""


def test_a_symbol_reads_its_operands_and_writes_its_results() -> None:
    program = assign(schedule(parse(TEXT), host(), symbols=frozenset({"twice"})))
    check(program)
    assert "call twice (t0 @arena 0:12) -> (" in print_program(program)

    def twice(x: np.ndarray, result: np.ndarray) -> None:
        result[:] = 2 * x

    (found,) = evaluate(program, [np.arange(3, dtype=np.float32)], {"twice": twice})
    np.testing.assert_array_equal(found, -3 * np.arange(3, dtype=np.float32))


def test_the_status_of_a_symbol_is_looked_at() -> None:
    text = emit(assign(schedule(parse(TEXT), host(), symbols=frozenset({"twice"}))), host())
    assert "= call i32 @twice(ptr %" in text and "declare i32 @twice(ptr, ptr)" in text
    after = text[text.index("call i32 @twice") :].splitlines()
    assert any("br i1" in line for line in after[:4]), after[:4]


def test_a_symbol_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(UnsupportedError, match="nobody knows the target 'twice'"):
        schedule(parse(TEXT), host())
