"""`batch_serialise`: a graph as a loop that loads its inputs, calls it and stores its outputs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any, Union

from tensorflow_ipu.configs import notices
from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops, transforms
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs
from tensorflow_ipu.frontends.popxl_addons.named_tensors import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.transforms.batch_serialisation.handles import (
    RemoteHandle,
)

Tensor = popxl.Tensor
LoadHandles = Mapping[Tensor, Union[popxl.HostToDeviceStream, RemoteHandle, tuple]]
Target = Union[popxl.DeviceToHostStream, RemoteHandle]
_IO_MODES = ("compute", "io", "io_overlapped")


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


@dataclasses.dataclass(frozen=True)
class _Steps:
    """What is known of a loop before it is made.

    Attributes:
        graph: What each step calls.
        count: How many steps there are.
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
        """Returns a tensor on the other tiles if loads and stores are on the I/O tiles."""
        return ops.io_tile_copy(tensor) if self.on_io_tiles else tensor


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
        graph: what each step calls.
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
    made = _Steps(called, steps, loads, stores, seed_input, io_mode != "compute")
    for handle in made.handles():
        handle.reserve(steps, rows)
    serial, remap = _loop(made)
    names = {name: remap[t] for name, t in named.args.to_dict().items() if t in remap}
    return BatchSerialResult(GraphWithNamedArgs(serial, NamedTensors.from_dict(names)), kept, remap)


def _check_counts(steps: int, rows: int, io_mode: str) -> None:
    """Refuses loops without steps, rows or a known mode."""
    if io_mode not in _IO_MODES:
        raise ValueError(f"Unknown 'io_mode': {io_mode!r}. Expected one of {_IO_MODES}.")
    for name, count in (("steps", steps), ("rows", rows)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
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


def _loop(steps: _Steps) -> tuple[popxl.Graph, dict[Tensor, Tensor]]:
    """Makes the graph of the loop; returns it and its inputs by those of the graph called."""
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


def _step(steps: _Steps) -> tuple[popxl.Graph, dict[Tensor, Tensor]]:
    """Makes the graph of one step; returns it and its inputs by those of the graph called.

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


def _load(steps: _Steps, entries: Mapping[Any, Tensor]) -> dict[Tensor, Tensor]:
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


def _store(steps: _Steps, call: ops.CallSiteInfo, entries: Mapping[Any, Tensor]) -> None:
    """Stores what one step has made."""
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


def _seed_input(steps: _Steps, name: str) -> list[Tensor]:
    """Adds an input for a seed to the current graph, if one is asked for."""
    return [] if steps.seed is None else [popxl.graph_input((2,), popxl.uint32, name)]


def _input(like: Tensor, by_ref: bool) -> Tensor:
    """Adds an input like another tensor to the current graph."""
    return popxl.graph_input(like.shape, like.dtype, like.name, by_ref, like.meta_shape)
