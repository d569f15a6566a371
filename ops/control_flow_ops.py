"""`barrier`, which orders operations: the public module `ipu.control_flow_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def barrier(
    tensors: Any, insert_barrier_for_gradients: bool = False, name: str | None = None
) -> Any:
    """Delays all uses of the tensors until all of them are computed.

    Args:
        tensors: a list of tensors, or another structure of them.
        insert_barrier_for_gradients: whether the gradients of the tensors wait for each other too,
            on their way back.
        name: name for the operation.

    Returns:
        A structure like `tensors`, to be used in place of it.

    Raises:
        ValueError: There are no tensors.
    """
    flat = [tf.convert_to_tensor(tensor) for tensor in tf.nest.flatten(tensors)]
    if not flat:
        raise ValueError(f"barrier needs at least one tensor. Received: tensors={tensors!r}")
    with tf.name_scope(name or "barrier"):
        together = _with_gradients(*flat) if insert_barrier_for_gradients else _together(flat)
        return tf.nest.pack_sequence_as(tensors, tf.nest.flatten(together))


def _together(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """Passes all tensors through one op, which runs when it has all of them."""
    return list(tf.raw_ops.IdentityN(input=tensors))


@tf.custom_gradient
def _with_gradients(*tensors: tf.Tensor) -> tuple[list[tf.Tensor], Any]:
    def gradient(*gradients: tf.Tensor) -> list[tf.Tensor]:
        return _together([tf.convert_to_tensor(value) for value in gradients])

    return _together(list(tensors)), gradient
