"""Python functions as host steps of a program, in eager mode or in a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tensorflow.python.eager import context
from tensorflow.python.framework import constant_op, dtypes, errors, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import gen_resource_variable_ops, handle_data_util, script_ops

from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.runtime import native


class CapturedValues:
    """The captured tensors and variables of a traced function, with the values to bind.

    Attributes:
        positions: Which arguments of the program these are.
    """

    def __init__(self, cluster: Cluster, explicit: int, with_variables: bool) -> None:
        """Finds the tensors, and the variables if these are to be bound too.

        Args:
            cluster: the traced function.
            explicit: number of its inputs that are not captured.
            with_variables: whether variables are bound.
        """
        found = {
            index: outer
            for index, outer in enumerate(cluster.graph.external_captures, explicit)
            if with_variables or outer.dtype != dtypes.resource
        }
        self.positions = list(found)
        self._tensors = list(found.values())

    def read(self) -> list[tensor_lib.Tensor]:
        """Returns the present values of the captured tensors and variables."""
        return [_value(tensor) for tensor in self._tensors]


def _value(tensor: tensor_lib.Tensor) -> tensor_lib.Tensor:
    if tensor.dtype != dtypes.resource:
        return tensor
    data = handle_data_util.get_handle_data(tensor)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        return tensor  # no variable: compiling says so
    with (
        ops.colocate_with(tensor.op)
        if ops.is_symbolic_tensor(tensor)
        else ops.device(tensor.device)
    ):
        value: tensor_lib.Tensor = gen_resource_variable_ops.read_variable_op(
            tensor, dtypes.as_dtype(data.shape_and_type[0].dtype)
        )
    return value


# --- Python functions as host steps of a program, in eager mode or in a graph ---

Function = Callable[..., str]


def run(function: Function, inputs: Sequence[tensor_lib.Tensor], name: str) -> tensor_lib.Tensor:
    """Runs a function on the host whenever the step of the program runs.

    Args:
        function: takes a NumPy array for each input and returns a text. An exception becomes an
            error of the step, of the same class.
        inputs: the inputs.
        name: name of the operation that gives the text.

    Returns:
        The text, a scalar.

    Raises:
        tf.errors.OpError: In eager mode, the error of the function.
    """
    with ops.device("/device:CPU:0"):
        if context.executing_eagerly():
            return constant_op.constant(_text(function, [value.numpy() for value in inputs]))

        def outcome(*values: Any) -> tuple[bytes, Any, bytes]:
            try:
                return _text(function, values).encode(), np.int32(0), b""
            except errors.OpError as error:
                return b"", np.int32(error.error_code), error.message.encode()

        types = [dtypes.string, dtypes.int32, dtypes.string]
        value, code, message = script_ops.numpy_function(outcome, list(inputs), types)
        for tensor in (value, code, message):
            tensor.set_shape([])
        raised: tensor_lib.Tensor = native.ops().ipu_raise(value, code, message, name=name)
        return raised


def _text(function: Function, values: Sequence[Any]) -> str:
    """Calls the function, and converts its exceptions to errors of operations."""
    try:
        return function(*values)
    except OSError as error:
        raise errors.FailedPreconditionError(None, None, str(error)) from error
    except (ValueError, TypeError) as error:
        raise errors.InvalidArgumentError(None, None, str(error)) from error
