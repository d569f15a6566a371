"""Iterators over datasets in programs: an infeed queue behind Python's `next`."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

from tensorflow.python.data.ops import dataset_ops, iterator_ops, map_op
from tensorflow.python.eager import context
from tensorflow.python.framework import dtypes, ops, type_spec
from tensorflow.python.types import trace

from tensorflow_ipu.feeds import common
from tensorflow_ipu.feeds.ipu_infeed_queue import DataInfeedQueue, IPUInfeedQueue, feed_of
from tensorflow_ipu.util.short_repr import shows


class IPUIterator(iterator_ops.OwnedIterator):
    """An iterator whose `next` reads an infeed queue, in a function that runs on the IPU.

    It can be captured by such a function, or passed to it as an argument.
    """

    def __init__(
        self,
        dataset: dataset_ops.DatasetV2 | None = None,
        infeed_spec: IPUInfeedQueue | None = None,
        element_spec: Any = None,
        **kwargs: Any,
    ) -> None:
        """Creates an iterator over a dataset, or over a queue that exists.

        Args:
            dataset: the dataset. In eager mode its queue is initialized at once.
            infeed_spec: the queue to read, when there is no dataset.
            element_spec: the `element_spec` of that queue's dataset.
            **kwargs: arguments of `IPUInfeedQueue`.

        Raises:
            ValueError: Unless there is either a dataset or both specs, and as for
                `IPUInfeedQueue`.
        """
        if dataset is not None:
            if infeed_spec is not None or element_spec is not None:
                raise ValueError(
                    "When `dataset` is given, `infeed_spec` and `element_spec` must not be. "
                    f"Received: infeed_spec={infeed_spec}, element_spec={element_spec}"
                )
            self._queue: IPUInfeedQueue = DataInfeedQueue(dataset, **kwargs)
            if context.executing_eagerly():
                self._queue.initializer  # noqa: B018  (reading it initializes)
        elif infeed_spec is None or element_spec is None:
            raise ValueError(
                "Without `dataset`, both `infeed_spec` and `element_spec` must be given. "
                f"Received: infeed_spec={infeed_spec}, element_spec={element_spec}"
            )
        else:
            self._queue = infeed_spec
        self._element_spec = feed_of(self._queue).element_spec
        self._spec = _IPUIteratorSpec(self)

    __repr__ = shows(
        lambda self: {
            "": common.structure_text(self._element_spec),
            "device_ordinal": feed_of(self._queue).device_ordinal,
        }
    )

    @property
    def initializer(self) -> ops.Operation | None:
        """The `initializer` of the queue, for graph mode."""
        return self._queue.initializer

    @property
    def deleter(self) -> ops.Operation | None:
        """The `deleter` of the queue."""
        return self._queue.deleter

    @property
    def _type_spec(self) -> _IPUIteratorSpec:
        return self._spec

    @common.without_autograph
    def _next_internal(self) -> Any:
        if context.executing_eagerly():
            raise RuntimeError(
                "Accessing dataset elements: those of an IPU iterator can not be accessed in eager "
                "mode. Call next() in a function that runs on the IPU, or create the strategy with "
                "IPUStrategy(enable_dataset_iterators=False) to iterate on the host."
            )
        return feed_of(self._queue).dequeue()

    def __next__(self) -> Any:
        """Reads an element.

        Returns:
            The element, nested like `element_spec`.

        Raises:
            RuntimeError: In eager mode.
        """
        return self._next_internal()

    def get_next_as_optional(self) -> NoReturn:
        """Raises an error: a program cannot ask whether there is another element.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "IPU iterators have no get_next_as_optional, which `for x in iterator` needs inside a "
            "function. Use `for _ in tf.range(n)` and next(iterator)."
        )

    def _not_saved(self, *args: Any) -> NoReturn:
        """Raises if the iterator is saved in a checkpoint."""
        raise NotImplementedError(
            "IPU iterators cannot be checkpointed: elements have already been read ahead."
        )

    _save = _restore = _not_saved
    _serialize_to_tensors = _restore_from_tensors = _copy_trackable_to_cpu = _not_saved


class IPUOwnedIterator(IPUIterator):
    """An `IPUIterator` that owns its queue."""

    def __init__(
        self,
        dataset: dataset_ops.DatasetV2 | None = None,
        infeed_spec: IPUInfeedQueue | None = None,
        element_spec: Any = None,
        **kwargs: Any,
    ) -> None:
        """Creates an iterator; see `IPUIterator` for arguments and errors."""
        super().__init__(dataset, infeed_spec, element_spec, **kwargs)
        feed_of(self._queue).native.drop_with(self)


class _IPUIteratorSpec(type_spec.TypeSpec):
    """The type of one iterator in TensorFlow's type system.

    An iterator has no tensors: which queue it reads is part of the traced function. So each is a
    type of its own, whose only value is that iterator.
    """

    __slots__ = ("_iterator", "_feed_id", "_element_spec")

    def __init__(self, iterator: IPUIterator) -> None:
        self._iterator = weakref.ref(iterator)
        self._feed_id = feed_of(iterator._queue).id
        self._element_spec = iterator._element_spec

    @property
    def value_type(self) -> type[IPUIterator]:
        return IPUIterator

    def _serialize(self) -> tuple[Any, ...]:
        return (self._feed_id, self._element_spec)

    # The base class would answer these with copies, made from the result of `_serialize`. But there
    # is only one spec of an iterator.

    def _without_tensor_names(self) -> _IPUIteratorSpec:
        return self

    def most_specific_common_supertype(
        self, others: Sequence[trace.TraceType]
    ) -> _IPUIteratorSpec | None:
        """Returns this spec if all `others` are equal to it."""
        return self if all(other == self for other in others) else None

    @property
    def _component_specs(self) -> tuple[()]:
        return ()

    def _to_components(self, value: IPUIterator) -> tuple[()]:
        return ()

    def _from_components(self, components: tuple[()]) -> IPUIterator:
        iterator = self._iterator()
        if iterator is None:
            raise RuntimeError("The IPU iterator of this function no longer exists.")
        return iterator


def make_owned_iterator(dataset: dataset_ops.DatasetV2) -> IPUOwnedIterator:
    """Returns the iterator for `iter(dataset)` in the scope of an `IPUStrategy`.

    Args:
        dataset: a dataset that an `IPUInfeedQueue` accepts.
    """
    return IPUOwnedIterator(dataset, device_ordinal=None)


def of_host_iterator(iterator: iterator_ops.OwnedIterator, device_ordinal: int) -> IPUOwnedIterator:
    """Returns an iterator through which programs read the elements that a host iterator has left.

    It is the same one each time, so elements that it has read ahead are not lost.

    Args:
        iterator: the iterator of the host, in eager mode.
        device_ordinal: `k` of the device `/device:IPU:k` whose programs read it.
    """
    # Here, for they own the elements of the host's iterator, and go with it.
    made: dict[int, IPUOwnedIterator] = vars(iterator).setdefault("_ipu_iterators", {})
    if device_ordinal not in made:
        # The end of the iterator is that of the dataset, and no error of its function.
        elements = map_op._MapDataset(
            dataset_ops.Dataset.range(dtypes.int64.max),
            lambda _: iterator.get_next(),
            preserve_cardinality=False,
        )
        made[device_ordinal] = IPUOwnedIterator(elements, device_ordinal=device_ordinal)
    return made[device_ordinal]
