"""The target of this machine."""

import os
import subprocess
import sys

import pytest

from braze.dtypes import F32
from braze.targets import host as module
from braze.targets.host import host


def test_host_names_the_machine_and_is_made_once():
    target = host()
    assert target is host()
    assert target.name == "cpu" and target.triple and target.cpu
    assert target.vector_bytes in (16, 32, 64)
    assert target.lanes(F32) == target.vector_bytes // 4
    assert 4 << 10 <= target.l1_bytes <= target.l2_bytes
    assert target.cores == os.cpu_count()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_a_process_on_one_core_has_the_same_target():
    """Or the order of its sums, and with it their bits, would be another one."""
    program = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    program += "from braze.targets.host import host\nprint(host())"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found.strip() == str(host())


def test_wide_vectors_stay_whole():
    target = host()
    assert ("-prefer-256-bit" in target.features) == (target.vector_bytes == 64)


@pytest.mark.parametrize("text, size", [("48K", 48 << 10), ("2M", 2 << 20), ("1G", 1 << 30), ("512", 512)])
def test_sizes_as_linux_writes_them(text, size):
    assert module._bytes(text) == size


def test_unknown_caches_have_a_default(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CACHES", tmp_path)
    assert module._cache_bytes(1, 7) == 7
    for name, text in (("type", "Data"), ("level", "1"), ("size", "?")):
        (tmp_path / "index0").mkdir(exist_ok=True)
        (tmp_path / "index0" / name).write_text(text)
    assert module._cache_bytes(1, 7) == 7
    (tmp_path / "index0" / "size").write_text("64K")
    assert module._cache_bytes(1, 7) == 64 << 10
