"""The public names of `braze`, gathered from where they live."""

from braze.array import Array, block_until_ready, device_get, device_put
from braze.errors import (
    AllocationError,
    ArgumentError,
    BrazeError,
    ConcretizationError,
    ConfigError,
    DeletedArrayError,
    DifferentiationError,
    DTypeError,
    IntegerOverflowError,
    InternalError,
    LeakedTracerError,
    OutOfBoundsError,
    ParseError,
    ShapeError,
    UnsupportedError,
    VerificationError,
)
from braze.knobs import config
from braze.stages import Compiled, Executable, Lowered, Traced, jit
from braze.trace.grad import grad, hessian, jacfwd, jacrev, value_and_grad, vjp
from braze.trace.jvp import jvp
from braze.trace.linearize import linearize
from braze.trace.make_jaxpr import ShapeDtypeStruct, eval_shape, make_jaxpr
from braze.trace.vmap import vmap
from braze.types import TensorType

__all__ = [
    "AllocationError",
    "ArgumentError",
    "Array",
    "BrazeError",
    "Compiled",
    "ConcretizationError",
    "ConfigError",
    "DTypeError",
    "DeletedArrayError",
    "DifferentiationError",
    "Executable",
    "IntegerOverflowError",
    "InternalError",
    "LeakedTracerError",
    "Lowered",
    "OutOfBoundsError",
    "ParseError",
    "ShapeDtypeStruct",
    "ShapeError",
    "TensorType",
    "Traced",
    "UnsupportedError",
    "VerificationError",
    "block_until_ready",
    "config",
    "device_get",
    "device_put",
    "eval_shape",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "linearize",
    "make_jaxpr",
    "value_and_grad",
    "vjp",
    "vmap",
]
