"""`IPUInfeedQueue`, which feeds a dataset to a program, and iterators that read such queues."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

from tensorflow.python.data.ops import dataset_ops, iterator_ops, map_op
from tensorflow.python.eager import context
from tensorflow.python.framework import dtypes, ops, type_spec
from tensorflow.python.types import trace

from tensorflow_ipu.configs.ranges import Range
from tensorflow_ipu.feeds import common
from tensorflow_ipu.feeds.native_feeds import DataInfeed, Infeed
from tensorflow_ipu.util.short_repr import shows

__all__ = ["IPUInfeedQueue", "IPUIterator", "IPUOwnedIterator", "make_owned_iterator"]
_DEFAULT_PREFETCH_DEPTH = 3
_PREFETCH_DEPTH = Range(
    1, 255, "elements", below="must be greater than zero", above="must be less than 256"
)


class IPUInfeedQueue:
    """A queue that feeds the elements of a `tf.data.Dataset` to a program, without Python.

    Pass the queue to `loops.repeat` and the like, which hand each element to the loop body. With
    `R` replicas, replica `r` gets elements `r`, `R + r`, `2 * R + r`, ... Elements are read ahead
    by native threads; those that a run leaves over are there for the next run.

    In graph mode run `initializer` before the program. In eager mode read `initializer`.

    The queue is freed when nothing can read it any more: when this object is gone, and all programs
    and graphs that have something of it.
    """

    def __init__(
        self,
        dataset: dataset_ops.DatasetV2,
        feed_name: str | None = None,
        device_ordinal: int | None = common.ORDINAL_IN_SCOPE,
        replication_factor: int = 1,
        data_to_prefetch: int = 1,
        prefetch_depth: int | None = None,
        optimise_latency: bool = False,
    ) -> None:
        """Creates a queue. The dataset must not be used for anything else afterwards.

        Args:
            dataset: a dataset whose elements have fully defined shapes.
            feed_name: deprecated; names are generated.
            device_ordinal: `k` of the device `/device:IPU:k` whose programs read the queue. By
                default, and with None, the ordinal of the current `IPUStrategy`, or 0.
            replication_factor: deprecated; it follows from the program.
            data_to_prefetch: deprecated; use `prefetch_depth`.
            prefetch_depth: elements for each replica to read ahead, 1 to 255 (default 3). Small
                elements are read further ahead, and elements for a replica with accumulators.
            optimise_latency: whether to move data with little delay rather than little overhead.
                There is no transfer here to which that would apply.

        Raises:
            TypeError: If `dataset` is no dataset.
            ValueError: If a shape is not fully defined, the prefetch depth is out of range, or
                the ordinal is not an integer >= 0.
        """
        del optimise_latency
        if not isinstance(dataset, dataset_ops.DatasetV2):
            raise TypeError(f"Expected a tf.data.Dataset. Received: dataset={dataset!r}")
        common.warn_ignored(
            "IPUInfeedQueue",
            {"feed_name": (feed_name, None), "replication_factor": (replication_factor, 1)},
            "It is set automatically.",
        )
        common.warn_ignored(
            "IPUInfeedQueue", {"data_to_prefetch": (data_to_prefetch, 1)}, "Use prefetch_depth."
        )
        self._feed = self._feed_class(
            dataset, common.check_ordinal(device_ordinal), check_prefetch_depth(prefetch_depth)
        )
        self._initializer_read = False

    _feed_class: type[Infeed] = Infeed

    __repr__ = shows(
        lambda self: {
            "": common.structure_text(self._feed.element_spec),
            "device_ordinal": self._feed.device_ordinal,
            "prefetch_depth": self._feed.prefetch_depth,
        }
    )

    @property
    def initializer(self) -> ops.Operation | None:
        """An op that makes the queue ready for use. In eager mode, makes it ready at once.

        Raises:
            ValueError: In graph mode, when read a second time.
            tf.errors.FailedPreconditionError: When it runs: the device does not take the type of a
                tensor (float32, float16, int32, int8, uint8 and bool it does).
            tf.errors.InvalidArgumentError: When it runs: a tensor has a dimension of size 0.
        """
        if not context.executing_eagerly():
            if self._initializer_read:
                raise ValueError(
                    "The IPUInfeedQueue `initializer` function can only be accessed once. Keep the "
                    "op, or create a new queue to start the dataset again."
                )
            self._initializer_read = True
        return self._feed.initialize()

    def restart(self, dataset: dataset_ops.DatasetV2) -> None:
        """Restarts the queue at the beginning of a dataset, in eager mode.

        Elements read ahead are dropped. Programs that read the queue remain valid.

        Args:
            dataset: the dataset of the queue again, or another with the same types and shapes.

        Raises:
            ValueError: If its elements have other types or shapes.
        """
        self._feed.restart(dataset)

    @property
    def deleter(self) -> ops.Operation | None:
        """An op that frees the queue, once no program uses it. In eager mode, frees it at once."""
        return self._feed.delete()

    @property
    def dequeued(self) -> bool:
        """Whether some program reads the queue."""
        return self._feed.dequeued

    @property
    def number_of_tuple_elements(self) -> int:
        """Number of tensors in an element, nested ones included."""
        return len(self._feed.types)

    def get_next(self) -> None:
        """Raises an error: programs read queues through `loops` and pipelines.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "IPUInfeedQueue.get_next is obsolete. Pass the queue as infeed_queue to loops.repeat, "
            "loops.while_loop or pipelining_ops.pipeline, whose body receives the elements."
        )

    @common.without_autograph
    def _dequeue(self) -> Any:
        """Adds the reading of one element to the program being built; see `Infeed.dequeue`."""
        # The package does not call it. Programs do, to read a queue where there is no loop.
        return self._feed.dequeue()


class DataInfeedQueue(IPUInfeedQueue):
    """An infeed for any user data: for Keras, Estimators and iterators over datasets.

    It takes integers of 64 bits as well, the default of NumPy and tf.data. Only their lower 32 bits
    go to the device.
    """

    _feed_class = DataInfeed


def feed_of(queue: IPUInfeedQueue) -> Infeed:
    """Returns the internal half of a queue.

    Args:
        queue: the queue.

    Raises:
        TypeError: If it is no `IPUInfeedQueue`.
    """
    if not isinstance(queue, IPUInfeedQueue):
        raise TypeError(f"Expected an IPUInfeedQueue. Received: infeed_queue={queue!r}")
    return queue._feed


def element_arguments(element: Any) -> tuple[list[Any], dict[str, Any]]:
    """Returns the arguments of a function that an element of an infeed stands for.

    Args:
        element: members of a tuple are positional arguments. Members of a dict, also of a tuple's
            only member, are keyword arguments. Anything else is one positional argument.
    """
    members = element if isinstance(element, tuple) else (element,)
    if len(members) == 1 and isinstance(members[0], dict):
        (keywords,) = members
        if all(isinstance(key, str) for key in keywords):
            return [], dict(keywords)
    return list(members), {}


def check_prefetch_depth(depth: int | None) -> int:
    """Returns the prefetch depth to use.

    Args:
        depth: the user's argument; None for the default.

    Raises:
        ValueError: If it is no integer in the range.
    """
    return (
        _DEFAULT_PREFETCH_DEPTH if depth is None else _PREFETCH_DEPTH.whole("prefetch_depth", depth)
    )


# --- Iterators ---


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
