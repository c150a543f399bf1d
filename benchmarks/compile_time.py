"""Microseconds per operation of every stage from Python to LLVM IR, on generated programs of growing size.

    python -m benchmarks.compile_time [operations ...]        default: 10000 40000

The program is half chain, half tree: a chain of elementwise steps, each on the one before, and products that
are added in pairs until one is left. Stages up to lowering count equations, later ones HLO instructions. One
pinned core; the least of `ROUNDS` runs, since other programs only ever add time. JAX's trace and lowering of
the same program stand beside it where JAX is installed.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import braze as bz
import braze.numpy as bnp
from braze.hlo.ir import Module, walk
from braze.passes import manager
from braze.passes.fusion import fusion
from braze.passes.pipeline import PIPELINE
from braze.program.assign import assign
from braze.program.schedule import schedule
from braze.stages import native
from braze.targets.host import host

ROUNDS = 3
SIZES = (10_000, 40_000)


def chain_and_tree(np_like: Any, operations: int) -> Callable[..., Any]:
    """A function of two vectors that applies about so many operations of an array library."""

    def program(x: Any, y: Any) -> Any:
        value, leaves = x, []
        for i in range(operations // 8):
            value = value * y + x if i % 4 else np_like.sin(value) * y
            value = value - np_like.maximum(x, value)
            leaves += [value * y, value + x]  # all different, or CSE would fold the tree
        while len(leaves) > 1:
            odd = leaves[len(leaves) & ~1 :]
            leaves = [a + b for a, b in zip(leaves[::2], leaves[1::2])] + odd
        return leaves[0]

    return program


def stages(operations: int) -> dict[str, float]:
    """Seconds of every stage, and `equations` and `instructions`, the operations that they count."""
    x = np.linspace(0.1, 0.9, 64, dtype=np.float32)
    found: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        gc.collect()
        start = time.perf_counter()
        result = work()
        found[name] = time.perf_counter() - start
        return result

    traced = timed("trace", lambda: bz.jit(chain_and_tree(bnp, operations)).trace(x, x))
    module = timed("lower", traced.lower).module
    found["equations"] = len(traced.jaxpr.jaxpr.eqns)
    found["instructions"] = count(module)
    steps: list[manager.Step] = []
    passes = [row for row in PIPELINE if row.name != "fusion"]
    gc.collect()
    module = manager.run(module, host(), passes=passes, verify=0, observe=steps.append)
    found |= {f"pass {step.name}": step.seconds for step in steps}
    fused = timed("pass fusion", lambda: fusion(module, target=host()))
    scheduled = timed("schedule and build", lambda: schedule(fused, host()))
    program = timed("assign", lambda: assign(scheduled))
    timed("print", lambda: native.emit(program, host()))
    return found


def count(module: Module) -> int:
    return sum(1 for function in module.functions.values() for _ in walk(function.region))


def jax_stages(operations: int) -> dict[str, float]:
    """Seconds of JAX's trace and lowering."""
    import jax

    x = np.linspace(0.1, 0.9, 64, dtype=np.float32)
    wrapped = jax.jit(chain_and_tree(jax.numpy, operations))
    start = time.perf_counter()
    traced = wrapped.trace(x, x)
    middle = time.perf_counter()
    traced.lower()
    return {"trace": middle - start, "lower": time.perf_counter() - middle}


def least(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: min(one[name] for one in rounds) for name in rounds[0]}


BEFORE_LOWERING = ("trace", "lower")


def table(sizes: tuple[int, ...], with_jax: bool) -> str:
    """Rows of stages, a column of microseconds per operation for each size."""
    ours = [least([stages(n) for _ in range(ROUNDS)]) for n in sizes]
    theirs = [least([jax_stages(n) for _ in range(ROUNDS)]) for n in sizes] if with_jax else []

    def row(name: str, values: list[float]) -> str:
        return f"{name:28}" + "".join(f"{v:12.1f}" for v in values)

    def per_operation(name: str, one: dict[str, float]) -> float:
        return 1e6 * one[name] / one["equations" if name in BEFORE_LOWERING else "instructions"]

    names = [name for name in ours[0] if name not in ("equations", "instructions")]
    lines = [f"{'µs per operation':28}" + "".join(f"{int(one['instructions']):>12}" for one in ours)]
    lines += [row(name, [per_operation(name, one) for one in ours]) for name in names]
    groups = {
        "all passes before fusion": [n for n in names if n.startswith("pass") and n != "pass fusion"],
        "all passes": [n for n in names if n.startswith("pass")],
        "program, build, print": ["schedule and build", "assign", "print"],
    }
    for title, parts in groups.items():
        lines.append(row(title, [sum(per_operation(n, one) for n in parts) for one in ours]))
    for name in BEFORE_LOWERING if theirs else ():
        per = [1e6 * t[name] / one["equations"] for t, one in zip(theirs, ours)]
        lines.append(row(f"JAX {name}", per))
    return "\n".join(lines)


def main() -> None:
    sizes = tuple(int(arg) for arg in sys.argv[1:] if arg.isdigit()) or SIZES
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        import jax  # noqa: F401
    except ImportError:
        print(table(sizes, with_jax=False))
    else:
        print(table(sizes, with_jax=True))


if __name__ == "__main__":
    main()
