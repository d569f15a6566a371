"""Where tensors are stored, as plain data: the module `popxl.tensor_location`."""

from __future__ import annotations

import dataclasses
import enum

__all__ = [
    "ExecutionContext",
    "ReplicatedTensorSharding",
    "TensorLocation",
    "TensorStorage",
    "TileSet",
]


class TensorStorage(enum.Enum):
    """The memory of the chip, or memory outside of it."""

    OnChip = 0
    OffChip = 1


class ReplicatedTensorSharding(enum.Enum):
    """Whether each replica has a part of a tensor only."""

    Off = 0
    On = 1


class TileSet(enum.Enum):
    """Tiles that compute, or that exchange data with the host."""

    Compute = 0
    IO = 1
    Undefined = 2
    N = 3


class ExecutionContext(enum.Enum):
    """The program of a session that an op is part of."""

    Normal = 0
    AccumulateOuterFragment = 1
    WeightsFromHostFragment = 2
    WeightsToHostFragment = 3
    OptimizerFromHostFragment = 4
    Subgraph = 5


@dataclasses.dataclass
class TensorLocation:
    """Where a tensor is stored. It has no effect on values.

    Attributes:
        storage: Which memory it is in.
        replicated_tensor_sharding: Whether each replica has a part only.
    """

    storage: TensorStorage = TensorStorage.OnChip
    replicated_tensor_sharding: ReplicatedTensorSharding = ReplicatedTensorSharding.Off

    def __post_init__(self) -> None:
        self.storage = TensorStorage(self.storage)
        self.replicated_tensor_sharding = ReplicatedTensorSharding(self.replicated_tensor_sharding)
