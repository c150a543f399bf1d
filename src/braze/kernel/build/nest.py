"""Loop nests: which axes run outside, which inside, along which the lanes lie, and what rows are kept.

A nest is a set of results that share their outer axes. Its outer axes are those that the reductions keep
(all but the last where there is none); its inner axes are swept once per outer index for each set of
results. Lanes lie along the last inner axis or the last outer one, whichever makes the innermost accesses
cheaper: rows of a softmax go along the row, short rows and sums over leading axes go across.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from braze.kernel.build.graph import Graph, Node, Reduction
from braze.kernel.halves import row_dtype
from braze.target import Target

GATHER_COST = 8.0
"""One gathered lane against one lane of a vector load, in the L1 cache (Skylake-X)."""
EXPENSIVE_FLOPS = 24
"""From here on a value that two sweeps need is kept in scratch instead of computed again.

Flops of one element, as costs count them; `passes.clusters.EXPENSIVE` is in vector operations that code becomes.
"""

Lane = Literal["inner", "outer", "none"]


@dataclass(slots=True)
class Nest:
    """Results over one set of outer axes.

    Attributes:
        outer: classes and sizes of the outer axes.
        roots: result number and node.
        lane: where the lanes lie; `none` for scalars.
    """

    outer: tuple[tuple[int, int], ...]
    roots: list[tuple[int, Node]] = field(default_factory=list)
    lane: Lane = "none"

    @property
    def rows(self) -> int:
        return math.prod(size for _, size in self.outer)

    @property
    def outer_classes(self) -> tuple[int, ...]:
        return tuple(c for c, _ in self.outer)

    def inner_of(self, node: Node) -> tuple[tuple[int, int], ...]:
        """The classes and sizes of a node's axes that are not outer ones."""
        outer = self.outer_classes
        return tuple(p for p in zip(node.classes, node.shape, strict=True) if p[0] not in outer)


def reductions_below(root: Node) -> list[Reduction]:
    """The reductions that a node reaches without passing through another one."""
    found: list[Reduction] = []
    seen = {root.number}
    work = [root]
    while work:
        node = work.pop()
        if node.reduction is not None:
            if node.reduction not in found:
                found.append(node.reduction)
            continue
        for x in node.operands:
            if x.number not in seen:
                seen.add(x.number)
                work.append(x)
    return found


def nests(graph: Graph, target: Target) -> list[Nest]:
    """The results of a graph as nests, in order of their first result."""
    plans: dict[tuple[tuple[int, int], ...], Nest] = {}
    plain: list[tuple[int, Node]] = []
    for k, root in enumerate(graph.results):
        kept = _kept(root)
        if kept is None:
            plain.append((k, root))
        else:
            plans.setdefault(kept, Nest(kept)).roots.append((k, root))
    for k, root in plain:
        axes = tuple(zip(root.classes, root.shape, strict=True))
        home = next((n for n in plans.values() if set(n.outer) <= set(axes) and (n.outer or not axes)), None)
        if home is None:
            outer = axes[:-1]
            home = plans.setdefault(outer, Nest(outer))
        home.roots.append((k, root))
    result = sorted(plans.values(), key=lambda n: n.roots[0][0])
    for nest in result:
        nest.lane = _lane(nest, graph, target)
    return result


def _kept(root: Node) -> tuple[tuple[int, int], ...] | None:
    """The axes of a result that its reductions keep; None where no reduction says."""
    axes = tuple(zip(root.classes, root.shape, strict=True))
    best: tuple[tuple[int, int], ...] | None = None
    for reduction in reductions_below(root):
        kept = set(reduction.nodes[0].classes)
        if kept <= set(root.classes):
            found = tuple(a for a in axes if a[0] in kept)
            if best is None or len(found) > len(best):
                best = found
    return best


