"""`seed_variable`: seeds of random numbers that last, one for each replica; the module of it."""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops

__all__ = ["seed_variable"]


def seed_variable(
    seed: int, replica_grouping: popxl.ReplicaGrouping | None = None
) -> tuple[popxl.Variable, popxl.Tensor]:
    """Makes seeds of random numbers, which are kept with the weights.

    Args:
        seed: where the seeds come from.
        replica_grouping: which replicas have the same seed; each has its own by default.

    Returns:
        The variable, and the seed of this replica as a tensor of uint32 of the shape `(2,)`. What
        ops write into that is there in the next run, and comes to the host with the variable.

    Raises:
        ValueError: If the current graph is not the main graph.
    """
    ir = popxl.gir()
    grouping = replica_grouping or ir.replica_grouping(group_size=1)
    seeds = popxl.create_seeds(seed, replicas=grouping.num_groups)
    buffer = popxl.remote_buffer((2,), popxl.uint32)
    variable = popxl.remote_variable(
        seeds, buffer, 0, popxl.uint32, "seed", replica_grouping=grouping
    )
    with popxl.context.execution_context(popxl.ExecutionContext.WeightsFromHostFragment):
        tensor = ops.remote_load(buffer, 0, "seed_tensor")
    with popxl.context.execution_context(popxl.ExecutionContext.WeightsToHostFragment):
        ops.remote_store(buffer, 0, tensor)
    return variable, tensor
