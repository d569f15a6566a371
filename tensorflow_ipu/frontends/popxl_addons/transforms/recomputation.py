"""Gradient graphs that compute activations again; the module `transforms.recomputation`."""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.transforms import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
)
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs

__all__ = ["add_recompute_inputs", "recompute_graph"]

_FWD, _GRAD = ExpectedConnectionType.Fwd, ExpectedConnectionType.FwdGrad
Tensors = dict[popxl.Tensor, popxl.Tensor]


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
        named = grad_graph.args.map(_input)
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
            gradients[known] = _input(tensor)
        elif known in forward.inputs and known not in inputs:
            inputs[known] = _input(known)
        else:
            continue
        connections.append(connection)
    for known in sorted(forward.inputs, key=lambda tensor: tensor.name):
        if known not in inputs:
            inputs[known] = _input(known)
            connections.append(ExpectedConnection.create(_FWD, known))
    return connections, gradients, inputs


def _input(like: popxl.Tensor) -> popxl.Tensor:
    """Adds an input like another tensor to the current graph."""
    return popxl.graph_input(like.shape, like.dtype, like.name, like.by_ref, like.meta_shape)
