"""What stands in for variables that do not move to the device."""

from __future__ import annotations

import pytest

_PROGRAM = """
import tensorflow as tf
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()
strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    weight = tf.Variable([5.0, 6.0])
    count = tf.Variable(3)

    @tf.function(jit_compile=True)
    def program():
        def body(total):
            weight.assign_add([1.0, 1.0])
            return total + weight

        total = ipu.loops.repeat(2, body, [tf.zeros([2])])
        return total, weight.read_value(), count.read_value()

    for _ in range(2):
        print([value.numpy().tolist() for value in strategy.run(program)])
print(weight.numpy().tolist(), int(count))
"""


@pytest.mark.parametrize(
    ("flags", "results", "kept"),
    [
        (
            "--synthetic_data_categories=parameters --synthetic_data_initializer=2.5",
            ["[[8.0, 8.0], [4.5, 4.5], 2]"] * 2,
            "[5.0, 6.0] 3",
        ),
        (
            "--synthetic_data_categories=parameters",
            ["[[13.0, 15.0], [7.0, 8.0], 3]", "[[17.0, 19.0], [9.0, 10.0], 3]"],
            "[9.0, 10.0] 3",
        ),
        (
            "--synthetic_data_categories=infeed --synthetic_data_initializer=2.5",
            ["[[13.0, 15.0], [7.0, 8.0], 3]", "[[17.0, 19.0], [9.0, 10.0], 3]"],
            "[9.0, 10.0] 3",
        ),
    ],
)
def test_variables_start_with_the_initializer_in_each_run(run_python, flags, results, kept):
    process = run_python(_PROGRAM, env={"TF_POPLAR_FLAGS": flags})
    assert process.stdout.splitlines() == [*results, kept]
