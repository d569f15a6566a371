"""Values of layers of PyTorch, which need not be installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.named_tensors import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.utils import WeightsDict


class FromTorch:
    """Mixin for layers with the variables `weight` and `bias`, which PyTorch has, too."""

    @classmethod
    def torch_mapping(
        cls, variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """Returns the values of the same layer of PyTorch for the variables of this layer.

        Args:
            variables: the variables, with a bias or without.
            nn_layer: a layer of `torch.nn`.
            dtype: the type of the variables.

        Raises:
            ValueError: If shapes or types do not fit.
        """
        weight = cls._arranged(array_of(nn_layer.weight, dtype), variables.weight)
        bias = getattr(nn_layer, "bias", None)
        return WeightsDict({variables.weight: weight, **bias_alone(variables, bias, dtype)})

    @staticmethod
    def _arranged(weight: np.ndarray, variable: popxl.Variable) -> np.ndarray:
        """Returns the weight of PyTorch with its axes and elements in the variable's order.

        Args:
            weight: the weight of PyTorch.
            variable: the variable `weight` of the layer.
        """
        del variable
        return weight


def array_of(parameter: Any, dtype: popxl.dtype) -> np.ndarray:
    """Returns a parameter of PyTorch as an array.

    Args:
        parameter: the parameter: a tensor of PyTorch, or any object with its method `detach`.
        dtype: the type of the array.
    """
    return np.asarray(parameter.detach().numpy()).astype(dtype.as_numpy())


def bias_alone(variables: NamedTensors, bias: Any, dtype: popxl.dtype) -> WeightsDict:
    """Returns the value of the variable `bias`; none if the layer has no such variable.

    Args:
        variables: the variables of a layer, with a bias or without.
        bias: a parameter of PyTorch, whose elements are those of `bias`; None without a bias.
        dtype: the type of the variables.

    Raises:
        ValueError: If the shape or type does not fit, or there is no value.
    """
    if "bias" not in variables:
        return WeightsDict()
    if bias is None:
        raise ValueError(f"{variables.bias!r} has no value: the layer of PyTorch has no bias.")
    shape = variables.bias.shape_on_host
    return WeightsDict({variables.bias: array_of(bias, dtype).reshape(shape)})
