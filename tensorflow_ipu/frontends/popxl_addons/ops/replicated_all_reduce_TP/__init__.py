"""Sums over replicas, with gradients; `popxl_addons.ops.replicated_all_reduce_TP`."""

from tensorflow_ipu.frontends.popxl_addons.ops.replicated_all_reduce_TP.replicated_all_reduce_TP import (  # noqa: E501
    replicated_all_reduce,
    replicated_all_reduce_identical_grad_inputs,
    replicated_all_reduce_identical_inputs,
)

__all__ = [
    "replicated_all_reduce",
    "replicated_all_reduce_identical_grad_inputs",
    "replicated_all_reduce_identical_inputs",
]
