"""Inlining: every call is replaced by the body of what it calls, so that later passes see one function."""

from __future__ import annotations

from collections.abc import Sequence

from braze.errors import VerificationError
from braze.hlo.ir import Function, Instruction, Module, Region, Value
from braze.passes.copying import Env, Walk, copy_instructions, with_region
from braze.passes.log import Log


def inline(module: Module, *, log: Log | None = None) -> Module:
    """Replace calls by bodies and drop the private functions that nobody calls any more.

    Raises: VerificationError for functions that call each other in a circle, which StableHLO forbids.
    """
    inliner = _Inliner(log or Log())
    for name in _callees_first(module):
        function = module.functions[name]
        region = inliner.region(function.region, {})
        inliner.done[name] = function if region is function.region else with_region(function, region)
    functions = _called({name: inliner.done[name] for name in module.functions}, inliner.log)
    same = len(functions) == len(module.functions) and all(
        function is module.functions[name] for name, function in functions.items()
    )
    return module if same else Module(functions, module.name, module.attrs)


class _Inliner(Walk):
    """Inlines into one function after the other; `done` are those whose calls are gone already."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.done: dict[str, Function] = {}

    def instruction(
        self, new: Instruction, old: Instruction, made: list[Instruction]
    ) -> Sequence[Value | None]:
        if new.op.hlo != "call" or self.log.exhausted:
            return super().instruction(new, old, made)
        self.log.count("call")
        callee = self.done[new.attrs["callee"]].region
        env: Env = dict(zip(callee.parameters, new.operands, strict=True))
        made.extend(copy_instructions(callee.instructions, env))
        return [env[v] for v in callee.results]


def _called(functions: dict[str, Function], log: Log) -> dict[str, Function]:
    """The functions without the private ones that nobody calls."""
    called = {callee for f in functions.values() for callee in _calls(f.region)}
    kept = {}
    for name, function in functions.items():
        if function.public or name in called or log.exhausted:
            kept[name] = function
        else:
            log.count("unused_function")
    return kept


def _calls(region: Region) -> list[str]:
    found = []
    pending = [region]
    while pending:
        for instruction in pending.pop().instructions:
            if instruction.op.hlo == "call":
                found.append(instruction.attrs["callee"])
            pending.extend(instruction.regions)
    return found


def _callees_first(module: Module) -> list[str]:
    """Function names so that what is called stands before its callers."""
    order: list[str] = []
    left: dict[str, bool] = {}  # False while its callees are being visited
    stack: list[tuple[str, bool]] = [(name, False) for name in reversed(module.functions)]
    while stack:
        name, leaving = stack.pop()
        if leaving:
            left[name] = True
            order.append(name)
        elif name not in left:
            left[name] = False
            stack.append((name, True))
            for callee in _calls(module.functions[name].region):
                if left.get(callee) is False:
                    raise VerificationError(
                        f"call: {callee} calls itself, through {name}; recursion has no end here."
                    )
                if callee not in left:
                    stack.append((callee, False))
    return order
