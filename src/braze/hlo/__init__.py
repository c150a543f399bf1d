"""HLO, IR 2: the graph that passes rewrite, shaped like StableHLO. `parse` reads its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from braze.hlo.ir import Module as Module
from braze.hlo.parse import parse as parse  # the function hides the submodule of its name, on purpose

compile: Callable[..., Any]
"""`stages.compile_hlo`, bound by `braze` itself, since stages are of higher rank."""

__all__ = ["Module", "compile", "parse"]
