"""Executables: types checked, memory copied where it must be, callbacks, threads, signals."""

from __future__ import annotations

import ctypes
import gc
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import native_programs as programs
import numpy as np
import pytest

from braze.dtypes import F32, I32
from braze.errors import AllocationError, ArgumentError, DTypeError, InternalError, ShapeError
from braze.runtime import allocator, engine
from braze.runtime.context import HostCallback
from braze.runtime.descriptor import Descriptor
from braze.runtime.executable import Executable, Signature
from braze.runtime.services import services
from braze.target import Target
from braze.types import TensorType


def test_descriptor_has_the_documented_offsets() -> None:
    names = ("entry", "arena_bytes", "scratch_bytes", "threads", "flags", "host", "inputs", "outputs")
    assert [getattr(Descriptor, name).offset for name in names] == list(range(0, 64, 8))


@pytest.mark.parametrize("parallel", [False, True])
def test_results_are_right(host: Target, parallel: bool) -> None:
    programs.check_add_one(programs.add_one(host, 100, parallel=parallel))


def test_operands_that_machine_code_cannot_read_are_copied(host: Target) -> None:
    program = programs.add_one(host, 2)
    plain = np.arange(128, dtype=np.float32)
    strided = np.repeat(plain, 2)[::2]
    swapped = plain.astype(">f4")
    raw = np.empty(4 * 128 + 1, np.uint8)
    misaligned = raw[1:].view(np.float32)
    misaligned[...] = plain
    for array in (plain, strided, swapped, misaligned, plain[::-1][::-1]):
        np.testing.assert_array_equal(program.call([array])[0], plain + 1)


def test_arguments_that_do_not_fit_are_errors(host: Target) -> None:
    program = programs.add_one(host, 2)
    with pytest.raises(ArgumentError, match=r"add_one: 2 arguments were given and 1 are wanted"):
        program.call([np.zeros(128), np.zeros(128)])
    with pytest.raises(ShapeError, match=r"argument 0 has shape \(3,\), and \(128,\) is wanted"):
        program.call([np.zeros(3, np.float32)])
    with pytest.raises(DTypeError, match=r"argument 0 has dtype float64, and f32\[128\] is wanted"):
        program.call([np.zeros(128)])


def test_temporaries_that_do_not_fit_are_a_memory_error(host: Target) -> None:
    scalar = TensorType((), I32)
    text = programs.DECLARATIONS + "define i32 @braze_run(ptr %c, ptr %i, ptr %o) {\n  ret i32 0\n}"
    program = Executable(
        engine.compile_object(text, host), Signature("vast", (), (scalar,), arena_bytes=1 << 45)
    )
    with pytest.raises(AllocationError, match="vast: 35,184,372,088,832 bytes are wanted for temporaries"):
        program.call([])


def test_a_status_without_an_exception_is_an_internal_error(host: Target) -> None:
    text = "define i32 @braze_run(ptr %c, ptr %i, ptr %o) {\n  ret i32 2\n}"
    program = Executable(engine.compile_object(text, host), Signature("broken", (), ()))
    with pytest.raises(InternalError, match="broken ended with status 2"):
        program.call([])


def test_short_programs_keep_the_gil_and_others_do_not(host: Target) -> None:
    image = engine.compile_object("define i32 @braze_run(ptr %c, ptr %i, ptr %o) {\n  ret i32 0\n}", host)
    short = Signature("short", (), ())
    assert not Executable(image, short).releases_gil
    assert Executable(image, replace(short, seconds=1e-3)).releases_gil
    assert Executable(image, replace(short, loops=True)).releases_gil
    assert Executable(image, replace(short, parallel=True)).releases_gil
    assert Executable(image, short, [HostCallback(print, ())]).releases_gil


def test_other_threads_run_while_a_loop_does(host: Target) -> None:
    program = programs.count(host)
    rounds = np.int64(30_000_000)
    thread = threading.Thread(target=program.call, args=([rounds],))
    thread.start()
    steps = 0
    while thread.is_alive():
        steps += 1
        time.sleep(0.001)
    assert steps > 5


def test_four_threads_run_one_program(host: Target) -> None:
    program, counter = programs.add_one(host, 500), programs.count(host)

    def work(seed: int) -> None:
        for step in range(100):
            programs.check_add_one(program, 1000 * seed + step)
            assert counter.call([np.int64(step)])[0] == step

    with ThreadPoolExecutor(4) as executor:
        for job in [executor.submit(work, seed) for seed in range(4)]:
            job.result()


