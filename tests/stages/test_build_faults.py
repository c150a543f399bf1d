"""What happens when braze itself is at fault after the passes, and what BRAZE_VERIFY looks at on the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp
from braze import knobs
from braze.errors import InternalError
from braze.hlo.ir import walk
from braze.hlo.parse import parse
from braze.passes import log as logs
from braze.passes.fusion import fusion
from braze.stages import native
from braze.targets.host import host

X = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)


def softmax(x):
    e = bnp.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_a_fault_of_the_build_names_the_stage_and_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(program, target):
        raise AssertionError("no code today")

    with (
        monkeypatch.context() as patch,
        knobs.config(dump=str(tmp_path)),
        pytest.raises(InternalError) as caught,
    ):
        patch.setattr(native, "load", broken)
        bz.hlo.compile(bz.jit(softmax).lower(X).as_text())
    message = str(caught.value)
    assert message.startswith("internal error in the build of softmax: AssertionError: no code today")
    command = str(caught.value.reproducer)
    assert command == f"braze opt --passes= --stage=asm {tmp_path / 'reproducer.build.mlir'}"
    run = [sys.executable, "-c", "from braze.cli import main; main()", *command.split()[1:]]
    replayed = subprocess.run(run, capture_output=True, text=True)
    assert replayed.returncode == 0, replayed.stderr
    assert "braze_run:" in replayed.stdout and "braze.exponential_reduce_divide:" in replayed.stdout


def test_verification_looks_at_what_every_stage_hands_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from braze.hlo import verify
    from braze.kernel import check as kernels
    from braze.program import check as program
    from braze.trace import jaxpr

    looked: list[str] = []
    for module, name in ((verify, "verify"), (kernels, "check"), (program, "check"), (jaxpr, "check")):
        monkeypatch.setattr(module, name, lambda *_, where=module.__name__: looked.append(where))
    found = []
    for level in (0, 1, 2):
        with knobs.config(verify=level):
            bz.jit(lambda x, level=level: x * (level + 3.0)).lower(X).compile()
        found.append(set(looked))
        looked.clear()
    assert found == [
        set(),
        {"braze.hlo.verify", "braze.program.check"},
        {"braze.trace.jaxpr", "braze.hlo.verify", "braze.program.check", "braze.kernel.check"},
    ]


def test_fuel_ends_fusion_too() -> None:
    module = parse(bz.jit(softmax).lower(X).as_text())
    launches, fused = [], []
    for fuel in (0, 1, 2, 3, None):
        log = logs.Log(fuel)
        after = fusion(module, target=host(), log=log)
        launches.append(sum(i.op.hlo == "braze.fusion" for i in walk(after.main.region)))
        fused.append(log.counts["fusion"])
    assert fused[:4] == [0, 1, 2, 3] and fused[4] > 3
    assert launches == sorted(launches, reverse=True) and launches[0] > launches[-1] == 1
    with knobs.config(fuel=2, cache="off"):
        np.testing.assert_allclose(np.asarray(bz.jit(softmax)(X)), softmax(bnp.asarray(X)), rtol=1e-6)


def test_fusion_without_anything_to_fuse_gives_the_module_back() -> None:
    module = parse("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
    assert fusion(module, target=host()) is module


def test_decisions_and_kernels_print_as_tables() -> None:
    compiled = bz.jit(softmax).trace(X).lower().compile()
    lines = str(compiled.fusion_decisions).splitlines()
    assert lines[0].split() == ["producer", "consumer", "fused", "bytes_saved", "source", "rule", "reason"]
    assert len(lines) == 1 + len(compiled.fusion_decisions)
    assert "test_build_faults.py:" in lines[1]
    assert str(compiled.kernels).splitlines()[1].startswith("exponential_reduce_divide")
    assert str(bz.jit(lambda x: x).lower(X).compile().kernels) == "()"
