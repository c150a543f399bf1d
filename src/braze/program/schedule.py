"""From optimised HLO to a Program: instructions in order become steps over buffers.

A fusion, or an instruction that is none, becomes the launches of its kernels; `reshape` the same buffer
under another type; `while` a Loop whose state has one buffer per slot; `case` a Branch that writes the same
buffers on every side; a callback a Host step. Which values share memory is decided in `copies`, where the
bytes lie in `assign`.

Invariants:
- Effects keep their order, since instructions do.
- A parameter is written only if it is donated; a result is a parameter's memory only then (`aliases`).
- Nesting of regions is the only recursion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braze.errors import UnsupportedError
from braze.hlo.ir import Function, Instruction, Module, Value, walk
from braze.kernel.build import BuiltLaunch
from braze.ops.table import Immediate, ProgramStep
from braze.program.access import reads_only_where_it_writes
from braze.program.copies import Frame, Uses, sequentialise, shares_bytes
from braze.program.ir import Branch, Buffer, CallSymbol, Host, Launch, Loop, Program, Step
from braze.program.kernels import Kernels
from braze.program.trips import trip_count
from braze.target import Target
from braze.types import TensorType


def schedule(module: Module, target: Target, symbols: frozenset[str] = frozenset()) -> Program:
    """Put the instructions of `main` in order as steps over buffers that have no place yet.

    Args:
        module: HLO, as a rule after fusion; private functions that are still called are written out.
        symbols: names of C functions that a `custom_call` may call with the addresses of its buffers.
    Raises: UnsupportedError for a `custom_call` that nobody knows.
    """
    return _Scheduler(module, target, symbols).program()


class _Scheduler:
    def __init__(self, module: Module, target: Target, symbols: frozenset[str]) -> None:
        self.module = module
        self.symbols = symbols
        self.kernels = Kernels(target)
        self.uses = Uses()
        self.places: dict[Value, Buffer] = {}
        self.constants: dict[Any, Buffer] = {}
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.callbacks: list[Any] = []
        self.temporaries = 0

    def program(self) -> Program:
        main = self.module.main
        region = main.region
        parameters = tuple(Buffer(f"in{i}", p.type, "parameter", i) for i, p in enumerate(region.parameters))
        self.places.update(zip(region.parameters, parameters, strict=True))
        results = [Buffer(f"out{k}", r.type, "result", k) for k, r in enumerate(region.results)]
        uses = self.uses
        uses.last(region)
        taken = _donations(main, [uses.root_of(r) for r in region.results])
        wanted = [parameters[taken[k]] if k in taken else result for k, result in enumerate(results)]
        donated = [p for p, d in zip(region.parameters, main.donated, strict=True) if d]
        occupant = {self.places[p]: p for p in region.parameters}
        fallbacks = {parameters[i]: results[k] for k, i in taken.items()}
        frame = Frame(region, uses, wanted, donated, occupant, fallbacks)
        steps = self.steps(frame)
        final = [
            w if self.place(r) is w else result
            for r, w, result in zip(region.results, wanted, results, strict=True)
        ]
        steps += self.copies([(self.place(r), f) for r, f in zip(region.results, final, strict=True)])
        return Program(
            self.module.name,
            parameters,
            tuple(final),
            tuple(steps),
            region.result_types,
            tuple(self.arrays),
            tuple(self.callbacks),
            donated=main.donated,
            aliases={k: b.index for k, b in enumerate(final) if b.place == "parameter"},
        )

    # Buffers --------------------------------------------------------------------------------------

    def place(self, value: Value) -> Buffer:
        return self.places[self.uses.root_of(value)]

    def temporary(self, type: TensorType) -> Buffer:
        self.temporaries += 1
        return Buffer(f"t{self.temporaries - 1}", type)

    def copies(self, pairs: Sequence[tuple[Buffer, Buffer]]) -> list[Step]:
        return list(sequentialise(pairs, lambda like: self.temporary(like.type)))

    def settle(self, frame: Frame, value: Value, buffer: Buffer) -> Buffer:
        self.places[value] = buffer
        frame.occupies(value, buffer)
        return buffer

    def output(self, frame: Frame, value: Value, position: int) -> Buffer:
        """A buffer for a value that does not depend on what was in it."""
        buffer = frame.hint(value, position) or self.temporary(value.type)
        return self.settle(frame, value, buffer)

    # Regions --------------------------------------------------------------------------------------

    def steps(self, frame: Frame) -> list[Step]:
        steps: list[Step] = []
        last = frame.last
        for position, instruction in enumerate(frame.region.instructions):
            unused = not any(r in last for r in instruction.results)
            if shares_bytes(instruction) or (unused and not instruction.has_effects):
                continue
            match instruction.op.kernel:
                case Immediate():
                    self.places[instruction.results[0]] = self.constant(instruction.attrs["value"])
                case ProgramStep("while"):
                    steps += self.loop(frame, instruction, position)
                case ProgramStep("case"):
                    steps += self.branch(frame, instruction, position)
                case ProgramStep("call"):
                    steps += self.call(frame, instruction, position)
                case ProgramStep("custom_call"):
                    steps.append(self.custom_call(frame, instruction, position))
                case _:
                    steps += self.launches(frame, instruction, position)
        return steps

    def region(self, frame: Frame) -> list[Step]:
        """A region inside another, and the copies that bring its results where they are expected."""
        steps = self.steps(frame)
        ends = zip(frame.region.results, frame.destinations, strict=True)
        return steps + self.copies([(self.place(r), d) for r, d in ends if d is not None])

    def constant(self, value: np.ndarray[Any, Any]) -> Buffer:
        key = (value.dtype, value.shape, value.tobytes())
        found = self.constants.get(key)
        if found is None:
            number = len(self.arrays)
            found = Buffer(f"c{number}", TensorType(value.shape, value.dtype), "constant", number)
            self.constants[key] = found
            self.arrays.append(value)
        return found

    # Launches -------------------------------------------------------------------------------------

    def launches(self, frame: Frame, instruction: Instruction, position: int) -> list[Step]:
        if not any(r.type.size for r in instruction.results):
            for result in instruction.results:
                self.output(frame, result, position)
            return []
        built = self.kernels.build(instruction)
        steps: list[Step] = []
        operands = [self.place(v) for v in instruction.operands]
        read = list(operands)
        results: list[Buffer] = []
        overwritten = instruction.overwrites
        for k, value in enumerate(instruction.results):
            if k in overwritten:
                operand = overwritten[k]
                buffer = self.overwrite(frame, instruction, operand, value, position)
                if buffer is not operands[operand]:
                    steps += self.copies([(operands[operand], buffer)])
                read[operand] = buffer
            else:

                def may_overwrite(buffer: Buffer, k: int = k) -> bool:
                    return len(built.launches) == 1 and _in_place(built.launches[0], k, operands, buffer)

                wanted = frame.hint(value, position, may_overwrite)
                buffer = self.settle(frame, value, wanted or self.temporary(value.type))
            results.append(buffer)
        temporaries = [self.temporary(t) for t in built.temporaries]
        buffers = {"operand": read, "result": results, "temporary": temporaries}
        for launch in built.launches:
            steps.append(Launch(launch.kernel, tuple([buffers[kind][i] for kind, i in launch.buffers])))
        return steps

    def overwrite(
        self, frame: Frame, instruction: Instruction, operand: int, value: Value, position: int
    ) -> Buffer:
        """The buffer of a result that changes a window of an operand: the operand's own if that dies here."""
        roots = [self.uses.root_of(v) for v in instruction.operands]
        whole = roots[operand]
        if frame.dies(whole, position) and roots.count(whole) == 1:
            return self.settle(frame, value, self.places[whole])
        return self.output(frame, value, position)

    # Control flow ---------------------------------------------------------------------------------

    def loop(self, frame: Frame, instruction: Instruction, position: int) -> list[Step]:
        condition, body = instruction.regions
        starts = [self.uses.root_of(v) for v in instruction.operands]
        trips = trip_count(instruction)
        # What a counted loop's condition computes is known; only its effects would be missed.
        asks = trips is None or any(
            i.has_effects or i.op.kernel == ProgramStep("while") for i in walk(condition)
        )
        captured = self.uses.captured(body)
        if asks:
            captured |= self.uses.captured(condition)
        slots: list[Buffer] = []
        for start, result in zip(starts, instruction.results, strict=True):
            reusable = frame.dies(start, position) and starts.count(start) == 1 and start not in captured
            slots.append(
                self.settle(frame, result, self.places[start])
                if reusable
                else self.output(frame, result, position)
            )
        steps = self.copies([(self.places[s], slot) for s, slot in zip(starts, slots, strict=True)])
        condition_steps: list[Step] = []
        if asks:
            self.places.update(zip(condition.parameters, slots, strict=True))
            condition_steps = self.region(Frame(condition, self.uses, [None]))
        self.places.update(zip(body.parameters, slots, strict=True))
        occupant = frame.inner()
        occupant.update(zip(slots, body.parameters, strict=True))
        inner = Frame(body, self.uses, slots, body.parameters, occupant)
        body_steps = self.region(inner)
        holds = self.place(condition.results[0]) if asks else None
        steps.append(Loop(tuple(condition_steps), holds, tuple(body_steps), trips))
        return steps

    def branch(self, frame: Frame, instruction: Instruction, position: int) -> list[Step]:
        index = self.place(instruction.operands[0])
        captured = frozenset().union(*[self.uses.captured(r) for r in instruction.regions])
        # Only one side runs, so what is used for the last time here belongs to each of them.
        owned = [v for v in captured if frame.dies(v, position)]
        results: list[Buffer] = []
        for k, value in enumerate(instruction.results):
            results.append(self._branch_result(frame, instruction, k, value, position, results))
        branches = []
        for region in instruction.regions:
            inner = Frame(region, self.uses, results, owned, frame.inner())
            branches.append(tuple(self.region(inner)))
        for value, buffer in zip(instruction.results, results, strict=True):
            self.settle(frame, value, buffer)
        return [Branch(index, tuple(branches))]

    def _branch_result(
        self,
        frame: Frame,
        instruction: Instruction,
        k: int,
        value: Value,
        position: int,
        taken: Sequence[Buffer],
    ) -> Buffer:
        """A destination, or the memory of a value that dies here and that one of the sides passes on."""

        def occupant_dies(buffer: Buffer) -> bool:
            return frame.dies(frame.occupant[buffer], position)

        wanted = frame.hint(value, position, occupant_dies)
        if wanted is not None and wanted not in taken:
            return wanted
        for region in instruction.regions:
            passed = self.uses.root_of(region.results[k])
            buffer = self.places.get(passed)
            free = buffer is not None and buffer not in taken and frame.occupant.get(buffer) is passed
            if free and passed in self.uses.captured(region) and frame.dies(passed, position):
                return self.places[passed]
        return self.temporary(value.type)

    def call(self, frame: Frame, instruction: Instruction, position: int) -> list[Step]:
        """A private function, written out. `inline` leaves none as a rule."""
        region = self.module.functions[instruction.attrs["callee"]].region
        roots = [self.uses.root_of(v) for v in instruction.operands]
        buffers = [self.places[r] for r in roots]
        self.places.update(zip(region.parameters, buffers, strict=True))
        own = [frame.dies(r, position) and roots.count(r) == 1 for r in roots]
        results = [self.output(frame, v, position) for v in instruction.results]
        occupant = frame.inner()
        occupant.update({b: p for b, p, mine in zip(buffers, region.parameters, own, strict=True) if mine})
        owned = [p for p, mine in zip(region.parameters, own, strict=True) if mine]
        return self.region(Frame(region, self.uses, results, owned, occupant))

    def custom_call(self, frame: Frame, instruction: Instruction, position: int) -> Step:
        callback = instruction.attrs.get("callback")
        symbol = instruction.attrs["call_target_name"]
        operands = tuple([self.place(v) for v in instruction.operands])
        if callback is None and symbol not in self.symbols:
            raise UnsupportedError(
                f"custom_call: nobody knows the target {symbol!r}.",
                values=f"known: {', '.join(sorted(self.symbols)) or 'none'}",
                source=instruction.source,
            )
        results = tuple([self.output(frame, v, position) for v in instruction.results])
        if callback is None:
            return CallSymbol(symbol, operands, results)
        self.callbacks.append(callback)
        seen = tuple([v.type for v in instruction.operands])
        filled = tuple([v.type for v in instruction.results])
        return Host(len(self.callbacks) - 1, operands, results, seen, filled)


