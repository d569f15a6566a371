"""Remote buffers by name, and graphs that load and store them; the module `popxl_addons.remote`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any, Union

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops, transforms
from tensorflow_ipu.frontends.popxl.core.shapes import as_int
from tensorflow_ipu.frontends.popxl_addons.dot_tree import DotTree, NamedTensors
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs
from tensorflow_ipu.frontends.popxl_addons.variable_factory import NamedVariableFactories

__all__ = [
    "NamedRemoteBuffers",
    "create_remote_buffer",
    "load_remote",
    "load_remote_graph",
    "named_buffers",
    "named_variable_buffers",
    "store_remote",
    "store_remote_graph",
]

Entry = Union[int, popxl.Tensor]


class NamedRemoteBuffers(DotTree[popxl.RemoteBuffer]):
    """Remote buffers by name."""


def create_remote_buffer(
    spec: popxl.TensorSpec | popxl.Tensor,
    entries: int = 1,
    replica_group: popxl.ReplicaGrouping | None = None,
    shard_over: int | None = None,
) -> popxl.RemoteBuffer:
    """Makes a remote buffer for tensors.

    Args:
        spec: shape and type of an entry. A shard stays a shard.
        entries: how many entries it has.
        replica_group: the replicas that entries are sharded over; all by default.
        shard_over: over how many of them; all by default, 1 for whole tensors.

    Raises:
        ValueError: If a tensor cannot be shared out equally.
    """
    if spec.meta_shape:
        buffer = popxl.remote_buffer(spec.shape, spec.dtype, entries)
        buffer.meta_shape = spec.meta_shape
        return buffer
    group = replica_group or popxl.gir().replica_grouping()
    over = group.group_size if shard_over is None else shard_over
    if over <= 1:
        return popxl.remote_buffer(spec.shape, spec.dtype, entries)
    elements = math.prod(spec.shape)
    if elements % over:
        raise ValueError(f"Can't shard tensor of {elements} elements over {over} replicas.")
    buffer = popxl.remote_buffer((elements // over,), spec.dtype, entries)
    buffer.meta_shape = spec.shape
    return buffer


def named_variable_buffers(
    factories: NamedVariableFactories,
    entries: int = 1,
    shard_over_dict: bool | int | Mapping[str, bool | int] = True,
) -> NamedRemoteBuffers:
    """Makes a remote buffer for each variable.

    Those of variables that are shards already hold these.

    Args:
        factories: the factories of the variables.
        entries: how many entries each buffer has.
        shard_over_dict: over how many replicas of its group each is sharded: all for True, none for
            False, a number, or one of these by name.

    Raises:
        ValueError: If a number is not from 1 to the size of the group.
    """
    found = {}
    for name, factory in factories.to_dict().items():
        spec = popxl.TensorSpec(factory.shape, factory.dtype, factory.meta_shape or ())
        group = factory.replica_grouping
        over = 1
        if not spec.meta_shape:  # shards stay shards
            asked = shard_over_dict
            over = _shard_over(name, asked[name] if isinstance(asked, Mapping) else asked, group)
        over = over if spec.nelms % over == 0 else 1
        found[name] = create_remote_buffer(spec, entries, group, over)
    return NamedRemoteBuffers.from_dict(found)


def _shard_over(name: str, asked: Any, group: popxl.ReplicaGrouping) -> int:
    """Returns over how many replicas of its group a variable is sharded."""
    if isinstance(asked, bool):
        return group.group_size if asked else 1
    over = as_int(asked)
    if over is None or not 1 <= over <= group.group_size:
        raise ValueError(
            f"{name}: shard_over must be a bool or from 1 to {group.group_size}, the size of the "
            f"group. Received: {asked!r}"
        )
    return over


def named_buffers(tensors: NamedTensors, entries: int = 1) -> NamedRemoteBuffers:
    """Makes a remote buffer for each tensor.

    Args:
        tensors: the tensors.
        entries: how many entries each buffer has.
    """
    return NamedRemoteBuffers.from_dict(
        {
            name: create_remote_buffer(tensor.spec, entries, shard_over=1)
            for name, tensor in tensors.to_dict().items()
        }
    )


def load_remote(
    buffers: NamedRemoteBuffers, entry: Entry = 0, use_io_tiles: bool = False
) -> NamedTensors:
    """Loads an entry of each buffer, in the current graph.

    Args:
        buffers: the buffers.
        entry: the number of the entry, or a scalar of integers.
        use_io_tiles: whether the I/O tiles load them; the tensors are then copied to the others.
    """
    with _tiles(use_io_tiles):
        loaded = {
            name: ops.remote_load(buffer, entry, name)
            for name, buffer in sorted(buffers.to_dict().items())
        }
    if use_io_tiles:
        loaded = {name: ops.io_tile_copy(tensor) for name, tensor in loaded.items()}
    return NamedTensors.from_dict(loaded)


def store_remote(
    buffers: NamedRemoteBuffers,
    tensors: NamedTensors,
    entry: Entry = 0,
    use_io_tiles: bool = False,
) -> None:
    """Stores tensors in an entry of each buffer, in the current graph.

    Args:
        buffers: the buffers.
        tensors: a tensor for each.
        entry: the number of the entry, or a scalar of integers.
        use_io_tiles: whether the I/O tiles store them; the tensors are copied there before.
    """
    values = {name: tensors[name] for name in sorted(buffers.to_dict())}
    if use_io_tiles:
        values = {name: ops.io_tile_copy(tensor) for name, tensor in values.items()}
    with _tiles(use_io_tiles):
        for name, tensor in values.items():
            ops.remote_store(buffers[name], entry, tensor)


def load_remote_graph(
    buffers: NamedRemoteBuffers, entries: int = 1, use_io_tiles: bool = False
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph that loads an entry of each buffer.

    Args:
        buffers: the buffers, which get as many entries.
        entries: how many entries there are.
        use_io_tiles: whether it runs on the I/O tiles.

    Returns:
        The graph, whose input is the number of the entry, and the names of its outputs.
    """
    _enlarge(buffers, entries)
    names = sorted(buffers.to_dict())
    graph = popxl.gir().create_empty_graph("load_remote")
    with graph, transforms.merge_exchange(), popxl.in_sequence(False):
        index = popxl.graph_input((), popxl.int32, "load_index")
        with popxl.io_tiles() if use_io_tiles else popxl.name_scope("load"):
            loaded = load_remote(buffers, index)
        for name in names:
            popxl.graph_output(loaded[name])
    return GraphWithNamedArgs(graph), names


