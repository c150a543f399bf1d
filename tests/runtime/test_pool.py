"""The pool: every block runs once, whoever calls, however many call, and whatever the workers are doing."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import native_programs as programs
import numpy as np
import pytest

from braze import knobs
from braze.dtypes import I64
from braze.runtime import engine, executable, pool, services
from braze.runtime.executable import Executable, Signature
from braze.target import Target
from braze.types import TensorType

# Each block adds 1 to its own counter and leaves the number of its thread (its scratch says which) beside it.
VISITS = (
    programs.DECLARATIONS
    + """
define void @kernel(ptr %buffers, i64 %first, i64 %last, ptr %scratch) {
entry:
  %out = load ptr, ptr %buffers
  br label %loop
loop:
  %block = phi i64 [ %first, %entry ], [ %next, %work_done ]
  %slot = getelementptr i64, ptr %out, i64 %block
  %old = load i64, ptr %slot
  %new = add i64 %old, 1
  store i64 %new, ptr %slot
  br label %work
work:
  %i = phi i64 [ 0, %loop ], [ %i1, %work ]
  store volatile i64 %i, ptr %scratch
  %back = load volatile i64, ptr %scratch
  %i1 = add i64 %i, 1
  %same = icmp eq i64 %back, %i
  %some = icmp ult i64 %i1, WORK
  %again = and i1 %same, %some
  br i1 %again, label %work, label %work_done
work_done:
  %kept = select i1 %same, i64 0, i64 1000000
  %seen = load i64, ptr %slot
  %sum = add i64 %seen, %kept
  store i64 %sum, ptr %slot
  %next = add i64 %block, 1
  %more = icmp ult i64 %next, %last
  br i1 %more, label %loop, label %done
done:
  ret void
}
define i32 @braze_run(ptr %context, ptr %inputs, ptr %outputs) {
entry:
  %out = load ptr, ptr %outputs
  %in = load ptr, ptr %inputs
  %rounds = load i64, ptr %in
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  %more = icmp ult i64 %i, %rounds
  br i1 %more, label %again, label %done
again:
  call void @braze_parallel(ptr %context, ptr @kernel, ptr %outputs, i64 BLOCKS)
  %next = add i64 %i, 1
  br label %loop
done:
  ret i32 0
}
"""
)


def _visits(target: Target, blocks: int, work: int) -> Executable:
    text = VISITS.replace("BLOCKS", str(blocks)).replace("WORK", str(work))
    signature = Signature(
        "visits", (TensorType((), I64),), (TensorType((blocks,), I64),), scratch_bytes=8, parallel=True
    )
    return Executable(engine.compile_object(text, target), signature)


def _run(program: Executable, rounds: int) -> None:
    """Every block exactly once a round; a scratch shared by two threads would show as a large number."""
    count, out = np.array(rounds, np.int64), np.zeros(program.signature.outputs[0].shape, np.int64)
    program.run([count.ctypes.data], [out.ctypes.data])
    np.testing.assert_array_equal(out, rounds)


@pytest.fixture(scope="module", params=["futex", "callbacks"])
def crowded(request: pytest.FixtureRequest) -> services.Services:
    """A pool of its own with three workers, on any machine."""
    made = services.load_services(callbacks=request.param == "callbacks")
    pool.start_workers(made, 3)
    return made


@pytest.fixture
def four_threads(crowded: services.Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable, "services", lambda: crowded)
    monkeypatch.setattr(pool, "start", lambda: 4)


@pytest.mark.usefixtures("four_threads")
class TestFourThreads:
    @pytest.mark.parametrize("blocks", [1, 2, 3, 127, 128, 1000, 100_003])
    def test_every_block_runs_once(self, host: Target, blocks: int) -> None:
        _run(_visits(host, blocks, 1), 3)

    def test_many_launches_in_a_row(self, host: Target) -> None:
        _run(_visits(host, 7, 20), 20_000)

    def test_launches_after_the_workers_went_to_sleep(self, host: Target) -> None:
        program = _visits(host, 16, 2000)
        for _ in range(30):
            _run(program, 2)
            threading.Event().wait(0.002)

    def test_several_callers_at_once(self, host: Target) -> None:
        shared, other = _visits(host, 50, 200), _visits(host, 3, 2000)
        with ThreadPoolExecutor(6) as callers:
            jobs = [callers.submit(_run, (shared, other)[i % 2], 200) for i in range(24)]
            for job in jobs:
                job.result()


def test_a_launch_of_no_blocks_calls_no_kernel(host: Target) -> None:
    text = (
        programs.DECLARATIONS
        + """
