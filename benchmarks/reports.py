"""Times reports of large programs, and the overhead in programs without reports.

It prints

* the seconds that a report of a training step with Adam takes, from the compiled program to its
  files, of Keras's ResNet-50 (wanted: <= 4 in all) and of a BERT of 24 layers (wanted: <= 10), and
  of that the microseconds of planning for each op, which should be the same for both,
* the ratio of Keras's `fit` of a new model that asks for no report, compilation included, to the
  same without the calls in the compiler that reports and the memory check consist of (wanted: <=
  1.01), and to stock Keras.

Seconds are those of the processor, which other programs on the machine do not change much. The
contenders of the second take turns. A ratio is the median of those of the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable
from unittest import mock

import keras_fit
import loop_overhead
import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

from tensorflow_ipu.compiler import observers
from tensorflow_ipu.compiler.checks import capacity
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.profiler import report_directory
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.report_directory import ReportOptions

IMAGE = (32, 32, 3)
# As many ops of the same kinds as BERT-Large has; their width does not matter to the planner.
BLOCKS, HIDDEN, HEADS, LENGTH, WORDS = 24, 64, 4, 16, 100


def resnet() -> tf.keras.Model:
    """Returns Keras's ResNet-50."""
    return tf.keras.applications.ResNet50(weights=None, input_shape=IMAGE, classes=1000)


def bert(blocks: int = BLOCKS, activation: str | None = "softmax") -> tf.keras.Model:
    """Returns an encoder that predicts words.

    Args:
        blocks: of attention and dense layers.
        activation: of its outputs; None for logits.
    """
    layers = tf.keras.layers
    words = layers.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(WORDS, HIDDEN)(words)
    for _ in range(blocks):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(HEADS, HIDDEN // HEADS)(x, x))
        wide = layers.Dense(4 * HIDDEN, "gelu")(x)
        x = layers.LayerNormalization()(x + layers.Dense(HIDDEN)(wide))
    return tf.keras.Model(words, layers.Dense(WORDS, activation)(x))


def large_program(make: Callable[[], tf.keras.Model]) -> Executable:
    """Returns the Executable of one training step of a model; nothing of it is planned yet.

    Args:
        make: makes the model.
    """
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make()
        model.compile("adam", "sparse_categorical_crossentropy")
        inputs = np.zeros([2, *model.input_shape[1:]], model.inputs[0].dtype.as_numpy_dtype)
        element = inputs, np.zeros([2, *model.output_shape[1:-1]], np.int32)
        model.fit(tf.data.Dataset.from_tensors(element), verbose=0)
    program = max(ipu.profiler.executables(), key=lambda executable: len(executable.arguments))
    # A copy has none of what was found out about the original.
    return dataclasses.replace(program)


def time_report(make: Callable[[], tf.keras.Model], wanted: float) -> None:
    """Prints the seconds of each part of a report.

    Args:
        make: makes the model.
        wanted: most seconds that a report should take.
    """
    program = large_program(make)
    options = ReportOptions(tempfile.gettempdir())
    with tempfile.TemporaryDirectory() as folder:
        parts: dict[str, Callable[[], object]] = {
            "listing": lambda: program.ops,
            "description": lambda: program.workload,
            "plan": lambda: program.plan,
            "files": lambda: report_directory.write(
                Report.from_executable(program), report_directory.make(folder), options
            ),
        }
        seconds = {}
        for name, part in parts.items():
            start = time.process_time()
            part()
            seconds[name] = time.process_time() - start
    shown = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
    ops = len(program.workload.ops)
    print(
        f"report of {make.__name__}, {ops} ops: {shown}; in all {sum(seconds.values()):.2f} s "
        f"(wanted: <= {wanted:g}); plan {1e6 * seconds['plan'] / ops:.0f} us an op"
    )


@contextlib.contextmanager
def without_hooks():
    """Takes the calls of reports and of the memory check out of the compiler."""
    nothing = mock.Mock()
    with contextlib.ExitStack() as stack:
        for module in (observers, observers):
            stack.enter_context(mock.patch.object(module, "compiled", nothing))
        stack.enter_context(mock.patch.object(capacity, "check", nothing))
        yield


def seconds_of_fit(name: str, on_ipu: bool, epochs: int) -> float:
    """Returns the time of making a model, compiling it and training it."""
    start = time.perf_counter()
    batches = loop_overhead.dataset()
    steps = loop_overhead.STEPS
    keras_fit.fit(name, steps, on_ipu, batches, steps_per_epoch=steps, epochs=epochs)()
    return time.perf_counter() - start


def compare(name: str, rounds: int, epochs: int) -> None:
    """Prints the ratios of a model."""
    without, stock = [], []
    seconds_of_fit(name, True, 1)
    for _ in range(rounds):
        asked_for_none = seconds_of_fit(name, True, epochs)
        with without_hooks():
            without.append(asked_for_none / seconds_of_fit(name, True, epochs))
        stock.append(asked_for_none / seconds_of_fit(name, False, epochs))
    print(
        f"{name}, no report asked for: with hooks / without {statistics.median(without):.3f}, "
        f"ipu / stock {statistics.median(stock):.3f}"
    )


def main() -> None:
    """Measures all and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--reports-only", action="store_true", help="leave out the ratios")
    arguments = parser.parse_args()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    if not arguments.reports_only:
        compare("mlp", arguments.rounds, arguments.epochs)
    time_report(resnet, wanted=4)
    time_report(bert, wanted=10)


if __name__ == "__main__":
    main()
