"""Capture of gradients in the middle of a model: the public module `ipu.grad_util_ops`.

with ipu.eager.backprop.GradientCaptureTape() as tape:
    hidden = grad_util_ops.capture_upstream_gradients(layer(x), tag="hidden")
    loss = head(hidden)
gradients = tape.gradient(loss, weights)
tape.captured_gradients["hidden"]  # [the derivative of the loss by `hidden`]
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.function import trace_type
from tensorflow.python.framework import func_graph as func_graph_lib
from tensorflow.python.framework import ops, tensor_spec
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import gen_resource_variable_ops, handle_data_util
from tensorflow.python.saved_model import save_context

from tensorflow_ipu.api.eager import backprop
from tensorflow_ipu.api.eager.backprop import GradientCaptureContext

__all__ = ["GradientCaptureContext", "capture_upstream_gradients"]
# The gradient of a call of a function is computed by a function of its own, whose tensors the
# caller cannot use. What comes out of it are gradients of the arguments. So a point in an outlined
# function has *carriers*: further arguments, zeros that nobody reads, whose gradients are those
# that are captured. In the graph of the caller there is another point where the carriers come from.
# On the graph of an outlined function: its `_Call`.
_CALL = "_ipu_outlined_call"


@dataclasses.dataclass
class _Call:
    """The call that an outlined function is traced for.

    Attributes:
        inputs: What the call is given.
        traced: Whether the function is complete.
    """

    inputs: list[Any]
    traced: bool = False


class Point:
    """A place in a graph, or in eager code, where gradients are captured.

    Attributes:
        carriers: Arguments of the outlined function that is being traced, if there is one.
    """

    def __init__(self, tag: str, tensors: Sequence[Any]) -> None:
        """Makes a point in the graph being built.

        Args:
            tag: name of the gradients.
            tensors: tensors with the types and shapes of the gradients.
        """
        self._tag = tag
        self._opened = backprop.current()
        self._graph = ops.get_default_graph()
        static = all(tensor.shape.is_fully_defined() for tensor in tensors)
        specs = [tensor_spec.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]
        self.carriers: list[Any] = []
        if hasattr(self._graph, _CALL) and static:
            self.carriers = _new_carriers(self._graph, tag, specs)

    def came_back(self, gradients: list[Any]) -> list[Any]:
        """Records gradients, or hands them on to the caller.

        Args:
            gradients: gradients that reached this point.

        Returns:
            The gradients of the carriers.

        Raises:
            RuntimeError: If there is no context to record them in.
        """
        if self.carriers and getattr(self._graph, _CALL).traced:
            return gradients
        if save_context.in_save_context():
            # A SavedModel has the gradients of custom ones; nobody computes any now.
            return [None] * len(self.carriers)
        context = backprop.current() or self._opened
        if context is None:
            raise RuntimeError(
                "capture_upstream_gradients may only be used within the context of a "
                "GradientCaptureContext or GradientCaptureTape of ipu.eager.backprop. Compute the "
                "gradients with such a tape, or in such a context. Received gradients with the tag "
                f"'{self._tag}'."
            )
        context.add_gradients(gradients, self._tag)
        return [None] * len(self.carriers)


def _new_carriers(
    graph: func_graph_lib.FuncGraph, tag: str, specs: list[tensor_spec.TensorSpec]
) -> list[Any]:
    """Returns further arguments of a function; each call of it makes zeros for them."""
    carriers = []
    made: dict[int, list[Any]] = {}
    for index, spec in enumerate(specs):

        def carrier_at_call(index: int = index) -> Any:
            # The first of a point's carriers makes those of all.
            if index == 0:
                made[0] = _in_caller(graph, tag, specs)
            return made[0][index]

        carrier_at_call.output_spec = spec  # type: ignore[attr-defined]
        placeholder = spec.placeholder_value(trace_type.InternalPlaceholderContext(graph))
        graph._function_captures.add_or_replace(
            f"ipu_carrier_{ops.uid()}", carrier_at_call, placeholder, spec, is_by_ref=True
        )
        carriers.append(placeholder)
    return carriers


def _in_caller(
    graph: func_graph_lib.FuncGraph, tag: str, specs: list[tensor_spec.TensorSpec]
) -> list[Any]:
    """Makes the point in the graph of the caller that the carriers of a call come from."""
    zeros = [tf.zeros(spec.shape, spec.dtype) for spec in specs]
    point = Point(tag, zeros)
    reached = _differentiable(graph)

    @tf.custom_gradient
    def carried(*arguments: tf.Tensor) -> tuple[list[tf.Tensor], Any]:
        def gradient(*upstream: tf.Tensor) -> list[Any]:
            gradients = [tf.convert_to_tensor(value) for value in upstream]
            return [*([None] * len(reached)), *point.came_back(gradients)]

        del arguments
        return [tf.identity(zero) for zero in zeros], gradient

    # Nothing is computed of what the call is given, but gradients only go where it leads.
    return list(tf.nest.flatten(carried(*reached, *point.carriers)))


def _differentiable(graph: func_graph_lib.FuncGraph) -> list[tensor_lib.Tensor]:
    """Returns the tensors and variables of the caller that a function's results depend on."""
    caller = ops.get_default_graph()
    found = []
    for value in [*getattr(graph, _CALL).inputs, *map(caller.capture, graph.external_captures)]:
        if value.dtype == tf.resource:
            data = handle_data_util.get_resource_handle_data(value)
            if not data.is_set or not tf.dtypes.as_dtype(data.shape_and_type[0].dtype).is_floating:
                continue
            value = gen_resource_variable_ops.read_variable_op(
                value, tf.dtypes.as_dtype(data.shape_and_type[0].dtype)
            )
        if value.dtype.is_floating:
            found.append(value)
    return found


