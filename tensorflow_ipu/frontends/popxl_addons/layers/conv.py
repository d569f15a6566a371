"""Convolutions with a weight, and a bias."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl_addons import initial_values
from tensorflow_ipu.frontends.popxl_addons.initial_values import FromTorch
from tensorflow_ipu.frontends.popxl_addons.module import Module

__all__ = ["Conv2D"]


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