def _donations(main: Function, results: Sequence[Value]) -> dict[int, int]:
    """Which donated parameter each result may take the memory of: result number to parameter number.

    First the parameters that are returned as they are, then those whose attribute names a result, then
    equal types, then equal sizes, in order.
    """
    parameters = main.region.parameters
    numbers = {p: i for i, p in enumerate(parameters)}
    free = [i for i, donated in enumerate(main.donated) if donated and parameters[i].type.nbytes]
    taken: dict[int, int] = {}

    def pair(k: int, i: int) -> None:
        if k not in taken and i in free and results[k].type.nbytes == parameters[i].type.nbytes:
            taken[k] = i
            free.remove(i)

    for k, value in enumerate(results):
        if value in numbers:
            pair(k, numbers[value])
    for i in tuple(free):
        named = main.parameter_attrs[i].get("tf.aliasing_output")
        if isinstance(named, int) and 0 <= named < len(results):
            pair(named, i)
    for same_type in (True, False):
        for k, value in enumerate(results):
            for i in tuple(free):
                if value.producer is not None and (not same_type or _same_type(main, k, i)):
                    pair(k, i)
    return taken


def _same_type(main: Function, result: int, parameter: int) -> bool:
    return main.region.results[result].type is main.region.parameters[parameter].type


def _in_place(launch: BuiltLaunch, result: int, operands: Sequence[Buffer], buffer: Buffer) -> bool:
    """Whether a kernel may write a result where it reads the operands that lie in `buffer`."""
    memories = dict(zip(launch.buffers, launch.kernel.parameters, strict=True))
    out = memories.get(("result", result))
    shared = [m for (kind, i), m in memories.items() if kind == "operand" and operands[i] is buffer]
    return out is not None and all(reads_only_where_it_writes(launch.kernel, m, out) for m in shared)
