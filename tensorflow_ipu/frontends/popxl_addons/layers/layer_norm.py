"""Normalization over the features of each sample."""

from __future__ import annotations

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl_addons.core import initial
from tensorflow_ipu.frontends.popxl_addons.core.torch_values import FromTorch
from tensorflow_ipu.frontends.popxl_addons.module import Module

__all__ = ["LayerNorm"]


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
        weight = self.add_variable_input("weight", initial.ones(x.shape[-1]), x.dtype)
        bias = self.add_variable_input("bias", initial.zeros(x.shape[-1]), x.dtype)
        return ops.layer_norm(x, weight, bias, eps)

    @staticmethod
    def _arranged(weight: np.ndarray, variable: popxl.Variable) -> np.ndarray:
        return weight.flatten()
