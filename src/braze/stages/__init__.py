"""Stages: from a function, a jaxpr or HLO text to something that runs.

`jit` holds `jit` itself, `arguments` what it does with arguments, `traced` the stage classes, `executable` the
straight list from HLO to machine code, `calls` how arguments reach it, `report` what is told about it, `eager` what
operations do outside any trace. Importing this package sets `core`'s hook.
"""

from braze.stages import eager
from braze.stages.executable import Executable, compile_hlo
from braze.stages.jit import composed, jit
from braze.stages.traced import Compiled, Lowered, Traced

__all__ = ["Compiled", "Executable", "Lowered", "Traced", "compile_hlo", "composed", "eager", "jit"]
