"""Variables synchronized on read, of instances of poprun: their values where this one reads them.

Run with `python -m tests.support.processes.read_by_instances FOLDER`. Instance i assigns 2 + i.
"""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

from tensorflow_ipu.distributed.launcher import environment
from tests.support.processes import instances


def main(folder: str) -> None:
    """Reports the values read and, in instance 0, saved.

    Args:
        folder: for the files that it saves.
    """
    me = environment.read()
    assert me is not None
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    strategy = ipu.distributed.popdist_strategy.PopDistStrategy()
    strategy.update_ipu_config(config).configure_ipu_system()
    with strategy.scope():
        variable = tf.Variable(
            1.0 + me.index,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.MEAN,
        )
        begun = variable.numpy()
        strategy.run(tf.function(lambda: variable.assign(2.0 + me.index)))
        model = tf.keras.Sequential([tf.keras.layers.BatchNormalization(momentum=0.0)])
        model.compile("sgd", "mse", steps_per_execution=2)
        data = tf.data.Dataset.from_tensors(np.full((2, 1), 1 + me.index, np.float32)).repeat(4)
        model.fit(data.map(lambda x: (x, x)), verbose=0)
        (layer,) = model.layers
        read = {
            "begun": begun,
            "value": variable.read_value().numpy(),
            "array": np.array(variable),
            "equal": [bool(variable == 2.5), bool(variable != 2.5)],
            "mean": layer.moving_mean.numpy(),
        }
        if me.index == 0:  # The other instance reads nothing now.
            model.save_weights(f"{folder}/weights.h5")
            tf.train.Checkpoint(variable=variable).write(f"{folder}/checkpoint")
    saved = {}
    if me.index == 0:
        model.load_weights(f"{folder}/weights.h5")
        reader = tf.train.load_checkpoint(f"{folder}/checkpoint")
        saved = {
            "saved mean": layer.moving_mean.numpy(),
            "saved": reader.get_tensor("variable/.ATTRIBUTES/VARIABLE_VALUE"),
        }
    instances.report(own=variable.numpy(), **read, **saved)


if __name__ == "__main__":
    main(*sys.argv[1:])
