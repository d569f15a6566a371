"""Derivation of an op's gradient from TensorFlow's gradient of its computation.

The gradient is traced once, in a graph of its own, with placeholders for all that it could read.
What it does read is known then, and only that part of the trace is put into programs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.dtypes import tf_type
from tensorflow_ipu.frontends.popxl.ir import Op


@dataclasses.dataclass(frozen=True)
class Derivation:
    """The gradient of an op.

    Attributes:
        inputs: Positions of the op's inputs that it reads.
        outputs: Positions of the op's outputs that it reads.
        provided: Positions of the outputs whose gradients it takes.
        results: Positions of the inputs whose gradients it returns.
        specs: Specs of these gradients.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    provided: tuple[int, ...]
    results: tuple[int, ...]
    specs: tuple[TensorSpec, ...]
    _definition: graph_pb2.GraphDef = dataclasses.field(repr=False)
    _parameters: tuple[str, ...] = dataclasses.field(repr=False)
    _returned: tuple[str, ...] = dataclasses.field(repr=False)

    def build(self, values: Sequence[Any]) -> list[Any]:
        """Puts the gradient into the function in scope.

        Args:
            values: the inputs that it reads, the outputs that it reads, and the gradients.

        Returns:
            The gradients of the inputs in `results`.
        """
        scopes = tf.compat.v1.get_default_graph()._attr_scope_map
        definition = self._definition
        if scopes:
            definition = graph_pb2.GraphDef()
            definition.CopyFrom(self._definition)
            for node in definition.node:
                for name, value in scopes.items():
                    node.attr[name].CopyFrom(value)
        return list(
            tf.graph_util.import_graph_def(
                definition,
                dict(zip(self._parameters, values)),
                list(self._returned),
                name="gradient",
            )
        )


def derive(op: Op, provided: Sequence[int], wanted: Sequence[int]) -> Derivation | None:
    """Derives the gradient of an op.

    Args:
        op: the op.
        provided: positions of the outputs whose gradients there are.
        wanted: positions of the inputs whose gradients are asked for.

    Returns:
        The gradient; None if no input that is asked for has one.
    """
    with tf.Graph().as_default() as graph:
        inputs = [_placeholder(tensor.spec) for tensor in op.inputs]
        gradients = {position: _placeholder(op.outputs[position].spec) for position in provided}
        dtype = gradients[provided[0]].dtype
        if dtype.is_integer:
            outputs, found = [], _of_integers(op, inputs, gradients, wanted, dtype)
        else:
            outputs = _compute(op, inputs)
            floats = [i for i in wanted if inputs[i].dtype.is_floating]
            found = _gradients(op.kind, op.attributes, inputs, outputs, gradients, floats)
    if not found:
        return None
    known = {
        **{tensor.ref(): ("gradient", i) for i, tensor in gradients.items()},
        **{tensor.ref(): ("input", i) for i, tensor in enumerate(inputs)},
        **{tensor.ref(): ("output", i) for i, tensor in enumerate(outputs)},
    }
    # An output that is an input unchanged is read as the input.
    known.update({tensor.ref(): ("input", i) for i, tensor in enumerate(inputs)})
    returned = {position: _identity(graph, tensor) for position, tensor in found.items()}
    operations, read = _needed(list(returned.values()), set(known))
    reads = {known[tensor.ref()]: tensor for tensor in read}
    order = sorted(key for key in reads if key[0] == "input")
    order += sorted(key for key in reads if key[0] == "output")
    parameters = [reads[key] for key in order] + [gradients[i] for i in provided]
    return Derivation(
        inputs=tuple(i for role, i in order if role == "input"),
        outputs=tuple(i for role, i in order if role == "output"),
        provided=tuple(provided),
        results=tuple(returned),
        specs=tuple(op.inputs[position].spec for position in returned),
        _definition=_definition(graph, operations, op.outputs[provided[0]].spec),
        _parameters=tuple(tensor.name for tensor in parameters),
        _returned=tuple(tensor.name for tensor in returned.values()),
    )


def _of_integers(
    op: Op,
    inputs: list[Any],
    gradients: Mapping[int, Any],
    wanted: Sequence[int],
    dtype: tf.DType,
) -> dict[int, Any]:
    """Returns the gradients of inputs of an op of integers by position.

    TensorFlow differentiates floats only. So the gradient is that for floats of 64 bits, which
    `_definition` makes one of integers. An op that does not take such floats has no gradient.
    """
    wide = [tf.cast(t, tf.float64) if t.dtype == dtype else t for t in inputs]
    try:
        outputs = _compute(op, wide)
    except (TypeError, ValueError, tf.errors.InvalidArgumentError):
        return {}
    whole = {i: tf.cast(gradient, tf.float64) for i, gradient in gradients.items()}
    positions = [i for i in wanted if wide[i].dtype == tf.float64]
    found = _gradients(op.kind, op.attributes, wide, outputs, whole, positions)
    return {position: tf.cast(tensor, dtype) for position, tensor in found.items()}


