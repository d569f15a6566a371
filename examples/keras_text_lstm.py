"""Trains a Keras text classifier with an LSTM for the IPU: `python examples/keras_text_lstm.py`.

The data have the form of the IMDB reviews: lists of token numbers of different lengths, and a label
that says which of two kinds a text is. They are generated, so there is nothing to download. Each
kind of text is written by a Markov chain of its own. Both chains use all tokens about equally
often, so a classifier has to look at their order. This one tells more than 97 % of new texts right.
"""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

TOKENS = 100  # of which 0 is for padding
LENGTH = 40  # of a text, at most
TRAIN_TEXTS = 2048
TEST_TEXTS = 512
BATCH_SIZE = 32


def write_texts(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns texts `[count, LENGTH]`, padded with 0 in front, and labels `[count]`, both int32."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, count).astype(np.int32)
    texts = []
    for label in labels:
        # A token is followed by a near one: higher in the texts of one kind, lower in the other.
        steps = generator.integers(1, 11, generator.integers(LENGTH // 2, LENGTH + 1))
        jumps = generator.random(len(steps)) < 0.2
        steps[jumps] = generator.integers(0, TOKENS, np.count_nonzero(jumps))
        walk = np.cumsum(steps if label else -steps)
        texts.append(1 + (generator.integers(TOKENS) + walk) % (TOKENS - 1))
    return tf.keras.utils.pad_sequences(texts, LENGTH), labels


def make_model() -> tf.keras.Model:
    """Returns a model from token numbers to the probability of a kind."""
    glorot = [tf.keras.initializers.GlorotUniform(seed) for seed in range(3)]
    return tf.keras.Sequential(
        [
            ipu.keras.layers.Embedding(
                TOKENS, 32, embeddings_initializer=tf.keras.initializers.RandomUniform(seed=0)
            ),
            ipu.keras.layers.LSTM(
                32, kernel_initializer=glorot[0], recurrent_initializer=glorot[1]
            ),
            tf.keras.layers.Dense(1, activation="sigmoid", kernel_initializer=glorot[2]),
        ]
    )


def main() -> None:
    """Configures an IPU, trains with validation, and prints the run's memory and time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    arguments = parser.parse_args()

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    train_texts, train_labels = write_texts(TRAIN_TEXTS, seed=1)
    test_texts, test_labels = write_texts(TEST_TEXTS, seed=2)
    train = tf.data.Dataset.from_tensor_slices((train_texts, train_labels)).cache()
    train = train.shuffle(TRAIN_TEXTS, seed=0).batch(BATCH_SIZE, drop_remainder=True)

    with ipu.ipu_strategy.IPUStrategy().scope():
        model = make_model()
        model.compile(
            optimizer=tf.keras.optimizers.Adam(0.005),
            loss="binary_crossentropy",
            metrics=["accuracy"],
            steps_per_execution=16,  # divides the steps of training and of testing
        )
        model.fit(
            train,
            epochs=arguments.epochs,
            validation_data=(test_texts, test_labels),
            validation_batch_size=BATCH_SIZE,
            # Looks at what validation found after each epoch, as in any Keras program.
            callbacks=[tf.keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)],
        )
        probabilities = model.predict(test_texts, batch_size=BATCH_SIZE)

    right = (probabilities[:, 0] > 0.5) == test_labels
    print(f"\ntest accuracy: {np.mean(right):.2%}\n")
    print(ipu.profiler.summary())


if __name__ == "__main__":
    main()
