"""`braze.random`: random numbers from keys, the same as JAX's for the same seed.

A key is used once; `split` makes more of it. Nothing here has a hidden state.
"""

from braze.core import publish
from braze.random.keys import PRNGKey, bits, clone, fold_in, key, key_data, split, wrap_key_data
from braze.random.samplers import (
    bernoulli,
    categorical,
    choice,
    exponential,
    gumbel,
    lognormal,
    normal,
    permutation,
    rademacher,
    randint,
    rayleigh,
    uniform,
)

__all__ = [
    "PRNGKey",
    "bernoulli",
    "bits",
    "categorical",
    "choice",
    "clone",
    "exponential",
    "fold_in",
    "gumbel",
    "key",
    "key_data",
    "lognormal",
    "normal",
    "permutation",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "uniform",
    "wrap_key_data",
]

publish(__all__, globals())
