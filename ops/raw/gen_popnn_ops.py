"""Raw ops below `nn_ops`: the public module `gen_popnn_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.ops import nn_ops
from tensorflow_ipu.ops.raw import missing_in

__all__ = ["ipu_gelu", "ipu_hard_sigmoid", "ipu_softmax", "ipu_stable_softmax", "ipu_swish"]

__getattr__ = missing_in(
    "gen_popnn_ops", __all__, "ipu.nn_ops, ipu.normalization_ops and ipu.rnn_ops"
)


def ipu_gelu(input: Any, approximate: bool = True, name: str | None = None) -> tf.Tensor:  # noqa: A002
    """Computes the Gaussian error linear unit: see `nn_ops.gelu`.

    Args:
        input: the tensor.
        approximate: whether to use the approximation by tanh.
        name: name for the op.
    """
    return nn_ops.gelu(input, approximate, name)


def ipu_swish(input: Any, name: str | None = None) -> tf.Tensor:  # noqa: A002
    """Computes `x * sigmoid(x)`: see `nn_ops.swish`.

    Args:
        input: the tensor.
        name: name for the op.
    """
    return nn_ops.swish(input, name)


def ipu_hard_sigmoid(input: Any, name: str | None = None) -> tf.Tensor:  # noqa: A002
    """Computes the hard sigmoid: see `nn_ops.hard_sigmoid`.

    Args:
        input: the tensor.
        name: name for the op.
    """
    return nn_ops.hard_sigmoid(input, name)


def ipu_softmax(input: Any, name: str | None = None) -> tf.Tensor:  # noqa: A002
    """Computes the softmax over the last dimension: see `nn_ops.softmax`.

    Args:
        input: the tensor.
        name: name for the op.
    """
    return nn_ops.softmax(input, False, name)


def ipu_stable_softmax(input: Any, name: str | None = None) -> tf.Tensor:  # noqa: A002
    """Computes the softmax over the last dimension in its stable form: see `nn_ops.softmax`.

    Args:
        input: the tensor.
        name: name for the op.
    """
    return nn_ops.softmax(input, True, name)
