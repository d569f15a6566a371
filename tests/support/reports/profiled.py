"""Small programs to make reports of."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy


def configure(ipus: int = 1, **options: Any) -> IPUConfig:
    """Attaches a device; `_` stands for `.` in the names of private options."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    for name, value in options.items():
        node = config._profiling if hasattr(config._profiling, name) else config
        setattr(node, name, value)
    config.configure_ipu_system()
    return config


def run(size: int = 8, launches: int = 1) -> None:
    """Compiles a dense layer and launches it; another size is another program."""
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        weights = tf.Variable(tf.ones([size, size]), name="weights")

    @tf.function(jit_compile=True)
    def dense(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(tf.matmul(x, weights))

    with strategy.scope():
        for _ in range(launches):
            strategy.run(dense, [tf.ones([4, size])])
