"""Runs the pipeline: verifies, times, counts, tells observers, and writes a reproducer when a pass fails."""

from __future__ import annotations

import inspect
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from braze import knobs
from braze.errors import BrazeError, InternalError
from braze.hlo.ir import Module
from braze.passes.log import Log
from braze.passes.pipeline import PIPELINE, Pass
from braze.target import Target


@dataclass(slots=True)
class Step:
    """What one pass did: the module after it, whether it changed, rewrites by name, and seconds."""

    name: str
    module: Module
    changed: bool
    counts: Mapping[str, int]
    seconds: float


Observer = Callable[[Step], None]


def run(
    module: Module,
    target: Target,
    *,
    passes: Iterable[Pass] = PIPELINE,
    skip: Sequence[str] | None = None,
    fuel: int | None = None,
    fast_math: bool | None = None,
    verify: int | None = None,
    observe: Observer | None = None,
) -> Module:
    """The module after the passes; what is not given comes from the knobs.

    Raises: InternalError, which names the pass and the file that reproduces the fault.
    """
    skip = knobs.get("skip") if skip is None else skip
    log = Log(knobs.get("fuel") if fuel is None else fuel)
    fast_math = knobs.get("fast_math") if fast_math is None else fast_math
    level = knobs.get("verify") if verify is None else verify
    for row in passes:
        if row.name.split(".")[0] in skip or row.name in skip:
            continue
        before = dict(log.counts)
        start = time.perf_counter()
        after = _run_one(row, module, target, skip, fast_math, log, level)
        seconds = time.perf_counter() - start
        counts = {k: n - before.get(k, 0) for k, n in log.counts.items() if n != before.get(k, 0)}
        if observe is not None:
            observe(Step(row.name, after, after is not module, counts, seconds))
        module = after
    return module


def _run_one(
    row: Pass, module: Module, target: Target, skip: Sequence[str], fast_math: bool, log: Log, level: int
) -> Module:
    rules = tuple(name.removeprefix("simplify.") for name in skip if name.startswith("simplify."))
    offered = {"target": target, "skip": rules, "fast_math": fast_math, "log": log, **dict(row.options)}
    accepted = inspect.signature(row.run).parameters
    try:
        after = row.run(module, **{k: v for k, v in offered.items() if k in accepted})
        if level >= 2 and after is not module:
            from braze.hlo.verify import verify

            verify(after)
    except Exception as error:
        if isinstance(error, BrazeError) and not isinstance(error, AssertionError) and row.name == "inline":
            raise  # recursion in the user's module is the user's fault
        path = _write_reproducer(row, module)
        command = f"braze opt --passes={row.name} {path}"
        raise InternalError(
            f"{type(error).__name__}: {error}", stage=f"pass {row.name} of {module.name}", reproducer=command
        ) from error
    return after


def _write_reproducer(row: Pass, module: Module) -> Path:
    """The module before the failing pass, as text."""
    from braze.hlo.text import print_module

    folder = Path(knobs.get("dump") or tempfile.mkdtemp(prefix="braze-"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"reproducer.{row.name}.mlir"
    path.write_text(f"// braze opt --passes={row.name}\n{print_module(module)}\n")
    return path


def parse_passes(text: str) -> list[Pass]:
    """Rows from `cse,fusion(max_ops=8)`: names of the pipeline, with options in parentheses.

    Raises: ArgumentError for a pass or option that does not exist.
    """
    import ast

    from braze.errors import ArgumentError
    from braze.passes.pipeline import PASSES

    found: list[Pass] = []
    if not text.strip():
        return found
    try:
        calls = ast.parse(f"[{text.strip().strip(',')}]", mode="eval").body
    except SyntaxError:
        raise ArgumentError(f"passes: {text!r} is no list of passes.", hint="write cse,dce,fusion.") from None
    assert isinstance(calls, ast.List)
    for node in calls.elts:
        name_node = node.func if isinstance(node, ast.Call) else node
        name = ast.unparse(name_node)
        if name not in PASSES:
            raise ArgumentError(f"passes: {name!r} is not a pass.", hint=f"known: {', '.join(PASSES)}.")
        row = PASSES[name]
        options: dict[str, Any] = {}
        if isinstance(node, ast.Call):
            options = {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}
        unknown = set(options) - set(inspect.signature(row.run).parameters)
        if unknown:
            raise ArgumentError(f"passes: {name} has no option {', '.join(sorted(unknown))}.")
        found.append(Pass(row.name, row.run, row.why, row.after, tuple(options.items())))
    return found
