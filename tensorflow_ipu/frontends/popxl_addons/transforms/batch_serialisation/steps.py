"""`Steps`: the loads, calls and stores of each step of a loop over micro-batches."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any, Union

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops, transforms
from tensorflow_ipu.frontends.popxl_addons.transforms.batch_serialisation.handles import (
    RemoteHandle,
)

Tensor = popxl.Tensor
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
        """Returns a tensor on the other tiles if loads and stores are on the I/O tiles."""
        return ops.io_tile_copy(tensor) if self.on_io_tiles else tensor


def make_loop(steps: Steps) -> tuple[popxl.Graph, dict[Tensor, Tensor]]:
    """Makes the graph of the loop.

    Args:
        steps: what each step does.

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
