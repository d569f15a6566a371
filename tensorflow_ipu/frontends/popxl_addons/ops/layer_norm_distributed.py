"""Layer normalization over replicas; `popxl_addons.ops.layer_norm_distributed`."""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl_addons.ops.replicated_all_reduce_TP import replicated_all_reduce

__all__ = ["layer_norm_distributed"]


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
        epsilon: what is added to the variance.
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
