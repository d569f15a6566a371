"""Collectives and layer normalization of tensors that are spread over replicas."""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.ops import collectives
from tensorflow_ipu.frontends.popxl_addons.dot_tree import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs

__all__ = [
    "layer_norm_distributed",
    "replicated_all_gather_strided",
    "replicated_all_reduce",
    "replicated_all_reduce_identical_grad_inputs",
    "replicated_all_reduce_identical_inputs",
    "replicated_all_reduce_strided",
    "replicated_all_reduce_strided_graph",
    "replicated_all_reduce_strided_identical_grad_inputs",
    "replicated_all_reduce_strided_identical_inputs",
    "replicated_reduce_scatter_strided",
]


Group = popxl.ReplicaGrouping


def replicated_all_reduce(
    t: popxl.Tensor, op: str = "add", group: popxl.ReplicaGrouping | None = None
) -> popxl.Tensor:
    """Returns the sum of the tensors of all replicas of a group; its gradient is summed likewise.

    Args:
        t: the tensor of this replica.
        op: "add".
        group: which replicas belong together; all by default.

    Raises:
        popart.popart_exception: If `op` is something else.
        ValueError: If groups do not fit the replicas.
    """
    _check_sum(op)
    return collectives.replicated_all_reduce_with_grad(t, op, group)


def replicated_all_reduce_identical_inputs(
    t: popxl.Tensor, op: str = "add", group: popxl.ReplicaGrouping | None = None
) -> popxl.Tensor:
    """Returns a tensor that replicas of a group have in common; its gradient is their sum.

    It stands where a layer that is spread over replicas begins.

    Args:
        t: the tensor, equal on the replicas of a group.
        op: "add".
        group: which replicas belong together; all by default.

    Raises:
        Exception: As `replicated_all_reduce` does.
    """
    _check_sum(op)
    return collectives.replicated_all_reduce_with_grad(t, op, group, identical_inputs=True)


def replicated_all_reduce_identical_grad_inputs(
    t: popxl.Tensor, op: str = "add", group: popxl.ReplicaGrouping | None = None
) -> popxl.Tensor:
    """Returns the sum of the tensors of a group; its gradient, which they share, stays as it is.

    It stands where a layer that is spread over replicas ends.

    Args:
        t: the tensor of this replica.
        op: "add".
        group: which replicas belong together; all by default.

    Raises:
        Exception: As `replicated_all_reduce` does.
    """
    _check_sum(op)
    return collectives.replicated_all_reduce_with_grad(t, op, group, identical_gradients=True)


def _check_sum(op: str) -> None:
    if op != "add":
        raise popxl.errors.popart_exception(
            f"Only 'add' is supported by the ops of replicated_all_reduce_TP. Received: op={op!r}"
        )


def replicated_all_reduce_strided(
    t: popxl.Tensor, op: str = "add", group: Group | None = None
) -> popxl.Tensor:
    """Returns the sum or mean of the tensors of a group; its gradient is reduced likewise.

    Args:
        t: the tensor of this replica.
        op: "add" or "mean".
        group: which replicas belong together; all by default.

    Raises:
        popart.popart_exception: If `op` is something else.
        ValueError: If groups do not fit the replicas.
    """
    check_op(op)
    return collectives.replicated_all_reduce_with_grad(t, op, group)


def replicated_all_reduce_strided_identical_inputs(
    t: popxl.Tensor, op: str = "add", group: Group | None = None
) -> popxl.Tensor:
    """Returns a tensor that replicas of a group have in common; its gradient is reduced.

    Args:
        t: the tensor, equal on the replicas of a group.
        op: "add" or "mean".
        group: which replicas belong together; all by default.

    Raises:
        Exception: As `replicated_all_reduce_strided` does.
    """
    check_op(op)
    return collectives.replicated_all_reduce_with_grad(t, op, group, identical_inputs=True)


def replicated_all_reduce_strided_identical_grad_inputs(
    t: popxl.Tensor, op: str = "add", group: Group | None = None
) -> popxl.Tensor:
    """Returns the sum or mean of the tensors of a group; its gradient stays as it is.

    Args:
        t: the tensor of this replica.
        op: "add" or "mean".
        group: which replicas belong together; all by default.

    Raises:
        Exception: As `replicated_all_reduce_strided` does.
    """
    check_op(op)
    return collectives.replicated_all_reduce_with_grad(t, op, group, identical_gradients=True)


