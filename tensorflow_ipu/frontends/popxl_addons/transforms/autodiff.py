"""Gradient graphs: with accumulation of gradients, and with recomputation of activations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.ops import var_updates
from tensorflow_ipu.frontends.popxl.transforms import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
)
from tensorflow_ipu.frontends.popxl_addons.dot_tree import NamedTensors, sanitise
from tensorflow_ipu.frontends.popxl_addons.graph import (
    CalledGraphsGradInfoLike,
    GraphLike,
    GraphWithNamedArgs,
)
from tensorflow_ipu.frontends.popxl_addons.named_replica_grouping import NamedReplicaGrouping
from tensorflow_ipu.frontends.popxl_addons.rts import shards_of
from tensorflow_ipu.frontends.popxl_addons.variable_factory import (
    NamedVariableFactories,
    VariableFactory,
    add_replica_sharded_variable_input,
    add_variable_input,
)

__all__ = [
    "add_recompute_inputs",
    "autodiff",
    "autodiff_with_accumulation",
    "recompute_graph",
    "remap_grad_info",
]


_COUNTER = "mean_accum_counter"
_FWD, _GRAD = ExpectedConnectionType.Fwd, ExpectedConnectionType.FwdGrad
Tensors = dict[popxl.Tensor, popxl.Tensor]


def _named(graph: GraphLike) -> GraphWithNamedArgs:
    return GraphWithNamedArgs(graph) if isinstance(graph, popxl.Graph) else graph


def autodiff(
    graph: GraphLike,
    grads_provided: Sequence[popxl.Tensor] | None = None,
    grads_required: Sequence[popxl.Tensor] | None = None,
    called_graphs_grad_info: CalledGraphsGradInfoLike | None = None,
) -> GraphWithNamedArgs:
    """Makes the gradient graph of a graph, and of all graphs that it calls.

    Args:
        graph: the graph.
        grads_provided: tensors whose gradients are passed in; the outputs by default.
        grads_required: tensors whose gradients are returned; the inputs by default.
        called_graphs_grad_info: gradient graphs of graphs that it calls.

    Returns:
        The gradient graph; its `grad_graph_info` says what its inputs and outputs stand for.

    Raises:
        popart.popart_exception: As `popxl.transforms.autodiff` does.
    """
    return _named(graph).autodiff(
        grads_provided, grads_required, called_graphs_grad_info, force=True
    )


def autodiff_with_accumulation(
    graph: GraphLike,
    tensors_to_accumulate_grads: Iterable[popxl.Tensor],
    grads_provided: Sequence[popxl.Tensor] | None = None,
    grads_required: Sequence[popxl.Tensor] | None = None,
    called_graphs_grad_info: CalledGraphsGradInfoLike | None = None,
    replica_groupings: NamedReplicaGrouping | None = None,
) -> tuple[NamedVariableFactories, GraphWithNamedArgs]:
    """Makes a gradient graph that keeps the mean of gradients over its calls.

    Its variables are `mean_accum_counter`, the number of calls, and an accumulator with the mean
    for each tensor: `accum` and its name. When the counter is zero the next call overwrites them.

    Args:
        graph: the graph.
        tensors_to_accumulate_grads: tensors whose gradients are accumulated, and not returned.
        grads_provided: tensors whose gradients are passed in; the outputs by default.
        grads_required: tensors whose gradients are returned; none by default.
        called_graphs_grad_info: gradient graphs of graphs that it calls.
        replica_groupings: which replicas have the same accumulators, by name of the tensors.

    Returns:
        A factory for each variable, and the gradient graph.

    Raises:
        popart.popart_exception: As `popxl.transforms.autodiff` does.
    """
    named = _named(graph)
    names = {tensor: name for name, tensor in named.args.to_dict().items()}
    accumulated = list(tensors_to_accumulate_grads)
    required = [*(grads_required or ()), *accumulated]
    made = autodiff(named, grads_provided, required, called_graphs_grad_info)
    outputs = dict(zip(made.grad_graph_info.outputs, made.graph.outputs))  # the last of each
    gradients = [outputs[tensor] for tensor in accumulated]
    factories: dict[str, VariableFactory] = {}
    inputs: dict[str, popxl.Tensor] = {}
    with made.graph, popxl.in_sequence():
        count = popxl.TensorSpec((), popxl.float32)
        counter, factories[_COUNTER] = _accumulator(_COUNTER, count, None)
        inputs[_COUNTER] = counter
        for tensor, gradient in zip(accumulated, gradients):
            name = names.get(tensor, sanitise(tensor.name))
            known = replica_groupings is not None and name in replica_groupings
            group = replica_groupings[name] if replica_groupings is not None and known else None
            key = f"accum.{name}"
            inputs[key], factories[key] = _accumulator(key, tensor.spec, group)
            var_updates.accumulate_mean_(inputs[key], gradient, counter)
        counter += 1
    made.graph.remove_outputs(gradients)
    named_inputs = NamedTensors.from_dict(inputs)
    accumulating = GraphWithNamedArgs(made.graph, named_inputs, made.grad_graph_info)
    return NamedVariableFactories.from_dict(factories), accumulating


def remap_grad_info(
    grad_info: GradGraphInfo, forward_graph: popxl.Graph, backward_graph: popxl.Graph
) -> GradGraphInfo:
    """Makes the description of a gradient graph for graphs that replace the two it describes.

    Inputs and outputs correspond by position, other tensors of the forward graph by name.

    Args:
        grad_info: the description.
        forward_graph: the graph that replaces the forward graph.
        backward_graph: the graph that replaces the gradient graph.

    Raises:
        ValueError: If a tensor of the forward graph has no counterpart.
    """
    former = grad_info.forward_graph
    known = dict(zip(former.inputs, forward_graph.inputs))
    known.update(zip(former.outputs, forward_graph.outputs))
    named = {tensor.name: tensor for tensor in forward_graph.tensors}

    def replaced(connection: ExpectedConnection) -> ExpectedConnection:
        tensor = connection.fwd_tensor
        found = known.get(tensor, named.get(tensor.name))
        if found is None:
            raise ValueError(f"{forward_graph!r} has no tensor for {tensor!r} of {former!r}.")
        return ExpectedConnection.create(connection.connection_type, found)

    inputs = [replaced(connection) for connection in grad_info.expected_inputs]
    outputs = [replaced(connection) for connection in grad_info.expected_outputs]
    return GradGraphInfo.create(backward_graph, forward_graph, inputs, outputs)


def _accumulator(
    name: str, spec: popxl.TensorSpec, group: popxl.ReplicaGrouping | None
) -> tuple[popxl.Tensor, VariableFactory]:
    """Adds an input by reference for a variable of zeros, sharded as the spec is."""
    zeros = partial(np.zeros, spec.meta_shape or spec.shape, spec.dtype.as_numpy())
    if not spec.meta_shape:
        return add_variable_input(name, zeros, spec.dtype, True, group)
    over = shards_of(spec, group)
    return add_replica_sharded_variable_input(name, zeros, spec.dtype, True, group, over)


def recompute_graph(grad_graph: GraphWithNamedArgs) -> GraphWithNamedArgs:
    """Makes a gradient graph that calls the forward graph, instead of reading its activations.

    Args:
        grad_graph: the gradient graph.

    Returns:
        A graph with the same results. Its expected inputs are gradients of outputs, and inputs of
        the forward graph.

    Raises:
        AttributeError: If it is no gradient graph.
    """
    info = grad_graph.grad_graph_info
    forward, backward = info.forward_graph, info.graph
    graph = forward.ir.new_graph(f"{backward.name}_recomp")
    with graph:
        expected_inputs, gradients, inputs = add_recompute_inputs(info)
        named = grad_graph.args.map(_input_like)
        call = ops.call_with_info(forward, inputs_dict=inputs)
        passed = grad_graph.args.to_mapping(named)
        for tensor, connection in zip(backward.inputs, info.expected_inputs):
            known = connection.fwd_tensor
            is_gradient = connection.connection_type is _GRAD
            passed[tensor] = gradients[known] if is_gradient else call.graph_to_parent(known)
        for result in ops.call(backward, inputs_dict=passed):
            popxl.graph_output(result)
    expected = GradGraphInfo.create(graph, forward, expected_inputs, info.expected_outputs)
    return GraphWithNamedArgs.from_grad_graph(expected, named)


def add_recompute_inputs(
    grad_info: GradGraphInfo,
) -> tuple[list[ExpectedConnection], Tensors, Tensors]:
    """Adds the inputs that a gradient graph with recomputation has to the current graph.

    First come those of the gradient graph that are gradients or inputs of the forward graph, in
    their order, then the other inputs of the forward graph by name.

    Args:
        grad_info: the gradient graph.

    Returns:
        The connections of the inputs, the inputs for gradients by forward tensor, and those for
        inputs of the forward graph likewise.
    """
    forward = grad_info.forward_graph
    connections: list[ExpectedConnection] = []
    gradients: Tensors = {}
    inputs: Tensors = {}
    for tensor, connection in zip(grad_info.graph.inputs, grad_info.expected_inputs):
        known = connection.fwd_tensor
        if connection.connection_type is _GRAD:
            gradients[known] = _input_like(tensor)
        elif known in forward.inputs and known not in inputs:
            inputs[known] = _input_like(known)
        else:
            continue
        connections.append(connection)
    for known in sorted(forward.inputs, key=lambda tensor: tensor.name):
        if known not in inputs:
            inputs[known] = _input_like(known)
            connections.append(ExpectedConnection.create(_FWD, known))
    return connections, gradients, inputs


def _input_like(like: popxl.Tensor) -> popxl.Tensor:
    """Adds an input like another tensor to the current graph."""
    return popxl.graph_input(like.shape, like.dtype, like.name, like.by_ref, like.meta_shape)
