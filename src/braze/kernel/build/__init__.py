"""From a fusion to kernels: which launches it takes, and the kernel IR of each.

`build(instruction, name, target)` takes a `braze.fusion` or a single operation. Most become one kernel; a
reduction of much data to few values becomes one launch of partial results and one that combines them.

The parts: `graph` (the region over collapsed axes), `affine` (index expressions), `emit` (values at an
index), `reduce` and `dot` (what accumulates), `nest` (which axes run where), `schedule` (loops and blocks),
`split` (two launches), `untangle` (values read at two places at once). Operations of a family of their own
are built apart: `window`, `scan` and `sort`.
"""

from __future__ import annotations

from collections.abc import Callable

from braze.hlo.ir import Instruction, Region, Value
from braze.kernel.build.dot import dot_kernel
from braze.kernel.build.graph import Graph, Node
from braze.kernel.build.launch import Built, BuiltLaunch
from braze.kernel.build.nest import nests
from braze.kernel.build.schedule import Schedule, lane_count
from braze.kernel.build.sort import sort_kernels
from braze.kernel.build.split import split
from braze.kernel.build.untangle import is_tangled, untangled
from braze.kernel.build.window import select_and_scatter_kernels, window_kernels
from braze.ops.table import Axes, Family, Fused, Immediate
from braze.target import Target

__all__ = ["Built", "BuiltLaunch", "build"]


FAMILIES: dict[str, Callable[[Instruction, str, Target], Built]] = {
    "window": window_kernels,
    "select_and_scatter": select_and_scatter_kernels,
    "sort": sort_kernels,
}
"""Builders of the families that stand alone: what they do with elements is no part of a fusion."""


def build(instruction: Instruction, name: str, target: Target) -> Built:
    """Build the kernels of a fusion, or of a single operation.

    Args:
        name: the symbol of the kernel; further launches get a suffix.

    Returns: the launches in order, with their buffers in terms of operands, results and temporaries.
    """
    family = instruction.op.kernel
    if isinstance(family, Family) and family.name in FAMILIES:
        return FAMILIES[family.name](instruction, name, target)
    region = _region(instruction)
    aliases = instruction.overwrites
    graph = Graph(region)
    if is_tangled(graph):
        return untangled(region, name, target, build)
    parts = None if aliases else split(region, name, target, build)
    if parts is not None:
        return parts
    ops = tuple(i.op.hlo or i.op.title for i in region.instructions if not _is_immediate(i))
    tiled = None if aliases else dot_kernel(graph, name, target, ops)
    if tiled is not None:
        return tiled
    windows: dict[int, Node] = {}
    for result in aliases:
        windows[result] = graph.results[result]
        graph.results[result] = windows[result].operands[1]
    plans = nests(graph, target)
    schedule = Schedule(name, graph, target, lane_count(graph, plans, target), windows)
    schedule.declare()
    grid = 1
    with schedule.emitter.region():
        for nest in plans:
            grid = schedule.write_nest(nest, schedule.work.blocks if len(plans) == 1 else 1)
    return Built((schedule.finish(grid, ops),), ())


def _is_immediate(instruction: Instruction) -> bool:
    """Whether it is a number, or one number in every element: no operation of the kernel."""
    kernel = instruction.op.kernel
    return isinstance(kernel, Immediate) or (
        isinstance(kernel, Axes) and instruction.operands[0].type.size == 1
    )


def _region(instruction: Instruction) -> Region:
    """The region of a fusion; a single operation as a region of one."""
    if isinstance(instruction.op.kernel, Fused):
        return instruction.regions[0]
    parameters = [Value(v.type) for v in instruction.operands]
    inner = Instruction(
        instruction.op,
        parameters,
        [r.type for r in instruction.results],
        instruction.attrs,
        instruction.regions,
        instruction.source,
    )
    return Region(parameters, (inner,), inner.results)
