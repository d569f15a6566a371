"""The phrases that programs look for in the errors of applications and exports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import serving
from tensorflow_ipu.serving import embedded_runtime
from tests.support.programs.applications import call, compiled, loop

ONES = np.ones(2, np.float32)


class Row(NamedTuple):
    """An error and its provocation, given a folder."""

    api: str
    error: type[BaseException]
    phrase: str
    provoke: Callable[[Path], Any]


def _start(inputs: Any) -> Callable[[Path], Any]:
    def provoke(folder: Path) -> Any:
        weight = tf.Variable(ONES, name="w")
        path = compiled(loop(lambda x: x * weight), folder / "x")
        return embedded_runtime.embedded_runtime_start(path, inputs, f"phrases {folder}")

    return provoke


def _call(*inputs: Any) -> Callable[[Path], Any]:
    return lambda folder: call(_start([ONES])(folder), *inputs)


def _export(folder: Path) -> Any:
    return serving.export_keras(tf.keras.Sequential([tf.keras.layers.Dense(1)]), str(folder / "m"))


ROWS = [
    Row(
        "experimental_application_compile_op: inputs",
        TypeError,
        r"missing 2 required positional arguments",
        lambda folder: compiled(lambda x, y, z: x, folder / "x", [ONES]),
    ),
    Row(
        "experimental_application_compile_op: folder",
        tf.errors.InternalError,
        r"^Failed to open file for writing",
        lambda folder: compiled(lambda x: x * 2.0, folder / "none" / "x", [ONES]),
    ),
    Row(
        "experimental_application_compile_op: float64",
        tf.errors.InvalidArgumentError,
        r"^Detected unsupported operations when trying to compile graph",
        lambda folder: compiled(lambda x: x * 2.0, folder / "x", [np.ones(2)]),
    ),
    Row(
        "experimental_application_compile_op: scalars",
        tf.errors.FailedPreconditionError,
        r"^Cannot serialize a scalar elementwise graph",
        lambda folder: compiled(lambda x: x * 2.0, folder / "x", [np.float32(1)]),
    ),
    Row(
        "experimental_application_compile_op: constant",
        tf.errors.FailedPreconditionError,
        r"^Cannot serialize a constant graph",
        lambda folder: compiled(lambda: tf.ones([2]), folder / "x"),
    ),
    Row(
        "embedded_runtime_start: dict",
        Exception,
        r"^Failed to find input tensor with name 'XLA_Args/w' in input dictionary",
        _start({"w": ONES}),
    ),
    Row(
        "embedded_runtime_start: list",
        Exception,
        r"^Expected the inputs to be a list",
        _start(ONES),
    ),
    Row(
        "embedded_runtime_start: number",
        Exception,
        r"^Embedded application runtime expects 1 inputs, but 2 were provided",
        _start([ONES, ONES]),
    ),
    Row(
        "embedded_runtime_start: shape",
        Exception,
        r"^Mismatched input shape at position 0 \('XLA_Args/w'\)\. "
        r"Expected \[2\], but input 0 has shape \[3\]",
        _start([np.ones(3, np.float32)]),
    ),
    Row(
        "embedded_runtime_start: dtype",
        Exception,
        r"^Mismatched input dtype at position 0 \('XLA_Args/w'\)\. "
        r"Expected <dtype: 'float32'>, but input 0 has dtype int32",
        _start((np.ones(2, np.int32),)),
    ),
    Row(
        "embedded_runtime_call: number",
        Exception,
        r"^Embedded application call expects 1 inputs, but 0 were provided",
        _call(),
    ),
    Row(
        "embedded_runtime_call: shape",
        Exception,
        r"^Mismatched input shape at position 0 ",
        _call(np.ones((2, 2), np.float32)),
    ),
    Row(
        "embedded_runtime_call: dtype",
        TypeError,
        r"^Mismatched input dtype at position 0 \('\S+'\)\. "
        r"Expected <dtype: 'float32'>, but input 0 has dtype float16",
        _call(np.ones(2, np.float16)),
    ),
    Row(
        "embedded_runtime_stop",
        NotImplementedError,
        r"^embedded_runtime_stop is not implemented",
        lambda folder: embedded_runtime.embedded_runtime_stop(_start([ONES])(folder)),
    ),
    Row(
        "export_keras: scope",
        ValueError,
        r"was not created inside an IPU strategy",
        _export,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.api)
def test_errors_of_exports_have_phrase_of_original(row: Row, tmp_path: Path) -> None:
    with pytest.raises(row.error, match=row.phrase) as caught:
        row.provoke(tmp_path)
    assert caught.type is row.error
