"""The runtime's own machine code, as LLVM IR text: allocator, thread pool, and the call of a program.

Compiled once per machine for the plain CPU of its triple (there is no vector code in it), kept in the object
cache, loaded by `services`. Three chapters, each a text of its own:

- the heap: size classes 2^k and 1.5·2^k from 256 bytes, one list of free blocks each, under one spin lock;
- the pool: tickets over the blocks of a launch; nobody waits for a worker that has not taken one;
- the call: lease, context, GIL, entry; and what programs call back: `braze_host`, `braze_poll`.

What differs between machines is three lines each: `pause`, the clock, and how a thread sleeps on a word
(futex on Linux; elsewhere, and in a test, `braze_sleep` and `braze_wake` are Python callbacks).

Invariants:
- The code holds no address: CPython and the C library are imported by name.
- No function here takes the GIL but those of the last chapter.

Sources: Hoare's monitors for the shape of the ticket lock; Drepper, "Futexes are tricky", for sleep and wake.
"""

from __future__ import annotations

from dataclasses import dataclass

CLASSES = 78
"""Size classes: 256 bytes to 1.5·2^46."""
MAX_WORKERS = 255


@dataclass(frozen=True, slots=True)
class Machine:
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


# --- heap -------------------------------------------------------------------------------------------
# A block that is free holds the address of the next one of its class in its first eight bytes. A class also
# remembers when it was last used: over the cap, the class that has been idle longest gives back first.
_HEAP = """
%Class = type { ptr, i64 }
@heap_lock = internal global i32 0, align 64
@heap_classes = internal global [CLASSES x %Class] zeroinitializer, align 64
@heap_clock = internal global i64 0
@braze_heap_used = global i64 0
@braze_heap_cached = global i64 0
@braze_heap_cap = global i64 9223372036854775807

define internal void @acquire() {
entry:
  br label %try
try:
  %held = atomicrmw xchg ptr @heap_lock, i32 1 acquire
  %free = icmp eq i32 %held, 0
  br i1 %free, label %done, label %spin
spin:
  PAUSE
  %seen = load atomic i32, ptr @heap_lock monotonic, align 4
  %open = icmp eq i32 %seen, 0
  br i1 %open, label %try, label %spin
done:
  ret void
}

; 257..384 -> 1, 385..512 -> 2, 513..768 -> 3: the two leading bits of n - 1 say which.
define internal i64 @class_of(i64 %n) {
entry:
  %small = icmp ule i64 %n, 256
  br i1 %small, label %least, label %count
least:
  ret i64 0
count:
  %m = sub i64 %n, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %m, i1 true)
  %top = sub i64 63, %zeros
  %below = sub i64 %top, 1
  %lead = lshr i64 %m, %below
  %half = and i64 %lead, 1
  %octave = sub i64 %top, 8
  %double = shl i64 %octave, 1
  %one = add i64 %double, 1
  %class = add i64 %one, %half
  ret i64 %class
}

define internal i64 @class_bytes(i64 %class) {
entry:
  %octave = lshr i64 %class, 1
  %odd = and i64 %class, 1
  %half = shl i64 %odd, 7
  %base = add i64 %half, 256
  %bytes = shl i64 %base, %octave
  ret i64 %bytes
}

define internal ptr @from_system(i64 %bytes) {
entry:
  %place = alloca ptr
  %huge = icmp uge i64 %bytes, 4194304
  %alignment = select i1 %huge, i64 2097152, i64 64
SYSTEM_ALLOCATE
}

; Gives free blocks back to the system until no more than %limit bytes are kept.
define void @braze_heap_trim(i64 %limit) {
entry:
  br label %again
again:
  call void @acquire()
  %cached = load i64, ptr @braze_heap_cached
  %over = icmp ugt i64 %cached, %limit
  br i1 %over, label %search, label %leave
search:
  %i = phi i64 [ 0, %again ], [ %next, %looked ]
  %best = phi i64 [ -1, %again ], [ %better, %looked ]
  %oldest = phi i64 [ -1, %again ], [ %older, %looked ]
  %more = icmp ult i64 %i, CLASSES
  br i1 %more, label %look, label %chosen
look:
  %slot = getelementptr [CLASSES x %Class], ptr @heap_classes, i64 0, i64 %i, i32 0
  %head = load ptr, ptr %slot
  %time = getelementptr [CLASSES x %Class], ptr @heap_classes, i64 0, i64 %i, i32 1
  %used = load i64, ptr %time
  %any = icmp ne ptr %head, null
  %earlier = icmp ult i64 %used, %oldest
  %take = and i1 %any, %earlier
  br label %looked
looked:
  %better = select i1 %take, i64 %i, i64 %best
  %older = select i1 %take, i64 %used, i64 %oldest
  %next = add i64 %i, 1
  br label %search
chosen:
  %none = icmp eq i64 %best, -1
  br i1 %none, label %leave, label %drop
drop:
  %from = getelementptr [CLASSES x %Class], ptr @heap_classes, i64 0, i64 %best, i32 0
  %block = load ptr, ptr %from
  %rest = load ptr, ptr %block
  store ptr %rest, ptr %from
  %bytes = call i64 @class_bytes(i64 %best)
  %left = sub i64 %cached, %bytes
  store i64 %left, ptr @braze_heap_cached
  store atomic i32 0, ptr @heap_lock release, align 4
  call void @SYSTEM_FREE(ptr %block)
  br label %again
leave:
  store atomic i32 0, ptr @heap_lock release, align 4
  ret void
}

; A block of at least %n bytes, 64-byte aligned; null if the system has none.
define ptr @braze_alloc(i64 %n) {
entry:
  %sane = icmp ule i64 %n, 70368744177664
  br i1 %sane, label %find, label %fail
fail:
  ret ptr null
find:
  %class = call i64 @class_of(i64 %n)
  %bytes = call i64 @class_bytes(i64 %class)
  %slot = getelementptr [CLASSES x %Class], ptr @heap_classes, i64 0, i64 %class, i32 0
  %time = getelementptr [CLASSES x %Class], ptr @heap_classes, i64 0, i64 %class, i32 1
  call void @acquire()
  %clock = load i64, ptr @heap_clock
  %tick = add i64 %clock, 1
  store i64 %tick, ptr @heap_clock
  store i64 %tick, ptr %time
  %used = load i64, ptr @braze_heap_used
  %using = add i64 %used, %bytes
  store i64 %using, ptr @braze_heap_used
  %head = load ptr, ptr %slot
  %empty = icmp eq ptr %head, null
  br i1 %empty, label %ask, label %take
take:
  %rest = load ptr, ptr %head
  store ptr %rest, ptr %slot
  %cached = load i64, ptr @braze_heap_cached
  %left = sub i64 %cached, %bytes
  store i64 %left, ptr @braze_heap_cached
  store atomic i32 0, ptr @heap_lock release, align 4
  ret ptr %head
ask:
  store atomic i32 0, ptr @heap_lock release, align 4
  %fresh = call ptr @from_system(i64 %bytes)
  %got = icmp ne ptr %fresh, null
  br i1 %got, label %give, label %scrape
scrape:
  call void @braze_heap_trim(i64 0)
  %second = call ptr @from_system(i64 %bytes)
  %lucky = icmp ne ptr %second, null
  br i1 %lucky, label %give, label %undo
give:
  %block = phi ptr [ %fresh, %ask ], [ %second, %scrape ]
  ret ptr %block
undo:
  call void @acquire()
  %counted = load i64, ptr @braze_heap_used
  %uncounted = sub i64 %counted, %bytes
  store i64 %uncounted, ptr @braze_heap_used
  store atomic i32 0, ptr @heap_lock release, align 4
  ret ptr null
}

; Takes back a block of braze_alloc(%n).
define void @braze_free(ptr %block, i64 %n) {
entry:
  %nothing = icmp eq ptr %block, null
  br i1 %nothing, label %done, label %put
put:
  %class = call i64 @class_of(i64 %n)
  %bytes = call i64 @class_bytes(i64 %class)
  %slot = getelementptr [CLASSES x %Class], ptr @heap_classes, i64 0, i64 %class, i32 0
  %time = getelementptr [CLASSES x %Class], ptr @heap_classes, i64 0, i64 %class, i32 1
  call void @acquire()
  %clock = load i64, ptr @heap_clock
  %tick = add i64 %clock, 1
  store i64 %tick, ptr @heap_clock
  store i64 %tick, ptr %time
  %head = load ptr, ptr %slot
  store ptr %head, ptr %block
  store ptr %block, ptr %slot
  %used = load i64, ptr @braze_heap_used
  %using = sub i64 %used, %bytes
  store i64 %using, ptr @braze_heap_used
  %cached = load i64, ptr @braze_heap_cached
  %keeping = add i64 %cached, %bytes
  store i64 %keeping, ptr @braze_heap_cached
  store atomic i32 0, ptr @heap_lock release, align 4
  %cap = load i64, ptr @braze_heap_cap
  %over = icmp ugt i64 %keeping, %cap
  br i1 %over, label %trim, label %done
trim:
  call void @braze_heap_trim(i64 %cap)
  br label %done
done:
  ret void
}

define void @braze_heap_after_fork() {
  store i32 0, ptr @heap_lock
  ret void
}
"""

