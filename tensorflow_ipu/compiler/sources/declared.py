"""Lines that a front end declares for ops: where its programs are built before they are traced.

The stack of an op then leads to the trace, not to the line that the op comes from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow_ipu.compiler.sources.frames import SourceLocation

if TYPE_CHECKING:
    import tensorflow as tf

# On a graph: the line of each name scope that has one.
_LINES = "_ipu_declared_lines"


def declare(graph: tf.Graph, scope: str, location: SourceLocation | None) -> None:
    """Makes a line that of all ops in a name scope, and in those inside it.

    Args:
        graph: the graph of the ops.
        scope: the name scope, which nothing else uses, without a slash at its end.
        location: the line; None changes nothing.
    """
    if location is not None:
        if not hasattr(graph, _LINES):
            setattr(graph, _LINES, {})
        getattr(graph, _LINES)[scope] = location


def line_of(op: tf.Operation) -> SourceLocation | None:
    """Returns the line that is declared for an op; None if there is none.

    Args:
        op: the op.
    """
    lines = getattr(op.graph, _LINES, None)
    scope = op.name
    while lines and scope:
        if scope in lines:
            found: SourceLocation = lines[scope]
            return found
        scope = scope.rpartition("/")[0]
    return None