def store_remote_graph(
    buffers: NamedRemoteBuffers, entries: int = 1, use_io_tiles: bool = False
) -> GraphWithNamedArgs:
    """Makes a graph that stores tensors in an entry of each buffer.

    Args:
        buffers: the buffers, which get as many entries.
        entries: how many entries there are.
        use_io_tiles: whether it runs on the I/O tiles.

    Returns:
        The graph, whose first input is the number of the entry; the tensors are its named inputs.
    """
    _enlarge(buffers, entries)
    graph = popxl.gir().create_empty_graph("store_remote")
    with graph, transforms.merge_exchange(), popxl.in_sequence(False):
        index = popxl.graph_input((), popxl.int32, "store_index")
        tensors = NamedTensors.from_dict(
            {
                name: popxl.graph_input(
                    buffer.tensor_shape,
                    buffer.tensor_dtype,
                    name,
                    meta_shape=buffer.meta_shape or None,
                )
                for name, buffer in sorted(buffers.to_dict().items())
            }
        )
        with popxl.io_tiles() if use_io_tiles else popxl.name_scope("store"):
            store_remote(buffers, tensors, index)
    return GraphWithNamedArgs(graph, tensors)


def _tiles(use_io_tiles: bool) -> contextlib.AbstractContextManager[None]:
    """Returns the scope for loads and stores."""
    return popxl.io_tiles() if use_io_tiles else contextlib.nullcontext()


def _enlarge(buffers: NamedRemoteBuffers, entries: int) -> None:
    """Gives buffers at least as many entries."""
    for buffer in buffers.to_dict().values():
        buffer.entries = max(buffer.entries, entries)
