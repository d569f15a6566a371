"""Packages of TensorFlow in all its releases, and the tensorboard that newer ones leave out."""

from __future__ import annotations

import importlib.util

#: Keras: `tf_keras` is Keras 2 for TensorFlow 2.16 and later, whose `keras` is Keras 3.
KERAS = ("keras", "tf_keras")
#: Those whose lines are never the user's.
LIBRARIES = ("tensorflow", *KERAS, "tensorflow_estimator")


def require_tensorboard() -> None:
    """Checks that `tf.summary` can write.

    Raises:
        ImportError: The package is not installed.
    """
    if importlib.util.find_spec("tensorboard") is None:
        import tensorflow as tf  # here, as configuring an IPU does not need it

        raise ImportError(
            "Reports for TensorBoard need the package tensorboard, which is not installed: "
            f"TensorFlow {tf.__version__} comes without it. Install it: pip install tensorboard"
        )
