"""Normalization over groups of channels."""

from __future__ import annotations

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl_addons.core import initial
from tensorflow_ipu.frontends.popxl_addons.core.torch_values import FromTorch
from tensorflow_ipu.frontends.popxl_addons.module import Module

__all__ = ["GroupNorm"]


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
        draw = initial.ones(channels)
        weight = self.add_variable_input("weight", draw, x.dtype, replica_grouping=group)
        draw = initial.zeros(channels)
        bias = self.add_variable_input("bias", draw, x.dtype, replica_grouping=group)
        return ops.group_norm(x, weight, bias, self.num_groups, self.eps)

    @staticmethod
    def _arranged(weight: np.ndarray, variable: popxl.Variable) -> np.ndarray:
        return weight.flatten()
