"""The runtime's machine code: one text for all machines, from the cache when it can be."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from braze import knobs
from braze.cache.disk import disk_cache
from braze.runtime import engine, services, services_ir
from braze.target import Target


@pytest.mark.parametrize(
    "triple",
    [
        "x86_64-unknown-linux-gnu",
        "aarch64-unknown-linux-gnu",
        "arm64-apple-darwin",
        "x86_64-pc-windows-msvc",
        "powerpc64le-unknown-linux-gnu",
    ],
)
@pytest.mark.parametrize("callbacks", [False, True])
def test_the_text_is_code_on_every_machine(triple: str, callbacks: bool) -> None:
    text = services_ir.module_text(triple, callbacks=callbacks)
    assembly = engine.assembly(text, Target("cpu", triple=triple))
    for name in (*services.PROGRAM_SYMBOLS, "braze_pool_worker", "braze_heap_trim"):
        assert name in assembly


def test_it_is_loaded_once() -> None:
    assert services.services() is services.services()


PROGRAM = """
from braze.runtime import engine
from braze.runtime.services import services
compiled = []
real = engine.compile_object
engine.compile_object = lambda *arguments: compiled.append(1) or real(*arguments)
address = services().allocate(1000)
print(len(compiled), address % 64)
"""


def test_the_second_process_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAZE_CACHE", str(tmp_path / "objects"))
    outputs = [
        subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], capture_output=True, text=True)
        for _ in range(2)
    ]
    assert [(o.stdout, o.stderr) for o in outputs] == [("1 0\n", ""), ("0 0\n", "")]


def test_a_damaged_object_is_compiled_anew(tmp_path: Path, host: Target) -> None:
    text = "define i32 @one() {\n  ret i32 1\n}"
    with knobs.config(cache=str(tmp_path / "objects")):
        image = engine.cached_object(text, host)
        folder = disk_cache()
        assert folder is not None
        (path,) = folder.folder.iterdir()
        path.write_bytes(path.read_bytes()[:-10])
        with pytest.warns(RuntimeWarning, match="damaged"):
            assert engine.cached_object(text, host) == image
        assert engine.cached_object(text, host) == image


def test_without_a_cache_code_is_compiled_all_the_same(tmp_path: Path, host: Target) -> None:
    text = "define i32 @one() {\n  ret i32 1\n}"
    with knobs.config(cache="off"):
        image = engine.cached_object(text, host)
    with knobs.config(cache=str(tmp_path / "objects")):
        assert engine.cached_object(text, host) == image
        shutil.rmtree(tmp_path / "objects")
        with pytest.warns(RuntimeWarning, match="could not be written"):
            assert engine.cached_object(text, host) == image
