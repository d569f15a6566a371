"""Variables of graphs: their factories, their inputs, and seeds of random numbers."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Union

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.common import abstract_arrays
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl_addons.dot_tree import DotTree, NamedTensors
from tensorflow_ipu.frontends.popxl_addons.named_replica_grouping import NamedReplicaGrouping
from tensorflow_ipu.util import private_files

__all__ = [
    "NamedVariableFactories",
    "VariableFactory",
    "add_replica_sharded_variable_input",
    "add_variable_input",
    "host_scalar_tensor_types",
    "seed_variable",
]


# What a value of a variable may be, besides a tensor of PyTorch.
host_scalar_tensor_types = (np.ndarray, np.generic, int, float)
Data = Union[Callable[[], Any], Iterable[Any]]


def iterator(data_iter: Any) -> Iterator[Any]:
    """Returns an iterator over values; a function is tried once.

    Args:
        data_iter: a function without arguments that returns a value, or an iterable of values.

    Raises:
        ValueError: If it is neither, or the function fails.
    """
    if callable(data_iter):
        try:
            data_iter()
        except Exception as error:
            raise ValueError(f"`data_iter` throws error when it is called: {error}") from error
        return (data_iter() for _ in itertools.count())
    if isinstance(data_iter, Iterable):
        return iter(data_iter)
    raise ValueError(
        f"`data_iter` must be an iterable or callable. Received: {type(data_iter).__name__}"
    )


def as_array(value: Any) -> np.ndarray:
    """Returns a value of a variable as an array.

    Args:
        value: an array, a tensor of PyTorch or a number.

    Raises:
        ValueError: If it is something else.
    """
    if hasattr(value, "detach"):
        value = value.detach().numpy()
    if not isinstance(value, host_scalar_tensor_types):
        raise ValueError(
            f"`data_iter` must return arrays or numbers. Received: {type(value).__name__}"
        )
    return value if isinstance(value, np.memmap) else np.asarray(value)


class VariableFactory:
    """Description of a graph input, from which its variable in the main graph is made.

    Attributes:
        dtype: Type of the elements.
        shape: Shape of the tensor on a replica.
        meta_shape: For a variable that is sharded over replicas, the shape of the whole.
        name: The name of the variable and the input.
        by_ref: Whether the input is passed by reference.
        replica_grouping: Which replicas have the same value; all replicas if none was given.
        shard_over: Over how many replicas the variable is sharded.
    """

    replica_grouping: popxl.ReplicaGrouping

    def __init__(
        self,
        data_iter: Data,
        dtype: popxl.dtype | None = None,
        name: str | None = None,
        by_ref: bool = False,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        shard_over: int = 1,
    ) -> None:
        """Makes a factory.

        Args:
            data_iter: a function without arguments that returns the value of each new variable, or
                an iterable of values.
            dtype: type of the elements; that of the data by default.
            name: name of the variables and inputs.
            by_ref: whether the input is passed by reference.
            replica_grouping: which replicas have the same value; all by default.
            shard_over: over how many replicas variables are sharded.

        Raises:
            ValueError: If the data are neither, their function fails, or they are no arrays.
            RuntimeError: If there is no current Ir, and no grouping.
        """
        self._values = iterator(data_iter)
        self._peeked: list[Any] = [as_array(next(self._values))]
        data = self._peeked[0]
        self.dtype = popxl.dtype.as_dtype(data.dtype if dtype is None else dtype)
        self.name = name
        self.by_ref = by_ref
        self.replica_grouping = replica_grouping or popxl.gir().replica_grouping()
        self.shard_over = shard_over
        self.meta_shape: tuple[int, ...] | None = None
        self.shape: tuple[int, ...] = tuple(data.shape)
        if abstract_arrays.plans_only():
            self._peeked.clear()
        if shard_over > 1:
            self.meta_shape = self.shape
            self.shape = (-(-math.prod(self.meta_shape) // shard_over),)

    def __repr__(self) -> str:
        return f"VariableFactory[{self.name} {self.dtype} {self.meta_shape or self.shape}]"

    def create_input(self, prefix: str | None = None) -> popxl.Tensor:
        """Adds an input for the variable to the current graph.

        Args:
            prefix: the part before its name, without the dot.

        Returns:
            The input.
        """
        name = ".".join(part for part in (prefix, self.name) if part) or None
        return popxl.graph_input(self.shape, self.dtype, name, self.by_ref, self.meta_shape)

    def next_data(self, empty: bool = False) -> np.ndarray:
        """Returns the value for the next variable.

        Args:
            empty: whether any value will do; then none is taken.

        Returns:
            An array of `dtype`, with the groups of replicas first if there are several.

        Raises:
            StopIteration: If there are no more values.
        """
        dtype = self.dtype.as_numpy()
        if abstract_arrays.plans_only():
            return abstract_arrays.make(self._host_shape, dtype)
        if empty:
            return np.empty(self._host_shape, dtype)
        drawn = [self._next() for _ in range(self._groups)]
        data = drawn[0] if self._groups == 1 else np.stack(drawn)
        return popxl.utils.to_numpy(data, self.dtype, downcast=False)

    def next_memmap(
        self,
        memmap_dir: str | Path,
        name: str | None = None,
        empty: bool = False,
        read_only_if_exists: bool = False,
    ) -> np.memmap:
        """Returns a file with the value for the next variable.

        Args:
            memmap_dir: the folder. The file there is named after the variable, and is filled with
                the next value if it does not exist.
            name: name of the variable.
            empty: whether any value will do for a file that does not exist; then none is taken.
            read_only_if_exists: whether an existing file must not be changed.
        """
        path = Path(memmap_dir) / f"{name or self.name}.npy"
        shape, dtype = self._host_shape, self.dtype.as_numpy()
        if path.exists():
            mode: Any = "r" if read_only_if_exists else "r+"
            return np.memmap(path, dtype, mode, shape=shape)
        private_files.make_folder(memmap_dir)
        private_files.write_bytes(path, np.ascontiguousarray(self.next_data(empty)).tobytes())
        return np.memmap(path, dtype, "r+", shape=shape)

    def create_tensor(
        self,
        name: str | None = None,
        empty: bool = False,
        memmap_dir: str | Path | None = None,
        read_only_if_exists: bool = False,
    ) -> popxl.Tensor:
        """Makes a variable of the main graph with the next value.

        Args:
            name: its name; that of the factory by default.
            empty: whether it needs no particular value.
            memmap_dir: a folder for a file that holds the value.
            read_only_if_exists: whether an existing file must not be changed.

        Returns:
            The variable; if it is sharded over replicas, the shard.

        Raises:
            StopIteration: If there are no more values.
        """
        data = self._data(name, empty, memmap_dir, read_only_if_exists)
        grouping = self.replica_grouping
        name = name or self.name
        if self.meta_shape is None:
            return popxl.variable(data, self.dtype, name, replica_grouping=grouping)
        _, shard = popxl.replica_sharded_variable(
            data, self.dtype, name, replica_grouping=grouping, shard_over=self.shard_over
        )
        return shard

    def create_remote_tensor(
        self,
        buffer: popxl.RemoteBuffer,
        entry: int,
        name: str | None = None,
        empty: bool = False,
        memmap_dir: str | Path | None = None,
        read_only_if_exists: bool = False,
    ) -> popxl.Tensor:
        """Makes a variable that is an entry of a remote buffer, with the next value.

        Args:
            buffer: the buffer.
            entry: the number of the entry.
            name: as for `create_tensor`.
            empty: as for `create_tensor`.
            memmap_dir: as for `create_tensor`.
            read_only_if_exists: as for `create_tensor`.

        Raises:
            StopIteration: If there are no more values.
        """
        data = self._data(name, empty, memmap_dir, read_only_if_exists)
        make = popxl.remote_replica_sharded_variable if buffer.meta_shape else popxl.remote_variable
        grouping = self.replica_grouping
        return make(data, buffer, entry, self.dtype, name or self.name, replica_grouping=grouping)

    def _data(
        self, name: str | None, empty: bool, memmap_dir: str | Path | None, read_only: bool
    ) -> np.ndarray:
        """Returns the next value, in a file if there is a folder for it."""
        if memmap_dir is None or abstract_arrays.plans_only():
            return self.next_data(empty)
        return self.next_memmap(memmap_dir, name, empty, read_only)

    @property
    def _groups(self) -> int:
        return self.replica_grouping.num_groups

    @property
    def _host_shape(self) -> tuple[int, ...]:
        shape = self.meta_shape or self.shape
        return shape if self._groups == 1 else (self._groups, *shape)

    def _next(self) -> np.ndarray:
        return self._peeked.pop() if self._peeked else as_array(next(self._values))


def add_variable_input(
    name: str,
    data_iter: Data,
    dtype: popxl.dtype | None = None,
    by_ref: bool = False,
    replica_grouping: popxl.ReplicaGrouping | None = None,
) -> tuple[popxl.Tensor, VariableFactory]:
    """Adds an input for a variable to the current graph.

    Args:
        name: its name.
        data_iter: as for `VariableFactory`.
        dtype: type of the elements; that of the data by default.
        by_ref: whether it is passed by reference.
        replica_grouping: which replicas have the same value; all by default.

    Returns:
        The input, and the factory for its variable.
    """
    factory = VariableFactory(data_iter, dtype, name, by_ref, replica_grouping)
    return factory.create_input(), factory


def add_replica_sharded_variable_input(
    name: str,
    data_iter: Data,
    dtype: popxl.dtype | None = None,
    by_ref: bool = False,
    replica_grouping: popxl.ReplicaGrouping | None = None,
    shard_over: int | None = None,
) -> tuple[popxl.Tensor, VariableFactory]:
    """Adds an input for a variable that is sharded over replicas to the current graph.

    Args:
        name: its name.
        data_iter: as for `VariableFactory`; values are whole tensors.
        dtype: type of the elements; that of the data by default.
        by_ref: whether it is passed by reference.
        replica_grouping: which replicas have the same value; all by default.
        shard_over: over how many replicas; over those of a group by default.

    Returns:
        The input, and the factory for its variable.
    """
    group = replica_grouping or popxl.gir().replica_grouping()
    over = shard_over or group.group_size
    factory = VariableFactory(data_iter, dtype, name, by_ref, replica_grouping, over)
    return factory.create_input(), factory


class NamedVariableFactories(DotTree[VariableFactory]):
    """Factories by name: all that a graph needs for its variables."""

    def init(
        self,
        prefix: str | None = None,
        empty: bool = False,
        memmap_dir: str | os.PathLike | None = None,
        read_only_if_exists: bool = False,
    ) -> NamedTensors:
        """Makes a variable with each factory, in the order of their names.

        Args:
            prefix: the part before the names of the variables, without the dot.
            empty: whether they need no particular values.
            memmap_dir: a folder for files that hold the values.
            read_only_if_exists: whether existing files must not be changed.

        Returns:
            The variables, with the names of the factories.
        """
        folder = None if memmap_dir is None else Path(memmap_dir)
        return NamedTensors.from_dict(
            {
                name: factory.create_tensor(
                    _prefixed(prefix, name), empty, folder, read_only_if_exists
                )
                for name, factory in self._sorted()
            }
        )

    def init_remote(
        self,
        buffers: DotTree[popxl.RemoteBuffer],
        entry: int = 0,
        prefix: str | None = None,
        empty: bool = False,
        memmap_dir: str | os.PathLike | None = None,
        read_only_if_exists: bool = False,
    ) -> NamedTensors:
        """Makes variables that are entries of remote buffers, as `init` does others.

        Args:
            buffers: a buffer for each name.
            entry: the number of the entry.
            prefix: as for `init`.
            empty: as for `init`.
            memmap_dir: as for `init`.
            read_only_if_exists: as for `init`.
        """
        folder = None if memmap_dir is None else Path(memmap_dir)
        return NamedTensors.from_dict(
            {
                name: factory.create_remote_tensor(
                    buffers[name],
                    entry,
                    _prefixed(prefix, name),
                    empty,
                    folder,
                    read_only_if_exists,
                )
                for name, factory in self._sorted()
            }
        )

    def init_zero(self) -> NamedTensors:
        """Returns tensors of zeros, made in the current graph each time that it runs."""
        return self._init("zero")

    def init_undef(self) -> NamedTensors:
        """Returns tensors of the current graph that hold nothing yet."""
        return self._init("undef")

    @property
    def replica_groupings(self) -> NamedReplicaGrouping:
        """Which replicas have the same values, by name."""
        groups = {name: factory.replica_grouping for name, factory in self.to_dict().items()}
        return NamedReplicaGrouping.from_dict(groups)

    def _init(self, kind: str) -> NamedTensors:
        made = {
            name: popxl.ops.init(
                factory.shape, factory.dtype, name, kind, factory.meta_shape or None
            )
            for name, factory in self._sorted()
        }
        return NamedTensors.from_dict(made)

    def _sorted(self) -> list[tuple[str, VariableFactory]]:
        return sorted(self.to_dict().items(), key=lambda item: item[0])


def _prefixed(prefix: str | None, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def seed_variable(
    seed: int, replica_grouping: popxl.ReplicaGrouping | None = None
) -> tuple[popxl.Variable, popxl.Tensor]:
    """Makes seeds of random numbers, which are kept with the weights.

    Args:
        seed: where the seeds come from.
        replica_grouping: which replicas have the same seed; each has its own by default.

    Returns:
        The variable, and the seed of this replica as a tensor of uint32 of the shape `(2,)`. What
        ops write into that is there in the next run, and comes to the host with the variable.

    Raises:
        ValueError: If the current graph is not the main graph.
    """
    ir = popxl.gir()
    grouping = replica_grouping or ir.replica_grouping(group_size=1)
    seeds = popxl.create_seeds(seed, replicas=grouping.num_groups)
    buffer = popxl.remote_buffer((2,), popxl.uint32)
    variable = popxl.remote_variable(
        seeds, buffer, 0, popxl.uint32, "seed", replica_grouping=grouping
    )
    with popxl.context.execution_context(popxl.ExecutionContext.WeightsFromHostFragment):
        tensor = ops.remote_load(buffer, 0, "seed_tensor")
    with popxl.context.execution_context(popxl.ExecutionContext.WeightsToHostFragment):
        ops.remote_store(buffer, 0, tensor)
    return variable, tensor
