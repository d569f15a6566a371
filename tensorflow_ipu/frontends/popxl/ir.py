"""`Ir`: a main graph and the graphs that it calls; the module `popxl.ir`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorflow_ipu.distributed import joining
from tensorflow_ipu.distributed.instances import Instances, of_poprun
from tensorflow_ipu.frontends.common import drawings
from tensorflow_ipu.frontends.popxl import subgraphs
from tensorflow_ipu.frontends.popxl.core.integers import as_int
from tensorflow_ipu.frontends.popxl.core.session_options import PbIr, SessionOptions
from tensorflow_ipu.frontends.popxl.graph import Graph, reachable
from tensorflow_ipu.frontends.popxl.replica_grouping import ReplicaGrouping
from tensorflow_ipu.frontends.popxl.streams import DeviceToHostStream, HostToDeviceStream
from tensorflow_ipu.util import private_files

__all__ = ["Ir"]

_ids = itertools.count()


class Ir:
    """A program: a main graph, and graphs that it calls.

    Build the graphs, then make a `Session` of the Ir to run it.
    """

    def __init__(self, replication: int | str = 1) -> None:
        """Makes an Ir with an empty main graph.

        Args:
            replication: number of replicas; "popdist" takes that of the launcher, and joins the
                other processes that it has started.

        Raises:
            ValueError: If it is neither a number of replicas nor "popdist".
            RuntimeError: If the other processes cannot be joined; see `popdist.init`.
        """
        self._id = next(_ids)
        self._numbers: dict[str, int] = {}
        self._graphs: dict[str, Graph] = {}
        self._main_graph = self.new_graph("")
        self._is_closed = False
        self._num_host_transfers = 1
        self._instances = Instances()
        # Programs reach the session options by this name of the original.
        self._pb_ir = PbIr()
        if replication == "popdist":
            self._instances = joining.join(of_poprun())
            replication = self._instances.total_replicas
        self._set_replicas(_number("replication", replication))

    def __repr__(self) -> str:
        return f"Ir[{self._id} {len(self._main_graph.ops)} ops]"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ir):
            raise TypeError(f"Value must be of type popxl.Ir. Received: {type(other)}")
        return self is other

    def __hash__(self) -> int:
        return hash(self._id)

    @property
    def id(self) -> int:
        """Number of the Ir, unique in the process."""
        return self._id

    @property
    def main_graph(self) -> Graph:
        """The graph that a run executes."""
        return self._main_graph

    @property
    def replication_factor(self) -> int:
        """Number of replicas, over all processes. Set it before the graphs are built.

        The session options `replicatedGraphCount` and `globalReplicationFactor` set it, too.
        """
        return self.session_options.replicas[1]

    @replication_factor.setter
    def replication_factor(self, value: int) -> None:
        if self._is_closed:
            raise RuntimeError(
                "The replication factor cannot be set: the Ir is already prepared. Set it before a "
                "popxl.Session is made of the Ir."
            )
        replication = _number("replication_factor", value)
        if replication % self._instances.count:
            raise ValueError(
                f"replication_factor must be a multiple of the {self._instances.count} processes "
                f"that share the replicas. Received: {value}"
            )
        self._set_replicas(replication)

    def _set_replicas(self, total: int) -> None:
        """Sets the number of replicas of all processes."""
        self.session_options.set_replicas(total, self._instances.count, self._instances.index)

    @property
    def instance_replication_factor(self) -> int:
        """Number of replicas of this process."""
        return self.session_options.replicas[0]

    @property
    def instances(self) -> Instances:
        """The processes that run its replicas; for this package only."""
        return self._instances

    @property
    def session_options(self) -> SessionOptions:
        """The options of its sessions, which `_pb_ir.getSessionOptions()` returns, too."""
        return self._pb_ir.getSessionOptions()

    @property
    def num_host_transfers(self) -> int:
        """How often a run loads from, or stores to, each stream. Set it before making a session."""
        return self._num_host_transfers

    @num_host_transfers.setter
    def num_host_transfers(self, value: int) -> None:
        self._num_host_transfers = _number("num_host_transfers", value)

    def replica_grouping(self, stride: int = 1, group_size: int | None = None) -> ReplicaGrouping:
        """Groups replicas at equal distances: for collectives, and for the values of variables.

        Args:
            stride: the distance of replicas that follow each other in a group.
            group_size: replicas of a group; as many as there are at that distance by default.

        Returns:
            The grouping. With 8 replicas, stride 2 and size 2 it is 0 1 0 1 2 3 2 3.

        Raises:
            ValueError: If a number is out of its range, or the stride is no factor of the replicas.
        """
        return ReplicaGrouping.strided(self.replication_factor, stride, group_size)

    def replica_grouping_from_assignments(self, assignment: list[int]) -> ReplicaGrouping:
        """Groups replicas in any way.

        Args:
            assignment: the group of each replica. Groups have one size, and are numbered from 0 in
                the order of their first replicas.

        Returns:
            The grouping. If replicas are not at equal distances, it can only group variables.

        Raises:
            ValueError: If the groups are not such.
        """
        return ReplicaGrouping.assigned(self.replication_factor, assignment)

    def create_empty_graph(self, name: str | None = None) -> Graph:
        """Makes a graph without inputs and ops.

        Args:
            name: what it is called; "graph" by default.

        Returns:
            The graph.
        """
        return self.new_graph(f"{name or 'graph'}_subgraph({self.next_number('graph')})")

    def new_graph(self, id: str) -> Graph:  # noqa: A002
        """Makes a graph with an id, or one like it that no graph has; for transforms.

        Args:
            id: the id.
        """
        found = id
        while found in self._graphs:
            found = f"{id}_{self.next_number(id)}"
        graph = self._graphs[found] = Graph.create(self, found)
        return graph

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
        """Makes a graph of a function, or of the `build` method of a `Module`.

        Tensors and specs among the arguments become inputs of the graph, in the order of the
        signature; so do those in lists, tuples, `*args` and `**kwargs`. Other arguments are passed
        on as they are. What the function returns are the outputs.

        Args:
            fn: builds the graph. Arguments with the annotation `TensorByRef` are passed by
                reference. Returns None, a tensor or tensors.
            *args: what to call it with.
            **kwargs: what to call it with.

        Returns:
            The graph.

        Raises:
            TypeError: If `fn` is neither a function nor a Module, or tensors are mixed with other
                values in a list.
            ValueError: If the arguments do not fit the signature, or it returns something else.
        """
        return subgraphs.create(self, fn, args, kwargs)

    def get_all_h2d_streams(self) -> set[HostToDeviceStream]:
        """Returns the streams that ops load from: in any graph, or in those that a session runs."""
        return self._streams(HostToDeviceStream)

    def get_all_d2h_streams(self) -> set[DeviceToHostStream]:
        """Returns the streams that ops store to: in any graph, or in those that a session runs."""
        return self._streams(DeviceToHostStream)

    def _streams(self, cls: type) -> set[Any]:
        graphs = reachable(self._main_graph) if self._is_closed else self._graphs.values()
        ops = itertools.chain.from_iterable(graph.ops for graph in graphs)
        streams = (op.attributes.get("stream") for op in ops)
        return {stream for stream in streams if isinstance(stream, cls)}

    def dot_checkpoint(self, check: str, save_dir: str | Path | None = None) -> None:
        """Draws the graphs as they are now, if the checkpoint is active.

        The session option `dotChecks` and the environment variable POPART_DOT_CHECKS name active
        checkpoints; if neither is set, all are from now on. `FINAL` is when a session is made.

        Args:
            check: name of the checkpoint.
            save_dir: folder for the files, of this and later checkpoints; that of the session
                option `logDir` by default.

        Raises:
            OSError: If a file cannot be written.
        """
        options = self.session_options
        if save_dir is not None:
            options.logDir = os.fspath(private_files.make_folder(save_dir))
        if not options.value("dotChecks") and drawings.of_environment() is None:
            options.dotChecks = {"ALL"}
        self._draw(check)

    def _draw(self, check: str) -> None:
        """Draws the graphs that the main graph reaches, if a checkpoint is active."""
        options = self.session_options
        if not drawings.is_active(check, options.value("dotChecks")):
            return
        graphs = {
            graph.id or "main": [
                drawings.DrawnOp(
                    op.kind.name,
                    "/".join(op.scopes),
                    [tensor.id for tensor in op.inputs],
                    [tensor.id for tensor in op.outputs],
                )
                for op in graph.ops
            ]
            for graph in reachable(self._main_graph)
        }
        shown = options.value("firstDotOp"), options.value("finalDotOp")
        drawings.write(check, options.value("logDir"), graphs, shown, options.value("dotOpNames"))

    def next_number(self, what: str, first: int = 0) -> int:
        """Returns the next number of a counter of the Ir; for this package only.

        Args:
            what: name of the counter.
            first: its first number.
        """
        number = self._numbers.get(what, first)
        self._numbers[what] = number + 1
        return number

    def close(self) -> None:
        """Notes that a session was made: from now on nothing may change."""
        if not self._is_closed:
            self._draw(drawings.FINAL)
        self._is_closed = True

    def check_is_open(self) -> None:
        """Refuses changes after a session was made.

        Raises:
            RuntimeError: If one was.
        """
        if self._is_closed:
            raise RuntimeError(
                "The Ir is already prepared: a popxl.Session was made of it, so no op can be "
                "added. Build all graphs before."
            )


def _number(name: str, value: Any) -> int:
    """Returns a number of replicas or transfers."""
    number = as_int(value)
    if number is None or number < 1:
        raise ValueError(f"{name} must be an integer >= 1. Received: {value!r}")
    return number
