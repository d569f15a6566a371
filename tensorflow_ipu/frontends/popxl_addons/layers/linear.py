"""A product with a weight, and a bias."""

from __future__ import annotations

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.core import initial
from tensorflow_ipu.frontends.popxl_addons.core.torch_values import FromTorch
from tensorflow_ipu.frontends.popxl_addons.module import Module

__all__ = ["Linear"]


class Linear(FromTorch, Module):
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
    def _arranged(weight: np.ndarray, variable: popxl.Variable) -> np.ndarray:
        return weight.T
