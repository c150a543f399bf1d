"""Rules of the kernel IR: `check` collects every fault of a kernel and shows them in its listing.

- V1 single assignment, and definition before use; what a block defines is not seen outside it.
- V2 varying values live inside one region; uniform results come from uniform operands.
- V3 opcodes have their number of operands, of dtypes that they take, and the result dtype that follows.
- V4 memories are declared; `in` is not written, `out` of the launch may be read only after a write of its
  own, which is not checked; indices are integers; masks are bool.
- V5 uniform accesses touch one element: value and mask are uniform there, private memory excepted.
- V6 blocks yield as many values as they carry, of the same dtypes; a uniform place takes a uniform value.
- V7 lanes are a power of two; sizes, grid and costs are not negative; names are unique.
- V8 results do not depend on the order of blocks: several blocks do not add or multiply floats atomically.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from braze.dtypes import ALL, BOOL, COMPLEX, FLOATS, HALVES, I64, INTEGERS, DType, short
from braze.errors import VerificationError
from braze.kernel.halves import KEPT
from braze.kernel.ir import (
    OPCODES,
    Atomic,
    Call,
    Compute,
    Constant,
    Extract,
    For,
    If,
    Kernel,
    LaneReduce,
    LaneShift,
    Load,
    Memory,
    Operand,
    Region,
    Statement,
    Store,
    Value,
    While,
)
from braze.kernel.text import print_kernel

REDUCERS = ("add", "mul", "min", "max", "and", "or", "xor")
LANE_REDUCERS = (*REDUCERS, "min_fast", "max_fast")
ELEMENTS = tuple(dtype for dtype in ALL if dtype not in COMPLEX)
_NAME = re.compile(r"[A-Za-z_][\w.$]*")


def check(kernel: Kernel) -> None:
    """Raise VerificationError with the kernel's listing and all faults in it, if there are any."""
    checker = _Checker(kernel)
    checker.run()
    if checker.count == 0:
        return
    head = "".join(f"# {fault}\n" for fault in checker.general)
    listing = print_kernel(kernel, checker.notes)
    number = "one fault" if checker.count == 1 else f"{checker.count} faults"
    raise VerificationError(
        f"kernel {kernel.name}: it breaks rules of the kernel IR, {number}.\n{head}{listing}"
    )


def takes(opcode: str, dtype: DType) -> bool:
    """Whether an opcode is defined on operands of a dtype; halves are stored, not computed with."""
    if dtype in HALVES:
        return opcode in KEPT or opcode == "cast"
    return {
        "any": dtype in ELEMENTS,
        "number": dtype in INTEGERS or dtype in FLOATS,
        "integer": dtype in INTEGERS,
        "float": dtype in FLOATS,
        "bits": dtype in INTEGERS or dtype == BOOL,
        "bool": dtype == BOOL,
    }[OPCODES[opcode].operands]


