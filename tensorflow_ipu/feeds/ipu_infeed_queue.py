"""`IPUInfeedQueue`: feeds the elements of a dataset to a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.eager import context
from tensorflow.python.framework import ops

from tensorflow_ipu.configs.ranges import Range
from tensorflow_ipu.feeds import common
from tensorflow_ipu.feeds.infeed import DataInfeed, Infeed
from tensorflow_ipu.util.short_repr import shows

if TYPE_CHECKING:
    from tensorflow_ipu.feeds.iterators import IPUIterator, IPUOwnedIterator, make_owned_iterator

_DEFAULT_PREFETCH_DEPTH = 3
_PREFETCH_DEPTH = Range(
    1, 255, "elements", below="must be greater than zero", above="must be less than 256"
)

__all__ = ["IPUInfeedQueue", "IPUIterator", "IPUOwnedIterator", "make_owned_iterator"]


def __getattr__(name: str) -> Any:
    """Imports the iterators, which depend on this module."""
    if name in ("IPUIterator", "IPUOwnedIterator", "make_owned_iterator"):
        from tensorflow_ipu.feeds import iterators

        return getattr(iterators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class IPUInfeedQueue:
    """Feeds the elements of a `tf.data.Dataset` to a program, without going through Python.

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
                elements are read further ahead.
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
        """Lets programs read a dataset from its beginning, in eager mode.

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
