"""The pass that removes casts to float64 and back, on text and by results."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tensorflow_ipu.compiler.passes import prune, round_trips
from tests.support.programs.compiled_programs import program_of, scalar_target, unindented


def _after(function: Any, *specs: tf.TensorSpec) -> str:
    program = program_of(function, *specs)
    round_trips.run(program, scalar_target())
    prune.run(program, scalar_target())
    return str(program)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.int32])
def test_a_round_trip_goes(dtype: tf.DType) -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        back = tf.cast(tf.cast(x, tf.float64), dtype)
        return [back, back + 1]

    assert _after(function, tf.TensorSpec([2], dtype)) == unindented(f"""
        function 0(x: {dtype.name}[2])
          Cast_1 = Identity(x)
          add/y = Const() {{dtype={dtype.name}, value={tf.ones([], dtype).numpy().item()}}}
          add = AddV2(Cast_1:output:0, add/y:output:0)
          Identity = Identity(Cast_1:output:0)
          Identity_1 = Identity(add:z:0)
          return Identity:output:0
          return Identity_1:output:0
        """)


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

    assert _after(function, tf.TensorSpec([2])) == unindented("""
        function 0(x: float32[2])
          Cast = Cast(x) {DstT=float64}
          Cast_1 = Identity(x)
          mul/y = Const() {dtype=float64, value=2.0}
          mul = Mul(Cast:y:0, mul/y:output:0)
          Cast_2 = Cast(mul:z:0) {DstT=float32}
          Identity = Identity(Cast_1:output:0)
          Identity_1 = Identity(Cast_2:y:0)
          return Identity:output:0
          return Identity_1:output:0
        """)
