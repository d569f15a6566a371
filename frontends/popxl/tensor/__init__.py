"""Tensors, and what makes those that no op makes: the module `popxl.tensor`."""

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
    "Variable",
    "constant",
    "graph_input",
    "graph_output",
    "variable",
]
