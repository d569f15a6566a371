"""Captured tensors and frozen variables that become part of an application."""

from __future__ import annotations

from tensorflow.python.framework import dtypes, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import gen_resource_variable_ops, handle_data_util

from tensorflow_ipu.compiler.cluster import Cluster


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
