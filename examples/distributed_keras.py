"""Trains a Keras model on real digits as several processes, which share the weight updates.

* `poprun --num-instances 2 --num-replicas 2 python examples/distributed_keras.py` starts two
  processes, each with one replica of the model on an IPU.
* `--num-replicas 4` gives each of them two replicas.
* `python examples/distributed_keras.py` is the same program without others.

Every weight update is made of 32 images in all cases, so they learn alike. docs/distributed.md
explains the parts.
"""

from __future__ import annotations

import argparse

import popdist
import popdist.tensorflow
import tensorflow as tf
from digits_data import load_digits
from tensorflow.python import ipu
from tensorflow.python.ipu.distributed import host_collective_ops, popdist_strategy

BATCH_SIZE = 32  # images for one update of the weights, over all replicas of all processes
UPDATES = 44  # in an epoch: one pass over the training images


def make_model() -> tf.keras.Model:
    """Returns a network of convolutions."""
    layers = tf.keras.layers
    glorot = tf.keras.initializers.GlorotUniform
    return tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu", kernel_initializer=glorot(0)),
            layers.MaxPool2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu", kernel_initializer=glorot(1)),
            layers.MaxPool2D(),
            layers.Flatten(),
            layers.Dense(10, kernel_initializer=glorot(2)),
        ]
    )


def main() -> None:
    """Joins the other processes, trains, tests, and prints the run's memory and time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()

    # Joins the others; so it comes before TensorFlow begins to run anything.
    config = popdist.tensorflow.set_ipu_config(ipu.config.IPUConfig(), ipus_per_replica=1)
    config.configure_ipu_system()

    # Each process reads its own part of the data, and gives each of its replicas a part of that.
    train, test = (tf.data.Dataset.from_tensor_slices(arrays) for arrays in load_digits())
    train = train.take(UPDATES * BATCH_SIZE)
    train = train.shard(popdist.getNumInstances(), popdist.getInstanceIndex())
    train = train.cache().shuffle(2000, seed=0)
    train = train.batch(BATCH_SIZE // popdist.getNumTotalReplicas(), drop_remainder=True)
    test = test.batch(360 // popdist.getNumLocalReplicas(), drop_remainder=True)

    strategy = popdist_strategy.PopDistStrategy()
    with ipu.profiler.profile(), strategy.scope():
        model = make_model()
        model.set_replication_options(replicated_metric_reduction_method="MEAN")

        def compile_model(steps: int) -> None:
            """Compiles the model with a number of steps per execution."""
            model.compile(
                # The loss is divided by the number of replicas, so the sum of their gradients is
                # that of the mean.
                optimizer=tf.keras.optimizers.SGD(0.03, momentum=0.9),
                loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=["accuracy"],
                steps_per_execution=steps,
            )

        is_first = popdist.getInstanceIndex() == 0
        compile_model(UPDATES)
        history = model.fit(train, epochs=arguments.epochs, verbose=2 if is_first else 0)
        compile_model(1)
        _, accuracy = model.evaluate(test, verbose=0)
        summary = ipu.profiler.summary()

    # What fit has reported is of the replicas of one process.
    loss = host_collective_ops.allreduce(
        tf.constant(history.history["loss"][-1]), tf.distribute.ReduceOp.MEAN
    )
    if is_first:
        print(f"\nloss of the last epoch, mean over all processes: {loss.numpy():.4f}")
        print(f"test accuracy: {accuracy:.2%}\n")
        print(summary)


if __name__ == "__main__":
    main()