_POSIX_ALLOCATE = """  %failed = call i32 @posix_memalign(ptr %place, i64 %alignment, i64 %bytes)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %got, label %none
none:
  ret ptr null
got:
  %block = load ptr, ptr %place
  br i1 %huge, label %advise, label %done
advise:
  ADVISE
  br label %done
done:
  ret ptr %block"""

_WINDOWS_ALLOCATE = """  %block = call ptr @_aligned_malloc(i64 %bytes, i64 %alignment)
  ret ptr %block"""

# --- pool -------------------------------------------------------------------------------------------
# One job at a time. Its ticket word is epoch << 32 | next; taking a ticket is a compare-and-swap of the whole
# word, so a slow thread that looked at an earlier job cannot take from a later one. Before the fields of a new
# job are written the word is closed (next = 2^32 - 1), so whoever wins the swap has read fields of that job.
_POOL = """
@pool_epoch = internal global i32 0, align 64
@pool_ticket = internal global i64 4294967295, align 64
@job_kernel = internal global ptr null, align 64
@job_context = internal global ptr null
@job_buffers = internal global ptr null
@job_blocks = internal global i64 0
@job_chunk = internal global i64 1
@job_tickets = internal global i32 0
@job_threads = internal global i32 0
@pool_done = internal global i32 0, align 64
@pool_waiting = internal global i32 0
@pool_sleepers = internal global i32 0, align 64
@pool_busy = internal global i32 0, align 64
@braze_pool_workers = global i32 0, align 64
@braze_pool_threads = global [256 x i32] zeroinitializer
@braze_pool_homes = global [256 x i32] zeroinitializer

define internal i64 @now() {
entry:
CLOCK
  ret i64 %now
}

define internal i64 @rate() {
entry:
RATE
  ret i64 %rate
}

; Takes tickets of the open job until there are none. %k is this thread's number, 0 for the caller.
define internal void @drain(i32 %k) {
entry:
  br label %look
look:
  %word = load atomic i64, ptr @pool_ticket acquire, align 8
  %i = trunc i64 %word to i32
  %tickets = load atomic i32, ptr @job_tickets acquire, align 4
  %threads = load atomic i32, ptr @job_threads acquire, align 4
  %open = icmp ult i32 %i, %tickets
  %mine = icmp ult i32 %k, %threads
  %go = and i1 %open, %mine
  br i1 %go, label %read, label %out
read:
  %kernel = load atomic ptr, ptr @job_kernel acquire, align 8
  %context = load atomic ptr, ptr @job_context acquire, align 8
  %buffers = load atomic ptr, ptr @job_buffers acquire, align 8
  %blocks = load atomic i64, ptr @job_blocks acquire, align 8
  %chunk = load atomic i64, ptr @job_chunk acquire, align 8
  %taken = add i64 %word, 1
  %swap = cmpxchg ptr @pool_ticket, i64 %word, i64 %taken acq_rel monotonic
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %run, label %look
run:
  %index = zext i32 %i to i64
  %first = mul i64 %index, %chunk
  %beyond = add i64 %first, %chunk
  %last = call i64 @llvm.umin.i64(i64 %beyond, i64 %blocks)
  %scratch_field = getelementptr i64, ptr %context, i64 1
  %scratch0 = load ptr, ptr %scratch_field
  %bytes_field = getelementptr i64, ptr %context, i64 2
  %bytes = load i64, ptr %bytes_field
  %number = zext i32 %k to i64
  %offset = mul i64 %number, %bytes
  %scratch = getelementptr i8, ptr %scratch0, i64 %offset
  call void %kernel(ptr %buffers, i64 %first, i64 %last, ptr %scratch)
  %before = atomicrmw add ptr @pool_done, i32 1 seq_cst
  %after = add i32 %before, 1
  %all = icmp eq i32 %after, %tickets
  br i1 %all, label %finish, label %look
finish:
  %waiting = load atomic i32, ptr @pool_waiting seq_cst, align 4
  %asleep = icmp ne i32 %waiting, 0
  br i1 %asleep, label %rouse, label %out
rouse:
  call void @braze_wake(ptr @pool_done, i32 1)
  br label %out
out:
  ret void
}

; The life of a worker: drain, spin a while, sleep on the epoch. It never returns.
define void @braze_pool_worker(i32 %k) {
entry:
  %rate = call i64 @rate()
  %patience = udiv i64 %rate, 33000 ; 30 us
  br label %idle
idle:
  %last = phi i32 [ 0, %entry ], [ %epoch, %work ]
  %since = call i64 @now()
  br label %check
check:
  %epoch = load atomic i32, ptr @pool_epoch acquire, align 4
  %new = icmp ne i32 %epoch, %last
  br i1 %new, label %work, label %wait
wait:
  %now = call i64 @now()
  %spun = sub i64 %now, %since
  %tired = icmp ugt i64 %spun, %patience
  br i1 %tired, label %sleep, label %spin
spin:
  PAUSE
  br label %check
sleep:
  ; The caller sets the count to zero when it wakes; one that counts itself after that finds a new epoch.
  atomicrmw add ptr @pool_sleepers, i32 1 seq_cst
  call void @braze_sleep(ptr @pool_epoch, i32 %last)
  br label %check
work:
  call void @drain(i32 %k)
  br label %idle
}

; Runs kernel over blocks 0 .. %blocks, on whichever threads come, and returns when all are done.
define void @braze_parallel(ptr %context, ptr %kernel, ptr %buffers, i64 %blocks) {
entry:
  %nothing = icmp sle i64 %blocks, 0
  br i1 %nothing, label %empty, label %begin
empty:
  ret void
begin:
  %pool_field = getelementptr i64, ptr %context, i64 3
  %pool = load ptr, ptr %pool_field
  %threads_field = getelementptr i64, ptr %context, i64 5
  %allowed = load i64, ptr %threads_field
  %workers32 = load atomic i32, ptr @braze_pool_workers monotonic, align 4
  %workers = zext i32 %workers32 to i64
  %company = add i64 %workers, 1
  %threads = call i64 @llvm.umin.i64(i64 %allowed, i64 %company)
  %some = icmp ne ptr %pool, null
  %several = icmp ugt i64 %threads, 1
  %divisible = icmp ugt i64 %blocks, 1
  %could = and i1 %some, %several
  %should = and i1 %could, %divisible
  br i1 %should, label %ask, label %alone
ask:
  %claim = cmpxchg ptr @pool_busy, i32 0, i32 1 acquire monotonic
  %ours = extractvalue { i32, i1 } %claim, 1
  br i1 %ours, label %share, label %alone
alone:
  ; No pool, one block, or the pool serves another caller: this thread does its own work.
  %scratch_field = getelementptr i64, ptr %context, i64 1
  %scratch = load ptr, ptr %scratch_field
  call void %kernel(ptr %buffers, i64 0, i64 %blocks, ptr %scratch)
  ret void
share:
  ; About 32 tickets a thread: small enough to even out, large enough that taking them is nothing.
  %portions = mul i64 %threads, 32
  %share_size = udiv i64 %blocks, %portions
  %chunk = call i64 @llvm.umax.i64(i64 %share_size, i64 1)
  %rounding = sub i64 %chunk, 1
  %padded = add i64 %blocks, %rounding
  %tickets64 = udiv i64 %padded, %chunk
  %tickets = trunc i64 %tickets64 to i32
  %threads32 = trunc i64 %threads to i32
  %epoch0 = load atomic i32, ptr @pool_epoch monotonic, align 4
  %epoch = add i32 %epoch0, 1
  %wide = zext i32 %epoch to i64
  %open = shl i64 %wide, 32
  %closed = or i64 %open, 4294967295
  store atomic i64 %closed, ptr @pool_ticket monotonic, align 8
  fence seq_cst
  store atomic ptr %kernel, ptr @job_kernel monotonic, align 8
  store atomic ptr %context, ptr @job_context monotonic, align 8
  store atomic ptr %buffers, ptr @job_buffers monotonic, align 8
  store atomic i64 %blocks, ptr @job_blocks monotonic, align 8
  store atomic i64 %chunk, ptr @job_chunk monotonic, align 8
  store atomic i32 %tickets, ptr @job_tickets monotonic, align 4
  store atomic i32 %threads32, ptr @job_threads monotonic, align 4
  store atomic i32 0, ptr @pool_done monotonic, align 4
  store atomic i32 0, ptr @pool_waiting monotonic, align 4
  store atomic i64 %open, ptr @pool_ticket release, align 8
  store atomic i32 %epoch, ptr @pool_epoch seq_cst, align 4
  %sleepers = atomicrmw xchg ptr @pool_sleepers, i32 0 seq_cst
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %wake, label %work
wake:
  call void @make_way()
  %helpers = sub i32 %threads32, 1
  %others = sub i32 %tickets, 1
  %need = call i32 @llvm.umin.i32(i32 %helpers, i32 %others)
  call void @braze_wake(ptr @pool_epoch, i32 %need)
  br label %work
work:
  call void @drain(i32 0)
  %rate = call i64 @rate()
  %patience = udiv i64 %rate, 33000
  %since = call i64 @now()
  br label %check
check:
  ; Only tickets that someone has taken are open now.
  %done = load atomic i32, ptr @pool_done acquire, align 4
  %all = icmp eq i32 %done, %tickets
  br i1 %all, label %leave, label %wait
wait:
  %now = call i64 @now()
  %spun = sub i64 %now, %since
  %tired = icmp ugt i64 %spun, %patience
  br i1 %tired, label %sleep, label %spin
spin:
  PAUSE
  br label %check
sleep:
  store atomic i32 1, ptr @pool_waiting seq_cst, align 4
  %still = load atomic i32, ptr @pool_done seq_cst, align 4
  %late = icmp ne i32 %still, %tickets
  br i1 %late, label %doze, label %leave
doze:
  call void @braze_sleep(ptr @pool_done, i32 %still)
  br label %check
leave:
  store atomic i32 0, ptr @pool_busy release, align 4
  ret void
}

; In a forked child there are no workers and no other callers.
define void @braze_pool_after_fork() {
  store i32 0, ptr @pool_epoch
  store i64 4294967295, ptr @pool_ticket
  store i32 0, ptr @pool_sleepers
  store i32 0, ptr @pool_busy
  store i32 0, ptr @braze_pool_workers
  ret void
}
"""

