"""Lines and layers that a front end declares for ops: its programs are built before the trace.

The stack of an op then leads to the trace, not to the line that the op comes from, and its name is
the front end's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tensorflow_ipu.compiler.sources.frames import SourceLocation

if TYPE_CHECKING:
    import tensorflow as tf

# On a graph: the Declaration of each name scope that has one.
_DECLARATIONS = "_ipu_declarations"


class Declaration(NamedTuple):
    """Line and layer that a front end declares for the ops in a name scope.

    Args:
        location: the line of the user; None if it is not known.
        layer: their layer, within the layer of the call around them; empty for none of their own.
            None if it follows from names and variables.
    """

    location: SourceLocation | None
    layer: str | None = None


def declare(
    graph: tf.Graph, scope: str, location: SourceLocation | None, layer: str | None = None
) -> None:
    """Declares line and layer of all ops in a name scope, and in scopes inside it.

    Args:
        graph: the graph of the ops.
        scope: the name scope, which nothing else uses, without a slash at its end.
        location: the line; None if it is not known.
        layer: the layer, as in `Declaration`.
    """
    if location is not None or layer is not None:
        if not hasattr(graph, _DECLARATIONS):
            setattr(graph, _DECLARATIONS, {})
        getattr(graph, _DECLARATIONS)[scope] = Declaration(location, layer)


def of(op: tf.Operation) -> Declaration | None:
    """Returns the declaration of an op; None without one.

    Args:
        op: the op.
    """
    graph = op.graph
    while graph is not None:
        declarations: dict[str, Declaration] = getattr(graph, _DECLARATIONS, {})
        scope = op.name if declarations else ""
        while scope:
            if scope in declarations:
                return declarations[scope]
            scope = scope.rpartition("/")[0]
        # Bodies of loops and branches have the scopes of the graph around them.
        graph = getattr(graph, "outer_graph", None)
    return None
