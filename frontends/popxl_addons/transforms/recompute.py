"""Gradient graphs that compute activations again; the module `transforms.recompute`."""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.transforms import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
)
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs
from tensorflow_ipu.frontends.popxl_addons.named_tensors import NamedTensors

__all__ = ["recompute_graph"]


def recompute_graph(grad_graph: GraphWithNamedArgs) -> GraphWithNamedArgs:
    """Makes a gradient graph that calls the forward graph, in place of reading what that kept.

    Args:
        grad_graph: the gradient graph.

    Returns:
        A graph with the same results. What it takes of the forward graph are its inputs only.

    Raises:
        AttributeError: If it is no gradient graph.
    """
    info = grad_graph.grad_graph_info
    forward, backward = info.forward_graph, info.graph
    grad = ExpectedConnectionType.FwdGrad
    first, later = [], sorted(forward.inputs, key=lambda tensor: tensor.name)
    inputs: dict[popxl.Tensor, popxl.Tensor] = {}  # of the new graph, by forward tensor
    passed: dict[popxl.Tensor, popxl.Tensor] = {}  # of the new graph, by input of the gradient
    graph = forward.ir.new_graph(f"{backward.name}_recomp")
    with graph:
        for tensor, connection in zip(backward.inputs, info.expected_inputs):
            known = connection.fwd_tensor
            if connection.connection_type is grad:
                passed[tensor] = _input(tensor)
            elif known in forward.inputs:
                inputs[known] = _input(known)
            else:
                continue
            first.append(connection)
        for known in later:
            if known not in inputs:
                inputs[known] = _input(known)
                fwd = ExpectedConnectionType.Fwd
                first.append(ExpectedConnection.create(fwd, known))
        named = grad_graph.args.map(_input)
        passed.update(grad_graph.args.to_mapping(named))
        call = ops.call_with_info(forward, inputs_dict=inputs)
        for tensor, connection in zip(backward.inputs, info.expected_inputs):
            if connection.connection_type is not grad:
                passed[tensor] = call.graph_to_parent(connection.fwd_tensor)
        for result in ops.call(backward, inputs_dict=passed):
            popxl.graph_output(result)
    expected = GradGraphInfo.create(graph, forward, first, info.expected_outputs)
    return GraphWithNamedArgs.from_grad_graph(expected, named if len(named) else NamedTensors())


def _input(like: popxl.Tensor) -> popxl.Tensor:
    """Adds an input like another tensor to the current graph."""
    return popxl.graph_input(like.shape, like.dtype, like.name, like.by_ref, like.meta_shape)
