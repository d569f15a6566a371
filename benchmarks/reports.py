"""Times reports of a large program, and what programs pay that ask for none.

It prints

* the seconds that a report of a training step of Keras's ResNet-50 with Adam takes, from the
  compiled program to its files (wanted: <= 5 in all),
* the ratio of Keras's `fit` of a new model that asks for no report, compilation included, to the
  same without the calls in the compiler that reports and the memory check consist of (wanted: <=
  1.01), and to stock Keras.

The contenders of the second take turns. A ratio is the median of those of the rounds.
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

from tensorflow_ipu.compiler import observers, report_requests
from tensorflow_ipu.compiler.checks import capacity
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.profiler import report_directory
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.report_options import ReportOptions

IMAGE = (32, 32, 3)


def large_program() -> Executable:
    """Returns the Executable of one training step of ResNet-50; nothing of it is planned yet."""
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = tf.keras.applications.ResNet50(weights=None, input_shape=IMAGE, classes=1000)
        model.compile("adam", "sparse_categorical_crossentropy")
        element = np.zeros([2, *IMAGE], np.float32), np.zeros([2], np.int32)
        model.fit(tf.data.Dataset.from_tensors(element), verbose=0)
    program = max(ipu.profiler.executables(), key=lambda executable: len(executable.arguments))
    # A copy has none of what was found out about the original.
    return dataclasses.replace(program)


def time_report() -> None:
    """Prints the seconds of each part of a report."""
    program = large_program()
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
        for name, make in parts.items():
            start = time.perf_counter()
            make()
            seconds[name] = time.perf_counter() - start
    shown = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
    print(f"report of {len(program.ops)} ops: {shown}; in all {sum(seconds.values()):.2f} s")


@contextlib.contextmanager
def without_hooks():
    """Takes the calls of reports and of the memory check out of the compiler."""
    nothing = mock.Mock()
    with contextlib.ExitStack() as stack:
        for module in (observers, report_requests):
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
    """Measures both and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    compare("mlp", arguments.rounds, arguments.epochs)
    time_report()


if __name__ == "__main__":
    main()
