"""Values of layers of PyTorch, which need not be installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.named_tensors import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.utils import WeightsDict


def array_of(parameter: Any, dtype: popxl.dtype) -> np.ndarray:
    """Returns a parameter of PyTorch as an array.

    Args:
        parameter: the parameter: a tensor of PyTorch, or any object with its method `detach`.
        dtype: the type of the array.
    """
    return np.asarray(parameter.detach().numpy()).astype(dtype.as_numpy())


def weight_and_bias(
    variables: NamedTensors, weight: np.ndarray, bias: Any, dtype: popxl.dtype
) -> WeightsDict:
    """Returns the values of the variables `weight` and `bias`.

    Args:
        variables: the variables of a layer, with a bias or without.
        weight: the value of `weight`.
        bias: a parameter of PyTorch, whose elements are those of `bias`; None without a bias.
        dtype: the type of the variables.

    Raises:
        ValueError: If shapes or types do not fit.
    """
    return WeightsDict({variables.weight: weight, **bias_alone(variables, bias, dtype)})


def bias_alone(variables: NamedTensors, bias: Any, dtype: popxl.dtype) -> WeightsDict:
    """Returns the value of the variable `bias`; none if the layer has no such variable.

    Args:
        variables: the variables of a layer, with a bias or without.
        bias: as for `weight_and_bias`.
        dtype: the type of the variables.

    Raises:
        ValueError: If the shape or type does not fit, or there is no value.
    """
    if "bias" not in variables:
        return WeightsDict()
    if bias is None:
        raise ValueError(f"{variables.bias!r} has no value: the layer of PyTorch has no bias.")
    return WeightsDict({variables.bias: array_of(bias, dtype).reshape(variables.bias.shape)})
