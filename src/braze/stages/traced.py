"""The stages between a Python function and an executable: Traced → Lowered → Compiled.

f.trace(*args)             Traced: the jaxpr
f.trace(*args).lower()     Lowered: HLO
….compile()                Compiled: callable with arguments of the same types
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from braze import core, knobs, tree
from braze.core import Tracer, typeof
from braze.errors import ArgumentError, ConcretizationError
from braze.hlo.lower import LoweredModule, lower
from braze.program.records import KernelRecord, MemoryAnalysis
from braze.stages import calls, report
from braze.stages.arguments import Options
from braze.stages.executable import Executable, compile_module, target_of
from braze.target import Target
from braze.trace import jaxpr as jaxprs
from braze.trace.jaxpr import ClosedJaxpr
from braze.trace.make_jaxpr import ShapeDtypeStruct


class Traced:
    """A function at argument types: its jaxpr."""

    def __init__(
        self,
        name: str,
        options: Options,
        closed: ClosedJaxpr,
        in_tree: tree.PyTreeDef,
        out_tree: tree.PyTreeDef,
        donated: tuple[bool, ...],
    ) -> None:
        self.name = name
        self.options = options
        self.closed = closed
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.donated = donated
        self._lifted: tuple[ClosedJaxpr, list[Any]] | None = None
        self._compiled: Compiled | None = None
        self._lock = threading.Lock()

    @property
    def jaxpr(self) -> ClosedJaxpr:
        return self.closed

    @property
    def fun_name(self) -> str:
        return self.name

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the result."""
        return self.out_tree.unflatten(
            [ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak_type) for t in self.closed.out_avals]
        )

    @property
    def lifted(self) -> tuple[ClosedJaxpr, list[Any]]:
        """The jaxpr with captured tracers as leading inputs, and those tracers."""
        if self._lifted is None:
            self._lifted = jaxprs.lift_tracers(self.closed)
        return self._lifted

    def lower(self) -> Lowered:
        """Lower the jaxpr to HLO."""
        options = self.options
        if knobs.get("verify") >= 2:
            jaxprs.check(self.closed)
        lowered = lower(self.closed, self.name, donated=self.donated, keep_unused=options.keep_unused)
        return Lowered(self, lowered)

    def compiled(self) -> Compiled:
        """The compiled function, made once."""
        if self._compiled is None:
            with self._lock:
                if self._compiled is None:
                    self._compiled = self.lower().compile()
        return self._compiled

    def as_text(self, stage: str = "jaxpr", *, source: bool = False) -> str:
        """The jaxpr's text; `source=True` adds the user's lines."""
        if stage != "jaxpr":
            raise ArgumentError(f"as_text: a traced function has no stage {stage!r}.", hint="stages: jaxpr.")
        from braze.trace.text import text

        return text(self.closed, source=source)


class Lowered:
    """A function at argument types: its HLO."""

    def __init__(self, traced: Traced, lowered: LoweredModule) -> None:
        self.traced = traced
        self.lowered = lowered

    @property
    def module(self) -> Any:
        return self.lowered.module

    @property
    def in_tree(self) -> tree.PyTreeDef:
        return self.traced.in_tree

    @property
    def out_tree(self) -> tree.PyTreeDef:
        return self.traced.out_tree

    def as_text(self, stage: str = "hlo") -> str:
        """The text of the jaxpr or of the HLO."""
        if stage == "jaxpr":
            return self.traced.as_text()
        if stage != "hlo":
            raise ArgumentError(
                f"as_text: a lowered function has no stage {stage!r}.", hint="stages: jaxpr, hlo."
            )
        from braze.hlo.text import print_module

        return print_module(self.lowered.module)

    def compile(self) -> Compiled:
        """Compile for the target."""
        options = self.traced.options
        target = target_of(options.target)
        fast_math = knobs.get("fast_math") if options.fast_math is None else options.fast_math
        report.tell_jaxpr(self.traced.name, self.traced.as_text)
        executable = compile_module(self.lowered.module, target, fast_math)
        return Compiled(self, executable)


class Compiled:
    """A function compiled for argument types; call it with arguments of these types."""

    def __init__(self, lowered: Lowered, executable: Executable) -> None:
        self.lowered = lowered
        self.executable = executable
        self.plan = calls.Plan(self)
        self.keep: Any = None
        """What must live as long."""

    @property
    def traced(self) -> Traced:
        return self.lowered.traced

    @property
    def target(self) -> Target:
        return self.executable.target

    @property
    def in_tree(self) -> tree.PyTreeDef:
        return self.traced.in_tree

    @property
    def out_tree(self) -> tree.PyTreeDef:
        return self.traced.out_tree

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run on leaves of the right types and build the result."""
        return self.plan.run(leaves)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arguments of the types it was compiled for, without the static ones.

        Raises: ArgumentError for another structure, ShapeError or DTypeError for other types.
        """
        with core.user_line():
            leaves, in_tree = tree.flatten((args, kwargs))
            self._check(leaves, in_tree)
            return self.run(leaves)

    def _check(self, leaves: Sequence[Any], in_tree: tree.PyTreeDef) -> None:
        name = self.traced.name
        if in_tree != self.in_tree:
            raise ArgumentError(
                f"{name}: it was compiled for arguments {self.in_tree}, called with {in_tree}.",
                hint="call the jitted function itself, which compiles for each structure.",
            )
        for i, (leaf, wanted) in enumerate(zip(leaves, self.traced.closed.in_avals, strict=True)):
            if isinstance(leaf, Tracer):
                raise ConcretizationError(
                    f"{name}: leaf {i} is known only when the program runs; a compiled function runs at once.",
                    hint="call the jitted function itself, which becomes part of the program.",
                )
            found = typeof(leaf)
            if found.strong is not wanted.strong:
                raise ArgumentError(
                    f"{name}: leaf {i} was compiled as {wanted}, called with {found}.",
                    hint="call the jitted function itself, which compiles for each type.",
                )

    @property
    def kernels(self) -> tuple[KernelRecord, ...]:
        return self.executable.kernels

    @property
    def fusion_decisions(self) -> Any:
        return self.executable.fusion_decisions

    def cost_analysis(self) -> dict[str, float]:
        return self.executable.cost_analysis()

    def memory_analysis(self) -> MemoryAnalysis:
        return self.executable.memory_analysis()

    def as_text(self, stage: str = "hlo-opt") -> str:
        """The text of any stage: `jaxpr`, `hlo`, `hlo-opt`, and on the CPU `program`, `kernel`, `llvm`, `asm`."""
        if stage == "jaxpr":
            return self.traced.as_text()
        if stage not in self.executable.stages:
            raise ArgumentError(
                f"as_text: there is no stage {stage!r} on target {self.target.name!r}.",
                hint=f"stages: jaxpr, {', '.join(self.executable.stages)}.",
            )
        return self.executable.as_text(stage)

    def __repr__(self) -> str:
        return f"<Compiled {self.traced.name} for {self.target.name}>"
