"""An operation of one's own, written with Poplar, in a training step; compared with TensorFlow's.

eval "$(tensorflow-ipu sdk)" && make && python custom_op.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

ALPHA = 0.2
SIZE = 100_000


def leaky_relu(x: tf.Tensor, folder: Path) -> tf.Tensor:
    """Returns x where it is positive, and 0.2 * x elsewhere.

    Args:
        x: the tensor.
        folder: has what `make` compiled.
    """
    (y,) = ipu.custom_ops.precompiled_user_op(
        [x],
        folder / "libleaky_relu.so",
        gp_path=folder / "codelets.gp",
        outs={"output_types": [x.dtype], "output_shapes": [x.shape]},
        name="LeakyRelu",
        attributes=str(ALPHA),
        gradient_attributes=str(ALPHA),
    )
    return y


def main(folder: Path) -> None:
    """Runs the operation and its gradient on two replicas, and compares with TensorFlow.

    Args:
        folder: has what `make` compiled.
    """
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    x = np.random.default_rng(1).normal(size=SIZE).astype(np.float32)

    @tf.function(jit_compile=True)
    def step(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(leaky_relu(x, folder) ** 2)
        gradient = tape.gradient(loss, x)
        return loss, ipu.cross_replica_ops.cross_replica_sum(gradient) / 2

    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        loss, gradient = strategy.run(step, [x])
    y = np.where(x > 0, x, np.float32(ALPHA) * x)
    np.testing.assert_allclose(loss, np.sum(y * y), rtol=1e-5)
    np.testing.assert_allclose(gradient, 2 * y * np.where(x > 0, 1, ALPHA), rtol=1e-5)
    print(f"loss {loss:.1f}, gradient of {gradient.shape[0]} elements: as NumPy has them")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=Path(__file__).parent / "build")
    main(parser.parse_args().build)
