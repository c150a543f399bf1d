"""The import order of DESIGN: a module imports only lower ranks, or its own folder; llvmlite has one home."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "braze"
GROUPS = (
    ("record", "errors", "knobs", "dtypes", "types", "target", "tree", "tree_util", "core"),
    ("ops", "trace", "hlo", "passes", "kernel", "program", "targets", "cache", "runtime"),
    ("array", "stages"),
    ("lax", "numpy", "nn", "random", "scipy", "debug"),
    ("api", "__init__"),
    ("inspect", "pjrt", "cli"),
)
ORDER = tuple(part for group in GROUPS for part in group)
LLVMLITE = ("targets",)
FILES = sorted(ROOT.rglob("*.py"))


def rank(path: Path) -> str:
    """The part of braze that a file belongs to."""
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that is imported when the program runs, inside functions too."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        pending.extend(ast.iter_child_nodes(node))
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=0) if module is not None:
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)
            case ast.ImportFrom():
                yield node.lineno, "a relative import"


def violations(source: str, part: str, where: str) -> list[str]:
    """What a module of a part imports against the order."""
    found = []
    for line, name in imported(ast.parse(source)):
        pieces = name.split(".")
        if pieces[0] == "llvmlite" and part not in LLVMLITE:
            found.append(f"{where}:{line} imports llvmlite")
        elif pieces[0] != "braze":
            if name == "a relative import":
                found.append(f"{where}:{line} has {name}")
        elif pieces[1] not in ORDER:
            found.append(f"{where}:{line} imports {name}, which is nowhere in the order")
        elif pieces[1] != part and ORDER.index(pieces[1]) >= ORDER.index(part):
            found.append(f"{where}:{line} imports {name}, of a higher rank")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_module_imports_lower_ranks_only(path: Path) -> None:
    assert rank(path) in ORDER, f"{path} has no place in the order"
    assert violations(path.read_text(), rank(path), path.name) == []


@pytest.mark.parametrize(
    ("part", "line", "fault"),
    [
        ("ops", "from braze.hlo import ir", "higher rank"),
        ("ops", "def f():\n    import braze.runtime.array", "higher rank"),
        ("core", "from braze import ops", "higher rank"),
        ("passes", "import llvmlite.binding", "llvmlite"),
        ("lax", "from .lax import add", "relative"),
        ("core", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from braze import ops", None),
        ("lax", "from braze import somewhere", "nowhere"),
        ("hlo", "from braze.ops import table\nfrom braze.hlo import ir", None),
        ("targets", "def f():\n    import llvmlite.binding", None),
    ],
)
def test_a_violation_is_found(part: str, line: str, fault: str | None) -> None:
    found = violations(line, part, "here")
    assert (len(found) == 1 and fault in found[0]) if fault else found == []


def test_importing_braze_loads_neither_llvmlite_nor_scipy() -> None:
    import subprocess
    import sys

    program = "import sys, braze, braze.numpy; print(sorted({'llvmlite', 'scipy', 'jax'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
