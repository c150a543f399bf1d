"""HLO run by the `numpy` facets of its ops: the portable backend, and what every target is compared with.

`prepare` turns a module into lists of closures over numbered slots once; a call then only runs them.

Invariants:
- A value is dropped after its last use, so peak memory is that of the live values.
- Results are arrays of their own: they share memory with no argument, no constant and no other result.
- Walks over instructions do not recurse; nested regions and calls do, as deep as the text nests them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from braze.errors import AllocationError, ArgumentError, UnsupportedError
from braze.hlo.ir import Instruction, Module, Region, Value
from braze.ops.table import Absent

Array: TypeAlias = "np.ndarray[Any, Any]"
_Slots: TypeAlias = "list[Any]"
_Step = Callable[[_Slots], None]


def evaluate(module: Module, args: Sequence[Any]) -> list[Array]:
    """Run `main` of a module on arrays.

    Raises: ArgumentError where the number, shape or dtype of the arguments is not main's.
    """
    return prepare(module)(args)


def prepare(module: Module) -> Callable[[Sequence[Any]], list[Array]]:
    """Make a function from a list of arguments to the list of `main`'s results, cheap to call again."""
    if "main" not in module.functions:
        raise ArgumentError(
            f"evaluate: module @{module.name} has no function @main.",
            values=f"functions {', '.join('@' + name for name in module.functions) or 'none'}",
        )
    main = _Evaluator(module).function("main")
    types = module.main.region.parameter_types

    def run(args: Sequence[Any]) -> list[Array]:
        if len(args) != len(types):
            raise ArgumentError(f"evaluate: @main takes {len(types)} arguments, not {len(args)}.")
        arrays = [np.asarray(arg) for arg in args]
        for k, (array, type) in enumerate(zip(arrays, types)):
            if array.shape != type.shape or array.dtype != type.dtype:
                raise ArgumentError(
                    f"evaluate: argument {k} of @main is {array.dtype}{list(array.shape)}, not {type}."
                )
        with np.errstate(all="ignore"):
            return _owned(main(arrays), arrays)

    return run


def _owned(results: Sequence[Array], args: Sequence[Array]) -> list[Array]:
    """The results as contiguous, writable arrays that share memory with nothing else."""
    taken = {id(arg) for arg in args}
    owned = []
    for result in results:
        fresh = result.flags.owndata and result.flags.writeable and result.flags.c_contiguous
        made = result if fresh and id(result) not in taken else np.array(result, order="C")
        taken.add(id(made))
        owned.append(made)
    return owned


class _Code:
    """A region made ready: slots of its parameters and results, and the steps between."""

    __slots__ = ("parameters", "results", "steps")

    def __init__(self, parameters: list[int], steps: list[_Step], results: list[int]) -> None:
        self.parameters = parameters
        self.steps = steps
        self.results = results

    def run(self, slots: _Slots, arrays: Sequence[Array]) -> list[Array]:
        for slot, array in zip(self.parameters, arrays, strict=True):
            slots[slot] = array
        for step in self.steps:
            step(slots)
        return [slots[slot] for slot in self.results]


