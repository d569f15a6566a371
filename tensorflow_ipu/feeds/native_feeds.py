"""Feeds: the internal halves of queues, and feeds of arrays without a dataset."""

from __future__ import annotations

import contextlib
import enum
import itertools
import os
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy.typing as npt
import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.data.ops import options as options_lib
from tensorflow.python.data.util import structure
from tensorflow.python.eager import context
from tensorflow.python.framework import dtypes, errors, func_graph, ops, tensor_shape
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import control_flow_ops
from tensorflow.python.util import nest

from tensorflow_ipu.configs.enums import SyntheticDataCategory
from tensorflow_ipu.feeds import common
from tensorflow_ipu.runtime import interpreter, native, system

# --- Base ---

_numbers = itertools.count()
# Attribute of graphs with the queues that they have ops of.
_QUEUES = "_ipu_queues"


class Feed:
    """Base of infeeds and outfeeds; each queue has one of the two.

    Queues are public classes, and have only the API's public names. Code that reads or fills a
    queue in a program gets its feed: `feed_of` in the module of the queue returns it.

    Attributes:
        native: The native half of the queue.
        device_ordinal: `k` of the device `/device:IPU:k`.
        element_spec: Nest of `tf.TensorSpec` of the tensors that pass at once on one replica. None
            for an outfeed before anything was enqueued.
    """

    element_spec: Any

    def __init__(self, kind: str, device_ordinal: int) -> None:
        """Makes the native half.

        Args:
            kind: "infeed" or "outfeed".
            device_ordinal: `k` of the device `/device:IPU:k`.
        """
        self.device_ordinal = device_ordinal
        self.native = NativeQueue(kind, device_ordinal)

    @property
    def id(self) -> str:
        """Name of the queue, which no other queue of this process has."""
        return self.native.id


class NativeQueue:
    """The native half of a queue, freed when nothing can use it any more.

    That is when its Python half and all graphs with an op of the queue are gone: graphs of programs
    that read or fill it, and of sessions.

    Attributes:
        id: Its name, which no other queue of this process has.
    """

    def __init__(self, kind: str, device_ordinal: int) -> None:
        """Makes a name. The queue itself is made when it is first used.

        Args:
            kind: "infeed" or "outfeed".
            device_ordinal: `k` of the device `/device:IPU:k`.
        """
        self.id = f"{kind}_{os.getpid()}_{next(_numbers)}"
        self._device_ordinal = device_ordinal
        self.drop_with(self)

    def drop_with(self, owner: object) -> None:
        """Drops the elements of the queue when an object is deleted.

        Args:
            owner: the object.
        """
        weakref.finalize(owner, native.drop_feed, self.id, self._device_ordinal).atexit = False

    def used_in_graph(self) -> None:
        """Records that the graph in scope has an op of the queue; does nothing in eager mode.

        The graphs around it count as well: they run its ops.
        """
        graph = None if context.executing_eagerly() else ops.get_default_graph()
        while graph is not None:
            if not hasattr(graph, _QUEUES):
                setattr(graph, _QUEUES, set())
            getattr(graph, _QUEUES).add(self)
            graph = _graph_around(graph)


def graphs_around() -> Iterator[ops.Graph]:
    """Yields the graph in scope, and those in which its function is called, innermost first."""
    graph = ops.get_default_graph()
    yield graph
    while isinstance(graph, func_graph.FuncGraph):
        graph = graph.outer_graph
        yield graph


def _graph_around(graph: ops.Graph) -> ops.Graph | None:
    """Returns the graph in which the function of a graph is called; None for the outermost."""
    if not isinstance(graph, func_graph.FuncGraph):
        return None
    outer = graph.outer_graph
    is_function = isinstance(outer, func_graph.FuncGraph)
    # In eager mode there is a graph around all functions that lives for ever.
    return outer if is_function or not ops.executing_eagerly_outside_functions() else None


# --- Infeeds ---


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


# --- Outfeeds ---


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


# --- Feeds of arrays ---

#: Types of the tensors that these feeds carry: only the plan reads them.
TYPES = (*common.SUPPORTED_DTYPES, tf.int16, tf.uint16, tf.uint32)


class ArrayInfeed(ProgramInput):
    """An infeed that passes elements of arrays to programs.

    Element k of the arrays is for replica k modulo the number of replicas. A program that reads
    further ends with `tf.errors.OutOfRangeError`.
    """

    def __init__(self, specs: Sequence[tf.TensorSpec], device_ordinal: int) -> None:
        """Makes an infeed, which has to be filled before a program runs.

        Args:
            specs: type and shape of each tensor of an element, fully defined.
            device_ordinal: `k` of the device `/device:IPU:k`.

        Raises:
            tf.errors.FailedPreconditionError: If the device has no such type.
        """
        super().__init__(tuple(specs), device_ordinal)
        common.check_dtypes("infeed", self.types, TYPES)
        self._layout = native.ElementLayout(specs)
        native.ops()  # connects the engine

    def fill(
        self,
        elements: int,
        arrays: Sequence[npt.NDArray[Any]],
        rows: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Replaces the remaining elements by elements of arrays.

        Args:
            elements: number of elements.
            arrays: for each tensor of an element an array in C order, of its type, with one
                element after the other. The values are copied.
            rows: for each tensor the row of its array that each element has. Elements with the
                same row share memory. By default, element k has row k.

        Raises:
            ValueError: If an array is too small, or not in C order.
        """
        sizes = [elements] * len(arrays) if rows is None else [max(own) + 1 for own in rows]
        for shape, dtype, array, size in zip(self.shapes, self.types, arrays, sizes):
            needed = size * shape.num_elements() * dtype.size
            if array.nbytes < needed or not array.flags.c_contiguous:
                raise ValueError(
                    f"Expected an array in C order of {size} times {dtype.name}{tuple(shape)}. "
                    f"Received: {array.dtype}{list(array.shape)} with strides {array.strides}"
                )
        native.fill_infeed(self.id, self.device_ordinal, self._layout, elements, arrays, rows)


class ArrayOutfeed(Outfeed):
    """An outfeed that moves tensors of programs to arrays of the host."""

    supported = TYPES

    def __init__(self, device_ordinal: int) -> None:
        """Makes an outfeed.

        Args:
            device_ordinal: `k` of the device `/device:IPU:k`.
        """
        super().__init__(device_ordinal, IPUOutfeedMode.ALL)

    def take(
        self,
        groups: int,
        arrays: Sequence[npt.NDArray[Any]],
        rows: Sequence[Sequence[int]] | None = None,
    ) -> int:
        """Moves enqueued elements into arrays.

        Args:
            groups: capacity of the arrays, in groups of one element for each replica.
            arrays: for each tensor of an element an array in C order, of its type, which gets one
                element after the other, the replicas' in turn.
            rows: for each tensor the row of each replica among those of a group, or -1 if its
                value is not wanted. By default, replica k has row k.

        Returns:
            Number of groups. If it exceeds the capacity, the arrays are unchanged.
        """
        return native.take_outfeed(self.id, self.device_ordinal, groups, arrays, rows)

    def drop(self) -> None:
        """Drops the enqueued elements."""
        native.take_outfeed(self.id, self.device_ordinal, 0, None)
