"""What a kernel does in numbers, for its record and for how many blocks it is cut into."""

from __future__ import annotations

import math
from dataclasses import dataclass

BLOCK_BYTES = 128 << 10
"""Traffic of one block."""
SMALL_SECONDS = 100e-6
"""Work below this stays in one block: waking a thread costs as much."""
BYTES_PER_SECOND = 10e9
FLOPS_PER_SECOND = 8e9
TRANSCENDENTALS_PER_SECOND = 1e9


@dataclass(slots=True)
class Work:
    """What a fusion does, for records and the split into blocks."""

    flops: int = 0
    transcendentals: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def seconds(self) -> float:
        return (
            (self.bytes_read + self.bytes_written) / BYTES_PER_SECOND
            + self.flops / FLOPS_PER_SECOND
            + self.transcendentals / TRANSCENDENTALS_PER_SECOND
        )

    @property
    def blocks(self) -> int:
        """How many blocks it is worth: one if small, else by traffic and by time."""
        if self.seconds < SMALL_SECONDS:
            return 1
        by_traffic = (self.bytes_read + self.bytes_written) / BLOCK_BYTES
        return max(1, math.ceil(max(by_traffic, self.seconds / 50e-6)))
