"""HLO, IR 2: the graph that passes rewrite, shaped like StableHLO. `parse` reads its text."""

from __future__ import annotations

from braze.hlo.ir import Module as Module
from braze.hlo.parse import parse as parse  # the function hides the submodule of its name, on purpose

__all__ = ["Module", "parse"]
