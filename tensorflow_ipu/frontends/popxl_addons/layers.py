"""Layers with variables: convolution, embedding, linear layers and normalization."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl_addons import initial_values
from tensorflow_ipu.frontends.popxl_addons.dot_tree import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.initial_values import FromTorch
from tensorflow_ipu.frontends.popxl_addons.module import Module
from tensorflow_ipu.frontends.popxl_addons.ops import tensor_parallel
from tensorflow_ipu.frontends.popxl_addons.ops.compressed_weights import (
    group_quantize_compress_numpy,
    group_quantize_decompress,
)
from tensorflow_ipu.frontends.popxl_addons.ops.float8 import SCALES, fp8_amax_scale, fp8_mse_scale
from tensorflow_ipu.frontends.popxl_addons.utils import WeightsDict

__all__ = [
    "Conv2D",
    "Embedding",
    "GroupNorm",
    "LayerNorm",
    "LayerNormDistributed",
    "Linear",
    "LinearFP8",
    "LinearGQ",
    "MULTISLICE_MAGIC_NUMBER",
]


# The number of rows of a shard is a multiple of this.
MULTISLICE_MAGIC_NUMBER = 16
_METRICS = ("amax", "mse", "manual_scale")
# Gradients vary more from step to step than weights do: their scale leaves room above.
_ROOM = 3
_NAMES = ("weight_compressed", "weight_decompression_scale", "weight_decompression_bias")


class Conv2D(FromTorch, Module):
    """A convolution of images, and a bias for each channel."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        strides: Sequence[int] = (1, 1),
        paddings: Sequence[int] | str = (0, 0, 0, 0),
        dilations: Sequence[int] = (1, 1),
        groups: int = 1,
        bias: bool = True,
        available_memory_proportions: Sequence[float] | None = None,
        partials_types: Sequence[str] | None = None,
        enable_conv_dithering: Sequence[int] | None = None,
        replica_grouping: popxl.ReplicaGrouping | None = None,
    ) -> None:
        """Makes the layer.

        Args:
            out_channels: number of channels of the result.
            kernel_size: height and width of the kernel; one number if they are equal.
            strides: steps of the kernel, in both directions.
            paddings: zeros around images: two numbers for the beginnings and two for the ends; or
                "same_upper", "same_lower" or "valid".
            dilations: distances of the kernel's elements, in both directions.
            groups: number of groups of channels.
            bias: whether there is a bias.
            available_memory_proportions: as for `popxl.ops.conv`.
            partials_types: as for `popxl.ops.conv`.
            enable_conv_dithering: as for `popxl.ops.conv`.
            replica_grouping: which replicas have the same variables.
        """
        super().__init__()
        self.out_channels = out_channels
        sides = kernel_size if isinstance(kernel_size, Iterable) else (kernel_size, kernel_size)
        self.kernel_size = tuple(sides)
        self.strides = strides
        self.pad_type = paddings if isinstance(paddings, str) else "not_set"
        self.paddings = (0, 0, 0, 0) if isinstance(paddings, str) else paddings
        self.dilations = dilations
        self.groups = groups
        self.bias = bias
        self.available_memory_proportions = available_memory_proportions
        self.partials_types = partials_types
        self.enable_conv_dithering = enable_conv_dithering
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Returns the convolution of images.

        Args:
            x: the images, with their channels in axis 1.
        """
        group = self.replica_grouping
        size = (self.out_channels, x.shape[1] // self.groups, *self.kernel_size)
        draw = initial_values.truncated_normal(*size)
        weight = self.add_variable_input("weight", draw, x.dtype, replica_grouping=group)
        y = ops.conv(
            x,
            weight,
            self.strides,
            self.paddings,
            self.dilations,
            self.groups,
            self.pad_type,
            self.available_memory_proportions,
            self.partials_types,
            self.enable_conv_dithering,
        )
        if self.bias:
            draw = initial_values.zeros((1, self.out_channels, 1, 1))
            y = y + self.add_variable_input("bias", draw, x.dtype, replica_grouping=group)
        return y


class Embedding(FromTorch, Module):
    """A table of vectors; with several groups of replicas each group has a part of the rows."""

    def __init__(
        self,
        dtype: popxl.dtype,
        vocab_size: int,
        hidden_size: int,
        axis: int = 0,
        replica_grouping: popxl.ReplicaGrouping | None = None,
    ) -> None:
        """Makes the layer.

        Args:
            dtype: type of the table.
            vocab_size: number of rows, over all shards.
            hidden_size: size of a vector.
            axis: the axis that indices count along.
            replica_grouping: the groups of replicas that have a part each; one by default.
        """
        super().__init__()
        self.dtype = dtype
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.axis = axis
        self.replica_grouping = replica_grouping

    @property
    def n_shards(self) -> int:
        """The number of parts of the table."""
        return 1 if self.replica_grouping is None else self.replica_grouping.num_groups

    def build(self, indices: popxl.Tensor) -> popxl.Tensor:
        """Returns the vectors of indices, and zeros for indices of other parts of the table.

        Args:
            indices: the indices, integers; with several parts, less those in `get_offsets`.
        """
        rows = self.get_vocab_shard_size(self.vocab_size, self.n_shards)
        weight = self.add_variable_input(
            "weight",
            initial_values.truncated_normal(rows, self.hidden_size),
            self.dtype,
            replica_grouping=self.replica_grouping,
        )
        return ops.gather(weight, indices, self.axis, zero_OOR=self.n_shards > 1)

    @staticmethod
    def _arranged(weight: np.ndarray, variable: popxl.Variable) -> np.ndarray:
        # The rows that fill up the last parts of the table are zeros.
        shape = variable.shape_on_host
        rows = np.zeros((math.prod(shape[:-1]), shape[-1]), weight.dtype)
        if weight.shape[1:] != rows.shape[1:] or len(weight) > len(rows):
            raise ValueError(
                f"The table of PyTorch must have at most {len(rows)} rows of {shape[-1]} elements. "
                f"Received: {weight.shape}"
            )
        rows[: len(weight)] = weight
        return rows.reshape(shape)

    @staticmethod
    def get_vocab_shard_size(vocab_size: int, n_shards: int) -> int:
        """Returns the number of rows of each part.

        Args:
            vocab_size: number of rows of the table.
            n_shards: number of parts.
        """
        rows = -(-vocab_size // n_shards)
        return -(-rows // MULTISLICE_MAGIC_NUMBER) * MULTISLICE_MAGIC_NUMBER

    @classmethod
    def get_offsets(cls, vocab_size: int, n_shards: int) -> np.ndarray:
        """Returns the index of the first row of each part, int32: to be subtracted from indices.

        Args:
            vocab_size: number of rows of the table.
            n_shards: number of parts.
        """
        rows = cls.get_vocab_shard_size(vocab_size, n_shards)
        return np.arange(n_shards, dtype=np.int32) * rows


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
            eps: a small number, added to the variance.
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
            eps: a small number, added to the variance.

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
            eps: a small number, added to the variance.

        Raises:
            ValueError: If it is no matrix.
        """
        group = self.replica_grouping or popxl.gir().replica_grouping()
        parts = group.transpose()
        weight, bias = (
            self.add_variable_input(name, draw(x.shape[-1]), x.dtype, replica_grouping=parts)
            for name, draw in (("weight", initial_values.ones), ("bias", initial_values.zeros))
        )
        return tensor_parallel.layer_norm_distributed(x, weight, bias, eps, group)

    @staticmethod
    def _arranged(weight: np.ndarray, variable: popxl.Variable) -> np.ndarray:
        return weight.reshape(variable.shape_on_host)
