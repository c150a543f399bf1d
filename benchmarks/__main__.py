"""The speed table: braze beside JAX, NumPy, Numba and torch.

    python -m benchmarks [--only TEXT] [--cores 1|2] [--rounds N] [--peers jax,numpy] [--json FILE]

Each number of cores has a process of its own, so that affinity is set before any library starts its threads.
In it all libraries do the same work in turn, round by round, after warming up; on one pinned core the 10th
percentile of a run counts, on two cores the median of the rounds during which other programs used little. A
row is the median of three runs. Ratios are the peer's time over braze's: above 1, braze is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

QUIET = 0.15
"""Share of one core that other programs may use in a round on two cores."""
RUNS = 3


def _busy() -> float:
    """CPU seconds that all programs have used, from /proc/stat."""
    with open("/proc/stat") as file:
        fields = [int(n) for n in file.readline().split()[1:]]
    idle = fields[3] + fields[4]
    return (sum(fields[:8]) - idle) / os.sysconf("SC_CLK_TCK")


def _measure(repeats: dict[str, Any], number: int, rounds: int, pinned: bool) -> dict[str, float]:
    """Seconds per call of each library, interleaved."""
    times: dict[str, list[float]] = {name: [] for name in repeats}
    attempts = 0
    while min(map(len, times.values())) < rounds and attempts < 20 * rounds:
        attempts += 1
        busy, own, start = (0.0, 0.0, 0.0) if pinned else (_busy(), time.process_time(), time.perf_counter())
        round_times = {}
        for name, repeat in repeats.items():
            begin = time.perf_counter()
            repeat(number)
            round_times[name] = (time.perf_counter() - begin) / number
        if not pinned:
            took = time.perf_counter() - start
            others = _busy() - busy - (time.process_time() - own)
            # /proc/stat counts in hundredths: short rounds cannot be judged and are kept.
            if took > 0.05 and others > QUIET * took:
                continue
        for name, seconds in round_times.items():
            times[name].append(seconds)

    def pick(found: list[float]) -> float:
        return sorted(found)[len(found) // 10] if pinned else statistics.median(found)

    return {name: pick(found) for name, found in times.items() if found}


def _child(cores: int, only: str, rounds: int, peers: list[str]) -> None:
    """Measure all works and print one JSON row a line."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(allowed[-cores:]))
    from benchmarks.works import WORKS, compiled

    for work in WORKS:
        if only not in work.name:
            continue
        repeats = {"braze": compiled(work, "braze")}
        repeats |= {p: compiled(work, p) for p in work.peers if p in peers}
        for repeat in repeats.values():
            repeat(3)
        runs = [_measure(repeats, work.number, rounds, cores == 1) for _ in range(RUNS)]
        ours = statistics.median(run["braze"] for run in runs)
        for peer in repeats:
            if peer == "braze":
                continue
            theirs = statistics.median(run[peer] for run in runs)
            ratio = statistics.median(run[peer] / run["braze"] for run in runs)
            bar = work.bars[cores - 1] if peer == "jax" else None
            row = {"work": work.name, "peer": peer, "ratio": ratio, "bar": bar, "ours_s": ours,
                   "theirs_s": theirs, "cores": cores}  # fmt: skip
            print(json.dumps(row), flush=True)


def _rows(cores: int, asked: argparse.Namespace) -> list[dict[str, Any]]:
    environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    command = [sys.executable, "-m", "benchmarks", "--child", str(cores), "--only", asked.only,
               "--rounds", str(asked.rounds), "--peers", asked.peers]  # fmt: skip
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            rows.append(json.loads(line))
            _show(rows[-1])
    return rows


def _show(row: dict[str, Any]) -> None:
    bar = (
        ""
        if row["bar"] is None
        else f"bar {row['bar']:g}{'' if row['ratio'] >= row['bar'] else '  falls short'}"
    )
    print(
        f"{row['work']:46} {row['cores']} {row['peer']:6} {row['ratio']:8.2f}  "
        f"{row['ours_s'] * 1e6:11.2f} µs {row['theirs_s'] * 1e6:11.2f} µs  {bar}",
        flush=True,
    )


