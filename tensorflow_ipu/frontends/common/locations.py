"""Where tensors are kept, and which replicas share weights: `TensorLocation` and the like."""

from __future__ import annotations

from typing import Any

from tensorflow_ipu.frontends.common.enums import (
    CommGroupType,
    ReplicatedTensorSharding,
    TensorStorage,
    TileSet,
    VariableRetrievalMode,
)
from tensorflow_ipu.frontends.common.errors import popart_exception, popart_internal_exception
from tensorflow_ipu.frontends.common.replica_groups import CommGroup, ReplicaGrouping

_SHARDING = ("replicatedTensorSharding", "shardingDomain")
_TILES = ("storage", "loadTileSet", "storageTileSet", "replicatedTensorSharding")
# What a location can be made of.
_LOCATION_FORMS: tuple[tuple[str, ...], ...] = (
    (),
    ("storage",),
    ("storage", *_SHARDING[:1]),
    ("storage", *_SHARDING),
    _TILES,
    (*_TILES, "shardingDomain"),
)


class TensorLocation:
    """Where a tensor is kept, and which replicas share its storage."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes the location.

        Args:
            *args: nothing; the storage, with or without sharding, with or without its domain; or
                storage, tiles to load to, tiles to store on, sharding, with or without its domain.
            **kwargs: the same by name: `storage`, `loadTileSet`, `storageTileSet`,
                `replicatedTensorSharding`, `shardingDomain`.

        Raises:
            TypeError: If it is anything else.
        """
        self.storage = TensorStorage.OnChip
        self.loadTileSet = self.storageTileSet = TileSet.Compute
        self.replicatedTensorSharding = ReplicatedTensorSharding.Off
        self.shardingDomain = CommGroup()
        for names in _LOCATION_FORMS:
            given = dict(zip(names, args))
            if (
                len(args) <= len(names)
                and not kwargs.keys() & given.keys()
                and {*given, *kwargs} == {*names}
                and all(
                    isinstance(value, type(getattr(self, name)))
                    for name, value in {**given, **kwargs}.items()
                )
            ):
                vars(self).update(given, **kwargs)
                return
        forms = "\n".join(
            f"    {number}. TensorLocation({', '.join(names)})"
            for number, names in enumerate(_LOCATION_FORMS, 1)
        )
        raise TypeError(
            "__init__(): incompatible constructor arguments. The following argument types are "
            f"supported:\n{forms}\n\nInvoked with: {args}, {kwargs}"
        )

    def __repr__(self) -> str:
        return (
            f"TensorLocation({self.storage.name}, {self.loadTileSet.name}, "
            f"{self.storageTileSet.name}, {self.replicatedTensorSharding.name}, "
            f"{self.shardingDomain})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorLocation) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(self.serialized()))

    def serialized(self) -> list[int]:
        """Returns the numbers that stand for it in a model."""
        domain = self.shardingDomain
        return [
            *map(int, (self.storage, self.loadTileSet, self.storageTileSet)),
            int(self.replicatedTensorSharding),
            int(domain.type),
            domain.replicaGroupSize,
        ]


class TensorLocationSettings:
    """Where tensors of one kind are kept, if they are large enough."""

    def __init__(
        self,
        location: TensorLocation | TensorStorage | None = None,
        minElementsForOffChip: int = 2,
        minElementsForReplicatedTensorSharding: int = 8192,
        *,
        storage: TensorStorage | None = None,
    ) -> None:
        """Takes the settings.

        Args:
            location: the location, or only the storage.
            minElementsForOffChip: smaller tensors stay on the chip.
            minElementsForReplicatedTensorSharding: smaller tensors are whole on each replica.
            storage: the storage, instead of a location.

        Raises:
            TypeError: If both a location and a storage are given, or one has another type.
        """
        if location is not None and storage is not None:
            raise TypeError("TensorLocationSettings takes a location or a storage. Received: both")
        location = storage if location is None else location
        if not isinstance(location, (TensorLocation, TensorStorage, type(None))):
            raise TypeError(
                "TensorLocationSettings takes a TensorLocation or a TensorStorage. Received: "
                f"{location!r}"
            )
        if isinstance(location, TensorStorage):
            location = TensorLocation(location)
        self.location = location or TensorLocation()
        self.minElementsForOffChip = minElementsForOffChip
        self.minElementsForReplicatedTensorSharding = minElementsForReplicatedTensorSharding

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorLocationSettings) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return (
            f"TensorLocationSettings({self.location}, {self.minElementsForOffChip}, "
            f"{self.minElementsForReplicatedTensorSharding})"
        )


