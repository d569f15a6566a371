"""Collectives between replicas, and between the IPUs of a replica: `popxl.ops.collectives`."""

from tensorflow_ipu.frontends.popxl.ops.collectives.across_replicas import (
    CommGroup,
    CommGroupType,
    replica_sharded_slice,
    replicated_all_gather,
    replicated_all_reduce,
    replicated_all_reduce_,
    replicated_all_reduce_with_grad,
    replicated_reduce_scatter,
    replicated_slice,
)
from tensorflow_ipu.frontends.popxl.ops.collectives.within_replica import (
    all_reduce,
    all_reduce_identical_grad_inputs,
    all_reduce_identical_inputs,
)
