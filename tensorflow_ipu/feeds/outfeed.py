"""Outfeeds: the internal half of outfeed queues."""

from __future__ import annotations

import enum
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import dtypes, ops, tensor_shape
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import control_flow_ops
from tensorflow.python.util import nest

from tensorflow_ipu.configs.enums import SyntheticDataCategory
from tensorflow_ipu.device import system
from tensorflow_ipu.feeds import common
from tensorflow_ipu.feeds.feed import Feed
from tensorflow_ipu.runtime import interpreter, native


class IPUOutfeedMode(enum.Enum):
    """Which elements an outfeed keeps for the host.

    * `ALL`: every element that was enqueued.
    * `LAST`: the last element that was enqueued.
    """

    ALL = "all"
    LAST = "get_last"


class Outfeed(Feed):
    """An outfeed that takes tensors of programs to the host.

    Attributes:
        mode: Which elements it keeps.
    """

    #: Types that elements may have.
    supported: tuple[dtypes.DType, ...] = common.SUPPORTED_DTYPES

    def __init__(self, device_ordinal: int, mode: IPUOutfeedMode) -> None:
        """Makes an outfeed.

        Args:
            device_ordinal: `k` of the device `/device:IPU:k`.
            mode: which elements it keeps.
        """
        super().__init__("outfeed", device_ordinal)
        self.element_spec = None
        self.mode = mode

    def enqueue(self, tensors: Any) -> ops.Operation:
        """Adds the sending of tensors to the program being built; see `IPUOutfeedQueue.enqueue`."""
        flat = [ops.convert_to_tensor(tensor) for tensor in nest.flatten(tensors)]
        if not flat:
            raise ValueError(f"There are no tensors to enqueue. Received: tensors={tensors!r}")
        common.check_dtypes("outfeed queue", [tensor.dtype for tensor in flat], self.supported)
        specs = [tensor_lib.TensorSpec(tensor.shape, tensor.dtype) for tensor in flat]
        self.element_spec = nest.pack_sequence_as(tensors, specs)
        if common.is_synthetic(SyntheticDataCategory.Outfeed):
            return control_flow_ops.group(*flat)
        self.native.used_in_graph()
        return native.ops().ipu_outfeed_enqueue(
            flat,
            feed_id=self.id,
            mode=self.mode.value,
            shapes=[spec.shape for spec in specs],
        )

    def dequeue(self, wait_for_completion: bool) -> Any:
        """Takes the enqueued elements; see `IPUOutfeedQueue.dequeue`.

        Args:
            wait_for_completion: whether to wait in mode `ALL` too.

        Returns:
            The structure of `element_spec`.
        """
        element_spec = self.element_spec  # another thread may be tracing
        specs = nest.flatten(element_spec)
        with common.on_host():
            self.native.used_in_graph()
            tensors = interpreter.call(
                native.ops().ipu_outfeed_dequeue,
                feed_id=self.id,
                device_ordinal=self.device_ordinal,
                mode=self.mode.value,
                output_types=[spec.dtype for spec in specs],
                output_shapes=[spec.shape for spec in specs],
                wait_for_completion=wait_for_completion,
                synthetic=common.is_synthetic(SyntheticDataCategory.Outfeed),
            )
        if not context.executing_eagerly():
            for tensor, spec in zip(tensors, specs):
                tensor.set_shape(self._static_shape(spec.shape))
        return nest.pack_sequence_as(element_spec, tensors)

    def _static_shape(self, shape: tensor_shape.TensorShape) -> tensor_shape.TensorShape:
        """Returns the shape of a dequeued tensor as known before compilation.

        Args:
            shape: shape of the enqueued tensor.
        """
        if not self._has_one_replica():
            return tensor_shape.unknown_shape()
        if self.mode is IPUOutfeedMode.LAST:
            return shape
        return tensor_shape.TensorShape([None]).concatenate(shape)

    def _has_one_replica(self) -> bool:
        """Returns whether the device is configured, with a single IPU."""
        if not system.is_configured():
            return False
        devices = system.current().devices
        return self.device_ordinal < len(devices) and devices[self.device_ordinal].num_ipus == 1

    def delete(self) -> ops.Operation | None:
        """Returns an op that frees the queue. In eager mode, frees it."""
        with common.on_host():
            self.native.used_in_graph()
            return native.ops().ipu_outfeed_delete(
                feed_id=self.id, device_ordinal=self.device_ordinal
            )
