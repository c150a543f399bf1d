"""A Program as one LLVM module: its kernels, its constants, and the native entry that runs the steps.

    i32 @braze_run(ptr context, ptr inputs, ptr outputs)

`inputs` and `outputs` are arrays of data pointers; the context is that of `runtime/descriptor`. The entry
returns 0, or what a callback or `braze_poll` returned. A result that lies in a donated parameter's memory
(`Program.aliases`) is written there; its place in `outputs` is not read.

- Loops and branches are native; a counted loop counts by itself.
- A launch stores its pointers in one array that all launches of a function share; a loop's arrays are filled
  once, before it begins, so that a launch in it costs a call.
- Long programs are cut into functions of about `CHUNK` steps: LLVM takes more than linear time over long
  blocks, and stack use stays bounded.
- A loop that may run for long calls `braze_poll` about every `POLL_SECONDS`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from braze.errors import InternalError
from braze.kernel.ir import Kernel
from braze.program.ir import Branch, Buffer, CallSymbol, Copy, Host, Launch, Loop, Program, Slice, Step
from braze.program.records import needs_poll, seconds, walk
from braze.target import Target
from braze.targets.llvm import Module, emit_kernel, scratch_bytes, symbol

CHUNK = 200
POLL_SECONDS = 100e-6
_POLL_MOST = 4096
_STEP_CHARACTERS = 250
_ARGUMENTS = "ptr %context, ptr %inputs, ptr %outputs, ptr %arena, ptr %scratch"


def emit_program(program: Program, target: Target) -> str:
    """The text of the module for a program after assignment.

    Raises: UnsupportedError for what the target's printer does not compute with.
    """
    return emit_modules(program, target, 1)[0]


def emit_modules(program: Program, target: Target, parts: int) -> list[str]:
    """The same as up to `parts` modules of about equal work for LLVM, to be compiled in parallel.

    The first holds the entry and the constants and imports the kernels of the others by name; these import
    nothing of the first, so they are loaded before it.
    """
    first = Module()
    _Entry(program, first).write()
    for k, array in enumerate(program.constants):
        first.add_global(f"constant.{k}", _constant(k, array))
    modules = [first, *[Module() for _ in range(parts - 1)]]
    lengths = [sum(1 for _ in walk(program.steps)) * _STEP_CHARACTERS, *[0] * (parts - 1)]
    for kernel in kernels(program):
        home = lengths.index(min(lengths))
        lengths[home] += len(emit_kernel(kernel, target, modules[home]))
        if home:
            first.declare(f"declare void @{symbol(kernel)}(ptr, i64, i64, ptr)")
    return [m.text() for m, length in zip(modules, lengths, strict=True) if length or m is first]


def kernels(program: Program) -> tuple[Kernel, ...]:
    """The distinct kernels of a program, in the order of their first launch."""
    return tuple(dict.fromkeys(s.kernel for s in walk(program.steps) if isinstance(s, Launch)))


def program_scratch_bytes(program: Program) -> int:
    """What a thread needs to run any launch of the program."""
    return max(map(scratch_bytes, kernels(program)), default=0)


def _constant(k: int, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
    data = array.tobytes()
    shown = "".join([f"\\{byte:02X}" for byte in data])
    return f'@constant.{k} = private unnamed_addr constant [{len(data)} x i8] c"{shown}", align 64'


class _Entry:
    """Writes the functions of one program."""

    def __init__(self, program: Program, module: Module) -> None:
        self.program = program
        self.module = module
        self.chunks = 0

    def write(self) -> None:
        f = _Function(self)
        f.run(self.program.steps)
        # Not `nounwind`: at exit, the C library unwinds daemon threads through these frames from inside the
        # runtime's calls, and needs their unwind tables.
        head = [
            "define i32 @braze_run(ptr %context, ptr %inputs, ptr %outputs) {",
            "entry:",
            "  %arena = load ptr, ptr %context, align 8",
            "  %scratch.field = getelementptr i8, ptr %context, i64 8",
            "  %scratch = load ptr, ptr %scratch.field, align 8",
        ]
        self.module.add_function("braze_run", f.text(head))

    def chunk(self, steps: Sequence[Step]) -> str:
        """A function of its own for some steps."""
        name = f"braze_chunk.{self.chunks}"
        self.chunks += 1
        f = _Function(self)
        for step in steps:
            f.step(step)
        self.module.add_function(name, f.text([f"define internal i32 @{name}({_ARGUMENTS}) {{", "entry:"]))
        return name


class _Function:
    """One function being written: its lines, its names, its stack."""

    def __init__(self, entry: _Entry) -> None:
        self.entry = entry
        self.lines: list[str] = []
        self.names = 0
        self.block = "entry"
        self.shared = 0
        self.prepared: dict[tuple[Slice, ...], str] = {}
        self.allocas: list[str] = []
        self.in_loop = False

    def text(self, head: Sequence[str]) -> str:
        stack = [*self.allocas]
        if self.shared:
            stack.append(f"%buffers = alloca [{self.shared} x ptr], align 64")
        # Stack slots belong in the entry block: LLVM gives them fixed places in the frame.
        body = [head[0], head[1], *(f"  {line}" for line in stack), *head[2:], *self.lines]
        return "\n".join([*body, "  ret i32 0", "}"])

    # Writing --------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        self.names += 1
        name = f"%v{self.names}"
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def leave_unless_ok(self, status: str) -> None:
        """Return a status that is not zero."""
        bad = self.value(f"icmp ne i32 {status}, 0")
        leave, stay = self.label("leave"), self.label("go")
        self.line(f"br i1 {bad}, label %{leave}, label %{stay}")
        self.start(leave)
        self.line(f"ret i32 {status}")
        self.start(stay)

    # Steps ----------------------------------------------------------------------------------------

    def run(self, steps: Sequence[Step]) -> None:
        """Steps in place, or as calls of functions where they are many."""
        groups = _groups(steps)
        if len(groups) == 1:
            for step in steps:
                self.step(step)
            return
        arguments = "ptr %context, ptr %inputs, ptr %outputs, ptr %arena, ptr %scratch"
        for group in groups:
            status = self.value(f"call i32 @{self.entry.chunk(group)}({arguments})")
            if _may_fail(group):
                self.leave_unless_ok(status)

    def step(self, step: Step) -> None:
        match step:
            case Launch():
                self.launch(step)
            case Copy():
                self.copy(step)
            case Loop():
                self.loop(step)
            case Branch():
                self.branch(step)
            case Host():
                self.host(step)
            case CallSymbol():
                pointers = [self.pointer(b) for b in (*step.operands, *step.results)]
                self.entry.module.declare(f"declare i32 @{step.symbol}({', '.join(['ptr'] * len(pointers))})")
                arguments = ", ".join(f"ptr {p}" for p in pointers)
                self.leave_unless_ok(self.value(f"call i32 @{step.symbol}({arguments})"))
            case _:
                raise InternalError(f"{type(step).__name__} has no code.", stage="emit")

    def pointer(self, buffer: Buffer) -> str:
        """The address of a buffer's first byte."""
        piece = self.entry.program.slices[buffer]
        match piece.place:
            case "arena":
                base = "%arena"
            case "constant":
                base = f"@constant.{piece.index}"
            case _:
                array = "%inputs" if piece.place == "parameter" else "%outputs"
                if piece.index:
                    array = self.value(f"getelementptr ptr, ptr {array}, i64 {piece.index}")
                base = self.value(f"load ptr, ptr {array}, align 8")
        return self.value(f"getelementptr i8, ptr {base}, i64 {piece.offset}") if piece.offset else base

    def fill(self, array: str, buffers: Sequence[Buffer], first: int = 0) -> None:
        """Store the addresses of buffers in an array of pointers."""
        for i, buffer in enumerate(buffers, first):
            pointer = self.pointer(buffer)
            slot = self.value(f"getelementptr ptr, ptr {array}, i64 {i}") if i else array
            self.line(f"store ptr {pointer}, ptr {slot}, align 8")

    def shared_array(self, buffers: Sequence[Buffer]) -> str:
        self.shared = max(self.shared, len(buffers), 1)
        self.fill("%buffers", buffers)
        return "%buffers"

    def launch(self, step: Launch) -> None:
        slices = self.entry.program.slices
        array = self.prepared.get(tuple([slices[b] for b in step.buffers])) or self.shared_array(step.buffers)
        kernel = step.kernel
        if kernel.grid > 1:
            self.entry.module.declare("declare void @braze_parallel(ptr, ptr, ptr, i64)")
            arguments = f"ptr %context, ptr @{symbol(kernel)}, ptr {array}, i64 {kernel.grid}"
            self.line(f"call void @braze_parallel({arguments})")
        else:
            self.line(f"call void @{symbol(kernel)}(ptr {array}, i64 0, i64 1, ptr %scratch)")

    def copy(self, step: Copy) -> None:
        slices = self.entry.program.slices
        source, destination = slices[step.source], slices[step.destination]
        if source.nbytes == 0 or source == destination:
            return
        read, write = self.pointer(step.source), self.pointer(step.destination)
        if source.nbytes in (1, 2, 4, 8):
            kind = f"i{8 * source.nbytes}"
            self.line(f"store {kind} {self.value(f'load {kind}, ptr {read}, align 1')}, ptr {write}, align 1")
        else:
            self.entry.module.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
            self.line(
                f"call void @llvm.memcpy.p0.p0.i64(ptr {write}, ptr {read}, i64 {source.nbytes}, i1 false)"
            )

    def host(self, step: Host) -> None:
        array = self.shared_array((*step.operands, *step.results))
        results = self.value(f"getelementptr ptr, ptr {array}, i64 {len(step.operands)}")
        self.entry.module.declare("declare i32 @braze_host(ptr, i32, ptr, ptr)")
        arguments = f"ptr %context, i32 {step.callback}, ptr {array}, ptr {results}"
        self.leave_unless_ok(self.value(f"call i32 @braze_host({arguments})"))

    def branch(self, step: Branch) -> None:
        index = self.value(f"load i32, ptr {self.pointer(step.index)}, align 4")
        labels = [self.label("branch") for _ in step.branches]
        done = self.label("joined")
        cases = " ".join([f"i32 {k}, label %{label}" for k, label in enumerate(labels)])
        self.line(f"switch i32 {index}, label %{labels[-1]} [ {cases} ]")
        for label, steps in zip(labels, step.branches, strict=True):
            self.start(label)
            self.run(steps)
            self.line(f"br label %{done}")
        self.start(done)

    # Loops ----------------------------------------------------------------------------------------

    def loop(self, step: Loop) -> None:
        outermost = not self.in_loop
        if outermost:
            self.in_loop = True
            self.prepare(step)
        head, body, latch, done = (self.label(stem) for stem in ("head", "body", "latch", "done"))
        before = self.block
        polls = needs_poll(step)
        number, following = (f"%n{head}", f"%n{latch}") if step.condition is None or polls else ("", "")
        self.line(f"br label %{head}")
        self.start(head)
        if number:
            self.lines.append(f"  {number} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]")
        if step.condition is None:
            holds = self.value(f"icmp ult i64 {number}, {step.trip_count}")
        else:
            self.run(step.condition_steps)
            found = self.value(f"load i8, ptr {self.pointer(step.condition)}, align 1")
            holds = self.value(f"icmp ne i8 {found}, 0")
        self.line(f"br i1 {holds}, label %{body}, label %{done}")
        self.start(body)
        self.run(step.body_steps)
        if number:
            self.lines.append(f"  {following} = add i64 {number}, 1")
        if polls:
            self.poll(following, _poll_interval(step), latch)
        else:
            self.line(f"br label %{latch}")
        self.start(latch)
        self.line(f"br label %{head}")
        self.start(done)
        if outermost:
            self.in_loop = False
            self.prepared.clear()

    def poll(self, number: str, interval: int, latch: str) -> None:
        """Look at signals in every so many iterations."""
        self.entry.module.declare("declare i32 @braze_poll(ptr)")
        if interval > 1:
            due = self.value(f"icmp eq i64 {self.value(f'and i64 {number}, {interval - 1}')}, 0")
            look = self.label("poll")
            self.line(f"br i1 {due}, label %{look}, label %{latch}")
            self.start(look)
        self.leave_unless_ok(self.value("call i32 @braze_poll(ptr %context)"))
        self.line(f"br label %{latch}")

    def prepare(self, loop: Loop) -> None:
        """Fill the arrays of the launches that stand in this function inside a loop."""
        slices = self.entry.program.slices
        for step in _in_place(loop):
            key = tuple([slices[b] for b in step.buffers])
            if step.buffers and key not in self.prepared:
                array = f"%array{len(self.allocas)}"
                self.allocas.append(f"{array} = alloca [{len(key)} x ptr], align 8")
                self.fill(array, step.buffers)
                self.prepared[key] = array


