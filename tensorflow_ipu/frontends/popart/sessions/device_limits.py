"""Types and sizes that the device lacks, found when a program is prepared."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.frontends.popart.enums import DataType
from tensorflow_ipu.frontends.popart.errors import poplar_exception
from tensorflow_ipu.frontends.popart.lowering import nodes
from tensorflow_ipu.frontends.popart.lowering.places import placed_nodes
from tensorflow_ipu.frontends.popart.lowering.schedules import Schedule
from tensorflow_ipu.frontends.popart.model.imports import Model
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo

# Ops that compute with numbers: the device has no code of them for INT8, which it only moves,
# compares (Max, Min), takes remainders of and casts.
_ARITHMETIC = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Pow", "Sum", "Mean", "Abs", "Neg"),
        *("Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Softmax", "MatMul", "Gemm", "Conv"),
        *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare"),
        *("MaxPool", "AveragePool", "CumSum", "Scale", "ScaledAdd", "Sign", "Floor", "Ceil"),
    }
)


def check_types(model: Model, infos: Mapping[str, TensorInfo]) -> None:
    """Refuses arithmetic with INT8.

    Args:
        model: the model.
        infos: shape and type of each tensor.

    Raises:
        poplar_exception: If there is some.
    """
    for node in placed_nodes(model):
        if node.op_type not in _ARITHMETIC:
            continue
        for name in node.input:
            if name in infos and infos[name].dataType() is DataType.INT8:
                error = poplar_exception(
                    f"{node.op_type} does not compute with INT8, which its input {name} has. Cast "
                    "it first."
                )
                nodes.add_note(error, node)
                raise error


def check_sizes(infos: Mapping[str, TensorInfo], schedule: Schedule, chip: Chip) -> None:
    """Refuses tensors that are larger than the memory of an IPU.

    Args:
        infos: shape and type of each tensor.
        schedule: which memory variables are in.
        chip: the chip of the device.

    Raises:
        tf.errors.ResourceExhaustedError: If there is one.
    """
    for name, info in infos.items():
        location = schedule.locations.get(name)
        is_elsewhere = location is not None and (location.is_remote or location.split > 1)
        if info.nbytes() > chip.memory and not is_elsewhere:
            raise tf.errors.ResourceExhaustedError(
                None,
                None,
                f"Out of memory: the tensor {name}, {info.data_type()} {info.shape()}, takes "
                f"{info.nbytes():,} bytes, and an IPU of {chip.tiles} tiles has {chip.memory:,} "
                "bytes. Take a device with more tiles, a smaller tensor, or keep weights off the "
                "chip with weightTensorLocationSettings.",
            )
