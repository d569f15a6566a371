"""Convolutions with a weight, and a bias."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl_addons.core import initial
from tensorflow_ipu.frontends.popxl_addons.module import Module

__all__ = ["Conv2D"]


class Conv2D(Module):
    """A convolution of images, and a bias for each channel."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Sequence[int],
        strides: Sequence[int] = (1, 1),
        paddings: Sequence[int] | str = (0, 0, 0, 0),
        dilations: Sequence[int] = (1, 1),
        groups: int = 1,
        bias: bool = True,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        cache: bool = False,
    ) -> None:
        """Makes the layer.

        Args:
            out_channels: number of channels of the result.
            kernel_size: height and width of the kernel.
            strides: steps of the kernel, in both directions.
            paddings: zeros around images: two numbers for the beginnings and two for the ends; or
                a `pad_type` of `popxl.ops.conv`.
            dilations: distances of the kernel's elements, in both directions.
            groups: number of groups of channels.
            bias: whether there is a bias.
            replica_grouping: which replicas have the same variables.
            cache: as for `Module`.
        """
        super().__init__(cache=cache)
        self.out_channels = out_channels
        self.kernel_size = tuple(kernel_size)
        self.strides = strides
        self.pad_type = paddings if isinstance(paddings, str) else "not_set"
        self.paddings = (0, 0, 0, 0) if isinstance(paddings, str) else paddings
        self.dilations = dilations
        self.groups = groups
        self.bias = bias
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Returns the convolution of images.

        Args:
            x: the images, with their channels in axis 1.
        """
        group = self.replica_grouping
        size = (self.out_channels, x.shape[1] // self.groups, *self.kernel_size)
        draw = initial.truncated_normal(*size)
        weight = self.add_variable_input("weight", draw, x.dtype, replica_grouping=group)
        y = ops.conv(
            x, weight, self.strides, self.paddings, self.dilations, self.groups, self.pad_type
        )
        if self.bias:
            draw = initial.zeros((1, self.out_channels, 1, 1))
            y = y + self.add_variable_input("bias", draw, x.dtype, replica_grouping=group)
        return y
