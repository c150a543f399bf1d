"""rng_bit_generator: blocks of Threefry over a counter, a vector of counters at a time.

Source: `ops/random`, for the block function and for where its words go.
"""

from __future__ import annotations

import math

from braze.dtypes import I32, I64, U32, U64
from braze.hlo.ir import Instruction
from braze.kernel.build.launch import BufferName, Built, BuiltLaunch
from braze.kernel.build.work import Work
from braze.kernel.builder import Builder
from braze.kernel.ir import Operand
from braze.ops.random import blocks_of, halved_axis, scramble
from braze.target import Target


def rng_kernels(instruction: Instruction, name: str, target: Target) -> Built:
    """The launch of an rng_bit_generator."""
    state, bits = (r.type for r in instruction.results)
    outer, half, size, inner = blocks_of(bits)
    paired = halved_axis(bits.shape, bits.dtype) is not None
    count = outer * half * inner
    b = Builder(name, min(max(1, target.vector_bytes // 4), 1 << max(count - 1, 0).bit_length()))
    given = b.memory("in0", U64, 2, "in")
    after, out = b.memory("out0", U64, 2, "out"), b.memory("out1", bits.dtype, bits.size, "out")
    cost = instruction.op.cost(state, **instruction.attrs)
    work = Work(cost.flops, 0, state.nbytes, bits.nbytes)
    part = b.lanes * max(1, math.ceil(count / b.lanes / work.blocks))
    grid = max(1, math.ceil(count / part))

    def rotate(x: Operand, n: int) -> Operand:
        return b.compute("or", b.compute("shl_fast", x, n), b.compute("shr_fast", x, 32 - n))

    def halves(x: Operand) -> tuple[Operand, Operand]:
        return b.cast(x, U32), b.cast(b.compute("shr_fast", x, 32), U32)

    def write(index: Operand, value: Operand, mask: Operand | None) -> None:
        b.store(out, index, b.cast(value, bits.dtype), "gather", mask)

    with b.region():
        key, counter = b.load(given, 0, "uniform"), b.load(given, 1, "uniform")
        first = b.compute("mul", b.block, part) if grid > 1 else b.lift(0, I64)
        stop = b.compute("min", b.compute("add", first, part), count)
        with b.for_(first, stop, b.lanes) as base:
            number = b.compute("add", b.lane(I64), base)
            mask = b.compute(
                "lt", b.lane(I32), b.cast(b.compute("min", b.compute("sub", stop, base), b.lanes), I32)
            )
            words = halves(b.compute("add", b.bitcast(number, U64), counter))
            x, y = scramble(
                halves(key),
                words,
                lambda u, v: b.compute("add", u, v),
                lambda u, v: b.compute("xor", u, v),
                rotate,
            )
            if bits.dtype.itemsize == 8:
                high = b.compute("shl_fast", b.cast(y, U64), 32)
                write(number, b.compute("or", high, b.cast(x, U64)), mask)
            elif not paired:
                write(number, x, mask)
            else:
                row, column = (b.compute(f"{o}_fast", number, inner) for o in ("div", "rem"))
                lead, along = (b.compute(f"{o}_fast", row, half) for o in ("div", "rem"))
                twice = b.compute("mul", along, 2)
                start = b.compute("add", b.compute("mul", lead, size), twice)
                place = b.compute("add", b.compute("mul", start, inner), column)
                write(place, x, mask)
                inside = b.compute("and", mask, b.compute("lt", b.compute("add", twice, 1), size))
                write(b.compute("add", place, inner), y, inside)

        def advance() -> tuple[Operand, ...]:
            b.store(after, 0, key, "uniform")
            b.store(after, 1, b.compute("add", counter, count), "uniform")
            return ()

        b.if_(b.compute("eq", b.block, 0), advance)
    kernel = b.finish(
        grid,
        ops=("rng_bit_generator",),
        flops=work.flops,
        bytes_read=work.bytes_read,
        bytes_written=work.bytes_written,
    )
    buffers: tuple[BufferName, ...] = (("operand", 0), ("result", 0), ("result", 1))
    return Built((BuiltLaunch(kernel, buffers),), ())
