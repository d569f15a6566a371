"""The packages of TensorFlow, in all its releases."""

from __future__ import annotations

#: Keras: `tf_keras` is Keras 2 for TensorFlow 2.16 and later, whose `keras` is Keras 3.
KERAS = ("keras", "tf_keras")

#: Those whose lines are never the user's.
LIBRARIES = ("tensorflow", *KERAS, "tensorflow_estimator")
