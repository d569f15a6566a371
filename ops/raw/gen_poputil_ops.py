"""Raw ops below replication and gradient accumulation: the module `gen_poputil_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.api.accumulators import Accumulator
from tensorflow_ipu.compiler import trace
from tensorflow_ipu.configs.ranges import COUNT
from tensorflow_ipu.ops import internal_ops, replication_ops
from tensorflow_ipu.ops.raw import missing_in

__all__ = [
    "ipu_fifo",
    "ipu_print_tensor",
    "ipu_remap",
    "ipu_remap_deduce",
    "ipu_replication_normalise",
    "ipu_stateful_gradient_accumulate",
]

__getattr__ = missing_in(
    "gen_poputil_ops",
    __all__,
    "ipu.replication_ops, ipu.internal_ops, ipu.custom_ops and ipu.optimizers",
)


def ipu_replication_normalise(input: Any, name: str | None = None) -> tf.Tensor:  # noqa: A002
    """Divides a tensor by the number of replicas: see `replication_ops`.

    Args:
        input: the tensor.
        name: name for the op.

    Returns:
        A tensor like `input`.
    """
    return replication_ops.ipu_replication_normalise(input, name)


def ipu_stateful_gradient_accumulate(
    input: Any,  # noqa: A002
    num_mini_batches: int,
    verify_usage: bool = True,
    name: str | None = None,
) -> tf.Tensor:
    """Adds up a gradient over mini-batches, in the body of a loop.

    Args:
        input: the gradient of a mini-batch, of a known shape.
        num_mini_batches: how many mini-batches are added up.
        verify_usage: whether the original checked what uses the result. It has no effect.
        name: name for the op.

    Returns:
        A tensor like `input`: with every `num_mini_batches`-th mini-batch the sum of so many, with
        the others zeros. A run of the program starts from zero.

    Raises:
        RuntimeError: If it is not called in a program for the IPU.
        ValueError: If the number is no positive integer, or the shape is not known.
    """
    del verify_usage
    count = COUNT.whole("num_mini_batches", num_mini_batches)
    if not trace.in_cluster():
        raise RuntimeError(
            "ipu_stateful_gradient_accumulate has to be in a program for the IPU: call it in the "
            "body of a loop that ipu_compiler.compile or IPUStrategy.run compiles."
        )
    with tf.name_scope(name or "ipu_stateful_gradient_accumulate"):
        value = tf.convert_to_tensor(input)
        accumulator = Accumulator(value.shape, value.dtype, "accumulator")
        counter = Accumulator([], tf.int32, "mini_batch")
        index, total = counter.value(), accumulator.value() + value
        is_last = tf.equal(index, count - 1)
        zeros = tf.zeros_like(total)
        result = tf.where(is_last, total, zeros)
        # Both are read before they are written.
        with tf.control_dependencies([index, total]):
            updates = [
                accumulator.assign(tf.where(is_last, zeros, total)),
                counter.assign(tf.where(is_last, 0, index + 1)),
            ]
        with tf.control_dependencies(updates):
            return tf.identity(result)


def ipu_print_tensor(input: Any, tensor_name: str = "", name: str | None = None) -> tf.Operation:  # noqa: A002
    """Prints a tensor: see `internal_ops.print_tensor`.

    Args:
        input: the tensor.
        tensor_name: the text printed before it.
        name: the text printed before it, if `tensor_name` is empty.

    Returns:
        The operation.
    """
    return internal_ops.print_tensor(input, tensor_name or name or "")


def ipu_remap(input: Any, name: str | None = None) -> tf.Tensor:  # noqa: A002
    """Returns a tensor in a layout of its own: see `internal_ops.remap`.

    Args:
        input: the tensor.
        name: name for the op.
    """
    return internal_ops.remap(input, name)


def ipu_remap_deduce(input: Any, name: str | None = None) -> tf.Tensor:  # noqa: A002
    """Returns a tensor in the layout that its uses ask for: see `internal_ops.remap_deduce`.

    Args:
        input: the tensor.
        name: name for the op.
    """
    return internal_ops.remap_deduce(input, name)


def ipu_fifo(input: Any, depth: int, offload: bool = False, name: str | None = None) -> tf.Tensor:  # noqa: A002
    """Returns the tensor of some iterations ago: see `internal_ops.fifo`.

    Args:
        input: the tensor.
        depth: how many iterations.
        offload: whether the queue is in remote memory.
        name: name for the op.
    """
    return internal_ops.fifo(input, depth, offload, name)
