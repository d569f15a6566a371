"""Times float16 arithmetic in programs against TensorFlow's float16 kernels, in one process.

* matmul: a product of 512 x 512 matrices,
* elementwise: four ops on 10^6 elements,
* NaN: the same on elements that are all NaN, as in a model that has diverged,

by default (rounded to the nearest, overflow clipped) and with stochastic rounding. Printed are
milliseconds of a loop's iteration and the ratio to plain TensorFlow. The contenders take turns in
each configuration; a ratio is that of their medians.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python import ipu

ITERATIONS = 5


def matmul(x: tf.Tensor) -> tf.Tensor:
    """Multiplies a matrix with itself, keeping its size."""
    return tf.matmul(x, x)


def elementwise(x: tf.Tensor) -> tf.Tensor:
    """Does four ops to each element."""
    return (x * 0.5 + 0.25) * x - 0.125


CASES = {
    "matmul": (matmul, [512, 512], 0.001),
    "elementwise": (elementwise, [1000, 1000], 0.001),
    "NaN": (elementwise, [1000, 1000], math.nan),
}


def loop(
    op: Callable[[tf.Tensor], tf.Tensor], shape: list[int], value: float
) -> Callable[[], object]:
    """Returns a function that repeats an op on a float16 tensor of one value."""

    def repeated() -> tf.Tensor:
        x = tf.fill(shape, tf.constant(value, tf.float16))
        for _ in tf.range(ITERATIONS):
            x = op(x)
        return x

    return repeated


def measure(name: str, esr: bool, rounds: int) -> None:
    """Prints the line of a case."""
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.floating_point_behaviour.esr = esr
    config.configure_ipu_system()
    strategy = ipu.ipu_strategy.IPUStrategy()
    plain = tf.function(loop(*CASES[name]))
    program = tf.function(loop(*CASES[name]), jit_compile=True)
    contenders = {"plain": plain, "ipu": lambda: strategy.run(program)}
    times: dict[str, list[float]] = {contender: [] for contender in contenders}
    for number in range(rounds + 1):
        for contender, run in contenders.items():
            start = time.perf_counter()
            run()
            if number:  # the first compiles
                times[contender].append((time.perf_counter() - start) / ITERATIONS * 1e3)
    slow, fast = (statistics.median(times[contender]) for contender in contenders)
    rounding = "stochastic" if esr else "nearest"
    ratio = f"ipu/plain {fast / slow:.3f}"
    print(f"{name}, {rounding}: plain {slow:.2f} ms, ipu {fast:.2f} ms; {ratio}")


def main() -> None:
    """Measures all cases and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for name in CASES:
        for esr in (False, True):
            measure(name, esr, arguments.rounds)


if __name__ == "__main__":
    main()
