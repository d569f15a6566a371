"""Infeeds: the internal half of infeed queues."""

from __future__ import annotations

import contextlib
from typing import Any

from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.data.ops import options as options_lib
from tensorflow.python.data.util import structure
from tensorflow.python.framework import dtypes, errors, ops

from tensorflow_ipu.feeds import common
from tensorflow_ipu.feeds.feed import Feed
from tensorflow_ipu.runtime import interpreter, native


class ProgramInput(Feed):
    """Base of infeeds, which give programs their elements.

    Attributes:
        types: Type of each tensor of an element.
        shapes: Shape of each tensor of an element.
        dequeued: Whether some program reads the queue.
    """

    def __init__(self, element_spec: Any, device_ordinal: int) -> None:
        """Makes an infeed without elements.

        Args:
            element_spec: nest of `tf.TensorSpec` of the tensors of an element.
            device_ordinal: `k` of the device `/device:IPU:k`.
        """
        super().__init__("infeed", device_ordinal)
        self.element_spec = element_spec
        self.types = structure.get_flat_tensor_types(element_spec)
        self.shapes = structure.get_flat_tensor_shapes(element_spec)
        self.dequeued = False

    @common.without_autograph
    def dequeue(self) -> Any:
        """Adds the reading of one element to the program being built.

        Returns:
            The element, nested like `element_spec`.
        """
        if common.infeed_is_off():
            tensors = [
                common.synthetic_tensor(dtype, shape)
                for dtype, shape in zip(self.types, self.shapes)
            ]
        else:
            self.native.used_in_graph()
            tensors = native.ops().ipu_infeed_dequeue(
                feed_id=self.id, output_types=self.types, output_shapes=self.shapes
            )
        self.dequeued = True
        return structure.from_compatible_tensor_list(self.element_spec, tensors)


class Infeed(ProgramInput):
    """An infeed that passes the elements of a dataset to programs.

    Attributes:
        dataset: The dataset that the native half reads.
        prefetch_depth: Elements for each replica to read ahead.
    """

    #: Types that elements may have.
    supported: tuple[dtypes.DType, ...] = common.INFEED_DTYPES

    def __init__(
        self, dataset: dataset_ops.DatasetV2, device_ordinal: int, prefetch_depth: int
    ) -> None:
        """Makes an infeed, which has to be initialized before a program runs.

        Args:
            dataset: a dataset whose elements have fully defined shapes.
            device_ordinal: `k` of the device `/device:IPU:k`.
            prefetch_depth: elements for each replica to read ahead.

        Raises:
            ValueError: If elements have no tensors, or a shape is not fully defined.
        """
        self._source = dataset
        self.dataset = _for_queue(dataset)
        self.prefetch_depth = prefetch_depth
        super().__init__(self.dataset.element_spec, device_ordinal)
        self._check_elements()

    def _check_elements(self) -> None:
        """Raises for datasets whose elements cannot be sent to a device."""
        if not self.types:
            raise ValueError(
                f"The dataset has no tensors. Received: element_spec={self.element_spec}"
            )
        for shape in self.shapes:
            if not shape.is_fully_defined():
                raise ValueError(
                    f"Output shape {shape} is not fully defined. If using tf.Dataset.batch, set "
                    "`drop_remainder=True`. Programs need to know all shapes: tf.ensure_shape in "
                    f"a map sets one. Received: element_spec={self.element_spec}"
                )

    def initialize(self) -> ops.Operation | None:
        """Returns an op that makes the queue ready for use. In eager mode, makes it ready."""
        with ops.init_scope(), common.on_host():
            self.native.used_in_graph()
            return interpreter.call(
                native.ops().ipu_infeed_initialize,
                self.dataset._variant_tensor,
                feed_id=self.id,
                device_ordinal=self.device_ordinal,
                prefetch_depth=self.prefetch_depth,
                output_types=self.types,
                output_shapes=self.shapes,
                supported_types=self.supported,
            )

    def restart(self, dataset: dataset_ops.DatasetV2) -> None:
        """Reads a dataset from its beginning, in eager mode; see `IPUInfeedQueue.restart`."""
        if dataset.element_spec != self.element_spec:
            raise ValueError(
                "An infeed queue can only go on with elements of the same form. Expected: "
                f"{self.element_spec}. Received: {dataset.element_spec}"
            )
        if dataset is not self._source:
            # TensorFlow optimizes a dataset once, so it pays to keep it.
            self._source = dataset
            self.dataset = _for_queue(dataset)
        # One that has not come to its end would be in the way of the new one.
        with contextlib.suppress(errors.NotFoundError):
            self.delete()
        self.initialize()

    def delete(self) -> ops.Operation | None:
        """Returns an op that frees the queue. In eager mode, frees it."""
        with common.on_host():
            self.native.used_in_graph()
            return interpreter.call(
                native.ops().ipu_infeed_delete,
                feed_id=self.id,
                device_ordinal=self.device_ordinal,
            )


class DataInfeed(Infeed):
    """The feed of `DataInfeedQueue`."""

    supported = common.SUPPORTED_DTYPES

    def _check_elements(self) -> None:
        """Raises at once for unsupported types, which need no traced program."""
        super()._check_elements()
        common.check_dtypes("infeed queue", self.types)


def _for_queue(dataset: dataset_ops.DatasetV2) -> dataset_ops.DatasetV2:
    """Returns a dataset with options that leave prefetching and tuning to the queue.

    * The queue prefetches: another thread in between would only add work.
    * Without a tuning thread, tunable stages use all cores from the start. That thread often misses
      the deletion of its dataset, and blocks the deleting thread for up to a minute
      (`CancellationManager` calls its callbacks before its state is "cancelled").
    """
    options = options_lib.Options()
    options.experimental_optimization.inject_prefetch = False
    options.autotune.enabled = False
    return dataset.with_options(options)._apply_debug_options()
