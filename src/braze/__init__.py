"""braze: an array compiler with every stage in plain sight.

import braze as bz, braze.numpy as bnp

@bz.jit
def compute(x):
    return x * x + 2.0

compute(bnp.array([1.0, 2.0]))
"""

from braze import api, debug, hlo, lax, numpy, random, tree, tree_util
from braze import stages as _stages
from braze.api import *  # noqa: F403

hlo.compile = _stages.compile_hlo

__version__ = "0.1.0"
__all__ = ["debug", "hlo", "lax", "numpy", "random", "tree", "tree_util"]
__all__ += api.__all__
