"""A linear layer with weights of 4 bits; the module `popxl_addons.layers.linear_gq`."""

from __future__ import annotations

import itertools
import operator

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.core import initial
from tensorflow_ipu.frontends.popxl_addons.module import Module
from tensorflow_ipu.frontends.popxl_addons.ops.group_quantize_decompress import (
    group_quantize_compress_numpy,
    group_quantize_decompress,
)

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
