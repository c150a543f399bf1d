"""A fusion's region as nodes over collapsed axes: what the schedules and the emitter look at.

Axes are cut into parts where reshapes ask for it (`hlo.axes`). Each part belongs to a class; parts that
an operation ties together (the same position of an elementwise operation, operand and result of a broadcast
or transpose, the kept axes of a reduction) share one. Those of size 1 have none: they vanish. Two classes
that stand side by side in every node are merged, so that an elementwise fusion becomes one flat axis, and
rows of any rank one row axis. Operations that compute with indices (slice, pad, concatenate, iota's axis,
reshapes that do not line up) pin their axes: these are never merged.

Invariants:
- Nodes are in the order of the region, producers first; walks do not recurse.
- `Node.classes` and `Node.shape` are parallel: one entry per collapsed axis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from braze.dtypes import DType
from braze.errors import InternalError
from braze.hlo.axes import Cuts, is_contraction
from braze.hlo.ir import Instruction, Region, Value, cost_of
from braze.ops.table import Axes, Cost, Family, Immediate, IndexMap, Op, Regroup
from braze.types import TensorType


class Node:
    """A value of the region.

    Attributes:
        kind: `parameter`, `constant`, `elementwise`, `move` (broadcast_in_dim, transpose, a reshape whose
            parts line up), `reshape`, `map` (an op with an IndexMap), `reduce`, `dot` or `family`.
        number: position among the nodes.
        operands: the nodes it is computed from.
        shape, classes: sizes and classes of the collapsed axes.
        picks: for `move`: per collapsed axis of the operand, the axis of the result it follows.
        reduction: for `reduce` and `dot`: what the results of one instruction have in common.
        index, siblings: which result of its instruction it is, and the nodes of all of them.
        dims: per collapsed axis, the first of the parts it stands for; where an op computes indices, parts are
            the original axes.
        level: the most reductions that lie on a way to it.
    """

    __slots__ = (
        "_cost", "attrs", "classes", "dims", "index", "kind", "level", "number", "op", "operands", "picks", "reduction", "shape",
        "siblings", "source", "type", "value",
    )  # fmt: skip

    def __init__(
        self, number: int, kind: str, type: TensorType, op: Op | None, attrs: dict[str, Any]
    ) -> None:
        self.number = number
        self.kind = kind
        self.type = type
        self.op = op
        self.attrs = attrs
        self.operands: tuple[Node, ...] = ()
        self.shape: tuple[int, ...] = ()
        self.classes: tuple[int, ...] = ()
        self.dims: tuple[int, ...] = ()
        self.picks: tuple[int, ...] = ()
        self.index = 0
        self.siblings: tuple[Node, ...] = (self,)
        self.level = 0
        self.reduction: Reduction | None = None
        self.value: Any = None
        self.source: Instruction | None = None
        self._cost: Cost | None = None

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    def cost(self) -> Cost:
        """The cost facet of the instruction; nothing for parameters and further results."""
        if self._cost is None:
            self._cost = Cost() if self.source is None or self.index else cost_of(self.source)
        return self._cost

    def __repr__(self) -> str:
        return f"<{self.number} {self.op.hlo if self.op else self.kind} {self.shape}>"


class Reduction:
    """A reduce or dot_general: every result of it, over the same reduced axes.

    Attributes:
        nodes: its results.
        inputs: what is reduced: the operands of reduce, or the two factors of a dot.
        classes, sizes: the reduced (collapsed) axes.
        picks: per input, per collapsed axis: ("r", axis of the result) or ("k", number of the reduced axis).
        level: 1 + the most reductions that its inputs pass through.
        picks_one: whether its region picks one of two elements, the same in either order; None until asked.
    """

    __slots__ = (
        "classes", "inits", "inputs", "instruction", "level", "nodes", "picks", "picks_one", "region", "sizes"
    )  # fmt: skip

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.region: Region | None = instruction.regions[0] if instruction.regions else None
        self.nodes: list[Node] = []
        self.inputs: tuple[Node, ...] = ()
        self.inits: tuple[Node, ...] = ()
        self.classes: tuple[int, ...] = ()
        self.sizes: tuple[int, ...] = ()
        self.picks: tuple[tuple[tuple[str, int], ...], ...] = ()
        self.level = 1
        self.picks_one: bool | None = None

    @property
    def is_dot(self) -> bool:
        return self.region is None


class Graph:
    """The nodes of a region, parameters first, and the nodes it returns."""

    def __init__(self, region: Region) -> None:
        self.nodes: list[Node] = []
        self.parameters: list[Node] = []
        self.cuts = Cuts(region.instructions)
        self._of: dict[Value, Node] = {}
        self._sizes: list[tuple[int, ...]] = []
        self._axes: list[list[int]] = []
        self._parent: list[int] = []
        self._pinned: set[int] = set()
        for parameter in region.parameters:
            self.parameters.append(self._add("parameter", parameter, None, {}))
        for instruction in region.instructions:
            self._instruction(instruction)
        self.results = [self._of[v] for v in region.results]
        self.reductions = [n.reduction for n in self.nodes if n.reduction is not None and n.index == 0]
        self._collapse()

    # Nodes and axis classes -----------------------------------------------------------------------

    def _add(self, kind: str, value: Value, op: Op | None, attrs: dict[str, Any]) -> Node:
        node = Node(len(self.nodes), kind, value.type, op, attrs)
        node.source = value.producer
        self.nodes.append(node)
        self._of[value] = node
        sizes = self.cuts.shape(value)
        first = len(self._parent)
        self._parent.extend(range(first, first + len(sizes)))
        self._axes.append(list(range(first, first + len(sizes))))
        self._sizes.append(sizes)
        return node

    def _find(self, axis: int) -> int:
        parent = self._parent
        while parent[axis] != axis:
            parent[axis] = parent[parent[axis]]
            axis = parent[axis]
        return axis

    def _tie(self, x: Node, i: int, y: Node, j: int) -> None:
        """Part i of x and part j of y run together, unless one of them has size 1."""
        if self._sizes[x.number][i] == self._sizes[y.number][j]:
            self._parent[self._find(self._axes[x.number][i])] = self._find(self._axes[y.number][j])

    def _pin(self, node: Node, axes: Sequence[int] | None = None) -> None:
        for i in range(len(self._sizes[node.number])) if axes is None else axes:
            self._pinned.add(self._axes[node.number][i])

    def _instruction(self, instruction: Instruction) -> None:
        op, attrs = instruction.op, instruction.attrs
        operands = tuple(self._of[v] for v in instruction.operands)
        if is_contraction(instruction):
            self._reduction(instruction, operands)
            return
        if isinstance(op.kernel, Family):
            self._apart(instruction, operands)
            return
        kind = _kind(instruction, self.cuts)
        nodes = tuple([self._add(kind, result, op, attrs) for result in instruction.results])
        for i, node in enumerate(nodes):
            node.index, node.operands, node.siblings = i, operands, nodes
        node = nodes[0]
        match kind:
            case "constant":
                node.value = np.asarray(attrs["value"]).reshape(-1)[0]
            case "elementwise":
                for x in (*operands, *nodes[1:]):
                    for i in range(len(self._sizes[x.number])):
                        self._tie(node, i, x, i)
            case "move":
                for i, j in enumerate(self.cuts.moved(instruction)):
                    if j is not None:
                        self._tie(node, j, operands[0], i)
            case _:
                along = op.kernel.along if isinstance(op.kernel, IndexMap) else None
                self._pin(node, along(**attrs) if along else None)
                for x in operands:
                    self._pin(x)

    def _apart(self, instruction: Instruction, operands: tuple[Node, ...]) -> None:
        """An op with a builder of its own, which sees axes as they are."""
        for i, result in enumerate(instruction.results):
            node = self._add("family", result, instruction.op, instruction.attrs)
            node.index, node.operands = i, operands
            self._pin(node)
        for x in operands:
            self._pin(x)

    def _reduction(self, instruction: Instruction, operands: tuple[Node, ...]) -> None:
        reduction = Reduction(instruction)
        for i, result in enumerate(instruction.results):
            kind = "reduce" if instruction.regions else "dot"
            node = self._add(kind, result, instruction.op, instruction.attrs)
            node.index, node.reduction, node.operands = i, reduction, operands
            reduction.nodes.append(node)
        count = len(operands) // 2
        if reduction.is_dot:
            reduction.inputs = operands
        else:
            reduction.inputs, reduction.inits = operands[:count], operands[count:]
        every = self.cuts.roles(instruction)
        for roles, x in zip(every, reduction.inputs, strict=True):
            for i, (role, j) in enumerate(roles):
                if role == "r":
                    for node in reduction.nodes:
                        self._tie(node, j, x, i)
                else:
                    first, k = next(
                        (y, list(r).index(("k", j)))
                        for y, r in zip(reduction.inputs, every, strict=True)
                        if ("k", j) in r
                    )
                    self._tie(x, i, first, k)

    # Collapse -------------------------------------------------------------------------------------

    def _collapse(self) -> None:
        sequences = [
            [(i, self._find(a)) for i, a in enumerate(axes) if sizes[i] != 1]
            for axes, sizes in zip(self._axes, self._sizes, strict=True)
        ]
        follows = self._mergeable(sequences)
        sizes: dict[int, int] = {}
        for node, sequence in zip(self.nodes, sequences, strict=True):
            groups: list[list[int]] = []
            heads: list[int] = []
            last = -1
            for i, c in sequence:
                if groups and follows.get(last) == c:
                    groups[-1].append(i)
                else:
                    groups.append([i])
                    heads.append(c)
                last = c
            node.classes = tuple(heads)
            node.dims = tuple(g[0] for g in groups)
            node.shape = tuple(math.prod(self._sizes[node.number][i] for i in g) for g in groups)
            sizes.update(zip(node.classes, node.shape, strict=True))
        for node in self.nodes:
            if node.kind == "move":
                node.picks = self._move_picks(node)
        for reduction in self.reductions:
            self._reduction_axes(reduction)
        self._levels()

    def _mergeable(self, sequences: list[list[tuple[int, int]]]) -> dict[int, int]:
        """Which class always follows which, so that the two are one axis."""
        after: dict[int, set[int]] = {}
        before: dict[int, set[int]] = {}
        pinned = {self._find(a) for a in self._pinned}
        for sequence in sequences:
            classes = [-1, *[c for _, c in sequence], -1]
            if len(set(classes)) != len(classes) - 1:
                pinned.update(classes)
            for x, y in itertools.pairwise(classes):
                after.setdefault(x, set()).add(y)
                before.setdefault(y, set()).add(x)
        return {
            x: y
            for x, ys in after.items()
            if x >= 0 and len(ys) == 1 and x not in pinned
            for y in ys
            if y >= 0 and y not in pinned and before[y] == {x}
        }

    def _move_picks(self, node: Node) -> tuple[int, ...]:
        source = node.operands[0]
        assert node.source is not None, "only instructions move axes"
        axes = self.cuts.moved(node.source)
        picks = []
        for dim in source.dims:
            target = axes[dim]
            # Invariant: an axis of size other than 1 never goes to one of size 1, so it has a place.
            picks.append(node.dims.index(target))
        return tuple(picks)

    def _reduction_axes(self, reduction: Reduction) -> None:
        result = reduction.nodes[0]
        roles = self.cuts.roles(reduction.instruction)
        order: list[int] = []
        for x, role in zip(reduction.inputs, roles, strict=True):
            for dim in x.dims:
                kind, j = role[dim]
                if kind == "k" and j not in order:
                    order.append(j)
        picks = []
        sizes = {}
        classes = {}
        for x, role in zip(reduction.inputs, roles, strict=True):
            mine: list[tuple[str, int]] = []
            for dim, c, size in zip(x.dims, x.classes, x.shape, strict=True):
                kind, j = role[dim]
                if kind == "k":
                    mine.append(("k", order.index(j)))
                    sizes[order.index(j)], classes[order.index(j)] = size, c
                else:
                    mine.append(("r", result.dims.index(j)))
            picks.append(tuple(mine))
        reduction.picks = tuple(picks)
        reduction.sizes = tuple(sizes[i] for i in range(len(order)))
        reduction.classes = tuple(classes[i] for i in range(len(order)))

    def _levels(self) -> None:
        for node in self.nodes:
            node.level = max((x.level for x in node.operands), default=0)
            if node.reduction is not None:
                node.level += 1
                node.reduction.level = node.level


def _kind(instruction: Instruction, cuts: Cuts) -> str:
    match instruction.op.kernel:
        case Immediate():
            return "constant"
        case Axes():
            return "move"
        case Regroup():
            return "move" if cuts.is_renaming(instruction) else "reshape"
        case IndexMap():
            return "map"
        case kernel if callable(kernel):
            return "elementwise"
        case other:
            raise InternalError(
                f"{instruction.op} cannot be computed within a kernel: its structure is {other}",
                stage="build",
            )