def replicated_all_reduce_strided_graph(
    tensors: NamedTensors,
    op: str = "add",
    group: Group | None = None,
    use_io_tiles: bool = False,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph that reduces tensors over the replicas of a group.

    Args:
        tensors: tensors, or others of their shapes and types.
        op: "add" or "mean".
        group: which replicas belong together; all by default.
        use_io_tiles: whether it runs on the I/O tiles.

    Returns:
        The graph, whose named inputs are the tensors, and the names of its outputs.

    Raises:
        Exception: As `replicated_all_reduce_strided` does.
    """
    names, values = tensors.unpack()
    graph = popxl.gir().create_empty_graph("replicated_all_reduce_strided")
    inputs = {}
    with graph, popxl.in_sequence(False):
        for name, like in zip(names, values):
            inputs[name] = popxl.graph_input(
                like.shape, like.dtype, name, meta_shape=like.meta_shape or None
            )
        with popxl.io_tiles() if use_io_tiles else popxl.name_scope("all_reduce"):
            for tensor in inputs.values():
                popxl.graph_output(replicated_all_reduce_strided(tensor, op, group))
    return GraphWithNamedArgs(graph, NamedTensors.from_dict(inputs)), list(names)


def check_op(op: str) -> None:
    """Refuses operations other than sums and means.

    Args:
        op: name of the operation.

    Raises:
        popart.popart_exception: If it is neither "add" nor "mean".
    """
    if op not in ("add", "mean"):
        raise popxl.errors.popart_exception(
            f"Only 'add' and 'mean' are supported by strided collectives. Received: op={op!r}"
        )


def replicated_all_gather_strided(t: popxl.Tensor, group: Group | None = None) -> popxl.Tensor:
    """Returns the tensors of all replicas of a group.

    Args:
        t: the tensor of this replica.
        group: which replicas belong together; all by default.

    Returns:
        A vector of all elements, in the order of the replicas; for a shard, the tensor whose shards
        these are.

    Raises:
        ValueError: If groups do not fit the replicas.
    """
    if t.meta_shape:
        return collectives.replicated_all_gather(t, group=group, output_shape="meta_shape")
    return collectives.replicated_all_gather(t.flatten(), 0, group, "concat")


def replicated_reduce_scatter_strided(
    t: popxl.Tensor,
    op: str = "add",
    group: Group | None = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> popxl.Tensor:
    """Returns this replica's part of the sum or mean of the tensors of a group.

    Args:
        t: the tensor of this replica.
        op: "add" or "mean".
        group: which replicas belong together; all by default.
        configure_output_for_replicated_tensor_sharding: whether the part is a shard, with the shape
            of `t` as its meta shape.

    Raises:
        Exception: As `replicated_all_reduce_strided` does.
    """
    check_op(op)
    return collectives.replicated_reduce_scatter(
        t, op, group, configure_output_for_replicated_tensor_sharding
    )


def layer_norm_distributed(
    t: popxl.Tensor,
    w: popxl.Tensor,
    b: popxl.Tensor,
    epsilon: float = 1e-5,
    group: popxl.ReplicaGrouping | None = None,
) -> popxl.Tensor:
    """Normalizes rows whose elements are spread over replicas.

    Mean and variance are those of the whole row, computed in float32.

    Args:
        t: this replica's part of the rows, `(n, size of a part)`.
        w: this replica's part of the factors, `(size of a part,)`.
        b: this replica's part of what is added, likewise.
        epsilon: a small number, added to the variance.
        group: which replicas have the rows together; all by default.

    Returns:
        A tensor like `t`.

    Raises:
        ValueError: If `t` is no matrix, or groups do not fit the replicas.
    """
    if t.rank != 2:
        raise ValueError(f"layer_norm_distributed takes a matrix. Received: t.shape={t.shape}")
    size = popxl.gir().replication_factor if group is None else group.group_size
    x = ops.cast(t, popxl.float32)
    x = x - _mean(x, size, group)
    normalized = x / ops.sqrt(_mean(x * x, size, group) + epsilon)
    scaled = normalized * ops.cast(w, popxl.float32) + ops.cast(b, popxl.float32)
    return ops.cast(scaled, t.dtype)


def _mean(x: popxl.Tensor, size: int, group: popxl.ReplicaGrouping | None) -> popxl.Tensor:
    """Returns the mean of whole rows."""
    return replicated_all_reduce(ops.sum(x, 1, keepdims=True), group=group) / (x.shape[1] * size)
