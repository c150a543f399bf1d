"""Target: what code is made for, as plain data: name, CPU, features, vector width, caches.

The cost model, the kernel builder and the printers read it; nothing here touches LLVM. `host()` is filled
by `targets/` from LLVM's knowledge of this machine, where LLVM's library is opened.
"""

from __future__ import annotations

from dataclasses import dataclass

from braze.dtypes import DType
from braze.record import Record


@dataclass(slots=True, eq=False, repr=False)
class Target(Record):
    """A machine to compile for.

    Attributes:
        name: `cpu` or `numpy`.
        triple, cpu, features: LLVM's words for the machine; empty on `numpy`.
        vector_bytes: width of one vector register (16, 32 or 64).
        masked_memory: whether masked vector loads and stores are instructions (else they become scalar code).
        has_fma: whether a fused multiply-add is one instruction.
        l1_bytes, l2_bytes: data caches of one core.
        cores: cores of the machine, whether or not this process may use them: fusion reads it, and results must
            not depend on a process's affinity. How many threads run is the pool's business.
        llvm: who makes the code, with the version.
    """

    name: str
    triple: str = ""
    cpu: str = ""
    features: str = ""
    vector_bytes: int = 16
    masked_memory: bool = False
    has_fma: bool = False
    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    cores: int = 1
    llvm: str = ""

    def lanes(self, dtype: DType, registers: int = 1) -> int:
        """How many elements of a dtype fit in so many vector registers."""
        return max(1, self.vector_bytes * registers // dtype.itemsize)


NUMPY = Target("numpy")