class _Evaluator:
    """Makes code of functions, each once, when first called."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.made: dict[str, Callable[[Sequence[Array]], list[Array]]] = {}

    def function(self, name: str) -> Callable[[Sequence[Array]], list[Array]]:
        found = self.made.get(name)
        if found is None:
            slots: dict[Value, int] = {}
            codes: dict[Region, _Code] = {}
            code = self.region(self.module.functions[name].region, slots, codes)
            count = len(slots)

            def run(arrays: Sequence[Array]) -> list[Array]:
                return code.run([None] * count, arrays)

            found = self.made[name] = run
        return found

    def region(self, region: Region, slots: dict[Value, int], codes: dict[Region, _Code]) -> _Code:
        """Code of one region; `slots` numbers all values of the function, `codes` holds its regions."""
        parameters = [slots.setdefault(p, len(slots)) for p in region.parameters]
        steps: list[_Step] = []
        dying = _last_uses(region)
        for instruction in region.instructions:
            for value in instruction.results:
                slots.setdefault(value, len(slots))
            for inner in instruction.regions:
                codes[inner] = self.region(inner, slots, codes)
            dead = [slots[value] for value in dying.get(instruction, ())]
            steps.append(self.step(instruction, slots, codes))
            if dead:
                steps.append(_drop(dead))
        code = _Code(parameters, steps, [slots[v] for v in region.results])
        return code

    def step(self, instruction: Instruction, slots: dict[Value, int], codes: dict[Region, _Code]) -> _Step:
        """One instruction as a function of the slots; memory that is not there is named in bytes."""
        step = self.plain_step(instruction, slots, codes)
        if instruction.regions or instruction.op.hlo == "call":  # what is inside names its own
            return step
        if sum(r.type.nbytes for r in instruction.results) > sys.maxsize:

            def refuse(env: _Slots) -> None:  # NumPy has a ValueError for these, of several wordings
                raise _too_large(instruction)

            return refuse

        def guarded(env: _Slots) -> None:
            try:
                step(env)
            except MemoryError:
                raise _too_large(instruction) from None

        return guarded

    def plain_step(
        self, instruction: Instruction, slots: dict[Value, int], codes: dict[Region, _Code]
    ) -> _Step:
        inputs = [slots[v] for v in instruction.operands]
        outputs = [slots[v] for v in instruction.results]
        op, attrs, regions = instruction.op, instruction.attrs, instruction.regions
        if op.hlo == "call":
            return self.call(attrs["callee"], inputs, outputs)
        facet = op.numpy
        if isinstance(facet, Absent):
            raise UnsupportedError(f"evaluate: {op.title} has no NumPy form: {facet.reason}.")

        if op.hlo == "constant":
            value = attrs["value"]

            def constant(env: _Slots) -> None:
                env[outputs[0]] = value

            return constant
        if regions:

            def with_regions(env: _Slots) -> None:
                def apply(region: Region, *arrays: Array) -> list[Array]:
                    return codes[region].run(env, arrays)

                found = facet(*[env[k] for k in inputs], regions=regions, apply=apply, **attrs)
                _store(env, outputs, found if op.multiple_results else [found])

            return with_regions
        if op.multiple_results:

            def several(env: _Slots) -> None:
                _store(env, outputs, facet(*[env[k] for k in inputs], **attrs))

            return several
        (output,) = outputs

        def one(env: _Slots) -> None:
            found = facet(*[env[k] for k in inputs], **attrs)
            env[output] = found if type(found) is np.ndarray else np.asarray(found)

        return one

    def call(self, callee: str, inputs: list[int], outputs: list[int]) -> _Step:
        def call(env: _Slots) -> None:
            _store(env, outputs, self.function(callee)([env[k] for k in inputs]))

        return call


def _too_large(instruction: Instruction) -> AllocationError:
    wanted = sum(r.type.nbytes for r in instruction.results)
    return AllocationError(
        f"{instruction.op.title}: {wanted:,} bytes are wanted, which the system does not give.",
        hint="use smaller arrays; the fused program of target cpu may need none in between.",
    )


def _store(env: _Slots, outputs: Sequence[int], values: Sequence[Any]) -> None:
    for slot, value in zip(outputs, values, strict=True):
        env[slot] = value if type(value) is np.ndarray else np.asarray(value)


def _drop(dead: list[int]) -> _Step:
    def drop(env: _Slots) -> None:
        for slot in dead:
            env[slot] = None

    return drop


def _last_uses(region: Region) -> dict[Instruction, list[Value]]:
    """Per instruction, the values of this region that nothing after it uses.

    A use inside a nested region counts for the instruction that holds the region.
    """
    own = {*region.parameters, *(r for i in region.instructions for r in i.results)}
    alive = set(region.results)
    dying: dict[Instruction, list[Value]] = {}
    for instruction in reversed(region.instructions):
        used = {v for v in (*instruction.results, *_uses(instruction)) if v in own and v not in alive}
        if used:
            dying[instruction] = list(used)
            alive |= used
    return dying


def _uses(instruction: Instruction) -> list[Value]:
    """Operands of an instruction and everything its regions read."""
    found = list(instruction.operands)
    waiting = list(instruction.regions)
    while waiting:
        region = waiting.pop()
        found += region.results
        for inner in region.instructions:
            found += inner.operands
            waiting += inner.regions
    return found
