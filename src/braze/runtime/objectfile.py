"""The symbol table of an object file: what it defines and what it wants from outside.

ORC reports an unresolved symbol only on standard error and loads what it was not asked to export under no
name, so `engine` reads both lists here before it links. Three small readers, one per object format that
LLVM writes for the machines braze runs on; they read what LLVM itself has just written or what the object
cache has checked by its hash, and take nothing else.

Sources: System V ABI (ELF-64), Apple's mach-o/loader.h and nlist.h, Microsoft PE/COFF specification.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from braze.errors import InternalError
from braze.record import Record


@dataclass(slots=True, eq=False, repr=False)
class Symbols(Record):
    """Global names of one object, without the platform's leading underscore."""

    defined: tuple[str, ...]
    undefined: tuple[str, ...]


def symbol_table(image: bytes) -> Symbols:
    """List the global symbols of an object file in ELF-64, Mach-O-64 or COFF.

    Raises: InternalError when the bytes are no object of these formats.
    """
    try:
        if image[:4] == b"\x7fELF":
            return _elf(image)
        if image[:4] == b"\xcf\xfa\xed\xfe":
            return _macho(image)
        if image[:2] in (b"\x64\x86", b"\x64\xaa"):
            return _coff(image)
    except (struct.error, IndexError, ValueError) as error:
        raise InternalError(
            f"object file: its symbol table cannot be read ({error}).", stage="engine"
        ) from None
    raise InternalError(f"object file: it begins with {image[:4]!r}, no known format.", stage="engine")


def _name(image: bytes, at: int) -> str:
    return image[at : image.index(b"\0", at)].decode()


def _elf(image: bytes) -> Symbols:
    (header,) = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, header + size * i) for i in range(count)]
    defined: list[str] = []
    undefined: list[str] = []
    for section in sections:
        if section[1] != 2:  # SHT_SYMTAB
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, info, _, index = struct.unpack_from("<IBBH", image, at)
            if info >> 4 != 0 and name:  # binding: 0 is local
                (undefined if index == 0 else defined).append(_name(image, names + name))
    return Symbols(tuple(defined), tuple(undefined))


def _macho(image: bytes) -> Symbols:
    (commands,) = struct.unpack_from("<I", image, 16)
    at = 32
    defined: list[str] = []
    undefined: list[str] = []
    for _ in range(commands):
        command, size = struct.unpack_from("<II", image, at)
        if command == 2:  # LC_SYMTAB
            table, count, names = struct.unpack_from("<III", image, at + 8)
            for entry in range(table, table + 16 * count, 16):
                name, kind = struct.unpack_from("<IB", image, entry)
                if kind & 1 and not kind & 0xE0:  # N_EXT, no debugging entry
                    text = _name(image, names + name).removeprefix("_")
                    (defined if kind & 0xE else undefined).append(text)
        at += size
    return Symbols(tuple(defined), tuple(undefined))


def _coff(image: bytes) -> Symbols:
    table, count = struct.unpack_from("<II", image, 8)
    names = table + 18 * count
    defined: list[str] = []
    undefined: list[str] = []
    entry = 0
    while entry < count:
        short, _, section, _, storage, extra = struct.unpack_from("<8sIhHBB", image, table + 18 * entry)
        if storage == 2:  # IMAGE_SYM_CLASS_EXTERNAL
            offset = struct.unpack_from("<I", short, 4)[0]
            text = _name(image, names + offset) if short[:4] == b"\0\0\0\0" else short.rstrip(b"\0").decode()
            (undefined if section == 0 else defined).append(text)
        entry += 1 + extra
    return Symbols(tuple(defined), tuple(undefined))
