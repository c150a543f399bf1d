"""The machine that this process runs on, as a `Target`.

LLVM names the CPU and its features; the system gives the caches and the cores that the process may use.
The library is opened at the first call of `host`.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from braze.target import Target
from braze.targets.binding import text_of, version

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_DEFAULT_L1, _DEFAULT_L2 = 32 << 10, 1 << 20


@cache
def host() -> Target:
    """The `Target` of this machine.

    >>> host().name
    'cpu'
    """
    features = sorted(text_of("GetHostCPUFeatures").split(","), key=lambda feature: feature[1:])
    has = {feature[1:] for feature in features if feature.startswith("+")}
    if "avx512f" in has:
        # LLVM would split 512-bit vectors in halves on most Intel CPUs; whole ones are twice as fast (FMA peak).
        features.append("-prefer-256-bit")
    return Target(
        "cpu",
        triple=text_of("GetProcessTriple"),
        cpu=text_of("GetHostCPUName"),
        features=",".join(filter(None, features)),
        vector_bytes=64 if "avx512f" in has else 32 if "avx2" in has else 16,
        masked_memory=bool(has & {"avx512f", "avx2", "sve"}),
        has_fma=bool(has & {"fma", "avx512f", "neon", "v"}),
        l1_bytes=_cache_bytes(1, _DEFAULT_L1),
        l2_bytes=_cache_bytes(2, _DEFAULT_L2),
        cores=os.cpu_count() or 1,
        llvm=f"llvmlite {version()}",
    )


def _cache_bytes(level: int, default: int) -> int:
    """Size of the data cache of a level as Linux gives it, else the default."""
    for entry in sorted(_CACHES.glob("index*")):
        try:
            kind, found = (entry / "type").read_text().strip(), (entry / "level").read_text().strip()
            if found == str(level) and kind in ("Data", "Unified"):
                return _bytes((entry / "size").read_text().strip())
        except (OSError, ValueError):
            continue
    return default


def _bytes(text: str) -> int:
    """Bytes of a size such as `48K` or `2M`."""
    units = {"K": 10, "M": 20, "G": 30}
    return int(text[:-1]) << units[text[-1]] if text[-1] in units else int(text)
