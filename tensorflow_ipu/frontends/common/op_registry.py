"""`OpRegistry`: the ops of a front end by type and version; rules of their gradients.

A front end has one registry, and a class for the records of its ops. Its families of ops add their
records when they are imported. A record has the function that makes TensorFlow's ops, and a
`GradientRule`. PopART's key is domain and type, with the version of the opset
(`popart/ops/registry.py`). PopXL's key is the type (`popxl/core/kinds.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Record = TypeVar("Record")


class GradientRule(enum.Enum):
    """Gradient of an op that has no gradient function of its own.

    Attributes:
        DERIVED: The derivative of its TensorFlow ops.
        NONE: No gradient: tensors before it are not trained.
        CUT: No gradient, which is the purpose of the op.
        REFUSED: An error where one is requested.
    """

    DERIVED = "derived"
    NONE = "none"
    CUT = "cut"
    REFUSED = "refused"


class OpRegistry(Generic[Key, Record]):
    """Records of ops by key, such as the type, and by the version that they are as of."""

    def __init__(self) -> None:
        """Starts without ops."""
        self._versions: dict[Key, dict[int, Record]] = {}

    def __repr__(self) -> str:
        return f"OpRegistry[{len(self)} ops]"

    def __len__(self) -> int:
        return sum(len(versions) for versions in self._versions.values())

    def __iter__(self) -> Iterator[Record]:
        """Yields all records, in the order of registration of their keys."""
        for versions in self._versions.values():
            yield from versions.values()

    def add(self, key: Key, record: Record, since: int = 1) -> None:
        """Registers an op.

        Args:
            key: the key of the op.
            record: the record of the op.
            since: the first version of the opset that the record is for.

        Raises:
            ValueError: If the registry has the op in this version.
        """
        versions = self._versions.setdefault(key, {})
        if since in versions:
            raise ValueError(f"There is an op {key} of version {since} already.")
        versions[since] = record

    def remove(self, key: Key) -> None:
        """Removes all versions of an op; does nothing if there are none.

        Args:
            key: the key of the op.
        """
        self._versions.pop(key, None)

    def versions(self, key: Key) -> Mapping[int, Record]:
        """Returns the records of an op by version; empty if the op is unknown.

        Args:
            key: the key of the op.
        """
        return MappingProxyType(self._versions.get(key, {}))

    def find(self, key: Key, version: int = 1) -> Record | None:
        """Returns the newest record that is not newer than a version; None if there is none.

        Args:
            key: the key of the op.
            version: the version of the opset.
        """
        known = self._versions.get(key, {})
        since = max((since for since in known if since <= version), default=None)
        return None if since is None else known[since]
