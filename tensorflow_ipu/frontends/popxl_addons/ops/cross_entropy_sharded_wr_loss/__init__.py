"""A classifier's loss from logits on several IPUs; `ops.cross_entropy_sharded_wr_loss`."""

from tensorflow_ipu.frontends.popxl_addons.ops.cross_entropy_sharded_wr_loss.cross_entropy_sharded_wr_loss import (  # noqa: E501
    cross_entropy_sharded_wr_loss,
    handle_ipus,
)

__all__ = [
    "cross_entropy_sharded_wr_loss",
    "handle_ipus",
]
