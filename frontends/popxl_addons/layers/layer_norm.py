"""Normalization over the features of each sample."""

from __future__ import annotations

from typing import Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl_addons.core import initial, torch_values
from tensorflow_ipu.frontends.popxl_addons.module import Module
from tensorflow_ipu.frontends.popxl_addons.named_tensors import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.utils import WeightsDict

__all__ = ["LayerNorm"]


class LayerNorm(Module):
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
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """Returns the values of a layer of PyTorch for the variables.

        Args:
            variables: the variables of this layer.
            nn_layer: a `torch.nn.LayerNorm`.
            dtype: the type of the variables.

        Raises:
            ValueError: If shapes or types do not fit.
        """
        weight = torch_values.array_of(nn_layer.weight, dtype).flatten()
        return torch_values.weight_and_bias(variables, weight, nn_layer.bias, dtype)
