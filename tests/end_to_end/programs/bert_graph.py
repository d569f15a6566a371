"""Trains a small BERT on masked words, as TensorFlow 1 programs did: a pipeline with LAMB.

Embedding and pairs of encoder layers are stages, weights are float16 and their updates float32, the
optimizer is the program's own, and its update of each weight is an outlined function.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import ipu_compiler, pipelining_ops, scopes

VOCABULARY, LENGTH, HIDDEN, HEADS = 32, 8, 16, 2
LOSS_SCALING = 64.0


class Lamb(tf.train.Optimizer):  # type: ignore[misc]
    """LAMB, with moments in float32."""

    def __init__(self, learning_rate: float) -> None:
        """Remembers the learning rate."""
        super().__init__(use_locking=False, name="LAMB")
        self.learning_rate = learning_rate

    def _create_slots(self, variables: list[tf.Variable]) -> None:
        for variable in variables:
            for name in ("m", "v"):
                zeros = tf.zeros_initializer()
                self._get_or_make_slot_with_initializer(
                    variable, zeros, variable.shape, tf.float32, name, self._name
                )

    def _resource_apply_dense(self, gradient: tf.Tensor, variable: tf.Variable) -> tf.Operation:
        @ipu.outlined_function
        def new_values(
            gradient: tf.Tensor, value: tf.Tensor, m: tf.Tensor, v: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            gradient = tf.cast(gradient, tf.float32) / LOSS_SCALING
            value = tf.cast(value, tf.float32)
            m = 0.9 * m + 0.1 * gradient
            v = 0.999 * v + 0.001 * tf.square(gradient)
            update = m / (tf.sqrt(v) + 1e-4) + 0.01 * value
            norm, update_norm = tf.norm(value), tf.norm(update)
            ratio = tf.where(norm * update_norm > 0, norm / (update_norm + 1e-9), 1.0)
            return value - self.learning_rate * ratio * update, m, v

        m, v = self.get_slot(variable, "m"), self.get_slot(variable, "v")
        value, m_value, v_value = new_values(gradient, variable, m, v)
        return tf.group(
            variable.assign(tf.cast(value, variable.dtype.base_dtype)),
            m.assign(m_value),
            v.assign(v_value),
        )


def weight(name: str, shape: list[int], dtype: tf.DType = tf.float16) -> tf.Variable:
    """Returns a weight: the same one whenever this is called with its name."""
    with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE, use_resource=True):
        return tf.get_variable(name, shape, dtype, tf.truncated_normal_initializer(0, 0.1, seed=4))


def embed(words: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Is the first stage."""
    table = weight("table", [VOCABULARY, HIDDEN])
    return ipu.embedding_ops.embedding_lookup(table, words) + weight(
        "positions", [LENGTH, HIDDEN]
    ), labels


def normalise(x: tf.Tensor) -> tf.Tensor:
    """Normalises the last dimension."""
    mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-3)


def attention(x: tf.Tensor) -> tf.Tensor:
    """Is multi-head self attention."""

    def split(name: str) -> tf.Tensor:
        y = tf.reshape(
            tf.matmul(tf.reshape(x, [-1, HIDDEN]), weight(name, [HIDDEN, HIDDEN])),
            [-1, LENGTH, HEADS, HIDDEN // HEADS],
        )
        return tf.transpose(y, [0, 2, 1, 3])

    scores = tf.matmul(split("query"), split("key"), transpose_b=True) * (HIDDEN // HEADS) ** -0.5
    values = tf.transpose(tf.matmul(tf.nn.softmax(scores), split("value")), [0, 2, 1, 3])
    return tf.reshape(values, [-1, LENGTH, HIDDEN])


def encoder(index: int) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    """Returns the stage of one encoder layer."""

    def stage(x: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.variable_scope(f"layer_{index}", use_resource=True):
            x = normalise(x + attention(x))
            hidden = ipu.nn_ops.gelu(
                tf.matmul(tf.reshape(x, [-1, HIDDEN]), weight("up", [HIDDEN, 32]))
            )
            x = normalise(x + tf.reshape(tf.matmul(hidden, weight("down", [32, HIDDEN])), x.shape))
        return x, labels

    return stage


def loss(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Is the last stage: it uses the embedding's table again."""
    with tf.variable_scope("", reuse=tf.AUTO_REUSE, use_resource=True):
        logits = tf.matmul(
            tf.reshape(x, [-1, HIDDEN]), weight("table", [VOCABULARY, HIDDEN]), transpose_b=True
        )
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.reshape(labels, [-1]), logits=tf.cast(logits, tf.float32)
    )
    return tf.reduce_mean(losses) * LOSS_SCALING


def dataset(batch_size: int) -> tf.data.Dataset:
    """Returns sentences that count upwards, with the word that comes next as the label."""
    starts = np.random.default_rng(0).integers(0, VOCABULARY, 64)[:, None]
    words = ((starts + np.arange(LENGTH)) % VOCABULARY).astype(np.int32)
    data = tf.data.Dataset.from_tensor_slices((words, (words + 1) % VOCABULARY))
    return data.repeat().batch(batch_size, drop_remainder=True)


def main(arguments: list[str] | None = None) -> np.ndarray:
    """Trains, and returns the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--updates", type=int, default=6)
    parser.add_argument("--micro-batch-size", type=int, default=4)
    parser.add_argument("--gradient-accumulation-count", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=0.02)
    options = parser.parse_args(arguments)

    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset(options.micro_batch_size))
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def optimize(loss: tf.Tensor) -> Any:
        optimizer = ipu.optimizers.CrossReplicaOptimizer(Lamb(options.learning_rate))
        return pipelining_ops.OptimizerFunctionOutput(optimizer, loss)

    def program() -> Any:
        return pipelining_ops.pipeline(
            [embed, encoder(0), encoder(1), loss],
            gradient_accumulation_count=options.gradient_accumulation_count,
            repeat_count=options.updates,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=optimize,
            device_mapping=[0, 1, 1, 0],
            pipeline_schedule=pipelining_ops.PipelineSchedule.Grouped,
            reduction_method=ipu.optimizers.GradientAccumulationReductionMethod.RUNNING_MEAN,
            name="BERT",
        )

    with scopes.ipu_scope("/device:IPU:0"):
        train = ipu_compiler.compile(program, [])
    losses = outfeed.dequeue()
    ipu.utils.move_variable_initialization_to_cpu()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = [2 * options.replicas]
    config.allow_recompute = True
    config.matmuls.poplar_options = {"availableMemoryProportion": "0.3", "partialsType": "half"}
    config.configure_ipu_system()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        session.run(train)
        return np.asarray(session.run(losses)).reshape(-1) / LOSS_SCALING


if __name__ == "__main__":
    tf.disable_v2_behavior()
    print(main())
