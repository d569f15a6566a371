"""A classifier's loss from logits of several replicas; `ops.cross_entropy_sharded_loss`."""

from tensorflow_ipu.frontends.popxl_addons.ops.cross_entropy_sharded_loss.cross_entropy_sharded_loss import (  # noqa: E501
    REDUCTION_TYPE,
    cross_entropy_sharded_loss,
)

__all__ = [
    "REDUCTION_TYPE",
    "cross_entropy_sharded_loss",
]
