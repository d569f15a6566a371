"""Debug information: contexts of ops, source lines of nodes, and the file of contexts."""

from __future__ import annotations

from typing import Any, Union

import onnx

from tensorflow_ipu.frontends.common import debug_contexts
from tensorflow_ipu.frontends.common.user_frames import users_line
from tensorflow_ipu.frontends.popart import errors
from tensorflow_ipu.frontends.popart.errors import popart_exception

# The attribute of a node that leads to the line which made it.
LINE = "__debug_info_id"
# The lines of nodes that builders of this process have made, by the ids that the nodes keep.
_lines: dict[int, SourceLocation] = {}


class SourceLocation:
    """A line of a program."""

    def __init__(self, functionName: str, fileName: str, lineNumber: int) -> None:
        """Takes the line.

        Args:
            functionName: name of the function.
            fileName: path of the file.
            lineNumber: number of the line, from 1.
        """
        self.functionName = functionName
        self.fileName = fileName
        self.lineNumber = lineNumber

    @property
    def place(self) -> tuple[str, int, str]:
        """File, line and function."""
        return self.fileName, self.lineNumber, self.functionName

    def __repr__(self) -> str:
        return f"SourceLocation({self.fileName}:{self.lineNumber} {self.functionName})"


class DebugContext:
    """Name and source line of an op; a string stands for a context of that name."""

    def __init__(self, *args: Any) -> None:
        """Takes any of a `DebugInfo` that it belongs to, a name and a `SourceLocation`.

        Args:
            *args: these, in that order.

        Raises:
            TypeError: If there is anything else.
        """
        self.parent: DebugInfo | None = None
        self.name = ""
        self.location: SourceLocation | None = None
        for arg in args:
            if isinstance(arg, DebugInfo):
                self.parent = arg
            elif isinstance(arg, str):
                self.name = arg
            elif isinstance(arg, SourceLocation):
                self.location = arg
            else:
                raise TypeError(
                    "DebugContext: incompatible function arguments. Expected a DebugInfo, a name "
                    f"and a SourceLocation; received {arg!r}."
                )
        if self.location is None:
            site = users_line()
            self.location = site and SourceLocation(site.function, site.file, site.line)

    def __repr__(self) -> str:
        return f"DebugContext({self.path_name!r} {self.location})"

    @property
    def place(self) -> tuple[str, int, str] | None:
        """File, line and function of its line, if that is known."""
        return None if self.location is None else self.location.place

    @property
    def path_name(self) -> str:
        """Its name, prefixed with the name of its `DebugInfo`."""
        parent = self.parent.context.path_name if self.parent else ""
        return "/".join(part for part in (parent, self.name) if part)


class DebugInfo:
    """Values about an op, for the file of debug information."""

    def __init__(self, debugContext: DebugContext | str, layer: str) -> None:
        """Takes the context.

        Args:
            debugContext: name and line.
            layer: the part of the system that it is of.
        """
        self.context = as_context(debugContext)
        self.layer = layer
        self.values: dict[str, Any] = {}
        self._id = debug_contexts.next_id()

    def __del__(self) -> None:
        """Adds it to the file of debug information, if there is one."""
        if not debug_contexts.is_recording():
            return
        context, parent = self.context, self.context.parent
        debug_contexts.record(
            self.layer,
            context.path_name,
            context.place,
            None if parent is None else parent.getId(),
            self._id,
            **self.values,
        )

    def __repr__(self) -> str:
        return f"DebugInfo({self._id} {self.context.path_name!r} {self.layer})"

    def getId(self) -> int:
        """Returns a number that no other one has."""
        return self._id

    def setValue(self, name: str, value: Any) -> bool:
        """Adds a value.

        Args:
            name: its name.
            value: the value.

        Returns:
            True.
        """
        self.values[name] = value
        return True


def note_line(context: DebugContext, type_: str = "") -> int:
    """Keeps the line of a node that a builder makes.

    Args:
        context: name and line of the node.
        type_: the op of the node.

    Returns:
        The id of the line, which the node keeps.
    """
    parent = note_call(context, type_)
    number = debug_contexts.record(
        debug_contexts.MODEL, context.path_name, context.place, parent, category="op", opType=type_
    )
    if context.location is not None:
        _lines[number] = context.location
    return number


def note_call(context: DebugContext, api: str) -> int:
    """Adds a call of a builder to the file of debug information, and returns its id.

    Args:
        context: name and line of the call.
        api: the called method.
    """
    parent = None if context.parent is None else context.parent.getId()
    return debug_contexts.record(
        debug_contexts.BUILDER, context.path_name, context.place, parent, api=api
    )


def line_of(number: int) -> SourceLocation | None:
    """Returns the line that a builder made a node at; None if another process made it.

    Args:
        number: the result of `note_line`.
    """
    return _lines.get(number)


def remove_lines(graph: onnx.GraphProto) -> None:
    """Removes the ids of source lines of this process from a graph.

    Args:
        graph: the graph.
    """
    for node in graph.node:
        kept = [attribute for attribute in node.attribute if attribute.name != LINE]
        if len(kept) < len(node.attribute):
            del node.attribute[:]
            node.attribute.extend(kept)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                remove_lines(inner)


def as_context(context: DebugContextLike) -> DebugContext:
    """Returns a debug context for one, or for a name.

    Args:
        context: a context or a name.

    Raises:
        TypeError: If it is neither.
    """
    return context if isinstance(context, DebugContext) else DebugContext(context)


DebugContextLike = Union[DebugContext, str]


def initializePoplarDebugInfo(filename: str, format: str = "json") -> None:  # noqa: A002
    """Begins a file of contexts of debug information; `closePoplarDebugInfo` writes it.

    Args:
        filename: the file.
        format: "json".

    Raises:
        popart_exception: If the format is another.
    """
    if format != "json":
        raise popart_exception(
            f"Unknown format of debug information: {format}. Supported is json (cbor is not)."
        )
    debug_contexts.begin(filename)


def closePoplarDebugInfo() -> None:
    """Writes the file that `initializePoplarDebugInfo` began; nothing happens without one.

    Raises:
        OSError: If it cannot be written.
    """
    debug_contexts.finish()


def named(node: onnx.NodeProto) -> str:
    """Returns the name of a node for errors, with its source line if known.

    Args:
        node: the node.
    """
    place = line(node)
    return (
        f"the node {node.op_type}{f' {node.name}' if node.name else ''} ({', '.join(node.output)})"
        f"{f' at {place.fileName}:{place.lineNumber}' if place else ''}"
    )


def add_note(error: Exception, node: onnx.NodeProto) -> None:
    """Adds the name of a node, and the line that made it, to an error that is about it.

    Args:
        error: the error.
        node: the node.
    """
    errors.add_note(error, f"In {named(node)}.")


def scope_name(node: onnx.NodeProto) -> str:
    """Returns the name scope of the operations of a node.

    Args:
        node: the node.
    """
    name = node.name or node.op_type
    return "".join(c if c.isalnum() or c in "_./" else "_" for c in name).strip("_./") or "node"


def line(node: onnx.NodeProto) -> SourceLocation | None:
    """Returns the line of the program that made a node, if that is known.

    Args:
        node: the node.
    """
    number = next((attribute.i for attribute in node.attribute if attribute.name == LINE), 0)
    return line_of(number)
