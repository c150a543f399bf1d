"""Small programs as LLVM IR text, in the shape that `targets/` gives them."""

from __future__ import annotations

import numpy as np

from braze.dtypes import F32, I32, I64
from braze.runtime import engine
from braze.runtime.context import HostCallback
from braze.runtime.executable import Executable, Signature
from braze.target import Target
from braze.types import TensorType

DECLARATIONS = """
declare void @braze_parallel(ptr, ptr, ptr, i64)
declare i32 @braze_host(ptr, i32, ptr, ptr)
declare i32 @braze_poll(ptr)
"""

# out[i] = x[i] + 1 by blocks of 64 elements; each block also counts itself in its thread's scratch.
ADD_ONE = (
    DECLARATIONS
    + """
define void @kernel(ptr %buffers, i64 %first, i64 %last, ptr %scratch) {
entry:
  %x = load ptr, ptr %buffers
  %slot = getelementptr ptr, ptr %buffers, i64 1
  %out = load ptr, ptr %slot
  br label %loop
loop:
  %block = phi i64 [ %first, %entry ], [ %next, %loop ]
  %i = mul i64 %block, 64
  %from = getelementptr float, ptr %x, i64 %i
  %value = load <64 x float>, ptr %from, align 4
  %sum = fadd <64 x float> %value, splat (float 1.0)
  store <64 x float> %sum, ptr %scratch, align 4
  %again = load <64 x float>, ptr %scratch, align 4
  %to = getelementptr float, ptr %out, i64 %i
  store <64 x float> %again, ptr %to, align 4
  %next = add i64 %block, 1
  %more = icmp ult i64 %next, %last
  br i1 %more, label %loop, label %done
done:
  ret void
}
define i32 @braze_run(ptr %context, ptr %inputs, ptr %outputs) {
  %buffers = alloca [2 x ptr]
  %x = load ptr, ptr %inputs
  %out = load ptr, ptr %outputs
  store ptr %x, ptr %buffers
  %slot = getelementptr ptr, ptr %buffers, i64 1
  store ptr %out, ptr %slot
  call void @braze_parallel(ptr %context, ptr @kernel, ptr %buffers, i64 BLOCKS)
  ret i32 0
}
"""
)

# Counts to the i64 it is given, looking at signals in every round; the arena holds the count.
COUNT = (
    DECLARATIONS
    + """
define i32 @braze_run(ptr %context, ptr %inputs, ptr %outputs) {
entry:
  %x = load ptr, ptr %inputs
  %out = load ptr, ptr %outputs
  %n = load i64, ptr %x
  %arena = load ptr, ptr %context
  store i64 0, ptr %arena
  br label %loop
loop:
  %i = load volatile i64, ptr %arena
  %more = icmp ult i64 %i, %n
  br i1 %more, label %step, label %done
step:
  %next = add i64 %i, 1
  store volatile i64 %next, ptr %arena
  %status = call i32 @braze_poll(ptr %context)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %loop, label %raised
raised:
  ret i32 1
done:
  store i64 %i, ptr %out
  ret i32 0
}
"""
)

# out = callback(x), and 1 is added to what comes back.
CALL_BACK = (
    DECLARATIONS
    + """
define i32 @braze_run(ptr %context, ptr %inputs, ptr %outputs) {
entry:
  %arena = load ptr, ptr %context
  %results = alloca ptr
  store ptr %arena, ptr %results
  %status = call i32 @braze_host(ptr %context, i32 0, ptr %inputs, ptr %results)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %add, label %raised
raised:
  ret i32 %status
add:
  %value = load i32, ptr %arena
  %more = add i32 %value, 1
  %out = load ptr, ptr %outputs
  store i32 %more, ptr %out
  ret i32 0
}
"""
)


def add_one(target: Target, blocks: int, *, parallel: bool = True) -> Executable:
    vector = TensorType((64 * blocks,), F32)
    image = engine.compile_object(ADD_ONE.replace("BLOCKS", str(blocks)), target)
    return Executable(image, Signature("add_one", (vector,), (vector,), scratch_bytes=256, parallel=parallel))


def count(target: Target) -> Executable:
    scalar = TensorType((), I64)
    image = engine.compile_object(COUNT, target)
    return Executable(image, Signature("count", (scalar,), (scalar,), arena_bytes=5000, loops=True))


def call_back(target: Target, function: object) -> Executable:
    scalar = TensorType((), I32)
    image = engine.compile_object(CALL_BACK, target)
    callback = HostCallback(function, (scalar,), (scalar,))  # type: ignore[arg-type]
    return Executable(image, Signature("call_back", (scalar,), (scalar,), arena_bytes=5000), [callback])


def check_add_one(program: Executable, seed: int = 0) -> None:
    x = np.random.default_rng(seed).standard_normal(program.signature.inputs[0].shape, np.float32)
    np.testing.assert_array_equal(program.call([x])[0], x + 1)


# Each block works for a while and leaves the number of its thread, which its scratch gives away.
THREADS = (
    DECLARATIONS
    + """
define void @kernel(ptr %buffers, i64 %first, i64 %last, ptr %scratch) {
entry:
  %out = load ptr, ptr %buffers
  %slot1 = getelementptr ptr, ptr %buffers, i64 1
  %base = load i64, ptr %slot1
  %slot2 = getelementptr ptr, ptr %buffers, i64 2
  %rounds_at = load ptr, ptr %slot2
  %rounds = load i64, ptr %rounds_at
  %here = ptrtoint ptr %scratch to i64
  %offset = sub i64 %here, %base
  %number = udiv i64 %offset, 64
  br label %loop
loop:
  %block = phi i64 [ %first, %entry ], [ %next, %worked ]
  %at = getelementptr i64, ptr %out, i64 %block
  store i64 %number, ptr %at
  br label %work
work:
  %i = phi i64 [ 0, %loop ], [ %i1, %work ]
  store volatile i64 %i, ptr %scratch
  %i1 = add i64 %i, 1
  %some = icmp ult i64 %i1, %rounds
  br i1 %some, label %work, label %worked
worked:
  %next = add i64 %block, 1
  %more = icmp ult i64 %next, %last
  br i1 %more, label %loop, label %done
done:
  ret void
}
define i32 @braze_run(ptr %context, ptr %inputs, ptr %outputs) {
  %buffers = alloca [3 x ptr]
  %out = load ptr, ptr %outputs
  store ptr %out, ptr %buffers
  %field = getelementptr ptr, ptr %context, i64 1
  %base = load ptr, ptr %field
  %slot1 = getelementptr ptr, ptr %buffers, i64 1
  store ptr %base, ptr %slot1
  %rounds = load ptr, ptr %inputs
  %slot2 = getelementptr ptr, ptr %buffers, i64 2
  store ptr %rounds, ptr %slot2
  call void @braze_parallel(ptr %context, ptr @kernel, ptr %buffers, i64 BLOCKS)
  ret i32 0
}
"""
)


def threads_seen(target: Target, blocks: int) -> Executable:
    image = engine.compile_object(THREADS.replace("BLOCKS", str(blocks)), target)
    signature = Signature(
        "threads_seen",
        (TensorType((), I64),),
        (TensorType((blocks,), I64),),
        scratch_bytes=64,
        parallel=True,
    )
    return Executable(image, signature)
