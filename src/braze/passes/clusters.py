"""What fusion knows of the kernels to be, and whether an instruction may join one.

A `Cluster` is a set of instructions that become one kernel. Its *axes* (parts, where reshapes split or merge
axes: see `axes`) are numbers: those of its results
first, then the reduced ones. Every value inside that follows them axis by axis has a tuple of them (-1 for
axes of size 1); values behind index maps have none. *Rows* are the axes that its reductions keep: a kernel
runs over them outside and passes over the others once for each reduction and once for the results.

The rules, each of which gives its name and reason to the decision record:

| rule | fuses |
|---|---|
| `elementwise` | a producer computed where it is used |
| `broadcast` | the same through a broadcast, if it is not computed again and again |
| `index map` | a producer read through slices, pads, concatenations |
| `epilogue` | a reduction or dot into the elementwise work on its result |
| `rows` | a reduction into work over the same rows |
| `nested` | a short reduction inside the pass of another |
| `multiple results` | a producer whose value others need too |
| `duplicate` | a cheap producer into each of several kernels |
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from braze.hlo.axes import Cuts, folds, is_contraction, is_move, is_product, reduced_axes, repeats
from braze.hlo.ir import Instruction, Value, cost_of
from braze.ops.table import Axes, Immediate, IndexMap, Regroup, Update
from braze.record import Record
from braze.target import Target

AxisNumbers = tuple[int, ...]

MOST_OPERATIONS = 600
"""Vector operations of one kernel; code generation costs about 4 ms per 40 of them."""
TRANSCENDENTAL_OPERATIONS = 30
"""Vector operations of a sine or an exponential."""
EXPENSIVE = 8
"""Vector operations from which on computing a value again costs more than keeping it in memory between kernels.

