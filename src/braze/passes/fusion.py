"""fusion: every computing instruction becomes part of a `braze.fusion`, which becomes one kernel.

It walks each region once, from its end: an instruction joins the kernel of its consumers where the rules of
`clusters` allow, or begins its own. Then small kernels that do not need each other are put together. What
computes nothing stays outside: constants, control flow, calls, and reshapes, which only rename memory.

Each candidate edge, a producer and the kernel of a consumer, leaves a `Decision`.

Invariants:
- The result computes the same values: no instruction is dropped, an instruction may be copied into several
  kernels only if it has no effects.
- No rule knows the name of a pattern: operations count by what their records say of them.
- Time is linear in the size of the region; walks do not recurse but into nested regions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from braze.hlo.axes import Cuts, folds, is_contraction, repeats
from braze.hlo.ir import Function, Instruction, Module, Region, Value, walk
from braze.ops.fusion import fusion_hlo
from braze.ops.table import Axes, Contraction, Immediate, IndexMap, Regroup, Update
from braze.passes.clusters import (
    EXPENSIVE,
    MOST_OPERATIONS,
    Cluster,
    absorb,
    axes_of,
    begin,
    gather,
    is_splat,
    join,
    judge,
    union,
    writes_in_place,
)
from braze.passes.log import Decision, Log
from braze.target import Target

GENERIC = Target("cpu")
"""A CPU with nothing known about it, for those who ask for the pass alone."""
REACH_BUDGET = 128
"""Instructions looked at before a path between two kernels is taken for granted."""
MOST_COPIES = 4
"""Kernels that a cheap producer is copied into rather than kept in memory."""
MOST_UNITED = 8
"""Kernels with a common input that are compared with each other."""
SMALL_KERNEL = 16 << 10
"""Kernels that move no more bytes are put together: starting them costs as much as running them."""
MOST_BUFFERS = 256
"""Operands and results of a kernel that was put together."""


def fusion(module: Module, *, target: Target = GENERIC, log: Log | None = None) -> Module:
    """Group the computing instructions of every function into fusions.

    Every decision goes to the log, and each instruction or kernel that joins another counts as a rewrite there.
    """
    log = Log() if log is None else log
    functions = {}
    for name, function in module.functions.items():
        region = _fused_region(function.region, {}, target, log)
        functions[name] = Function(
            name, region, function.public, function.parameter_attrs, function.result_attrs
        )
    fused = Module(functions, module.name, module.attrs)
    made = any(i.op is fusion_hlo for f in functions.values() for i in walk(f.region))
    return fused if made else module


def _fused_region(region: Region, outer: dict[Value, Value], target: Target, log: Log) -> Region:
    """A region with fusions; `outer` maps the values it captures."""
    plan = _Plan(region, target, log)
    plan.run()
    values = dict(outer)
    made: list[Instruction] = []
    for unit in plan.order():
        if isinstance(unit, Cluster):
            made.append(_fusion_of(unit, region, plan, values))
        else:
            made.append(_outside(unit, values, target, log))
    results = [values.get(v, v) for v in region.results]
    return Region(region.parameters, _without_immediates(made, results), results)


def _without_immediates(instructions: list[Instruction], results: Sequence[Value]) -> list[Instruction]:
    """What is left without the constants that kernels, here or in nested regions, have as immediates."""
    needed = {*results, *[v for i in instructions for v in _read_by(i)]}
    return [i for i in instructions if not isinstance(i.op.kernel, Immediate) or i.result in needed]


def _outside(instruction: Instruction, values: dict[Value, Value], target: Target, log: Log) -> Instruction:
    """An instruction that stays outside, its own regions fused."""
    if instruction.captures:
        regions = [_fused_region(r, values, target, log) for r in instruction.regions]
    else:
        regions = list(instruction.regions)
    made = Instruction(
        instruction.op,
        [values.get(v, v) for v in instruction.operands],
        [r.type for r in instruction.results],
        instruction.attrs,
        regions,
        instruction.source,
    )
    values.update(zip(instruction.results, made.results, strict=True))
    return made


def _fusion_of(cluster: Cluster, region: Region, plan: _Plan, values: dict[Value, Value]) -> Instruction:
    """A cluster as a `braze.fusion` of a closed region."""
    inner: dict[Value, Value] = {}
    operands: list[Value] = []
    parameters: list[Value] = []
    body: list[Instruction] = []
    for position in sorted(cluster.members):
        member = region.instructions[position]
        for v in member.operands:
            if v in inner:
                continue
            if v.producer is not None and is_splat(v.producer):
                constant = _copy(v.producer, inner)
                body.append(constant)
                continue
            parameter = Value(v.type)
            inner[v] = parameter
            operands.append(values.get(v, v))
            parameters.append(parameter)
        body.append(_copy(member, inner))
    results = list(cluster.results)
    attrs: dict[str, object] = {
        "kind": cluster.kind,
        "name": _name(cluster, region),
        "aliases": _aliases(results, inner, parameters),
    }
    last = region.instructions[max(cluster.members)]
    made = Instruction(
        fusion_hlo,
        operands,
        [r.type for r in results],
        attrs,
        (Region(parameters, body, [inner[r] for r in results]),),
        last.source,
    )
    values.update(zip(results, made.results, strict=True))
    return made


def _copy(instruction: Instruction, inner: dict[Value, Value]) -> Instruction:
    made = Instruction(
        instruction.op,
        [inner[v] for v in instruction.operands],
        [r.type for r in instruction.results],
        instruction.attrs,
        instruction.regions,
        instruction.source,
    )
    inner.update(zip(instruction.results, made.results, strict=True))
    return made


def _name(cluster: Cluster, region: Region) -> str:
    """The last operations of the kernel, for people who read its name."""
    titles: list[str] = []
    for position in sorted(cluster.members, reverse=True):
        member = region.instructions[position]
        title = member.op.hlo or ""
        if title not in titles and not repeats(member) and not isinstance(member.op.kernel, Regroup):
            titles.append(title)
    return "_".join(reversed(titles[:3])) or "copy"


def _aliases(
    results: Sequence[Value], inner: dict[Value, Value], parameters: Sequence[Value]
) -> tuple[tuple[int, int], ...]:
    """Results that are updates of an operand which nothing else in the kernel reads."""
    pairs = []
    for k, result in enumerate(results):
        update = inner[result].producer
        if update is not None and isinstance(update.op.kernel, Update) and update.operands[0] in parameters:
            pairs.append((k, parameters.index(update.operands[0])))
    return tuple(pairs)


def is_computed(instruction: Instruction, cuts: Cuts) -> bool:
    """Whether it can be code of a kernel: not control flow, calls, constants, or a reshape across parts."""
    match instruction.op.kernel:
        case Regroup():
            return cuts.is_renaming(instruction)
        case IndexMap() | Axes() | Contraction():
            return True
        case kernel:
            return callable(kernel)


def _read_by(instruction: Instruction) -> Sequence[Value]:
    """Operands, and the values that its regions take from around it."""
    if not instruction.captures:
        return instruction.operands
    found = list(instruction.operands)
    work = list(instruction.regions)
    defined: set[Value] = set()
    used: list[Value] = []
    while work:
        region = work.pop()
        defined.update(region.parameters)
        used.extend(region.results)
        for inner in region.instructions:
            defined.update(inner.results)
            used.extend(inner.operands)
            work.extend(inner.regions)
    found.extend(v for v in used if v not in defined)
    return found


class _Plan:
    """Clusters of one region."""

    def __init__(self, region: Region, target: Target, log: Log) -> None:
        self.region = region
        self.target = target
        self.log = log
        self.instructions = region.instructions
        self.position: dict[Value, int] = {}
        self.users: dict[Value, list[int]] = {}
        self.clusters: dict[int, list[Cluster]] = {}
        self.returned = set(region.results)
        self.all: list[Cluster] = []
        self.cuts = Cuts(self.instructions)
        self.counted: dict[Instruction, int] = {}
        self.merged: dict[Cluster | int, Cluster] = {}
        self.before: dict[Cluster | int, set[Cluster | int]] = {}
        self.next_effect: int | None = None
        self.operands = [_read_by(i) for i in self.instructions]
        self.place_of = {instruction: p for p, instruction in enumerate(self.instructions)}
        for p, instruction in enumerate(self.instructions):
            for result in instruction.results:
                self.position[result] = p
            for v in dict.fromkeys(self.operands[p]):
                self.users.setdefault(v, []).append(p)

    def run(self) -> None:
        for p in range(len(self.instructions) - 1, -1, -1):
            if is_computed(self.instructions[p], self.cuts):
                self._place(p)
            self._link(p)
        self._share_inputs()
        self._drop_merged()
        self._put_together()
        self._drop_merged()

    def _drop_merged(self) -> None:
        self.all = [c for c in self.all if c not in self.merged]

    # One instruction ------------------------------------------------------------------------------

    def _place(self, p: int) -> None:
        """Let an instruction join its consumers' kernels, or begin one."""
        instruction = self.instructions[p]
        users = sorted({u for r in instruction.results for u in self.users.get(r, ())})
        leaves = any(r in self.returned for r in instruction.results)
        outside = [u for u in users if u not in self.clusters]
        homes = list(dict.fromkeys(c for u in users for c in self.clusters.get(u, ())))
        if writes_in_place(instruction):
            for home in homes:
                self._record(p, home, False, "update", "the operand is updated in place")
            self._begin(p)
            return
        if not homes:
            self._begin(p)
            return
        if len(homes) == 1 and not outside and not leaves:
            if not self._join(p, homes[0], None):
                self._begin(p)
            return
        if not outside and not leaves and self._copy_into(p, homes):
            return
        if folds(instruction):
            return  # It renames memory: a further result of a kernel would be a copy.
        self._share(p, homes, users)

    def _uses(self, values: Sequence[Value], home: Cluster) -> list[tuple[Instruction, int]]:
        """Members of a cluster that read one of the values, and as which operand."""
        uses: list[tuple[Instruction, int]] = []
        for u in sorted({u for r in values for u in self.users.get(r, ())}):
            if home in self.clusters.get(u, ()):
                consumer = self.instructions[u]
                uses.extend((consumer, k) for k, v in enumerate(consumer.operands) if v in values)
        return uses

    def _join(self, p: int, home: Cluster, rule: str | None, saved: int | None = None) -> bool:
        """Ask the rules, record the answer, and join if they allow."""
        instruction = self.instructions[p]
        verdict = judge(home, instruction, self._uses(instruction.results, home), self.target)
        if verdict.fused and rule == "multiple results":
            refusal = self._cannot_leave(home, instruction, verdict.axes)
            if refusal:
                self._record(p, home, False, rule, refusal)
                return False
        if verdict.fused and self.log.exhausted:
            return False
        bytes_ = sum(r.type.nbytes for r in instruction.results)
        traffic = saved if saved is not None else 2 * bytes_
        self._record(p, home, verdict.fused, rule or verdict.rule, verdict.reason, traffic)
        if verdict.fused:
            join(home, instruction, p, verdict)
            self.clusters.setdefault(p, []).append(home)
        return verdict.fused

    def _cannot_leave(self, home: Cluster, instruction: Instruction, axes: tuple[int, ...] | None) -> str:
        """Why a value that others need cannot be a further result of a kernel; empty if it can."""
        shape = self.cuts.shape(instruction.results[0])
        if home.kind == "dot" and shape != home.domain:
            return "the kernel writes tiles of a product"
        if axes is None:
            return "the kernel does not pass over it element by element"
        mine = [a for a in axes if a >= 0]
        if mine == sorted(home.result_axes) or (home.rows is not None and mine == sorted(home.rows)):
            return ""
        return "the kernel passes over other axes"

    def _copy_into(self, p: int, homes: list[Cluster]) -> bool:
        """Copy a cheap producer into each consumer where reading its operands costs no more than its result."""
        instruction = self.instructions[p]
        result = sum(r.type.nbytes for r in instruction.results)
        read = sum(v.type.nbytes for v in dict.fromkeys(instruction.operands) if not _is_free(v))
        operations = homes[0].operations_of(instruction)
        cheap = operations < EXPENSIVE and not is_contraction(instruction)
        free = operations == 0 or not instruction.operands
        if not (
            free or (cheap and len(homes) <= MOST_COPIES and len(homes) * read <= (len(homes) + 1) * result)
        ):
            return False
        verdicts = [judge(h, instruction, self._uses(instruction.results, h), self.target) for h in homes]
        if not all(v.fused for v in verdicts) or self.log.exhausted:
            return False
        for home, verdict in zip(homes, verdicts, strict=True):
            self._record(
                p, home, True, "duplicate", "computing it again costs less than reading it", 2 * result
            )
            join(home, instruction, p, verdict)
            self.clusters.setdefault(p, []).append(home)
        return True

    def _share(self, p: int, homes: list[Cluster], users: list[int]) -> None:
        """Make the value a further result of one consumer's kernel, or begin a kernel for it."""
        instruction = self.instructions[p]
        saved = sum(r.type.nbytes for r in instruction.results)
        homes = self._united(instruction.results, homes)
        units = list(dict.fromkeys(unit for u in users for unit in self._units(u)))
        if units == homes and len(homes) == 1 and not any(r in self.returned for r in instruction.results):
            if not self._join(p, homes[0], None):
                self._begin(p)
            return
        for home in sorted(homes, key=lambda c: c.first):
            if any(self._reaches(unit, home) for unit in units if unit is not home):
                self._record(p, home, False, "multiple results", "another user of it comes before the kernel")
                continue
            if self._join(p, home, "multiple results", saved):
                for result in instruction.results:
                    home.results[result] = None
                return
        self._begin(p)

    def _united(self, values: Sequence[Value], homes: list[Cluster]) -> list[Cluster]:
        """Merge kernels that read the same values over the same axes, where neither needs the other."""
        left = sorted(homes, key=lambda c: (-len(c.result_axes), c.first))[:MOST_UNITED]
        merged: list[Cluster] = []
        for cluster in left:
            for home in merged:
                mine, theirs = (axes_of(c, self._uses(values, c)) for c in (home, cluster))
                axes = union(home, cluster, mine, theirs, self.target)
                if axes is None or self.log.exhausted or self._ordered(home, cluster):
                    continue
                saved = sum(v.type.nbytes for v in values)
                self._record(
                    cluster.members[0], home, True, "shared input", "both pass over the same values", saved
                )
                absorb(home, cluster, axes)
                self._retire(cluster, home)
                break
            else:
                merged.append(cluster)
        return merged + [c for c in homes if c not in left]

    def _ordered(self, x: Cluster, y: Cluster) -> bool:
        """Whether one of two kernels needs the other."""
        return self._reaches(x, y) or self._reaches(y, x)

    def _share_inputs(self) -> None:
        """Merge kernels that read the same large value, which none of them computes."""
        for v, users in self.users.items():
            if len(users) < 2 or v.type.nbytes <= SMALL_KERNEL:
                continue
            inside = self.clusters.get(self.position.get(v, -1), ())
            homes = list(dict.fromkeys(c for u in users for c in self.clusters.get(u, ()) if c not in inside))
            if len(homes) > 1:
                self._united((v,), homes)

    def _begin(self, p: int) -> None:
        instruction = self.instructions[p]
        if folds(instruction):
            return  # Outside it only renames memory.
        cluster = begin(len(self.all), instruction, p, self.cuts, self.counted)
        self.all.append(cluster)
        self.clusters[p] = [cluster]

    # Order ----------------------------------------------------------------------------------------

    def _reaches(self, start: Cluster | int, home: Cluster) -> bool:
        """Whether a kernel or instruction must run before another kernel; yes if it takes long to tell.

        It walks upwards from `home` over what is placed already. That is everything behind the instruction
        at hand, of which an early kernel needs little.
        """
        seen: set[Cluster | int] = set()
        work: list[Cluster | int] = [home]
        while work:
            unit = self._current(work.pop())
            if unit == start:
                return True
            if unit in seen:
                continue
            seen.add(unit)
            if len(seen) > REACH_BUDGET:
                return True
            work.extend(self.before.get(unit, ()))
        return False

    def _current(self, unit: Cluster | int) -> Cluster | int:
        """The kernel that a merged kernel has become part of."""
        while unit in self.merged:
            unit = self.merged[unit]
        return unit

    def _link(self, p: int) -> None:
        """Record what comes after a placed instruction: its users, and after an effect the next effect."""
        makers = self._units(p)
        for u in {u for r in self.instructions[p].results for u in self.users.get(r, ())}:
            for unit in self._units(u):
                if unit not in makers:
                    self.before.setdefault(unit, set()).update(makers)
        if self.instructions[p].has_effects:
            if self.next_effect is not None:
                self.before.setdefault(self.next_effect, set()).add(p)
            self.next_effect = p

    def _units(self, p: int) -> Sequence[Cluster | int]:
        """The kernels that compute an instruction, or the instruction where it is outside of them."""
        return self.clusters.get(p) or (p,)

    def order(self) -> Iterable[Cluster | Instruction]:
        """Clusters and the instructions outside them, each after what it needs."""
        units: list[Cluster | int] = [*self.all]
        units.extend(p for p in range(len(self.instructions)) if p not in self.clusters)
        makers: dict[int, Cluster | int] = {p: p for p in units if isinstance(p, int)}
        owner: dict[Value, Cluster | int] = {r: c for c in self.all for r in c.results}
        waiting: dict[Cluster | int, int] = {}
        next_: dict[Cluster | int, list[Cluster | int]] = {}
        effect: Cluster | int | None = None
        for unit in units:
            needs = self._needs(unit, owner, makers)
            if isinstance(unit, int) and self.instructions[unit].has_effects:
                if effect is not None:
                    needs.add(effect)
                effect = unit
            waiting[unit] = len(needs)
            for need in needs:
                next_.setdefault(need, []).append(unit)
        ready = [(_rank(u), u if isinstance(u, int) else u.number, u) for u in units if not waiting[u]]
        heapq.heapify(ready)
        done = 0
        while ready:
            _, _, unit = heapq.heappop(ready)
            done += 1
            yield unit if isinstance(unit, Cluster) else self.instructions[unit]
            for later in next_.get(unit, ()):
                waiting[later] -= 1
                if not waiting[later]:
                    number = later if isinstance(later, int) else later.number
                    heapq.heappush(ready, (_rank(later), number, later))
        assert done == len(units), "kernels need each other in a circle"

    def _needs(
        self, unit: Cluster | int, owner: dict[Value, Cluster | int], makers: dict[int, Cluster | int]
    ) -> set[Cluster | int]:
        members = unit.members if isinstance(unit, Cluster) else (unit,)
        own = {r for m in members for r in self.instructions[m].results}
        needs: set[Cluster | int] = set()
        for m in members:
            for v in self.operands[m]:
                if v in own or v not in self.position:
                    continue
                needs.add(owner[v] if v in owner else makers[self.position[v]])
        return needs

    # Small kernels --------------------------------------------------------------------------------

    def _put_together(self) -> None:
        """Merge small kernels at the same level, which cannot need each other."""
        levels: dict[Cluster | int, int] = {}
        groups: dict[int, list[Cluster]] = {}
        effects = 0
        for unit in self.order():
            key: Cluster | int = unit if isinstance(unit, Cluster) else self.place_of[unit]
            members = key.members if isinstance(key, Cluster) else (key,)
            level = effects if isinstance(unit, Instruction) and unit.has_effects else 0
            for m in members:
                for v in self.operands[m]:
                    p = self.position.get(v)
                    if p is None:
                        continue
                    for maker in self._units(p):
                        if maker is not key and (not isinstance(maker, Cluster) or v in maker.results):
                            level = max(level, levels[maker] + 1)
            levels[key] = level
            if isinstance(unit, Instruction) and unit.has_effects:
                effects = level + 1
            if isinstance(key, Cluster) and self._is_small(key):
                groups.setdefault(level, []).append(key)
        for group in groups.values():
            self._merge(group)

    def _traffic(self, cluster: Cluster) -> int:
        members = set(cluster.members)
        read = {
            v: v.type.nbytes
            for m in members
            for v in self.operands[m]
            if self.position.get(v, -1) not in members
        }
        return sum(read.values()) + sum(v.type.nbytes for v in cluster.results)

    def _is_small(self, cluster: Cluster) -> bool:
        return cluster.kind != "dot" and self._traffic(cluster) <= SMALL_KERNEL

    def _merge(self, group: list[Cluster]) -> None:
        home: Cluster | None = None
        buffers = 0
        for cluster in group:
            mine = len(cluster.results) + len({v for m in cluster.members for v in self.operands[m]})
            full = home is not None and (
                home.operations + cluster.operations > MOST_OPERATIONS
                or buffers + mine > MOST_BUFFERS
                or (home.kind != "update" and cluster.kind == "update")
                or (home.kind == "update" and cluster.kind != "update")
                or self._overwrites(home, cluster)
                or self._overwrites(cluster, home)
            )
            if home is None or full or self.log.exhausted:
                home, buffers = cluster, mine
                continue
            self._record(
                cluster.members[0],
                home,
                True,
                "small kernels",
                "one start instead of two; they do not need each other",
            )
            gather(home, cluster)
            buffers += mine
            self._retire(cluster, home)

    def _retire(self, cluster: Cluster, home: Cluster) -> None:
        """Say everywhere that one cluster has become part of another."""
        for m in cluster.members:
            self.clusters[m] = list(dict.fromkeys(home if c is cluster else c for c in self.clusters[m]))
        self.merged[cluster] = home
        self.before.setdefault(home, set()).update(self.before.pop(cluster, ()))

    def _overwrites(self, writer: Cluster, reader: Cluster) -> bool:
        """Whether one kernel would write in place what the other reads."""
        return any(v in writer.updated for m in reader.members for v in self.operands[m])

    def _record(self, p: int, home: Cluster, fused: bool, rule: str, reason: str, saved: int = 0) -> None:
        producer = self.instructions[p]
        consumer = self.instructions[home.last]
        if fused:
            self.log.count("fusion")
        self.log.decisions.append(
            Decision(
                producer=producer.op.hlo or producer.op.title,
                consumer=consumer.op.hlo or consumer.op.title,
                fused=fused,
                bytes_saved=saved if fused else 0,
                source=producer.source,
                rule=rule,
                reason=reason,
            )
        )


def _rank(unit: Cluster | int) -> int:
    return unit.last if isinstance(unit, Cluster) else unit


def _is_free(v: Value) -> bool:
    """Whether reading it costs nothing: scalars and constants of one value."""
    return v.type.size == 1 or (v.producer is not None and is_splat(v.producer))