def _first_call(only: str, cores: int) -> list[dict[str, Any]]:
    """A fresh process: import and the first call of a small function, with the object cache warm and empty."""
    import tempfile

    call = "f = {0}.jit(lambda x: x * x + 2.0); {0}.block_until_ready(f({1}.array([1.0, 2.0])))"
    ours = "import braze as bz, braze.numpy as bnp; " + call.format("bz", "bnp")
    theirs = "import jax, jax.numpy as jnp; " + call.format("jax", "jnp")

    def seconds(code: str, **extra: str) -> float:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | extra
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
        return time.perf_counter() - start

    cases = [
        case
        for case in (("runtime objects cached", 3.0, False), ("first run on the machine", 2.0, True))
        if only in f"import and first call, {case[0]}"
    ]
    if cases:
        seconds(ours)  # writes bytecode and the runtime's objects
    rows = []
    for name, bar, empty in cases:
        pairs = []
        for _ in range(7):
            with tempfile.TemporaryDirectory() as folder:
                pairs.append((seconds(ours, BRAZE_CACHE=folder) if empty else seconds(ours), seconds(theirs)))
        ratio = statistics.median(b / a for a, b in pairs)
        rows.append({"work": f"import and first call, {name}", "peer": "jax", "ratio": ratio, "bar": bar,
                     "ours_s": statistics.median(a for a, _ in pairs),
                     "theirs_s": statistics.median(b for _, b in pairs), "cores": cores})  # fmt: skip
        _show(rows[-1])
    return rows


def _compilation(only: str) -> list[dict[str, Any]]:
    """Trace, lower and compile: a fresh function and shape each time, so that no cache has the program."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from benchmarks import works

    import braze as bz
    import braze.numpy as bnp

    cases = (
        ("a*sin(x)+b", lambda xp, lax: lambda a, x, b: a * xp.sin(x) + b, lambda n: [(n,)] * 3),
        ("softmax", works.softmax, lambda n: [(64, n)]),
        ("layernorm", works.layernorm, lambda n: [(64, n), (n,), (n,)]),
    )
    rows = []
    with bz.config(cache="off"):
        for name, formula, shapes in cases:
            if only not in f"trace, lower, compile: {name}":
                continue
            pairs = []
            for k in range(15):
                args = [np.zeros(shape, np.float32) for shape in shapes(1024 + 64 * k)]
                start = time.perf_counter()
                bz.jit(formula(bnp, bz.lax)).trace(*args).lower().compile()
                middle = time.perf_counter()
                jax.jit(formula(jnp, jax.lax)).lower(*args).compile()
                pairs.append((middle - start, time.perf_counter() - middle))
            pairs = pairs[2:]
            rows.append({"work": f"trace, lower, compile: {name}", "peer": "jax",
                         "ratio": statistics.median(b / a for a, b in pairs), "bar": 2.5,
                         "ours_s": statistics.median(a for a, _ in pairs),
                         "theirs_s": statistics.median(b for _, b in pairs), "cores": 1})  # fmt: skip
            _show(rows[-1])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="works whose name holds this text")
    parser.add_argument("--cores", choices=("1", "2", "both"), default="both")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peers", default="jax,numpy,numba,torch")
    parser.add_argument("--json", help="write the rows to this file")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        _child(asked.child, asked.only, asked.rounds, asked.peers.split(","))
        return
    print(f"{'work':46} cores, peer, ratio, braze's time, the peer's time, bar")
    rows: list[dict[str, Any]] = []
    for cores in (1, 2) if asked.cores == "both" else (int(asked.cores),):
        rows += _rows(cores, asked)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows += _compilation(asked.only)
    rows += _first_call(asked.only, 1)
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
