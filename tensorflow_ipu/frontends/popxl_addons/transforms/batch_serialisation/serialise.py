"""`batch_serialise`: a graph as a loop that loads its inputs, calls it and stores its outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Union

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl.core.shapes import as_int
from tensorflow_ipu.frontends.popxl_addons.dot_tree import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs
from tensorflow_ipu.frontends.popxl_addons.transforms.batch_serialisation.handles import (
    RemoteHandle,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.batch_serialisation.steps import (
    Steps,
    Target,
    make_loop,
)
from tensorflow_ipu.util import notices

Tensor = popxl.Tensor
LoadHandles = Mapping[Tensor, Union[popxl.HostToDeviceStream, RemoteHandle, tuple]]
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