def _lane(nest: Nest, graph: Graph, target: Target) -> Lane:
    """Where the lanes lie: by the cost of the accesses in the innermost loop, per useful lane."""
    reduced = [p for r in _reductions_of(nest) for p in zip(r.classes, r.sizes, strict=True)]
    inner = [p for _, root in nest.roots for p in nest.inner_of(root)[-1:]]
    sweeps = reduced + inner
    if not sweeps:
        return "outer" if nest.outer else "none"
    if not nest.outer:
        return "inner"
    parameters = [p for p in graph.parameters if p.classes]
    inside = max(sweeps, key=lambda p: p[1])
    across = nest.outer[-1]
    stores = [root for _, root in nest.roots if root.classes]
    costs = []
    for lane in (inside, across):
        swept = {c for c, _ in sweeps}
        costs.append(
            sum(_access_cost(x, lane[0], swept, inside[1]) for x in parameters + stores)
            * _waste(lane[1], target)
        )
    return "inner" if costs[0] <= costs[1] else "outer"


def _reductions_of(nest: Nest) -> list[Reduction]:
    return [r for _, root in nest.roots for r in reductions_below(root)]


def _access_cost(node: Node, lane: int, swept: set[int], trips: int) -> float:
    """Per lane of the innermost loop; what does not change in that loop is shared by its trips."""
    if lane not in node.classes:
        cost = 0.1
    elif node.classes[-1] == lane:
        cost = 1.0
    else:
        cost = GATHER_COST
    return cost if swept & set(node.classes) else cost / max(trips, 1)


def _waste(size: int, target: Target) -> float:
    """Lanes run per lane used, for an axis of that size."""
    lanes = max(1, target.vector_bytes // 4)
    return lanes * math.ceil(size / lanes) / size if size else 1.0


# Rows kept in scratch -----------------------------------------------------------------------------


def scratch_rows(nest: Nest, graph: Graph, target: Target) -> list[tuple[Node, int]]:
    """Nodes that several sweeps need and that cost much to compute: node, and the axis to keep it along."""
    if not graph.reductions:
        return []
    sweeps = _sweeps(nest, graph)
    consumers: dict[int, list[Node]] = {}
    for node in graph.nodes:
        for x in node.operands:
            consumers.setdefault(x.number, []).append(node)
    costs: dict[int, int] = {}
    kept: list[tuple[Node, int]] = []
    outer = set(nest.outer_classes)
    for node in graph.nodes:
        inside = [i for i, c in enumerate(node.classes) if c not in outer]
        if not inside or node.kind in ("parameter", "constant"):
            costs[node.number] = 0
            continue
        costs[node.number] = flops_per_element(node) + sum(costs[x.number] for x in node.operands)
        mine = sweeps.get(node.number, frozenset())
        leaves = any(
            c.reduction is not None or sweeps.get(c.number) != mine for c in consumers.get(node.number, ())
        ) or any(root is node for _, root in nest.roots)
        if len(mine) < 2 or not leaves or len(inside) != 1 or costs[node.number] < EXPENSIVE_FLOPS:
            continue
        dtype = row_dtype(node.dtype)
        lanes = target.lanes(dtype, 2) if nest.lane == "outer" else 1
        if node.shape[inside[0]] * dtype.itemsize * lanes <= target.l2_bytes // 4:
            kept.append((node, inside[0]))
            costs[node.number] = 0
    return kept


def _sweeps(nest: Nest, graph: Graph) -> dict[int, frozenset[object]]:
    """Per node, the passes over inner axes that need it."""
    needs: dict[int, set[object]] = {}
    for _, root in nest.roots:
        inner = nest.inner_of(root)
        if inner:
            needs.setdefault(root.number, set()).add(("store", inner))
    for node in reversed(graph.nodes):
        if node.reduction is not None and node.index == 0:
            r = node.reduction
            for x in r.inputs:
                needs.setdefault(x.number, set()).add((r.level, r.classes, node.classes))
        elif node.reduction is None:
            for x in node.operands:
                needs.setdefault(x.number, set()).update(needs.get(node.number, ()))
    return {number: frozenset(s) for number, s in needs.items()}


def flops_per_element(node: Node) -> int:
    """The cost facet of the node's op, a transcendental as `EXPENSIVE_FLOPS`."""
    if node.op is None or node.source is None or node.kind != "elementwise" or node.type.size == 0:
        return 0
    cost = node.cost()
    return int((cost.flops + cost.transcendentals * EXPENSIVE_FLOPS) // node.type.size)
