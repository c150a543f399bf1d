"""Reductions at an index: over the lanes where the index is the same in all of them, else one after another.

A reduction whose index does not depend on the lane runs its last axis over the lanes with one accumulator
per lane, and combines them at the end; the vectors are several registers wide, so that as many chains run
side by side. One whose index does depend on it runs sequentially, each lane with its own accumulator.
Reductions over the same axes that do not need each other share a pass.

Accuracy: float sums are added in chains of at most `CHAIN` terms, whose results are added in chains again,
so that the error grows with log n. max and min keep the fast instruction in the loop; NaN and the sign of
zero are settled once, from an or of the NaN tests and an and of the sign bits, which cheap passes gather only
if a sum of all terms or a zero says that they matter.

Invariants: the order of the terms depends on shapes and target only. An initial value is applied once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from braze.dtypes import BOOL, F32, F64, I32, I64, accumulation_dtype, is_float
from braze.kernel.build.affine import Affine, Index
from braze.kernel.build.emit import Emitter, Sweep, splat
from braze.kernel.build.graph import Node, Reduction
from braze.kernel.build.nest import flops_per_element
from braze.kernel.build.reducer import bool_opcode, identity, reducer_opcode
from braze.kernel.builder import constant
from braze.kernel.ir import Operand
from braze.ops.sorting import picks_either

CHAIN = 32
"""Most float terms that are added one after another."""
PRODUCT_CHAIN = 8
"""Most float factors that are multiplied one after another: long products leave the range of normal numbers, and
each multiplication with a subnormal result costs about 150 cycles, so few should come after the first such."""
LIGHT = 8
"""Operations of a term that may be written twice, for the usual and for the rare case."""
UNROLLED = 8
"""Axes up to this long are written out; longer sequential sums add this many terms as a tree."""


class Accumulator:
    """One reduction's running values: how they begin, take a term, meet each other, and end.

    Attributes:
        reassociates: whether partial results may be merged, so that a long sum is cut into chains.
        chain: most terms that are taken in one after another where it reassociates.
        crosses: whether lanes can be combined at the end.
    """

    reassociates = False
    chain = CHAIN
    crosses = True

    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction

    def start(self, e: Emitter) -> list[Operand]:
        raise NotImplementedError

    def step(self, e: Emitter, running: Sequence[Operand], terms: Sequence[Operand]) -> list[Operand]:
        raise NotImplementedError

    def first(self, e: Emitter, terms: Sequence[Operand]) -> list[Operand]:
        """The running values after one term."""
        return self.step(e, self.start(e), terms)

    def merge(self, e: Emitter, x: Sequence[Operand], y: Sequence[Operand]) -> list[Operand]:
        return self.step(e, x, y)

    def across(self, e: Emitter, running: Sequence[Operand]) -> list[Operand]:
        """All lanes to one uniform value, in the form that `finish` takes."""
        raise NotImplementedError

    def partial(self, e: Emitter, running: Sequence[Operand]) -> Operand:
        """The value of a part of the terms, for a later launch to combine."""
        return running[0]

    def finish(self, e: Emitter, running: Sequence[Operand], inits: Sequence[Operand]) -> list[Operand]:
        raise NotImplementedError


class Monoid(Accumulator):
    """add, mul, and, or, xor, and max and min of integers: one opcode with an identity."""

    def __init__(self, reduction: Reduction, opcode: str) -> None:
        super().__init__(reduction)
        self.opcode = opcode
        self.result = reduction.nodes[0].dtype
        self.dtype = accumulation_dtype(self.result)
        # Integers and bits give the same in any order; a product's error depends on the number of its factors only.
        self.reassociates = opcode in ("add", "mul") or not is_float(self.result)
        if opcode == "mul" and is_float(self.result):
            self.chain = PRODUCT_CHAIN

    def start(self, e: Emitter) -> list[Operand]:
        return [identity(self.opcode, self.dtype)]

    def step(self, e: Emitter, running: Sequence[Operand], terms: Sequence[Operand]) -> list[Operand]:
        return [_combine(e, self.opcode, running[0], e.cast(terms[0], self.dtype))]

    def first(self, e: Emitter, terms: Sequence[Operand]) -> list[Operand]:
        return [e.cast(terms[0], self.dtype)]

    def across(self, e: Emitter, running: Sequence[Operand]) -> list[Operand]:
        return [e.lane_reduce(bool_opcode(self.opcode, self.dtype), running[0])]

    def finish(self, e: Emitter, running: Sequence[Operand], inits: Sequence[Operand]) -> list[Operand]:
        total = running[0]
        if inits and inits[0] != identity(self.opcode, self.result):
            total = _combine(e, self.opcode, e.cast(inits[0], self.dtype), total)
        return [e.cast(total, self.result)]


class Product(Monoid):
    """The sum of products of a dot: a fused multiply-add, which DESIGN allows in dot accumulation only."""

    def __init__(self, reduction: Reduction) -> None:
        super().__init__(reduction, "add")

    def step(self, e: Emitter, running: Sequence[Operand], terms: Sequence[Operand]) -> list[Operand]:
        x, y = (e.cast(t, self.dtype) for t in terms)
        if self.dtype in (F32, F64):
            return [e.compute("fma", x, y, running[0])]
        if self.dtype == BOOL:
            return [e.compute("or", running[0], e.compute("and", x, y))]
        return [e.compute("add", running[0], e.compute("mul", x, y))]

    def first(self, e: Emitter, terms: Sequence[Operand]) -> list[Operand]:
        x, y = (e.cast(t, self.dtype) for t in terms)
        return [e.compute("and" if self.dtype == BOOL else "mul", x, y)]

    def merge(self, e: Emitter, x: Sequence[Operand], y: Sequence[Operand]) -> list[Operand]:
        return [_combine(e, "add", x[0], y[0])]


class Flags(Accumulator):
    """What comparisons of f32 or f64 do not tell about an extreme: whether a NaN was seen, and the zeros' sign."""

    def __init__(self, reduction: Reduction, opcode: str) -> None:
        super().__init__(reduction)
        self.dtype = accumulation_dtype(reduction.nodes[0].dtype)
        self.bits = I32 if self.dtype == F32 else I64
        # A largest zero is -0 if all signs are set, a smallest one if any is.
        self.join = "and" if opcode == "max" else "or"

    def start(self, e: Emitter) -> list[Operand]:
        return [constant(BOOL, False), constant(self.bits, -1 if self.join == "and" else 0)]

    def step(self, e: Emitter, running: Sequence[Operand], terms: Sequence[Operand]) -> list[Operand]:
        x = e.cast(terms[0], self.dtype)
        return [
            e.compute("or", running[0], e.compute("ne", x, x)),
            e.compute(self.join, running[1], e.bitcast(x, self.bits)),
        ]

    def merge(self, e: Emitter, x: Sequence[Operand], y: Sequence[Operand]) -> list[Operand]:
        return [e.compute("or", x[0], y[0]), e.compute(self.join, x[1], y[1])]

    def across(self, e: Emitter, running: Sequence[Operand]) -> list[Operand]:
        is_nan, signs = running
        negative = e.compute("lt", signs, constant(self.bits, 0))
        return [e.lane_reduce("or", is_nan), e.lane_reduce(self.join, negative)]

    def settle(self, e: Emitter, value: Operand, flags: Sequence[Operand]) -> Operand:
        """The extreme, from what the comparisons found and the flags."""
        is_nan, signs = flags
        negative = signs if signs.dtype == BOOL else e.compute("lt", signs, constant(self.bits, 0))
        zero = e.compute("select", negative, constant(self.dtype, -0.0), constant(self.dtype, 0.0))
        value = e.compute("select", e.compute("eq", value, 0.0), zero, value)
        return e.compute("select", is_nan, constant(self.dtype, np.nan), value)

    def finish(self, e: Emitter, running: Sequence[Operand], inits: Sequence[Operand]) -> list[Operand]:
        raise AssertionError("flags settle an extreme and are none")


