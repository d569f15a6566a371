"""Normalization of samples, also of samples spread over replicas."""

from __future__ import annotations

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl_addons import initial_values
from tensorflow_ipu.frontends.popxl_addons.initial_values import FromTorch
from tensorflow_ipu.frontends.popxl_addons.module import Module
from tensorflow_ipu.frontends.popxl_addons.ops.layer_norm_distributed import layer_norm_distributed

__all__ = ["GroupNorm", "LayerNorm", "LayerNormDistributed"]


class GroupNorm(FromTorch, Module):
    """Normalization over groups of channels."""

    def __init__(
        self,
        num_groups: int,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        eps: float = 1e-5,
        cache: bool = False,
    ) -> None:
        """Makes the layer.

        Args:
            num_groups: number of groups.
            replica_grouping: which replicas have the same variables.
            eps: what is added to the variance.
            cache: as for `Module`.
        """
        super().__init__(cache=cache)
        self.num_groups = num_groups
        self.replica_grouping = replica_grouping
        self.eps = eps

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Returns a normalized tensor.

        Args:
            x: the tensor, with its channels in axis 1.
        """
        group, channels = self.replica_grouping, x.shape[1]
        draw = initial_values.ones(channels)
        weight = self.add_variable_input("weight", draw, x.dtype, replica_grouping=group)
        draw = initial_values.zeros(channels)
        bias = self.add_variable_input("bias", draw, x.dtype, replica_grouping=group)
        return ops.group_norm(x, weight, bias, self.num_groups, self.eps)

    @staticmethod
    def _arranged(weight: np.ndarray, variable: popxl.Variable) -> np.ndarray:
        return weight.flatten()


class LayerNorm(FromTorch, Module):
    """Normalization over the features of a matrix."""

    def build(self, x: popxl.Tensor, eps: float = 1e-5) -> popxl.Tensor:
        """Returns a tensor whose rows have mean `bias` and standard deviation `weight`.

        Args:
            x: the tensor, samples x features.
            eps: what is added to the variance.

        Raises:
            ValueError: If it is no matrix.
        """
        if x.rank != 2:
            raise ValueError(
                f"LayerNorm takes a tensor of shape N x C. Received: {x.shape}. Reshape it: "
                "x.reshape((-1, x.shape[-1]))."
            )
        weight = self.add_variable_input("weight", initial_values.ones(x.shape[-1]), x.dtype)
        bias = self.add_variable_input("bias", initial_values.zeros(x.shape[-1]), x.dtype)
        return ops.layer_norm(x, weight, bias, eps)

    @staticmethod
    def _arranged(weight: np.ndarray, variable: popxl.Variable) -> np.ndarray:
        return weight.flatten()


class LayerNormDistributed(FromTorch, Module):
    """Normalization over features that are spread over the replicas of a group."""

    def __init__(self, replica_grouping: popxl.ReplicaGrouping | None = None) -> None:
        """Makes the layer.

        Args:
            replica_grouping: which replicas have the features together; all by default. Each has
                its part of the variables, in common with those of the same place in other groups.
        """
        super().__init__()
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor, eps: float = 1e-5) -> popxl.Tensor:
        """Returns a tensor whose whole rows have mean `bias` and standard deviation `weight`.

        Args:
            x: this replica's part of the features, samples x features.
            eps: what is added to the variance.

        Raises:
            ValueError: If it is no matrix.
        """
        group = self.replica_grouping or popxl.gir().replica_grouping()
        parts = group.transpose()
        weight, bias = (
            self.add_variable_input(name, draw(x.shape[-1]), x.dtype, replica_grouping=parts)
            for name, draw in (("weight", initial_values.ones), ("bias", initial_values.zeros))
        )
        return layer_norm_distributed(x, weight, bias, eps, group)

    @staticmethod
    def _arranged(weight: np.ndarray, variable: popxl.Variable) -> np.ndarray:
        return weight.reshape(variable.shape_on_host)
