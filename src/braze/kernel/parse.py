"""Kernel IR from its text, as `kernel/text` prints it: for tests, and to run an edited kernel.

A statement begins on a line of its own, so the parser goes line by line; blocks nest by recursion.

Invariants:
- A kernel that parses is well formed as data; whether it obeys the rules is `kernel/check`'s question.
- Errors name line and column.
- Depth of nesting is bounded, so Python's recursion limit is never met.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import cast

from braze.dtypes import BOOL, F32, FLOATS, I64, DType, from_short, short
from braze.errors import DTypeError, ParseError
from braze.kernel.builder import constant
from braze.kernel.ir import (
    OPCODES,
    Access,
    Atomic,
    Call,
    Compute,
    Constant,
    Extract,
    For,
    If,
    Kernel,
    LaneReduce,
    LaneShift,
    Load,
    Memory,
    Operand,
    Region,
    Space,
    Statement,
    Store,
    Value,
    While,
)
from braze.kernel.text import COSTS

_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?0x[0-9a-f]+|-?\d+(?:\.\d*)?(?:e[+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][\w.$]*)|(?P<mark>[\[\](){}:,=])|(?P<end>$|\#.*))"
)

_MAX_DEPTH = 64
"""Blocks inside blocks; a level takes up to four Python frames."""


def parse_kernel(text: str) -> Kernel:
    """Read the text of one kernel.

    Raises: ParseError that names line and column.
    """
    return _Parser(text).kernel()


class _Parser:
    """Reads line by line, a statement's first line being one line; `tokens` are those of the current line."""

    def __init__(self, text: str) -> None:
        self.source = [line for line in enumerate(text.splitlines(), 1) if line[1].split("#")[0].strip()]
        self.at = -1
        self.depth = 0
        self.tokens: list[tuple[str, int]] = []
        self.values: dict[str, Value] = {}
        self.memories: dict[str, Memory] = {}

    # Tokens ---------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Go to the next line."""
        self.at += 1
        if self.at >= len(self.source):
            last = self.source[-1][0] if self.source else 1
            raise ParseError(f"kernel text: line {last}: it ends inside a block.")
        _, line = self.source[self.at]
        self.tokens, position = [], 0
        while True:
            found = _TOKEN.match(line, position)
            if found is None:
                raise self.error(f"{line[position:].strip()[0]!r} begins no token", position)
            if found.lastgroup == "end":
                break
            self.tokens.append((found[cast(str, found.lastgroup)], found.start(cast(str, found.lastgroup))))
            position = found.end()
        self.tokens.reverse()

    def error(self, what: str, column: int | None = None) -> ParseError:
        number, line = self.source[min(self.at, len(self.source) - 1)]
        place = column if column is not None else self.tokens[-1][1] if self.tokens else len(line)
        return ParseError(f"kernel text: line {number}, column {place + 1}: {what}.", values=line.strip())

    def peek(self) -> str:
        return self.tokens[-1][0] if self.tokens else ""

    def take(self, wanted: str | None = None) -> str:
        found = self.peek()
        if not found or (wanted is not None and found != wanted):
            shown = repr(found) if found else "the end of the line"
            raise self.error(f"{repr(wanted) if wanted else 'a word'} is wanted, {shown} stands there")
        self.tokens.pop()
        return found

    def skip(self, word: str) -> bool:
        if self.peek() == word:
            self.tokens.pop()
            return True
        return False

    def integer(self) -> int:
        try:
            return int(self.peek())
        except ValueError:
            raise self.error("an integer is wanted") from None
        finally:
            if self.tokens:
                self.tokens.pop()

    def dtype(self) -> DType:
        try:
            return from_short(self.peek())
        except DTypeError:
            raise self.error(f"{self.peek()!r} is no dtype") from None
        finally:
            if self.tokens:
                self.tokens.pop()

    # Operands -------------------------------------------------------------------------------------

    def define(self, dtype: DType | None = None) -> Value:
        """A new value: its name and, unless it is given, its dtype."""
        name = self.take()
        if name in self.values:
            raise self.error(f"{name} is defined twice")
        if dtype is None:
            self.take(":")
            dtype = self.dtype()
        self.values[name] = Value(dtype, name.startswith("v"))
        return self.values[name]

    def operand(self) -> Operand:
        word = self.peek()
        if word in ("true", "false"):
            return Constant(BOOL, int(self.take() == "true"))
        if word[:1].isdigit() or word[:1] == "-":
            return self.immediate(self.take())
        if word not in self.values:
            raise self.error(f"{word!r} is not defined")
        return self.values[self.take()]

    def immediate(self, word: str) -> Constant:
        dtype = F32 if "." in word or "e" in word else I64
        if self.skip(":"):
            dtype = self.dtype()
        try:
            if word.startswith("0x"):
                return Constant(dtype, int(word, 16))
            return constant(dtype, dtype.type(word) if dtype in FLOATS else int(word))
        except (ValueError, OverflowError):
            raise self.error(f"{word[:40]!r} is no {short(dtype)}") from None

    def operands(self, end: str = "") -> tuple[Operand, ...]:
        """Operands with commas between, up to a mark or the end of the line."""
        found: list[Operand] = []
        while self.peek() != end:
            found.append(self.operand())
            if not self.skip(","):
                break
        return tuple(found)

    def memory(self) -> Memory:
        if self.peek() not in self.memories:
            raise self.error(f"there is no memory {self.peek()!r}")
        return self.memories[self.take()]

    def place(self) -> tuple[Memory, Operand]:
        memory = self.memory()
        self.take("[")
        index = self.operand()
        self.take("]")
        return memory, index

    def access(self) -> Access:
        if self.peek() not in ("uniform", "unit", "gather"):
            raise self.error(f"{self.peek()!r} is no kind of access")
        return cast(Access, self.take())

    def mask(self) -> Operand | None:
        return self.operand() if self.skip("mask") else None

    # Kernel ---------------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        self.advance()
        self.take("kernel")
        name = self.take()
        self.take("(")
        parameters: list[Memory] = []
        while not self.skip(")"):
            shown = self.take()
            self.take(":")
            parameters.append(self.declared(shown, self.take()))
            self.skip(",")
        self.take("lanes")
        lanes = self.integer()
        self.take("grid")
        grid = self.integer()
        self.take("block")
        block = self.define(I64)
        self.take("{")
        strategy, ops, costs, scratch = self.record()
        body = self.body()
        self.take("}")
        return Kernel(
            name, tuple(parameters), scratch, grid, block, lanes, body, ops, strategy=strategy, **costs
        )

    def declared(self, name: str, space: str) -> Memory:
        if space not in ("in", "out", "inout", "private", "shared"):
            raise self.error(f"{space!r} is no space of memory")
        dtype = self.dtype()
        self.take("[")
        size = self.integer()
        self.take("]")
        self.memories[name] = Memory(name, dtype, size, cast(Space, space))
        return self.memories[name]

    def record(self) -> tuple[str, tuple[str, ...], dict[str, int], tuple[Memory, ...]]:
        """The lines before the body; stops before the first statement."""
        strategy = ""
        ops: list[str] = []
        costs: dict[str, int] = {}
        scratch: list[Memory] = []
        while True:
            self.advance()
            word = self.peek()
            if word == "strategy":
                self.take()
                strategy = self.take()
            elif word == "ops":
                self.take()
                ops.append(self.take())
                while self.skip(","):
                    ops.append(self.take())
            elif word == "cost":
                self.take()
                while self.tokens:
                    if self.peek() not in COSTS:
                        raise self.error(f"{self.peek()!r} is no cost")
                    name = self.take()
                    costs[name] = self.integer()
                    self.skip(",")
            elif word in ("private", "shared"):
                space, name = self.take(), self.take()
                self.take(":")
                scratch.append(self.declared(name, space))
            else:
                self.at -= 1
                return strategy, tuple(ops), costs, tuple(scratch)

    # Statements -----------------------------------------------------------------------------------

    def body(self) -> tuple[Statement, ...]:
        """Statements up to a line that begins with `}`, `yield` or `test`, which becomes the current one."""
        found: list[Statement] = []
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.error(f"blocks nest deeper than {_MAX_DEPTH}")
        while True:
            self.advance()
            if self.peek() in ("}", "yield", "test"):
                self.depth -= 1
                return tuple(found)
            found.append(self.statement())
            if self.tokens:
                raise self.error(f"{self.peek()!r} is left over")

    def statement(self) -> Statement:
        if self.peek() == "store":
            return self.store()
        if self.peek() == "atomic":
            return self.atomic()
        if self.skip("region"):
            self.take("{")
            body = self.body()
            self.take("}")
            return Region(body)
        results = self.result_names()
        word = self.take()
        if word in _PARSE:
            return _PARSE[word](self, results)
        if len(results) != 1 or word not in OPCODES:
            raise self.error(f"{word!r} is no statement")
        self.take("(")
        operands = self.operands(")")
        self.take(")")
        return Compute(self.bind(results)[0], word, operands)

    def result_names(self) -> list[tuple[str, DType]]:
        """Names and dtypes before `=`. They are bound after the statement, whose body cannot see them."""
        found: list[tuple[str, DType]] = []
        while len(self.tokens) > 1 and self.tokens[-2][0] == ":":
            name = self.take()
            self.take(":")
            found.append((name, self.dtype()))
            if not self.skip(","):
                self.take("=")
                break
        return found

    def bind(self, results: Sequence[tuple[str, DType]]) -> tuple[Value, ...]:
        for name, dtype in results:
            if name in self.values:
                raise self.error(f"{name} is defined twice")
            self.values[name] = Value(dtype, name.startswith("v"))
        return tuple(self.values[name] for name, _ in results)

    def single(self, results: Sequence[tuple[str, DType]]) -> Value:
        if len(results) != 1:
            raise self.error("one result is wanted")
        return self.bind(results)[0]

    def load(self, results: Sequence[tuple[str, DType]]) -> Statement:
        memory, index = self.place()
        access, mask = self.access(), self.mask()
        other = self.operand() if self.skip("else") else None
        return Load(self.single(results), memory, index, access, mask, other)

    def store(self) -> Statement:
        self.take("store")
        memory, index = self.place()
        access = self.access()
        streams = self.skip("streams")
        self.take("=")
        value = self.operand()
        return Store(memory, index, value, access, self.mask(), streams)

    def atomic(self) -> Statement:
        self.take("atomic")
        opcode = self.take()
        memory, index = self.place()
        self.take("=")
        value = self.operand()
        return Atomic(opcode, memory, index, value, self.mask())

    def lane_reduce(self, results: Sequence[tuple[str, DType]]) -> Statement:
        opcode, operand = self.take(), self.operand()
        return LaneReduce(self.single(results), opcode, operand)

    def lane_shift(self, results: Sequence[tuple[str, DType]]) -> Statement:
        operand = self.operand()
        self.take("by")
        amount = self.integer()
        self.take("fill")
        fill = self.operand()
        return LaneShift(self.single(results), operand, amount, fill)

    def extract(self, results: Sequence[tuple[str, DType]]) -> Statement:
        operand = self.operand()
        self.take("[")
        lane = self.operand()
        self.take("]")
        return Extract(self.single(results), operand, lane)

    def call(self, results: Sequence[tuple[str, DType]]) -> Statement:
        symbol = self.take()
        self.take("(")
        operands = self.operands(")")
        self.take(")")
        mask = self.mask()
        return Call(self.bind(results), symbol, operands, mask)

    def entering(self) -> tuple[tuple[Value, ...], tuple[Operand, ...]]:
        """`with c: f32 = x, …`: carried values, and what they begin with."""
        found: list[tuple[tuple[str, DType], Operand]] = []
        if self.skip("with"):
            while True:
                name = self.take()
                self.take(":")
                dtype = self.dtype()
                self.take("=")
                found.append(((name, dtype), self.operand()))
                if not self.skip(","):
                    break
        self.take("{")
        return self.bind([name for name, _ in found]), tuple(operand for _, operand in found)

    def yields(self) -> tuple[Operand, ...]:
        """The yields at the end of a block; its closing line becomes the current one."""
        found: tuple[Operand, ...] = ()
        if self.skip("yield"):
            found = self.operands()
            self.advance()
        self.take("}")
        return found

    def for_(self, results: Sequence[tuple[str, DType]]) -> Statement:
        index = self.define(I64)
        self.take("in")
        self.take("range")
        self.take("(")
        start = self.operand()
        self.take(",")
        stop = self.operand()
        self.take(",")
        step = self.integer()
        self.take(")")
        carried, initial = self.entering()
        body = self.body()
        yields = self.yields()
        return For(index, start, stop, step, carried, initial, body, yields, self.bind(results))

    def while_(self, results: Sequence[tuple[str, DType]]) -> Statement:
        carried, initial = self.entering()
        condition_body = self.body()
        self.take("test")
        condition = self.operand()
        self.advance()
        for word in ("}", "do", "{"):
            self.take(word)
        body = self.body()
        yields = self.yields()
        return While(carried, initial, condition_body, condition, body, yields, self.bind(results))

    def if_(self, results: Sequence[tuple[str, DType]]) -> Statement:
        condition = self.operand()
        self.take("{")
        then = self.body()
        then_yields = self.yields()
        otherwise: tuple[Statement, ...] = ()
        otherwise_yields: tuple[Operand, ...] = ()
        if self.skip("else"):
            self.take("{")
            otherwise = self.body()
            otherwise_yields = self.yields()
        return If(condition, then, then_yields, otherwise, otherwise_yields, self.bind(results))


_PARSE: dict[str, Callable[[_Parser, Sequence[tuple[str, DType]]], Statement]] = {
    "load": _Parser.load,
    "lane_reduce": _Parser.lane_reduce,
    "lane_shift": _Parser.lane_shift,
    "extract": _Parser.extract,
    "call": _Parser.call,
    "for": _Parser.for_,
    "while": _Parser.while_,
    "if": _Parser.if_,
}
