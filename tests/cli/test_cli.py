"""The command line as users meet it: what it prints, where, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from braze import knobs
from braze.cli import app, optimised
from braze.passes.pipeline import PIPELINE

ROOT = Path(__file__).parents[2]
FIRST = ROOT / "examples" / "first.py"
TWICE = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %x : tensor<3xf32>
  %1 = stablehlo.negate %0 : tensor<3xf32>
  return %1 : tensor<3xf32>
}
"""
NOTHING_LEFT = """\
module @module {
  func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    return %arg0 : tensor<3xf32>
  }
}
"""


def braze(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command."""
    found = CliRunner().invoke(app, list(arguments), input=stdin)
    return found.exit_code, found.stdout, found.stderr


# opt ----------------------------------------------------------------------------------------------------


def test_opt_reads_a_file_or_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "twice.mlir"
    file.write_text(TWICE)
    assert braze("opt", "--passes=simplify,dce", str(file)) == (0, NOTHING_LEFT, "")
    assert braze("opt", "--passes=simplify,dce", "-", stdin=TWICE) == (0, NOTHING_LEFT, "")
    assert braze("opt", "--passes=simplify,dce", stdin=TWICE) == (0, NOTHING_LEFT, "")


def test_opt_runs_everything_unless_told_otherwise() -> None:
    status, text, _ = braze("opt", stdin=TWICE.replace("negate %0", "sine %0"))
    assert status == 0 and text.count("braze.fusion") == 1
    status, text, _ = braze("opt", "--passes=", stdin=TWICE)
    assert status == 0 and text.count("stablehlo.negate") == 2


def test_opt_takes_options_of_passes() -> None:
    text = """
    func.func @main() -> tensor<2xf32> {
      %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %1 = stablehlo.negate %0 : tensor<2xf32>
      return %1 : tensor<2xf32>
    }"""
    assert "negate" in optimised(text, "fold(max_bytes=4)")
    assert "negate" not in optimised(text, "fold(max_bytes=8)")


def test_opt_prints_what_it_reads() -> None:
    once = optimised(TWICE, "simplify")
    assert optimised(once, "simplify") == once


def test_opt_lists_the_passes_with_their_reasons() -> None:
    status, text, _ = braze("opt", "--list")
    lines = text.splitlines()
    assert status == 0 and len(lines) == len(PIPELINE) + 1
    for line, row in zip(lines[1:], PIPELINE, strict=True):
        assert line.startswith(row.name) and row.why in line and all(name in line for name in row.after)


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["no/such/file.mlir"], "", "ArgumentError: opt: no/such/file.mlir cannot be read: No such file or directory."),
        (["/"], "", "ArgumentError: opt: / cannot be read: Is a directory."),
        (["--passes=csee"], TWICE, "ArgumentError: passes: 'csee' is not a pass.\n  Hint: known: inline, simplify"),
        ([], "func.func @main(", "ParseError: parse: "),
        ([], TWICE.replace("negate %0 : tensor<3xf32>", "negate %0 : tensor<4xf32>"), "Error: "),
        ([], TWICE.replace("%1 :", "%9 :"), "ParseError: parse: %9 is not defined, at line 5"),
        ([], TWICE.replace("negate", "frobnicate"), "Error: "),
    ],
)  # fmt: skip
def test_opt_says_what_is_wrong_with_its_input(arguments: list[str], stdin: str, message: str) -> None:
    status, out, err = braze("opt", *arguments, stdin=stdin)
    assert (status, out) == (1, "")
    assert message in err and "Traceback" not in err


def test_opt_refuses_what_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "binary.mlir"
    file.write_bytes(b"\xff\xfe\x00")
    status, _, err = braze("opt", str(file))
    assert status == 1 and "cannot be read: 'utf-8' codec can't decode" in err


def test_a_skip_that_is_no_pass_is_an_error() -> None:
    with knobs.config(skip=("csee",)):
        status, _, err = braze("opt", stdin=TWICE)
    assert status == 1 and err.startswith("ConfigError: skip: csee is no pass and no rule.")


def test_errors_pass_through_when_tracebacks_are_wanted() -> None:
    with knobs.config(traceback="full"):
        found = CliRunner().invoke(app, ["opt"], input="nonsense")
    assert type(found.exception).__name__ == "ParseError"


# show ---------------------------------------------------------------------------------------------------

MODEL = """
import numpy as np
import braze as bz
import braze.numpy as bnp

print("imported")

def scale(x, y):
    return bnp.sin(x) * y
scale.example_args = (np.ones(3, np.float32), 2.0)

@bz.jit
def jitted(x):
    return x + 1

def tree(d):
    return d["a"] + d["b"]
tree.example_args = lambda: ({"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)},)

def wrong(x):
    return x + bnp.ones((7, 7))

def raises(x):
    raise KeyError("k")

class Holder:
    @staticmethod
    def method(x):
        return x * x

number = 3
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    file = tmp_path / "model_shown.py"
    file.write_text(MODEL)
    return str(file)


def test_show_prints_one_stage_or_all() -> None:
    status, text, err = braze("show", f"{FIRST}:compute", "--args=f32[3]", "--stage=jaxpr")
    assert (status, err) == (0, "")
    assert text.startswith("{ lambda ; a:f32[3]. let") and "mul a a" in text
    status, text, _ = braze("show", f"{FIRST}:compute", "--args=f32[3]")
    names = [line for line in text.splitlines() if line.startswith("--- ")]
    assert status == 0
    assert names == [f"--- {n} ---" for n in ("jaxpr", "hlo", "hlo-opt", "program", "kernel", "llvm", "asm")]


def test_show_takes_arguments_from_the_function(model: str) -> None:
    status, text, err = braze("show", f"{model}:scale", "--stage=jaxpr")
    assert status == 0 and "a:f32[3]" in text and "imported" not in text and "imported" in err
    status, text, _ = braze("show", f"{model}:tree", "--stage=hlo")
    assert status == 0 and text.count("tensor<2xf32>") >= 3


def test_show_takes_types_and_jitted_functions_and_methods(model: str) -> None:
    status, text, _ = braze("show", f"{model}:jitted", "--args", "i32[2, 3]", "--stage=hlo")
    assert status == 0 and "tensor<2x3xi32>" in text
    status, text, _ = braze("show", f"{model}:scale", "--args", "f32[2,3] , f32[]", "--stage=jaxpr")
    assert status == 0 and "a:f32[2,3] b:f32[]" in text
    assert braze("show", f"{model}:Holder.method", "--args=f32[]", "--stage=jaxpr")[0] == 0


@pytest.mark.parametrize(
    ("place", "options", "message"),
    [
        ("{model}", [], "a file and a function in it are wanted.\n  Hint: write braze show examples/first.py:compute."),
        ("{model}:", [], "a file and a function in it are wanted"),
        ("nothing.py:f", [], "ArgumentError: show: there is no file nothing.py."),
        ("{model}:none", [], "has no function none.\n  Hint: it has scale, jitted, tree, wrong, raises, Holder"),
        ("{model}:number", [], "has no function number"),
        ("{model}:jitted", [], 'give them with --args "f32[3,4],i32[]", or set jitted.example_args'),
        ("{model}:scale", ["--args=f32"], "--args 'f32' is no list of types"),
        ("{model}:scale", ["--args=f99[3]"], "'f99' is not the name of an element type"),
        ("{model}:scale", ["--args=float32[3]"], "Hint: write f32."),
        ("{model}:scale", ["--args=f32[3]"], "scale does not take these arguments: missing a required argument: 'y'."),
        ("{model}:scale", ["--stage=hlo2"], "there is no stage 'hlo2'"),
        ("{model}:wrong", ["--args=f32[3]"], "ShapeError: "),
        ("{model}:raises", ["--args=f32[3]"], "raises failed: KeyError: 'k', at model_shown.py:24."),
    ],
)  # fmt: skip
def test_show_says_what_is_wrong(model: str, place: str, options: list[str], message: str) -> None:
    status, out, err = braze("show", place.format(model=model), *options)
    assert (status, out) == (1, ""), err
    assert message in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1 +", "cannot be imported: invalid syntax, at broken.py:1."),
        ("\n\nraise KeyError('k')", "cannot be imported: KeyError: 'k', at broken.py:3."),
        ("import sys\nsys.exit(4)", "cannot be imported: SystemExit: 4, at broken.py:2."),
        ("import not_there_at_all", "No module named 'not_there_at_all', at broken.py:1."),
    ],
)
def test_show_says_why_a_file_cannot_be_imported(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "broken.py").write_text(text)
    status, _, err = braze("show", f"{tmp_path}/broken.py:f")
    assert status == 1 and message in err


# The program --------------------------------------------------------------------------------------------


def test_the_installed_command_ends_as_it_says() -> None:
    run = lambda *a: subprocess.run(
        [sys.executable, "-c", "from braze.cli import main; main()", *a], capture_output=True, text=True
    )
    assert run("opt", "--list").returncode == 0
    assert run("opt", "no_such_file").returncode == 1
    assert run("optimise").returncode == 2
    usage = run()
    assert "opt" in usage.stdout + usage.stderr and "show" in usage.stdout + usage.stderr
