"""`compile`: runs a computation on an IPU; the public module `ipu.ipu_compiler`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorflow.python.framework import func_graph as func_graph_lib
from tensorflow.python.framework import ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import control_flow_ops
from tensorflow.python.util import nest

from tensorflow_ipu.compiler import current_scope
from tensorflow_ipu.compiler import launch as launch_lib
from tensorflow_ipu.compiler import trace as trace_lib
from tensorflow_ipu.compiler.hooks import tensorflow_hooks

__all__ = ["compile"]

tensorflow_hooks.install()

_SPEC_CLASSES = frozenset({"EstimatorSpec", "IPUEstimatorSpec", "IPUPipelineEstimatorSpec"})


def compile(computation: Callable[..., Any], inputs: Sequence[Any] | None = None) -> Any:  # noqa: A001
    """Makes one IPU program of a Python function and puts its launch into the graph.

    Call it in an IPU scope (`ipu.scopes.ipu_scope`). Nothing is compiled before the first run that
    needs one of the results.

    Args:
        computation: builds the program. Takes as many positional arguments as there are `inputs`;
            returns tensors (or values that convert to them), then operations, or None. Returned
            operations run whenever the program does.
        inputs: arguments of `computation`. Each entry may be any structure of values that convert
            to tensors: a list of N numbers becomes N scalars.

    Returns:
        The results of the computation, as tensors of the enclosing graph. A single value comes in a
        list. None, or operations alone, become one operation.

    Raises:
        Exception: If the program is not on an IPU device, and has more than no-ops.
        TypeError: If `inputs` is not a list.
        ValueError: If the computation returns an EstimatorSpec, or an operation before a tensor.
    """
    if inputs is not None and not isinstance(inputs, (list, tuple)):
        raise TypeError(
            f"`inputs` of ipu_compiler.compile must be a list. Received: {type(inputs).__name__}"
        )
    structure = list(inputs or [])
    flat_inputs = [ops.convert_to_tensor(value) for value in nest.flatten(structure)]
    results = Results()
    outer = ops.get_default_graph()
    in_scope = current_scope.current_device()

    def build(
        *placeholders: tensor_lib.Tensor,
    ) -> tuple[list[tensor_lib.Tensor], list[ops.Operation]]:
        current_scope.inherit_attributes(ops.get_default_graph(), outer)
        arguments = nest.pack_sequence_as(structure, list(placeholders))
        # Code that asks a tensor for its device learns the device of the program.
        with ops.device(in_scope if current_scope.is_ipu(in_scope) else None):
            return results.take(computation(*arguments))

    cluster = trace_lib.trace(build, flat_inputs, trace_lib.cluster_name(computation))
    arguments = [*flat_inputs, *cluster.graph.external_captures]
    if not current_scope.is_ipu(in_scope) and _has_only_no_ops(cluster.graph):
        return results.give(None)  # nothing that has to be anywhere
    device = _device_of(cluster.graph)
    with ops.device(device):
        return results.give(launch_lib.launch(cluster, arguments, device))


def _device_of(graph: func_graph_lib.FuncGraph) -> str:
    """Returns the device to launch `graph` on: the IPU in scope, or the one its ops name."""
    device = current_scope.current_device()
    if not current_scope.is_ipu(device):
        named = current_scope.ipu_device_of(_all_operations(graph))
        if named is None:
            raise Exception(
                "Tried to compile a computation for the IPU, but it was not placed on an IPU "
                f"device: the device in scope is '{device}'. Call ipu_compiler.compile inside "
                'with ipu.scopes.ipu_scope("/device:IPU:0").'
            )
        device = named
    return device


def _has_only_no_ops(graph: func_graph_lib.FuncGraph) -> bool:
    """Returns whether a computation has no result and computes nothing."""
    inputs = {tensor.op for tensor in graph.inputs}
    made = (operation for operation in graph.get_operations() if operation not in inputs)
    return not graph.outputs and all(operation.type == "NoOp" for operation in made)


def _all_operations(graph: func_graph_lib.FuncGraph) -> list[ops.Operation]:
    operations = list(graph.get_operations())
    for function in graph._functions.values():
        if not hasattr(function, "graph"):  # of the decorator `Defun` of TensorFlow 1
            continue
        operations.extend(_all_operations(function.graph))
    return operations


class Results:
    """The structure of a computation's results, kept from tracing to launching."""

    def __init__(self) -> None:
        self._structure: Any = None
        self._nested = False

    def take(self, results: Any) -> tuple[list[tensor_lib.Tensor], list[ops.Operation]]:
        """Splits the results of a computation into tensors and operations."""
        _refuse_estimator_specs(results)
        if results is None:
            results = []
        elif not nest.is_nested(results):
            results = [results]
        self._nested = _is_nested(results)
        flat = nest.flatten(results)
        # Without repetitions, which TensorFlow refuses among the results of a function.
        operations = list(dict.fromkeys(v for v in flat if isinstance(v, ops.Operation)))
        tensors = [value for value in flat if not isinstance(value, ops.Operation)]
        if self._nested:
            if operations:
                raise ValueError(
                    "A computation that returns a nested structure can only return tensors. "
                    f"Received the operations: {[op.name for op in operations]}"
                )
            self._structure = results
        elif any(isinstance(value, ops.Operation) for value in flat[: len(tensors)]):
            raise ValueError(
                "A computation must return its tensors before its operations. Received: "
                f"{[type(value).__name__ for value in flat]}"
            )
        return [ops.convert_to_tensor(tensor) for tensor in tensors], operations

    def give(self, launched: Any) -> Any:
        """Arranges the results of a launch as the computation returned them."""
        if launched is None or isinstance(launched, ops.Operation):
            dependencies = [] if launched is None else [launched]
            with ops.control_dependencies(dependencies):
                return control_flow_ops.no_op()
        if self._nested:
            return nest.pack_sequence_as(self._structure, list(launched))
        return list(launched)


def _is_nested(results: Any) -> bool:
    """Returns whether results are more than a flat list or tuple."""
    if isinstance(results, dict) or hasattr(results, "_fields"):
        return True
    return any(nest.is_nested(value) for value in results)


def _refuse_estimator_specs(results: Any) -> None:
    if any(cls.__name__ in _SPEC_CLASSES for cls in type(results).__mro__):
        raise ValueError(
            "The computation's result contains an EstimatorSpec. Estimators compile for "
            "themselves: pass the model function to IPUEstimator, not to ipu_compiler.compile."
        )
    if isinstance(results, dict):
        results = results.values()
    if isinstance(results, (list, tuple)) or type(results).__name__ == "dict_values":
        for value in results:
            _refuse_estimator_specs(value)