class _Checker:
    """Walks a kernel. `scopes` are the values that each open block defined, `regions` how many are open."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.memories = {*kernel.parameters, *kernel.scratch}
        self.defined: set[Value] = set()
        self.scopes: list[set[Value]] = []
        self.regions = 0
        self.at: Statement | None = None
        self.notes: dict[int, list[str]] = {}
        self.general: list[str] = []
        self.count = 0

    def run(self) -> None:
        kernel = self.kernel
        self.expect(kernel.lanes > 0 and kernel.lanes & (kernel.lanes - 1) == 0,
                    "V7", f"{kernel.lanes} lanes are no power of two")  # fmt: skip
        self.expect(kernel.grid >= 0, "V7", f"the grid has {kernel.grid} blocks")
        self.expect(bool(_NAME.fullmatch(kernel.name)), "V7", f"{kernel.name!r} is no name of a symbol")
        names = [m.name for m in (*kernel.parameters, *kernel.scratch)]
        for name in sorted({n for n in names if names.count(n) > 1}):
            self.expect(False, "V7", f"two memories have the name {name}")
        for memory in (*kernel.parameters, *kernel.scratch):
            self.memory(memory)
        self.scopes.append(set())
        self.define(kernel.block)
        self.expect(
            kernel.block.dtype == I64 and not kernel.block.varying, "V7", "the block is no uniform i64"
        )
        self.block(kernel.body)

    def memory(self, memory: Memory) -> None:
        parameter = memory in self.kernel.parameters
        self.expect(memory.is_parameter == parameter, "V7", f"{memory.name} is listed with the wrong kind")
        self.expect(memory.size >= 0, "V7", f"{memory.name} has {memory.size} elements")
        self.expect(memory.dtype in ELEMENTS, "V7", f"{memory.name} holds {memory.dtype}")

    # Faults ---------------------------------------------------------------------------------------

    def expect(self, holds: bool, rule: str, message: str) -> bool:
        if not holds:
            self.count += 1
            fault = f"{rule}: {message}"
            place = self.general if self.at is None else self.notes.setdefault(id(self.at), [])
            place.append(fault)
        return holds

    # Values ---------------------------------------------------------------------------------------

    def define(self, value: Value) -> None:
        self.expect(value not in self.defined, "V1", "a result is defined twice")
        self.expect(value.dtype in ELEMENTS, "V3", f"a result has the dtype {value.dtype}")
        self.expect(
            not value.varying or self.regions > 0, "V2", "a varying value stands outside every region"
        )
        self.defined.add(value)
        self.scopes[-1].add(value)

    def use(self, operand: Operand, what: str) -> None:
        if isinstance(operand, Constant):
            self.expect(operand.dtype in ELEMENTS and 0 <= operand.bits < 1 << 8 * operand.dtype.itemsize,
                        "V3", f"{what} is no immediate of its dtype")  # fmt: skip
        else:
            known = any(operand in scope for scope in self.scopes)
            self.expect(known, "V1", f"{what} is used where it is not defined")

    def typed(self, operand: Operand, dtype: DType, what: str) -> None:
        self.use(operand, what)
        self.expect(operand.dtype == dtype, "V3", f"{what} is {short(operand.dtype)}, not {short(dtype)}")

    def uniform(self, operand: Operand, what: str) -> None:
        self.expect(not operand.varying, "V2", f"{what} varies from lane to lane")

    def _compute(self, s: Compute) -> None:
        spec = OPCODES.get(s.opcode)
        for i, operand in enumerate(s.operands):
            self.use(operand, f"operand {i}")
        if spec is None:
            self.expect(False, "V3", f"there is no opcode {s.opcode}")
        elif self.expect(len(s.operands) == spec.arity, "V3",
                         f"{s.opcode} takes {spec.arity} operands, not {len(s.operands)}"):  # fmt: skip
            self.signature(s, spec.result)
        if s.opcode not in ("lane", "splat"):
            varying = any(o.varying for o in s.operands)
            self.expect(s.result.varying == varying, "V2",
                        f"the result is {_vary(s.result)}, the operands make it {_vary(varying)}")  # fmt: skip
        else:
            self.expect(s.result.varying, "V2", f"the result of {s.opcode} is uniform")
        self.define(s.result)

    def signature(self, s: Compute, result: str) -> None:
        operands = s.operands
        if s.opcode == "select":
            self.typed(operands[0], BOOL, "operand 0")
            operands = operands[1:]
        dtypes = [o.dtype for o in operands]
        self.expect(len(set(dtypes)) <= 1, "V3", f"operands mix {', '.join(map(short, dtypes))}")
        if not dtypes:
            self.expect(s.result.dtype in INTEGERS, "V3", f"{s.opcode} gives {short(s.result.dtype)}")
            return
        self.expect(takes(s.opcode, dtypes[0]), "V3", f"{s.opcode} does not take {short(dtypes[0])}")
        given, wanted = s.result.dtype, BOOL if result == "bool" else dtypes[0]
        if result != "given":
            self.expect(given == wanted, "V3", f"the result is {short(given)}, not {short(wanted)}")
        elif s.opcode == "bitcast":
            fits = BOOL not in (given, dtypes[0]) and given.itemsize == dtypes[0].itemsize
            self.expect(fits or given == dtypes[0], "V3",
                        f"{short(dtypes[0])} has not the bits of {short(given)}")  # fmt: skip
        elif s.opcode == "cast_fast":
            self.expect(given in INTEGERS, "V3", f"cast_fast gives {short(given)}")

    # Memory ---------------------------------------------------------------------------------------

    def place(self, s: Load | Store | Atomic, access: str) -> bool:
        """The parts that all accesses have; whether it touches one element."""
        self.expect(s.memory in self.memories, "V4", f"the kernel does not declare {s.memory.name}")
        self.use(s.index, "the index")
        self.expect(s.index.dtype in INTEGERS, "V4", f"the index is {short(s.index.dtype)}")
        self.expect(access in ("uniform", "unit", "gather"), "V4", f"{access!r} is no kind of access")
        if access != "gather":
            self.uniform(s.index, f"the index of a {access} access")
        if s.mask is not None:
            self.typed(s.mask, BOOL, "the mask")
        single = access == "uniform" and s.memory.space != "private"
        if single and s.mask is not None:
            self.expect(not s.mask.varying, "V5", "the mask of a uniform access varies from lane to lane")
        self.expect(single or self.regions > 0, "V2", f"a {access} access stands outside every region")
        return single

    def _load(self, s: Load) -> None:
        single = self.place(s, s.access)
        self.expect(s.result.dtype == s.memory.dtype, "V3",
                    f"the result is {short(s.result.dtype)}, the memory {short(s.memory.dtype)}")  # fmt: skip
        self.expect(s.result.varying != single, "V5", f"the result is {_vary(s.result)}")
        if s.other is not None:
            self.typed(s.other, s.memory.dtype, "the value of masked lanes")
            self.expect(s.mask is not None, "V4", "masked lanes have a value, but there is no mask")
            if single:
                self.uniform(s.other, "the value of masked lanes")
        self.define(s.result)

    def written(self, memory: Memory) -> None:
        self.expect(memory.space != "in", "V4", f"{memory.name} is an input and is written")

    def _store(self, s: Store) -> None:
        single = self.place(s, s.access)
        self.typed(s.value, s.memory.dtype, "the stored value")
        if single:
            self.expect(not s.value.varying, "V5", "a uniform access stores a value that varies")
        if s.streams:
            whole = s.access == "unit" and s.memory.space == "out"
            self.expect(whole, "V4", f"a {s.access} store to {s.memory.space} memory streams")
        self.written(s.memory)

    def _atomic(self, s: Atomic) -> None:
        self.place(s, "gather")
        self.typed(s.value, s.memory.dtype, "the value")
        known = s.opcode in REDUCERS
        self.expect(known and takes(s.opcode, s.memory.dtype), "V3",
                    f"no atomic {s.opcode} on {short(s.memory.dtype)}")  # fmt: skip
        rounds = s.opcode in ("add", "mul") and s.memory.dtype in FLOATS
        self.expect(not rounds or self.kernel.grid <= 1 or s.memory not in self.kernel.parameters, "V8",
                    f"{self.kernel.grid} blocks {s.opcode} {short(s.memory.dtype)} in no stated order")  # fmt: skip
        self.written(s.memory)

    # Lanes ----------------------------------------------------------------------------------------

    def _lane_reduce(self, s: LaneReduce) -> None:
        self.use(s.operand, "the operand")
        known = s.opcode in LANE_REDUCERS
        self.expect(known and takes(s.opcode, s.operand.dtype), "V3",
                    f"no lane_reduce {s.opcode} on {short(s.operand.dtype)}")  # fmt: skip
        self.same(s.result, s.operand)
        self.expect(not s.result.varying, "V2", "the result varies from lane to lane")
        self.inside("lane_reduce")
        self.define(s.result)

    def same(self, result: Value, operand: Operand) -> None:
        self.expect(result.dtype == operand.dtype, "V3",
                    f"the result is {short(result.dtype)}, the operand {short(operand.dtype)}")  # fmt: skip

    def inside(self, what: str) -> None:
        self.expect(self.regions > 0, "V2", f"{what} stands outside every region")

    def _lane_shift(self, s: LaneShift) -> None:
        self.use(s.operand, "the operand")
        self.typed(s.fill, s.operand.dtype, "the fill")
        self.same(s.result, s.operand)
        self.expect(s.result.varying, "V2", "the result is uniform")
        self.inside("lane_shift")
        self.define(s.result)

    def _extract(self, s: Extract) -> None:
        self.use(s.operand, "the operand")
        self.use(s.lane, "the lane")
        self.expect(s.lane.dtype in INTEGERS, "V3", f"the lane is {short(s.lane.dtype)}")
        self.uniform(s.lane, "the lane")
        self.same(s.result, s.operand)
        self.expect(not s.result.varying, "V2", "the result varies from lane to lane")
        self.define(s.result)

    def _call(self, s: Call) -> None:
        for i, operand in enumerate(s.operands):
            self.use(operand, f"operand {i}")
        if s.mask is not None:
            self.typed(s.mask, BOOL, "the mask")
        varying = any(o.varying for o in (*s.operands, s.mask) if o is not None)
        for result in s.results:
            self.expect(
                result.varying == varying, "V2", f"a result is {_vary(result)}, the call {_vary(varying)}"
            )
            self.define(result)

    # Control flow ---------------------------------------------------------------------------------

    def block(self, statements: Sequence[Statement], values: Iterable[Value] = ()) -> None:
        """Check the statements of an open scope."""
        for value in values:
            self.define(value)
        outer = self.at
        for statement in statements:
            self.at = statement
            rule = _CHECK.get(type(statement))
            if rule is None:
                self.expect(False, "V3", f"{type(statement).__name__} is no statement")
            else:
                rule(self, statement)
        self.at = outer

    def nested(self, statements: Sequence[Statement], values: Sequence[Value],
               yields: Sequence[Operand], targets: Sequence[Value], what: str) -> None:  # fmt: skip
        """A block with its own scope, and what it yields into `targets`."""
        self.scopes.append(set())
        self.block(statements, values)
        self.pairs(yields, targets, what)
        self.scopes.pop()

    def pairs(self, operands: Sequence[Operand], targets: Sequence[Value], what: str) -> None:
        self.expect(len(operands) == len(targets), "V6",
                    f"{len(targets)} values are carried, {what} has {len(operands)}")  # fmt: skip
        for i, (operand, target) in enumerate(zip(operands, targets)):
            self.use(operand, f"{what} {i}")
            self.expect(operand.dtype == target.dtype, "V6",
                        f"{what} {i} is {short(operand.dtype)}, not {short(target.dtype)}")  # fmt: skip
            self.expect(
                target.varying or not operand.varying, "V6", f"{what} {i} varies, its place is uniform"
            )

    def results(self, results: Sequence[Value], carried: Sequence[Value]) -> None:
        alike = [(r.dtype, r.varying) for r in results] == [(c.dtype, c.varying) for c in carried]
        self.expect(alike, "V6", "the results are not of the kinds that are carried")
        for result in results:
            self.define(result)

    def _region(self, s: Region) -> None:
        self.expect(self.regions == 0, "V2", "a region stands inside a region")
        self.regions += 1
        self.scopes.append(set())
        self.block(s.body)
        # Uniform values of a region may be used after it; varying ones end with it.
        uniform = {v for v in self.scopes.pop() if not v.varying}
        self.scopes[-1] |= uniform
        self.regions -= 1

    def _for(self, s: For) -> None:
        for bound, what in ((s.start, "the start"), (s.stop, "the stop")):
            self.typed(bound, I64, what)
            self.uniform(bound, what)
        self.expect(s.step > 0, "V6", f"the step is {s.step}")
        self.expect(s.index.dtype == I64 and not s.index.varying, "V6", "the index is no uniform i64")
        self.pairs(s.initial, s.carried, "initial value")
        self.nested(s.body, (s.index, *s.carried), s.yields, s.carried, "yield")
        self.results(s.results, s.carried)

    def _while(self, s: While) -> None:
        self.pairs(s.initial, s.carried, "initial value")
        self.scopes.append(set())
        self.block(s.condition_body, s.carried)
        self.typed(s.condition, BOOL, "the condition")
        self.uniform(s.condition, "the condition")
        self.nested(s.body, (), s.yields, s.carried, "yield")
        self.scopes.pop()
        self.results(s.results, s.carried)

    def _if(self, s: If) -> None:
        self.typed(s.condition, BOOL, "the condition")
        self.uniform(s.condition, "the condition")
        self.nested(s.then, (), s.then_yields, s.results, "yield")
        self.nested(s.otherwise, (), s.otherwise_yields, s.results, "yield of else")
        for result in s.results:
            self.define(result)


def _vary(value: Value | bool) -> str:
    varying = value if isinstance(value, bool) else value.varying
    return "varying" if varying else "uniform"


_CHECK: dict[type, Callable[[_Checker, Any], None]] = {
    Compute: _Checker._compute,
    Load: _Checker._load,
    Store: _Checker._store,
    For: _Checker._for,
    While: _Checker._while,
    If: _Checker._if,
    LaneReduce: _Checker._lane_reduce,
    LaneShift: _Checker._lane_shift,
    Extract: _Checker._extract,
    Atomic: _Checker._atomic,
    Call: _Checker._call,
    Region: _Checker._region,
}
