"""engine: IR text to objects, objects to addresses, and errors where LLVM would end the process."""

from __future__ import annotations

import ctypes
import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from braze.errors import InternalError, UnsupportedError
from braze.runtime import engine
from braze.runtime.objectfile import symbol_table
from braze.target import NUMPY, Target

UNARY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)

TEXT = """
declare i32 @outside(i32)
@table = internal constant [4 x i32] [i32 1, i32 2, i32 3, i32 4]
define i32 @lookup(i32 %x) {
  %place = getelementptr i32, ptr @table, i32 %x
  %value = load i32, ptr %place
  %y = call i32 @outside(i32 %value)
  ret i32 %y
}
"""


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


@UNARY
def times_ten(x: int) -> int:
    return x * 10


def test_code_runs_and_calls_out_by_name(host: Target) -> None:
    library = engine.load(engine.compile_object(TEXT, host), {"outside": _address(times_ten), "unused": 1})
    assert library.names == ("lookup",)
    assert UNARY(library.address("lookup"))(2) == 30


def test_objects_hold_no_addresses(host: Target) -> None:
    image = engine.compile_object(TEXT, host)
    assert image == engine.compile_object(TEXT, host)
    assert symbol_table(image).undefined == ("outside",)


def test_missing_symbols_are_named(host: Target) -> None:
    with pytest.raises(InternalError, match=r"layer wants symbols that nobody has: outside\."):
        engine.load(engine.compile_object(TEXT, host), {}, name="layer")


def test_a_misspelt_intrinsic_is_named(host: Target) -> None:
    text = "declare float @llvm.sine.f32(float)\ndefine float @f(float %x) {\n" + (
        "  %y = call float @llvm.sine.f32(float %x)\n  ret float %y\n}"
    )
    with pytest.raises(InternalError, match=r"llvm\.sine\.f32"):
        engine.load(engine.compile_object(text, host), {})


def test_the_c_library_serves_memcpy_but_not_sin(host: Target) -> None:
    text = "declare ptr @memcpy(ptr, ptr, i64)\ndefine void @copy(ptr %to, ptr %from, i64 %n) {\n" + (
        "  %r = call ptr @memcpy(ptr %to, ptr %from, i64 %n)\n  ret void\n}"
    )
    library = engine.load(engine.compile_object(text, host), {})
    to, source = ctypes.create_string_buffer(6), ctypes.create_string_buffer(b"braze")
    ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_long)(library.address("copy"))(
        to, source, 6
    )
    assert to.value == b"braze"
    with pytest.raises(InternalError, match="nobody has: sin"):
        engine.load(engine.compile_object(text.replace("memcpy", "sin"), host), {})


def test_text_that_does_not_parse_quotes_llvm(host: Target) -> None:
    with pytest.raises(InternalError, match="expected type"):
        engine.compile_object("define i32 @f( {", host)


def test_text_that_does_not_verify_is_an_error_not_an_abort(host: Target) -> None:
    text = "define i32 @f(i32 %x) {\n  %y = add i32 %z, 1\n  %z = add i32 %x, 1\n  ret i32 %y\n}"
    with pytest.raises(InternalError, match="does not dominate"):
        engine.compile_object(text, host)


def test_a_target_without_code_is_unsupported(host: Target) -> None:
    with pytest.raises(UnsupportedError, match="numpy"):
        engine.compile_object(TEXT, NUMPY)
    with pytest.raises(UnsupportedError, match="z80"):
        engine.compile_object(TEXT, replace(host, triple="z80-unknown-none"))


def test_threads_compile_the_same_bytes_at_once(host: Target) -> None:
    want = engine.compile_object(TEXT, host)
    with ThreadPoolExecutor(4) as executor:
        assert all(
            image == want for image in executor.map(lambda _: engine.compile_object(TEXT, host), range(40))
        )


@pytest.mark.skipif(sys.platform != "linux", reason="counts maps in /proc")
def test_dropped_libraries_give_their_memory_back(host: Target) -> None:
    image = engine.compile_object(TEXT, host)

    def load_many() -> int:
        for _ in range(100):
            engine.load(image, {"outside": _address(times_ten)})
        gc.collect()
        with open("/proc/self/maps") as file:
            return sum(1 for _ in file)

    before = load_many()
    assert load_many() < before + 20  # two maps each would be 200


def test_several_objects_are_linked_together(host: Target) -> None:
    inner = "define i32 @outside(i32 %x) {\n  %y = mul i32 %x, 100\n  ret i32 %y\n}"
    images = [engine.compile_object(text, host) for text in (TEXT, inner)]
    assert UNARY(engine.load(images, {}).address("lookup"))(1) == 200


def test_assembly_is_text(host: Target) -> None:
    assert "lookup:" in engine.assembly(TEXT, host)


@pytest.mark.parametrize(
    ("triple", "magic"),
    [
        ("x86_64-unknown-linux-gnu", b"\x7fELF"),
        ("x86_64-apple-darwin", b"\xcf\xfa\xed\xfe"),
        ("x86_64-pc-windows-msvc", b"\x64\x86"),
        ("aarch64-apple-darwin", b"\xcf\xfa\xed\xfe"),
    ],
)
def test_symbol_tables_of_every_format(host: Target, triple: str, magic: bytes) -> None:
    image = engine.compile_object(TEXT, replace(host, triple=triple, cpu="", features=""))
    assert image.startswith(magic)
    table = symbol_table(image)
    assert (table.defined, table.undefined) == (("lookup",), ("outside",))


def test_bytes_that_are_no_object_are_an_error() -> None:
    with pytest.raises(InternalError, match="no known format"):
        symbol_table(b"text")
    with pytest.raises(InternalError, match="cannot be read"):
        symbol_table(b"\x7fELF\x02\x01\x01")


def test_libraries_that_outlive_the_modules_leave_quietly(
    host: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the interpreter's end names of modules are None before the last objects go."""
    library = engine.load(engine.compile_object("define i32 @f() {\n  ret i32 1\n}", host), {})
    for name in ("sys", "llvm", "message"):
        monkeypatch.setattr(engine, name, None)
    library.__del__(lambda: True)
    monkeypatch.undo()
    assert UNARY(library.address("f"))(0) == 1  # it was left alone
