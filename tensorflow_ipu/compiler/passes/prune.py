"""Pass: drops ops that no result needs."""

from __future__ import annotations

from tensorflow.core.framework import function_pb2

from tensorflow_ipu.compiler.ir.program import Program, called_functions, input_node
from tensorflow_ipu.compiler.ir.target import Target


def run(program: Program, target: Target) -> None:
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