class VariableSettings:
    """Which replicas share the value of a variable, and which values come to the host."""

    def __init__(self, *args: Any) -> None:
        """Takes the settings.

        Args:
            *args: nothing; any of a `CommGroup` and a `VariableRetrievalMode`, in this order; or
                stride, group size and mode.

        Raises:
            TypeError: If it is anything else.
            popart_internal_exception: If a group has less than one replica.
        """
        self._domain: CommGroup | None = CommGroup()
        self._mode = VariableRetrievalMode.OnePerGroup
        self._stride, self._size = 1, 0
        if len(args) == 3:
            self._domain, self._stride, self._size, self._mode = None, *args
        for arg in args if len(args) < 3 else ():
            if isinstance(arg, CommGroup):
                self._domain = arg
            elif isinstance(arg, VariableRetrievalMode):
                self._mode = arg
            else:
                raise TypeError(
                    "VariableSettings: incompatible function arguments. Expected a CommGroup and a "
                    f"VariableRetrievalMode; received {arg!r}."
                )
        if self._domain is not None:
            self._size = self._domain.replicaGroupSize
        self.verify()

    def __repr__(self) -> str:
        groups = self._domain or f"stride {self._stride}, size {self._size}"
        return f"VariableSettings({groups}, {self._mode.name})"

    def verify(self) -> None:
        """Refuses settings that make no groups.

        Raises:
            popart_internal_exception: If a group has less than one replica.
        """
        sized = (CommGroupType.Consecutive, CommGroupType.Orthogonal)
        kind = self._domain.type if self._domain else CommGroupType.Consecutive
        if kind in sized and self._size < 1:
            raise popart_internal_exception(
                f"VariableSettings had 1 errors! A group must have at least one replica. Received: "
                f"{self}"
            )

    def getSharedVariableDomain(self) -> CommGroup:
        """Returns the group.

        Raises:
            popart_exception: If it was made of stride and size.
        """
        if self._domain is None:
            raise popart_exception(
                "These VariableSettings were made of a stride and a group size, and have no "
                "CommGroup. Use getReplicaGrouping."
            )
        return self._domain

    def isUsingCommGroup(self) -> bool:
        """Returns whether it was made of a `CommGroup`."""
        return self._domain is not None

    def getCommGroupType(self) -> CommGroupType:
        """Returns the kind of group.

        Raises:
            popart_exception: If it was made of stride and size.
        """
        return self.getSharedVariableDomain().type

    def getStride(self) -> int:
        """Returns the distance between replicas of a group, as passed."""
        return self._stride

    def getGroupSize(self) -> int:
        """Returns the number of replicas in a group, as passed."""
        return self._size

    def getRetrievalMode(self) -> VariableRetrievalMode:
        """Returns which values come to the host."""
        return self._mode

    def getReplicaGrouping(self, arg0: int) -> ReplicaGrouping:
        """Returns the groups among a number of replicas.

        Args:
            arg0: the number.

        Raises:
            popart_exception: If it does not fit.
        """
        if self._domain is not None:
            return self._domain.toReplicaGrouping(arg0)
        return ReplicaGrouping(arg0, self._stride, self._size)

    def getGroupCount(self, arg0: int) -> int:
        """Returns the number of groups among a number of replicas.

        Args:
            arg0: the number.
        """
        return arg0 // self.getReplicaGrouping(arg0).groupSize

    def getRealGroupSize(self, arg0: int) -> int:
        """Returns how many replicas of a number make a group.

        Args:
            arg0: the number.
        """
        return self.getReplicaGrouping(arg0).groupSize

    def getGroupRepresentative(self, group: int) -> int:
        """Returns the first replica of a group.

        Args:
            group: number of the group.
        """
        kind = self._domain.type if self._domain else CommGroupType.Orthogonal
        if kind is CommGroupType.All:
            return 0
        return self._size * group if kind is CommGroupType.Consecutive else group

    def numReplicasReturningVariable(self, arg0: int) -> int:
        """Returns how many replicas of a number send their value to the host.

        Args:
            arg0: the number.
        """
        if self._mode is VariableRetrievalMode.AllReplicas:
            return arg0
        return self.getGroupCount(arg0)

    def groups(self, arg0: int) -> list[list[int]]:
        """Returns the replicas of each group among a number of replicas.

        Args:
            arg0: the number.
        """
        return self.getReplicaGrouping(arg0).groups()

    def shapeOnHost(self, arg0: list[int], arg1: int) -> list[int]:
        """Returns the shape that a variable has on the host.

        Args:
            arg0: its shape on a replica.
            arg1: the number of replicas.
        """
        count = self.getGroupCount(arg1)
        return [count, *arg0] if count > 1 else list(arg0)

    def shapeOnReplica(self, arg0: list[int], arg1: int, arg2: str) -> list[int]:
        """Returns the shape that a variable has on a replica.

        Args:
            arg0: its shape on the host.
            arg1: the number of replicas.
            arg2: its name, for errors.

        Raises:
            popart_internal_exception: If the first dimension is not the number of groups.
        """
        count = self.getGroupCount(arg1)
        if count == 1:
            return list(arg0)
        if not arg0 or arg0[0] != count:
            raise popart_internal_exception(
                f"Return mismatch with possibly appended outer dimension of {arg2}: it has "
                f"{count} groups among {arg1} replicas, and the shape {arg0}."
            )
        return list(arg0[1:])