@contextlib.contextmanager
def outlined(graph: ops.Graph, inputs: Sequence[Any]) -> Iterator[dict[str, list[Any]]]:
    """Traces an outlined function with its captured gradients as results; a context.

    Args:
        graph: the graph of the function.
        inputs: the inputs of its call.

    Yields:
        A dict for the gradients that the function itself computes and captures, by tag, filled
        at the end: tensors of `graph`.
    """
    call = _Call(list(inputs))
    setattr(graph, _CALL, call)
    found: dict[str, list[Any]] = {}
    around = backprop.current()
    if around is None:
        yield found
        call.traced = True
        return
    with backprop.GradientCaptureContext() as inside:
        yield found
    call.traced = True
    for tag, gradients in inside.captured_gradients.items():
        if all(gradient.graph is graph for gradient in gradients):
            found[tag] = gradients
        else:  # in a loop or branch, where they stay
            around.add_gradients(gradients, tag)


def come_out(found: dict[str, list[Any]], outputs: list[Any]) -> None:
    """Records the gradients captured in a call of an outlined function.

    Args:
        found: the value of `outlined`.
        outputs: the same tensors as results of the call, one after the other.
    """
    context = backprop.current()
    following = iter(outputs)
    for tag, gradients in found.items():
        taken = [next(following) for _ in gradients]
        if context is not None:
            context.add_gradients(taken, tag)


def capture_upstream_gradients(args: Any, tag: str = "") -> Any:
    """Returns its argument, and records the gradients that come back through it.

    They are recorded in a context or tape of `ipu.eager.backprop`. Computing gradients needs one;
    without gradients, as in inference, there need be none.

    Args:
        args: a tensor or a structure of tensors.
        tag: name of the gradients in the context, where nothing else has that name.

    Returns:
        A structure like `args`, to be used in place of it.

    Raises:
        TypeError: If `tag` is not a string.
        RuntimeError: When gradients are computed, if there is no context or tape.
        ValueError: When gradients are computed, if the context has some with this tag.
    """
    if not isinstance(tag, str):
        raise TypeError(f"The tag of captured gradients must be a string. Received: tag={tag!r}")
    flat = [tf.convert_to_tensor(value) for value in tf.nest.flatten(args)]
    if not flat:
        return args
    point = Point(tag, flat)

    @tf.custom_gradient
    def captured(*arguments: tf.Tensor) -> tuple[list[tf.Tensor], Any]:
        def gradient(*upstream: tf.Tensor) -> list[Any]:
            gradients = [tf.convert_to_tensor(value) for value in upstream]
            return [*gradients, *point.came_back(gradients)]

        return [tf.identity(tensor) for tensor in arguments[: len(flat)]], gradient

    return tf.nest.pack_sequence_as(args, tf.nest.flatten(captured(*flat, *point.carriers)))
