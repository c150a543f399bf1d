"""What machine code knows of this interpreter, and what happens where it knows too little."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from call_programs import array, entry, function, using

from braze.runtime import array as arrays
from braze.runtime import dispatch, layout, native
from braze.runtime.irtext import Module


def test_this_interpreter_passes_the_self_test() -> None:
    assert layout.unsupported() is None and layout.check(layout.layout()) is None
    assert native.why_not() is None


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(layout.Layout)])
def test_the_self_test_sees_every_wrong_offset(name: str) -> None:
    if name == "list_items":
        pytest.skip("a wrong pointer would be followed")
    right = layout.layout()
    shift = 8 if name in ("dims", "strides") else -8
    wrong = dataclasses.replace(right, **{name: getattr(right, name) + shift})
    if name in ("dims", "strides"):  # pointers too: exchange them, as both lead to readable memory
        wrong = dataclasses.replace(right, dims=right.strides, strides=right.dims)
    assert layout.check(wrong) is not None


FALLBACK = """
import braze.runtime.{module} as module
{patch}
from braze.runtime import array, dispatch, native
import numpy as np
assert native.load() is None
made = array.from_numpy(np.arange(3.0), copy=True)
assert array.implementation().name == dispatch.implementation().name == "python"
assert array.to_numpy(made).tolist() == [0, 1, 2]
f = dispatch.make_function(lambda x: x, lambda x: x)
assert f(made) is made
"""


@pytest.mark.parametrize(
    ("module", "patch"),
    [
        ("layout", "module._check_numbers = lambda at: 'the value of a float'"),
        ("layout", "module.object = type('object', (), {'__basicsize__': 32})"),
        ("layout", "module.sys = type('sys', (), {'implementation': type('i', (), {'name': 'pypy'})})"),
        ("array", "import sys; sys.modules['llvmlite'] = None"),
    ],
    ids=["unknown layout", "free-threaded", "another interpreter", "no llvmlite"],
)
def test_python_takes_over(module: str, patch: str) -> None:
    run(FALLBACK.format(module=module, patch=patch))


def run(code: str) -> str:
    """What another interpreter prints; it may not complain."""
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, [os.environ.get("PYTHONPATH")])])
    made = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert made.returncode == 0, (made.returncode, made.stderr)
    assert not made.stderr, made.stderr
    return made.stdout


EXIT = """
import atexit, sys, threading, weakref
import numpy as np
from call_programs import array, descriptor, entry, function, values
from braze.runtime import array as arrays

x = arrays.from_numpy(np.ones(1000, np.float32), copy=True)
f = function(entry(array(1, 2, 3, 4)))
f.cycle = f, x

class Late:
    def __init__(self):
        self.array, self.function, self.view = array(1, 2, 3, 4), f, np.asarray(x)

    def __del__(self):
        result = self.function(self.array)
        result.aval.shape, self.view.tobytes()

def last():
    assert values(f(array(1, 2, 3, 4))) == [2, 3, 4, 5]

atexit.register(last)
late, sys.late = Late(), Late()

free = function(entry(x, program=descriptor("increment_many", 1, 1, flags=1), results=(x.aval,)))
slow = function(slow=lambda value: sum(range(100)))

def forever(made):
    while True:
        made(x)

for made in f, free, slow, slow:
    threading.Thread(target=forever, args=(made,), daemon=True).start()
import builtins
builtins.kept = [arrays.to_numpy(array(1)), f, Late()]
print("end", flush=True)
"""


def test_the_interpreter_ends_cleanly() -> None:
    for _ in range(20):
        assert run(EXIT) == "end\n"


NO_MEMORY = """
import resource
import numpy as np
from call_programs import descriptor, entry, function
from braze import dtypes
from braze.errors import AllocationError, DeletedArrayError
from braze.runtime import array as arrays
from braze.types import TensorType

aval = TensorType((1 << 26,), dtypes.F32)
own = arrays.empty(aval)[0]
foreign = arrays.from_numpy(np.zeros(aval.shape, np.float32), copy=False)
f = function(entry(own, foreign, results=(aval, aval), result=(0, 0), donated=(0, 1), aliases={0: 0, 1: 1}))
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20),) * 2)
try:
    f(own, foreign)
