"""Nanoseconds per call of a jitted function, beside a Python function that does nothing.

    python -m benchmarks.calls

The programs do next to nothing, so the numbers are the price of the call: arguments recognised, results made
and freed. Rounds are interleaved and the least of them is given, since other programs only ever add time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from braze import core, dtypes, tree
from braze.runtime import array as arrays
from braze.runtime import dispatch, engine
from braze.runtime.descriptor import RELEASES_GIL, Descriptor
from braze.runtime.services import services
from braze.target import Target
from braze.types import TensorType

ROUNDS, CALLS = 15, 20_000
F4 = TensorType((4,), dtypes.F32)


def program(leaves: int) -> str:
    """An entry that adds one to the first elements of so many arrays, `min(elements, 4)` of each."""
    body = "".join(
        f"  %a{i} = getelementptr ptr, ptr %in, i64 {i}\n  %p{i} = load ptr, ptr %a{i}\n"
        f"  %x{i} = load float, ptr %p{i}\n  %y{i} = fadd float %x{i}, 1.0\n"
        f"  %b{i} = getelementptr ptr, ptr %out, i64 {i}\n  %q{i} = load ptr, ptr %b{i}\n"
        f"  store float %y{i}, ptr %q{i}\n"
        for i in range(leaves)
    )
    return f"define i32 @add{leaves}(ptr %context, ptr %in, ptr %out) {{\n{body}  ret i32 0\n}}\n"


def function(library: engine.Library, *args: Any, result: Any, flags: int = 0) -> Callable[..., Any]:
    """A function with one entry, for arguments like these."""
    leaves = [leaf for arg in args for leaf in tree.leaves(arg)]
    tests = [dispatch.leaf_for(leaf, i) for i, leaf in enumerate(leaves)]
    count = len(tree.leaves(result))
    made: Callable[..., Any] = dispatch.make_function(_missed, _missed)
    entry = dispatch.Entry(
        positional=len(args),
        keywords=(),
        arguments=tuple(map(tree.structure, args)),
        leaves=tuple(test for test in tests if test is not None),
        results=tuple(core.typeof(leaf) for leaf in leaves[:count]),
        result=tree.structure(result),
        descriptor=Descriptor(library.address(f"add{count}"), 0, 0, 1, flags, None, len(leaves), count),
    )
    dispatch.add_entry(made, entry)
    return made


def _missed(*args: Any) -> None:
    raise AssertionError("the entry is for these arguments")


def measure(call: Callable[..., Any], args: tuple[Any, ...]) -> float:
    begin = time.perf_counter_ns()
    for _ in itertools.repeat(None, CALLS):
        call(*args)
    return (time.perf_counter_ns() - begin) / CALLS


def main() -> None:
    text = "".join(map(program, (1, 4)))
    target = Target("cpu", triple=engine.process_triple())
    library = engine.load(engine.compile_object(text, target), services().symbols, "benchmark")
    x = arrays.from_numpy(np.ones(4, np.float32), copy=True)
    large = arrays.from_numpy(np.ones(1024, np.float32), copy=True)
    four, data = dict.fromkeys("abcd", x), np.ones(4, np.float32)
    cases: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "a Python function that does nothing": (lambda x: None, (x,)),
        "array -> array": (function(library, x, result=0), (x,)),
        "array of 4 KB -> array of 4 KB": (function(library, large, result=0), (large,)),
        "ndarray -> array": (function(library, data, result=0), (data,)),
        "float -> array": (function(library, 1.5, result=0), (1.5,)),
        "4 arrays -> 4 arrays": (function(library, x, x, x, x, result=(0, 0, 0, 0)), (x, x, x, x)),
        "dict of 4 -> dict of 4": (function(library, four, result=four), (four,)),
        "array -> array, GIL released": (function(library, x, result=0, flags=RELEASES_GIL), (x,)),
        "to_numpy": (arrays.to_numpy, (x,)),
        "np.asarray": (np.asarray, (x,)),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, (call, args) in cases.items():
            times[name].append(measure(call, args))
    nothing = min(times[next(iter(cases))])
    for name, measured in times.items():
        print(f"{name:38} {min(measured):7.1f} ns {min(measured) / nothing:6.2f}")


if __name__ == "__main__":
    main()
