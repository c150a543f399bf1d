"""A failing pass or stage, kept: the module before it in a file, and the command that runs it on that again.

Imported where something has failed: it takes 6 ms that a compilation which ends well need not spend.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from braze import knobs
from braze.hlo.ir import Module
from braze.hlo.text import print_module
from braze.passes.pipeline import Pass


def pass_reproducer(row: Pass, module: Module, settings: Mapping[str, Any]) -> str:
    """Write the module before a failing pass; returns the command that runs the pass on it again."""
    options = ", ".join(f"{name}={value!r}" for name, value in row.options)
    passes = f"{row.name}({options})" if options else row.name
    command = " ".join([*_variables(settings), "braze opt", f"--passes={shlex.quote(passes)}"])
    return _written(row.name, command, module)


def build_reproducer(module: Module) -> str:
    """Write a module that has been through the passes; returns the command that makes code of it again."""
    return _written("build", "braze opt --passes= --stage=asm", module)


def _written(name: str, command: str, module: Module) -> str:
    folder = Path(knobs.get("dump") or tempfile.mkdtemp(prefix="braze-"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"reproducer.{name}.mlir"
    path.write_text(f"// {command}\n{print_module(module)}\n")
    return f"{command} {shlex.quote(str(path))}"


def _variables(settings: Mapping[str, Any]) -> list[str]:
    """The settings of knobs that are not the default, as assignments for a shell."""
    found = []
    for name, value in settings.items():
        knob = knobs.KNOBS[name]
        if value != knob.default:
            text = ",".join(value) if isinstance(value, tuple) else str(int(value))
            found.append(f"{knob.variable}={shlex.quote(text)}")
    return found
