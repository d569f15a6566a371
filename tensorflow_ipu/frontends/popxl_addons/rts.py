"""Tensors that are sharded over replicas (RTS), with graphs for many; the module `rts`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.ops import collectives
from tensorflow_ipu.frontends.popxl_addons.dot_tree import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs
from tensorflow_ipu.frontends.popxl_addons.named_replica_grouping import NamedReplicaGrouping

__all__ = [
    "all_gather_replica_sharded_graph",
    "gather_replica_sharded_tensor",
    "reduce_replica_sharded_graph",
    "reduce_replica_sharded_tensor",
    "replica_sharded_spec",
    "shards_of",
]


def replica_sharded_spec(
    t: popxl.Tensor | popxl.TensorSpec, shard_over: popxl.ReplicaGrouping
) -> popxl.TensorSpec:
    """Returns shape and type of a replica's shard of a tensor.

    Args:
        t: the tensor.
        shard_over: the replicas that it is sharded over: those of each group.

    Returns:
        The spec of a vector, whose meta shape is the shape of the tensor. A tensor that is a shard
        already, or cannot be divided so, stays as it is.

    Raises:
        TypeError: If `shard_over` is no grouping of replicas.
    """
    if not isinstance(shard_over, popxl.ReplicaGrouping):
        raise TypeError(
            "shard_over must be a popxl.ReplicaGrouping, such as ir.replica_grouping(group_size=2)."
            f" Received: {shard_over!r}"
        )
    spec = popxl.TensorSpec(t.shape, t.dtype, t.meta_shape)
    over = shard_over.group_size
    if spec.meta_shape or over == 1 or spec.nelms % over:
        return spec
    return popxl.TensorSpec((spec.nelms // over,), spec.dtype, spec.shape)


def shards_of(
    shard: popxl.Tensor | popxl.TensorSpec, group: popxl.ReplicaGrouping | None = None
) -> int:
    """Returns over how many replicas a tensor is sharded.

    Args:
        shard: the part of a replica, or its shape and type.
        group: the replicas that share the tensor out among them; all by default.
    """
    size = (group or popxl.gir().replica_grouping()).group_size
    possible = [over for over in range(1, size + 1) if size % over == 0]
    whole, part = math.prod(shard.meta_shape), math.prod(shard.shape)
    return next((over for over in possible if -(-whole // over) == part), size)


def gather_replica_sharded_tensor(
    t: popxl.Tensor,
    use_io_tiles: bool = False,
    replica_group: popxl.ReplicaGrouping | None = None,
) -> popxl.Tensor:
    """Returns the whole tensor that a shard is part of.

    Args:
        t: the shard; a tensor that is none is returned as it is.
        use_io_tiles: whether it is gathered on the I/O tiles.
        replica_group: the replicas that it is sharded over; all by default.
    """
    if not t.meta_shape:
        return t
    with _tiles(use_io_tiles):
        whole = collectives.replicated_all_gather(t, group=replica_group)
    return ops.io_tile_copy(whole) if use_io_tiles else whole


def all_gather_replica_sharded_graph(
    tensors: NamedTensors,
    use_io_tiles: bool = False,
    replica_groups: NamedReplicaGrouping | None = None,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph that returns the whole tensors that shards are parts of.

    Args:
        tensors: tensors like those that are passed in.
        use_io_tiles: whether they are gathered on the I/O tiles.
        replica_groups: the replicas that each is sharded over, by name; all by default.

    Returns:
        The graph, whose named inputs are the tensors, and the names of its outputs.
    """

    def gather(name: str, tensor: popxl.Tensor) -> popxl.Tensor:
        group = _group(replica_groups, name)
        return gather_replica_sharded_tensor(tensor, use_io_tiles, group)

    return _graph("all_gather", tensors, gather)


def reduce_replica_sharded_tensor(
    t: popxl.Tensor,
    op: str = "add",
    replica_group: popxl.ReplicaGrouping | None = None,
    shard_group: popxl.ReplicaGrouping | None = None,
) -> popxl.Tensor:
    """Reduces a tensor over replicas, and returns this replica's shard of the result.

    Args:
        t: the tensor.
        op: "add", "mean" or another operation of `popxl.ops.collectives`.
        replica_group: the replicas that it is reduced over; all by default.
        shard_group: the replicas that the result is sharded over; the same by default.

    Returns:
        The shard; the whole result if it cannot be divided among the replicas.

    Raises:
        ValueError: As the functions of `popxl.ops.collectives` do.
    """
    whole_group = replica_group or popxl.gir().replica_grouping()
    shards = shard_group or whole_group
    if shards.group_size <= 1 or t.nelms % shards.group_size:
        return collectives.replicated_all_reduce(t, op, whole_group)
    if shards == whole_group:
        return collectives.replicated_reduce_scatter(t, op, whole_group, True)
    reduced = collectives.replicated_all_reduce(t, op, whole_group)
    return collectives.replica_sharded_slice(reduced, shards)


def reduce_replica_sharded_graph(
    tensors: NamedTensors,
    op: str = "add",
    use_io_tiles: bool = False,
    shard_groups: NamedReplicaGrouping | None = None,
    replica_group: popxl.ReplicaGrouping | None = None,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph that reduces tensors over replicas, and returns shards of the results.

    Args:
        tensors: tensors like those that are passed in.
        op: as for `reduce_replica_sharded_tensor`.
        use_io_tiles: whether they are reduced on the I/O tiles.
        shard_groups: the replicas that each result is sharded over, by name.
        replica_group: the replicas that all are reduced over; all by default.

    Returns:
        The graph, whose named inputs are the tensors, and the names of its outputs.
    """

    def reduce(name: str, tensor: popxl.Tensor) -> popxl.Tensor:
        group = _group(shard_groups, name)
        if use_io_tiles:
            tensor = ops.io_tile_copy(tensor)
        with _tiles(use_io_tiles):
            return reduce_replica_sharded_tensor(tensor, op, replica_group, group)

    return _graph("reduce", tensors, reduce)


def _graph(
    name: str, tensors: NamedTensors, make: Callable[[str, popxl.Tensor], popxl.Tensor]
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph with an output for each of its named inputs, in the order of the names."""
    graph = popxl.gir().create_empty_graph(name)
    names, likes = tensors.unpack()
    inputs = {}
    with graph, popxl.transforms.merge_exchange(), popxl.in_sequence(False):
        for key, like in zip(names, likes):
            meta_shape = like.meta_shape or None
            inputs[key] = popxl.graph_input(like.shape, like.dtype, key, meta_shape=meta_shape)
        for key, tensor in inputs.items():
            popxl.graph_output(make(key, tensor))
    return GraphWithNamedArgs(graph, NamedTensors.from_dict(inputs)), list(names)


def _group(groups: NamedReplicaGrouping | None, name: str) -> popxl.ReplicaGrouping | None:
    return groups[name] if groups is not None and name in groups else None


def _tiles(use_io_tiles: bool) -> contextlib.AbstractContextManager[None]:
    return popxl.io_tiles() if use_io_tiles else contextlib.nullcontext()
