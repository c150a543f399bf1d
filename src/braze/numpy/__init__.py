"""`braze.numpy`: NumPy's functions on arrays of braze, with JAX's signatures and promotion.

Each function runs at once on arrays and is staged on tracers. Importing this package sets the operators and
methods of arrays (`methods.py`).
"""

import numpy as _np

from braze.dtypes import (
    BF16 as _BF16,
)
from braze.numpy.creation import (
    arange,
    array,
    asarray,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    identity,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tri,
    tril,
    triu,
    zeros,
    zeros_like,
)
from braze.numpy.elementwise import (
    abs,
    absolute,
    add,
    bitwise_and,
    bitwise_invert,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    ceil,
    clip,
    cos,
    divide,
    divmod,
    equal,
    exp,
    fabs,
    floor,
    floor_divide,
    fmod,
    greater,
    greater_equal,
    invert,
    isclose,
    isfinite,
    isinf,
    isnan,
    left_shift,
    less,
    less_equal,
    log,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mod,
    multiply,
    negative,
    not_equal,
    positive,
    pow,
    power,
    reciprocal,
    remainder,
    right_shift,
    rint,
    round,
    sign,
    sin,
    sqrt,
    square,
    subtract,
    tanh,
    true_divide,
    trunc,
    where,
)
from braze.numpy.elementwise import result_dtype as result_type
from braze.numpy.linalg import dot, inner, matmul, outer, tensordot, trace, vdot
from braze.numpy.methods import install as _install
from braze.numpy.reductions import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    count_nonzero,
    max,
    mean,
    min,
    prod,
    ptp,
    std,
    sum,
    var,
)
from braze.numpy.shape import (
    atleast_1d,
    atleast_2d,
    broadcast_arrays,
    broadcast_to,
    concat,
    concatenate,
    expand_dims,
    flip,
    hstack,
    matrix_transpose,
    moveaxis,
    ndim,
    pad,
    permute_dims,
    ravel,
    repeat,
    reshape,
    roll,
    shape,
    size,
    split,
    squeeze,
    stack,
    swapaxes,
    tile,
    transpose,
    vstack,
)

_install()

bool_ = _np.bool_
int8, int16, int32, int64 = _np.int8, _np.int16, _np.int32, _np.int64
uint8, uint16, uint32, uint64 = _np.uint8, _np.uint16, _np.uint32, _np.uint64
float16, float32, float64 = _np.float16, _np.float32, _np.float64
complex64, complex128 = _np.complex64, _np.complex128
bfloat16 = _BF16.type
dtype = _np.dtype
pi, e, inf, nan, newaxis = _np.pi, _np.e, _np.inf, _np.nan, None

__all__ = [name for name in dir() if not name.startswith("_")]
