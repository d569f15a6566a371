"""`IPUOutfeedQueue`: sends tensors from a running program to the host."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import func_graph, ops
from tensorflow.python.util import nest

from tensorflow_ipu.configs.ranges import INT32, Range
from tensorflow_ipu.feeds import common
from tensorflow_ipu.feeds.native_feeds import IPUOutfeedMode, Outfeed, graphs_around
from tensorflow_ipu.util.short_repr import shows

__all__ = [
    "IPUOutfeedMode",
    "IPUOutfeedQueue",
    "IPUOutfeedQueueIterator",
    "ScopedIPUOutfeedQueue",
]

_BUFFER_DEPTH = Range(1, INT32, "elements", below="cannot be less than 1")


class IPUOutfeedQueue:
    """A queue that takes tensors from a program to the host.

    In the program, `enqueue` a tensor, or a tuple, list or dict of tensors. On the host, `dequeue`
    gives the same structure, where a tensor enqueued with shape `S` has the shape

    * mode `ALL`: `[n] + S`, or `[n, R] + S` with `R > 1` replicas, for the `n` elements of each
      replica since the last dequeue, in order of execution;
    * mode `LAST`: `S`, or `[R] + S`.
    """

    def __init__(
        self,
        feed_name: str | None = None,
        outfeed_mode: IPUOutfeedMode | None = None,
        device_ordinal: int | None = common.ORDINAL_IN_SCOPE,
        replication_factor: int | None = None,
        io_batch_size: int = 1,
        buffer_depth: int = 3,
        optimise_latency: bool = False,
    ) -> None:
        """Creates a queue.

        Args:
            feed_name: deprecated; names are generated. A mode is accepted instead.
            outfeed_mode: the elements to keep; all when None.
            device_ordinal: `k` of the device `/device:IPU:k` whose program fills the queue. By
                default, and with None, the ordinal of the current `IPUStrategy`, or 0.
            replication_factor: deprecated; it follows from the program.
            io_batch_size: deprecated; accumulate results in the program instead.
            buffer_depth: elements the device could send before the host takes them, at least 1.
                Here there is always room.
            optimise_latency: whether to move data with little delay rather than little overhead.
                There is no transfer here to which that would apply.

        Raises:
            ValueError: If the mode is no `IPUOutfeedMode`, the buffer depth is below 1, or the
                ordinal is not an integer >= 0.
        """
        del optimise_latency
        if isinstance(feed_name, IPUOutfeedMode) and outfeed_mode is None:
            feed_name, outfeed_mode = None, feed_name
        mode = IPUOutfeedMode.ALL if outfeed_mode is None else outfeed_mode
        if not isinstance(mode, IPUOutfeedMode):
            raise ValueError(
                "outfeed_mode must be IPUOutfeedMode.ALL or IPUOutfeedMode.LAST. "
                f"Received: {outfeed_mode!r}"
            )
        check_buffer_depth(buffer_depth)
        common.warn_ignored(
            "IPUOutfeedQueue",
            {
                "feed_name": (feed_name, None),
                "replication_factor": (replication_factor, None),
                "io_batch_size": (io_batch_size, 1),
            },
            "No change is needed.",
        )
        self._feed = Outfeed(common.check_ordinal(device_ordinal), mode)
        self._creator = threading.get_ident()
        self._enqueued_in: weakref.ref[ops.Graph] | None = None
        # The graphs below which something was enqueued, and the thread that did so last.
        self._graphs: weakref.WeakSet[ops.Graph] = weakref.WeakSet()
        self._enqueuer = self._creator

    __repr__ = shows(
        lambda self: {
            "": common.structure_text(self._feed.element_spec),
            "outfeed_mode": self._feed.mode,
            "device_ordinal": self._feed.device_ordinal,
            "enqueued": self.enqueued,
        }
    )

    @property
    def enqueued(self) -> bool:
        """Whether a program of the graph in scope fills the queue: one in it, or in its functions.

        In another thread than that which built the program, its graphs count.
        """
        if threading.get_ident() != self._enqueuer:
            return bool(self._graphs)
        return ops.get_default_graph() in self._graphs

    @common.without_autograph
    def enqueue(self, tensors: Any) -> ops.Operation:
        """Sends tensors to the host, from the program being built.

        Args:
            tensors: a tensor, or a (nested) tuple, list or dict of tensors.

        Returns:
            An op that must be executed: return it from the body, or use it as a control
            dependency.

        Raises:
            ValueError: If the program enqueues to this queue already, or there are no tensors.
        """
        program = _program_graph()
        if self._enqueued_in is not None and self._enqueued_in() is program:
            raise ValueError(
                "An outfeed can only be enqueued once. Enqueue a tuple or dict of all tensors, or "
                "use another IPUOutfeedQueue."
            )
        operation = self._feed.enqueue(tensors)
        self._enqueued_in = weakref.ref(program)
        self._graphs.update(graphs_around())
        self._enqueuer = threading.get_ident()
        return operation

    def dequeue(self, wait_for_completion: bool = False) -> Any:
        """Takes the enqueued elements to the host. In eager mode, at once.

        In mode `LAST` this waits until no program runs on the device.

        Args:
            wait_for_completion: whether to wait in mode `ALL` too, instead of taking the elements
                present.

        Returns:
            The structure that was enqueued, with the shapes that the class describes. In eager
            mode, an empty list if nothing was enqueued yet and this is not the thread that created
            the queue.

        Raises:
            ValueError: If nothing was enqueued.
            tf.errors.FailedPreconditionError: When executed in mode `LAST` without an element.
        """
        if self._feed.element_spec is None:
            if context.executing_eagerly() and threading.get_ident() != self._creator:
                return []
            raise ValueError(
                "Trying to dequeue an outfeed which has not been enqueued. Build the program that "
                "calls enqueue first."
            )
        return self._feed.dequeue(wait_for_completion)

    @property
    def deleter(self) -> ops.Operation | None:
        """An op that frees the queue, once no program uses it. In eager mode, frees it at once."""
        return self._feed.delete()

    def __iter__(self) -> Iterator[Any]:
        """Iterates over the elements that are waiting, until there are no more.

        Returns:
            An iterator over structures of tensors, each with shape `S`, or `[R] + S` with `R > 1`
            replicas.

        Raises:
            RuntimeError: In graph mode, or in mode `LAST`.
        """
        return IPUOutfeedQueueIterator(self)


class IPUOutfeedQueueIterator(Iterator[Any]):
    """Iterator over the elements that are waiting in a queue."""

    def __init__(self, outfeed_queue: IPUOutfeedQueue) -> None:
        """Starts to iterate.

        Args:
            outfeed_queue: the queue.

        Raises:
            RuntimeError: In graph mode, or if the queue is in mode `LAST`.
        """
        if not context.executing_eagerly():
            raise RuntimeError("IPUOutfeedQueue can only be iterated over in eager mode.")
        mode = feed_of(outfeed_queue).mode
        if mode is not IPUOutfeedMode.ALL:
            raise RuntimeError(
                "IPUOutfeedQueue can only be iterated over with IPUOutfeedMode.ALL. "
                f"Received: {mode}"
            )
        self._queue = outfeed_queue
        self._batch: Any = None
        self._count = self._next = 0

    __repr__ = shows(lambda self: {"": self._queue})

    def __next__(self) -> Any:
        """Returns the next element.

        Raises:
            StopIteration: None is waiting.
        """
        if self._next == self._count:
            if feed_of(self._queue).element_spec is None:
                raise StopIteration
            self._batch = self._queue.dequeue()
            self._count, self._next = nest.flatten(self._batch)[0].shape[0], 0
            if self._count == 0:
                raise StopIteration
        self._next += 1
        return nest.map_structure(lambda tensor: tensor[self._next - 1], self._batch)


class ScopedIPUOutfeedQueue(IPUOutfeedQueue):
    """An `IPUOutfeedQueue` for eager mode that frees itself when it goes out of scope."""

    def __init__(
        self,
        outfeed_mode: IPUOutfeedMode | None = None,
        device_ordinal: int | None = None,
        buffer_depth: int = 3,
        optimise_latency: bool = False,
    ) -> None:
        """Creates a queue; see `IPUOutfeedQueue` for arguments and errors.

        Raises:
            RuntimeError: In graph mode.
        """
        if not context.executing_eagerly():
            raise RuntimeError("ScopedIPUOutfeedQueue can only be used in eager mode.")
        super().__init__(
            outfeed_mode=outfeed_mode,
            device_ordinal=device_ordinal,
            buffer_depth=buffer_depth,
            optimise_latency=optimise_latency,
        )
        self._feed.native.drop_with(self)


def feed_of(queue: IPUOutfeedQueue) -> Outfeed:
    """Returns the internal half of a queue.

    Args:
        queue: the queue.

    Raises:
        TypeError: If it is no `IPUOutfeedQueue`.
    """
    if not isinstance(queue, IPUOutfeedQueue):
        raise TypeError(f"Expected an IPUOutfeedQueue. Received: outfeed_queue={queue!r}")
    return queue._feed


def check_buffer_depth(depth: int) -> None:
    """Checks the buffer depth of an outfeed.

    Args:
        depth: the user's argument.

    Raises:
        ValueError: If it is no integer in the range.
    """
    _BUFFER_DEPTH.whole("Outfeed buffer depth", depth)


def _program_graph() -> ops.Graph:
    """Returns the graph that stands for the program being built.

    In eager mode each trace of the outermost function is a program of its own. In graph mode
    everything in the graph counts as one.
    """
    graph = ops.get_default_graph()
    while isinstance(graph, func_graph.FuncGraph):
        outer = graph.outer_graph
        if ops.executing_eagerly_outside_functions() and not isinstance(
            outer, func_graph.FuncGraph
        ):
            break
        graph = outer
    return graph
