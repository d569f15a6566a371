"""Checks the inputs of collectives within a replica."""

from __future__ import annotations

from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.framework import errors

from tensorflow_ipu.compiler.ir.node_sharding import ALL_IPUS, node_ipus
from tensorflow_ipu.compiler.ir.program import (
    SHARD_INPUT_ATTRIBUTE,
    Program,
    at_node,
    input_node,
)


def check(program: Program) -> None:
    """Checks that input i of each collective within a replica is on shard i.

    What comes from outside of the function (an argument, a variable of a loop) is taken to be.

    Args:
        program: the Program, as the user's shards are: nothing was placed by the compiler yet.

    Raises:
        tf.errors.FailedPreconditionError: an input is on another shard, or names none.
    """
    for function in program.functions.values():
        inputs = [node for node in function.node_def if SHARD_INPUT_ATTRIBUTE in node.attr]
        if inputs:
            nodes = {node.name: node for node in function.node_def}
            for node in inputs:
                source = nodes.get(input_node(node.input[0]))
                if source is not None:
                    _check_input(function, node, source)


def _check_input(
    function: function_pb2.FunctionDef, node: node_def_pb2.NodeDef, source: node_def_pb2.NodeDef
) -> None:
    index = node.attr[SHARD_INPUT_ATTRIBUTE].i
    ipus = node_ipus(source)
    if ipus in ((index,), (ALL_IPUS,)):
        return
    if ipus:
        problem = (
            "The inputs of a collective within a replica must be provided in incrementing shard "
            f"order: input {index} is on shard {', '.join(map(str, ipus))}"
        )
    else:
        problem = (
            f"Missing shard information for input {index} of a collective within a replica, which "
            "takes one from each shard in turn"
        )
    place = at_node(source.name, function.signature.name)
    advice = f"{problem}. Make it in `with ipu.scopes.ipu_shard({index}):`.{place}"
    raise errors.FailedPreconditionError(None, None, advice)
