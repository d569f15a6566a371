"""`NamedVariableFactories`: factories by name."""

from __future__ import annotations

import os
from pathlib import Path

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.dot_tree import DotTree
from tensorflow_ipu.frontends.popxl_addons.named_replica_grouping import NamedReplicaGrouping
from tensorflow_ipu.frontends.popxl_addons.named_tensors import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.variable_factory.factory import VariableFactory


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
            prefix: what comes before the names of the variables, with a dot.
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
