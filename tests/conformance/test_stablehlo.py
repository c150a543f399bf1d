"""StableHLO's own test modules, run on braze's targets.

The modules stand outside the repository, beside it; without them these tests are skipped. A module is run
if all its operations and types exist. What is missing, and in how many modules, is listed in
`missing.txt`, which may only shrink: `python tests/conformance/test_stablehlo.py` writes it anew and
refuses to let it grow.
"""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import braze.ops.fusion  # noqa: F401  (with its package, fills the table of operations)
from braze import dtypes
from braze.errors import DTypeError, UnsupportedError
from braze.hlo import Module, parse
from braze.hlo.evaluate import evaluate
from braze.hlo.ir import Function, Instruction, Region, equal, walk
from braze.hlo.text import print_module
from braze.hlo.verify import verify
from braze.knobs import config
from braze.ops.table import HLO_OPS
from braze.stages.executable import compile_module, target_of

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "conformance" / "stablehlo"
MISSING = Path(__file__).parent / "missing.txt"


def _run_on_cpu(module: Module, args: Sequence[Any]) -> list[Any]:
    """Machine code for every operation: the modules have no arguments, so folding would leave none."""
    with config(skip="fold", cache="off"):
        try:
            return list(compile_module(module, target_of("cpu"))(*args))
        except UnsupportedError as error:
            pytest.skip(f"not on this target yet: {error.message}")


TARGETS: dict[str, Callable[[Module, Sequence[Any]], list[Any]]] = {"numpy": evaluate, "cpu": _run_on_cpu}
"""How a module is run on each target."""

NOT_RUN = {
    "sort_float32_5": "compares NaN with NaN by expect_eq",
    "top_k_float32_5_chlo": "compares NaN with NaN by expect_eq",
    "dot_general_uint16_4_3_float32_3_6": "wants -0.25163078, one order of summation; exact is -0.25163095",
    "cumprod_complex64_8_9": "wants products of size 1e5 within 1e-3, a tenth of their last place",
}
"""Modules whose checks ask for more than the operation promises."""

_OPERATION = re.compile(r'(?<![#!@%\w."])"?((?:stablehlo|chlo|check|interpreter)\.\w+)(?=["\s(])')
_ELEMENT = re.compile(r"tensor<(?:\d+x|\?x)*([^<>,x]+(?:<[^<>]*>)?)[^<>]*>")
_CHECK_CONST = re.compile(
    r"check\.expect_(eq|almost_eq)_const (%[\w#]+),\s+(dense<.*?>) : (tensor<[^>]*>+)(?: \{tolerance = (\S+) : f64\})?",
    re.DOTALL,
)
_CHECK = re.compile(
    r"check\.expect_(eq|almost_eq|close) (%[\w#]+), (%[\w#]+)(?:, (?:tolerance|max_ulp_difference) = (\S+))? "
    r": (tensor<[^>]*>+)(?:, tensor<[^>]*>+)?"
)


# --- checks ---------------------------------------------------------------------------------------
def _ordered(array: np.ndarray) -> np.ndarray:
    """Unsigned integers in the order of the floats, one apart where the floats are neighbours."""
    bits = array.view(f"u{array.dtype.itemsize}")
    sign = bits.dtype.type(1 << (8 * array.dtype.itemsize - 1))
    return np.where(bits & sign, ~bits, bits | sign)


def _ulps(got: np.ndarray, want: np.ndarray) -> int:
    """The largest distance in ulps; NaN equals NaN; complex in ulps of the larger part."""
    got, want = np.ascontiguousarray(got), np.ascontiguousarray(want)
    if dtypes.is_complex(got.dtype):
        return _complex_ulps(got, want)
    if not dtypes.is_float(got.dtype):
        return 0 if np.array_equal(got, want) else 1 << 64
    a, b = _ordered(got.reshape(-1)), _ordered(want.reshape(-1))
    apart = np.where(a > b, a - b, b - a)
    both_nan = np.isnan(got).reshape(-1) & np.isnan(want).reshape(-1)
    return int(np.where(both_nan, 0, apart).max(initial=0))


