"""What the CPU target computes with, asked before anything is built: LLVM ends the process on what it cannot
select, and a half-built kernel explains nothing."""

from __future__ import annotations

from braze import dtypes
from braze.dtypes import BF16, BOOL, F16, F32, F64, INTEGERS
from braze.errors import UnsupportedError
from braze.hlo.ir import Module, Value, walk
from braze.target import Target

DTYPES = frozenset((BOOL, BF16, F16, F32, F64, *INTEGERS))
"""Element types of kernels."""


def check_supported(module: Module, target: Target) -> None:
    """Raise UnsupportedError for the first value of a type that the target does not compute with."""
    for function in module.functions.values():
        for parameter in function.region.parameters:
            _check(parameter, f"a parameter of {function.name}", None, target)
        for instruction in walk(function.region):
            for value in instruction.results:
                _check(value, instruction.op.title, instruction, target)


def _check(value: Value, what: str, instruction: object, target: Target) -> None:
    if value.type.dtype in DTYPES:
        return
    raise UnsupportedError(
        f"target {target.name}: {what} is of type {value.type}, and kernels do not compute with "
        f"{dtypes.short(value.type.dtype)} yet.",
        source=getattr(instruction, "source", None),
        hint='convert with astype, or run this function with jit(..., target="numpy").',
    )
