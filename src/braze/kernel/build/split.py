"""Reductions of much data to few values, as two launches: partial results per block, then their combination.

The number of parts depends on shapes and target only, so the bits do not depend on threads. The second
launch is a fusion like any other: the reductions of the first with the partial results as their input, and
whatever the region does with them.
"""

from __future__ import annotations

import math

from braze.dtypes import accumulation_dtype
from braze.hlo.axes import is_contraction
from braze.hlo.ir import Builder, Instruction, Region, Value
from braze.kernel.build.affine import Affine, Index, linear
from braze.kernel.build.graph import Graph, Node
from braze.kernel.build.launch import BufferName, Built, BuiltLaunch
from braze.kernel.build.nest import Nest, nests
from braze.kernel.build.reduce import Pass, accumulator
from braze.kernel.build.schedule import Schedule, lane_count
from braze.kernel.build.task import Task
from braze.kernel.ir import Memory
from braze.ops.table import HLO_OPS
from braze.types import TensorType

PART_BYTES = 256 << 10
"""Least traffic of one part."""
MOST_PARTS = 256
FEW_ROWS = 16
"""With more rows than this there is enough to share out without splitting them."""


def split_in_two(task: Task) -> Built | None:
    """Two launches where that pays, else None."""
    region, name, target = task.region, task.name, task.target
    if task.overwrites:
        return None
    if not any(is_contraction(i) for i in region.instructions):
        return None
    if sum(t.nbytes for t in region.parameter_types) < 2 * PART_BYTES:
        return None
    graph = task.graph
    reduced = _reached([x for r in graph.reductions for x in r.inputs])
    parts = sum(p.type.nbytes for p in graph.parameters if p.number in reduced) // PART_BYTES
    if parts < 2:
        return None
    plans = nests(graph, target)
    if len(plans) != 1 or plans[0].rows > FEW_ROWS or not _splittable(graph, plans[0]):
        return None
    schedule = _Partial(f"{name}_partial", graph, target, lane_count(graph, plans, target))
    if not schedule.choose_parts(min(parts, MOST_PARTS)):
        return None
    with schedule.emitter.region():
        schedule.write_nest(plans[0], 1)
    ops = tuple(r.instruction.op.hlo or "" for r in graph.reductions)
    first = schedule.finish(schedule.parts, ops)
    types = tuple(
        TensorType((schedule.parts, *r.nodes[0].type.shape), r.nodes[0].dtype) for r in graph.reductions
    )
    combination = task.build(_combination(region, graph, types), f"{name}_combine", target)
    count = len(region.parameters)
    second = [
        BuiltLaunch(launch.kernel, tuple(_renamed(b, count) for b in launch.buffers))
        for launch in combination.launches
    ]
    return Built((first, *second), types)


def _renamed(buffer: BufferName, operands: int) -> BufferName:
    """The combination's later operands are the temporaries of the whole."""
    kind, k = buffer
    return ("temporary", k - operands) if kind == "operand" and k >= operands else buffer


def _splittable(graph: Graph, nest: Nest) -> bool:
    """All results follow from reductions over the same axes, none of which needs another."""
    reductions = graph.reductions
    first = reductions[0]
    return (
        bool(first.sizes)
        and all(not nest.inner_of(root) for _, root in nest.roots)
        and all(
            r.level == 1
            and r.classes == first.classes
            and r.nodes[0].classes == nest.outer_classes
            and len(r.nodes) == 1
            and accumulator(r).crosses
            and accumulation_dtype(r.nodes[0].dtype) == r.nodes[0].dtype
            for r in reductions
        )
    )


