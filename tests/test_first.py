"""The first program of the README runs, and prints every stage; run this test first."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_first_example(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "first.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.startswith("compute([1, 2]) = [3. 6.]\ncompute([3, 4]) = [11. 18.]\n")
    stages = ("jaxpr", "hlo", "hlo-opt", "program", "kernel", "llvm", "asm")
    assert [printed.index(f"=== {stage} ===") for stage in stages] == sorted(
        printed.index(f"=== {stage} ===") for stage in stages
    )
    assert "stablehlo.multiply" in printed and "braze_run" in printed


def test_program_of_the_issue(capsys: pytest.CaptureFixture[str]) -> None:
    import braze as bz
    import braze.numpy as bnp

    @bz.jit
    def compute(x):
        return x * x + 2.0

    assert compute(bnp.array([1.0, 2.0])).tolist() == [3.0, 6.0]
    assert compute(bnp.array([3.0, 4.0])).tolist() == [11.0, 18.0]
    assert str(bz.make_jaxpr(compute)(bnp.ones(3))).startswith("{ lambda ; a:f32[3]. let")
    low = compute.trace(bnp.ones(3)).lower()
    assert "stablehlo.multiply" in low.as_text()
    exe = low.compile()
    for stage in ("jaxpr", "hlo", "hlo-opt", "program", "kernel", "llvm", "asm"):
        assert exe.as_text(stage).strip()
