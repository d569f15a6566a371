"""Tensors, and what makes those that no op makes: the module `popxl.tensor`."""

from typing import Any

from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.tensor import host_data
from tensorflow_ipu.frontends.popxl.tensor.constants import Constant, as_tensor, constant
from tensorflow_ipu.frontends.popxl.tensor.graph_inputs import (
    TensorByRef,
    graph_input,
    graph_output,
)
from tensorflow_ipu.frontends.popxl.tensor.host_data import HostScalarTensor, HostTensor, ScalarType
from tensorflow_ipu.frontends.popxl.tensor.tensors import Tensor, TensorLike
from tensorflow_ipu.frontends.popxl.tensor.variables import Variable, variable

__all__ = [
    "Constant",
    "HostScalarTensor",
    "HostTensor",
    "ScalarType",
    "Tensor",
    "TensorByRef",
    "TensorLike",
    "TensorSpec",
    "Variable",
    "constant",
    "graph_input",
    "graph_output",
    "variable",
]


def __getattr__(name: str) -> Any:
    # Importing torch takes seconds, so only who asks for its class waits for it.
    if name == "host_tensor_types":
        return host_data.host_tensor_types()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
