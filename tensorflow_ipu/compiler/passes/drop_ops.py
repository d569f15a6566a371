"""Passes that drop ops: ops that no result needs, and ops that only check values."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import ops
from tensorflow.python.ops import check_ops

from tensorflow_ipu.compiler import source_map
from tensorflow_ipu.compiler.ir.program import (
    OUTSIDE_ATTRIBUTE,
    DroppedCheck,
    Program,
    called_functions,
    host_functions,
    input_node,
)
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.compiler.source_map import SourceLocation, SourceMap
from tensorflow_ipu.util import op_names
from tensorflow_ipu.util.notices import warn_once

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.cluster import Cluster
    from tensorflow_ipu.compiler.executable import Executable
    from tensorflow_ipu.compiler.ir.program import DroppedCheck, Program


def prune(program: Program, target: Target) -> None:
    """Keeps the nodes that a function's results or control results need, and the functions used.

    An operation of a TensorFlow 1 program runs only if something that is fetched depends on it.
    TensorFlow's function runtime would run every stateful node instead.

    Before: any legal Program. After: every node reaches a result or control result of its
    function, and every function is reachable from the entry.
    """
    del target
    for function in program.functions.values():
        _prune_nodes(function)
    reachable = _reachable_functions(program)
    program.functions = {
        name: function for name, function in program.functions.items() if name in reachable
    }


def _prune_nodes(function: function_pb2.FunctionDef) -> None:
    nodes = {node.name: node for node in function.node_def}
    pending = [input_node(value) for value in function.ret.values()]
    pending.extend(function.control_ret.values())
    needed: set[str] = set()
    while pending:
        name = pending.pop()
        if name in needed or name not in nodes:
            continue
        needed.add(name)
        pending.extend(input_node(reference) for reference in nodes[name].input)
    if len(needed) == len(nodes):
        return
    kept = [node for node in function.node_def if node.name in needed]
    del function.node_def[:]
    function.node_def.extend(kept)


def _reachable_functions(program: Program) -> set[str]:
    pending, reachable = [program.entry], set()
    while pending:
        name = pending.pop()
        if name in reachable or name not in program.functions:
            continue
        reachable.add(name)
        for node in program.functions[name].node_def:
            pending.extend(called_functions(node))
    return reachable


# --- Ops that only check values ---

_PASSED_THROUGH = op_names.DROPPED_CHECKS - {op_names.ASSERTION}


def drop_checks(program: Program, target: Target) -> None:
    """Removes assertions and turns numeric checks into identities, as on the device.

    Before: any legal Program. After: the only checking ops left are outside compilation, which the
    host runs. Ops that only fed the others are still there (pruning removes them). `dropped` of the
    Program lists the checks that it lost.
    """
    del target
    on_host = host_functions(program)
    for name, function in program.functions.items():
        if name in on_host:
            continue
        program.dropped += [
            DroppedCheck(name, node.name, node.op)
            for node in function.node_def
            if node.op in op_names.DROPPED_CHECKS and OUTSIDE_ATTRIBUTE not in node.attr
        ]
        _drop_assertions(function)
        for node in function.node_def:
            if node.op in _PASSED_THROUGH and OUTSIDE_ATTRIBUTE not in node.attr:
                node.op = "Identity"
                del node.attr["message"]


def _drop_assertions(function: function_pb2.FunctionDef) -> None:
    dropped = {
        node.name
        for node in function.node_def
        if node.op == op_names.ASSERTION and OUTSIDE_ATTRIBUTE not in node.attr
    }
    if not dropped:
        return
    for node in function.node_def:
        kept = [reference for reference in node.input if input_node(reference) not in dropped]
        del node.input[:]
        node.input.extend(kept)
    for key in [key for key, value in function.control_ret.items() if value in dropped]:
        del function.control_ret[key]
        function.signature.control_output.remove(key)
    nodes = [node for node in function.node_def if node.name not in dropped]
    del function.node_def[:]
    function.node_def.extend(nodes)


_TENSORFLOW = os.path.dirname(os.path.dirname(check_ops.__file__))

# Modules of TensorFlow between the line that asks for a check and the op.
_MACHINERY = tuple(
    os.path.join(_TENSORFLOW, path)
    for path in """
    autograph/ eager/ framework/ util/ ops/gen_ ops/check_ops.py ops/cond.py ops/cond_v2.py
    ops/control_flow_assert.py ops/numerics.py ops/weak_tensor_ops.py
    """.split()
)

# The op of `tf.debugging.enable_check_numerics`, which adds one to each op, even to a library's.
_OF_ALL_OPS = "CheckNumericsV2"
_SHOWN = 5


def warn(program: Program, executable: Executable, cluster: Cluster) -> None:
    """Warns that the user's own checks were dropped; checks of libraries are not mentioned.

    Args:
        program: the Program, after the pass `drop_checks`.
        executable: its Executable.
        cluster: the Cluster, which knows the user's lines.
    """
    del executable
    found = dict.fromkeys(_written_by_user(check, cluster.sources) for check in program.dropped)
    lines = [str(source) for source in found if source is not None]
    if not lines:
        return
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    warn_once(
        "The chip has no checks of values, so programs run without them. Dropped are the checks "
        "of %s. To run a check, put it on the host with "
        "ipu.scopes.outside_compilation_scope(). To stop at NaN and infinities, set "
        "config.floating_point_behaviour (inv, div0, oflo).",
        f"{', '.join(lines[:_SHOWN])}{more}",
    )


def _written_by_user(check: DroppedCheck, sources: SourceMap) -> SourceLocation | None:
    """Returns the user's line that asks for a check, None if a library does."""
    if check.op == _OF_ALL_OPS:
        return sources.lookup(check.function, check.name)
    operation = sources.operation(check.function, check.name)
    return None if operation is None else _asked_at(operation)


def _asked_at(operation: ops.Operation) -> SourceLocation | None:
    for frame in reversed(list(operation.traceback or ())):
        if frame.filename.startswith(_MACHINERY) or source_map.is_scaffolding(frame.filename):
            continue
        if not source_map.is_users(frame.filename):
            return None
        return SourceLocation(frame.filename, frame.lineno, frame.name)
    return None
