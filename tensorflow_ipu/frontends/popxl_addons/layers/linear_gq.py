"""A linear layer with weights of 4 bits; the module `popxl_addons.layers.linear_gq`."""

from __future__ import annotations

import itertools
import operator
from typing import Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.core import initial, torch_values
from tensorflow_ipu.frontends.popxl_addons.module import Module
from tensorflow_ipu.frontends.popxl_addons.named_tensors import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.ops.group_quantize_decompress import (
    group_quantize_compress_numpy,
    group_quantize_decompress,
)
from tensorflow_ipu.frontends.popxl_addons.utils import WeightsDict

__all__ = ["LinearGQ"]

_NAMES = ("weight_compressed", "weight_decompression_scale", "weight_decompression_bias")


class LinearGQ(Module):
    """`x @ weight + bias`, with the weight in numbers of 4 bits, and a scale for each group."""

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        group_size: int = 0,
        dim: int = -1,
    ) -> None:
        """Makes the layer.

        Args:
            out_features: size of the last dimension of the result.
            bias: whether there is a bias.
            replica_grouping: which replicas have the same variables.
            group_size: how many neighbors have a scale in common, a multiple of 4; all for 0.
            dim: the axis of the weight that they are along: 0 for the features of the input.
        """
        super().__init__()
        self.out_features = out_features
        self.bias = bias
        self.replica_grouping = replica_grouping
        self.group_size = group_size
        self.dim = dim

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Returns the product of a tensor with the weight, and the bias added.

        The weight has no gradient: its numbers are integers.

        Args:
            x: the tensor, with the features in its last dimension.

        Raises:
            ValueError: If groups are not of equal size.
        """
        group = self.replica_grouping
        draw = initial.truncated_normal(x.shape[-1], self.out_features)
        compressed = (
            group_quantize_compress_numpy(draw(), self.group_size, self.dim)
            for _ in itertools.count()
        )
        # Each variable takes its part of the same draws.
        types = (popxl.uint16, x.dtype, x.dtype)
        numbers, scale, shift = (
            self.add_variable_input(
                name, map(operator.itemgetter(part), draws), types[part], replica_grouping=group
            )
            for part, (name, draws) in enumerate(zip(_NAMES, itertools.tee(compressed, 3)))
        )
        y = x @ group_quantize_decompress(numbers, scale, shift, self.dim)
        if self.bias:
            draw = initial.zeros(self.out_features)
            y = y + self.add_variable_input("bias", draw, x.dtype, replica_grouping=group)
        return y

    @staticmethod
    def torch_mapping(
        variables: NamedTensors,
        nn_layer: Any,
        dtype: popxl.dtype = popxl.float32,
        group_size: int = 64,
        dim: int = -1,
    ) -> WeightsDict:
        """Returns the values of a layer of PyTorch for the variables.

        Args:
            variables: the variables of this layer.
            nn_layer: a `torch.nn.Linear`.
            dtype: the type of the variables.
            group_size: the group size of this layer.
            dim: the axis of groups of this layer.

        Raises:
            ValueError: If shapes or types do not fit.
        """
        weight = torch_values.array_of(nn_layer.weight, popxl.float32).T
        parts = group_quantize_compress_numpy(weight, group_size, dim)
        types = (popxl.uint16, dtype, dtype)
        values = WeightsDict(
            (variables[name], part.astype(own.as_numpy()))
            for name, part, own in zip(_NAMES, parts, types)
        )
        values.update(torch_values.bias_alone(variables, nn_layer.bias, dtype))
        return values
