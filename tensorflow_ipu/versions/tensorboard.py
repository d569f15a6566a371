"""The package tensorboard, which TensorFlow 2.21 and later leave to the user to install."""

from __future__ import annotations

import importlib.util

import tensorflow as tf


def require() -> None:
    """Checks that `tf.summary` can write.

    Raises:
        ImportError: The package is not installed.
    """
    if importlib.util.find_spec("tensorboard") is None:
        raise ImportError(
            "Reports for TensorBoard need the package tensorboard, which is not installed: "
            f"TensorFlow {tf.__version__} comes without it. Install it: pip install tensorboard"
        )
