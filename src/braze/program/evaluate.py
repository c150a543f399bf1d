"""The meaning of a Program: runs its steps at their real offsets in one arena.

Memory that nobody should read holds the byte 0xFF (NaN for floats, -1 for integers): the arena and the
results at the start, and every buffer's bytes again after its last reader. So a wrong lifetime, a wrong
offset or a missing copy shows as wrong values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from braze.errors import InternalError
from braze.kernel import evaluate as kernels
from braze.program.ir import (
    Branch,
    Buffer,
    CallSymbol,
    Copy,
    Host,
    Launch,
    Loop,
    Program,
    Step,
)
from braze.program.liveness import Liveness, reads_and_writes
from braze.types import TensorType

Array: TypeAlias = "np.ndarray[Any, Any]"

_POISON = 0xFF


def evaluate(
    program: Program, args: Sequence[Any], symbols: Mapping[str, Callable[..., None]] | None = None
) -> list[Array]:
    """Run a program after assignment.

    Args:
        args: one array per parameter; they are not changed, donated or not.
        symbols: Python functions for `CallSymbol`, called with the buffers as arrays.
    """
    return _Machine(program, args, symbols or {}).run()


class _Machine:
    def __init__(
        self, program: Program, args: Sequence[Any], symbols: Mapping[str, Callable[..., None]]
    ) -> None:
        self.program = program
        self.symbols = symbols
        self.parameters = [
            _bytes(np.array(x, b.type.dtype, order="C"))
            for x, b in zip(args, program.parameters, strict=True)
        ]
        self.results = [np.full(b.type.nbytes, _POISON, np.uint8) for b in program.results]
        self.constants = [_bytes(np.array(c, order="C")) for c in program.constants]
        self.arena = np.full(program.arena_bytes, _POISON, np.uint8)
        liveness = Liveness(program)
        self.dead: dict[Step, list[Buffer]] = {}
        self.dead_after: dict[Loop, list[Buffer]] = {}
        for buffer, interval in liveness.intervals.items():
            step = liveness.steps[interval.stop]
            if buffer.place != "arena":
                continue
            if step is not None:
                self.dead.setdefault(step, []).append(buffer)
            else:
                self.dead_after.setdefault(liveness.loop_ends[interval.stop], []).append(buffer)

    def run(self) -> list[Array]:
        self.steps(self.program.steps)
        types = self.program.result_types
        return [self.array(b, t).copy() for b, t in zip(self.program.results, types, strict=True)]

    def memory(self, buffer: Buffer) -> Array:
        """The bytes of a buffer."""
        piece = self.program.slices[buffer]
        match piece.place:
            case "arena":
                whole = self.arena
            case "parameter":
                whole = self.parameters[piece.index]
            case "result":
                whole = self.results[piece.index]
            case "constant":
                whole = self.constants[piece.index]
        return whole[piece.offset : piece.offset + piece.nbytes]

    def array(self, buffer: Buffer, type: TensorType) -> Array:
        return self.memory(buffer).view(type.dtype).reshape(type.shape)

    def poison(self, buffers: Sequence[Buffer], written: Sequence[Buffer] = ()) -> None:
        """Spoil the memory of dead buffers, but for what the same step has just written in their place."""
        kept = [(self.memory(b), self.memory(b).copy()) for b in written if b.place == "arena"]
        for buffer in buffers:
            self.memory(buffer)[:] = _POISON
        for memory, values in kept:
            memory[:] = values

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Loop():
                    self.loop(step)
                case Branch():
                    index = int(self.memory(step.index).view(np.int32)[0])
                    self.poison(self.dead.get(step, ()))
                    self.steps(step.branches[index if 0 <= index < len(step.branches) else -1])
                case _:
                    self.step(step)
                    dead = self.dead.get(step, ())
                    if dead:
                        self.poison(dead, [b for b in reads_and_writes(step)[1] if b not in dead])

    def loop(self, loop: Loop) -> None:
        for number in itertools.count():
            self.steps(loop.condition_steps)
            if loop.condition is None:
                holds = number != loop.trip_count
            else:
                holds = bool(self.memory(loop.condition)[0])
            self.poison(self.dead.get(loop, ()))
            if not holds:
                break
            self.steps(loop.body_steps)
        self.poison(self.dead_after.get(loop, ()))

    def step(self, step: Step) -> None:
        match step:
            case Launch():
                pairs = zip(step.kernel.parameters, step.buffers, strict=True)
                kernels.evaluate(step.kernel, [self.memory(b).view(m.dtype) for m, b in pairs])
            case Copy():
                self.memory(step.destination)[:] = self.memory(step.source)
            case Host():
                self.host(step)
            case CallSymbol():
                function = self.symbols[step.symbol]
                function(*[self.array(b, b.type) for b in (*step.operands, *step.results)])
            case _:
                raise InternalError(f"{type(step).__name__} is no step.", stage="program.evaluate")

    def host(self, step: Host) -> None:
        pairs = zip(step.operands, step.operand_types, strict=True)
        found = self.program.callbacks[step.callback](*[self.array(b, t).copy() for b, t in pairs])
        if not step.results:
            return
        values = list(found) if isinstance(found, list | tuple) else [found]
        for buffer, type, value in zip(step.results, step.result_types, values, strict=True):
            self.array(buffer, type)[...] = value


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
