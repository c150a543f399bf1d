"""Values that a region reads at two places at once: `x[i] - x[j]`, `x @ x.T`, `a + a.T`.

The graph knows an axis by the class of axes that run together; a value read along two axes at once would tie
those two together. Here each such reading gets a value of its own: a parameter is passed twice, what is
computed from parameters is computed again. Where that grows too large, each instruction becomes its own
launch, which has no such value once its operands are told apart.
"""

from __future__ import annotations

from braze.hlo.axes import is_move
from braze.hlo.ir import Instruction, Region, Value
from braze.kernel.build.graph import Graph
from braze.kernel.build.launch import BufferName, Built, BuiltLaunch
from braze.kernel.build.task import Build, Task
from braze.ops.table import Contraction, IndexMap
from braze.target import Target
from braze.types import TensorType

MOST_COPIES = 256
"""Instructions that may be computed again before each becomes its own launch."""


def is_tangled(graph: Graph) -> bool:
    """Whether some value has one class for two of its axes."""
    return any(len(set(node.classes)) != len(node.classes) for node in graph.nodes)


def untangled(task: Task) -> Built | None:
    """The launches of a tangled region, None for one that is not."""
    if not is_tangled(task.graph):
        return None
    region, name, target, build = task.region, task.name, task.target, task.build
    told_apart = _told_apart(region)
    if told_apart is not None:
        again, operands = told_apart
        if not is_tangled(Graph(again)):
            return _renamed(build(_fusion(again), name, target), operands)
    assert len(region.instructions) > 1, "one instruction on operands told apart is never tangled"
    return _one_by_one(region, name, target, build)


def _fusion(region: Region) -> Instruction:
    from braze.ops.fusion import fusion_hlo

    attrs = {"kind": "loop", "name": "untangled", "aliases": ()}
    return Instruction(fusion_hlo, region.parameters, region.result_types, attrs, (region,))


def _turns(instruction: Instruction) -> bool:
    """Whether an instruction may read its operands along other axes than its own."""
    return is_move(instruction) or isinstance(instruction.op.kernel, IndexMap | Contraction)


def _told_apart(region: Region) -> tuple[Region, list[int]] | None:
    """The region with a copy of the operand at every turn, and the operand that each parameter stands for."""
    parameters: list[Value] = []
    operands: list[int] = []
    made: list[Instruction] = []
    number = {p: k for k, p in enumerate(region.parameters)}
    known: dict[Value, Value] = {}

    def parameter(value: Value) -> Value:
        parameters.append(Value(value.type))
        operands.append(number[value])
        return parameters[-1]

    for p in region.parameters:
        known[p] = parameter(p)

    def copy(value: Value) -> Value:
        """A fresh computation of a value, from fresh parameters; iterative, operands first."""
        fresh: dict[Value, Value] = {}
        pending = [value]
        while pending:
            one = pending[-1]
            if one in fresh:
                pending.pop()
                continue
            if one.producer is None:
                fresh[one] = parameter(one)
                continue
            missing = [v for v in one.producer.operands if v not in fresh]
            if missing:
                pending.extend(missing)
                continue
            _append(one.producer, [fresh[v] for v in one.producer.operands], fresh)
        return fresh[value]

    def _append(old: Instruction, values: list[Value], names: dict[Value, Value]) -> None:
        new = Instruction(old.op, values, [v.type for v in old.results], old.attrs, old.regions, old.source)
        names.update(zip(old.results, new.results, strict=True))
        made.append(new)

    for instruction in region.instructions:
        turning = _turns(instruction) and instruction.operands
        values = [copy(v) if turning else known[v] for v in instruction.operands]
        _append(instruction, values, known)
        if len(made) > len(region.instructions) + MOST_COPIES and len(region.instructions) > 1:
            return None
    return Region(
        parameters, _needed(made, [known[v] for v in region.results]), [known[v] for v in region.results]
    ), operands


def _needed(instructions: list[Instruction], results: list[Value]) -> list[Instruction]:
    used = set(results)
    kept = []
    for instruction in reversed(instructions):
        if any(v in used for v in instruction.results):
            kept.append(instruction)
            used.update(instruction.operands)
    kept.reverse()
    return kept


def _renamed(built: Built, operands: list[int]) -> Built:
    """Launches in terms of the operands that the parameters stand for; nothing is passed that is not read."""
    launches = [
        BuiltLaunch(launch.kernel, tuple(_operand(b, operands) for b in launch.buffers))
        for launch in built.launches
    ]
    return Built(tuple(launches), built.temporaries)


def _operand(buffer: BufferName, operands: list[int]) -> BufferName:
    place, k = buffer
    return (place, operands[k]) if place == "operand" else buffer


def _one_by_one(region: Region, name: str, target: Target, build: Build) -> Built:
    """One launch, or a few, for every instruction, with temporaries between them."""
    places: dict[Value, BufferName] = {p: ("operand", k) for k, p in enumerate(region.parameters)}
    for k, value in enumerate(region.results):
        places.setdefault(value, ("result", k))
    temporaries: list[TensorType] = []
    launches: list[BuiltLaunch] = []
    for number, instruction in enumerate(region.instructions):
        for value in instruction.results:
            if value not in places:
                places[value] = ("temporary", len(temporaries))
                temporaries.append(value.type)
        built = build(instruction, f"{name}_{number}", target)
        first = len(temporaries)
        temporaries.extend(built.temporaries)

        def place(
            buffer: BufferName, instruction: Instruction = instruction, first: int = first
        ) -> BufferName:
            kind, k = buffer
            if kind == "operand":
                return places[instruction.operands[k]]
            return places[instruction.results[k]] if kind == "result" else ("temporary", first + k)

        launches += [BuiltLaunch(one.kernel, tuple(map(place, one.buffers))) for one in built.launches]
    return Built(tuple(launches), tuple(temporaries))