define void @kernel(ptr %buffers, i64 %first, i64 %last, ptr %scratch) {
  store i64 1, ptr null
  ret void
}
define i32 @braze_run(ptr %context, ptr %inputs, ptr %outputs) {
  call void @braze_parallel(ptr %context, ptr @kernel, ptr %outputs, i64 0)
  ret i32 0
}
"""
    )
    assert (
        Executable(engine.compile_object(text, host), Signature("none", (), (), parallel=True)).call([]) == []
    )


def test_workers_help(host: Target) -> None:
    """Some block runs in a scratch other than the caller's, once the pool is awake."""
    if pool.allowed_threads() < 2:
        pytest.skip("one CPU")
    program = programs.threads_seen(host, 64)
    for _ in range(200):
        (numbers,) = program.call([np.int64(20_000)])
        if len(set(numbers.tolist())) > 1:
            return
    pytest.fail("no worker ever took a ticket")


def test_the_knob_keeps_programs_on_the_caller(host: Target) -> None:
    with knobs.config(threads=1):
        assert pool.start() == 1
        program = programs.add_one(host, 100)
    assert program.descriptor.threads == 1
    programs.check_add_one(program)


def test_threads_follow_affinity() -> None:
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("no affinity here")
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from braze.runtime import pool; print(pool.start())"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "1\n"


def test_threads_follow_the_quota(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import builtins

    real = builtins.open
    for text, want in (("150000 100000", 2), ("max 100000", pool.MAX_WORKERS + 1), ("50000 100000", 1)):
        (tmp_path / "cpu.max").write_text(text + "\n")
        monkeypatch.setattr(
            "builtins.open",
            lambda p, *a, **k: real(tmp_path / "cpu.max" if p == "/sys/fs/cgroup/cpu.max" else p, *a, **k),
        )
        assert pool._quota() == want


def test_workers_are_pinned_apart() -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("no affinity here")
    workers = pool.start() - 1
    threads = services.services().variable("braze_pool_threads", ctypes.c_int32 * 256)
    places = [os.sched_getaffinity(threads[k]) for k in range(1, workers + 1)]
    assert all(len(place) == 1 for place in places)
    assert len({min(place) for place in places}) == workers


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:Exception ignored in.*_at_fork:pytest.PytestUnraisableExceptionWarning")
def test_a_forked_child_has_a_pool_of_its_own(host: Target) -> None:
    program = programs.add_one(host, 300)
    programs.check_add_one(program)
    child = os.fork()
    if child == 0:
        try:
            for seed in range(20):
                programs.check_add_one(program, seed)
            workers = services.services().variable("braze_pool_workers", ctypes.c_int32).value
            os._exit(0 if workers == pool.allowed_threads() - 1 else 2)
        except BaseException:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    programs.check_add_one(program)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:Exception ignored in.*_at_fork:pytest.PytestUnraisableExceptionWarning")
def test_fork_while_another_thread_runs_a_program(host: Target) -> None:
    program, stop = programs.add_one(host, 2000), threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            programs.check_add_one(program)

    thread = threading.Thread(target=keep_busy)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                try:
                    programs.check_add_one(program)
                    os._exit(0)
                except BaseException:
                    os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()
