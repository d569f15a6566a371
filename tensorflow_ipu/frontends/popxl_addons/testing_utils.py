"""Runs modules by themselves; the module `popxl_addons.testing_utils`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.dot_tree import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.module import Module
from tensorflow_ipu.frontends.popxl_addons.ops.streams import host_load, host_store

__all__ = ["TensorInput", "ops_of_type", "run_module"]

Weights = Callable[[NamedTensors], Any]


class TensorInput:
    """An argument of a module that is a tensor.

    Attributes:
        data: Its value.
        dtype: Type of its elements.
    """

    def __init__(self, data: Any, dtype: popxl.dtype | None = None) -> None:
        """Marks a value.

        Args:
            data: an array or number.
            dtype: type of the elements; that of the data by default.
        """
        self.data = popxl.utils.to_numpy(data, dtype)
        self.dtype = popxl.dtype.as_dtype(self.data.dtype if dtype is None else dtype)

    def __repr__(self) -> str:
        return f"TensorInput[{self.dtype} {self.data.shape}]"


def ops_of_type(ops: Iterable[Any], op_type: type | tuple[type, ...]) -> int:
    """Returns how many ops are instances of a type.

    Args:
        ops: the ops.
        op_type: the type, or several.
    """
    return sum(isinstance(op, op_type) for op in ops)


def run_module(
    module: Module, *args: Any, weights: Weights | None = None, **kwargs: Any
) -> list[np.ndarray]:
    """Builds a module, runs it once, and returns its outputs.

    Args:
        module: the module.
        *args: the arguments of `build`: `TensorInput` for tensors, other values as they are.
        weights: takes the variables; returns their values, by variable.
        **kwargs: the same by name.
    """
    ir = popxl.Ir()
    inputs: dict[Any, np.ndarray] = {}

    def passed(name: str, value: Any) -> Any:
        if not isinstance(value, TensorInput):
            return value
        data, stream, tensor = host_load(value.data, value.dtype, name)
        inputs[stream] = data
        return tensor

    with ir.main_graph:
        positional = [passed(f"arg_{i}", value) for i, value in enumerate(args)]
        named = {name: passed(name, value) for name, value in kwargs.items()}
        factories, graph = module.create_graph(*positional, **named)
        variables = factories.init()
        values = [*positional, *named.values()]
        tensors = [value for value in values if isinstance(value, popxl.Tensor)]
        streams = [host_store(output) for output in graph.bind(variables).call(*tensors)]
    session = popxl.Session(ir, "ipu_hw")
    if weights is not None:
        session.write_variables_data(weights(variables))
    with session:
        results = session.run(inputs)
    return [results[stream] for stream in streams]
