"""What `infer` says about operands that do not fit: rule, constraint, numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from braze.dtypes import BF16, BOOL, F32, F64, I32, I64
from braze.errors import BrazeError, DTypeError, ShapeError
from braze.hlo.ir import Builder
from braze.ops import control, dot, elementwise, reduce, shape, transcendental
from braze.types import TensorType


def t(*sizes: int, dtype: Any = F32) -> TensorType:
    return TensorType(sizes, dtype)


def dims(
    lb: Any = (), rb: Any = (), lc: Any = (), rc: Any = (), dtype: Any = F32, precision: Any = None
) -> dict[str, Any]:
    return {"lhs_batching_dimensions": lb, "rhs_batching_dimensions": rb, "lhs_contracting_dimensions": lc,
            "rhs_contracting_dimensions": rc, "dtype": dtype, "precision": precision}  # fmt: skip


def region(parameters: tuple[TensorType, ...], results: Callable[..., Any]) -> Any:
    return Builder().region(parameters, results)


SUM = region((t(), t()), lambda b, x, y: (b.emit(elementwise.add, x, y),))

CASES: list[tuple[type[BrazeError], str, Callable[[], Any]]] = [
    (ShapeError, "add (C1): lhs has shape (3,) and rhs has shape (4,), which must be alike.",
     lambda: elementwise.add.infer(t(3), t(4))),
    (DTypeError, "add (C1): lhs is f32 and rhs is i32, which must be alike.",
     lambda: elementwise.add.infer(t(3), t(3, dtype=I32))),
    (DTypeError, "sin (I1): operand is i32, which is none of bf16, f16, f32, f64, c64, c128.",
     lambda: transcendental.sin.infer(t(3, dtype=I32))),
    (DTypeError, "integer_pow: an operand of i32 has no power of exponent -2.",
     lambda: elementwise.integer_pow.infer(t(3, dtype=I32), y=-2)),
    (DTypeError, "compare (C3): compare_type is SIGNED, but operands of f32 need FLOAT.",
     lambda: elementwise.compare_hlo.infer(t(), t(), comparison_direction="LT", compare_type="SIGNED")),
    (DTypeError, "compare (C3): compare_type is TOTALORDER, but operands of i32 need SIGNED.",
     lambda: elementwise.compare_hlo.infer(t(dtype=I32), t(dtype=I32), comparison_direction="LT", compare_type="TOTALORDER")),
    (ShapeError, "select (C1): pred has shape (2,), which is neither () nor the shape (3,) of on_true.",
     lambda: elementwise.select_hlo.infer(t(2, dtype=BOOL), t(3), t(3))),
    (DTypeError, "clamp (C3): min is i32 and operand is f32, which must be alike.",
     lambda: elementwise.clamp.infer(t(dtype=I32), t(3), t())),
    (ShapeError, "clamp (C2): max has shape (2,), which is neither () nor the shape (3,) of operand.",
     lambda: elementwise.clamp.infer(t(), t(3), t(2))),
    (DTypeError, "bitcast_convert_type (C1): f32 and f64 do not have the same number of bits.",
     lambda: elementwise.bitcast_convert_type.infer(t(3), dtype=F64)),
    (ShapeError, "iota (C1): iota_dimension is 1, which is no axis of the shape (3,).",
     lambda: shape.iota.infer(iota_dimension=1, shape=(3,), dtype=F32)),
    (ShapeError, "broadcast_in_dim (C5): operand axis 1 has size 4, which is neither 1 nor the size 5 of result "
     "axis 1.", lambda: shape.broadcast_in_dim.infer(t(3, 4), shape=(3, 5), broadcast_dimensions=(0, 1))),
    (ShapeError, "broadcast_in_dim (C4): broadcast_dimensions (0, 0) names an axis twice.",
     lambda: shape.broadcast_in_dim.infer(t(3, 3), shape=(3, 5), broadcast_dimensions=(0, 0))),
    (ShapeError, "reshape (C2): operand has 6 elements and the shape (4,) holds 4.",
     lambda: shape.reshape.infer(t(2, 3), shape=(4,))),
    (ShapeError, "transpose (C2): permutation (0, 0) does not name each of the 2 axes once.",
     lambda: shape.transpose.infer(t(2, 3), permutation=(0, 0))),
    (ShapeError, "slice (C3): on axis 0 of size 3, start 1 and limit 4 do not hold 0 <= start <= limit <= 3.",
     lambda: shape.slice.infer(t(3), start_indices=(1,), limit_indices=(4,), strides=(1,))),
    (ShapeError, "slice (C4): on axis 0 the stride is 0, which is not positive.",
     lambda: shape.slice.infer(t(3), start_indices=(1,), limit_indices=(2,), strides=(0,))),
    (ShapeError, "concatenate (C2): operand 0 has shape (3, 4) and operand 1 has shape (2, 4), which may differ on "
     "axis 1 only.", lambda: shape.concatenate.infer(t(3, 4), t(2, 4), dimension=1)),
    (ShapeError, "pad (C4): axis 0 of size 3 with low -4, high 0 and interior 0 would get size -1.",
     lambda: shape.pad.infer(t(3), t(), low=(-4,), high=(0,), interior=(0,))),
    (ShapeError, "squeeze (C3): operand axis 0 has size 3, which is not 1.",
     lambda: shape.squeeze.infer(t(3), dimensions=(0,))),
    (ShapeError, "reverse (C3): dimensions (2,) has axis 2, which is not in 0 to 1.",
     lambda: shape.rev.infer(t(3, 4), dimensions=(2,))),
    (ShapeError, "dynamic_slice (C4): slice size 4 of axis 0 is not in 0 to 3.",
     lambda: shape.dynamic_slice.infer(t(3), t(dtype=I32), slice_sizes=(4,))),
    (DTypeError, "dynamic_slice (C3): start index 0 is i32 and start index 1 is i64, which must be alike.",
     lambda: shape.dynamic_slice.infer(t(3, 3), t(dtype=I32), t(dtype=I64), slice_sizes=(1, 1))),
    (ShapeError, "dynamic_update_slice (C6): update has size 4 on axis 0, where operand has 3.",
     lambda: shape.dynamic_update_slice.infer(t(3), t(4), t(dtype=I32))),
    (ShapeError, "reduce_sum (C4): axes (1,) has axis 1, which is not in 0 to 0.",
     lambda: reduce.reduce_sum.infer(t(3), axes=(1,))),
    (ShapeError, "argmax: axis 0 of f32[0] has no element to point at.",
     lambda: reduce.argmax.infer(t(0), axes=(0,), index_dtype=I32)),
    (ShapeError, "reduce (C1): input 0 has shape (3,) and input 1 has shape (4,), which must be alike.",
     lambda: reduce.reduce_hlo.infer(t(3), t(4), t(), t(), dimensions=(0,), regions=(SUM,))),
    (ShapeError, "reduce (C6): the region goes from (f32[], f32[]) to (f32[]) and must go from (f64[], f64[]) to "
     "(f64[]).", lambda: reduce.reduce_hlo.infer(t(3, dtype=F64), t(dtype=F64), dimensions=(0,), regions=(SUM,))),
    (ShapeError, "dot_general (C10): contracting axis 1 of lhs has size 4 and axis 0 of rhs has size 5, which must be "
     "alike.", lambda: dot.dot_general.infer(t(3, 4), t(5, 6), **dims(lc=(1,), rc=(0,)))),
    (ShapeError, "dot_general (C1): lhs has 1 batching dimensions and rhs has 0, which must be as many.",
     lambda: dot.dot_general.infer(t(3, 4), t(5, 6), **dims(lb=(0,)))),
    (ShapeError, "dot_general (C3): lhs axis 1 is both batching and contracting.",
     lambda: dot.dot_general.infer(t(3, 4), t(4, 4), **dims(lb=(1,), rb=(0,), lc=(1,), rc=(1,)))),
    (DTypeError, "dot_general (C13): lhs is f32 and rhs is bf16, which must be alike.",
     lambda: dot.dot_general.infer(t(3), t(3, dtype=BF16), **dims(lc=(0,), rc=(0,)))),
    (ShapeError, "case (C1): there is no branch.", lambda: control.case_hlo.infer(t(dtype=I32), regions=())),
    (ShapeError, "while (C1): the condition goes from f32[], f32[] to f32[] and must go from f32[] to bool[].",
     lambda: control.while_hlo.infer(t(), regions=(SUM, SUM))),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "message", "call"), CASES, ids=[c[1].split(":")[0] for c in CASES])
def test_message(kind: type[BrazeError], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message
