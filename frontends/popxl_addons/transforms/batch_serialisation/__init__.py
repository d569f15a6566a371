"""Phased execution: a graph as a loop over micro-batches; the module `batch_serialisation`."""

from tensorflow_ipu.frontends.popxl_addons.transforms.batch_serialisation.forward_and_gradient import (  # noqa: E501
    batch_serialise_fwd_and_grad,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.batch_serialisation.handles import (
    RemoteHandle,
    batch_serial_buffer,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.batch_serialisation.serialise import (
    BatchSerialResult,
    batch_serialise,
)

__all__ = [
    "BatchSerialResult",
    "RemoteHandle",
    "batch_serial_buffer",
    "batch_serialise",
    "batch_serialise_fwd_and_grad",
]