# The kernel tends to wake a thread on the waker's CPU, where it waits for the next tick (4 ms). Workers are
# therefore pinned; if the caller has moved to a worker's CPU, that worker moves to the one the caller left.
_LINUX = """
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
@affinity_mask = internal global [128 x i8] zeroinitializer, align 8

define internal void @braze_sleep(ptr %word, i32 %seen) {
  call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i64 128, i32 %seen, ptr null, ptr null, i32 0)
  ret void
}

define internal void @braze_wake(ptr %word, i32 %threads) {
  call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i64 129, i32 %threads, ptr null, ptr null, i32 0)
  ret void
}

define internal void @make_way() {
entry:
  %cpu = call i32 @sched_getcpu()
  %workers = load i32, ptr @braze_pool_workers
  br label %search
search:
  %k = phi i32 [ 1, %entry ], [ %next, %other ]
  %more = icmp ule i32 %k, %workers
  br i1 %more, label %look, label %done
look:
  %home = getelementptr [256 x i32], ptr @braze_pool_homes, i64 0, i32 %k
  %at = load i32, ptr %home
  %next = add i32 %k, 1
  %here = icmp eq i32 %at, %cpu
  br i1 %here, label %move, label %other
other:
  br label %search
move:
  %away = load i32, ptr @braze_pool_homes
  store i32 %away, ptr %home
  store i32 %cpu, ptr @braze_pool_homes
  %byte = lshr i32 %away, 3
  %bit = and i32 %away, 7
  %bit8 = trunc i32 %bit to i8
  %set = shl i8 1, %bit8
  call ptr @memset(ptr @affinity_mask, i32 0, i64 128)
  %place = getelementptr [128 x i8], ptr @affinity_mask, i64 0, i32 %byte
  store i8 %set, ptr %place
  %slot = getelementptr [256 x i32], ptr @braze_pool_threads, i64 0, i32 %k
  %thread = load i32, ptr %slot
  call i64 (i64, ...) @syscall(i64 AFFINITY, i32 %thread, i64 128, ptr @affinity_mask)
  br label %done
done:
  ret void
}
declare ptr @memset(ptr, i32, i64)
"""