class Extreme(Accumulator):
    """max or min of f32 or f64: the extreme without NaN, and its `Flags`."""

    def __init__(self, reduction: Reduction, opcode: str) -> None:
        super().__init__(reduction)
        self.opcode = opcode
        self.dtype = accumulation_dtype(reduction.nodes[0].dtype)
        self.flags = Flags(reduction, opcode)

    def start(self, e: Emitter) -> list[Operand]:
        return [identity(self.opcode, self.dtype), *self.flags.start(e)]

    def step(self, e: Emitter, running: Sequence[Operand], terms: Sequence[Operand]) -> list[Operand]:
        x = e.cast(terms[0], self.dtype)
        return [e.compute(f"{self.opcode}_fast", x, running[0]), *self.flags.step(e, running[1:], terms)]

    def merge(self, e: Emitter, x: Sequence[Operand], y: Sequence[Operand]) -> list[Operand]:
        return [e.compute(f"{self.opcode}_fast", x[0], y[0]), *self.flags.merge(e, x[1:], y[1:])]

    def across(self, e: Emitter, running: Sequence[Operand]) -> list[Operand]:
        return [e.lane_reduce(f"{self.opcode}_fast", running[0]), *self.flags.across(e, running[1:])]

    def finish(self, e: Emitter, running: Sequence[Operand], inits: Sequence[Operand]) -> list[Operand]:
        return _extreme(e, self, self.partial(e, running), inits[0])

    def partial(self, e: Emitter, running: Sequence[Operand]) -> Operand:
        return self.flags.settle(e, running[0], running[1:])


