"""Synthetic values of variables and indices."""

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
def test_variables_start_with_the_initializer_in_each_run(run_program, flags, results, kept):
    process = run_program(_PROGRAM, env={"TF_POPLAR_FLAGS": flags})
    assert process.stdout.splitlines() == [*results, kept]


# --- Made-up labels and indices: none of them is refused ---

# Each function would be refused by the kernels of the host with indices from the whole range.
_PROGRAM_SYNTHETIC_INDICES = """
import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
element = (np.zeros((4, 5), np.int32), np.zeros((4, 2), np.int64))
dataset = tf.data.Dataset.from_tensors(element).repeat()
strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    variable = tf.Variable(np.ones((7, 3), np.float32))
    iterator = iter(dataset)

    @tf.function(jit_compile=True)
    def program():
        rows, points = next(iterator)
        table = tf.reshape(tf.range(24.0), (4, 6))
        sequences = tf.zeros([6, 4, 5])
        variable.scatter_add(tf.IndexedSlices(tf.ones((5, 3)), rows[0]))
        variable.scatter_max(tf.IndexedSlices(tf.ones((5, 3)), rows[0]))
        variable.scatter_nd_update(points, tf.ones(4))
        found = [
            rows[0, 0],
            tf.gather(table, rows, axis=-1),
            tf.gather(table, rows[:, :3], axis=1, batch_dims=1),
            tf.gather(tf.cast(table, tf.float16), points, axis=tf.constant(0, tf.int64)),
            tf.gather_nd(table, points),
            tf.gather(variable, rows),
            tf.scatter_nd(points, tf.ones(4), tf.constant([4, 6], tf.int64)),
            tf.tensor_scatter_nd_add(table, points, tf.ones(4)),
            tf.math.unsorted_segment_sum(table, rows[:, 0], 5),
            tf.random.uniform_candidate_sampler(points, 2, 2, True, 9).true_expected_count,
            ipu.nn_ops.ctc_beam_search_decoder(sequences, rows[:, 0])[1],
            *(
                # A sequence with more labels than steps has no probability.
                tf.minimum(
                    ipu.nn_ops.ctc_loss_v2(rows, sequences, rows[:, 0], rows[:, 1], blank), 1.0
                )
                for blank in (0, 2, 4)
            ),
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=rows[:, 0], logits=table),
        ]
        return [tf.reduce_sum(tf.cast(value, tf.float32)) for value in found]

    first, *others = (value.numpy() for value in strategy.run(program))
    print(float(first), bool(np.isfinite(others).all()))
"""


@pytest.mark.parametrize("initializer", ["random", "uniform", "100"])
def test_synthetic_indices_are_within_their_range(run_program, initializer):
    """Values that are no indices stay."""
    flags = f"--use_synthetic_data --synthetic_data_initializer={initializer}"
    process = run_program(_PROGRAM_SYNTHETIC_INDICES, env={"TF_POPLAR_FLAGS": flags})
    number, finite = process.stdout.split()
    # The whole range of float32 has sums beyond it.
    assert finite == "True" or initializer == "uniform"
    assert abs(float(number)) >= 100


_TRAINING = """
import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
with ipu.ipu_strategy.IPUStrategy().scope():
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Embedding(100, 8, input_length=5), layers.Flatten(), layers.Dense(10)]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], steps_per_execution=4)
    element = (np.zeros((4, 5), np.int32), np.zeros(4, np.int32))
    model.fit(tf.data.Dataset.from_tensors(element).repeat(8), verbose=0)
    print("trained")
"""


def test_a_classifier_trains_on_synthetic_data(run_program):
    flags = "--use_synthetic_data --synthetic_data_initializer=random"
    process = run_program(_TRAINING, env={"TF_POPLAR_FLAGS": flags})
    assert process.stdout.split() == ["trained"]


def test_indices_of_the_user_are_checked(run_program):
    """They are not made up."""
    flags = "--synthetic_data_categories=outfeed --synthetic_data_initializer=random"
    program = """
import tensorflow as tf
from tensorflow.python import ipu

strategy = ipu.ipu_strategy.IPUStrategy()
try:
    strategy.run(tf.function(lambda rows: tf.gather(tf.ones(3), rows)), [tf.constant([7])])
except tf.errors.InvalidArgumentError as error:
    print("is not in [0, 3)" in str(error))
"""
    process = run_program(program, env={"TF_POPLAR_FLAGS": flags})
    assert process.stdout.split() == ["True"]