_CALLBACKS = """
declare void @braze_sleep(ptr, i32)
declare void @braze_wake(ptr, i32)
define internal void @make_way() {
  ret void
}
"""

# --- call -------------------------------------------------------------------------------------------
_CALL = """
%Descriptor = type { ptr, i64, i64, i64, i64, ptr, i64, i64 }
@braze_main_thread = global i64 0
@host_format = internal constant [4 x i8] c"iKK\\00"
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare i64 @PyThread_get_thread_ident()
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare void @Py_DecRef(ptr)

define i32 @braze_call(ptr %d, ptr %inputs, ptr %outputs) {
entry:
  %context = alloca [8 x i64], align 16
  %arena_field = getelementptr %Descriptor, ptr %d, i32 0, i32 1
  %arena_bytes = load i64, ptr %arena_field
  %scratch_field = getelementptr %Descriptor, ptr %d, i32 0, i32 2
  %scratch_bytes = load i64, ptr %scratch_field
  %threads_field = getelementptr %Descriptor, ptr %d, i32 0, i32 3
  %threads = load i64, ptr %threads_field
  %flags_field = getelementptr %Descriptor, ptr %d, i32 0, i32 4
  %flags = load i64, ptr %flags_field
  %host_field = getelementptr %Descriptor, ptr %d, i32 0, i32 5
  %host = load ptr, ptr %host_field
  %code = load ptr, ptr %d
  %all_scratch = mul i64 %scratch_bytes, %threads
  %lease_bytes = add i64 %arena_bytes, %all_scratch
  %leases = icmp ne i64 %lease_bytes, 0
  br i1 %leases, label %lease, label %fill
lease:
  %leased = call ptr @braze_alloc(i64 %lease_bytes)
  %refused = icmp eq ptr %leased, null
  br i1 %refused, label %no_memory, label %fill
no_memory:
  ret i32 3
fill:
  %arena = phi ptr [ null, %entry ], [ %leased, %lease ]
  %scratch = getelementptr i8, ptr %arena, i64 %arena_bytes
  %parallel = icmp ugt i64 %threads, 1
  %pool = select i1 %parallel, ptr @pool_epoch, ptr null
  %c1 = getelementptr i64, ptr %context, i64 1
  %c2 = getelementptr i64, ptr %context, i64 2
  %c3 = getelementptr i64, ptr %context, i64 3
  %c4 = getelementptr i64, ptr %context, i64 4
  %c5 = getelementptr i64, ptr %context, i64 5
  %c6 = getelementptr i64, ptr %context, i64 6
  %c7 = getelementptr i64, ptr %context, i64 7
  store ptr %arena, ptr %context
  store ptr %scratch, ptr %c1
  store i64 %scratch_bytes, ptr %c2
  store ptr %pool, ptr %c3
  store ptr %host, ptr %c4
  store i64 %threads, ptr %c5
  store i64 0, ptr %c6
  store i64 0, ptr %c7
  %checks = and i64 %flags, 2
  %looks = icmp ne i64 %checks, 0
  br i1 %looks, label %whose, label %enter
whose:
  %me = call i64 @PyThread_get_thread_ident()
  %main = load i64, ptr @braze_main_thread
  %is_main = icmp eq i64 %me, %main
  %first_look = zext i1 %is_main to i64
  store i64 %first_look, ptr %c6
  br label %enter
enter:
  %releases = and i64 %flags, 1
  %free = icmp ne i64 %releases, 0
  br i1 %free, label %without, label %with
with:
  %status_with = call i32 %code(ptr %context, ptr %inputs, ptr %outputs)
  br label %leave
without:
  %thread = call ptr @PyEval_SaveThread()
  %status_without = call i32 %code(ptr %context, ptr %inputs, ptr %outputs)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %leave
leave:
  %status = phi i32 [ %status_with, %with ], [ %status_without, %without ]
  br i1 %leases, label %give_back, label %done
give_back:
  call void @braze_free(ptr %arena, i64 %lease_bytes)
  br label %done
done:
  ret i32 %status
}

; Calls host(callback, operands, results) in Python. An exception stays set in this thread, with its traceback.
define i32 @braze_host(ptr %context, i32 %callback, ptr %operands, ptr %results) {
entry:
  %field = getelementptr i64, ptr %context, i64 4
  %host = load ptr, ptr %field
  %absent = icmp eq ptr %host, null
  br i1 %absent, label %wrong, label %call
wrong:
  ret i32 2
call:
  %gil = call i32 @PyGILState_Ensure()
  %result = call ptr (ptr, ptr, ...) @PyObject_CallFunction(
      ptr %host, ptr @host_format, i32 %callback, ptr %operands, ptr %results)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %leave, label %drop
drop:
  call void @Py_DecRef(ptr %result)
  br label %leave
leave:
  call void @PyGILState_Release(i32 %gil)
  %status = zext i1 %failed to i32
  ret i32 %status
}

; Looks at the clock, and every 2 ms at signals; 1 when a handler raised (Ctrl-C).
define i32 @braze_poll(ptr %context) {
entry:
  %field = getelementptr i64, ptr %context, i64 6
  %due = load i64, ptr %field
  %never = icmp eq i64 %due, 0
  br i1 %never, label %quiet, label %read
quiet:
  ret i32 0
read:
  %now = call i64 @now()
  %early = icmp ult i64 %now, %due
  br i1 %early, label %quiet, label %plan
plan:
  %rate = call i64 @rate()
  %interval = udiv i64 %rate, 500
  %next = add i64 %now, %interval
  store i64 %next, ptr %field
  %begins = icmp eq i64 %due, 1
  br i1 %begins, label %quiet, label %look
look:
  %gil = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %gil)
  %status = icmp ne i32 %raised, 0
  %result = zext i1 %status to i32
  ret i32 %result
}
"""


def module_text(triple: str, *, callbacks: bool = False) -> str:
    """The whole module for a triple."""
    m = machine(triple, callbacks=callbacks)
    windows = "windows" in triple
    linux = m.futex is not None
    allocate = _WINDOWS_ALLOCATE if windows else _POSIX_ALLOCATE
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
    text = "\n".join(declarations) + _HEAP + _POOL + (_LINUX if linux else _CALLBACKS) + _CALL
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
