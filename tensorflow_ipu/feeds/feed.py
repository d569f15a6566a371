"""Base of infeeds and outfeeds: the internal half of queues that the package uses."""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Iterator
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import func_graph, ops

from tensorflow_ipu.runtime import native

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