except AllocationError as error:
    print(error.message)
for x in own, foreign:
    try:
        arrays.to_numpy(x)
    except DeletedArrayError:
        print("deleted", arrays.readers(x))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_copy_for_donation_that_cannot_be_had() -> None:
    # The first array has given its memory away by then, so both are gone and nothing reads freed memory.
    assert run(NO_MEMORY).splitlines() == [
        "array: 268435456 bytes could not be allocated.",
        "deleted 0",
        "deleted 0",
    ]


FORK = """
import os, threading, warnings
from call_programs import array, entry, function, values
from braze import knobs
from braze.runtime import gate

x = array(1, 2, 3, 4)
made = function(entry(x))
inside, leave = threading.Event(), threading.Event()

def other():
    with knobs.config(x64=True):
        inside.set()
        leave.wait()

thread = threading.Thread(target=other)
thread.start()
inside.wait()
assert gate.WORDS.mode == 1
warnings.simplefilter("ignore", DeprecationWarning)  # of 3.12: a process with threads forks
child = os.fork()
if child == 0:
    # The thread under other settings does not exist here, so the gate is open again.
    good = gate.WORDS.mode == 0 and values(made(x)) == [2, 3, 4, 5]
    os._exit(0 if good else 1)
leave.set()
thread.join()
assert os.waitpid(child, 0)[1] == 0 and values(made(x)) == [2, 3, 4, 5]
print("both")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_calls_go_on_after_a_fork() -> None:
    assert run(FORK) == "both\n"


def test_the_code_is_made_once_for_threads_that_ask_together() -> None:
    assert (
        run(
            """
import threading
from braze.runtime import native
found = []
threads = [threading.Thread(target=lambda: found.append(native.load())) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(set(map(id, found))), found[0] is not None)
"""
        )
        == "1 True\n"
    )


def test_importing_arrays_and_calls_imports_no_llvm() -> None:
    out = run("import sys; from braze.runtime import array, dispatch, gate; print('llvmlite' in sys.modules)")
    assert out == "False\n"


def test_the_code_holds_no_address() -> None:
    text = native.text(layout.layout())
    assert "inttoptr" not in text
    for value in (*native.OBJECTS.values(), np.add):
        assert str(id(value)) not in text


def test_functions_may_be_called_before_they_are_written() -> None:
    module = Module()
    f = module.function("first", "void")
    f.call("void", "second")
    f.call("ptr", "outside", "i64 1")
    f.ret()
    g = module.function("second", "void")
    g.ret()
    assert "declare ptr @outside(i64)" in module.text() and "declare void @second" not in module.text()


def test_arrays_of_the_other_type_take_the_slow_way() -> None:
    with using("native"):
        made = function(entry(array(1, 2, 3, 4)))
    with using("python"):
        x = array(1, 2, 3, 4)
    assert made(x) == "slow"
    kinds: list[Any] = list(arrays.array_types())
    assert len(kinds) == 2 and dispatch.is_function(made)


def test_dead_arrays_are_used_again_and_only_some_are_kept() -> None:
    program = """
import gc, sys
import numpy as np
from braze.runtime import native
from braze.runtime.array_native import KEPT
from braze.types import TensorType

arrays = native.load().arrays

def make(count, value):
    return arrays.copy(TensorType((count,), np.dtype("u1")), np.full(count, value, "u1"))

sizes = [0, 64, 65, 256, 257] * KEPT
made = [make(n, 7) for n in sizes]
kind = sys.getrefcount(arrays.kind)
del made
assert sys.getrefcount(arrays.kind) == kind - len(sizes)
blocks = sys.getallocatedblocks()
again = [make(n, i % 251) for i, n in enumerate(sizes)]
for i, n in enumerate(sizes):
    assert arrays.numpy(again[i]).tolist() == [i % 251] * n
    assert sys.getrefcount(again[i]) == 2
del again
assert sys.getallocatedblocks() <= blocks + 20
print("kept")
"""
    assert run(program).strip() == "kept"
