"""The object cache on disk: whole entries or none, private, and never in the way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from braze import knobs
from braze.cache import disk
from braze.cache.disk import DiskCache, Entry, disk_cache, isa_features
from braze.cache.key import Key, make_key
from braze.target import Target

TARGET = Target("cpu", triple="x86_64-unknown-linux-gnu", cpu="skylake", features="+avx2,+fma,+fast-gather")
KEY = make_key("text", TARGET)
ENTRY = Entry(bytes(range(256)) * 20, {"arena": 64, "names": ["a", "b"]})
posix = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    with knobs.config(cache=str(tmp_path / "deep" / "objects")):
        made = disk_cache()
    assert made is not None
    return made


def test_entries_come_back(cache: DiskCache) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, ENTRY)
    assert cache.get(KEY) == ENTRY
    assert DiskCache(cache.folder).get(KEY) == ENTRY
    assert [path.name for path in cache.folder.iterdir()] == [f"{KEY.digest}.o"]


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut in the frame": lambda data: data[:20],
    "cut in the image": lambda data: data[:-1],
    "too long": lambda data: data + b"x",
    "another format": lambda data: _flip(data, 6),
    "length changed": lambda data: _flip(data, 16),
    "header changed": lambda data: _flip(data, 80),
    "image changed": lambda data: _flip(data, len(data) - 5),
    "zeros": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_removed_and_rewritten_with_one_warning(cache: DiskCache, damage: str) -> None:
    cache.put(KEY, ENTRY)
    path = cache.path(KEY)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.warns(RuntimeWarning, match="a damaged entry was removed") as caught:
        assert cache.get(KEY) is None
    assert [w.filename for w in caught] == [__file__]  # the line of whoever asked, not one of ours
    assert not path.exists()
    cache.put(KEY, ENTRY)
    assert cache.get(KEY) == ENTRY


def test_every_flipped_bit_of_a_small_entry_is_noticed(cache: DiskCache) -> None:
    cache.put(KEY, Entry(b"image"))
    data = cache.path(KEY).read_bytes()
    for at in range(len(data)):
        with pytest.raises(disk._DamagedError):
            disk._decode(_flip(data, at), KEY)


def test_an_entry_under_another_name_is_not_taken(cache: DiskCache) -> None:
    other = make_key("other text", TARGET)
    cache.put(KEY, ENTRY)
    os.rename(cache.path(KEY), cache.path(other))
    with pytest.warns(RuntimeWarning, match="belongs to another key"):
        assert cache.get(other) is None


def test_code_for_instructions_that_are_missing_is_not_taken(cache: DiskCache) -> None:
    forged = disk._encode(make_key("text", replace(TARGET, features="+avx2,+fma,+avx512f")), ENTRY)
    with pytest.raises(disk._DamagedError, match="another key"):
        disk._decode(forged, KEY)
    tuned = disk._encode(KEY, ENTRY).replace(b'"features": ["avx2", "fma"]', b'"features": ["avx2", "amx"]')
    header, image = disk._FRAME.unpack_from(tuned)[1:3]
    import hashlib

    body = tuned[disk._FRAME.size :]
    framed = disk._FRAME.pack(disk.MAGIC, header, image, hashlib.sha256(body).digest()) + body
    with pytest.raises(disk._DamagedError, match="needs amx, which this machine lacks"):
        disk._decode(framed, KEY)


def test_tuning_flags_are_not_instructions() -> None:
    assert isa_features("+avx2,+fast-gather,-avx512f,+prefer-256-bit,-prefer-128-bit") == {"avx2"}
    assert isa_features("") == frozenset()


@posix
def test_folder_and_files_are_private(cache: DiskCache) -> None:
    cache.put(KEY, ENTRY)
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(cache.path(KEY).stat().st_mode) == 0o600


@posix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_is_refused_once(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "objects"
    folder.mkdir()
    folder.chmod(mode)
    with knobs.config(cache=str(folder)):
        with pytest.warns(RuntimeWarning, match="other users could put code there"):
            assert disk_cache() is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert disk_cache() is None


@posix
def test_a_file_that_others_can_write_is_not_taken(cache: DiskCache) -> None:
    cache.put(KEY, ENTRY)
    cache.path(KEY).chmod(0o666)
    with pytest.warns(RuntimeWarning, match="not yours alone"):
        assert cache.get(KEY) is None


def test_a_folder_that_cannot_be_made_only_warns(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    setting = str(tmp_path / "file" / "objects")
    with knobs.config(cache=setting), pytest.warns(RuntimeWarning, match="no cache folder can be made"):
        assert disk_cache() is None


def test_a_write_that_fails_only_warns(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk.os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        cache.put(KEY, ENTRY)
    assert list(cache.folder.iterdir()) == []


def test_off_means_no_cache(tmp_path: Path) -> None:
    with knobs.config(cache="off"):
        assert disk_cache() is None


def test_the_default_is_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import platformdirs

    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *a, **k: str(tmp_path / "home" / "braze"))
    disk._default_folder.cache_clear()
    try:
        with knobs.config(cache=""):
            found = disk_cache()
        assert found is not None
        assert found.folder == tmp_path / "home" / "braze" / "objects"
    finally:
        disk._default_folder.cache_clear()


def test_files_of_killed_writers_are_swept(cache: DiskCache) -> None:
    old, new = cache.folder / "a.1.x.tmp", cache.folder / "b.1.x.tmp"
    for path in (old, new):
        path.write_bytes(b"part")
    os.utime(old, (0, 0))
    DiskCache(cache.folder).put(KEY, ENTRY)
    assert (old.exists(), new.exists()) == (False, True)


WRITER = """
import sys
from pathlib import Path
from braze.cache.disk import DiskCache, Entry
from braze.cache.key import make_key
from braze.target import NUMPY
cache = DiskCache(Path(sys.argv[1]))
keys = [make_key(str(i), NUMPY) for i in range(5)]
for step in range(200):
    key = keys[step % 5]
    found = cache.get(key)
    assert found is None or found.image == key.digest.encode() * 2000, "torn"
    cache.put(key, Entry(key.digest.encode() * 2000))
"""


def test_processes_do_not_corrupt_each_other(cache: DiskCache) -> None:
    command = [sys.executable, "-W", "error", "-c", WRITER, str(cache.folder)]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    for writer in writers:
        assert writer.communicate(timeout=60)[1] == b""
        assert writer.returncode == 0
    assert len(list(cache.folder.iterdir())) == 5


def test_keys_name_files_on_every_system() -> None:
    assert isinstance(KEY, Key)
    assert len(KEY.digest) == 64
    assert KEY.digest.isalnum()
