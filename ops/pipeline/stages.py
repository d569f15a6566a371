"""The stages of a pipeline in order, each marked with stage, IPU and phase."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import dtypes, ops
from tensorflow.python.ops import array_ops

from tensorflow_ipu.api import scopes
from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.compiler.ir.function_nodes import ALL_IPUS
from tensorflow_ipu.compiler.ir.program import STAGE_ATTRIBUTE
from tensorflow_ipu.feeds import ipu_infeed_queue
from tensorflow_ipu.ops.pipeline.pipeline_arguments import PipelineArguments, Stage, named_ipus


@contextlib.contextmanager
def stage_scope(index: int, ipu: int) -> Iterator[None]:
    """Marks the ops inside as part of stage `index`, on an IPU or on those that they name."""
    mark = attr_value_pb2.AttrValue(i=index)
    graph = ops.get_default_graph()
    place = contextlib.nullcontext() if ipu == ALL_IPUS else scopes.ipu_shard(ipu)
    with place, graph._attr_scope({STAGE_ATTRIBUTE: mark}):
        yield


class StageRunner:
    """Builder of the forward pass of one mini-batch, in the body of the pipeline's loop.

    Attributes:
        homes: Stage and IPU of each variable that a stage uses, by `handle_key`.
        highest_ipu: The highest IPU that ops of stages on all IPUs name.
    """

    def __init__(self, arguments: PipelineArguments) -> None:
        """Makes a runner that has run nothing yet."""
        self._arguments = arguments
        self.homes: dict[int, tuple[int, int]] = {}
        self.highest_ipu = 0

    def run(self) -> Any:
        """Runs all stages on the next mini-batch.

        Returns:
            What the last stage returned: a list of tensors, or a dict, or one value.
        """
        arguments = self._arguments
        with stage_scope(0, arguments.devices[0][0]):
            values, named = _first_inputs(arguments)
        outputs: Any = None
        for index, (members, ipus) in enumerate(zip(arguments.stages, arguments.devices)):
            outputs = self._run_stage(index, members, ipus, values, named)
            values, named = as_arguments(outputs)
        return outputs

    def _run_stage(
        self,
        index: int,
        members: Sequence[Stage],
        ipus: Sequence[int],
        values: list[Any],
        named: Mapping[str, Any],
    ) -> Any:
        results = []
        for member, ipu in zip(members, ipus):
            with stage_scope(index, ipu):
                graph = ops.get_default_graph()
                captured = {id(outer) for outer, _ in graph.captures}
                made = len(graph.get_operations())
                results.append(_as_tensors(tensorflow_hooks.converted(member)(*values, **named)))
            _check_captures(graph, index, captured)
            self._note_variables(graph.get_operations()[made:], index, ipu)
        if len(results) == 1:
            return results[0]
        return [value for result in results for value in as_arguments(result)[0]]

    def _note_variables(self, operations: list[ops.Operation], stage: int, ipu: int) -> None:
        """Notes which stage uses which variable first; it has to stay on one IPU."""
        for op in operations:
            named = named_ipus(op) if ipu == ALL_IPUS else ()
            self.highest_ipu = max(self.highest_ipu, *named, 0)
            for tensor in op.inputs:
                if tensor.dtype == dtypes.resource:
                    self._note_variable(tensor, stage, named[0] if named else ipu)

    def _note_variable(self, handle: Any, stage: int, ipu: int) -> None:
        key = handle_key(handle)
        first, home = self.homes.setdefault(key, (stage, ipu))
        if home == ALL_IPUS:
            self.homes[key] = (first, ipu)
        elif ipu not in (home, ALL_IPUS):
            raise ValueError(
                f"The stages {first} and {stage} of a pipeline use the same variable "
                f"({_variable_name(handle)}) on the IPUs {home} and {ipu}, but an input can only "
                "be used by pipeline stages on the same IPU. Give both the same IPU in "
                "device_mapping."
            )


def _check_captures(graph: Any, stage: int, before: set[int]) -> None:
    """Raises if a stage has captured tensors from outside."""
    for outer, _ in graph.captures:
        if outer.dtype != dtypes.resource and id(outer) not in before:
            name = getattr(outer, "name", None) if ops.is_symbolic_tensor(outer) else repr(outer)
            raise ValueError(
                f"Trying to capture the tensor {name} which is not a resource in stage {stage} of "
                "a pipeline. Pass it as one of the `inputs` of the pipeline and on from stage to "
                "stage, or make it in the stage."
            )


def _first_inputs(arguments: PipelineArguments) -> tuple[list[Any], dict[str, Any]]:
    """Returns the arguments of the first stage: the inputs, then the infeed's element."""
    values: list[Any] = [array_ops.identity(value) for value in arguments.inputs]
    if arguments.infeed_queue is None:
        return values, {}
    element = ipu_infeed_queue.feed_of(arguments.infeed_queue).dequeue()
    members, keywords = ipu_infeed_queue.element_arguments(element)
    return [*values, *members], keywords


def handle_key(handle: Any) -> int:
    """Returns the key of a variable, the same in a graph and in the graphs around it."""
    return id(_outermost(handle))


def _outermost(handle: Any) -> Any:
    """Returns the handle of the outermost graph, or the eager one, behind a captured handle."""
    while ops.is_symbolic_tensor(handle):
        captures = getattr(handle.graph, "captures", ())
        outer = next((outer for outer, inner in captures if inner is handle), None)
        if outer is None:
            break
        handle = outer
    return handle


def _variable_name(handle: Any) -> str:
    """Returns the name of the variable that a handle in a graph is of."""
    outermost = _outermost(handle)
    if ops.is_symbolic_tensor(outermost):
        return str(outermost.op.name)
    # While a graph is being traced, the variables it has met so far are here.
    met = getattr(handle.graph, "_watched_variables", ())
    named = (str(variable.name) for variable in met if variable.handle is outermost)
    return next(named, str(handle.name))


def as_arguments(outputs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Converts the outputs of a stage to positional and keyword arguments of the next."""
    if outputs is None:
        return [], {}
    if isinstance(outputs, dict):
        # Keys of other types, which an infeed may have, are no names of arguments.
        named = all(isinstance(key, str) for key in outputs)
        return ([], outputs) if named else ([outputs], {})
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs], {}


def _as_tensors(outputs: Any) -> Any:
    """Converts the outputs of a stage to tensors in the same structure."""
    if outputs is None:
        return None
    if isinstance(outputs, dict):
        return {key: ops.convert_to_tensor(value) for key, value in outputs.items()}
    if isinstance(outputs, (list, tuple)):
        return [ops.convert_to_tensor(value) for value in outputs]
    return ops.convert_to_tensor(outputs)
