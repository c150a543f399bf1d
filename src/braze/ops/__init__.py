"""What an operation is: one record per operation with every facet, by kind.

`elementwise`, `transcendental`, `shape`, `reduce`, `windows`, `cumulative`, `sorting`, `random`, `dot`,
`indexing`, `control`, `mapped`, `fusion`; the records fill `PRIMITIVES` and `HLO_OPS` of `table`.
"""

from braze.ops import (
    control,
    cumulative,
    dot,
    elementwise,
    fusion,
    indexing,
    mapped,
    random,
    reduce,
    shape,
    sorting,
    transcendental,
    windows,
)
from braze.ops.table import HLO_OPS, PRIMITIVES, Op

__all__ = [
    "HLO_OPS",
    "PRIMITIVES",
    "Op",
    "control",
    "cumulative",
    "dot",
    "elementwise",
    "fusion",
    "indexing",
    "mapped",
    "random",
    "reduce",
    "shape",
    "sorting",
    "transcendental",
    "windows",
]
