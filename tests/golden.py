"""Golden texts: whole files, compared exactly, rewritten on purpose with `--bless`."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest


def compare(path: Path, text: str, bless: bool) -> None:
    """Fail with a diff and the command that blesses it unless the file holds the text."""
    if bless:
        assert not os.environ.get("CI"), "goldens are not blessed in CI"
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
    folder = path.parent.parent.relative_to(Path(__file__).parents[1])
    pytest.fail(f"{path.name} differs:\n{shown}\nIf that is meant: pytest {folder} --bless", pytrace=False)
