"""Rewrite of function calls of TensorFlow 1, whose node type is the function's name.

`tensorflow.python.framework.function.Defun` makes such functions.
"""

from __future__ import annotations

from tensorflow.core.framework import function_pb2, node_def_pb2, op_def_pb2


def rewrite(library: function_pb2.FunctionDefLibrary) -> None:
    """Makes `PartitionedCall` nodes of all calls by name.

    Args:
        library: functions, changed in place.
    """
    signatures = {function.signature.name: function.signature for function in library.function}
    for function in library.function:
        # The names of the results of each call, in order: references name them.
        results: dict[str, list[str]] = {}
        for node in function.node_def:
            if node.op in signatures:
                signature = signatures[node.op]
                _rewrite_node(node, signature)
                results[node.name] = [result.name for result in signature.output_arg]
        if results:
            _rewrite_references(function, results)


def _rewrite_node(node: node_def_pb2.NodeDef, signature: op_def_pb2.OpDef) -> None:
    node.op = "StatefulPartitionedCall" if signature.is_stateful else "PartitionedCall"
    node.attr["f"].func.name = signature.name
    for name, arguments in (("Tin", signature.input_arg), ("Tout", signature.output_arg)):
        node.attr[name].list.Clear()
        node.attr[name].list.type.extend(argument.type for argument in arguments)


def _rewrite_references(function: function_pb2.FunctionDef, results: dict[str, list[str]]) -> None:
    def renamed(reference: str) -> str:
        node, separator, output = reference.partition(":")
        if not separator or node not in results:
            return reference
        return f"{node}:output:{results[node].index(output.partition(':')[0])}"

    for node in function.node_def:
        for index, reference in enumerate(node.input):
            node.input[index] = renamed(reference)
    for key, reference in list(function.ret.items()):
        function.ret[key] = renamed(reference)
