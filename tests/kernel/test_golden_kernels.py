"""Golden kernels: text, evaluator, machine code and NumPy agree, at all sizes, between guard pages."""

import ctypes
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from tests.golden import compare
from tests.kernel.guard import Guarded
from tests.kernel.kernels import CASES
from tests.targets.run import Machine, same

from braze.kernel.check import check
from braze.kernel.evaluate import evaluate
from braze.kernel.parse import parse_kernel
from braze.kernel.text import equal, print_kernel

GOLDENS = Path(__file__).parent / "goldens"
SIZES = [(name, sizes) for name, case in CASES.items() for sizes in (*case.sizes, case.golden)]


@pytest.mark.parametrize("name", CASES)
def test_text_is_golden_and_reads_back(name, bless):
    kernel = CASES[name].make(*CASES[name].golden)
    text = print_kernel(kernel)
    compare(GOLDENS / f"{name}.kernel", text, bless)
    assert print_kernel(parse_kernel(text)) == text
    assert equal(parse_kernel(text), kernel)


@pytest.mark.parametrize(
    "name, sizes", SIZES, ids=lambda v: v if isinstance(v, str) else "x".join(map(str, v))
)
def test_evaluator_machine_code_and_numpy_agree(name, sizes):
    case = CASES[name]
    kernel = case.make(*sizes)
    check(kernel)
    buffers, wanted = case.inputs(*sizes, np.random.default_rng(3))
    expected = [b.copy() for b in buffers]
    evaluate(kernel, expected)
    # The parsed kernel is the same program, not only the same text.
    again = [b.copy() for b in buffers]
    evaluate(parse_kernel(print_kernel(kernel)), again)
    for x, y in zip(expected[-len(wanted) :], wanted):
        np.testing.assert_allclose(x, y, rtol=case.tolerance, atol=0)
    machine = Machine(kernel)
    for front in (False, True):
        guarded = [Guarded(b, front=front) for b in buffers]
        machine([g.array for g in guarded])
        for memory, x, y, z in zip(kernel.parameters, expected, again, guarded):
            assert same(x, y).all(), f"{memory.name}: the parsed kernel computes something else"
            assert same(x, z.array).all(), f"{memory.name}: the machine code computes something else"


def test_blocks_may_run_apart():
    case = CASES["column_sum"]
    kernel = case.make(5, 203)
    buffers, (wanted,) = case.inputs(5, 203, np.random.default_rng(3))
    machine = Machine(kernel)
    for first in (4, 0, 6, 2, 5, 1, 3):
        machine(buffers, first, first + 1)
    assert (buffers[-1] == wanted).all()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mprotect"), reason="guard pages need mprotect")
def test_guard_pages_catch_an_access_outside():
    script = """
        import numpy as np
        from tests.kernel.guard import Guarded
        from tests.kernel.kernels import CASES
        from tests.targets.run import Machine
        case = CASES["cumsum"]
        buffers, _ = case.inputs(16, np.random.default_rng(3))
        guarded = [Guarded(b[:15]) for b in buffers]
        print("ready", flush=True)
        Machine(case.make(16))([g.array for g in guarded])
    """
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=root, capture_output=True, text=True
    )
    assert done.stdout == "ready\n", done.stderr
    assert done.returncode < 0, "the access outside the array went unnoticed"
