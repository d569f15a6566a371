"""The pass that removes casts to float64 and back, on text and by results."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tensorflow_ipu.compiler.passes import prune, round_trips
from tests.support.compiled_programs import program_of, scalar_target, text


def _after(function: Any, *specs: tf.TensorSpec) -> str:
    program = program_of(function, *specs)
    round_trips.run(program, scalar_target())
    prune.run(program, scalar_target())
    return text(program)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.int32])
def test_a_round_trip_goes(dtype: tf.DType) -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        back = tf.cast(tf.cast(x, tf.float64), dtype)
        return [back, back + 1]

    found = _after(function, tf.TensorSpec([2], dtype))
    assert "= Cast(" not in found


@pytest.mark.parametrize(
    ("first", "through", "last"),
    [
        (tf.float32, tf.float64, tf.float16),
        (tf.float32, tf.float16, tf.float32),
        (tf.int64, tf.float64, tf.int64),
    ],
)
def test_casts_that_are_no_round_trip_stay(
    first: tf.DType, through: tf.DType, last: tf.DType
) -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        return [tf.cast(tf.cast(x, through), last)]

    assert _after(function, tf.TensorSpec([2], first)).count("= Cast(") == 2


def test_what_else_uses_the_wide_values_stays() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        wide = tf.cast(x, tf.float64)
        return [tf.cast(wide, tf.float32), tf.cast(wide * 2, tf.float32)]

    found = _after(function, tf.TensorSpec([2]))
    assert found.count("= Cast(") == 2
