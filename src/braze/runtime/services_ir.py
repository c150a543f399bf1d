"""The runtime's own machine code, as LLVM IR text: allocator, thread pool, and the call of a program.

Compiled once per machine for the plain CPU of its triple (there is no vector code in it), kept in the object
cache, loaded by `services`. Three chapters, each a text of its own: `heap_ir`, `pool_ir`, `call_ir`.

What differs between machines is three lines each: `pause`, the clock, and how a thread sleeps on a word
(futex on Linux; elsewhere, and in a test, `braze_sleep` and `braze_wake` are Python callbacks).

Invariants:
- The code holds no address: CPython and the C library are imported by name.
- No function here takes the GIL but those of `call_ir`.
"""

from __future__ import annotations

from dataclasses import dataclass

from braze.record import Record
from braze.runtime.call_ir import CALL
from braze.runtime.heap_ir import CLASSES, HEAP, POSIX_ALLOCATE, WINDOWS_ALLOCATE
from braze.runtime.pool_ir import CALLBACKS, LINUX, POOL
from braze.targets.trig import huge_trig


@dataclass(slots=True, eq=False, repr=False)
class Machine(Record):
    """The instructions and system calls that a triple brings.

    Attributes:
        pause: tells the core that this is a spin loop.
        clock, rate: a cheap monotonic counter, and roughly how often it ticks in a second.
        futex, affinity: numbers of the system calls, or None where sleep and wake are callbacks.
    """

    pause: str
    clock: str
    rate: str
    futex: int | None
    affinity: int | None


_POSIX_CLOCK = """  %spec = alloca [2 x i64]
  call i32 @clock_gettime(i32 1, ptr %spec)
  %seconds = load i64, ptr %spec
  %rest = getelementptr i64, ptr %spec, i64 1
  %nanoseconds = load i64, ptr %rest
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %nanoseconds"""


_INTRINSICS = {
    "sse2.pause": "declare void @llvm.x86.sse2.pause()",
    "readcyclecounter": "declare i64 @llvm.readcyclecounter()",
    "aarch64.hint": "declare void @llvm.aarch64.hint(i32)",
    "read_volatile_register": "declare i64 @llvm.read_volatile_register.i64(metadata)",
    "clock_gettime": "declare i32 @clock_gettime(i32, ptr)",
}


def machine(triple: str, *, callbacks: bool = False) -> Machine:
    """What this triple offers; `callbacks` asks for the portable sleep and wake.

    The x86 counter runs at 1 to 5 GHz; taking it for 2 GHz is right within a factor that no use here minds.
    """
    linux = "linux" in triple and not callbacks
    if triple.startswith("x86_64"):
        clock = "  %now = call i64 @llvm.readcyclecounter()"
        return Machine(
            "call void @llvm.x86.sse2.pause()",
            clock,
            "  %rate = add i64 0, 2000000000",
            202 if linux else None,
            203 if linux else None,
        )
    if triple.startswith(("aarch64", "arm64")):
        return Machine(
            "call void @llvm.aarch64.hint(i32 1)",
            '  %now = call i64 @llvm.read_volatile_register.i64(metadata !{!"cntvct_el0"})',
            '  %rate = call i64 @llvm.read_volatile_register.i64(metadata !{!"cntfrq_el0"})',
            98 if linux else None,
            122 if linux else None,
        )
    return Machine("", _POSIX_CLOCK, "  %rate = add i64 0, 1000000000", None, None)


def module_text(triple: str, *, callbacks: bool = False) -> str:
    """The whole module for a triple."""
    m = machine(triple, callbacks=callbacks)
    windows = "windows" in triple
    sleeps = LINUX if m.futex is not None else CALLBACKS
    allocate = WINDOWS_ALLOCATE if windows else POSIX_ALLOCATE
    advise = "call i32 @madvise(ptr %block, i64 %bytes, i32 14)" if "linux" in triple else ""
    declarations = [
        "declare i64 @llvm.ctlz.i64(i64, i1)",
        "declare i64 @llvm.umin.i64(i64, i64)",
        "declare i64 @llvm.umax.i64(i64, i64)",
        "declare i32 @llvm.umin.i32(i32, i32)",
    ]
    used = m.pause + m.clock
    declarations += [line for name, line in _INTRINSICS.items() if name in used]
    if windows:
        declarations += ["declare ptr @_aligned_malloc(i64, i64)", "declare void @_aligned_free(ptr)"]
    else:
        declarations += ["declare i32 @posix_memalign(ptr, i64, i64)", "declare void @free(ptr)"]
    if advise:
        declarations.append("declare i32 @madvise(ptr, i64, i32)")
    text = "\n".join(declarations) + HEAP + POOL + sleeps + CALL + huge_trig()
    for word, replacement in (
        ("SYSTEM_ALLOCATE", allocate),
        ("SYSTEM_FREE", "_aligned_free" if windows else "free"),
        ("ADVISE", advise),
        ("CLASSES", str(CLASSES)),
        ("PAUSE", m.pause),
        ("CLOCK", m.clock),
        ("RATE", m.rate),
        ("FUTEX", str(m.futex)),
        ("AFFINITY", str(m.affinity)),
    ):
        text = text.replace(word, replacement)
    return text
