"""Phased execution: a graph as a loop over micro-batches; the module `batch_serialisation`."""

from tensorflow_ipu.frontends.popxl_addons.transforms.batch_serialisation.forward_and_gradient import (  # noqa: E501
    batch_serialise_fwd_and_grad,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.batch_serialisation.handles import (
    RemoteBufferWithOffset,
    RemoteHandle,
    batch_serial_buffer,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.batch_serialisation.serialise import (
    BatchSerialResult,
    batch_serialise,
    batch_serialise_non_overlapped,
    batch_serialise_overlapped,
)

__all__ = [
    "BatchSerialResult",
    "RemoteBufferWithOffset",
    "RemoteHandle",
    "batch_serial_buffer",
    "batch_serialise",
    "batch_serialise_fwd_and_grad",
    "batch_serialise_non_overlapped",
    "batch_serialise_overlapped",
]
