"""Names of a resource and of the Python object behind it, for error messages.

A resource handle knows nothing of the variable, and a variable nothing of the optimizer or layer,
that has it. The garbage collector has the references between objects. A search of them takes long,
so it is done for an error only.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any, NamedTuple

from tensorflow.python.eager.polymorphic_function import concrete_function, polymorphic_function
from tensorflow.python.ops import resource_variable_ops
from tensorflow.python.trackable import base, data_structures

# From a handle to its variable, a list of variables, the attributes of an object, the object; with
# two more for dicts of dicts, and for parts of an object that are private to it.
_DEPTH = 6
_CONTAINERS = (dict, list, tuple, data_structures.TrackableDataStructure)
_NOT_OWNERS = (polymorphic_function.Function, concrete_function.ConcreteFunction)


class ResourceKind(NamedTuple):
    """A kind of resource that programs cannot have.

    Args:
        marks: parts of the names of the ops that make or use one.
        noun: its name in messages.
        advice: advice for the user.
    """

    marks: tuple[str, ...]
    noun: str
    advice: str


_KINDS = (
    ResourceKind(
        ("LookupTable", "HashTable"),
        "lookup table",
        "Look up on the host: in a map of the dataset, or before the program, and pass it the "
        "values.",
    ),
    ResourceKind(
        ("Summary",),
        "summary writer",
        "Write summaries on the host: return the value from the program, or enqueue it to an "
        "IPUOutfeedQueue.",
    ),
    ResourceKind(
        ("Iterator",),
        "dataset iterator of the host",
        "Pass it to strategy.run, or make it inside `with strategy.scope():`, where iter(dataset) "
        "gives an iterator that programs read, or read the dataset with an IPUInfeedQueue.",
    ),
    ResourceKind(
        ("Queue",),
        "queue of the host",
        "Use it on the host, before or after the program, or exchange data with an IPUInfeedQueue "
        "and an IPUOutfeedQueue.",
    ),
)
OTHER = ResourceKind((), "resource of the host", "Use it on the host, before or after the program.")


def kind_of(op_type: str) -> ResourceKind | None:
    """Returns the kind of resource that an op makes or uses; None for a variable."""
    return next((kind for kind in _KINDS if any(mark in op_type for mark in kind.marks)), None)


class Holder(NamedTuple):
    """The Python object that owns a resource, with its name.

    Args:
        variable: the variable whose resource it is; None if it is none, or not known.
        owner: the nearest object around that TensorFlow knows: an optimizer, layer, metric,
            table; None if there is none.
    """

    variable: Any
    owner: Any

    def owner_in_words(self) -> str:
        """Returns class and name of the owner, such as `Dense 'hidden'`; empty if there is none."""
        if self.owner is None:
            return ""
        name = getattr(self.owner, "name", None) or getattr(self.owner, "_name", None)
        kind = type(self.owner).__name__
        return f"{kind} {name!r}" if isinstance(name, str) else kind


def find_holders(handles: Sequence[Any]) -> list[Holder]:
    """Returns the variable and the owning object of each resource handle.

    Args:
        handles: tensors of the type resource, eager or symbolic.
    """
    search = _Search(handles)
    for _ in range(_DEPTH):
        search.step()
    return [
        Holder(variable, min(owners, key=lambda one: type(one).__name__, default=None))
        for variable, owners in zip(search.variables, search.owners)
    ]


class _Search:
    """Breadth-first search from handles to the objects that refer to them.

    Args:
        handles: the handles.
    """

    def __init__(self, handles: Sequence[Any]) -> None:
        self.variables: list[Any] = [None for _ in handles]
        self.owners: list[list[Any]] = [[] for _ in handles]
        # Objects found in the last step, and the positions of their handles.
        self._objects: list[Any] = list(handles)
        self._positions = {id(handle): {index} for index, handle in enumerate(handles)}
        self._seen = {*self._positions, id(self.variables), id(self.owners)}

    def step(self) -> None:
        """Extends the search by one step, for the handles without known owners."""
        ended = {index for index, owners in enumerate(self.owners) if owners}
        self._seen.add(id(self._objects))
        following: list[Any] = []
        positions: dict[int, set[int]] = {}
        for holder in gc.get_referrers(*self._objects):
            if id(holder) in self._seen:
                continue
            self._seen.add(id(holder))
            if isinstance(holder, (*_CONTAINERS, base.Trackable)) or _is_private(holder):
                held = [self._positions.get(id(one), ()) for one in gc.get_referents(holder)]
                found = set().union(*held) - ended
                if found and not self._take(holder, found):
                    following.append(holder)
                    positions[id(holder)] = found
        self._objects, self._positions = following, positions

    def _take(self, holder: Any, found: set[int]) -> bool:
        """Records a holder as variable or owner of handles; returns whether the search ends."""
        is_variable = isinstance(holder, resource_variable_ops.BaseResourceVariable)
        for index in found if is_variable else ():
            if self.variables[index] is None:
                self.variables[index] = holder
        if is_variable or isinstance(holder, _CONTAINERS) or _is_private(holder):
            return False
        for index in found if not isinstance(holder, _NOT_OWNERS) else ():
            self.owners[index].append(holder)
        return True


def _is_private(holder: Any) -> bool:
    """Returns whether an object is of a class that users do not know."""
    return type(holder).__name__.startswith("_")
