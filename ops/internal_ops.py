"""Utility operations: the public module `ipu.internal_ops`."""

from __future__ import annotations

from tensorflow.python.framework import ops
from tensorflow.python.framework import tensor as tensor_lib

from tensorflow_ipu.runtime import native


def print_tensor(input: tensor_lib.Tensor, name: str = "") -> ops.Operation:  # noqa: A002
    """Prints a tensor to the standard error each time the operation runs.

    Args:
        input: The tensor.
        name: Name for the operation; it is printed before the value.

    Returns:
        The operation. Return it from the program (or loop body), pass it to `session.run`, or make
        it a control dependency.
    """
    tensor = ops.convert_to_tensor(input)
    with ops.name_scope(name or "print_tensor") as scope:
        label = name or _label(tensor)
        return native.ops().ipu_print_tensor(tensor, tensor_name=label, name=scope)


def _label(tensor: tensor_lib.Tensor) -> str:
    """Returns what a tensor is called in print-outs: its name, or "tensor" when it has none."""
    return "tensor" if isinstance(tensor, ops.EagerTensor) else tensor.name
