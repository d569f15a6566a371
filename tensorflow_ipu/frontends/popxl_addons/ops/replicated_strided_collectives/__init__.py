"""Collectives over replicas at a distance; `popxl_addons.ops.replicated_strided_collectives`."""

from tensorflow_ipu.frontends.popxl_addons.ops.replicated_strided_collectives.replicated_all_gather_strided import (  # noqa: E501
    replicated_all_gather_strided,
)
from tensorflow_ipu.frontends.popxl_addons.ops.replicated_strided_collectives.replicated_all_reduce_strided import (  # noqa: E501
    replicated_all_reduce_strided,
    replicated_all_reduce_strided_graph,
    replicated_all_reduce_strided_identical_grad_inputs,
    replicated_all_reduce_strided_identical_inputs,
)
from tensorflow_ipu.frontends.popxl_addons.ops.replicated_strided_collectives.replicated_reduce_scatter_strided import (  # noqa: E501
    replicated_reduce_scatter_strided,
)

__all__ = [
    "replicated_all_gather_strided",
    "replicated_all_reduce_strided",
    "replicated_all_reduce_strided_graph",
    "replicated_all_reduce_strided_identical_grad_inputs",
    "replicated_all_reduce_strided_identical_inputs",
    "replicated_reduce_scatter_strided",
]
