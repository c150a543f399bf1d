"""From HLO to something that runs: the straight list of stages, and the object that holds their results.

    module ─ passes ─ fusion ─ schedule ─ assign ─ emit ─ object file ─ Executable        (target "cpu")
    module ─ prepare ─ Executable                                                         (target "numpy")

Each stage is a function from one IR to the next; everything in between is kept, so that `as_text` can print
any of it afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from braze import dtypes, knobs
from braze.cache.memory import MemoryCache
from braze.errors import ArgumentError, BrazeError, DTypeError, InternalError, ShapeError
from braze.hlo.ir import Module, walk
from braze.passes import manager
from braze.passes.log import Decision, Log
from braze.passes.pipeline import PIPELINE, Pass
from braze.program import records
from braze.program.ir import Program
from braze.program.records import KernelRecord, MemoryAnalysis
from braze.record import Records
from braze.runtime import array as arrays
from braze.stages import report
from braze.target import NUMPY, Target
from braze.types import TensorType

TARGETS = ("cpu", "numpy")
CPU_STAGES = ("hlo", "hlo-opt", "program", "kernel", "llvm", "asm")
NUMPY_STAGES = ("hlo", "hlo-opt")


class Executable:
    """A compiled module. Call it with arrays; it returns a list of arrays.

    Attributes:
        module: the HLO it was made from; `optimised`: after the passes.
        fusion_decisions: one record per candidate edge (none on `numpy`).
        program: steps over buffers (None on `numpy`).
        native: the loaded machine code (None on `numpy`).
    """

    def __init__(
        self, module: Module, target: Target, fast_math: bool = False, passes: Iterable[Pass] = PIPELINE
    ) -> None:
        self.module = module
        self.target = target
        self.fast_math = fast_math
        main = module.main.region
        self.inputs: tuple[TensorType, ...] = main.parameter_types
        self.outputs: tuple[TensorType, ...] = main.result_types
        self.optimised = module
        self.fusion_decisions: Records[Decision] = Records()
        self.program: Program | None = None
        self.native: Any = None
        self.steps: list[manager.Step] = []
        self._evaluate: Callable[[Sequence[Any]], list[Any]] | None = None
        if target.name == "numpy":
            self._prepare()
        else:
            self._compile(passes)

    @property
    def name(self) -> str:
        return self.module.name

    def _prepare(self) -> None:
        from braze.hlo.evaluate import prepare

        self._evaluate = prepare(self.module)

    def _compile(self, passes: Iterable[Pass]) -> None:
        from braze.targets.support import check_supported

        check_supported(self.module, self.target)
        observe = self.steps.append if knobs.get("debug") or knobs.get("dump") else None
        log = Log(knobs.get("fuel"))
        self.optimised = manager.run(
            self.module, self.target, passes=passes, fast_math=self.fast_math, observe=observe, log=log
        )
        self.fusion_decisions = Records(log.decisions)
        try:
            self._build()
        except (BrazeError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, InternalError) and error.reproducer:
                raise
            from braze.passes.reproducer import build_reproducer

            raise InternalError(
                f"{type(error).__name__}: {error}", stage=f"the build of {self.name}",
                reproducer=build_reproducer(self.optimised),
            ) from error  # fmt: skip
        report.tell(self)

    def _build(self) -> None:
        """From HLO after the passes to machine code; `BRAZE_VERIFY` checks what each stage hands on."""
        from braze.program.assign import assign
        from braze.program.schedule import schedule
        from braze.stages import native

        level = knobs.get("verify")
        if level >= 1:
            from braze.hlo.verify import verify

            verify(self.optimised)
        self.program = assign(schedule(self.optimised, self.target))
        if level >= 1:
            from braze.program import check

            check.check(self.program)
        if level >= 2:
            from braze.kernel import check as kernels

            for kernel in {kernel.name: kernel for kernel in report.launched(self.program)}.values():
                kernels.check(kernel)
        self.native = native.load(self.program, self.target)

    # Running --------------------------------------------------------------------------------------

    def __call__(self, *args: Any) -> list[Any]:
        """Run on arrays.

        Raises: ArgumentError, ShapeError or DTypeError for arguments that are not the module's parameters.
        """
        if len(args) != len(self.inputs):
            raise ArgumentError(
                f"{self.name}: {len(self.inputs)} arguments are wanted, {len(args)} were given."
            )
        given = [self._argument(i, value) for i, value in enumerate(args)]
        return [
            arrays.from_numpy(r, copy=False, aval=t)
            for r, t in zip(self.run(given), self.outputs, strict=True)
        ]

    def _argument(self, position: int, value: Any) -> np.ndarray[Any, Any]:
        wanted = self.inputs[position]
        found = arrays.to_numpy(value) if arrays.is_array(value) else np.asarray(value)
        if found.shape != wanted.shape:
            raise ShapeError(
                f"{self.name}: argument {position} has shape {found.shape}, {wanted.shape} is wanted.",
                values=f"parameter {wanted}",
            )
        if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
            return found.astype(wanted.dtype)
        if dtypes.canonical(found.dtype) != wanted.dtype:
            raise DTypeError(
                f"{self.name}: argument {position} is {dtypes.short(dtypes.canonical(found.dtype))}, "
                f"{dtypes.short(wanted.dtype)} is wanted.",
                values=f"parameter {wanted}",
            )
        return found

    def run(self, given: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """Run on NumPy arrays of the right types."""
        if self._evaluate is not None:
            return self._evaluate(given)
        results: list[np.ndarray[Any, Any]] = self.native.call(given)
        if knobs.get("check"):
            report.check(self, given, results)
        return results

    # Looking --------------------------------------------------------------------------------------

    @property
    def stages(self) -> tuple[str, ...]:
        """Names that `as_text` takes."""
        return NUMPY_STAGES if self.program is None else CPU_STAGES

    def as_text(self, stage: str = "hlo-opt") -> str:
        """The text of a stage.

        Raises: ArgumentError for a stage that does not exist here; it lists those that do.
        """
        if stage not in self.stages:
            raise ArgumentError(
                f"as_text: there is no stage {stage!r} on target {self.target.name!r}.",
                hint=f"stages: {', '.join(self.stages)}.",
            )
        return report.text(self, stage)

    @property
    def kernels(self) -> Records[KernelRecord]:
        """One record per launch, in program order."""
        return Records() if self.program is None else Records(records.kernel_records(self.program))

    def cost_analysis(self) -> dict[str, float]:
        """Totals over the launches: `flops`, `transcendentals`, `bytes accessed`."""
        found = list(report.launched(self.program))
        return {
            "flops": float(sum(k.flops for k in found)),
            "transcendentals": float(sum(k.transcendentals for k in found)),
            "bytes accessed": float(sum(k.bytes_read + k.bytes_written for k in found)),
        }

    def memory_analysis(self) -> MemoryAnalysis:
        """Memory of one call."""
        if self.program is not None:
            return records.memory_analysis(self.program)
        arguments = sum(t.nbytes for t in self.inputs)
        results = sum(t.nbytes for t in self.outputs)
        return MemoryAnalysis(arguments, results, 0, 0, 0)

    def __repr__(self) -> str:
        return f"<Executable {self.name} for {self.target.name}>"


def _callbacks(module: Module) -> list[Any]:
    return [
        i.attrs["callback"]
        for f in module.functions.values()
        for i in walk(f.region)
        if i.op.hlo == "custom_call" and i.attrs.get("callback") is not None
    ]


_EXECUTABLES: MemoryCache[Any, Executable] = MemoryCache(max_bytes=256 << 20)


def compile_module(module: Module, target: Target, fast_math: bool = False) -> Executable:
    """The executable of a module; equal modules share one.

    The key is the module's text, the target and the keyed knobs; modules with host callbacks have the
    callbacks' identities in it.
    """
    from braze.hlo.text import print_module

    text = print_module(module)
    callbacks = tuple(_callbacks(module))
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    key = (digest, target, fast_math, knobs.keyed(), tuple(map(id, callbacks)))

    def make() -> tuple[Executable, int]:
        made = Executable(module, target, fast_math)
        return made, 4096 + 4 * len(text)

    return _EXECUTABLES.get_or_make(key, make)


def target_of(name: str | None) -> Target:
    """The target of a name; the knob's without one.

    Raises: ArgumentError for a name that is no target.
    """
    wanted = knobs.get("target") if name is None else name
    if wanted == "numpy":
        return NUMPY
    if wanted not in TARGETS:
        raise ArgumentError(f"target: {wanted!r} is not a target.", hint=f"targets: {', '.join(TARGETS)}.")
    from braze.targets.host import host

    return host()


def compile_hlo(text_or_module: str | Module, target: str | None = None) -> Executable:
    """Compile StableHLO text or a module.

    Args:
        target: `cpu` or `numpy`; the knob's without one.
    Returns: an Executable, called with arrays, returning a list of arrays.
    Raises: ParseError, VerificationError, UnsupportedError.
    """
    from braze.hlo.parse import parse
    from braze.hlo.verify import verify

    module = parse(text_or_module) if isinstance(text_or_module, str) else text_or_module
    if not isinstance(module, Module):
        raise ArgumentError(f"compile: StableHLO text or a module is wanted, not {type(module).__name__}.")
    if "main" not in module.functions:
        raise ArgumentError(
            "compile: the module has no function main.", hint=f"functions: {', '.join(module.functions)}."
        )
    verify(module)
    return compile_module(module, target_of(target))
