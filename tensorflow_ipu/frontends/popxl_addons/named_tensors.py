"""`NamedTensors`: tensors by name; the module `popxl_addons.named_tensors`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.dot_tree import DotTree

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["NamedTensorData", "NamedTensors", "TensorMap", "print_named_tensors"]

TensorMap = Mapping[popxl.Tensor, popxl.Tensor]


class NamedTensors(DotTree[popxl.Tensor]):
    """Tensors by name."""

    @property
    def tensors(self) -> tuple[popxl.Tensor, ...]:
        """All tensors, in the order of their own names."""
        return tuple(sorted(self.values_flat(), key=lambda tensor: tensor.name))

    @property
    def named_tensors(self) -> dict[str, popxl.Tensor]:
        """All tensors by their names with dots."""
        return self.to_dict()

    def remap(self, mapping: Mapping[popxl.Tensor, Any]) -> Self:
        """Returns a tree of the same names with other tensors.

        Args:
            mapping: the new tensor for each one.

        Raises:
            KeyError: If a tensor is not in the mapping.
        """
        return self.map(lambda tensor: mapping[tensor])


class NamedTensorData(DotTree[np.ndarray]):
    """Arrays by name: the values of tensors."""


def print_named_tensors(named_tensors: NamedTensors) -> None:
    """Prints tensors each time that the program passes here, with their names as titles.

    Args:
        named_tensors: tensors of the current graph.
    """
    for name, tensor in named_tensors.to_dict().items():
        popxl.ops.print_tensor(tensor, title=name)
