"""The heap, as LLVM IR text: blocks of memory by size class.

Classes are 2^k and 1.5·2^k from 256 bytes, with one list of free blocks each, under one spin lock. A block that
is free holds the address of the next one of its class in its first eight bytes. A class also remembers when it
was last used: over the cap, the class that has been idle longest gives back first.

`services_ir` replaces the words in capitals by what the machine brings.
"""

from __future__ import annotations

CLASSES = 78
"""Size classes: 256 bytes to 1.5·2^46."""

HEAP = """
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

define internal ptr @from_system(i64 %bytes) cold noinline optnone {
entry:
  %place = alloca ptr
  %huge = icmp uge i64 %bytes, 4194304
  %alignment = select i1 %huge, i64 2097152, i64 64
SYSTEM_ALLOCATE
}

; Gives free blocks back to the system until no more than %limit bytes are kept.
define void @braze_heap_trim(i64 %limit) cold noinline optnone {
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

define void @braze_heap_after_fork() cold noinline optnone {
  store i32 0, ptr @heap_lock
  ret void
}
"""

POSIX_ALLOCATE = """  %failed = call i32 @posix_memalign(ptr %place, i64 %alignment, i64 %bytes)
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

WINDOWS_ALLOCATE = """  %block = call ptr @_aligned_malloc(i64 %bytes, i64 %alignment)
  ret ptr %block"""
