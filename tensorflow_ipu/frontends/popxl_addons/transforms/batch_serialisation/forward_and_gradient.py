"""`batch_serialise_fwd_and_grad`: a graph and its gradient graph as two loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, Union

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl.transforms import ExpectedConnectionType
from tensorflow_ipu.frontends.popxl_addons.dot_tree import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs
from tensorflow_ipu.frontends.popxl_addons.transforms.batch_serialisation.handles import (
    RemoteHandle,
    batch_serial_buffer,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.batch_serialisation.serialise import (
    BatchSerialResult,
    LoadHandles,
    batch_serialise,
)

Tensor = popxl.Tensor
V = TypeVar("V")
StoreBuffers = Mapping[Tensor, Union[RemoteHandle, tuple, popxl.ReplicaGrouping]]


def batch_serialise_fwd_and_grad(
    forward_graph: GraphWithNamedArgs,
    gradient_graph: GraphWithNamedArgs,
    named_inputs_for_grad_graph: NamedTensors,
    steps: int,
    load_handles: LoadHandles,
    store_streams: Mapping[Tensor, popxl.DeviceToHostStream],
    store_buffers: StoreBuffers,
    seed_input: Tensor | None = None,
    rows: int = 1,
    io_mode: str = "io",
) -> tuple[BatchSerialResult, BatchSerialResult]:
    """Makes loops over micro-batches of a graph and of its gradient graph.

    What the gradient reads of the forward graph goes from the one loop to the other in remote
    buffers, which are made where there are none.

    Args:
        forward_graph: the graph.
        gradient_graph: its gradient graph.
        named_inputs_for_grad_graph: inputs of the forward graph, by name, that are the same for all
            steps, such as variables: they are inputs of the loop of the gradient graph, too.
        steps: how many steps each loop has.
        load_handles: where inputs of either graph come from; for gradients that are passed in, by
            input of the gradient graph.
        store_streams: streams to the host by input or output of either graph.
        store_buffers: entries of remote buffers by input or output of either graph; a grouping of
            replicas in place of them makes a buffer that is sharded over these.
        seed_input: an input of the forward graph that gets another seed in each step. The gradient
            gets that of the same step.
        rows: how many rows the buffers have room for.
        io_mode: as for `batch_serialise`.

    Returns:
        The loop of the forward graph, and that of the gradient graph.

    Raises:
        AttributeError: If the second is no gradient graph.
        RuntimeError: If the gradient reads a tensor that is no input or output of the forward
            graph.
        ValueError: If it is not known where a gradient that is passed in comes from, or as
            `batch_serialise` does.
    """
    gradient = gradient_graph.graph
    kept = {t: _handle(t, v, steps, rows) for t, v in store_buffers.items()}
    own_loads, forward_loads = _parted(load_handles, gradient)
    names = {tensor: name for name, tensor in named_inputs_for_grad_graph.to_dict().items()}
    passed = gradient_graph.args.to_dict()
    for tensor, known in _to_load(gradient_graph, own_loads):
        if known in names:
            passed[names[known]] = tensor
            continue
        _check_connection(known, forward_graph.graph)
        source = forward_loads.get(known)
        if source is None or isinstance(source, popxl.HostToDeviceStream):
            if known not in kept:
                kept[known] = _handle(known, None, steps, rows)
            source = kept[known]
        own_loads[tensor] = source
    own_streams, forward_streams = _parted(store_streams, gradient)
    own_kept, forward_kept = _parted(kept, gradient)
    named = GraphWithNamedArgs(gradient, NamedTensors.from_dict(passed))
    return (
        batch_serialise(
            forward_graph,
            steps,
            forward_loads,
            forward_streams,
            forward_kept,
            seed_input,
            rows,
            io_mode,
        ),
        batch_serialise(named, steps, own_loads, own_streams, own_kept, None, rows, io_mode),
    )


def _parted(values: Mapping[Tensor, V], graph: popxl.Graph) -> tuple[dict[Tensor, V], ...]:
    """Splits values into two maps: for tensors of a graph, and for other tensors."""
    return (
        {tensor: value for tensor, value in values.items() if tensor.graph is graph},
        {tensor: value for tensor, value in values.items() if tensor.graph is not graph},
    )


def _to_load(
    gradient_graph: GraphWithNamedArgs, loads: Mapping[Tensor, Any]
) -> list[tuple[Tensor, Tensor]]:
    """Returns the inputs of a gradient graph that stand for forward tensors, with these."""
    found = []
    expected = gradient_graph.grad_graph_info.expected_inputs
    for tensor, connection in zip(gradient_graph.graph.inputs, expected):
        if tensor in loads:
            continue
        if connection.connection_type is ExpectedConnectionType.FwdGrad:
            raise ValueError(
                f"{tensor!r}, the gradient of {connection.fwd_tensor!r}, must have a load_handle. "
                f"Those of the gradient graph: {list(loads)}"
            )
        found.append((tensor, connection.fwd_tensor))
    return found


def _check_connection(tensor: Tensor, forward: popxl.Graph) -> None:
    """Refuses tensors that are not known outside of the forward graph."""
    if tensor not in forward.inputs and tensor not in forward.outputs:
        raise RuntimeError(
            f"The Fwd Connection {tensor!r} of the gradient graph is no input or output of "
            f"{forward!r}, so it cannot be stored."
        )


def _handle(tensor: Tensor, asked: Any, steps: int, rows: int) -> RemoteHandle:
    """Returns where a tensor is stored: a new buffer for a grouping of replicas, or None."""
    if asked is None or isinstance(asked, popxl.ReplicaGrouping):
        buffer = batch_serial_buffer(tensor, steps, rows, asked)
        return RemoteHandle(buffer, 0, asked)
    return RemoteHandle(*asked)
