"""`Variable`: a tensor that keeps its value from run to run."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.popxl import context, dtypes, utils
from tensorflow_ipu.frontends.popxl.core.host_layout import HostLayout, check_retrieval_mode
from tensorflow_ipu.frontends.popxl.core.kinds import function
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.replica_grouping import ReplicaGrouping
from tensorflow_ipu.frontends.popxl.tensor.host_data import HostTensor, add_tensor
from tensorflow_ipu.frontends.popxl.tensor.tensors import Tensor

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.graph import Graph
    from tensorflow_ipu.frontends.popxl.remote_buffers import RemoteBuffer


class Variable(Tensor):
    """A tensor of the main graph that keeps its value from run to run.

    Attributes:
        data: The host's copy of the value.
        stale: Whether the device may have another value than the host.
        entry: The entry of a remote buffer that holds the value; None for one that ops take.
        on_replicas: What each replica has, as fetched last; None where that follows from `data`.
    """

    data: np.ndarray
    stale: bool
    entry: tuple[RemoteBuffer, int] | None
    on_replicas: np.ndarray | None
    _layout: HostLayout

    @property
    def layout(self) -> HostLayout:
        """How the host's copy is divided among replicas."""
        if self.entry is None:
            return self._layout
        return dataclasses.replace(self._layout, entry_shape=self.entry[0].tensor_shape)

    @property
    def in_sync_with_ipu(self) -> bool:
        """Whether the host's copy equals what is on the device."""
        return not self.stale

    @property
    def retrieval_mode(self) -> str:
        """Whose values come to the host: "one_per_group" or "all_replicas"."""
        return self._layout.retrieval_mode

    @property
    def replica_grouping(self) -> ReplicaGrouping:
        """Which replicas have the same value."""
        return self._layout.grouping

    @property
    def shape_on_replica(self) -> tuple[int, ...]:
        """The shape of the tensor on a replica."""
        return self.shape

    @property
    def shape_on_host(self) -> tuple[int, ...]:
        """The shape of the host's copy."""
        return self._layout.shape_on_host

    @property
    def location_info(self) -> Any:
        """Where the tensor is stored, and whether each replica has a shard."""
        sharded = self._layout.shard_over > 1
        return ("on_chip" if self.entry is None else "off_chip", sharded)

    def shard_over(self, replicas: int) -> None:
        """Divides the value of a group among its replicas; for this package only.

        Args:
            replicas: how many of them share one value.
        """
        self._layout = dataclasses.replace(self._layout, shard_over=replicas)

    def copy_to_ipu(self, destination: int, source: int) -> Tensor:  # type: ignore[override]
        """Returns a copy of it on another IPU; see `ops.ipu_copy`."""
        return function("ipu_copy")(self, destination, source)


def variable(
    data: HostTensor | float | int,
    dtype: dtypes.DTypeLike | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: Any = None,
    retrieval_mode: str | None = None,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Variable:
    """Makes a variable of the main graph, which has to be the current graph.

    Args:
        data: the initial value, copied unless it is a `numpy.memmap`, and its groups are at equal
            distances. If there are several groups,
            those of all groups, along a first dimension.
        dtype: type of the elements; that of the data by default.
        name: its name.
        downcast: whether data of 64 bits becomes data of 32 bits.
        replica_grouping: which replicas have the same value; all by default.
        retrieval_mode: whose values come to the host: "one_per_group" (default) or
            "all_replicas".
        log2_scale: for 8-bit floats only: the data is multiplied by 2 to this power.
        nan_on_overflow: for 8-bit floats only: whether what is too large becomes NaN (default).

    Raises:
        ValueError: If the current graph is not the main graph, the retrieval mode is unknown, or
            the grouping does not fit the replicas.
        popart.popart_exception: If there are several groups, and the data is not that of each.
    """
    graph = context.get_current_graph()
    if graph is not graph.main_graph:
        raise ValueError(
            "You cannot initialise a variable tensor within a graph other than the main graph. "
            f"The current graph is {graph.id}: make the variable in `with ir.main_graph:`, and "
            "pass it to the graph as an input."
        )
    mode = check_retrieval_mode(retrieval_mode)
    grouping = _grouping(graph, replica_grouping)
    array = utils.to_numpy(data, dtype, downcast, True, log2_scale, nan_on_overflow)
    shape = _shape_on_replica(array, grouping)
    if isinstance(array, np.memmap) and not grouping.is_const:
        array = np.array(array)
        Logger("ir").warn(
            "For a variable you have passed np.memmap data and a non-const replica grouping. The "
            "data is copied: it has another order on the device."
        )
    made: Variable = add_tensor(graph, Variable, array, name, shape)
    made.stale = False
    made._layout = HostLayout(shape, grouping, mode)
    made.entry = None
    made.on_replicas = None
    return made


def _grouping(graph: Graph, grouping: ReplicaGrouping | None) -> ReplicaGrouping:
    """Returns the grouping of a variable, checked."""
    if grouping is None:
        return graph.ir.replica_grouping()
    if grouping.num_replicas != graph.ir.replication_factor:
        raise ValueError(
            f"{grouping!r} is for {grouping.num_replicas} replicas, and the Ir has "
            f"{graph.ir.replication_factor}. Set ir.replication_factor before making groupings."
        )
    grouping.const_rg.check_usable()
    return grouping


def _shape_on_replica(array: np.ndarray, grouping: ReplicaGrouping) -> tuple[int, ...]:
    """Returns the shape of a variable, of which the host has a value for each group."""
    if grouping.num_groups == 1:
        return array.shape
    if not array.ndim:
        raise popart_exception(
            f"Data for {grouping.num_groups} groups of replicas should have at least one "
            "dimension. Received: a scalar"
        )
    if len(array) != grouping.num_groups:
        raise popart_exception(
            "The first dimension of the data should match numGroups, the number of groups of "
            f"replicas: {grouping.num_groups}. Received: shape={array.shape}"
        )
    return array.shape[1:]
