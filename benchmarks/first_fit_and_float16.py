"""Times the first `fit` of a program, and steps in float16.

The first `fit` of a model, with all that it takes to trace, compile and load it, under an
IPUStrategy and with stock Keras, each time in a process of its own:

* ResNet-50 on images of 64 x 64, an MLP, and BERT-tiny (an encoder of two layers) in float16 and in
  float32.

The seconds are those of a call of `fit` for two executions; the ratio is that of medians. Wanted:
ipu/stock <= 1.0.

Then steps of training in float16 against the same steps in float32, both under an IPUStrategy, in
one process where they take turns:

* a convolutional network, the encoder, and recurrent networks of `ipu.keras.layers.LSTM` and of
  `tf.keras.layers.LSTM`.

Wanted: float16/float32 <= 1.3.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

BATCH = 8
STEPS = 4  # of an execution of a first fit; there are two
STEADY_STEPS = 20
CLASSES = 10
SEQUENCE, HIDDEN, WORDS, HEADS, BLOCKS = 64, 128, 1000, 2, 2
CONTENDERS = ("stock", "ipu")

layers = tf.keras.layers


def resnet50() -> tuple[tf.keras.Model, np.ndarray]:
    """Returns the model and its inputs, as all functions like it do."""
    model = tf.keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=CLASSES)
    return model, images(64)


def mlp() -> tuple[tf.keras.Model, np.ndarray]:
    """Three dense layers."""
    inputs = tf.keras.Input([784])
    x = layers.Dense(512, "relu")(inputs)
    x = layers.Dense(256, "relu")(x)
    outputs = layers.Dense(CLASSES, "softmax")(x)
    return tf.keras.Model(inputs, outputs), generator().random((BATCH, 784))


def cnn() -> tuple[tf.keras.Model, np.ndarray]:
    """Three convolutions with batch normalisation."""
    inputs = x = tf.keras.Input([32, 32, 3])
    for filters in (32, 64, 64):
        x = layers.Conv2D(filters, 3, strides=2, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
    outputs = layers.Dense(CLASSES, "softmax")(layers.GlobalAveragePooling2D()(x))
    return tf.keras.Model(inputs, outputs), images(32)


def encoder() -> tuple[tf.keras.Model, np.ndarray]:
    """A transformer of the size of BERT-tiny."""
    inputs = tf.keras.Input([SEQUENCE], dtype=tf.int32)
    x = layers.Embedding(WORDS, HIDDEN)(inputs)
    x += layers.Embedding(SEQUENCE, HIDDEN)(tf.range(SEQUENCE))
    for _ in range(BLOCKS):
        attended = layers.MultiHeadAttention(HEADS, HIDDEN // HEADS)(x, x)
        x = layers.LayerNormalization(epsilon=1e-3)(x + attended)
        widened = layers.Dense(4 * HIDDEN, "gelu")(x)
        x = layers.LayerNormalization(epsilon=1e-3)(x + layers.Dense(HIDDEN)(widened))
    outputs = layers.Dense(CLASSES, "softmax")(layers.GlobalAveragePooling1D()(x))
    return tf.keras.Model(inputs, outputs), generator().integers(0, WORDS, (BATCH, SEQUENCE))


def lstm(layer: Callable[..., layers.Layer]) -> tuple[tf.keras.Model, np.ndarray]:
    """A recurrent layer."""
    inputs = tf.keras.Input([SEQUENCE, HIDDEN])
    outputs = layers.Dense(CLASSES, "softmax")(layer(HIDDEN)(inputs))
    return tf.keras.Model(inputs, outputs), generator().random((BATCH, SEQUENCE, HIDDEN))


def ipu_lstm() -> tuple[tf.keras.Model, np.ndarray]:
    """The layer of `ipu.keras.layers`."""
    from tensorflow.python import ipu

    return lstm(ipu.keras.layers.LSTM)


def keras_lstm() -> tuple[tf.keras.Model, np.ndarray]:
    """The layer of stock Keras."""
    return lstm(layers.LSTM)


FIRST = {
    "ResNet-50": (resnet50, "float32"),
    "BERT-tiny float16": (encoder, "float16"),
    "BERT-tiny": (encoder, "float32"),
    "MLP": (mlp, "float32"),
}
STEADY = {"CNN": cnn, "encoder": encoder, "ipu LSTM": ipu_lstm, "Keras LSTM": keras_lstm}


def generator() -> np.random.Generator:
    """Returns a generator that starts anew."""
    return np.random.default_rng(0)


def images(size: int) -> np.ndarray:
    """Returns a batch of images."""
    return generator().random((BATCH, size, size, 3))


def prepared(
    build: Callable[[], tuple[tf.keras.Model, np.ndarray]], dtype: str, on_ipu: bool, steps: int
) -> Callable[[], object]:
    """Returns a function that calls `fit` of a compiled model, for two executions.

    Args:
        build: Makes the model and a batch.
        dtype: Type of weights and computation.
        on_ipu: Whether the model is one of an IPUStrategy.
        steps: Of an execution.
    """
    scope: Callable = contextlib.nullcontext
    if on_ipu:
        from tensorflow.python import ipu

        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        scope = ipu.ipu_strategy.IPUStrategy().scope
    tf.keras.mixed_precision.set_global_policy(dtype)
    with scope():
        model, x = build()
        model.compile(
            tf.keras.optimizers.SGD(1e-3),
            tf.keras.losses.SparseCategoricalCrossentropy(),
            steps_per_execution=steps,
        )
    x = x.astype(dtype if x.dtype.kind == "f" else np.int32)
    y = generator().integers(0, CLASSES, BATCH)
    batches = tf.data.Dataset.from_tensors((x, y)).repeat()

    def run() -> None:
        with scope():
            model.fit(batches, steps_per_epoch=2 * steps, verbose=0)

    return run


def timed(run: Callable[[], object]) -> float:
    """Returns the seconds that a call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def first_fit(name: str, contender: str) -> None:
    """Prints the seconds of the first `fit` of this process."""
    build, dtype = FIRST[name]
    print(timed(prepared(build, dtype, contender == "ipu", STEPS)))


