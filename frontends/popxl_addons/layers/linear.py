"""A product with a weight, and a bias."""

from __future__ import annotations

from typing import Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.core import initial, torch_values
from tensorflow_ipu.frontends.popxl_addons.module import Module
from tensorflow_ipu.frontends.popxl_addons.named_tensors import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.utils import WeightsDict

__all__ = ["Linear"]


class Linear(Module):
    """`x @ weight + bias`."""

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        replica_grouping: popxl.ReplicaGrouping | None = None,
    ) -> None:
        """Makes the layer.

        Args:
            out_features: size of the last dimension of the result.
            bias: whether there is a bias.
            replica_grouping: which replicas have the same variables.
        """
        super().__init__()
        self.out_features = out_features
        self.bias = bias
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Returns the product of a tensor with the weight, and the bias added.

        Args:
            x: the tensor, with the features in its last dimension.
        """
        group = self.replica_grouping
        draw = initial.truncated_normal(x.shape[-1], self.out_features)
        weight = self.add_variable_input("weight", draw, x.dtype, replica_grouping=group)
        y = x @ weight
        if self.bias:
            draw = initial.zeros(self.out_features)
            y = y + self.add_variable_input("bias", draw, x.dtype, replica_grouping=group)
        return y

    @staticmethod
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """Returns the values of a layer of PyTorch for the variables.

        Args:
            variables: the variables of this layer.
            nn_layer: a `torch.nn.Linear`.
            dtype: the type of the variables.

        Raises:
            ValueError: If shapes or types do not fit.
        """
        weight = torch_values.array_of(nn_layer.weight, dtype).T
        return torch_values.weight_and_bias(variables, weight, nn_layer.bias, dtype)
