"""Keras layers that return their inputs and give the compiler a hint."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import cross_replica_ops, pipelining_ops


@registered
class RecomputationCheckpoint(tf.keras.layers.Layer):
    """Marks values of a pipeline stage that are kept rather than recomputed.

    With recomputation, the backward pass of a stage starts from what was kept. It is used with
    `RecomputationMode.RecomputeAndBackpropagateInterleaved`, and has no effect in other modes.
    """

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """Marks the inputs.

        Args:
            inputs: a tensor or a structure of tensors.
            **kwargs: not used.

        Returns:
            The same structure with the same values.
        """
        return pipelining_ops.recomputation_checkpoint(inputs, name=self.name)


@registered
class AssumeEqualAcrossReplicas(tf.keras.layers.Layer):
    """Promises that its inputs are equal on all replicas, so that control flow may use them.

    Args:
        inplace: see `cross_replica_ops.assume_equal_across_replicas`.
        **kwargs: other arguments of `tf.keras.layers.Layer`.
    """

    def __init__(self, inplace: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inplace = inplace

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """Marks the inputs.

        Args:
            inputs: a tensor or a structure of tensors.
            **kwargs: not used.

        Returns:
            The same structure with the same values.
        """
        return cross_replica_ops.assume_equal_across_replicas(inputs, inplace=self.inplace)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same layer with."""
        return {**super().get_config(), "inplace": self.inplace}
