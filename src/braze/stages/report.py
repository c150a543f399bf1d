"""What compilation did, as text: every stage on request, and what `BRAZE_DEBUG` and `BRAZE_DUMP` tell."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from braze import knobs
from braze.cache.explain import Parts, explain_miss
from braze.errors import ConfigError, InternalError
from braze.kernel.ir import Kernel
from braze.program import records
from braze.program.ir import Launch, Program
from braze.stages import native

if TYPE_CHECKING:
    from braze.stages.executable import Executable


def launched(program: Program | None) -> Iterator[Kernel]:
    """Kernels in launch order; none on `numpy`."""
    if program is not None:
        yield from (step.kernel for step in records.walk(program.steps) if isinstance(step, Launch))


def text(exe: Executable, stage: str) -> str:
    """The text of a stage that exists."""
    from braze.hlo.text import print_module

    if stage in ("hlo", "hlo-opt"):
        return print_module(exe.module if stage == "hlo" else exe.optimised)
    assert exe.program is not None, "the other stages exist on the CPU only"
    if stage == "program":
        from braze.program.text import print_program

        return print_program(exe.program)
    if stage == "kernel":
        return "\n".join(_kernels(exe.program))
    llvm = native.emit(exe.program, exe.target)
    if stage == "llvm":
        return llvm
    from braze.runtime import engine

    return engine.assembly(llvm, exe.target)


def _kernels(program: Program) -> Iterator[str]:
    from braze.kernel.text import print_kernel

    seen: set[str] = set()
    for kernel in launched(program):
        if kernel.name not in seen:
            seen.add(kernel.name)
            yield print_kernel(kernel)


_LEVELS = (("hlo", 3), ("hlo-opt", 3), ("program", 5), ("kernel", 5), ("llvm", 5), ("asm", 6))


def tell_miss(name: str, asked: Parts, known: Sequence[Parts]) -> None:
    """Print why a function is traced (`debug` 1): what is new against the signature most like this one."""
    if _speaks_of(name):
        _print(f"{name} is traced: {explain_miss(asked, known)}")


def tell_jaxpr(name: str, text: Callable[[], str]) -> None:
    """Print and write the jaxpr (`debug` 2, `dump`)."""
    level, folder = knobs.get("debug"), knobs.get("dump")
    if not (level >= 2 or folder) or not _speaks_of(name):
        return
    if level >= 2:
        _print(f"--- {name}: jaxpr\n{text()}")
    if folder:
        _write(Path(folder) / name, {"00.jaxpr.txt": text()})


def _speaks_of(name: str) -> bool:
    return not knobs.get("only") or re.search(knobs.get("only"), name) is not None


def tell(exe: Executable) -> None:
    """Print and write what the knobs `debug` and `dump` ask for."""
    level, folder = knobs.get("debug"), knobs.get("dump")
    if not level and not folder:
        return
    if not _speaks_of(exe.name):
        return
    if level >= 1:
        _print(f"compiled {exe.name} for {exe.target.name}: {len(exe.kernels)} launches")
    shown = [(stage, text(exe, stage)) for stage, needed in _LEVELS if folder or level >= needed]
    changes = [step for step in exe.steps if step.changed]
    if level >= 3:
        for stage, body in shown:
            if dict(_LEVELS)[stage] <= level:
                _print(f"--- {exe.name}: {stage}\n{body}")
    if level >= 4:
        for step in changes:
            rules = ", ".join(f"{name} ×{count}" for name, count in sorted(step.counts.items()))
            _print(f"{step.name}: {rules or 'changed'}")
    if folder:
        _dump(Path(folder) / exe.name, changes, shown)


def _dump(folder: Path, changes: Sequence[Any], shown: Sequence[tuple[str, str]]) -> None:
    from braze.hlo.text import print_module

    endings = {"hlo": "mlir", "hlo-opt": "mlir", "llvm": "ll", "asm": "s"}
    texts = [(f"{stage}.{endings.get(stage, 'txt')}", body) for stage, body in shown]
    passes = [(f"after_{step.name}.mlir", print_module(step.module)) for step in changes]
    files = [*texts[:1], *passes, *texts[1:]]  # in the order of the stages: HLO as lowered stands first
    _write(folder, {f"{number:02}.{name}": body for number, (name, body) in enumerate(files, 1)})


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder of `dump`; raises ConfigError where the system does not let it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, body in files.items():
            (folder / name).write_text(body + "\n")
    except OSError as error:
        raise ConfigError(
            f"dump: nothing can be written to {folder} ({error.strerror}).",
            hint="set BRAZE_DUMP to a folder of yours, or unset it.",
        ) from None


def _print(message: str) -> None:
    print(message, file=sys.stderr)


def check(
    exe: Executable, given: Sequence[np.ndarray[Any, Any]], results: Sequence[np.ndarray[Any, Any]]
) -> None:
    """Compare results with the NumPy target's (`BRAZE_CHECK`).

    Raises: InternalError where they differ by more than rounding can explain.
    """
    from braze.hlo.evaluate import evaluate

    for i, (found, wanted) in enumerate(zip(results, evaluate(exe.module, given), strict=True)):
        if found.dtype.kind in "fc":
            tolerance = 1e-4 if found.dtype.itemsize == 4 else 1e-10
            scale = np.nanmax(np.abs(wanted), initial=1.0, where=np.isfinite(wanted))
            same = np.allclose(found, wanted, rtol=tolerance, atol=tolerance * float(scale), equal_nan=True)
        else:
            same = bool(np.array_equal(found, wanted))
        if not same:
            raise InternalError(f"result {i} of {exe.name} differs from the NumPy target's", stage="check")