class Watched(Accumulator):
    """max or min along the lanes of a pass that is cheap to repeat: the extreme without NaN, and a sum of all terms.

    A sum that is no NaN has met no NaN, and an extreme other than zero has no sign to settle; in the rare other
    case a second pass collects the `Flags`.
    """

    def __init__(self, reduction: Reduction, opcode: str, again: Callable[[Operand], Operand]) -> None:
        super().__init__(reduction)
        self.opcode = opcode
        self.dtype = accumulation_dtype(reduction.nodes[0].dtype)
        self.again = again

    def start(self, e: Emitter) -> list[Operand]:
        return [identity(self.opcode, self.dtype), identity("add", self.dtype)]

    def step(self, e: Emitter, running: Sequence[Operand], terms: Sequence[Operand]) -> list[Operand]:
        x = e.cast(terms[0], self.dtype)
        return [e.compute(f"{self.opcode}_fast", x, running[0]), e.compute("add", running[1], x)]

    def merge(self, e: Emitter, x: Sequence[Operand], y: Sequence[Operand]) -> list[Operand]:
        return [e.compute(f"{self.opcode}_fast", x[0], y[0]), e.compute("add", x[1], y[1])]

    def across(self, e: Emitter, running: Sequence[Operand]) -> list[Operand]:
        value, total = running
        return [
            e.lane_reduce(f"{self.opcode}_fast", value),
            e.lane_reduce("or", e.compute("ne", total, total)),
        ]

    def finish(self, e: Emitter, running: Sequence[Operand], inits: Sequence[Operand]) -> list[Operand]:
        value, may_be_nan = running
        plain = e.compute("and", e.compute("not", may_be_nan), e.compute("ne", value, 0.0))
        (settled,) = e.if_(plain, lambda: (value,), lambda: (self.again(value),))
        return _extreme(e, self, settled, inits[0])


def _extreme(e: Emitter, a: Extreme | Watched, value: Operand, init: Operand) -> list[Operand]:
    """The extreme of a value and the initial one, in the dtype of the result."""
    if init != identity(a.opcode, init.dtype):
        value = e.compute(a.opcode, e.cast(init, a.dtype), value)
    return [e.cast(value, init.dtype)]


