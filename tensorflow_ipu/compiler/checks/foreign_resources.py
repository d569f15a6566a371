"""Check for variables or tables in a program that its device does not have.

A program has the variables of its device, and no other resources. TensorFlow would move the launch
to the device of a variable that is elsewhere, or say that a graph cannot be placed; here the error
names the object, and where it is used.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any, NamedTuple

from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import concrete_function, polymorphic_function
from tensorflow.python.framework import device as device_lib
from tensorflow.python.framework import errors, func_graph, ops
from tensorflow.python.ops import resource_variable_ops
from tensorflow.python.trackable import base, data_structures

from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.ir import dataflow
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.source_map import SourceLocation, SourceMap, source_of

# A resource handle knows nothing of the variable, and a variable nothing of the optimizer or layer,
# that has it. The garbage collector has the references between objects. A search of them takes
# long, so it is done for an error only.

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


# --- The check ---

# How many objects an error names.
_SHOWN = 3
# Ops without inputs whose result may be the handle of a variable.
_MAY_BE_VARIABLES = ("VarHandleOp", "Placeholder")


def check(cluster: Cluster, arguments: Sequence[Any], device: str) -> None:
    """Checks that all resources passed to a program are variables of its device.

    Args:
        cluster: the program.
        arguments: its explicit inputs, then its captures: eager or symbolic tensors.
        device: the IPU device to launch on.

    Raises:
        tf.errors.InvalidArgumentError: A resource is no variable, or on another device. The text
            says what to do.
    """
    ordinal = device_lib.DeviceSpec.from_string(device).device_index or 0
    own = f"/device:IPU:{ordinal}"
    suspects: Sequence[int] = cluster.resource_inputs
    if context.executing_eagerly():
        # This happens at each launch, so nothing else is done where all is well.
        suspects = [index for index in suspects if not arguments[index].device.endswith(own)]
    origins = _origins([arguments[index] for index in suspects])
    found = [pair for pair in zip(suspects, origins) if _is_foreign(pair[1], ordinal)]
    if found:
        message = _message(_described(cluster, found), cluster.graph.name, own)
        raise errors.InvalidArgumentError(None, None, message)


def _origins(tensors: Sequence[Any]) -> list[Any]:
    """Returns the tensors outside of all traced functions that captured tensors stand for."""
    # By graph, the tensors of the outer graph that its tensors stand for.
    outside: dict[int, dict[int, Any]] = {}
    origins = []
    for tensor in tensors:
        while ops.is_symbolic_tensor(tensor) and isinstance(tensor.graph, func_graph.FuncGraph):
            graph = tensor.graph
            if id(graph) not in outside:
                outside[id(graph)] = {id(inner): outer for outer, inner in graph.captures}
            if id(tensor) not in outside[id(graph)]:
                break
            tensor = outside[id(graph)][id(tensor)]
        origins.append(tensor)
    return origins


def _is_foreign(origin: Any, ordinal: int) -> bool:
    """Returns whether a resource is known to be no variable of a device."""
    if ops.is_symbolic_tensor(origin):
        makes = not origin.op.inputs and origin.op.type not in _MAY_BE_VARIABLES
        if makes or kind_of(origin.op.type) is not None:
            return True
    if not origin.device:
        return False
    spec = device_lib.DeviceSpec.from_string(origin.device)
    return spec.device_type != "IPU" or (spec.device_index or 0) != ordinal


class _Resource(NamedTuple):
    """A resource that a program uses, as error messages describe it.

    Args:
        kind: kind of resource; None for a variable.
        name: its name; empty if that is not known.
        owner: the object that it belongs to, in words; empty if there is none.
        device: where it is.
        made: where in the user's program it was made.
        used: where the program uses it.
    """

    kind: ResourceKind | None
    name: str
    owner: str
    device: str
    made: SourceLocation | None
    used: SourceLocation | None


def _described(cluster: Cluster, found: Sequence[tuple[int, Any]]) -> list[_Resource]:
    """Describes the resources that some arguments of a program are."""
    functions = {f.signature.name: f for f in cluster.library().function}
    users: dict[object, list[Any]] = {}
    for resource, node in dataflow.resource_uses(Program(functions, cluster.entry)):
        users.setdefault(resource, []).append(node)
    sources = SourceMap(cluster.graph, cluster.entry)
    holders = find_holders([origin for _, origin in found])
    return [
        _resource(origin, holder, users.get(("argument", index), []), sources)
        for (index, origin), holder in zip(found, holders)
    ]


def _resource(origin: Any, holder: Holder, users: Sequence[Any], sources: SourceMap) -> _Resource:
    """Describes a resource by its kind, name, owner, device and lines of the user.

    Args:
        origin: its handle.
        holder: the Python object that owns it.
        users: nodes of the program that use it.
        sources: the lines of the program.
    """
    made_by = origin.op if ops.is_symbolic_tensor(origin) else None
    types = [user.op for user in users] + ([made_by.type] if made_by is not None else [])
    kinds = [kind for kind in map(kind_of, types) if kind is not None]
    is_variable = "VarHandleOp" in types or _is_known_variable(origin)
    kind = kinds[0] if kinds else None if is_variable else OTHER
    lines = (sources.lookup("", user.name) for user in users)
    return _Resource(
        kind,
        _name(holder, made_by),
        holder.owner_in_words(),
        short_name(origin.device) or "the host",
        source_of(made_by) if made_by is not None else None,
        next((line for line in lines if line is not None), None),
    )


def _is_known_variable(handle: Any) -> bool:
    data = getattr(handle, "_handle_data", None)
    return data is not None and bool(data.is_set)


def _name(holder: Holder, made_by: Any) -> str:
    if holder.variable is not None:
        return str(holder.variable.name).split(":")[0]
    return "" if made_by is None else str(made_by.name)


def short_name(device: str) -> str:
    """Returns a device name from `/device:` on, without job and task."""
    return device[device.find("/device:") :] if "/device:" in device else device


def _message(found: Sequence[_Resource], program: str, own: str) -> str:
    sentences = [f"The IPU program {program!r} cannot be launched on {own}."]
    variables = [one for one in found if one.kind is None]
    if variables:
        sentences += _of_variables(variables, own)
    for noun in dict.fromkeys(one.kind.noun for one in found if one.kind is not None):
        same = [one for one in found if one.kind is not None and one.kind.noun == noun]
        sentences += _of_others(same)
    return " ".join(sentences)


def _of_variables(variables: Sequence[_Resource], own: str) -> list[str]:
    """Returns the sentences about variables on another device, by their owners."""
    groups: dict[tuple[str, str], list[_Resource]] = {}
    for one in variables:
        groups.setdefault((one.owner, one.device), []).append(one)
    shown = []
    for (owner, device), members in list(groups.items())[:_SHOWN]:
        names = _listed([repr(one.name) if one.name else "one without a name" for one in members])
        what = f"variable{'s' if len(members) > 1 else ''} {names}"
        shown.append(f"the {what}{f' of the {owner}' if owner else ''} on {device}{_at(members)}")
    more = f"; and of {len(groups) - _SHOWN} more objects" if len(groups) > _SHOWN else ""
    owners = list(dict.fromkeys(owner for owner, _ in groups if owner))[:_SHOWN]
    them = f"the {' and the '.join(owners)}" if owners else "it" if len(variables) == 1 else "them"
    return [
        f"It uses {'; '.join(shown)}{more}.",
        f"Create its variables on the IPU: make {them} inside `with strategy.scope():`, or `with "
        f'ipu.scopes.ipu_scope("{own}"):`.',
    ]


def _of_others(found: Sequence[_Resource]) -> list[str]:
    """Returns the sentences about resources of one kind that programs cannot have."""
    kind = found[0].kind or OTHER
    names = [one.owner or repr(one.name) for one in found if one.owner or one.name]
    named = f" ({_listed(list(dict.fromkeys(names)))})" if names else ""
    return [
        f"It uses a {kind.noun}{named}{_at(found)}, and programs on the IPU have no resources but "
        "variables.",
        kind.advice,
    ]


def _at(resources: Sequence[_Resource]) -> str:
    """Returns the lines at which resources are made and used, as far as they are known."""
    made = next((one.made for one in resources if one.made is not None), None)
    used = next((one.used for one in resources if one.used is not None), None)
    places = [f"made at {made}"] if made else []
    places += [f"used at {used}"] if used else []
    return f", {', '.join(places)}" if places else ""


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
