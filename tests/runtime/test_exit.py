"""The interpreter ends cleanly, whatever native code is doing at that moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = f"""
import sys, threading, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np
import native_programs as programs
from braze.targets.host import host
program = programs.add_one(host(), 500)
x = np.ones(32000, np.float32)
kept = program.call([x])
"""

ENDINGS = {
    "at rest": "",
    "workers spinning": "program.call([x])",
    "arrays in a cycle": "kept.append(kept); kept.append(program)",
    "after an exception": "raise SystemExit(0)",
    "a daemon thread in a launch": """
def work():
    while True:
        program.call([x])
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.02)
""",
    "a daemon thread in a loop": """
counter = programs.count(host())
threading.Thread(target=counter.call, args=([np.int64(1 << 60)],), daemon=True).start()
time.sleep(0.02)
""",
    "a daemon thread in a callback": """
back = programs.call_back(host(), lambda v: time.sleep(0.0001) or v)
def work():
    while True:
        back.call([np.int32(1)])
threading.Thread(target=work, daemon=True).start()
time.sleep(0.02)
""",
}


def _run(ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + ENDINGS[ending]],
        capture_output=True,
        text=True,
        env=os.environ,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), ending


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_interpreter_ends_cleanly(ending: str) -> None:
    for _ in range(3):
        _run(ending)


@pytest.mark.slow
def test_two_hundred_endings() -> None:
    for i in range(200):
        _run(list(ENDINGS)[i % len(ENDINGS)])