class General(Accumulator):
    """Any reducer over any number of operands, its region written out at each step.

    Lanes stay apart, as a reducer need not commute; one that picks the better of two may be met in any order.
    """

    def __init__(self, reduction: Reduction) -> None:
        super().__init__(reduction)
        assert reduction.region is not None, "a dot has its own accumulator"
        self.region = reduction.region
        if reduction.picks_one is None:
            reduction.picks_one = picks_either(reduction.region)
        self.crosses = reduction.picks_one

    def start(self, e: Emitter) -> list[Operand]:
        return [e.at(x, ()) for x in self.reduction.inits]

    def step(self, e: Emitter, running: Sequence[Operand], terms: Sequence[Operand]) -> list[Operand]:
        return e.inline(self.region, [*running, *terms])

    def across(self, e: Emitter, running: Sequence[Operand]) -> list[Operand]:
        reach = e.lanes // 2
        values = list(running)
        while reach:
            moved = [e.lane_shift(v, reach, 0) for v in values]
            values = e.inline(self.region, [*moved, *values])
            reach //= 2
        return [e.extract(v, e.lanes - 1) for v in values]  # the last lane has met all others

    def finish(self, e: Emitter, running: Sequence[Operand], inits: Sequence[Operand]) -> list[Operand]:
        return list(running)


def accumulator(reduction: Reduction) -> Accumulator:
    if reduction.is_dot:
        return Product(reduction)
    opcode = reducer_opcode(reduction.region)
    if opcode is None:
        return General(reduction)
    dtype = reduction.nodes[0].dtype
    if opcode in ("max", "min") and is_float(dtype):
        return Extreme(reduction, opcode)
    return Monoid(reduction, opcode)


def _combine(e: Emitter, opcode: str, x: Operand, y: Operand) -> Operand:
    return e.compute(bool_opcode(opcode, x.dtype), x, y)


# Writing them -------------------------------------------------------------------------------------


def reduce_at(e: Emitter, node: Node, index: Index) -> Operand:
    """The value of a reduction's result at an index; its companions become known too."""
    reduction = node.reduction
    assert reduction is not None, "reduce_at is for reduce and dot"
    with e.at_depth(max((i.depth for i in index), default=0)):
        for companion, values in Pass(e, _companions(e, reduction, index), index).watch().run():
            for result, value in zip(companion.nodes, values, strict=True):
                e.remember(result, index, value)
        found = e.at(node, index)
    return found


def _companions(e: Emitter, reduction: Reduction, index: Index) -> list[Reduction]:
    """Reductions over the same axes at the same level, not known yet at this index."""
    first = reduction.nodes[0]
    return [
        other
        for other in e.graph.reductions
        if other is reduction
        or (
            other.level == reduction.level
            and other.classes == reduction.classes
            and other.nodes[0].classes == first.classes
            and accumulator(other).crosses == accumulator(reduction).crosses
            and e.known(other.nodes[0], index) is None
        )
    ]


def _is_light(reduction: Reduction) -> bool:
    """Whether what is reduced is read, or a few operations on what is read."""
    work = list(reduction.inputs)
    operations = 0
    while work:
        node = work.pop()
        if node.kind not in ("parameter", "constant", "move", "elementwise"):
            return False
        operations += 1 + flops_per_element(node)
        if operations > LIGHT:
            return False
        work.extend(node.operands)
    return True


