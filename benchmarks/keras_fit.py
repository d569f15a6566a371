"""Times Keras `fit` under an IPUStrategy against stock Keras `fit`, in one process.

For the MLP and the CNN of `loop_overhead.py`, with the metric accuracy, it prints milliseconds per
step of

* stock 1: stock Keras as it is, with `steps_per_execution` 1,
* stock: stock Keras with an epoch in one execution,
* ipu: the same model under an IPUStrategy, with an epoch in one execution,

and the ratios ipu / stock 1 (wanted: <= 0.5) and ipu / stock (wanted: <= 0.9). Everything that a
call of `fit` does is in the times. What a call does beside its steps is in the line `a call of fit
and two epochs of one small step`, in milliseconds. The contenders take turns, on the same dataset,
so that a change of the machine's speed meets them all; a ratio is that of their medians.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable

import loop_overhead
import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

STEPS = loop_overhead.STEPS
EPOCHS = 3

Run = Callable[[], object]


def make_model(name: str) -> tf.keras.Model:
    """Returns a model of `loop_overhead.MODELS`, or "small" for a single layer."""
    if name == "small":
        return tf.keras.Sequential([tf.keras.layers.Dense(10)])
    return loop_overhead.keras_model(name)


def fit(name: str, per_execution: int, on_ipu: bool, batches: tf.data.Dataset, **arguments) -> Run:
    """Returns a function that calls `fit` of a model of its own.

    Args:
        name: Name of the model.
        per_execution: `steps_per_execution`.
        on_ipu: Whether it is a model of an IPUStrategy.
        batches: What to train on.
        **arguments: Further arguments of `fit`.
    """
    scope: Callable = contextlib.nullcontext
    if on_ipu:
        scope = ipu.ipu_strategy.IPUStrategy().scope
    with scope():
        model = make_model(name)
        model.compile(
            tf.keras.optimizers.SGD(loop_overhead.LEARNING_RATE),
            tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            steps_per_execution=per_execution,
        )

    def run() -> None:
        with scope():
            model.fit(batches, verbose=0, **arguments)

    return run


def measure(contenders: dict[str, Run], rounds: int) -> dict[str, float]:
    """Returns the median time of each contender, in milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()  # compile
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def compare(name: str, rounds: int) -> None:
    """Prints the line of a model."""
    batches = loop_overhead.dataset()
    arguments = {"steps_per_epoch": STEPS, "epochs": EPOCHS}
    contenders = {
        "stock 1": fit(name, 1, False, batches, **arguments),
        "stock": fit(name, STEPS, False, batches, **arguments),
        "ipu": fit(name, STEPS, True, batches, **arguments),
    }
    times = {key: t / (STEPS * EPOCHS) for key, t in measure(contenders, rounds).items()}
    ratios = {key: times["ipu"] / times[key] for key in ("stock 1", "stock")}
    print(
        *(f"{name}: ", ", ".join(f"{key} {t:.3f} ms" for key, t in times.items()), "; "),
        ", ".join(f"ipu/{key} {ratio:.3f}" for key, ratio in ratios.items()),
        sep="",
    )


def compare_calls(rounds: int) -> None:
    """Prints the time of a `fit` call outside its steps."""
    arrays = np.zeros([8, 4], np.float32), np.zeros([8], np.int32)
    batches = tf.data.Dataset.from_tensor_slices(arrays).batch(8, drop_remainder=True)
    contenders = {
        "stock": fit("small", 1, False, batches, epochs=2),
        "ipu": fit("small", 1, True, batches, epochs=2),
    }
    times = measure(contenders, rounds)
    print(
        f"a call of fit and two epochs of one small step: stock {times['stock']:.1f} ms, "
        f"ipu {times['ipu']:.1f} ms; ipu/stock {times['ipu'] / times['stock']:.3f}"
    )


def main() -> None:
    """Measures everything and prints a line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    for name in loop_overhead.MODELS:
        compare(name, arguments.rounds)
    compare_calls(arguments.rounds)


if __name__ == "__main__":
    main()
