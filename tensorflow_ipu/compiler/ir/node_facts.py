"""Facts of a single node: its IPUs, enclosing loops, functions it runs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from tensorflow.compiler.xla import xla_data_pb2

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir.program import PHASE_ATTRIBUTE, STAGE_ATTRIBUTE

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow.core.framework import node_def_pb2

    from tensorflow_ipu.compiler.ir.function_graphs import FunctionImporter

# Stands for the IPUs of the op that runs the function, until that is known.
INHERITED = (-1,)


def frame_depth(node: node_def_pb2.NodeDef, frames: dict[str, int]) -> int:
    """Returns the number of TensorFlow 1 loops around a node, from `Enter` and `Exit` nodes.

    Args:
        node: a node whose inputs have been asked for before, except for back edges.
        frames: the depth behind each node, extended by this one.
    """
    inputs = (name.lstrip("^").split(":")[0] for name in node.input)
    depth = max((frames.get(name, 0) for name in inputs), default=0)
    frames[node.name] = depth - (node.op in op_names.EXITS)
    if node.op in op_names.ENTERS:
        frames[node.name] = depth = depth + 1
    return depth


def function_attributes(op: tf.Operation) -> list[str]:
    """Returns the names of the attributes of an op that hold functions."""
    return [a.name for a in op.op_def.attr if a.type in ("func", "list(func)")]


def function_names(op: tf.Operation, importer: FunctionImporter) -> list[str]:
    """Returns the names of the functions an op runs, in the order of its attributes."""
    names = [op.type] if op.type in importer else []
    for attribute in function_attributes(op):
        value = op.get_attr(attribute)
        names += [f.name for f in (value if isinstance(value, list) else [value])]
    return [name for name in names if name in importer]


def ipus_of(node: node_def_pb2.NodeDef) -> tuple[int, ...]:
    """Returns the IPUs a node asks for, none for the host."""
    if "_xla_outside_compilation" in node.attr:
        return ()
    if "_XlaSharding" in node.attr:
        return _sharding_devices(node.attr["_XlaSharding"].s)
    return INHERITED


@lru_cache(maxsize=1024)
def _sharding_devices(sharding: bytes) -> tuple[int, ...]:
    """Returns the devices of a serialised `OpSharding`; none if it requests none."""
    parsed = xla_data_pb2.OpSharding.FromString(sharding)
    return tuple(parsed.tile_assignment_devices) or INHERITED


def stage_of(node: node_def_pb2.NodeDef) -> int | None:
    """Returns the pipeline stage a node is in, `None` when it names none."""
    return node.attr[STAGE_ATTRIBUTE].i if STAGE_ATTRIBUTE in node.attr else None


def phase_of(node: node_def_pb2.NodeDef) -> str:
    """Returns the pipeline phase a node is part of, empty when it does not say."""
    return node.attr[PHASE_ATTRIBUTE].s.decode() if PHASE_ATTRIBUTE in node.attr else ""