class Pass:
    """One pass over the reduced axes for some reductions at one index."""

    def __init__(
        self,
        e: Emitter,
        reductions: list[Reduction],
        index: Index,
        part: tuple[int, Operand, Operand, int] | None = None,
    ) -> None:
        self.e = e
        self.part = part
        self.reductions = reductions
        self.index = index
        self.accumulators = [accumulator(r) for r in reductions]
        self.sizes = reductions[0].sizes
        self.general = not all(a.crosses for a in self.accumulators)
        self.sequential = e.lanes_at is not None or self.general
        self.varying = e.lanes_at is not None
        self.reassociates = any(a.reassociates for a in self.accumulators) and not self.general
        self.lane_axis = -1 if self.sequential or not self.sizes else self._lane_axis()
        order = [i for i in range(len(self.sizes)) if i != self.lane_axis]
        self.order = [*order, self.lane_axis] if self.lane_axis >= 0 else order
        self.position: list[Affine] = [Affine(0)] * len(self.sizes)

    def watch(self) -> Pass:
        """The same pass, with a maximum or minimum that is cheap to take again settled only where it must be."""
        (a, *others) = self.accumulators
        if not others and isinstance(a, Extreme) and self.lane_axis >= 0 and _is_light(a.reduction):
            self.accumulators = [Watched(a.reduction, a.opcode, self._again)]
        return self

    def _again(self, value: Operand) -> Operand:
        (watched,) = self.accumulators
        assert isinstance(watched, Watched), "only it asks"
        flags = Flags(watched.reduction, watched.opcode)
        second = Pass(self.e, self.reductions, self.index)
        second.accumulators = [flags]
        (running,) = second.running()
        return flags.settle(self.e, value, running)

    def _lane_axis(self) -> int:
        """The reduced axis along which most inputs lie in memory; a short one only if there is no other."""
        reduction = self.reductions[0]

        def worth(k: int) -> tuple[int, int, int]:
            last = sum(
                1 for x, p in zip(reduction.inputs, reduction.picks, strict=True) if p and p[-1] == ("k", k)
            )
            return (min(self.sizes[k], self.e.lanes), last, k)

        return max(range(len(self.sizes)), key=worth)

    def run(self) -> list[tuple[Reduction, list[Operand]]]:
        """The finished values of every reduction."""
        e = self.e
        results = []
        for r, a, mine in zip(self.reductions, self.accumulators, self.running(), strict=True):
            results.append((r, a.finish(e, mine, [e.at(x, ()) for x in r.inits])))
        return results

    def running(self) -> list[Sequence[Operand]]:
        """The running values after the last term, lanes combined, without the initial values."""
        e = self.e
        if self.lane_axis >= 0 or self.varying:
            running = [splat(e, o) for o in self._start()]
        else:
            running = self._start()
        parts = self._parts(self._axes(0, running))
        if self.lane_axis < 0:
            return parts
        return [a.across(e, mine) for a, mine in zip(self.accumulators, parts, strict=True)]

    # Running values of all accumulators travel as one flat list.

    def _start(self) -> list[Operand]:
        return [o for a in self.accumulators for o in a.start(self.e)]

    def _parts(self, flat: Sequence[Operand]) -> list[Sequence[Operand]]:
        parts, first = [], 0
        for a in self.accumulators:
            count = len(a.start(self.e))
            parts.append(flat[first : first + count])
            first += count
        return parts

    def _merge(self, x: Sequence[Operand], y: Sequence[Operand]) -> list[Operand]:
        pairs = zip(self.accumulators, self._parts(x), self._parts(y), strict=True)
        return [o for a, p, q in pairs for o in a.merge(self.e, p, q)]

    def _axes(self, depth: int, running: Sequence[Operand]) -> list[Operand]:
        """Accumulate over the axes from `depth` inwards."""
        if depth == len(self.order):
            return self._step(running)
        axis = self.order[depth]
        size = self.sizes[axis]
        lanes = axis == self.lane_axis
        with self.e.sweeping(size) as sweep:
            short = size <= UNROLLED and depth == len(self.order) - 1
            if short and not lanes and self.part is None:
                return self._written_out(axis, range(size), Affine(0), running)

            def body(base: Operand, *carried: Operand) -> Sequence[Operand]:
                return self._at(axis, depth, base, size, sweep, carried)

            step = self.e.lanes if lanes else self._tree_width(size, depth)
            if self.part is not None and axis == self.part[0]:
                _, start, stop, most = self.part
                return self._chain(start, stop, step, -(-most // step), running, body)
            return self._chain(0, size, step, -(-size // step), running, body)

    def _tree_width(self, size: int, depth: int) -> int:
        """How many terms of a sequential float sum are added as a tree before they meet the chain."""
        light = all(x.kind == "parameter" for r in self.reductions for x in r.inputs)
        innermost = depth == len(self.order) - 1
        return UNROLLED if light and innermost and self.reassociates and size % UNROLLED == 0 else 1

    def _chain(
        self,
        start: Operand | int,
        stop: Operand | int,
        step: int,
        trips: int,
        running: Sequence[Operand],
        body: Callable[..., Sequence[Operand]],
    ) -> list[Operand]:
        """A loop; a long one whose partial results may be merged becomes chains of chains."""
        e = self.e
        flags = [o.varying or self.lane_axis >= 0 or self.varying for o in running]
        longest = min(a.chain for a in self.accumulators)
        if trips <= longest or not self.reassociates:
            return list(e.sweep(start, stop, step, running, body, flags))
        inner = longest
        while inner * longest < trips:
            inner *= longest

        def block(first: Operand, *carried: Operand) -> Sequence[Operand]:
            last = e.compute("min", e.compute("add", first, inner * step), e.lift(stop, I64))
            fresh = [splat(e, o) if f else o for o, f in zip(self._start(), flags, strict=True)]
            return self._merge(carried, self._chain(first, last, step, inner, fresh, body))

        return list(e.sweep(start, stop, inner * step, running, block, flags))

    def _at(
        self, axis: int, depth: int, base: Operand, size: int, sweep: Sweep, carried: Sequence[Operand]
    ) -> list[Operand]:
        e = self.e
        if axis == self.lane_axis:
            self.position[axis], lanes = e.lane_index(base, size, sweep)
            with e.in_lanes(lanes):
                stepped = self._axes(depth + 1, carried)
                if lanes.mask is None:
                    return stepped
                return [
                    e.compute("select", lanes.mask, new, old)
                    for new, old in zip(stepped, carried, strict=True)
                ]
        width = self._tree_width(size, depth)
        index = e.index_of(base, size - width + 1, sweep)
        if width > 1:
            return self._written_out(axis, range(width), index, carried)
        self.position[axis] = index
        if depth + 1 == len(self.order) or not self.reassociates:
            return self._axes(depth + 1, carried)
        return self._merge(carried, self._axes(depth + 1, self._fresh(carried)))

    def _fresh(self, like: Sequence[Operand]) -> list[Operand]:
        return [splat(self.e, o) if x.varying else o for o, x in zip(self._start(), like, strict=True)]

    def _written_out(
        self, axis: int, offsets: range, base: Affine, running: Sequence[Operand]
    ) -> list[Operand]:
        """Terms one after another in the code; sums as a balanced tree."""
        totals: list[list[Operand]] = []
        carried = list(running)
        for k in offsets:
            self.position[axis] = base.plus(k)
            if self.reassociates:
                totals.append(self._step(None))
            else:
                carried = self._step(carried)
        while len(totals) > 1:
            pairs = [self._merge(x, y) for x, y in zip(totals[::2], totals[1::2], strict=False)]
            totals = [*pairs, *totals[len(pairs) * 2 :]]
        return self._merge(carried, totals[0]) if totals else carried

    def _step(self, running: Sequence[Operand] | None) -> list[Operand]:
        """Take in the terms at the current position, or begin with them."""
        out: list[Operand] = []
        parts = self._parts(self._start() if running is None else running)
        for r, a, mine in zip(self.reductions, self.accumulators, parts, strict=True):
            terms = [self.e.at(x, self._index(p)) for x, p in zip(r.inputs, r.picks, strict=True)]
            out.extend(a.first(self.e, terms) if running is None else a.step(self.e, mine, terms))
        return out

    def _index(self, picks: Sequence[tuple[str, int]]) -> Index:
        return tuple(self.index[j] if role == "r" else self.position[j] for role, j in picks)
