"""Golden texts: whole files, compared exactly, rewritten on purpose with `--bless`.

A golden of passes is a file `tests/passes/<pass>/<name>.mlir`: the command, the input, and below `// ==>` what
the command prints for it.

    // braze opt --passes=simplify,dce
    func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { ... }
    // ==>
    module @module { ... }
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

import pytest

ARROW = "// ==>\n"
_COMMAND = re.compile(r"// braze opt --passes=(.*)\n")


def compare(path: Path, text: str, bless: bool) -> None:
    """Fail with a diff and the command that blesses it unless the file holds the text."""
    if bless:
        assert os.environ.get("CI", "") in ("", "0", "false"), "goldens are not blessed in CI"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return
    known = path.read_text() if path.exists() else ""
    if known == text:
        return
    shown = "".join(
        difflib.unified_diff(
            known.splitlines(keepends=True), text.splitlines(keepends=True), str(path.name), "now"
        )
    )
    command = f"pytest {_tests_of(path)} --bless"
    pytest.fail(f"{path.name} differs:\n{shown}\nIf that is meant: {command}", pytrace=False)


def _tests_of(path: Path) -> str:
    """The nearest folder around a golden that holds tests, from the repository's root."""
    root = Path(__file__).parents[1]
    inside = [f for f in path.resolve().parents if f.is_relative_to(root)]
    folder = next((f for f in inside if any(f.glob("test_*.py"))), root)
    return str(folder.relative_to(root))


def check_passes(path: Path, bless: bool) -> None:
    """Run the command in a golden's first line, by the code behind `braze opt`, and compare what it prints."""
    from braze.cli import optimised

    given = path.read_text().partition(ARROW)[0]
    command = _COMMAND.match(given)
    assert command is not None, f"{path}: the first line is no `// braze opt --passes=...`"
    compare(path, given + ARROW + optimised(given, command[1]), bless)


def goldens(folder: Path) -> list[Path]:
    """The goldens of passes below a folder, in order."""
    found = sorted(folder.rglob("*.mlir"))
    assert found, f"{folder} has no goldens"
    return found
