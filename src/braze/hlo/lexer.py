"""Tokens of StableHLO text, and errors that show where in the text they are.

Tensor types are one token, since `3x4xf32` cannot be cut by the rules for names and numbers.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from braze.errors import ParseError

TYPE, STRING, NUMBER, VALUE, SYMBOL, BLOCK, HASH, BANG, NAME, PUNCTUATION, END = range(11)

_TOKEN = r"""(?P<space>\s+|//[^\n]*)
    |(?P<t0>tensor<[^<>"\n]*(?:<[^<>"\n]*>[^<>"\n]*)?>)
    |(?P<t1>"(?:[^"\\\n]|\\.)*")
    |(?P<t2>-?(?:0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?))
    |(?P<t3>%[A-Za-z0-9_$.-]+(?:\#[0-9]+)?)
    |(?P<t4>@(?:[A-Za-z_][A-Za-z0-9_$.-]*|"(?:[^"\\\n]|\\.)*"))
    |(?P<t5>\^[A-Za-z0-9_$.-]+)
    |(?P<t6>\#[A-Za-z_][A-Za-z0-9_$.]*)
    |(?P<t7>![A-Za-z_][A-Za-z0-9_.]*)
    |(?P<t8>[A-Za-z_][A-Za-z0-9_$.]*)
    |(?P<t9>->|::|[()\[\]{}<>=,:*?+\-/|])"""
_ESCAPE = re.compile(r"\\([0-9a-fA-F]{2}|.)")
_NAMED_ESCAPES = {"n": "\n", "t": "\t"}
_WINDOW = 100


@functools.cache
def _pattern() -> re.Pattern[str]:
    return re.compile(_TOKEN, re.VERBOSE)  # at first use: compiling it takes longer than importing braze.hlo


@dataclass(slots=True)
class Tokens:
    """Kinds, texts and offsets of the tokens; the last token is END, with empty text."""

    source: str
    kinds: list[int]
    texts: list[str]
    offsets: list[int]


def tokenize(source: str) -> Tokens:
    """Cut text into tokens; raises ParseError at a character that begins none."""
    kinds: list[int] = []
    texts: list[str] = []
    offsets: list[int] = []
    at = 0
    match = _pattern().match
    while at < len(source):
        found = match(source, at)
        if found is None:
            raise error(source, at, f"{source[at]!r} begins no token")
        group = found.lastgroup
        assert group is not None, "every alternative is named"
        if group != "space":
            kinds.append(int(group[1:]))
            texts.append(found.group())
            offsets.append(at)
        at = found.end()
    kinds.append(END)
    texts.append("")
    offsets.append(len(source))
    return Tokens(source, kinds, texts, offsets)


def unquote(text: str) -> str:
    """The text of a string token without its quotes and escapes."""
    if "\\" not in text:
        return text[1:-1]

    def plain(found: re.Match[str]) -> str:
        code = found.group(1)
        return chr(int(code, 16)) if len(code) == 2 else _NAMED_ESCAPES.get(code, code)

    # Escaped bytes are UTF-8: gather them as Latin-1 code points, then decode the whole.
    raw = _ESCAPE.sub(plain, text[1:-1])
    try:
        return raw.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return raw


def line_of(source: str, offset: int) -> int:
    return source.count("\n", 0, offset) + 1


def error(source: str, offset: int, message: str) -> ParseError:
    """A ParseError that shows the line with a caret under the place."""
    start = source.rfind("\n", 0, offset) + 1
    end = source.find("\n", offset)
    line = source[start : end if end >= 0 else len(source)]
    column = offset - start
    first = max(0, min(column - _WINDOW // 2, len(line) - _WINDOW))
    shown = line[first : first + _WINDOW].replace("\t", " ")
    return ParseError(
        f"parse: {message}, at line {line_of(source, offset)}, column {column + 1}.",
        values=f"{shown}\n  {' ' * (column - first)}^",
    )
