"""Times a custom operation of ten Poplar ops against the same ops of TensorFlow, in one process.

Each is part of a training loop on the simulated IPU. For several sizes it prints microseconds per
step of wall-clock and of processor time, and their ratios Poplar / TensorFlow (wanted: <= 1.2).
Poplar and TensorFlow run in turn. A ratio is the median time of Poplar over that of TensorFlow.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

from tensorflow_ipu.frontends.poplar import sdk

SOURCE = Path(__file__).with_suffix(".cpp")
STEPS = {1 << 8: 2000, 1 << 12: 2000, 1 << 16: 300, 1 << 20: 20}
REPETITIONS = 7

Function = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
Times = list[tuple[float, float]]


def build(folder: Path) -> Path:
    """Compiles the library as a user does.

    Args:
        folder: for the library.
    """
    library = folder / "libcustom_ops.so"
    command = ["g++", "-std=c++11", "-O2", "-shared", "-fPIC", str(SOURCE), "-o", str(library)]
    command += ["-lpoplar", "-lpopops", "-lpoputil"]
    subprocess.run(command, check=True, env={**os.environ, **sdk.variables(os.environ)})
    return library


def with_tensorflow(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Returns the results of `Build` by TensorFlow ops."""
    z = x * y
    z = z + x
    z = z - y
    z = z * z
    z = z + y
    z = tf.maximum(z, x)
    z = z * y
    z = -z
    z = z + x
    return z * y


def with_poplar(library: Path) -> Function:
    """Returns the function that calls `Build` of the library."""

    def call(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        outs = {"output_types": [x.dtype], "output_shapes": [x.shape]}
        return ipu.custom_ops.precompiled_user_op([x, y], library, outs=outs)[0]

    return call


def loop(function: Function, steps: int) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Returns a program of some steps of a descent."""

    @tf.function(jit_compile=True)
    def program(weights: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(steps):
            weights = weights - 0.001 * function(weights, y)
        return weights

    return program


def compare(size: int, functions: dict[str, Function]) -> None:
    """Prints the times of the contenders for one size.

    Args:
        size: number of elements.
        functions: by their names; the first is the reference.
    """
    generator = np.random.default_rng(0)
    x, y = (tf.constant(row) for row in 0.1 * generator.random((2, size), dtype=np.float32))
    expected, result = (f(x, y).numpy() for f in functions.values())
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    strategy = ipu.ipu_strategy.IPUStrategy()
    times: dict[str, Times] = {name: [] for name in functions}
    with strategy.scope():
        programs = {name: loop(f, STEPS[size]) for name, f in functions.items()}
        for repetition in range(REPETITIONS + 1):
            for name, program in programs.items():
                wall, cpu = time.perf_counter(), time.process_time()
                strategy.run(program, [x, y])
                spent = (time.perf_counter() - wall, time.process_time() - cpu)
                if repetition > 0:  # the first compiles
                    times[name].append(spent)
    medians = {
        name: [1e6 * statistics.median(column) / STEPS[size] for column in zip(*rows)]
        for name, rows in times.items()
    }
    (reference, ours) = medians.values()
    print(
        f"{size:8} elements: TensorFlow {reference[0]:8.1f} us, Poplar {ours[0]:8.1f} us, "
        f"ratio {ours[0] / reference[0]:.2f}; of processor time {ours[1] / reference[1]:.2f}",
        flush=True,
    )


def main() -> None:
    """Compiles the library and compares for all sizes."""
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with tempfile.TemporaryDirectory() as folder:
        functions = {
            "tensorflow": with_tensorflow,
            "poplar": with_poplar(build(Path(folder))),
        }
        for size in STEPS:
            compare(size, functions)


if __name__ == "__main__":
    main()
