"""Trees of values by dotted names, and of tensors; the modules `dot_tree` and `named_tensors`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from tensorflow_ipu.frontends import popxl

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "DotTree",
    "NamedTensorData",
    "NamedTensors",
    "TensorMap",
    "print_named_tensors",
    "sanitise",
    "to_mapping",
]


T = TypeVar("T")


class DotTree(Generic[T]):
    """Values by name, in order. A name with dots leads to a value in a subtree.

    Values are found by `tree["a.b"]` and `tree.a.b`; entries with numbers by `tree[0]`, and from
    the highest number by `tree[-1]`.
    """

    _entries: dict[str, Any]

    def __init__(self, **entries: T | DotTree[T]) -> None:
        """Makes a tree.

        Args:
            **entries: values and trees by name.
        """
        self._entries = {}
        for key, value in entries.items():
            self.insert(key, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()})"

    def __str__(self) -> str:
        return str(self.to_dict())

    def __len__(self) -> int:
        return len(self._entries)

    def __bool__(self) -> bool:
        """A tree is true, also one without entries: programs ask so whether there is one."""
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __contains__(self, key: object) -> bool:
        try:
            self._find(key)
        except KeyError:
            return False
        return True

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and "_entries" in self.__dict__:
            with contextlib.suppress(KeyError):
                return self._find(name)
        raise AttributeError(
            f"{type(self).__name__} has no entry {name!r}. Its entries: "
            f"{list(self.__dict__.get('_entries', {}))}"
        )

    def __getitem__(self, key: str | int) -> Any:
        return self._find(key)

    def get(self, key: str | int) -> Any:
        """Returns an entry: a value or a tree.

        Args:
            key: its name, with dots to descend; or its number, a negative one from the highest.

        Raises:
            KeyError: If there is none.
        """
        return self._find(key)

    def _find(self, key: Any) -> Any:
        head, _, rest = self._positive(key).partition(".")
        if head not in self._entries:
            kind = "Numerical key" if head.lstrip("-").isdigit() else "Key"
            raise KeyError(f"{kind} does not exist: {key!r}. Expected one of: {self.keys()}")
        value = self._entries[head]
        if not rest:
            return value
        if not isinstance(value, DotTree):
            raise KeyError(f"{head!r} is not a sub-DotTree, so it has no entry {rest!r}.")
        return value._find(rest)

    def _positive(self, key: Any) -> str:
        """Returns a key as text; a negative number counts from the highest."""
        if isinstance(key, int) and key < 0:
            numbers = [int(name) for name in self._entries if name.isdigit()]
            return str(max(numbers, default=-1) + 1 + key)
        return str(key)

    def insert(self, key: str | int, value: T | DotTree[T], overwrite: bool = False) -> None:
        """Adds an entry.

        Args:
            key: its name, or a number; a name with dots makes the trees that it passes through.
            value: a value or a tree.
            overwrite: whether it may take the place of another, or extend a tree that is there.

        Raises:
            ValueError: If there is one already, or the key is no name.
        """
        head, _, rest = self._checked(key).partition(".")
        there = self._entries.get(head)
        if there is not None and not overwrite:
            raise ValueError(f"The key {head!r} already exists. Pass overwrite=True to replace it.")
        if rest:
            inner = there.copy() if isinstance(there, DotTree) else self._new()
            inner.insert(rest, value, overwrite)
            value = inner
        self._entries[head] = value

    def _checked(self, key: Any) -> str:
        """Returns a key as text, after checking it."""
        if isinstance(key, int) and key < 0:
            raise ValueError(f"A key must not be a negative number. Received: {key}")
        for part in str(key).split("."):
            if not (part.isidentifier() or part.isdigit()):
                raise ValueError(f"{part!r} in the key {key!r} is not a valid python identifier.")
        return str(key)

    def _new(self) -> Self:
        """Returns an empty tree of the same class."""
        return type(self)()

    def update(self, values: DotTree[T] | Mapping[str, Any], overwrite: bool = False) -> None:
        """Adds the entries of another tree.

        Args:
            values: the tree, or a dictionary.
            overwrite: whether they may take the place of others.

        Raises:
            ValueError: If there is one of the name already.
        """
        for key in values.keys():
            self.insert(key, values[key], overwrite)

    def pop(self, key: str | int) -> Any:
        """Removes an entry and returns it.

        Args:
            key: its name, with dots to descend.

        Raises:
            KeyError: If there is none.
        """
        value = self._find(key)
        path, _, last = self._positive(key).rpartition(".")
        owner = self._find(path) if path else self
        del owner._entries[last]
        return value

    def copy(self) -> Self:
        """Returns a copy, with the same values."""
        return self.map(lambda value: value)

    def map(self, fn: Callable[[T], Any]) -> Self:
        """Returns a tree of the same names.

        Args:
            fn: takes a value, and returns that of the new tree.
        """
        new = self._new()
        for key, value in self._entries.items():
            new._entries[key] = value.map(fn) if isinstance(value, DotTree) else fn(value)
        return new

    def filter_keys(self, keys: Iterable[str]) -> Self:
        """Returns a tree of some entries.

        Args:
            keys: their names, with dots to descend.

        Raises:
            ValueError: If one is there twice.
            KeyError: If there is no such entry.
        """
        wanted = list(keys)
        if len(set(wanted)) < len(wanted):
            raise ValueError(f"There are duplicates among the keys: {wanted}")
        new = self._new()
        for key in wanted:
            new.insert(key, self._find(key), overwrite=True)
        return new

    def keys(self) -> list[str]:
        """Returns the names of the entries: of values and of trees."""
        return list(self._entries)

    def values(self) -> list[Any]:
        """Returns the entries: values and trees."""
        return list(self._entries.values())

    def keys_flat(self) -> list[str]:
        """Returns the names of all values, with dots."""
        return list(self.to_dict())

    def values_flat(self) -> list[T]:
        """Returns all values, including the values of subtrees."""
        return list(self.to_dict().values())

    def len(self) -> int:
        """Returns the number of the entries: of values and of trees."""
        return len(self._entries)

    def len_flat(self) -> int:
        """Returns the number of all values."""
        return len(self.to_dict())

    def to_dict(self) -> dict[str, T]:
        """Returns all values by their names with dots."""
        found: dict[str, T] = {}
        for key, value in self._entries.items():
            if isinstance(value, DotTree):
                found.update({f"{key}.{name}": leaf for name, leaf in value.to_dict().items()})
            else:
                found[key] = value
        return found

    @classmethod
    def from_dict(cls, d: Mapping[Any, Any]) -> Self:
        """Makes a tree of a dictionary.

        Args:
            d: values and trees by name with dots, or number.

        Raises:
            ValueError: If a key is no name.
        """
        tree = cls()
        for key, value in d.items():
            tree.insert(key, value, overwrite=True)
        return tree

    @classmethod
    def pack(cls, keys: Iterable[Any], values: Iterable[Any]) -> Self:
        """Makes a tree of names and values.

        Args:
            keys: the names, with dots, or numbers.
            values: as many values.
        """
        return cls.from_dict(dict(zip(keys, values)))

    def unpack(self) -> tuple[Any, Any]:
        """Returns the names with dots, and the values, both in the order of the names."""
        pairs = sorted(self.to_dict().items(), key=lambda pair: pair[0])
        if not pairs:
            return [], []
        names, values = zip(*pairs)
        return names, values

    def to_mapping(self, values: DotTree[Any]) -> dict[T, Any]:
        """Maps the values of this tree to another tree's values of the same names.

        Args:
            values: the other tree.
        """
        others = values.to_dict()
        return {own: others[key] for key, own in self.to_dict().items() if key in others}


def to_mapping(key: DotTree[Any], value: DotTree[Any]) -> dict[Any, Any]:
    """Maps the values of one tree to another tree's values of the same names.

    Args:
        key: the tree whose values are the keys.
        value: the tree whose values are the values.
    """
    return key.to_mapping(value)


def sanitise(name: str) -> str:
    """Returns a name that is valid in a tree.

    Args:
        name: any text; what is no letter, digit or underscore becomes an underscore, and so does a
            digit at the beginning.
    """
    return re.sub(r"\W|^\d", "_", name)


TensorMap = Mapping[popxl.Tensor, popxl.Tensor]


class NamedTensors(DotTree[popxl.Tensor]):
    """Tensors by name."""

    @property
    def tensors(self) -> tuple[popxl.Tensor, ...]:
        """All tensors, in the order of their own names."""
        return tuple(sorted(self.values_flat(), key=lambda tensor: tensor.name))

    @property
    def named_tensors(self) -> dict[str, popxl.Tensor]:
        """All tensors by their names with dots."""
        return self.to_dict()

    def remap(self, mapping: Mapping[popxl.Tensor, Any]) -> Self:
        """Returns a tree of the same names with other tensors.

        Args:
            mapping: the new tensor for each one.

        Raises:
            KeyError: If a tensor is not in the mapping.
        """
        return self.map(lambda tensor: mapping[tensor])


class NamedTensorData(DotTree[np.ndarray]):
    """Arrays by name: the values of tensors."""


def print_named_tensors(named_tensors: NamedTensors) -> None:
    """Prints tensors each time that the program passes here, with their names as titles.

    Args:
        named_tensors: tensors of the current graph.
    """
    for name, tensor in named_tensors.to_dict().items():
        popxl.ops.print_tensor(tensor, title=name)
