"""Initial values of variables: drawn by NumPy, or taken from PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.common import abstract_arrays
from tensorflow_ipu.frontends.popxl_addons.dot_tree import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.utils import WeightsDict

# The scale of the distribution, and where it is cut off, in units of that.
_SCALE, _CUT = 0.02, 2.0


def truncated_normal(*size: int) -> Callable[[], np.ndarray]:
    """Returns a function that draws from a normal distribution without its tails.

    The numbers are quantiles of uniform ones from NumPy's global generator, so `numpy.random.seed`
    makes them repeat.

    Args:
        *size: the shape of what the function returns, an array of float32.
    """

    def draw() -> np.ndarray:
        if abstract_arrays.plans_only():
            return abstract_arrays.make(size, np.float32)
        below = math.erfc(_CUT / math.sqrt(2)) / 2  # the part of the distribution in each tail
        uniform = np.random.uniform(below, 1 - below, size)
        with tf.init_scope(), tf.device("CPU:0"):
            normal = tf.math.ndtri(tf.constant(uniform, tf.float64)).numpy()
        return (normal * _SCALE).astype(np.float32)

    return draw


def zeros(shape: Sequence[int] | int) -> Callable[[], np.ndarray]:
    """Returns a function that returns zeros of float32."""
    return lambda: _filled(np.zeros, shape)


def ones(shape: Sequence[int] | int) -> Callable[[], np.ndarray]:
    """Returns a function that returns ones of float32."""
    return lambda: _filled(np.ones, shape)


def _filled(fill: Callable[..., np.ndarray], shape: Sequence[int] | int) -> np.ndarray:
    """Returns an array of zeros or ones of float32, an abstract one if only a plan is wanted."""
    if abstract_arrays.plans_only():
        return abstract_arrays.make((shape,) if isinstance(shape, int) else shape, np.float32)
    return fill(shape, np.float32)


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
