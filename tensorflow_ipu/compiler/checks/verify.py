"""Invariants of a Program that hold between all passes. A violation is a fault of a pass."""

from __future__ import annotations

import collections

from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import errors

from tensorflow_ipu.compiler.ir import effects
from tensorflow_ipu.compiler.ir.program import (
    Program,
    called_functions,
    input_node,
)
from tensorflow_ipu.util import op_names


def check_structure(program: Program) -> None:
    """Checks that a Program is whole.

    Every input of a node is an argument or a node of its function, every result names one, every
    function that is called is there, and node names are unique in their function.

    Raises:
        tf.errors.InternalError: Naming the function and node. It means that a pass is wrong.
    """
    if program.entry not in program.functions:
        raise errors.InternalError(None, None, f"The entry {program.entry} is missing.")
    for name, function in program.functions.items():
        _check_function(program, name, function)


def _check_function(program: Program, name: str, function: function_pb2.FunctionDef) -> None:
    known = {argument.name for argument in function.signature.input_arg}
    for node in function.node_def:
        if node.name in known:
            raise errors.InternalError(None, None, f"{name} has two nodes called {node.name}.")
        known.add(node.name)
    references = [(node.name, reference) for node in function.node_def for reference in node.input]
    references += [("its results", reference) for reference in function.ret.values()]
    references += [("its results", reference) for reference in function.control_ret.values()]
    for user, reference in references:
        if input_node(reference) not in known:
            raise errors.InternalError(
                None, None, f"In {name}, {user} refers to {reference}, which does not exist."
            )
    for node in function.node_def:
        for called in called_functions(node):
            if called not in program.functions:
                raise errors.InternalError(
                    None, None, f"In {name}, {node.name} calls {called}, which does not exist."
                )


def check_nothing_lost(name: str, before: collections.Counter[str], program: Program) -> None:
    """Checks that a pass has kept every op with effects.

    An op that a pass puts instead of another has the name of the replaced op.

    Args:
        name: of the pass.
        before: `effects.counted` of the Program before the pass.
        program: the Program after it.

    Raises:
        tf.errors.InternalError: Naming the pass and the ops. The pass has a fault.
    """
    lost = before - collections.Counter(
        node.name for name in program.names_by_use() for node in program.functions[name].node_def
    )
    if lost:
        raise errors.InternalError(
            None, None, f"The pass {name} has lost ops with effects: {sorted(lost)[:5]}."
        )


def check_effects(program: Program) -> None:
    """Checks that control results name all effects, so that none depends on a used result.

    Raises:
        tf.errors.InternalError: Naming the function and node. It means that a pass is wrong.
    """
    running = effects.functions(program)
    for name in sorted(running):
        function = program.functions[name]
        if effects.has_frames(function):
            continue
        kept = effects.waited_for(function, function.control_ret.values())
        for node in function.node_def:
            if not effects.of_node(program, node, running):
                continue
            if node.name not in kept or node.op in op_names.STATEFUL:
                raise errors.InternalError(
                    None, None, f"In {name}, {node.name} has an effect that may be dropped."
                )
