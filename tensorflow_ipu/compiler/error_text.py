"""Error texts in terms of the user's program: op, layer and line.

TensorFlow names nodes in messages by tags, as in `{{function_node body_42}}{{node dense/MatMul}}`.
So do the checks of the compiler (`program.node_tag`) and the kernels of this package. When a
message leaves the compiler or a launch, `explained` replaces the tags by names and adds a line for
each op.
"""

from __future__ import annotations

import contextlib
import linecache
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tensorflow.python.framework import errors

from tensorflow_ipu.compiler import source_map
from tensorflow_ipu.compiler.analysis.layer_names import path

if TYPE_CHECKING:
    import tensorflow as tf

    from tensorflow_ipu.compiler.cluster import Cluster

# Ops of an error that are described; more would hide the error itself.
_SHOWN = 5
# A function, a node, or a node in a function. A node may be in a line of its own, without a tag if
# it is not the first: `[[{{node dense/MatMul}}]]`, `[[while]]`.
_NAMED = re.compile(
    r"\{\{function_node (?P<function>[^{}\s]+)\}\}\s*|\{\{node (?P<node>[^{}\s]+)\}\}|"
    r"\n\t \[\[(?P<line>[^\[\]{}\s]+)\]\]"
)
_NODE_LINE = re.compile(r"\n\t \[\[(\{\{[^\[\]\n]*\}\}|[^\[\]{}\s]+)\]\]")


def explained(message: str, cluster: Cluster) -> str:
    """Returns the message of an error with its ops named by name, type, layer and user's line.

    Args:
        message: the message, with TensorFlow's tags for nodes.
        cluster: the Cluster that was compiled or run.

    Returns:
        The message with names instead of tags. Then, below the name of the program, each op with
        its type, its layer and the user's line.
    """
    if "{{" not in message:
        return message
    described = (_described(cluster.sources, *names) for names in _named(message, cluster.entry))
    lines = [text for text in described if text]
    text = _NAMED.sub(lambda match: match["node"] or "", _NODE_LINE.sub("", message)).strip()
    if not lines:
        return text
    return "\n".join([text, f"In the IPU program {cluster.id}:", *lines[:_SHOWN]])


@contextlib.contextmanager
def explained_errors(cluster: Cluster) -> Iterator[None]:
    """Context: rewrites errors of compiling a Cluster in terms of the user's program.

    Args:
        cluster: the Cluster.

    Raises:
        tf.errors.OpError: The same that was raised inside.
    """
    try:
        yield
    except errors.OpError as error:
        error._message = explained(error.message, cluster)
        raise


def _named(message: str, entry: str) -> list[tuple[str, str]]:
    """Returns the ops that a message names as (function, node), in order, without duplicates."""
    found: dict[tuple[str, str], None] = {}
    function = entry
    for match in _NAMED.finditer(message):
        function = match["function"] or function
        node = match["node"] or match["line"]
        if node:
            found[function, node] = None
            function = entry
    return list(found)


def _described(sources: source_map.SourceMap, function: str, node: str) -> str:
    """Returns a line that describes an op by type, layer and place; empty for an unknown op."""
    op = sources.operation(function, node)
    if op is None:
        return ""
    origin = sources.origin_of(op)
    words = [f"  {node} ({op.type})"]
    if origin.original:
        words.append(f"for {origin.original}")
    layer = _layer(op, origin)
    if layer:
        words.append(f"in the layer {layer}")
    place = origin.location
    if place is not None:
        words.append(f"at {place.path}")
        code = linecache.getline(place.file, place.line).strip()
        words[-1] += f":\n    {code}" if code else ""
    return ", ".join(words)


def _layer(op: tf.Operation, origin: source_map.Origin) -> str:
    """Returns the layer of an op, by a front end's declaration or its name."""
    if origin.layer is not None:
        return origin.layer
    return path(origin.original or op.name, origin.keras.layers)
