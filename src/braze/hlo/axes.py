"""Axes cut so that reshapes line up: fusion and kernels see a reshape that splits or merges axes as none at all.

`Cuts(instructions)` cuts every axis of every value into *parts*, a row-major grid of sizes whose product is the
axis. Axes that an operation ties together are cut alike, and a reshape imposes the cuts of each side upon the
other: for [4, 66] -> [8, 33], 4 becomes 4, 66 becomes 2 and 33, 8 becomes 4 and 2. In parts, operand and
result of that reshape have one shape. Everything that numbers axes (broadcasts, transposes, reductions) is
asked for here, in parts.

Invariants:
- Parts exist where a reshape asks for them; without such reshapes, parts are axes.
- Axes that operations compute indices along (slice, pad, iota, ...) are whole.
- A reshape that does not line up ([2, 3] -> [3, 2]), or asks for cuts that are not to be had, changes nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from braze.hlo.ir import Instruction, Value
from braze.ops.table import Axes, Contraction, IndexMap, Regroup

Axis = tuple[Value, int]
Role = tuple[str, int]
"""("r", axis of the result) or ("k", number of the reduced axis)."""


class Cuts:
    """The parts of the axes of values that instructions compute with."""

    def __init__(self, instructions: Iterable[Instruction]) -> None:
        self._parent: dict[Axis, Axis] = {}
        self._cuts: dict[Axis, set[int]] = {}
        self._whole: set[Axis] = set()
        self._shapes: dict[Value, tuple[tuple[int, ...], ...]] = {}
        made = list(instructions)
        reshapes = [i for i in made if folds(i)]
        if reshapes:
            for instruction in made:
                self._tie_axes_of(instruction)
            self._whole = {self._find(a) for a in self._whole}
            self._impose(reshapes)

    # Parts ----------------------------------------------------------------------------------------

    def parts(self, value: Value) -> tuple[tuple[int, ...], ...]:
        """Per axis, the sizes of its parts, outermost first."""
        if not self._cuts:
            return tuple((n,) for n in value.type.shape)
        found = self._shapes.get(value)
        if found is None:
            found = tuple(self._parts_of((value, i), n) for i, n in enumerate(value.type.shape))
            self._shapes[value] = found
        return found

    def _parts_of(self, axis: Axis, size: int) -> tuple[int, ...]:
        cuts = self._cuts.get(self._find(axis))
        if not cuts:
            return (size,)
        bounds = [size, *sorted(cuts, reverse=True), 1]
        return tuple(x // y for x, y in itertools.pairwise(bounds))

    def shape(self, value: Value) -> tuple[int, ...]:
        """The sizes of all parts."""
        return tuple(n for parts in self.parts(value) for n in parts) if self._cuts else value.type.shape

    def is_renaming(self, reshape: Instruction) -> bool:
        """Whether a reshape does no more, in parts, than add or drop axes of size 1."""
        old, new = self.shape(reshape.operands[0]), self.shape(reshape.result)
        return [n for n in old if n != 1] == [n for n in new if n != 1]

    # Parts of instructions ------------------------------------------------------------------------

    def moved(self, instruction: Instruction) -> list[int | None]:
        """Per part of the operand, the part of the result that runs with it; None for size 1."""
        operand, result = self.shape(instruction.operands[0]), self.shape(instruction.result)
        if isinstance(instruction.op.kernel, Regroup):
            wide = iter([i for i, n in enumerate(result) if n != 1])
            return [next(wide) if n != 1 else None for n in operand]
        first = list(itertools.accumulate(map(len, self.parts(instruction.result)), initial=0))
        axes = zip(moved_axes(instruction), self.parts(instruction.operands[0]), strict=True)
        targets = [None if j is None else first[j] + k for j, p in axes for k in range(len(p))]
        return [t if n != 1 else None for t, n in zip(targets, operand, strict=True)]

    def roles(self, reduction: Instruction) -> list[list[Role]]:
        """Per reduced input, per part: what `reduced_axes` says per axis."""
        kept = list(itertools.accumulate(map(len, self.parts(reduction.results[0])), initial=0))
        reduced: dict[int, int] = {}
        found = []
        for value, roles in zip(reduction.operands, reduced_axes(reduction), strict=False):
            mine: list[Role] = []
            for (role, j), parts in zip(roles, self.parts(value), strict=True):
                if role == "k":
                    reduced.setdefault(j, sum(len(self.parts(value)[i]) for i in _before(roles, j)))
                first = kept[j] if role == "r" else reduced[j]
                mine.extend((role, first + k) for k in range(len(parts)))
            found.append(mine)
        return found

    # Classes of axes ------------------------------------------------------------------------------

    def _find(self, axis: Axis) -> Axis:
        parent = self._parent
        while (up := parent.get(axis, axis)) != axis:
            parent[axis] = parent.get(up, up)
            axis = up
        return axis

    def _tie(self, x: Axis, y: Axis) -> None:
        """Two axes are cut alike, unless one of them has size 1."""
        if x[0].type.shape[x[1]] == y[0].type.shape[y[1]]:
            first, second = self._find(x), self._find(y)
            if first != second:
                self._parent[first] = second

    def _tie_axes_of(self, instruction: Instruction) -> None:
        match instruction.op.kernel:
            case Contraction():
                self._tie_reduction(instruction)
            case Regroup() if folds(instruction):
                return  # _impose carries cuts through it
            case Axes() | Regroup():
                for i, j in enumerate(moved_axes(instruction)):
                    if j is not None:
                        self._tie((instruction.operands[0], i), (instruction.result, j))
            case IndexMap():
                for v in (*instruction.operands, *instruction.results):
                    self._whole.update((v, i) for i in range(v.type.ndim))
            case code if callable(code):
                for result in instruction.results:
                    for v in instruction.operands:
                        for i in range(v.type.ndim):
                            self._tie((v, i), (result, i))

    def _tie_reduction(self, reduction: Instruction) -> None:
        reduced: dict[int, Axis] = {}
        for value, roles in zip(reduction.operands, reduced_axes(reduction), strict=False):
            for i, (role, j) in enumerate(roles):
                if role == "k":
                    self._tie((value, i), reduced.setdefault(j, (value, i)))
                else:
                    for result in reduction.results:
                        self._tie((value, i), (result, j))

    # Cuts -----------------------------------------------------------------------------------------

    def _impose(self, reshapes: list[Instruction]) -> None:
        """Carry cuts through reshapes until nothing changes; one that cannot have its cuts is left out."""
        touching: dict[Axis, set[int]] = {}
        for k, reshape in enumerate(reshapes):
            for v in (reshape.operands[0], reshape.result):
                for i in range(v.type.ndim):
                    touching.setdefault(self._find((v, i)), set()).add(k)
        waiting = dict.fromkeys(range(len(reshapes)))
        refused: set[int] = set()
        while waiting:
            k = next(iter(waiting))
            del waiting[k]
            wanted = self._wanted(reshapes[k])
            if wanted is None:
                refused.add(k)
                continue
            for axis, cut in wanted:
                self._cuts.setdefault(axis, set()).add(cut)
                waiting.update(dict.fromkeys(touching[axis] - refused))

    def _wanted(self, reshape: Instruction) -> list[tuple[Axis, int]] | None:
        """The cuts that are missing for the sides of a reshape to line up; None where they cannot be had."""
        old, new = self._places(reshape.operands[0]), self._places(reshape.result)
        if old is None or new is None:
            return None
        wanted: dict[tuple[Axis, int], None] = {}
        for here, there in ((old, new), (new, old)):
            bounds = {low * cut for axis, low, _ in there for cut in (1, *self._cuts.get(axis, ()))}
            for axis, low, high in here:
                inside = sorted(b for b in bounds if low < b < high)
                if any(b % low or high % b for b in inside):
                    return None
                cuts = [b // low for b in inside if b // low not in self._cuts.get(axis, ())]
                if cuts and (axis in self._whole or not self._is_chain(axis, cuts, high // low)):
                    return None
                wanted.update(dict.fromkeys((axis, c) for c in cuts))
        return list(wanted)

    def _places(self, value: Value) -> list[tuple[Axis, int, int]] | None:
        """Per axis its class and the strides at which it begins and ends, innermost first; None if empty."""
        found = []
        low = 1
        for i in reversed(range(value.type.ndim)):
            size = value.type.shape[i]
            if size == 0:
                return None
            if size > 1:
                found.append((self._find((value, i)), low, low * size))
                low *= size
        return found

    def _is_chain(self, axis: Axis, cuts: list[int], size: int) -> bool:
        """Whether cuts, with those that an axis has, each divide the next."""
        bounds = [*sorted({*cuts, *self._cuts.get(axis, ())}), size]
        return all(y % x == 0 for x, y in itertools.pairwise(bounds))


def _before(roles: Sequence[Role], j: int) -> Iterator[int]:
    """The axes that are reduced with a smaller number than j."""
    return (i for i, (role, k) in enumerate(roles) if role == "k" and k < j)


def adds_or_drops_units(reshape: Instruction) -> bool:
    """Whether a reshape does no more than add or drop axes of size 1."""
    old, new = reshape.operands[0].type.shape, reshape.result.type.shape
    return [n for n in old if n != 1] == [n for n in new if n != 1]


def folds(instruction: Instruction) -> bool:
    """Whether it is a reshape that splits or merges axes."""
    return isinstance(instruction.op.kernel, Regroup) and not adds_or_drops_units(instruction)


def is_move(instruction: Instruction) -> bool:
    """Whether it gives elements of its one operand, each at another place."""
    return isinstance(instruction.op.kernel, Axes | Regroup)


def is_contraction(instruction: Instruction) -> bool:
    """Whether it combines all elements along some axes."""
    return isinstance(instruction.op.kernel, Contraction)


def is_product(instruction: Instruction) -> bool:
    """Whether it is a sum of products of its two operands."""
    return is_contraction(instruction) and not instruction.regions


def repeats(instruction: Instruction) -> bool:
    """Whether a move of axes gives elements more than once, or an axis of size 1 that the operand lacks."""
    if not isinstance(instruction.op.kernel, Axes):
        return False
    (operand,), result = instruction.operands, instruction.result.type
    kept = {
        j: operand.type.shape[i]
        for i, j in enumerate(instruction.op.kernel.moved(operand.type, **instruction.attrs))
    }
    return any(kept.get(j) != n for j, n in enumerate(result.shape))


def moved_axes(instruction: Instruction) -> list[int | None]:
    """Per axis of the operand, the axis of the result that runs with it; None for axes of size 1."""
    operand, result = instruction.operands[0].type, instruction.result.type
    kernel = instruction.op.kernel
    if isinstance(kernel, Axes):
        targets = kernel.moved(operand, **instruction.attrs)
    else:
        wide = iter([i for i, n in enumerate(result.shape) if n != 1])
        targets = [next(wide) if n != 1 else 0 for n in operand.shape]
    return [t if n != 1 else None for t, n in zip(targets, operand.shape, strict=True)]


def reduced_axes(instruction: Instruction) -> Sequence[Sequence[Role]]:
    """Per reduced input, per axis: ("r", axis of the result) or ("k", number of the reduced axis)."""
    kernel = instruction.op.kernel
    assert isinstance(kernel, Contraction), f"{instruction.op} reduces nothing"
    return kernel.roles(*[v.type for v in instruction.operands], **instruction.attrs)
