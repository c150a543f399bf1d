"""The thread pool, as LLVM IR text: tickets over the blocks of a launch.

There is one job at a time. Its ticket word is epoch << 32 | next; taking a ticket is a compare-and-swap of the
whole word, so a slow thread that looked at an earlier job cannot take from a later one. Before the fields of a
new job are written the word is closed (next = 2^32 - 1), so whoever wins the swap has read fields of that job.

Invariants:
- The caller works too, and waits only for tickets that somebody has taken.
- A caller that finds the pool busy, or is inside it, does all its blocks alone.
- Idle workers spin for 30 µs, then sleep on the epoch; nobody is woken twice.

`services_ir` replaces the words in capitals by what the machine brings.
Source: Drepper, "Futexes are tricky", for sleep and wake.
"""

from __future__ import annotations

MAX_WORKERS = 255

POOL = """
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
define void @braze_pool_worker(i32 %k) cold noinline optnone {
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
define void @braze_pool_after_fork() cold noinline optnone {
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
LINUX = """
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

define internal void @make_way() cold noinline optnone {
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

CALLBACKS = """
declare void @braze_sleep(ptr, i32)
declare void @braze_wake(ptr, i32)
define internal void @make_way() cold noinline optnone {
  ret void
}
"""