def test_memory_in_use_stays_level_over_calls(host: Target) -> None:
    program, counter = programs.add_one(host, 10), programs.count(host)
    x = np.zeros(640, np.float32)
    program.call([x])
    counter.call([np.int64(3)])
    gc.collect()
    before = allocator.heap_info()
    for _ in range(5000):
        program.call([x])
        counter.call([np.int64(3)])
    assert allocator.heap_info() == before


# --- callbacks ----------------------------------------------------------------------------------------
def test_callbacks_give_results(host: Target) -> None:
    assert programs.call_back(host, lambda x: 2 * x).call([np.int32(20)])[0] == 41


def test_callbacks_may_keep_their_operands(host: Target) -> None:
    kept: list[np.ndarray] = []
    program = programs.call_back(host, lambda x: kept.append(x) or x)
    for value in range(5):
        program.call([np.int32(value)])
    assert [int(array) for array in kept] == [0, 1, 2, 3, 4]


def test_an_exception_in_a_callback_comes_out_with_its_traceback(host: Target) -> None:
    def mine(x: np.ndarray) -> np.ndarray:
        raise KeyError("from the user")

    program = programs.call_back(host, mine)
    used = allocator.heap_info().used
    for _ in range(3):
        with pytest.raises(KeyError, match="from the user") as caught:
            program.call([np.int32(1)])
        assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "mine"
        del caught
    gc.collect()
    assert allocator.heap_info().used == used
    assert programs.call_back(host, lambda x: x).call([np.int32(1)])[0] == 2


def test_a_callback_may_call_the_same_program(host: Target) -> None:
    def factorial(x: np.ndarray) -> int:
        return int(x) * (int(program.call([np.int32(x - 1)])[0]) - 1) if x > 1 else 1

    program = programs.call_back(host, factorial)
    assert program.call([np.int32(6)])[0] == 721


def test_what_a_callback_returns_is_checked(host: Target) -> None:
    def call(result: object) -> None:
        programs.call_back(host, lambda x: result).call([np.int32(1)])

    with pytest.raises(ShapeError, match="it returned 2 values and 1 were promised"):
        call((1, 2))
    with pytest.raises(ShapeError, match=r"result 0 has shape \(2,\), and \(\) was promised"):
        call(np.zeros(2, np.int32))
    with pytest.raises(DTypeError, match=r"result 0 has dtype float64, and i32\[\] was promised"):
        call(1.5)


def test_references_stay_level_over_callbacks(host: Target) -> None:
    import sys

    def function(x: np.ndarray) -> np.ndarray:
        return x

    program = programs.call_back(host, function)
    before = sys.getrefcount(function), sys.getrefcount(None)
    for _ in range(1000):
        program.call([np.int32(1)])
    after = sys.getrefcount(function), sys.getrefcount(None)
    assert after[0] == before[0]
    assert abs(after[1] - before[1]) < 50


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C as in a terminal: a process started in the background of a shell ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# --- signals ------------------------------------------------------------------------------------------
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_a_long_loop_and_leaves_everything_usable(host: Target) -> None:
    program = programs.count(host)
    used = allocator.heap_info().used
    for _ in range(3):
        threading.Timer(0.05, signal.raise_signal, (signal.SIGINT,)).start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            program.call([np.int64(1 << 50)])
        assert time.monotonic() - started < 5
    gc.collect()
    assert allocator.heap_info().used == used
    assert program.call([np.int64(1000)])[0] == 1000
    programs.check_add_one(programs.add_one(host, 100))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_a_handler_that_returns_does_not_stop_a_loop(host: Target) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        program, rounds = programs.count(host), 1 << 20
        while len(seen) < 3:
            assert program.call([np.int64(rounds)])[0] == rounds
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("ctrl_c")
def test_signals_are_left_to_the_main_thread(host: Target) -> None:
    program, outcome = programs.count(host), []

    def work() -> None:
        outcome.append(program.call([np.int64(20_000_000)])[0])

    thread = threading.Thread(target=work)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
        time.sleep(1)
    thread.join()
    assert outcome == [20_000_000]


def test_native_code_calls_by_descriptor_alone(host: Target) -> None:
    """What the machine-code dispatcher does: `braze_call` on the descriptor's address."""
    program = programs.add_one(host, 1)
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    inputs, outputs = (ctypes.c_uint64 * 1)(x.ctypes.data), (ctypes.c_uint64 * 1)(out.ctypes.data)
    call = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        services().symbols["braze_call"]
    )
    assert call(ctypes.addressof(program.descriptor), inputs, outputs) == 0
    assert program.signature.outputs == (TensorType((64,), F32),)
    assert (out == 2).all()