def compare_first_fit(name: str, rounds: int) -> None:
    """Prints the line of a model, whose contenders take turns in processes of their own."""
    times: dict[str, list[float]] = {contender: [] for contender in CONTENDERS}
    for _ in range(rounds):
        for contender in CONTENDERS:
            command = [sys.executable, __file__, "--first-fit-of", name, contender]
            process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            times[contender].append(float(process.stdout.split()[-1]))
    stock, ours = (statistics.median(times[contender]) for contender in CONTENDERS)
    print(f"first fit, {name}: stock {stock:.2f} s, ipu {ours:.2f} s; ipu/stock {ours / stock:.3f}")


def compare_steps(name: str, rounds: int) -> None:
    """Prints the line of a model in two types, which take turns in this process."""
    contenders = {
        dtype: prepared(STEADY[name], dtype, True, STEADY_STEPS) for dtype in ("float32", "float16")
    }
    times: dict[str, list[float]] = {dtype: [] for dtype in contenders}
    for number in range(rounds + 1):
        for dtype, run in contenders.items():
            tf.keras.mixed_precision.set_global_policy(dtype)
            seconds = timed(run)
            if number:  # the first compiles
                times[dtype].append(seconds / (2 * STEADY_STEPS) * 1e3)
    wide, half = (statistics.median(times[dtype]) for dtype in contenders)
    print(
        f"steps, {name}: float32 {wide:.2f} ms, float16 {half:.2f} ms; "
        f"float16/float32 {half / wide:.3f}"
    )


def main() -> None:
    """Measures everything and prints a line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--first-fit-of", nargs=2, metavar=("MODEL", "CONTENDER"))
    parser.add_argument("names", nargs="*", help="models; all of them by default")
    arguments = parser.parse_args()
    if arguments.first_fit_of:
        first_fit(*arguments.first_fit_of)
        return
    names = arguments.names or [*FIRST, *STEADY]
    for name in FIRST:
        if name in names:
            compare_first_fit(name, arguments.rounds)
    for name in STEADY:
        if name in names:
            compare_steps(name, arguments.rounds)


if __name__ == "__main__":
    main()