Inside a kernel, where keeping is cheaper still, `kernel.build.nest.EXPENSIVE_FLOPS` decides."""
MOST_NESTING = 12
"""Index maps and reductions in a chain of one kernel; building a kernel nests where they do."""
SHORT_AXIS = 64
"""A nested reduction longer than this is a kernel of its own."""
SMALL_BYTES = 256 << 10
"""Work on so little data is fastest on one thread, however it is arranged."""


@dataclass(slots=True, eq=False)
class Cluster:
    """Instructions that become one kernel.

    In softmax(x) of f32[6,70] along axis 1, with m = max(x), e = exp(x - m), s = sum(e) and y = e / s, the domain is
    (6, 70) and has the axes 0 and 1. Both reductions keep axis 0, so `rows` is {0}; m and s have the axes (0,). Only the
    last pass needs s, so its `sweeps` are {-1}; e is needed by that one and by the pass of the sum: {-1, 0}, and so is m.
    Behind the sum, e has a `nesting` of 1. Every `factor` is 1: no element is computed twice in one pass.

    Attributes:
        number: in order of creation.
        members: positions of the instructions in the region.
        results: values that leave the kernel.
        domain: shape of the first result.
        cuts: the parts of axes, of the whole region; all axes here are parts.
        counted: vector operations of instructions, shared by all clusters of a region.
        result_axes: the axes of the results.
        axes: per value the axes it follows; None behind index maps.
        inputs: per reduction and operand the axes of what is reduced.
        factor: per value how often an element of it is computed at most.
        sweeps: per value the passes that need it; -1 is the pass that writes results.
        sizes: length of every axis.
        rows: the axes that its reductions keep, None as long as it has none.
        nesting: per value the index maps and reductions between it and a result.
        folds: whether a reshape in it splits or merges axes.
        updated: operands that a result overwrites, with the update. Its domain is then the window's.
    """

    number: int
    domain: tuple[int, ...]
    cuts: Cuts
    counted: dict[Instruction, int]
    kind: str = "loop"
    members: list[int] = field(default_factory=list)
    results: dict[Value, None] = field(default_factory=dict)
    axes: dict[Value, AxisNumbers | None] = field(default_factory=dict)
    inputs: dict[tuple[Instruction, int], AxisNumbers] = field(default_factory=dict)
    factor: dict[Value, int] = field(default_factory=dict)
    sweeps: dict[Value, frozenset[int]] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    rows: frozenset[int] | None = None
    nesting: dict[Value, int] = field(default_factory=dict)
    updated: dict[Value, Instruction] = field(default_factory=dict)
    result_axes: frozenset[int] = field(init=False)
    folds: bool = False
    operations: int = 0
    first: int = 0
    last: int = 0

    def __post_init__(self) -> None:
        self.result_axes = frozenset(i for i, n in enumerate(self.domain) if n != 1)

    def operations_of(self, instruction: Instruction) -> int:
        """Vector operations that an instruction becomes, roughly; counted once."""
        found = self.counted.get(instruction)
        if found is None:
            found = self.counted[instruction] = operations_of(instruction)
        return found


@dataclass(slots=True, eq=False, repr=False)
class Verdict(Record):
    """Whether a producer may join, by which rule, and why (not)."""

    fused: bool
    rule: str
    reason: str
    axes: AxisNumbers | None = None
    factor: int = 1
    sweeps: frozenset[int] = frozenset()
    nesting: int = 0


def is_splat(instruction: Instruction) -> bool:
    """Whether it is a constant with one value, which kernels take as an immediate."""
    if not isinstance(instruction.op.kernel, Immediate):
        return False
    value = instruction.attrs["value"]
    return value.size == 1 or (value.size > 0 and value.strides == (0,) * value.ndim) or _one_value(value)


def _one_value(value: np.ndarray[Any, Any]) -> bool:
    flat = value.reshape(-1)
    return value.size > 1 and bool(
        (flat.view(np.uint8).reshape(value.size, -1) == flat[:1].view(np.uint8)).all()
    )


def writes_in_place(instruction: Instruction) -> bool:
    """Whether it is an update that writes its window into memory that its operand leaves behind."""
    if not isinstance(instruction.op.kernel, Update):
        return False
    producer = instruction.operands[0].producer
    return producer is None or not is_splat(producer)


def operations_of(instruction: Instruction) -> int:
    """Vector operations that an instruction becomes, roughly."""
    if isinstance(instruction.op.kernel, Axes | Regroup | Immediate):
        return 0
    if is_contraction(instruction):
        return 6 + sum(len(r.instructions) for r in instruction.regions)
    if not instruction.results or instruction.results[0].type.size == 0:
        return 1
    cost = cost_of(instruction)
    heavy = math.ceil(cost.transcendentals / instruction.results[0].type.size)
    # An index map computes addresses and masks besides.
    maps = 4 * len(instruction.operands) if isinstance(instruction.op.kernel, IndexMap) else 0
    return 1 + maps + heavy * TRANSCENDENTAL_OPERATIONS


def is_vector_dot(instruction: Instruction) -> bool:
    """Whether a dot has nothing left on one side, so that it is a product and a sum along rows."""
    if not is_product(instruction):
        return False
    sides = reduced_axes(instruction)
    for side, other, operand in zip(sides, reversed(sides), instruction.operands, strict=True):
        if all(n == 1 for n, role in zip(operand.type.shape, side, strict=True) if role not in other):
            return True
    return False


def operand_axes(cluster: Cluster, consumer: Instruction, position: int) -> AxisNumbers | None:
    """The axes that an operand follows inside a cluster, from its consumer's."""
    operand = consumer.operands[position].type
    result = cluster.axes.get(consumer.results[0])
    if is_contraction(consumer):
        return cluster.inputs.get((consumer, position), ())
    if operand.ndim == 0:
        return ()
    if writes_in_place(consumer):
        return result
    if result is None or isinstance(consumer.op.kernel, IndexMap):
        return None
    if not is_move(consumer):
        return result
    if folds(consumer) and not cluster.cuts.is_renaming(consumer):
        return None
    return tuple(result[t] if t is not None else -1 for t in cluster.cuts.moved(consumer))


def judge(
    cluster: Cluster, producer: Instruction, consumers: list[tuple[Instruction, int]], target: Target
) -> Verdict:
    """Whether a producer, used by these operands of instructions in the cluster, may be computed there."""
    if cluster.operations + cluster.operations_of(producer) > MOST_OPERATIONS:
        return Verdict(False, "size", f"the kernel has {cluster.operations} vector operations already")
    for consumer, position in consumers:
        refusal = _refused_by(cluster, consumer, position, producer)
        if refusal is not None:
            return refusal
    place = _place(cluster, consumers)
    if not all(_reads_what_it_writes(cluster, producer, v, place) for v in producer.operands):
        return Verdict(False, "update", "it reads memory that the kernel overwrites")
    if place.nesting > MOST_NESTING:
        return Verdict(False, "nesting", f"{place.nesting} index maps or reductions would nest")
    if is_product(producer) and not is_vector_dot(producer):
        return _judge_dot(cluster, producer, place)
    if is_contraction(producer):
        return _judge_reduction(cluster, producer, place, target)
    return _judge_elementwise(cluster, producer, place)