class _Partial(Schedule):
    """The launch of partial results: each block passes over its part of one reduced axis."""

    def choose_parts(self, parts: int) -> bool:
        """Declare the memories and choose the parts; False where there is only one."""
        reductions = self.graph.reductions
        sizes = reductions[0].sizes
        self.axis = max(range(len(sizes)), key=sizes.__getitem__)
        size = sizes[self.axis]
        step = self.emitter.lanes
        self.part = step * math.ceil(size / parts / step)
        self.parts = math.ceil(size / self.part)
        if self.parts < 2:
            return False
        needed = _reached([x for r in reductions for x in r.inputs])
        for k, node in enumerate(self.graph.parameters):
            if node.number in needed:
                self.emitter.memories[node.number] = self.memory("operand", k, node, "in")
        self.kept = reductions[0].nodes[0].shape
        self.partials: list[Memory] = []
        for t, r in enumerate(reductions):
            self.buffers.append(("temporary", t))
            count = self.parts * math.prod(self.kept)
            self.partials.append(self.emitter.memory(f"part{t}", r.nodes[0].dtype, count, "out"))
        self.work.bytes_written = sum(m.size * m.dtype.itemsize for m in self.partials)
        return True

    def write_roots(self, nest: Nest, env: dict[int, Affine]) -> None:
        e = self.emitter
        reductions = self.graph.reductions
        index: Index = tuple(env[c] for c in reductions[0].nodes[0].classes)
        start = e.compute("mul", e.block, self.part)
        stop = e.compute("min", e.compute("add", start, self.part), reductions[0].sizes[self.axis])
        work = Pass(e, reductions, index, (self.axis, start, stop, self.part))
        block = e.index_of(e.block, self.parts)
        for memory, a, running in zip(self.partials, work.accumulators, work.running(), strict=True):
            position = block.times(math.prod(self.kept)).plus(linear(index, self.kept))
            e.write(memory, (memory.size,), (position,), a.partial(e, running))


def _reached(nodes: list[Node]) -> set[int]:
    seen: set[int] = set()
    work = list(nodes)
    while work:
        node = work.pop()
        if node.number not in seen:
            seen.add(node.number)
            work.extend(node.operands)
    return seen


def _combination(region: Region, graph: Graph, types: tuple[TensorType, ...]) -> Instruction:
    """The region with every reduction taken over its partial results."""
    parameters = [*(Value(t) for t in region.parameter_types), *(Value(t) for t in types)]
    values: dict[Value, Value] = dict(zip(region.parameters, parameters, strict=False))
    partials = dict(
        zip((r.instruction for r in graph.reductions), parameters[len(region.parameters) :], strict=True)
    )
    needed = _needed(region, set(partials))
    b = Builder()
    for instruction in region.instructions:
        if instruction not in needed:
            continue
        b.source = instruction.source
        if instruction in partials:
            values[instruction.result] = _combine(b, instruction, partials[instruction], values)
            continue
        operands = [values[v] for v in instruction.operands]
        made = Instruction(
            instruction.op, operands, [r.type for r in instruction.results], instruction.attrs,
            instruction.regions, instruction.source,
        )  # fmt: skip
        b.instructions.append(made)
        values.update(zip(instruction.results, made.results, strict=True))
    body = Region(parameters, b.instructions, [values[v] for v in region.results])
    fusion = HLO_OPS["braze.fusion"]
    outer = [Value(p.type) for p in parameters]
    return Instruction(fusion, outer, body.result_types, {"kind": "reduce", "name": "combine"}, (body,))


def _combine(b: Builder, instruction: Instruction, partial: Value, values: dict[Value, Value]) -> Value:
    """The reduction over the axis of parts."""
    if instruction.regions:
        init, reducer = values[instruction.operands[1]], instruction.regions[0]
    else:
        dtype = instruction.result.type.dtype
        init = b.constant(0, dtype)
        x, y = Value(init.type), Value(init.type)
        inner = Builder()
        total = inner.emit(HLO_OPS["add"], x, y)
        reducer = Region((x, y), inner.instructions, (total,))
    made = Instruction(
        HLO_OPS["reduce"], (partial, init), (instruction.result.type,), {"dimensions": (0,)}, (reducer,)
    )
    b.instructions.append(made)
    return made.result


def _needed(region: Region, reductions: set[Instruction]) -> set[Instruction]:
    """Instructions that the results need, not counting what is reduced."""
    seen: set[Instruction] = set()
    work = [v.producer for v in region.results]
    while work:
        instruction = work.pop()
        if instruction is None or instruction in seen:
            continue
        seen.add(instruction)
        operands = instruction.operands
        if instruction in reductions:
            operands = operands[len(operands) // 2 :] if instruction.regions else ()
        work.extend(v.producer for v in operands)
    return seen
