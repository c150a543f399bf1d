"""What `BRAZE_DEBUG`, `BRAZE_DUMP`, `BRAZE_ONLY` and `BRAZE_CHECK` do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp
from braze.errors import InternalError


def make(name: str):
    def f(x, scale=1.0):
        return bnp.sin(x) * 2 + scale

    f.__name__ = name
    return bz.jit(f)


MARKS = {
    1: "compiled f for cpu",
    2: "--- f: jaxpr",
    3: "--- f: hlo-opt",
    4: "fusion: ",
    5: "--- f: llvm",
    6: "--- f: asm",
}


@pytest.mark.parametrize("level", range(7))
def test_levels_print_more_and_more(level: int, capsys: pytest.CaptureFixture[str]) -> None:
    with bz.config(debug=level):
        make("f")(np.ones(level + 2, np.float32))
    printed = capsys.readouterr().err
    assert [mark in printed for mark in MARKS.values()] == [level >= at for at in MARKS]


def test_misses_say_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    f = make("f")
    with bz.config(debug=1):
        f(bnp.ones(3))
        assert "f is traced: its first call" in capsys.readouterr().err
        f(bnp.ones(3))
        assert "traced" not in capsys.readouterr().err
        f(bnp.ones(4))
        assert "f is traced: x was f32[3] and is f32[4]" in capsys.readouterr().err
        f(bnp.ones(4), 2.0)
        assert "scale is new: f32[] weak" in capsys.readouterr().err


def test_functions_of_braze_are_not_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    f = bz.jit(lambda x: bnp.where(x > 0, x, 1.5 * x))
    with bz.config(debug=1):
        f(bnp.ones(37))
    told = [line for line in capsys.readouterr().err.splitlines() if "is traced" in line]
    assert told == ["<lambda> is traced: its first call"]


def test_only_names_functions(capsys: pytest.CaptureFixture[str]) -> None:
    with bz.config(debug=1, only="^g"):
        make("f")(np.ones(11, np.float32)), make("g")(np.ones(11, np.float32))
    printed = capsys.readouterr().err
    assert "compiled g" in printed and "compiled f" not in printed


def test_dump_writes_numbered_files(tmp_path: Path) -> None:
    with bz.config(dump=str(tmp_path)):
        make("dumped")(np.ones(13, np.float32))
    names = sorted(p.name for p in (tmp_path / "dumped").iterdir())
    assert names[0] == "00.jaxpr.txt" and [n[:2] for n in names] == [f"{i:02}" for i in range(len(names))]
    endings = {n.split(".", 1)[1] for n in names}
    assert {"after_fusion.mlir", "hlo.mlir", "program.txt", "kernel.txt", "llvm.ll", "asm.s"} <= endings
    assert (
        "stablehlo.sine"
        in (tmp_path / "dumped" / next(n for n in names if n.endswith(".hlo.mlir"))).read_text()
    )


def test_check_finds_a_wrong_result(monkeypatch: pytest.MonkeyPatch) -> None:
    with bz.config(check=True):
        f = bz.jit(lambda x: x * 3 + 1)
        assert f(np.ones(3, np.float32)).tolist() == [4.0, 4.0, 4.0]
        compiled = f.lower(np.ones(3, np.float32)).compile()
        right = compiled.executable.native.call
        monkeypatch.setattr(
            compiled.executable,
            "native",
            type("Wrong", (), {"call": lambda s, g: [r + 1 for r in right(g)]})(),
        )
        with pytest.raises(InternalError, match="differs from the NumPy target's"):
            f(np.ones(3, np.float32))
