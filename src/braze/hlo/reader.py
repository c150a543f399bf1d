"""Reading the parts of StableHLO text: tokens, types, attribute values, element literals.

`parse` builds on it what has meaning: instructions, regions, functions.

Invariant: depth of nesting is bounded, so Python's recursion limit is never met.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from braze import dtypes, errors
from braze.hlo import lexer, literals
from braze.hlo.lexer import BANG, END, HASH, NAME, NUMBER, STRING, SYMBOL, TYPE
from braze.types import TensorType

_MAX_DEPTH = 64
"""Nesting of regions, lists and attributes together; a level takes up to six Python frames."""

_MAX_CONSTANT = 1 << 30
"""Bytes of the largest constant: one digit too many in a splat should not ask for all memory."""

_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


class Reader:
    """A place in the tokens of a text, and what can be read from there."""

    def __init__(self, text: str) -> None:
        tokens = lexer.tokenize(text)
        self.source = text
        self.kinds, self.texts, self.offsets = tokens.kinds, tokens.texts, tokens.offsets
        self.at = 0
        self.depth = 0
        self.types: dict[str, TensorType] = {}

    # --- tokens -----------------------------------------------------------------------------------
    def error(self, message: str, at: int | None = None) -> errors.ParseError:
        return lexer.error(self.source, self.offsets[self.at if at is None else at], message)

    def unsupported(self, what: str, at: int) -> errors.UnsupportedError:
        line = lexer.line_of(self.source, self.offsets[at])
        return errors.UnsupportedError(f"parse: {what} at line {line} is not supported.")

    def found(self) -> str:
        text = self.texts[self.at]
        return "the end of the text" if self.kinds[self.at] == END else f"'{text[:40]}'"

    def accept(self, text: str) -> bool:
        if self.texts[self.at] == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error(f"expected '{text}', found {self.found()}")

    def take(self, kind: int, what: str) -> str:
        if self.kinds[self.at] != kind:
            raise self.error(f"expected {what}, found {self.found()}")
        self.at += 1
        return self.texts[self.at - 1]

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.error(f"nesting deeper than {_MAX_DEPTH}")
        yield
        self.depth -= 1

    def skip_balanced(self) -> None:
        """Skip one bracketed group, whatever is in it."""
        start = self.at
        waiting: list[str] = []
        while True:
            text = self.texts[self.at]
            if self.kinds[self.at] == END:
                raise self.error(f"'{self.texts[start]}' is never closed", start)
            if text in _CLOSING and self.kinds[self.at] != STRING:
                waiting.append(_CLOSING[text])
            elif waiting and text == waiting[-1]:
                waiting.pop()
            self.at += 1
            if not waiting:
                return

    def skip_location(self) -> None:
        if self.texts[self.at] == "loc" and self.texts[self.at + 1] == "(":
            self.at += 1
            self.skip_balanced()

    def sequence(self, item: Callable[[], Any], close: str) -> list[Any]:
        """Items with commas between them, up to and including the closing bracket."""
        items: list[Any] = []
        while not self.accept(close):
            if items:
                self.expect(",")
            items.append(item())
        return items

    # --- types ------------------------------------------------------------------------------------
    def type(self) -> TensorType:
        start = self.at
        if self.kinds[start] == BANG:
            raise self.unsupported(f"the type {self.texts[start]}", start)
        text = self.take(TYPE, "a tensor type")
        found = self.types.get(text)
        if found is None:
            found = self.types[text] = self.tensor_type(text, start)
        return found

    def tensor_type(self, text: str, at: int) -> TensorType:
        *sizes, element = text[len("tensor<") : -1].replace(" ", "").split("x")
        if sizes and sizes[-1] == "comple":  # the x of complex<f32> is no separator
            element = f"{sizes.pop()}x{element}"
        for size in sizes:
            if size == "?":
                raise self.unsupported(f"the dynamic type {text}", at)
            if not (size.isascii() and size.isdigit() and len(size) < 19):
                raise self.error(f"{text} is no tensor type", at)
        dtype = dtypes.FROM_HLO.get(element)
        if dtype is None:
            raise self.unsupported(f"the element type of {text}", at)
        return TensorType(map(int, sizes), dtype)

    def type_list(self) -> list[TensorType]:
        """`(T, T)` or `T`."""
        if self.accept("("):
            return self.sequence(self.annotated_type, ")")
        return [self.type()]

    def annotated_type(self) -> TensorType:
        found = self.type()
        self.skip_location()
        return found

    def signature(self) -> tuple[list[TensorType], list[TensorType]]:
        """`(T, T) -> T`."""
        self.expect("(")
        operands = self.sequence(self.type, ")")
        self.expect("->")
        return operands, self.type_list()

    def types_in_a_row(self) -> list[TensorType]:
        """`T, T, T`."""
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return found

    # --- attributes -------------------------------------------------------------------------------
    def dictionary(self, close: str = "}") -> dict[str, Any]:
        """Entries up to the closing brace; the opening one is already read."""
        found: dict[str, Any] = {}
        with self.nested():
            while not self.accept(close):
                if found:
                    self.expect(",")
                name, value = self.entry()
                found[name] = value
        return found

    def optional_dictionary(self) -> dict[str, Any]:
        return self.dictionary() if self.accept("{") else {}

    def properties(self) -> dict[str, Any]:
        """`<{…}>` where it stands."""
        if self.texts[self.at] != "<":
            return {}
        self.at += 1
        self.expect("{")
        found = self.dictionary()
        self.expect(">")
        return found

    def entry(self) -> tuple[str, Any]:
        if self.kinds[self.at] == STRING:
            name = lexer.unquote(self.take(STRING, "a name"))
        else:
            name = self.take(NAME, "the name of an attribute")
        return name, self.attribute() if self.accept("=") else None

    def attribute(self) -> Any:
        """One attribute value as plain Python data; a `#dialect<…>` that braze lacks is its text."""
        kind, text = self.kinds[self.at], self.texts[self.at]
        with self.nested():
            if kind == NUMBER:
                return self.number()
            if kind == STRING:
                self.at += 1
                return lexer.unquote(text)
            if kind == SYMBOL:
                return self.symbol()
            if kind == TYPE:
                return self.type()
            if kind == HASH:
                return self.dialect_attribute()
            if text in ("true", "false"):
                self.at += 1
                return text == "true"
            if self.accept("["):
                return tuple(self.sequence(self.attribute, "]"))
            if self.accept("{"):
                return self.dictionary()
            if text == "dense":
                return self.dense_attribute()
            if self.accept("array"):
                return self.array()
            if self.accept("unit"):
                return None
            if text == "(":
                return self.signature()
            if text in ("#", "loc", "affine_map", "dense_resource", "opaque"):
                raise self.unsupported(f"the attribute '{text}'", self.at)
            raise self.error(f"expected an attribute value, found {self.found()}")

    def number(self) -> Any:
        """`3`, `3 : i32` (a NumPy integer where it is not i64), `2.5 : f64`."""
        start = self.at
        text = self.take(NUMBER, "a number")
        is_float = "." in text or ("e" in text.lower() and "x" not in text)
        value: Any = float(text) if is_float else self.integer_from(text, start)
        if self.texts[self.at] != ":":
            return value
        self.at += 1
        name = self.take(NAME, "a type")
        dtype = dtypes.FROM_HLO.get(name)
        if dtype is None or (name == "i64" and not is_float):
            return value
        try:
            array = literals.array_from_elements((text,), None, TensorType((), dtype))
        except (OverflowError, ValueError, KeyError) as why:
            raise self.error(f"not of type {name}: {why}", start) from None
        return float(array) if dtypes.is_float(dtype) else array[()]

    def integer_from(self, text: str, at: int) -> int:
        if len(text) > 40:
            raise self.error("an integer of more than 40 digits", at)
        try:
            return int(text, 16 if "0x" in text else 10)
        except ValueError:
            raise self.error(f"expected an integer, found '{text}'", at) from None

    def integer(self) -> int:
        start = self.at
        return self.integer_from(self.take(NUMBER, "an integer"), start)

    def integers(self) -> tuple[int, ...]:
        self.expect("[")
        return tuple(self.sequence(self.integer, "]"))

    def array(self) -> tuple[Any, ...]:
        """`array<i64: 1, 2>`; `array` is already read."""
        self.expect("<")
        self.take(NAME, "an element type")
        if self.accept(">"):
            return ()
        self.expect(":")
        return tuple(self.sequence(self.attribute, ">"))

    def symbol(self) -> str:
        text = self.take(SYMBOL, "a symbol such as @main")[1:]
        return lexer.unquote(text) if text.startswith('"') else text

    def dialect_attribute(self) -> Any:
        """`#stablehlo<precision HIGH>` is "HIGH"; `#stablehlo.dot<…>` is a dict; others are their text."""
        start = self.at
        name = self.take(HASH, "an attribute")
        if self.texts[self.at] != "<":
            return name
        if name == "#stablehlo" and self.kinds[self.at + 2] == NAME and self.texts[self.at + 3] == ">":
            self.at += 4
            return self.texts[self.at - 2]
        if name.startswith("#stablehlo."):
            self.at += 1
            return self.dictionary(">")
        self.skip_balanced()
        end = self.offsets[self.at - 1] + len(self.texts[self.at - 1])
        return self.source[self.offsets[start] : end]

    def dense_attribute(self) -> np.ndarray[Any, Any]:
        """`dense<[1, 2]> : tensor<2xi32>`."""
        start = self.at
        build = self.dense()
        self.expect(":")
        return self.dense_array(build, self.type(), start)

    # --- dense elements ---------------------------------------------------------------------------
    def dense(self) -> Callable[[TensorType], np.ndarray[Any, Any]]:
        """`dense<…>`; the type that says what the elements are comes later in the text."""
        self.expect("dense")
        self.expect("<")
        if self.kinds[self.at] == STRING:
            text = lexer.unquote(self.take(STRING, "a string"))
            self.expect(">")
            return lambda type: literals.array_from_bytes(_raw_bytes(text), type)
        if self.accept(">"):
            return lambda type: literals.array_from_elements((), (0,), type)
        elements: list[Any] = []
        shape = self.elements(elements)
        self.expect(">")
        return lambda type: literals.array_from_elements(elements, shape, type)

    def dense_array(
        self, build: Callable[[TensorType], np.ndarray[Any, Any]], type: TensorType, at: int
    ) -> np.ndarray[Any, Any]:
        if type.nbytes > _MAX_CONSTANT:
            raise self.unsupported(f"a constant of {type.nbytes} bytes", at)
        try:
            array = build(type)
        except (ValueError, OverflowError, KeyError) as why:
            raise self.error(f"dense<…> does not fit its type: {why}", at) from None
        array.setflags(write=False)
        return array

    def elements(self, into: list[Any]) -> tuple[int, ...] | None:
        """Append the elements of a literal or nested list; returns the list's shape, None for one literal."""
        if not self.accept("["):
            into.append(self.element())
            return None
        inner: tuple[int, ...] | None = None
        count = 0
        with self.nested():
            while not self.accept("]"):
                if count:
                    self.expect(",")
                start = self.at
                shape = self.elements(into)
                if count and shape != inner:
                    raise self.error("the lists inside one list differ in shape", start)
                inner = shape
                count += 1
        return (count, *(inner or ()))

    def element(self) -> Any:
        kind, text = self.kinds[self.at], self.texts[self.at]
        if kind == NUMBER:
            self.at += 1
            return text
        if text in ("true", "false"):
            self.at += 1
            return text == "true"
        if self.accept("("):
            real = self.take(NUMBER, "a number")
            self.expect(",")
            imaginary = self.take(NUMBER, "a number")
            self.expect(")")
            return (real, imaginary)
        raise self.error(f"expected an element, found {self.found()}")


def _raw_bytes(text: str) -> bytes:
    if not text.startswith("0x"):
        raise ValueError("a string that does not begin with 0x")
    return bytes.fromhex(text[2:])
