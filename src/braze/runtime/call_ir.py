"""The call of a program, as LLVM IR text, and what programs call back: `braze_host`, `braze_poll`.

The one chapter that knows CPython: it gives the GIL up and takes it back. A Python exception stays set in the
thread, and status 1 carries the news of it to whoever holds the GIL at the end. The layouts are `descriptor`'s.
"""

from __future__ import annotations

CALL = """
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

define i32 @braze_call(ptr %d, ptr %inputs, ptr %outputs) "no-stack-arg-probe" {
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
  ; Up to 2 KB are cheaper on this stack: 1 ns instead of 25.
  %leases = icmp ugt i64 %lease_bytes, 2048
  br i1 %leases, label %lease, label %stack
stack:
  %small = alloca i8, i64 %lease_bytes, align 64
  br label %fill
lease:
  %leased = call ptr @braze_alloc(i64 %lease_bytes)
  %refused = icmp eq ptr %leased, null
  br i1 %refused, label %no_memory, label %fill
no_memory:
  ret i32 3
fill:
  %arena = phi ptr [ %small, %stack ], [ %leased, %lease ]
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
define i32 @braze_host(ptr %context, i32 %callback, ptr %operands, ptr %results) cold noinline optnone {
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
