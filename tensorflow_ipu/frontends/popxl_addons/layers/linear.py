"""Linear layers, also with weights of 8 and 4 bits; `linear`, `linear_fp8` and `linear_gq`."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl_addons import initial_values
from tensorflow_ipu.frontends.popxl_addons.dot_tree import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.initial_values import FromTorch
from tensorflow_ipu.frontends.popxl_addons.module import Module
from tensorflow_ipu.frontends.popxl_addons.ops.fp8_amax_scale import SCALES, fp8_amax_scale
from tensorflow_ipu.frontends.popxl_addons.ops.fp8_mse_scale import fp8_mse_scale
from tensorflow_ipu.frontends.popxl_addons.ops.group_quantize_decompress import (
    group_quantize_compress_numpy,
    group_quantize_decompress,
)
from tensorflow_ipu.frontends.popxl_addons.utils import WeightsDict

__all__ = ["Linear", "LinearFP8", "LinearGQ"]


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
        draw = initial_values.truncated_normal(x.shape[-1], self.out_features)
        weight = self.add_variable_input("weight", draw, x.dtype, replica_grouping=group)
        y = x @ weight
        if self.bias:
            draw = initial_values.zeros(self.out_features)
            y = y + self.add_variable_input("bias", draw, x.dtype, replica_grouping=group)
        return y

    @staticmethod
    def _arranged(weight: np.ndarray, variable: popxl.Variable) -> np.ndarray:
        return weight.T


_METRICS = ("amax", "mse", "manual_scale")


# Gradients vary more from step to step than weights do: their scale leaves room above.
_ROOM = 3


class LinearFP8(FromTorch, Module):
    """`x @ weight + bias` as a product of 8-bit floats, with a gradient that is one, too."""

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        scale_metric: str = "amax",
        scale: int = 0,
        replica_grouping: popxl.ReplicaGrouping | None = None,
    ) -> None:
        """Makes the layer.

        Args:
            out_features: size of the last dimension of the result.
            bias: whether there is a bias.
            scale_metric: where the scales of tensors are from: "amax", their largest element;
                "mse", the least squared error; "manual_scale", the next argument.
            scale: the exponent of the power of two that tensors are multiplied by, from -31 to 31.
            replica_grouping: which replicas have the same variables.

        Raises:
            ValueError: If there is no such metric, or the scale is out of bounds.
        """
        super().__init__()
        if scale_metric not in _METRICS:
            raise ValueError(f"scale_metric must be one of {_METRICS}. Received: {scale_metric!r}")
        if scale not in SCALES:
            raise ValueError(f"scale must be from {SCALES[0]} to {SCALES[-1]}. Received: {scale!r}")
        self.out_features = out_features
        self.bias = bias
        self.scale_metric = scale_metric
        self.scale = scale
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Returns the product of a matrix with the weight, and the bias added.

        Args:
            x: the matrix, samples x features.

        Raises:
            ValueError: If it is no matrix.
        """
        if x.rank != 2:
            raise ValueError(f"LinearFP8 takes a matrix, samples x features. Received: {x.shape}")
        group = self.replica_grouping
        draw = initial_values.truncated_normal(x.shape[-1], self.out_features)
        weight = self.add_variable_input("weight", draw, x.dtype, replica_grouping=group)
        w_scale, x_scale = (self._scale_of(t, popxl.float8_143) for t in (weight, x))
        w8 = ops.pow2scale_cast_to_fp8(weight, w_scale, popxl.float8_143)
        x8 = ops.pow2scale_cast_to_fp8(x, x_scale, popxl.float8_143)
        self.aux["w8"], self.aux["x8"] = w8, x8
        self.aux["w_scale"], self.aux["x_scale"] = w_scale, x_scale
        y = _product(x8, w8, w_scale, x_scale, x.dtype)
        if self.bias:
            draw = initial_values.zeros(self.out_features)
            y = y + self.add_variable_input("bias", draw, x.dtype, replica_grouping=group)
        return y

    def build_grad(self, dLdy: popxl.Tensor) -> popxl.Tensor:
        """Returns the gradient of the matrix, and sets the gradients of the variables.

        Args:
            dLdy: the gradient of the result.
        """
        dy = dLdy
        scale = self._scale_of(dy, popxl.float8_152) - _ROOM
        low, high = (popxl.constant(end, popxl.int32) for end in (SCALES[0], SCALES[-1]))
        scale = ops.where(ops.greater(low, scale), low, scale)
        scale = ops.where(ops.greater(scale, high), high, scale)
        dy8 = ops.pow2scale_cast_to_fp8(dy, scale, popxl.float8_152)
        w8, x8 = self.aux["w8"], self.aux["x8"]
        by_weight = _product(ops.transpose(dy8), x8, scale, self.aux["x_scale"], dy.dtype)
        self.var_grad["weight"] = ops.transpose(by_weight)
        if self.bias:
            self.var_grad["bias"] = ops.sum(dy, 0)
        return _product(dy8, ops.transpose(w8), scale, self.aux["w_scale"], dy.dtype)

    @staticmethod
    def _arranged(weight: np.ndarray, variable: popxl.Variable) -> np.ndarray:
        return weight.T

    def _scale_of(self, t: popxl.Tensor, dtype: popxl.dtype) -> popxl.Tensor:
        """Returns the power of two that a tensor is multiplied by before it is cast."""
        if self.scale_metric == "manual_scale":
            return popxl.constant(self.scale, popxl.int32)
        return (fp8_amax_scale if self.scale_metric == "amax" else fp8_mse_scale)(t, dtype)


def _product(
    lhs: popxl.Tensor,
    rhs: popxl.Tensor,
    lhs_scale: popxl.Tensor,
    rhs_scale: popxl.Tensor,
    dtype: popxl.dtype,
) -> popxl.Tensor:
    """Returns the product of two tensors that were scaled, without their scales."""
    scale = ops.negate(lhs_scale + rhs_scale)
    product = ops.matmul_pow2scaled(lhs, rhs, scale)
    return product if product.dtype is dtype else ops.cast(product, dtype)


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
        draw = initial_values.truncated_normal(x.shape[-1], self.out_features)
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
            draw = initial_values.zeros(self.out_features)
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
        weight = initial_values.array_of(nn_layer.weight, popxl.float32).T
        parts = group_quantize_compress_numpy(weight, group_size, dim)
        types = (popxl.uint16, dtype, dtype)
        values = WeightsDict(
            (variables[name], part.astype(own.as_numpy()))
            for name, part, own in zip(_NAMES, parts, types)
        )
        values.update(initial_values.bias_alone(variables, nn_layer.bias, dtype))
        return values
