"""Text of kernels: immediates, round trips, errors with places, and broken kernels."""

import numpy as np
import pytest

from braze.dtypes import BF16, BOOL, F16, F32, F64, I64, INTEGERS, U8
from braze.errors import ParseError
from braze.kernel.builder import Builder
from braze.kernel.ir import Compute, Constant, For, Kernel, Region, Value
from braze.kernel.parse import parse_kernel
from braze.kernel.text import equal, print_constant, print_kernel, print_statement


def copy_kernel(value):
    b = Builder("copy", 8)
    y = b.memory("y", value.dtype, 8, "out")
    with b.region():
        b.store(y, 0, value, "unit")
    return b.finish(1)


@pytest.mark.parametrize(
    "constant, text",
    [
        (Constant(F32, 0x3F800000), "1.0"),
        (Constant(F32, 0x80000000), "-0.0"),
        (Constant(F32, 0x3DCCCCCD), "0.1"),
        (Constant(F32, 0x7F7FFFFF), "3.4028235e+38"),
        (Constant(F32, 0x7F800000), "0x7f800000:f32"),
        (Constant(F64, 0x7FF8000000000001), "0x7ff8000000000001:f64"),
        (Constant(F64, 0x3FB999999999999A), "0.1:f64"),
        (Constant(I64, (1 << 64) - 3), "-3"),
        (Constant(U8, 255), "255:u8"),
        (Constant(BOOL, 1), "true"),
    ],
)
def test_immediate(constant, text):
    assert print_constant(constant) == text
    read = parse_kernel(print_kernel(copy_kernel(constant))).body[0].body[0].value
    assert read == constant


@pytest.mark.parametrize("dtype", [*INTEGERS, F16, BF16, F32, F64], ids=str)
def test_every_bit_pattern_reads_back(dtype):
    width = dtype.itemsize
    samples = np.random.default_rng(4).integers(0, 256, 200 * width, np.uint8).tobytes()
    for i in range(0, len(samples), width):
        constant = Constant(dtype, int.from_bytes(samples[i : i + width], "little"))
        kernel = copy_kernel(constant)
        assert parse_kernel(print_kernel(kernel)).body[0].body[0].value == constant


def test_record_and_every_part_read_back():
    b = Builder("record", 4)
    x, y = b.memory("x", F32, 4, "in"), b.memory("u8", F32, 4, "inout")
    b.memory("own", BOOL, 3, "private"), b.memory("common", U8, 5, "shared")
    with b.region():
        (some,) = b.call("f", (), (U8,))
        b.call("g", (some, Constant(U8, 7)), ())
        b.atomic("max", y, b.lane(), b.load(x, 0, "unit"), b.eq(b.lane(), 1))
    kernel = b.finish(3, ops=("add", "mul"), flops=8, transcendentals=1, bytes_read=16, bytes_written=4)
    again = parse_kernel(print_kernel(kernel))
    assert equal(again, kernel)
    for name in ("name", "lanes", "grid", "ops", "flops", "transcendentals", "bytes_read", "bytes_written"):
        assert getattr(again, name) == getattr(kernel, name)
    assert [(m.name, m.dtype, m.size, m.space) for m in again.scratch] == [
        ("own", BOOL, 3, "private"),
        ("common", U8, 5, "shared"),
    ]


def test_different_kernels_are_not_equal():
    one, two = (copy_kernel(Constant(F32, bits)) for bits in (0, 0x80000000))
    assert not equal(one, two)


GOOD = """kernel k(x: in f32[8], y: out f32[8]) lanes 8 grid 1 block u0 {
  region {
    v1: f32 = load x[0] unit
    store y[0] unit = v1
  }
}
"""


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("v1: f32 = load", "v1: f31 = load", "line 3, column 9: 'f31' is no dtype"),
        ("= v1", "= v2", "line 4, column 23: 'v2' is not defined"),
        ("y[0]", "z[0]", "line 4, column 11: there is no memory 'z'"),
        ("load x[0] unit", "load x[0] often", "'often' is no kind of access"),
        ("load x[0] unit", "frob(v1)", "'frob' is no statement"),
        ("load x[0] unit", "load x[0 unit", "']' is wanted, 'unit' stands there"),
        ("unit = v1", "unit = v1 v1", "'v1' is left over"),
        ("unit = v1", "unit", "'=' is wanted, the end of the line stands there"),
        ("store y[0]", "store y[§]", "line 4, column 13: '§' begins no token"),
        ("block u0", "block u0 u1", "'{' is wanted"),
        ("lanes 8", "lanes all", "an integer is wanted"),
        ("y: out", "y: outer", "'outer' is no space of memory"),
        ("  }\n}\n", "", "it ends inside a block"),
        ("store y[0] unit = v1", "v1: f32 = add(v1, v1)", "v1 is defined twice"),
        ("unit = v1", "unit = 1.5: i32", "'1.5' is no i32"),
        ("unit = v1", "unit = -0x5", "'-0x5' is no i64"),
        ("unit = v1", "unit = " + "9" * 5000, "is no i64"),
        ("block u0 {", "block u0 {\n  cost flips 3", "line 2, column 8: 'flips' is no cost"),
        ("  }\n}\n", "  region {\n" * 3000, "blocks nest deeper than 64"),
    ],
)
def test_unreadable_text_names_its_place(old, new, message):
    assert print_kernel(parse_kernel(GOOD)) == GOOD
    assert GOOD.count(old) == 1
    with pytest.raises(ParseError) as caught:
        parse_kernel(GOOD.replace(old, new))
    assert message in str(caught.value)


def test_broken_kernels_print():
    loose = Value(F32, True)
    statements = (
        Compute(loose, "frob", (Value(I64, False), "text")),
        Compute(loose, "add", (loose, Constant(U8, 256))),
        For(Value(I64, False), loose, loose, 0, (loose,), (), (), (loose, loose), ()),
        object(),
    )
    kernel = Kernel("broken", (), (), -1, Value(I64, False), 3, (Region(statements),))
    text = print_kernel(kernel)
    assert "v1: f32 = frob(undefined, 'text')" in text
    assert "unknown <object" in text
    assert "add(v1, unfit(256:u8))" in text


def test_statement_by_itself():
    kernel = parse_kernel(GOOD)
    assert print_statement(kernel.body[0].body[0]) == "v0: f32 = load x[0] unit"
