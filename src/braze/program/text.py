"""Text of a Program: one step a line, each buffer with where it lies. Printed only.

    program f
      parameters: in0 f32[4] @parameter 0+0:16 donated
      results: out0 f32[4] @result 0+0:16
      arena: 64 bytes, at least 64
      launch fusion[1] (in0 @parameter 0+0:16) -> (t0 @arena 0:16)

Invariants: numbering by position and name, no ids; never raises on a broken program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from braze.program.ir import Branch, Buffer, CallSymbol, Copy, Host, Launch, Loop, Program


def print_program(program: Program) -> str:
    """The text of a program."""
    lines = [f"program {program.name}"]
    for title, buffers in (("parameters", program.parameters), ("results", program.results)):
        shown = [_declared(program, title, k, b) for k, b in enumerate(buffers)]
        lines.append(f"  {title}: {', '.join(shown)}".rstrip())
    for k, array in enumerate(program.constants):
        lines.append(f"  constant c{k}: {_constant(array)}")
    for k, callback in enumerate(program.callbacks):
        lines.append(f"  callback {k}: {getattr(callback, '__name__', type(callback).__name__)}")
    lines.append(f"  arena: {program.arena_bytes} bytes, at least {program.lower_bound_bytes}")
    _steps(program, program.steps, "  ", lines)
    return "\n".join(lines) + "\n"


def _declared(program: Program, title: str, k: int, buffer: Buffer) -> str:
    mark = ""
    if title == "parameters" and k < len(program.donated) and program.donated[k]:
        mark = " donated"
    return f"{_name(buffer)} {getattr(buffer, 'type', '?')} @{_where(program, buffer)}{mark}"


def _constant(array: Any) -> str:
    values = getattr(array, "tolist", lambda: "?")()
    shown = str(values)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def _steps(program: Program, steps: Iterable[Any], left: str, lines: list[str]) -> None:
    for step in steps:
        match step:
            case Launch():
                lines.append(f"{left}launch {_launch(program, step)}")
            case Copy():
                lines.append(
                    f"{left}copy {_buffer(program, step.source)} -> {_buffer(program, step.destination)}"
                )
            case Loop():
                times = "" if step.trip_count is None else f" {step.trip_count} times"
                lines.append(f"{left}loop{times}")
                _steps(program, step.condition_steps, left + "  ", lines)
                if step.condition is not None:
                    lines.append(f"{left}  while {_buffer(program, step.condition)}")
                body = left + ("  " if step.condition is None else "    ")
                _steps(program, step.body_steps, body, lines)
            case Branch():
                lines.append(f"{left}branch {_buffer(program, step.index)}")
                for k, branch in enumerate(step.branches):
                    lines.append(f"{left}  {k}:")
                    _steps(program, branch, left + "    ", lines)
            case CallSymbol():
                operands, results = _buffers(program, step.operands), _buffers(program, step.results)
                lines.append(f"{left}call {step.symbol} {operands} -> {results}")
            case Host():
                operands, results = _buffers(program, step.operands), _buffers(program, step.results)
                lines.append(f"{left}host {step.callback} {operands} -> {results}")
            case _:
                lines.append(f"{left}? {type(step).__name__}")


def _launch(program: Program, step: Launch) -> str:
    pairs = list(zip(step.kernel.parameters, step.buffers))
    read = [b for m, b in pairs if m.space != "out"]
    written = [b for m, b in pairs if m.space != "in"]
    wrong = "" if len(step.buffers) == len(step.kernel.parameters) else " ? number of buffers"
    shown = f"{_buffers(program, read)} -> {_buffers(program, written)}{wrong}"
    return f"{step.kernel.name}[{step.kernel.grid}] {shown}"


def _buffers(program: Program, buffers: Sequence[Any]) -> str:
    return f"({', '.join(_buffer(program, b) for b in buffers)})"


def _buffer(program: Program, buffer: Any) -> str:
    return f"{_name(buffer)} @{_where(program, buffer)}"


def _name(buffer: Any) -> str:
    return str(getattr(buffer, "name", buffer))


def _where(program: Program, buffer: Any) -> str:
    """`arena 64:16` (offset and size); with its number in front for parameters, results and constants."""
    piece = program.slices.get(buffer)
    if piece is None:
        return "?"
    number = "" if piece.place == "arena" else f"{piece.index}+"
    return f"{piece.place} {number}{piece.offset}:{piece.nbytes}"
