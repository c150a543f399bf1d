"""Constant folding: its budgets."""

from __future__ import annotations

from braze.hlo.parse import parse
from braze.passes.fold import PER_INSTRUCTION, fold


def test_the_work_budget_ends_folding_at_the_same_place_each_time() -> None:
    text = "func.func @main() -> tensor<f32> {\n  %c = stablehlo.constant dense<2.0> : tensor<f32>\n"
    for i in range(20):
        text += f"  %{i} = stablehlo.multiply {f'%{i - 1}' if i else '%c'}, %c : tensor<f32>\n"
    module = parse(text + "  return %19 : tensor<f32>\n}\n")
    for work, left in ((0, 20), (1, 19), (10 * (PER_INSTRUCTION + 12), 10), (1 << 28, 0)):
        folded = fold(module, max_work=work)
        assert sum(i.op.hlo == "multiply" for i in folded.main.region.instructions) == left
