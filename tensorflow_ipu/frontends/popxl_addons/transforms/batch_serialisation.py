"""Phased execution: a graph as a loop over micro-batches, whose tensors are in remote buffers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Optional, TypeVar, Union

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops, transforms
from tensorflow_ipu.frontends.popxl.core.shapes import as_int
from tensorflow_ipu.frontends.popxl.ops import collectives
from tensorflow_ipu.frontends.popxl.transforms import ExpectedConnectionType
from tensorflow_ipu.frontends.popxl_addons.dot_tree import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs
from tensorflow_ipu.frontends.popxl_addons.remote import create_remote_buffer
from tensorflow_ipu.util import notices

# Which row of a buffer a row of the program uses: that many rows later, always the first one (None)
# or what the function returns for the number of the row.
RowOffset = Optional[Union[int, Callable[[popxl.Tensor], Union[popxl.Tensor, int]]]]
# What programs may pass for a handle.
RemoteBufferWithOffset = tuple[popxl.RemoteBuffer, RowOffset]
Tensor = popxl.Tensor
_IO_MODES = ("compute", "io", "io_overlapped")
V = TypeVar("V")


class RemoteHandle(NamedTuple):
    """Entries of a remote buffer: one for each step of each row.

    Attributes:
        buffer: The buffer.
        row_offset: Which row of the buffer a row of the program uses: that many rows later; for
            None always the first one; or what a function returns for the number of the row.
        shard_group: Replicas that a tensor is sharded over in the buffer; it is gathered when it is
            loaded.
    """

    buffer: popxl.RemoteBuffer
    row_offset: RowOffset = 0
    shard_group: Optional[popxl.ReplicaGrouping] = None  # noqa: UP045

    def reserve(self, steps: int, rows: int) -> None:
        """Gives the buffer as many entries as a loop uses.

        Args:
            steps: how many steps a row has.
            rows: how many rows the program has.
        """
        if self.row_offset is None:
            rows = 1
        elif isinstance(self.row_offset, int):
            rows += self.row_offset
        self.buffer.entries = max(self.buffer.entries, steps * rows)

    def first_entry(self, row: popxl.Tensor, steps: int) -> popxl.Tensor:
        """Returns the entry of the first step of a row, in the current graph.

        Args:
            row: the number of the row, a scalar of int32.
            steps: how many steps a row has.
        """
        if self.row_offset is None:
            return popxl.constant(0, popxl.int32, "entry")
        if callable(self.row_offset):
            own = self.row_offset(row)
            row = own if isinstance(own, popxl.Tensor) else popxl.constant(own, popxl.int32)
        elif self.row_offset:
            row = row + self.row_offset
        return row * steps

    @property
    def is_sharded(self) -> bool:
        """Whether each replica has a shard of the tensors in the buffer."""
        return self.shard_group is not None and self.shard_group.group_size > 1

    def gathered(self, loaded: popxl.Tensor) -> popxl.Tensor:
        """Returns the tensor that was stored, in the current graph.

        Args:
            loaded: the entry.
        """
        if not self.is_sharded:
            return loaded
        return collectives.replicated_all_gather(loaded, group=self.shard_group)

    def sliced(self, tensor: popxl.Tensor) -> popxl.Tensor:
        """Returns the part of a tensor that an entry holds, in the current graph.

        Args:
            tensor: the tensor.
        """
        if not self.is_sharded or tensor.meta_shape:
            return tensor
        return ops.collectives.replica_sharded_slice(tensor, self.shard_group)


def batch_serial_buffer(
    t: popxl.Tensor | popxl.TensorSpec,
    steps: int = 1,
    rows: int = 1,
    shard_group: popxl.ReplicaGrouping | None = None,
) -> popxl.RemoteBuffer:
    """Makes a remote buffer with an entry for each step of each row.

    Args:
        t: a tensor like those that are stored.
        steps: how many steps a row has.
        rows: how many rows there are.
        shard_group: replicas that each entry is sharded over; none by default.

    Returns:
        A buffer of `steps * rows` entries.

    Raises:
        ValueError: If the tensor cannot be shared out equally.
        RuntimeError: For a spec, outside of all graphs.
    """
    over = 1 if shard_group is None else shard_group.group_size
    if isinstance(t, popxl.TensorSpec):
        return create_remote_buffer(t, steps * rows, shard_group, over)
    with t.ir.main_graph:
        return create_remote_buffer(t.spec, steps * rows, shard_group, over)


Target = Union[popxl.DeviceToHostStream, RemoteHandle]


@dataclasses.dataclass(frozen=True)
class Steps:
    """Description of a loop before its construction.

    Attributes:
        graph: The callee of each step.
        count: The number of steps.
        loads: Where inputs of the graph come from.
        stores: Where its inputs and outputs go to, in order.
        seed: The input that gets another seed in each step.
        on_io_tiles: Whether loads and stores are on the I/O tiles.
    """

    graph: popxl.Graph
    count: int
    loads: dict[Tensor, popxl.HostToDeviceStream | RemoteHandle]
    stores: list[tuple[Tensor, Target]]
    seed: Tensor | None
    on_io_tiles: bool

    def handles(self) -> list[RemoteHandle]:
        """Returns all entries that are loaded or stored."""
        used = [*self.loads.values(), *(target for _, target in self.stores)]
        return [handle for handle in used if isinstance(handle, RemoteHandle)]

    def passed(self) -> list[Tensor]:
        """Returns the inputs of the graph that the loop takes."""
        return [t for t in self.graph.inputs if t not in self.loads and t is not self.seed]

    def exchange(self) -> contextlib.AbstractContextManager[None]:
        """Returns the scope for loads and stores."""
        return popxl.io_tiles() if self.on_io_tiles else contextlib.nullcontext()

    def across(self, tensor: Tensor) -> Tensor:
        """Returns a tensor on the other tiles if loads and stores are on the I/O tiles.

        Args:
            tensor: the tensor.
        """
        return ops.io_tile_copy(tensor) if self.on_io_tiles else tensor


def make_loop(steps: Steps) -> tuple[popxl.Graph, dict[Tensor, Tensor]]:
    """Makes the graph of the loop.

    Args:
        steps: the description of the loop.

    Returns:
        The graph, and those of its inputs that are passed on, by input of the graph called.
    """
    step, inner = _step(steps)
    graph = steps.graph.ir.new_graph(f"{steps.graph.name}__repeat_graph")
    with graph, popxl.in_sequence():
        row = popxl.graph_input((), popxl.int32, "batch_serial_loop_index")
        seeds = _seed_input(steps, "batch_serial_random_seed")
        passed = {t: _input(t, t.by_ref) for t in steps.passed()}
        offsets = {handle.row_offset: handle for handle in steps.handles()}
        entries = [handle.first_entry(row, steps.count) for handle in offsets.values()]
        same = {inner[t]: outer for t, outer in passed.items()}
        ops.repeat(step, steps.count, *entries, *seeds, inputs_dict=same)
    return graph, passed


def _step(steps: Steps) -> tuple[popxl.Graph, dict[Tensor, Tensor]]:
    """Makes the graph of one step. Returns it, and its inputs by input of the callee.

    The first inputs are carried from step to step: the entry of each row offset, and the seed.
    """
    graph = steps.graph.ir.create_empty_graph(f"{steps.graph.name}__repeat_step")
    with graph, popxl.in_sequence():
        offsets = dict.fromkeys(handle.row_offset for handle in steps.handles())
        entries = {offset: popxl.graph_input((), popxl.int32, "entry") for offset in offsets}
        seeds = _seed_input(steps, "seed")
        passed = {t: _input(t, t.by_ref) for t in steps.passed()}
        values = {**passed, **_load(steps, entries)}
        if steps.seed is not None:
            values[steps.seed], *seeds = ops.split_random_seed(seeds[0])
        call = ops.call_with_info(steps.graph, inputs_dict=values)
        _store(steps, call, entries)
        for carried in (*(entry + 1 for entry in entries.values()), *seeds):
            popxl.graph_output(carried)
    return graph, passed


def _load(steps: Steps, entries: Mapping[Any, Tensor]) -> dict[Tensor, Tensor]:
    """Loads the inputs of one step."""
    loaded: dict[Tensor, Tensor] = {}
    with transforms.merge_exchange(), popxl.in_sequence(False), steps.exchange():
        for tensor, source in steps.loads.items():
            if isinstance(source, RemoteHandle):
                entry = entries[source.row_offset]
                loaded[tensor] = ops.remote_load(source.buffer, entry, tensor.name)
            else:
                loaded[tensor] = ops.host_load(source, tensor.name)
    loaded = {tensor: steps.across(value) for tensor, value in loaded.items()}
    for tensor, source in steps.loads.items():
        if isinstance(source, RemoteHandle) and not tensor.meta_shape:
            loaded[tensor] = source.gathered(loaded[tensor])
    return loaded


def _store(steps: Steps, call: ops.CallSiteInfo, entries: Mapping[Any, Tensor]) -> None:
    """Stores the results of one step."""
    values = []
    for tensor, target in steps.stores:
        value = call.graph_to_parent(tensor)
        if isinstance(target, RemoteHandle):
            value = target.sliced(value)
        values.append((target, steps.across(value)))
    with transforms.merge_exchange(), popxl.in_sequence(False), steps.exchange():
        for target, value in values:
            if isinstance(target, RemoteHandle):
                ops.remote_store(target.buffer, entries[target.row_offset], value)
            else:
                ops.host_store(target, value)


def _seed_input(steps: Steps, name: str) -> list[Tensor]:
    """Adds an input for a seed to the current graph, if one is asked for."""
    return [] if steps.seed is None else [popxl.graph_input((2,), popxl.uint32, name)]


def _input(like: Tensor, by_ref: bool) -> Tensor:
    """Adds an input like another tensor to the current graph."""
    return popxl.graph_input(like.shape, like.dtype, like.name, by_ref, like.meta_shape)


LoadHandles = Mapping[Tensor, Union[popxl.HostToDeviceStream, RemoteHandle, tuple]]


@dataclasses.dataclass(frozen=True)
class BatchSerialResult:
    """A graph as a loop over micro-batches.

    Attributes:
        graph: The loop. Its inputs are the number of the row, a seed if it was asked for, and those
            of the original graph that are not loaded.
        stored_buffers: Which entries hold each tensor of the original graph that is stored.
        remap_dict: Inputs of the loop by those of the original graph that they are passed on to.
    """

    graph: GraphWithNamedArgs
    stored_buffers: dict[Tensor, RemoteHandle]
    remap_dict: dict[Tensor, Tensor]

    def __repr__(self) -> str:
        return f"BatchSerialResult[{self.graph!r} {len(self.stored_buffers)} stored]"

    def remap_tensors(self, tensors: NamedTensors) -> NamedTensors:
        """Returns the inputs of the loop that are passed on to inputs of the original graph.

        Args:
            tensors: inputs of the original graph by name.

        Raises:
            KeyError: If one is loaded in the loop, or is no input.
        """
        return tensors.remap(self.remap_dict)


def batch_serialise(
    graph: GraphWithNamedArgs | popxl.Graph,
    steps: int,
    load_handles: LoadHandles,
    store_streams: Mapping[Tensor, popxl.DeviceToHostStream],
    store_buffers: Mapping[Tensor, RemoteHandle | tuple],
    seed_input: Tensor | None = None,
    rows: int = 1,
    io_mode: str = "io",
) -> BatchSerialResult:
    """Makes a graph that calls another one for several micro-batches.

    What differs between micro-batches is loaded before each call, and stored after it: from and to
    the host, or remote buffers. Step `i` of row `r` uses the entry `r * steps + i`, so a program
    may call the same loop for several layers: each call is one row.

    Args:
        graph: the callee of each step.
        steps: how many steps there are.
        load_handles: where inputs come from, by input of the graph. Other inputs are the same for
            all steps, or modified by them in turn if they are passed by reference.
        store_streams: streams to the host by input or output of the graph.
        store_buffers: entries of remote buffers by input or output of the graph. Inputs that are
            loaded from a buffer are not stored again.
        seed_input: an input that gets another seed in each step.
        rows: how many rows the buffers have room for. Buffers get more entries if needed.
        io_mode: "io" or "io_overlapped" for loads and stores on the I/O tiles, "compute" for ones
            on the others. Values do not depend on it. Plans take those on the I/O tiles for ones
            that go on during the computation, if there are such tiles.

    Returns:
        The graph, without outputs, with the names of the inputs that are passed on.

    Raises:
        ValueError: If there is no step or row, the mode is unknown, a tensor is no input or output
            of the graph, or it is loaded from or stored to something else.
        popart.popart_exception: If an input is not like what is loaded for it.
    """
    named = GraphWithNamedArgs(graph) if isinstance(graph, popxl.Graph) else graph
    called = named.graph
    _check_counts(steps, rows, io_mode)
    loads = {t: _source(value) for t, value in load_handles.items()}
    _check_tensors("load_handles", loads, called.inputs)
    kept = {t: _handle(value) for t, value in store_buffers.items()}
    kept = {t: h for t, h in kept.items() if not isinstance(loads.get(t), RemoteHandle)}
    for name, stored in (("store_streams", store_streams), ("store_buffers", kept)):
        _check_tensors(name, stored, (*called.inputs, *called.outputs))
    if seed_input is not None:
        _check_tensors("seed_input", [seed_input], called.inputs)
    stores: list[tuple[Tensor, Target]] = [*store_streams.items(), *kept.items()]
    made = Steps(called, steps, loads, stores, seed_input, io_mode != "compute")
    for handle in made.handles():
        handle.reserve(steps, rows)
    serial, remap = make_loop(made)
    names = {name: remap[t] for name, t in named.args.to_dict().items() if t in remap}
    return BatchSerialResult(GraphWithNamedArgs(serial, NamedTensors.from_dict(names)), kept, remap)


def batch_serialise_non_overlapped(
    graph: GraphWithNamedArgs | popxl.Graph,
    steps: int,
    load_handles: LoadHandles,
    store_streams: Mapping[Tensor, popxl.DeviceToHostStream],
    store_buffers: Mapping[Tensor, RemoteHandle | tuple],
    seed_input: Tensor | None = None,
    rows: int = 1,
    use_io_tiles: bool = False,
) -> BatchSerialResult:
    """Batch serialisation with loads and stores that do not overlap computation.

    Args:
        graph: as for `batch_serialise`.
        steps: as for `batch_serialise`.
        load_handles: as for `batch_serialise`.
        store_streams: as for `batch_serialise`.
        store_buffers: as for `batch_serialise`.
        seed_input: as for `batch_serialise`.
        rows: as for `batch_serialise`.
        use_io_tiles: whether loads and stores are on the I/O tiles.

    Raises:
        Exception: As `batch_serialise` does.
    """
    mode = "io" if use_io_tiles else "compute"
    return batch_serialise(
        graph, steps, load_handles, store_streams, store_buffers, seed_input, rows, mode
    )


def batch_serialise_overlapped(
    graph: GraphWithNamedArgs | popxl.Graph,
    steps: int,
    load_handles: LoadHandles,
    store_streams: Mapping[Tensor, popxl.DeviceToHostStream],
    store_buffers: Mapping[Tensor, RemoteHandle | tuple],
    seed_input: Tensor | None = None,
    rows: int = 1,
) -> BatchSerialResult:
    """Batch serialisation with loads and stores that overlap computation.

    Args:
        graph: as for `batch_serialise`.
        steps: as for `batch_serialise`.
        load_handles: as for `batch_serialise`.
        store_streams: as for `batch_serialise`.
        store_buffers: as for `batch_serialise`.
        seed_input: as for `batch_serialise`.
        rows: as for `batch_serialise`.

    Raises:
        Exception: As `batch_serialise` does.
    """
    return batch_serialise(
        graph, steps, load_handles, store_streams, store_buffers, seed_input, rows, "io_overlapped"
    )


def _check_counts(steps: int, rows: int, io_mode: str) -> None:
    """Refuses loops without steps, rows or a known mode."""
    if io_mode not in _IO_MODES:
        raise ValueError(f"Unknown 'io_mode': {io_mode!r}. Expected one of {_IO_MODES}.")
    for name, count in (("steps", steps), ("rows", rows)):
        number = as_int(count)
        if number is None or number < 1:
            raise ValueError(f"{name} must be an integer of at least 1. Received: {count!r}")
    if io_mode == "io_overlapped" and steps < 2:
        notices.warn_once(
            "batch_serialise: io_overlapped needs at least 2 steps to overlap anything. The loop "
            "loads, computes and stores one after the other, as with io_mode='io'."
        )


def _source(value: Any) -> popxl.HostToDeviceStream | RemoteHandle:
    """Returns where an input comes from."""
    return value if isinstance(value, popxl.HostToDeviceStream) else _handle(value)


def _handle(value: Any) -> RemoteHandle:
    """Returns entries of a buffer."""
    if isinstance(value, tuple) and value and isinstance(value[0], popxl.RemoteBuffer):
        return RemoteHandle(*value)
    raise ValueError(
        "Inputs are loaded from a stream or a RemoteHandle, and tensors stored with the latter: or "
        f"a tuple of a remote buffer and an offset. Received: {value!r}"
    )


def _check_tensors(name: str, tensors: Any, possible: tuple[Tensor, ...]) -> None:
    """Refuses tensors that are not among some of a graph."""
    wrong = [tensor for tensor in tensors if tensor not in possible]
    if wrong:
        raise ValueError(f"{name}: expected some of {list(possible)}. Received: {wrong}")


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
    kept = {t: _buffer_handle(t, v, steps, rows) for t, v in store_buffers.items()}
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
                kept[known] = _buffer_handle(known, None, steps, rows)
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


def _buffer_handle(tensor: Tensor, asked: Any, steps: int, rows: int) -> RemoteHandle:
    """Returns where a tensor is stored: a new buffer for a grouping of replicas, or None."""
    if asked is None or isinstance(asked, popxl.ReplicaGrouping):
        buffer = batch_serial_buffer(tensor, steps, rows, asked)
        return RemoteHandle(buffer, 0, asked)
    return RemoteHandle(*asked)