def _in_place(loop: Loop) -> list[Launch]:
    """Launches of a loop that are written where the loop is, and not in functions of their own."""
    found: list[Launch] = []
    pending: list[Sequence[Step]] = [loop.condition_steps, loop.body_steps]
    while pending:
        steps = pending.pop()
        if len(_groups(steps)) > 1:
            continue
        for step in steps:
            if isinstance(step, Launch):
                found.append(step)
            elif isinstance(step, Loop):
                pending += [step.condition_steps, step.body_steps]
            elif isinstance(step, Branch):
                pending += step.branches
    return found


def _groups(steps: Sequence[Step]) -> list[list[Step]]:
    """Runs of steps of about equal weight; one if they are few."""
    groups: list[list[Step]] = [[]]
    total = 0
    for step in steps:
        weight = sum(1 for _ in walk((step,)))
        if groups[-1] and total + weight > CHUNK:
            groups.append([])
            total = 0
        groups[-1].append(step)
        total += weight
    return groups


def _may_fail(steps: Sequence[Step]) -> bool:
    return any(
        isinstance(s, Host | CallSymbol) or (isinstance(s, Loop) and needs_poll(s)) for s in walk(steps)
    )


def _poll_interval(loop: Loop) -> int:
    """A power of two: how many iterations take about POLL_SECONDS."""
    iteration = seconds(loop.condition_steps) + seconds(loop.body_steps)
    if not math.isfinite(iteration):
        return 1
    wanted = min(_POLL_MOST, max(1, int(POLL_SECONDS / iteration))) if iteration else _POLL_MOST
    return 1 << (wanted.bit_length() - 1)
