"""Trains a small BERT with Keras: pipelined, gradients accumulated, LAMB, float16 weights."""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow as tf
from ipu_tensorflow_addons.keras.optimizers import LAMBIpuOptimizer
from tensorflow import keras
from tensorflow.python import ipu

VOCABULARY, LENGTH, HIDDEN, HEADS = 32, 8, 16, 2
layers = keras.layers


class Encoder(keras.layers.Layer):  # type: ignore[misc]
    """One layer of the encoder."""

    def __init__(self, **options: object) -> None:
        """Makes the parts."""
        super().__init__(**options)
        self.attention = layers.MultiHeadAttention(HEADS, HIDDEN // HEADS)
        self.up = layers.Dense(32, keras.activations.gelu)
        self.down = layers.Dense(HIDDEN)
        self.norms = [layers.LayerNormalization(epsilon=1e-3) for _ in range(2)]

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the hidden states."""
        x = self.norms[0](x + self.attention(x, x))
        return self.norms[1](x + self.down(self.up(x)))


def network() -> keras.Model:
    """Returns the model; the stages are assigned afterwards."""
    words = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(VOCABULARY, HIDDEN, name="embedding")(words)
    for index in range(2):
        x = Encoder(name=f"encoder_{index}")(x)
    x = layers.Dense(VOCABULARY, name="head")(x)
    return keras.Model(words, x)


def main(arguments: list[str] | None = None) -> list[float]:
    """Trains, and returns the loss of each epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--micro-batch-size", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=4)
    options = parser.parse_args(arguments)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2 * options.replicas
    config.floating_point_behaviour.esr = ipu.config.StochasticRoundingBehaviour.from_bool(True)
    config.optimizations.merge_infeed_io_copies = True
    config.configure_ipu_system()
    starts = np.random.default_rng(0).integers(0, VOCABULARY, 64)[:, None]
    words = ((starts + np.arange(LENGTH)) % VOCABULARY).astype(np.int32)
    dataset = tf.data.Dataset.from_tensor_slices((words, (words + 1) % VOCABULARY))
    dataset = dataset.batch(options.micro_batch_size, drop_remainder=True)

    with ipu.ipu_strategy.IPUStrategy().scope():
        keras.mixed_precision.set_global_policy("float16")
        try:
            keras.utils.set_random_seed(0)
            model = network()
        finally:
            keras.mixed_precision.set_global_policy("float32")
        assignments = model.get_pipeline_stage_assignment()
        for assignment in assignments:
            in_first = assignment.layer.name in ("embedding", "encoder_0")
            assignment.pipeline_stage = 0 if in_first else 1
        model.set_pipeline_stage_assignment(assignments)
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=options.accumulate,
            gradient_accumulation_reduction_method="mean",
            pipeline_schedule=ipu.ops.pipelining_ops.PipelineSchedule.Interleaved,
        )
        optimizer = LAMBIpuOptimizer(
            learning_rate=0.02,
            m_dtype=tf.float32,
            v_dtype=tf.float32,
            optimizer_compute_precisions=(tf.float32,),
            epsilon=1e-4,
        )
        model.compile(
            optimizer,
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=options.accumulate * options.replicas,
        )
        history = model.fit(dataset, epochs=options.epochs, verbose=0)
        return [float(loss) for loss in history.history["loss"]]


if __name__ == "__main__":
    print(main())
