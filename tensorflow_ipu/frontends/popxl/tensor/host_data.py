"""Data of the host that tensors are made of."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from tensorflow_ipu.frontends.popxl import dtypes
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.graph import Graph
    from tensorflow_ipu.frontends.popxl.tensor.tensors import Tensor


ScalarType = Union[int, float, bool]
HostTensor = Union[np.ndarray, Iterable[ScalarType]]
HostScalarTensor = Union[ScalarType, HostTensor]


def host_tensor_types() -> tuple[type, ...]:
    """Returns the classes of data of the host, for `isinstance`; torch's too if it is installed."""
    found: tuple[type, ...] = (np.ndarray, Iterable)
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return found
    return (*found, torch.Tensor)


def add_tensor(
    graph: Graph,
    cls: type[Tensor],
    array: np.ndarray,
    name: str | None,
    shape: tuple[int, ...] | None = None,
) -> Any:
    """Adds a tensor with data of the host to a graph.

    Args:
        graph: the graph.
        cls: `Variable` or `Constant`.
        array: the data.
        name: name of the tensor.
        shape: its shape; that of the data by default.

    Returns:
        The tensor.
    """
    shape = array.shape if shape is None else shape
    spec = TensorSpec(shape, dtypes.dtype.as_dtype(array.dtype))
    tensor: Any = cls.create(graph, graph.new_id(name), spec)
    tensor.data = array
    return graph.add_tensor(tensor)
