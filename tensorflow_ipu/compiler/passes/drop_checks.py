"""Pass: drops ops that only check values."""

from __future__ import annotations

from tensorflow.core.framework import function_pb2

from tensorflow_ipu.compiler.ir.program import (
    OUTSIDE_ATTRIBUTE,
    DroppedCheck,
    Program,
    host_functions,
    input_node,
)
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.util import op_names

_PASSED_THROUGH = op_names.DROPPED_CHECKS - {op_names.ASSERTION}


def run(program: Program, target: Target) -> None:
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
