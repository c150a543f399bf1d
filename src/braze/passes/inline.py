"""Inlining: every call is replaced by the body of what it calls, so that later passes see one function."""

from __future__ import annotations

from braze.errors import VerificationError
from braze.hlo.ir import Function, Instruction, Module, Region
from braze.passes.copying import Env, copy_instructions, remade, with_region
from braze.passes.log import Log


def inline(module: Module, *, log: Log | None = None) -> Module:
    """Replace calls by bodies and drop the private functions that nobody calls any more.

    Raises: VerificationError for functions that call each other in a circle, which StableHLO forbids.
    """
    log = log or Log()
    if not any(_calls(f.region) for f in module.functions.values()):
        return _only_public(module)
    done: dict[str, Function] = {}
    for name in _callees_first(module):
        function = module.functions[name]
        region = _inlined(function.region, done, {}, log)
        done[name] = function if region is function.region else with_region(function, region)
    return _only_public(Module({n: done[n] for n in module.functions}, module.name, module.attrs))


def _only_public(module: Module) -> Module:
    called = {callee for f in module.functions.values() for callee in _calls(f.region)}
    kept = {n: f for n, f in module.functions.items() if f.public or n in called}
    return module if len(kept) == len(module.functions) else Module(kept, module.name, module.attrs)


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
    state: dict[str, bool] = {}  # False while its callees are being visited
    stack: list[tuple[str, bool]] = [(name, False) for name in reversed(module.functions)]
    while stack:
        name, leaving = stack.pop()
        if leaving:
            state[name] = True
            order.append(name)
        elif name not in state:
            state[name] = False
            stack.append((name, True))
            for callee in _calls(module.functions[name].region):
                if state.get(callee) is False:
                    raise VerificationError(
                        f"call: {callee} calls itself, through {name}; recursion has no end here."
                    )
                if callee not in state:
                    stack.append((callee, False))
    return order


def _inlined(region: Region, done: dict[str, Function], env: Env, log: Log) -> Region:
    instructions: list[Instruction] = []
    changed = False
    for instruction in region.instructions:
        operands = [env.get(v, v) for v in instruction.operands]
        if instruction.op.hlo == "call" and not log.exhausted:
            callee = done[instruction.attrs["callee"]].region
            inner: Env = dict(zip(callee.parameters, operands, strict=True))
            instructions.extend(copy_instructions(callee.instructions, inner))
            env.update(zip(instruction.results, (inner.get(v, v) for v in callee.results), strict=True))
            log.count("call")
            changed = True
            continue
        regions = [_inlined(r, done, env, log) for r in instruction.regions]
        made = remade(instruction, operands, regions)
        if made is not instruction:
            env.update(zip(instruction.results, made.results, strict=True))
            changed = True
        instructions.append(made)
    if not changed:
        return region
    return Region(region.parameters, instructions, [env.get(v, v) for v in region.results])
