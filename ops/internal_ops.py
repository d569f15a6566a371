"""Prints, remapping, recomputation and FIFOs of tensors: the public module `ipu.internal_ops`."""

from __future__ import annotations

from typing import Any

from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import dtypes, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import array_ops, gen_resource_variable_ops, math_ops
from tensorflow.python.util import deprecation

from tensorflow_ipu.api.accumulators import program_variable
from tensorflow_ipu.compiler.ir.program import FIFO_ATTRIBUTE
from tensorflow_ipu.ops import iteration
from tensorflow_ipu.runtime import native


def print_tensor(input: tensor_lib.Tensor, name: str = "") -> ops.Operation:  # noqa: A002
    """Prints a tensor to the standard error each time the operation runs.

    The text is `name: value`. Real numbers have 8 digits, columns are aligned, lines have at most
    75 characters, and of a tensor with more than 1000 elements only three at each edge are shown.

    Args:
        input: the tensor.
        name: name for the operation; it is printed before the value.

    Returns:
        The operation. Return it from the program (or loop body), pass it to `session.run`, or make
        it a control dependency. Every replica prints.
    """
    tensor = ops.convert_to_tensor(input)
    with ops.name_scope(name or "print_tensor") as scope:
        label = name or _label(tensor)
        return native.ops().ipu_print_tensor(tensor, tensor_name=label, name=scope)


def _label(tensor: tensor_lib.Tensor) -> str:
    """Returns the label of a tensor in print-outs: its name, or "tensor" if it has none."""
    return "tensor" if isinstance(tensor, ops.EagerTensor) else tensor.name


def remap(x: Any, name: str | None = None) -> tensor_lib.Tensor:
    """Spreads a tensor evenly over the tiles of its IPU; the value does not change.

    Args:
        x: the tensor.
        name: name for the operation.

    Returns:
        A tensor equal to `x`.
    """
    return array_ops.identity(x, name=name or "remap")


def remap_deduce(x: Any, name: str | None = None) -> tensor_lib.Tensor:
    """Lays a tensor out as the operations that use it prefer; the value does not change.

    Args:
        x: the tensor.
        name: name for the operation.

    Returns:
        A tensor equal to `x`.
    """
    return array_ops.identity(x, name=name or "remap_deduce")


@deprecation.deprecated(
    None, "It has no effect. In pipelines, see pipelining_ops.recomputation_checkpoint."
)
def recompute(x: Any, name: str | None = None) -> tensor_lib.Tensor:
    """Returns its argument; it once asked for recomputation in the backward pass.

    Args:
        x: the tensor.
        name: name for the operation.

    Returns:
        A tensor equal to `x`.
    """
    return array_ops.identity(x, name=name or "recompute")


@deprecation.deprecated(
    None, "It has no effect. In pipelines, see pipelining_ops.recomputation_checkpoint."
)
def block_recompute(x: Any, name: str | None = None) -> tensor_lib.Tensor:
    """Returns its argument; it once ended a section of recomputation in the backward pass.

    Args:
        x: the tensor.
        name: name for the operation.

    Returns:
        A tensor equal to `x`.
    """
    return array_ops.identity(x, name=name or "block_recompute")


def get_current_iteration_counter(name: str | None = None) -> tensor_lib.Tensor:
    """Returns the number of the current iteration of the innermost loop.

    In a pipeline that is the number of the mini-batch, from 0 in each execution of the pipeline.

    Args:
        name: name for the operation.

    Returns:
        An int32 scalar, 0 in the first iteration.

    Raises:
        ValueError: If there is no loop around the call.
    """
    with ops.name_scope(name or "get_current_iteration_counter"):
        return iteration.current()


def fifo(x: Any, depth: int, offload: bool = False, name: str | None = None) -> tensor_lib.Tensor:
    """Delays a tensor: returns its value of `depth` executions before.

    The queue lives as long as one run of the program, one for each replica. No gradient passes.

    Args:
        x: tensor of known shape.
        depth: how many executions before. Less than 1: the result is `x` itself.
        offload: whether the queue is kept in remote memory, if the device has some. Values do not
            depend on it.
        name: name for the operations.

    Returns:
        A tensor like `x`: zeros in the first `depth` executions of a run.

    Raises:
        TypeError: If `depth` is not an int.
        ValueError: If the shape of `x` is not fully known.
    """
    if isinstance(depth, bool) or not hasattr(type(depth), "__index__"):
        raise TypeError(f"The depth of fifo must be an int. Received: depth={depth!r}")
    tensor = ops.convert_to_tensor(x)
    depth = int(depth)
    if depth < 1:
        return tensor
    with ops.name_scope(name or "fifo"):
        queue = program_variable([depth, *_static_shape(tensor)], tensor.dtype, "queue")
        next_row = program_variable([], dtypes.int32, "next_row")
        for handle in (queue, next_row):
            if ops.is_symbolic_tensor(handle):
                handle.op._set_attr(FIFO_ATTRIBUTE, attr_value_pb2.AttrValue(b=bool(offload)))
        row = gen_resource_variable_ops.read_variable_op(next_row, dtypes.int32)
        oldest = gen_resource_variable_ops.resource_gather(queue, row, tensor.dtype)
        with ops.control_dependencies([oldest]):
            written = gen_resource_variable_ops.resource_scatter_update(queue, row, tensor)
            following = math_ops.floormod(row + 1, depth)
            moved = gen_resource_variable_ops.assign_variable_op(next_row, following)
        with ops.control_dependencies([written, moved]):
            return array_ops.stop_gradient(oldest)


def _static_shape(tensor: tensor_lib.Tensor) -> list[int]:
    if not tensor.shape.is_fully_defined():
        raise ValueError(
            f"fifo needs a tensor of known shape. Received: {tensor.name} of shape {tensor.shape}. "
            "Set it with tf.ensure_shape."
        )
    shape: list[int] = tensor.shape.as_list()
    return shape
