"""Normalization over replicas; the module `popxl_addons.layers.layer_norm_distributed`."""

from __future__ import annotations

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.core import initial
from tensorflow_ipu.frontends.popxl_addons.core.torch_values import FromTorch
from tensorflow_ipu.frontends.popxl_addons.module import Module
from tensorflow_ipu.frontends.popxl_addons.ops.layer_norm_distributed import layer_norm_distributed

__all__ = ["LayerNormDistributed"]


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
            for name, draw in (("weight", initial.ones), ("bias", initial.zeros))
        )
        return layer_norm_distributed(x, weight, bias, eps, group)

    @staticmethod
    def _arranged(weight: np.ndarray, variable: popxl.Variable) -> np.ndarray:
        return weight.reshape(variable.shape_on_host)
