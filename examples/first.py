"""The first program: a function on its way from Python to machine code.

Run `python examples/first.py`. It compiles `compute`, calls it, and prints every stage between the Python
source and the instructions of your CPU: jaxpr, HLO before and after the passes, the Program of launches and
buffers, the kernel, LLVM IR and assembly.
"""

import braze as bz
import braze.numpy as bnp


@bz.jit
def compute(x):
    return x * x + 2.0


def main():
    print("compute([1, 2]) =", compute(bnp.array([1.0, 2.0])))  # traces, optimises, compiles, runs
    print("compute([3, 4]) =", compute(bnp.array([3.0, 4.0])))  # runs the machine code
    exe = compute.trace(bnp.ones(3)).lower().compile()
    for stage in ("jaxpr", "hlo", "hlo-opt", "program", "kernel", "llvm", "asm"):
        print(f"\n=== {stage} ===\n{exe.as_text(stage)}")


if __name__ == "__main__":
    main()