def _refused_by(
    cluster: Cluster, consumer: Instruction, position: int, producer: Instruction
) -> Verdict | None:
    if is_product(consumer) and not is_vector_dot(consumer):
        return Verdict(False, "dot operand", "a product reads each element many times")
    if position == 0 and writes_in_place(consumer):
        return Verdict(False, "update", "the operand is updated in place")
    kernel = consumer.op.kernel
    if isinstance(kernel, IndexMap) and kernel.chooses and cluster.operations_of(producer) >= EXPENSIVE:
        return Verdict(False, consumer.op.title, "every part would be computed at every element")
    return None


def _reads_what_it_writes(cluster: Cluster, producer: Instruction, operand: Value, place: Verdict) -> bool:
    """Whether an operand may be read in a kernel that overwrites it: only the element to be written."""
    update = cluster.updated.get(operand)
    if update is None:
        return True
    kernel = update.op.kernel
    return (
        isinstance(kernel, Update)
        and producer.op is kernel.reader
        and producer.operands[1:] == update.operands[2:]
        and producer.result.type is update.operands[1].type
        and place.axes == cluster.axes[update.result]
    )


def _place(cluster: Cluster, consumers: list[tuple[Instruction, int]]) -> Verdict:
    """Where the value is needed: its axes, how often an element is computed, by which passes."""
    demands: dict[AxisNumbers | None, int] = {}
    unknown = 0
    sweeps: set[int] = set()
    nesting = 0
    maps = False
    for consumer, position in consumers:
        result = consumer.results[0]
        axes = operand_axes(cluster, consumer, position)
        factor = cluster.factor.get(result, 1)
        if axes is None:
            # Of few elements that are taken many times, each is computed as often.
            unknown += factor * max(1, result.type.size // max(consumer.operands[position].type.size, 1))
        else:
            demands[axes] = max(demands.get(axes, 0), factor)
        is_map = isinstance(consumer.op.kernel, IndexMap) and not writes_in_place(consumer)
        reduces = is_contraction(consumer)
        maps = maps or is_map
        nesting = max(nesting, cluster.nesting.get(result, 0) + (is_map or reduces))
        if reduces:
            sweeps.add(_sweep_of(cluster, consumer))
        else:
            sweeps |= cluster.sweeps.get(result, frozenset((-1,)))
    known = unknown == 0 and len(demands) == 1
    axes = next(iter(demands)) if known else None
    return Verdict(
        True,
        "index map" if maps else "elementwise",
        "",
        axes,
        unknown + sum(demands.values()),
        frozenset(sweeps),
        nesting,
    )


def _sweep_of(cluster: Cluster, reduction: Instruction) -> int:
    """Reductions over the same axes that do not need each other share a pass; told apart by their nesting."""
    return cluster.nesting.get(reduction.results[0], 0)


def _judge_elementwise(cluster: Cluster, producer: Instruction, place: Verdict) -> Verdict:
    if cluster.kind == "dot" and folds(producer):
        return Verdict(False, place.rule, "the kernel is a product, whose axes stay whole")
    result = producer.results[0].type
    again = place.factor * _hidden_repeats(cluster, place.axes)
    if cluster.operations_of(producer) >= EXPENSIVE and again > 1 and result.size > 1:
        return Verdict(
            False, place.rule, f"{producer.op.title} would be computed {again} times for each element"
        )
    if again > 64 and cluster.operations_of(producer) > 0 and result.size > 1:
        return Verdict(False, place.rule, f"it would be computed {again} times for each element")
    rule = "broadcast" if repeats(producer) else place.rule
    return Verdict(
        True, rule, "computed where it is used", place.axes, place.factor, place.sweeps, place.nesting
    )


def _hidden_repeats(cluster: Cluster, axes: AxisNumbers | None) -> int:
    """How often a value that lacks outer axes is computed again; along rows alone it is computed once."""
    if axes is None:
        return 1
    mine = {a for a in axes if a >= 0}
    last = max(cluster.result_axes, default=-1)
    outer = cluster.rows if cluster.rows is not None else cluster.result_axes - {last}
    if mine <= outer:
        return 1
    return math.prod(cluster.sizes[a] for a in outer - mine)


def _judge_dot(cluster: Cluster, producer: Instruction, place: Verdict) -> Verdict:
    if cluster.rows is not None or cluster.kind != "loop":
        return Verdict(False, "epilogue", f"the kernel is one of kind {cluster.kind} already")
    if cluster.folds:
        return Verdict(False, "epilogue", "the kernel splits or merges axes of the product")
    if (
        place.axes != tuple(range(len(cluster.domain)))
        or cluster.cuts.shape(producer.result) != cluster.domain
    ):
        return Verdict(False, "epilogue", "the product is not used element by element")
    return Verdict(True, "epilogue", "applied to the product in registers", place.axes, 1, place.sweeps, 1)


def _judge_reduction(cluster: Cluster, producer: Instruction, place: Verdict, target: Target) -> Verdict:
    if cluster.kind == "dot":
        return Verdict(False, "rows", "the kernel is a product")
    if place.axes is None or len(set(place.axes) - {-1}) != sum(a >= 0 for a in place.axes):
        return Verdict(False, "rows", "its result is read through an index map")
    kept = frozenset(a for a in place.axes if a >= 0)
    reduced = math.prod(_reduced_sizes(producer))
    whole = max(v.type.nbytes for v in producer.operands)
    fits = whole // max(1, math.prod(cluster.sizes[a] for a in kept)) <= target.l2_bytes // 2
    if cluster.rows is not None and kept > cluster.rows:
        if reduced > SHORT_AXIS or place.factor > 1 or len(place.sweeps) > 1:
            return Verdict(False, "nested", f"a pass of {reduced} terms would run inside another")
        return _accepted("nested", "a short sum inside the pass of another", place)
    if cluster.rows is not None and kept != cluster.rows:
        return Verdict(False, "rows", "it keeps other axes than the reductions of the kernel")
    dependent = place.sweeps != {-1} or kept != cluster.result_axes
    if not kept and dependent and whole > SMALL_BYTES:
        return Verdict(False, "rows", "one row of all the data is shared out better in parts")
    if dependent and not fits and math.prod(cluster.sizes[a] for a in kept) < 4 * target.cores:
        return Verdict(False, "rows", "a row is larger than the cache")
    if not dependent:
        return _accepted("epilogue", "applied to the reduced value", place)
    return _accepted("rows", "one pass after another over rows that stay in the cache", place)


def _accepted(rule: str, reason: str, place: Verdict) -> Verdict:
    return Verdict(True, rule, reason, place.axes, place.factor, place.sweeps, place.nesting)


def _reduced_sizes(reduction: Instruction) -> list[int]:
    roles = zip(reduction.operands[0].type.shape, reduced_axes(reduction)[0], strict=True)
    return [n for n, (role, _) in roles if role == "k"]


# Joining ------------------------------------------------------------------------------------------


def join(cluster: Cluster, producer: Instruction, position: int, verdict: Verdict) -> None:
    """Make the producer a member, as the verdict says."""
    cluster.members.append(position)
    cluster.folds = cluster.folds or folds(producer)
    cluster.first = min(cluster.first, position)
    cluster.last = max(cluster.last, position)
    cluster.operations += cluster.operations_of(producer)
    for result in producer.results:
        cluster.axes[result] = verdict.axes
        cluster.factor[result] = verdict.factor
        cluster.sweeps[result] = verdict.sweeps
        cluster.nesting[result] = verdict.nesting
    if is_contraction(producer):
        _open_reduction(cluster, producer, verdict)
    elif writes_in_place(producer):
        cluster.kind = "update"
        cluster.updated[producer.operands[0]] = producer


def _open_reduction(cluster: Cluster, reduction: Instruction, verdict: Verdict) -> None:
    """Give the reduced axes their numbers, and with them the axes of what is reduced."""
    assert verdict.axes is not None, "a reduction is fused only where its axes are known"
    if is_product(reduction) and not is_vector_dot(reduction):
        cluster.kind = "dot"
        return
    kept = frozenset(a for a in verdict.axes if a >= 0)
    if cluster.rows is None:
        cluster.rows = kept
    if cluster.kind != "update":
        cluster.kind = "reduce" if cluster.rows == cluster.result_axes else "row"
    used: set[int] = set()
    shared: dict[int, int] = {}
    for k, (operand, roles) in enumerate(
        zip(reduction.operands, cluster.cuts.roles(reduction), strict=False)
    ):
        axes = []
        for size, (role, j) in zip(cluster.cuts.shape(operand), roles, strict=True):
            if size == 1:
                axes.append(-1)
            elif role == "r":
                axes.append(verdict.axes[j])
            else:
                if j not in shared:
                    shared[j] = _reduced_axis(cluster, kept, size, used)
                    used.add(shared[j])
                axes.append(shared[j])
        cluster.inputs[reduction, k] = tuple(axes)


def _reduced_axis(cluster: Cluster, kept: frozenset[int], size: int, used: set[int]) -> int:
    """The cluster's axis of that size that no reduction keeps, or a new one."""
    rows = cluster.rows or frozenset()
    for axis, known in enumerate(cluster.sizes):
        if known == size and axis not in kept and axis not in rows and axis not in used:
            return axis
    cluster.sizes.append(size)
    return len(cluster.sizes) - 1


def begin(
    number: int, root: Instruction, position: int, cuts: Cuts, counted: dict[Instruction, int]
) -> Cluster:
    """A cluster of one instruction whose results leave it."""
    domain = cuts.shape(root.operands[1] if writes_in_place(root) else root.results[0])
    cluster = Cluster(number, domain, cuts, counted, sizes=list(domain), first=position, last=position)
    axes = tuple(i if n != 1 else -1 for i, n in enumerate(domain))
    if is_contraction(root):
        cluster.rows = None
    join(cluster, root, position, Verdict(True, "root", "", axes, 1, frozenset((-1,)), 0))
    for result in root.results:
        cluster.results[result] = None
    return cluster


# Merging ------------------------------------------------------------------------------------------


def axes_of(cluster: Cluster, uses: list[tuple[Instruction, int]]) -> AxisNumbers | None:
    """The axes that a value follows in a cluster that reads it; None if it follows several or none."""
    return _place(cluster, uses).axes


def union(
    home: Cluster, other: Cluster, mine: AxisNumbers | None, theirs: AxisNumbers | None, target: Target
) -> dict[int, int] | None:
    """How the axes of `other` become axes of `home`, if one kernel can do both; they share a value.

    Args:
        mine, theirs: the axes that the shared value follows in each.

    Returns: axis of `other` to axis of `home`, new numbers past its last; None where they do not fit.
    """
    if mine is None or theirs is None or {home.kind, other.kind} & {"dot", "update"}:
        return None
    if home.operations + other.operations > MOST_OPERATIONS:
        return None
    axes = {t: m for m, t in zip(mine, theirs, strict=True) if t >= 0}
    if len(set(axes.values())) != len(axes) or -1 in axes.values():
        return None
    fresh = len(home.sizes)
    for axis, size in enumerate(other.sizes):
        if axis not in axes and size != 1:
            if axis in other.result_axes:
                return None
            axes[axis] = fresh
            fresh += 1
    results = [axes[a] for a in sorted(other.result_axes)]
    rows = home.rows if other.rows is None else frozenset(axes[a] for a in other.rows)
    if home.rows is not None and rows != home.rows:
        return None
    full = results == sorted(home.result_axes) and len(home.domain) == len(other.domain)
    if not full and (rows is None or results != sorted(rows)):
        return None
    if rows is not None and rows != home.result_axes:
        many = math.prod(home.sizes[a] for a in rows) >= 4 * target.cores
        if not many and math.prod(home.domain) * 4 > SMALL_BYTES:
            return None
    return axes


def absorb(home: Cluster, other: Cluster, axes: dict[int, int]) -> None:
    """Make the members of `other` members of `home`, with their axes renamed."""
    rename = {**axes, -1: -1}
    sizes = {axes[a]: n for a, n in enumerate(other.sizes) if a in axes}
    home.sizes.extend(sizes[a] for a in range(len(home.sizes), max(sizes, default=-1) + 1))

    def renamed(old: AxisNumbers) -> AxisNumbers:
        return tuple(rename.get(a, -1) for a in old)

    for value, old in other.axes.items():
        new = renamed(old) if old is not None else None
        home.axes[value] = new if home.axes.get(value, new) == new else None
    home.inputs.update({key: renamed(old) for key, old in other.inputs.items()})
    for value, factor in other.factor.items():
        home.factor[value] = max(factor, home.factor.get(value, 0))
        home.sweeps[value] = home.sweeps.get(value, frozenset()) | other.sweeps[value]
        home.nesting[value] = max(other.nesting[value], home.nesting.get(value, 0))
    if other.rows is not None:
        home.rows = frozenset(axes[a] for a in other.rows)
        home.kind = "reduce" if home.rows == home.result_axes else "row"
    gather(home, other)


def gather(home: Cluster, other: Cluster) -> None:
    """Take over members and results of a cluster; axes are not compared any more."""
    home.members = list(dict.fromkeys([*home.members, *other.members]))
    home.results.update(other.results)
    home.updated.update(other.updated)
    home.operations += other.operations
    home.folds = home.folds or other.folds
    home.first, home.last = min(home.first, other.first), max(home.last, other.last)
