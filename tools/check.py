"""All checks of the project in the order in which they are cheapest to fail; pytest comes last.

Run `python tools/check.py`; arguments go to pytest.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

CHECKS = (
    ("format", ["ruff", "format", "--check", "--quiet", "."]),
    ("lint", ["ruff", "check", "--quiet", "."]),
    ("types", ["mypy"]),
    (
        "tests and doctests",
        ["pytest", "-n", "2", "--dist", "worksteal", "--doctest-modules", "tests", "src/braze"],
    ),
)


def main() -> int:
    failed = []
    for name, command in CHECKS:
        print(f"--- {name}", flush=True)
        extra = sys.argv[1:] if command[0] == "pytest" else []
        if subprocess.run([sys.executable, "-m", *command, *extra], cwd=ROOT).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