def _placeholder(spec: TensorSpec) -> Any:
    return tf.compat.v1.placeholder(tf_type(spec.dtype), spec.shape)


def _identity(graph: tf.Graph, tensor: Any) -> Any:
    """Returns a copy of a tensor in its graph: a result may be one of the placeholders.

    Args:
        graph: the graph.
        tensor: the tensor.
    """
    with graph.as_default():
        return tf.identity(tensor)


def _compute(op: Op, inputs: list[Any]) -> list[Any]:
    """Returns the outputs of an op in the graph in scope."""
    kind = op.kind
    if kind.compute is None:
        raise AssertionError(f"{op!r} has no `compute` to derive a gradient from.")
    results = kind.compute(*inputs, **op.attributes)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    first = op.outputs[0]
    if first.view is not None:
        results.insert(0, first.view.read([inputs[i] for i in first.view.of(len(inputs))]))
    return results


def _gradients(
    kind: OpKind,
    attributes: Mapping[str, Any],
    inputs: list[Any],
    outputs: list[Any],
    gradients: Mapping[int, Any],
    wanted: Sequence[int],
) -> dict[int, Any]:
    """Returns the gradients of inputs by position, of those that have one."""
    if isinstance(kind.gradient, GradientRule):
        positions = list(gradients)
        found = tf.gradients(
            [outputs[position] for position in positions],
            [inputs[position] for position in wanted],
            [gradients[position] for position in positions],
        )
        by_position = dict(zip(wanted, found))
    else:
        whole = [gradients.get(i, tf.zeros_like(output)) for i, output in enumerate(outputs)]
        found = kind.gradient(inputs, outputs, whole, **attributes)
        by_position = {position: found[position] for position in wanted}
    return {
        # The gradient of a gather has only some of the rows.
        position: tf.convert_to_tensor(tensor)
        for position, tensor in by_position.items()
        if tensor is not None
    }


def _needed(results: list[Any], stops: set[Any]) -> tuple[set[Any], list[Any]]:
    """Returns the operations that results need, and the tensors of `stops` that these read."""
    operations: set[Any] = set()
    read: dict[Any, Any] = {}
    pending = list(results)
    while pending:
        tensor = pending.pop()
        if tensor.ref() in stops:
            read[tensor.ref()] = tensor
        elif tensor.op not in operations:
            operations.add(tensor.op)
            pending.extend(tensor.op.inputs)
    return operations, list(read.values())


def _definition(graph: tf.Graph, operations: set[Any], gradient: TensorSpec) -> graph_pb2.GraphDef:
    """Returns a part of a graph, without dependencies on the rest.

    Args:
        graph: the graph.
        operations: the part.
        gradient: the spec of a gradient. For one of integers, those stand for floats of 64 bits.
    """
    whole = graph.as_graph_def(add_shapes=True)
    names = {operation.name for operation in operations}
    part = graph_pb2.GraphDef(versions=whole.versions, library=whole.library)
    for node in whole.node:
        if node.name in names:
            kept = part.node.add()
            kept.CopyFrom(node)
            kept.attr.pop("_class", None)  # what it is to be beside may be left out
            controls = [i for i in node.input if i.startswith("^") and i[1:] not in names]
            for control in controls:
                kept.input.remove(control)
            if gradient.dtype.is_int:
                _make_integer(kept, tf_type(gradient.dtype))
    return part


def _make_integer(node: Any, dtype: tf.DType) -> None:
    """Gives a node a type of integers instead of floats of 64 bits."""
    for value in node.attr.values():
        if value.type == tf.float64.as_datatype_enum:
            value.type = dtype.as_datatype_enum
        for i, listed in enumerate(value.list.type):
            if listed == tf.float64.as_datatype_enum:
                value.list.type[i] = dtype.as_datatype_enum
        if value.HasField("tensor") and value.tensor.dtype == tf.float64.as_datatype_enum:
            array = tf.make_ndarray(value.tensor).astype(dtype.as_numpy_dtype)
            value.tensor.CopyFrom(tf.make_tensor_proto(array, dtype, array.shape))
