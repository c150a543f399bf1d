"""The pipeline and its manager: order, skips, options, reports, and reproducers that replay."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from braze import cli, knobs
from braze.errors import ArgumentError, ConfigError, InternalError, VerificationError
from braze.hlo.ir import Module
from braze.hlo.parse import parse
from braze.hlo.text import print_module
from braze.passes import manager, pipeline
from braze.passes.log import Log
from braze.passes.pipeline import PASSES, PIPELINE, Pass
from braze.passes.simplify import simplify
from braze.target import NUMPY

TWO_RULES = """
func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = stablehlo.negate %x : tensor<3xf32>
  %1 = stablehlo.negate %0 : tensor<3xf32>
  %2 = stablehlo.abs %y : tensor<3xf32>
  %3 = stablehlo.abs %2 : tensor<3xf32>
  return %1, %3 : tensor<3xf32>, tensor<3xf32>
}
"""
CIRCLE = """
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = call @f(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = call @f(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
"""


def steps_of(module: Module, **options) -> dict[str, manager.Step]:
    steps: list[manager.Step] = []
    passes = [row for row in PIPELINE if row.name != "fusion"]
    manager.run(module, NUMPY, passes=passes, observe=steps.append, **options)
    return {step.name: step for step in steps}


def test_every_row_has_a_reason_and_stands_after_what_it_needs() -> None:
    seen: set[str] = set()
    for row in PIPELINE:
        assert row.why and set(row.after) <= seen
        seen.add(row.name)


def test_steps_tell_what_each_pass_did() -> None:
    steps = steps_of(parse(TWO_RULES))
    assert steps["simplify"].changed and steps["simplify"].counts == {"neg_neg": 1, "abs_abs": 1}
    assert not steps["fold"].changed and steps["fold"].counts == {}
    assert steps["dce"].counts == {"neg": 1}
    assert all(step.seconds > 0 for step in steps.values())


def test_a_single_rule_can_be_skipped() -> None:
    assert steps_of(parse(TWO_RULES), skip=("simplify.neg_neg",))["simplify"].counts == {"abs_abs": 1}
    with knobs.config(skip=("simplify.abs_abs",)):
        assert steps_of(parse(TWO_RULES))["simplify"].counts == {"neg_neg": 1}


def test_a_pass_can_be_skipped_with_all_its_rows() -> None:
    with knobs.config(skip=("simplify", "dce")):
        assert not {"simplify", "simplify.after_loops", "dce"} & set(steps_of(parse(TWO_RULES)))
    assert "simplify.after_loops" not in steps_of(parse(TWO_RULES), skip=("simplify.after_loops",))


@pytest.mark.parametrize("name", ["simpify", "neg_neg", "cse.neg_neg", "simplify.nothing"])
def test_skipping_what_does_not_exist_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"skip: {name} is no pass and no rule"):
        steps_of(parse(TWO_RULES), skip=(name,))


def test_fuel_comes_from_the_knob() -> None:
    with knobs.config(fuel=1):
        assert steps_of(parse(TWO_RULES))["simplify"].counts == {"neg_neg": 1}


# Options ------------------------------------------------------------------------------------------------


def test_passes_are_read_with_their_options() -> None:
    rows = manager.parse_passes("cse, fold(max_bytes=8, max_work=1), simplify.after_loops,")
    assert [row.name for row in rows] == ["cse", "fold", "simplify.after_loops"]
    assert dict(rows[1].options) == {"max_bytes": 8, "max_work": 1}
    assert manager.parse_passes("") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("csee", "'csee' is not a pass"),
        ("fold(max_byte=8)", "fold has no option max_byte"),
        ("fold(log=8)", "fold has no option log"),
        ("fold(8)", r"fold\(8\) gives an option without its name"),
        ("fold(max_bytes='a')", r"fold\(max_bytes='a'\): the value has to be of type int"),
        ("fold(max_bytes=a)", r"fold\(max_bytes=a\): the value has to be of type int"),
        ("fold(", "is no list of passes"),
        ("a],[b", "is no list of passes"),
    ],
)
def test_bad_lists_of_passes_are_errors(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        manager.parse_passes(text)


# Failures -----------------------------------------------------------------------------------------------


def broken(module: Module, *, skip: tuple[str, ...] = (), fast_math: bool = False, log: Log) -> Module:
    """A pass that does its work and fails on modules with a sine."""
    if "stablehlo.sine" in print_module(module):
        raise AssertionError("no sines, please")
    return simplify(module, skip=skip, fast_math=fast_math, log=log)


SINE = TWO_RULES.replace("stablehlo.abs %2", "stablehlo.sine %2")


@pytest.fixture
def broken_simplify(monkeypatch: pytest.MonkeyPatch) -> Pass:
    row = replace(PASSES["simplify"], run=broken)
    monkeypatch.setitem(pipeline.PASSES, "simplify", row)
    return row


def test_a_failing_pass_writes_a_reproducer_that_braze_opt_replays(
    broken_simplify: Pass, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = [PASSES["inline"], broken_simplify, PASSES["cse"]]
    with knobs.config(dump=str(tmp_path)), pytest.raises(InternalError) as caught:
        manager.run(parse(SINE), NUMPY, passes=passes)
    assert caught.value.stage == "pass simplify of module"
    assert "AssertionError: no sines, please" in str(caught.value)
    command = caught.value.reproducer
    assert command is not None
    path = tmp_path / "reproducer.simplify.mlir"
    assert command == f"braze opt --passes=simplify {path}"
    # In this process, the pass still fails, for the module that the file holds.
    arguments = command.split()[2:]
    monkeypatch.setattr(sys, "argv", ["braze", "opt", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 3
    assert "no sines, please" in capsys.readouterr().err
    # In another one, where the pass is sound, the same command runs through.
    found = subprocess.run([sys.executable, "-c", RUN, "opt", *arguments], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("stablehlo.sine") == 1 and "return %arg0" in found.stdout


RUN = "from braze.cli import main; main()"


def test_the_reproducer_carries_options_and_settings(tmp_path: Path) -> None:
    row = replace(PASSES["simplify"], run=broken, options=(("fast_math", True),))
    with (
        knobs.config(dump=str(tmp_path), skip=("simplify.neg_neg", "cse"), fuel=7),
        pytest.raises(InternalError) as caught,
    ):
        manager.run(parse(SINE), NUMPY, passes=[row])
    command = str(caught.value.reproducer)
    assert command.startswith("BRAZE_SKIP=cse,simplify.neg_neg BRAZE_FUEL=7 braze opt ")
    assert (
        "'--passes=simplify(fast_math=True)'" in command or "--passes='simplify(fast_math=True)'" in command
    )
    assert (tmp_path / "reproducer.simplify.mlir").read_text().startswith("// BRAZE_SKIP=")


def test_a_pass_that_breaks_the_module_is_caught_when_verifying() -> None:
    def unbinds(module: Module) -> Module:
        other = parse(TWO_RULES).main.region
        region = type(other)(other.parameters, other.instructions[1:], other.results)
        return module.with_function(replace(module.main, region=region))

    row = Pass("cse", unbinds, why="a test")
    with pytest.raises(
        InternalError, match=r"(?s)pass cse of module.*VerificationError.*braze opt --passes=cse"
    ):
        manager.run(parse(TWO_RULES), NUMPY, passes=[row], verify=2)


def test_functions_that_call_themselves_are_the_users_fault() -> None:
    with pytest.raises(VerificationError, match="f calls itself"):
        manager.run(parse(CIRCLE), NUMPY, passes=[PASSES["inline"]])


def test_commands_in_messages_name_a_file_that_exists(broken_simplify: Pass) -> None:
    with pytest.raises(InternalError) as caught:
        manager.run(parse(SINE), NUMPY, passes=[broken_simplify])
    match = re.search(r"braze opt --passes=simplify (\S+)$", str(caught.value))
    assert match is not None and Path(match[1]).is_file()