def _complex_ulps(got: np.ndarray, want: np.ndarray) -> int:
    larger = np.maximum(np.abs(want.real), np.abs(want.imag))
    finite = np.isfinite(got) & np.isfinite(want)
    difference = np.where(finite, got, 0) - np.where(finite, want, 0)
    apart = np.maximum(np.abs(difference.real), np.abs(difference.imag)) / np.spacing(
        np.where(finite, larger, 1)
    )
    # Where a part is not finite, the parts are compared one by one.
    special = max(_ulps(got.real[~finite], want.real[~finite]), _ulps(got.imag[~finite], want.imag[~finite]))
    return max(int(np.ceil(apart.max(initial=0))), special)


def expect_close(got: np.ndarray, want: np.ndarray, limit: float = 3) -> None:
    assert _ulps(got, want) <= limit, f"{_ulps(got, want)} ulps apart:\n{got}\n{want}"


def expect_almost_eq(got: np.ndarray, want: np.ndarray, limit: float = 1e-3) -> None:
    wide = np.complex128 if dtypes.is_complex(got.dtype) else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=0, atol=limit)


def expect_eq(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == want.dtype
    assert np.array_equal(got, want), f"not equal:\n{got}\n{want}"


CHECKS: dict[str, Callable[..., None]] = {
    "check.expect_close": expect_close,
    "check.expect_almost_eq": expect_almost_eq,
    "check.expect_eq": expect_eq,
}


def with_checks(module: Module) -> tuple[Module, list[str]]:
    """The module with each check a callback, and the list of checks as they run."""
    ran: list[str] = []
    functions = {name: _function_with_checks(f, ran) for name, f in module.functions.items()}
    return Module(functions, module.name), ran


def _function_with_checks(function: Function, ran: list[str]) -> Function:
    """Checks stand at the top level of functions and have no results, so nothing else changes."""
    instructions = []
    for instruction in function.region.instructions:
        check = CHECKS.get(instruction.attrs.get("call_target_name", ""))
        if check is not None:
            callback = functools.partial(_run_check, check, instruction.attrs["backend_config"], ran)
            attrs = {**instruction.attrs, "callback": callback}
            instruction = Instruction(instruction.op, instruction.operands, (), attrs)
        instructions.append(instruction)
    region = Region(function.region.parameters, instructions, function.region.results)
    return Function(function.name, region, function.public)


def _run_check(check: Callable[..., None], limit: str, ran: list[str], got: Any, want: Any) -> tuple[()]:
    ran.append(check.__name__)
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    check(got, want, *([float(limit)] if limit else []))
    return ()


# --- modules --------------------------------------------------------------------------------------
def as_custom_calls(text: str) -> str:
    """The interpreter's `check` dialect written as custom calls."""
    count = 0

    def const(found: re.Match[str]) -> str:
        nonlocal count
        count += 1
        kind, value, dense, type, tolerance = found.groups()
        config = f', backend_config = "{tolerance or 1e-4}"' if kind == "almost_eq" else ""
        return (
            f"%expected_{count} = stablehlo.constant {dense} : {type}\n"
            f"  stablehlo.custom_call @check.expect_{kind}({value}, %expected_{count}) "
            f"{{has_side_effect = true{config}}} : ({type}, {type}) -> ()"
        )

    def pair(found: re.Match[str]) -> str:
        kind, got, want, limit, type = found.groups()
        default = {"almost_eq": "1e-4", "close": "3", "eq": None}[kind]
        config = f', backend_config = "{limit or default}"' if default else ""
        return (
            f"stablehlo.custom_call @check.expect_{kind}({got}, {want}) "
            f"{{has_side_effect = true{config}}} : ({type}, {type}) -> ()"
        )

    return _CHECK.sub(pair, _CHECK_CONST.sub(const, text))


def all_modules() -> Iterator[tuple[str, str]]:
    """Name and text of every module."""
    for path in sorted((FOLDER / "testdata").glob("*.mlir")):
        yield path.stem, path.read_text()
    for path in sorted((FOLDER / "interpret").glob("*.mlir")):
        for k, section in enumerate(path.read_text().split("// -----")):
            if "func.func" in section:
                yield f"interpret/{path.stem}/{k}", as_custom_calls(section)


def what_is_missing(text: str) -> set[str]:
    """Operations and element types that braze does not have."""
    text = re.sub(r"//[^\n]*", "", text)
    operations = {name for name in _OPERATION.findall(text) if name != "stablehlo.return"}
    missing = {name for name in operations if name.removeprefix("stablehlo.") not in HLO_OPS}
    for element in set(_ELEMENT.findall(text)):
        if element not in dtypes.FROM_HLO:
            missing.add(f"type {element.split('<')[0]}" if element.startswith("!") else f"type {element}")
    if "check.expect" not in text:
        missing.add("anything to check")
    for sign in ("tensor<?", "x?x", "!stablehlo.token", "!quant"):
        if sign in text:
            missing.add(f"type {sign}")
    return missing


def dtypes_missing(module: Module) -> set[str]:
    """Operations whose rule says that it does not take the dtype, or not this form of the operation."""
    missing = set()
    for function in module.functions.values():
        for instruction in walk(function.region):
            if instruction.op.hlo == "call":
                continue
            types = [v.type for v in instruction.operands]
            regions = {"regions": instruction.regions} if instruction.regions else {}
            try:
                instruction.op.infer(*types, **regions, **instruction.attrs)
            except (DTypeError, UnsupportedError):
                named = " and ".join(dict.fromkeys(dtypes.short(t.dtype) for t in types))
                missing.add(f"stablehlo.{instruction.op.hlo} of {named}")
    return missing


@functools.cache
def sorted_out() -> tuple[dict[str, Module], Counter[str]]:
    """The modules that can run, and the number of modules in which each missing thing occurs."""
    runnable: dict[str, Module] = {}
    missing: Counter[str] = Counter()
    if FOLDER.is_dir():
        for name, text in all_modules():
            lacking = what_is_missing(text)
            if not lacking:
                module = parse(text)
                lacking = dtypes_missing(module)
                if not lacking and name not in NOT_RUN:
                    runnable[name] = module
            missing.update(lacking)
    return runnable, missing


def listed() -> Counter[str]:
    found: Counter[str] = Counter()
    for line in MISSING.read_text().splitlines():
        count, what = line.split(maxsplit=1)
        found[what] = int(count)
    return found


needs_modules = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no conformance modules at {FOLDER}")


@needs_modules
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted_out()[0])
def test_module(name: str, target: str) -> None:
    original = sorted_out()[0][name]
    verify(original)
    assert equal(parse(print_module(original)), original)
    module, ran = with_checks(original)
    for function in module.functions.values():
        if not function.region.parameters:
            others = {name: f for name, f in module.functions.items() if f is not function}
            TARGETS[target](Module({**others, "main": Function("main", function.region)}), [])
    assert ran, "a module without checks would pass whatever it computes"


@needs_modules
def test_what_is_missing_is_listed() -> None:
    assert dict(sorted_out()[1]) == dict(listed()), f"run: python {Path(__file__).name}, if nothing grew"


def test_ulps_count_neighbours() -> None:
    one = np.array([1.0, -0.0, np.nan, np.inf], np.float32)
    near = np.array([np.nextafter(np.float32(1), np.float32(2)), 0.0, np.nan, np.inf], np.float32)
    assert _ulps(one, near) == 1
    assert _ulps(np.array([1.0]), np.array([np.nan])) > 3
    assert _ulps(np.array([1.0], ml_dtypes.bfloat16), np.array([1.0078125], ml_dtypes.bfloat16)) == 1


def main() -> int:
    found = sorted_out()[1]
    if MISSING.exists():
        grown = {what: n for what, n in found.items() if n > listed()[what]}
        if grown:
            print(f"these have grown: {grown}")
            return 1
    MISSING.write_text("".join(f"{n:4} {what}\n" for what, n in sorted(found.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
