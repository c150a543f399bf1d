"""From a fusion to kernels: which launches it takes, and the kernel IR of each.

`build(instruction, name, target)` takes a `braze.fusion` or a single operation, and asks the strategies of the
table below in their order; the first that answers has built it, and its name stands in the kernels.

The parts: `graph` (the region over collapsed axes), `affine` (index expressions), `emit` (values at an
index), `reduce` (what accumulates), `nest` (which axes run where), `schedule` (loops and blocks). A strategy is
a file beside them, and a row.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from braze.errors import InternalError
from braze.hlo.ir import Instruction
from braze.kernel.build.dot import tiled_dot
from braze.kernel.build.launch import Built, BuiltLaunch
from braze.kernel.build.schedule import loop_nests
from braze.kernel.build.split import split_in_two
from braze.kernel.build.task import Task
from braze.kernel.build.untangle import untangled
from braze.ops.table import Family
from braze.record import Record
from braze.target import Target

__all__ = ["FAMILIES", "STRATEGIES", "Built", "BuiltLaunch", "Strategy", "Task", "build"]


Builder = Callable[[Instruction, str, Target], Built]


def _in(file: str, name: str) -> Builder:
    """The builder of that name, whose file is read when it is first wanted."""

    def build(instruction: Instruction, kernel: str, target: Target) -> Built:
        found: Builder = getattr(importlib.import_module(f"braze.kernel.build.{file}"), name)
        return found(instruction, kernel, target)

    return build


FAMILIES: dict[str, Builder] = {
    "window": _in("window", "window_kernels"),
    "select_and_scatter": _in("window", "select_and_scatter_kernels"),
    "scatter": _in("scatter", "scatter_kernel"),
    "sort": _in("sort", "sort_kernels"),
    "rng": _in("rng", "rng_kernels"),
}
"""Builders of the families that stand alone: what they do with elements is no part of a fusion."""


def family(task: Task) -> Built | None:
    """The kernels of an op whose record names a family."""
    op = task.instruction.op
    if not isinstance(op.kernel, Family):
        return None
    builder = FAMILIES.get(op.kernel.name)
    if builder is None:
        raise InternalError(
            f"{op.title} is of the family {op.kernel.name!r}, for which kernel/build has no builder",
            stage="build",
        )
    return builder(task.instruction, task.name, task.target)


@dataclass(slots=True, eq=False, repr=False)
class Strategy(Record):
    """A way to build kernels.

    Attributes:
        name: what stands in the kernels.
        run: `Task -> Built`, or None where it does not apply.
        why: the reason of its place.
    """

    name: str
    run: Callable[[Task], Built | None]
    why: str


STRATEGIES: tuple[Strategy, ...] = (
    Strategy("family", family, "an op with a builder of its own has no lane code for the others to look at"),
    Strategy("untangle", untangled, "all below know an axis by its class, so no value may have one twice"),
    Strategy(
        "split", split_in_two, "few results of much data leave too few rows to share out, also for a product"
    ),
    Strategy("dot", tiled_dot, "a product reads its operands many times, which a tile of registers saves"),
    Strategy("loops", loop_nests, "right for every region, so nothing comes after it"),
)


def build(instruction: Instruction, name: str, target: Target) -> Built:
    """Build the kernels of a fusion, or of a single operation.

    Args:
        name: the symbol of the kernel; further launches get a suffix.

    Returns: the launches in order, with their buffers in terms of operands, results and temporaries.

    Raises: InternalError for an op that has no kernel, or whose family has no builder.
    """
    task = Task(instruction, name, target, build)
    for strategy in STRATEGIES:
        built = strategy.run(task)
        if built is not None:
            return _marked(built, strategy.name)
    raise InternalError(f"no strategy builds {instruction.op.title}", stage="build")


def _marked(built: Built, name: str) -> Built:
    """The launches with the strategy in those kernels that no inner strategy has made."""
    launches = [
        launch
        if launch.kernel.strategy
        else BuiltLaunch(replace(launch.kernel, strategy=name), launch.buffers)
        for launch in built.launches
    ]
    return Built(tuple(launches), built.temporaries)
