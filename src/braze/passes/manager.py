"""Runs the pipeline: verifies, times, counts, tells observers, and writes a reproducer when a pass fails."""

from __future__ import annotations

import ast
import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from braze import knobs
from braze.errors import ArgumentError, BrazeError, ConfigError, InternalError
from braze.hlo.ir import Module
from braze.passes.inline import inline
from braze.passes.log import Log
from braze.passes.pipeline import PASSES, PIPELINE, Pass
from braze.passes.simplify import RULE_NAMES
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
    log: Log | None = None,
) -> Module:
    """The module after the passes; what is not given comes from the knobs.

    Args:
        log: takes the counts and fusion's decisions; its fuel counts in place of `fuel`.

    Raises: InternalError, which names the pass and the file that reproduces the fault.
    """
    skip = knobs.get("skip") if skip is None else skip
    log = Log(knobs.get("fuel") if fuel is None else fuel) if log is None else log
    fast_math = knobs.get("fast_math") if fast_math is None else fast_math
    level = knobs.get("verify") if verify is None else verify
    _check_names(skip)
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


def _check_names(skip: Sequence[str]) -> None:
    """Raise ConfigError for a name that is neither a pass nor a rule."""
    for name in skip:
        kind, _, rule = name.partition(".")
        if name not in PASSES and not (kind == "simplify" and rule in RULE_NAMES):
            raise ConfigError(
                f"skip: {name} is no pass and no rule.",
                hint="braze opt --list shows the passes; a rule is written as in simplify.neg_neg.",
            )


def _run_one(
    row: Pass, module: Module, target: Target, skip: Sequence[str], fast_math: bool, log: Log, level: int
) -> Module:
    rules = tuple(name.removeprefix("simplify.") for name in skip if name.startswith("simplify."))
    offered = {"target": target, "skip": rules, "fast_math": fast_math, "log": log, **dict(row.options)}
    accepted = inspect.signature(row.run).parameters
    fuel = log.fuel
    try:
        after = row.run(module, **{k: v for k, v in offered.items() if k in accepted})
        if level >= 2 and after is not module:
            from braze.hlo.verify import verify

            verify(after)
    except Exception as error:
        if isinstance(error, BrazeError) and row.run is inline:
            raise  # recursion in the user's module is the user's fault
        from braze.passes.reproducer import pass_reproducer

        command = pass_reproducer(row, module, {"skip": skip, "fast_math": fast_math, "fuel": fuel})
        raise InternalError(
            f"{type(error).__name__}: {error}", stage=f"pass {row.name} of {module.name}", reproducer=command
        ) from error
    return after


def parse_passes(text: str) -> list[Pass]:
    """Rows from `cse,fusion(max_ops=8)`: names of the pipeline, with options in parentheses.

    Raises: ArgumentError for a pass or option that does not exist, or a value that it does not take.
    """
    text = text.strip().strip(",")
    if not text:
        return []
    try:
        nodes = ast.parse(f"({text},)", mode="eval").body
    except SyntaxError:
        nodes = None
    if not isinstance(nodes, ast.Tuple):
        raise ArgumentError(
            f"passes: {text!r} is no list of passes.", hint="write cse,dce or fold(max_bytes=64)."
        )
    return [_parsed_row(node) for node in nodes.elts]


def _parsed_row(node: ast.expr) -> Pass:
    name = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    if name not in PASSES:
        raise ArgumentError(f"passes: {name!r} is not a pass.", hint=f"known: {', '.join(PASSES)}.")
    row = PASSES[name]
    if not isinstance(node, ast.Call):
        return row
    if node.args:
        raise ArgumentError(f"passes: {ast.unparse(node)} gives an option without its name.")
    defaults = {
        n: p.default for n, p in inspect.signature(row.run).parameters.items() if n in options_of(row)
    }
    options = {}
    for keyword in node.keywords:
        if keyword.arg not in defaults:
            known = ", ".join(defaults) or "none"
            raise ArgumentError(f"passes: {name} has no option {keyword.arg}.", hint=f"it has {known}.")
        options[keyword.arg] = _option(keyword, defaults[keyword.arg], name)
    return replace(row, options=tuple(options.items()))


def _option(keyword: ast.keyword, default: Any, name: str) -> Any:
    """The value of an option, of the type of its default."""
    try:
        value = ast.literal_eval(keyword.value)
    except ValueError:
        value = None
    wanted = (int, float) if isinstance(default, float) else type(default)
    if not isinstance(value, wanted):
        shown = ast.unparse(keyword)
        raise ArgumentError(f"passes: {name}({shown}): the value has to be of type {type(default).__name__}.")
    return value


def options_of(row: Pass) -> list[str]:
    """The names of a pass's options: its keywords, without those that the manager fills in."""
    names = inspect.signature(row.run).parameters
    return [name for name in names if name not in ("module", "target", "log")]
