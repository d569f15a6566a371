"""Collectives between replicas, and between the IPUs of a replica: `popxl.ops.collectives`."""

from tensorflow_ipu.frontends.popxl.ops.collectives.reductions import (
    CommGroup,
    CommGroupType,
    replicated_all_reduce,
    replicated_all_reduce_,
    replicated_all_reduce_with_grad,
    replicated_reduce_scatter,
)
from tensorflow_ipu.frontends.popxl.ops.collectives.slices import (
    replica_sharded_slice,
    replicated_all_gather,
    replicated_slice,
)
from tensorflow_ipu.frontends.popxl.ops.collectives.within_replica import (
    all_reduce,
    all_reduce_identical_grad_inputs,
    all_reduce_identical_inputs,
)
