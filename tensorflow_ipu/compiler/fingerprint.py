"""Hashes of Programs, by which equal ones are compiled once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from tensorflow.core.framework import function_pb2, node_def_pb2, tensor_pb2

from tensorflow_ipu.compiler.ir.program import Program

_FEED_ATTRIBUTE = "feed_id"
# Names a Python function by which TensorFlow made the gradient, which it has by now. Functions of
# `tf.custom_gradient` get a fresh name each time.
_GRADIENT_ATTRIBUTE = "_gradient_op_type"
_SEED_ATTRIBUTES = ("seed", "seed2")
# How TensorFlow is configured in the process that made a call: which of several it is, too.
_CONFIGURATION_ATTRIBUTE = "config_proto"


def fingerprint(program: Program, key: bytes) -> str:
    """Returns a hash that is equal for Programs that differ in generated names only.

    Functions and feeds have fresh names each time a program is built; they enter as the position
    of their first use, so the same loop with another queue is the same program.

    Args:
        program: the compiled Program.
        key: everything else that decides on the result: `Target.key`.

    Returns:
        A hexadecimal SHA-256 digest.
    """
    return _digest(program, key, _keep_all)


def structural_fingerprint(program: Program, key: bytes) -> str:
    """Returns a hash that is equal for Programs that differ in constants and seeds, too.

    Processes that run a program together may each have their own: an index, a random seed.

    Args:
        program: the compiled Program.
        key: everything else that has to be equal.

    Returns:
        A hexadecimal SHA-256 digest.
    """
    return _digest(program, key, _drop_values)


def _digest(program: Program, key: bytes, reduce: Callable[[node_def_pb2.NodeDef], None]) -> str:
    digest = hashlib.sha256(key)
    functions = {name: f"f{number}" for number, name in enumerate(program.names_by_use())}
    feeds: dict[bytes, bytes] = {}
    for name in functions:
        digest.update(_canonical(program, name, functions, feeds, reduce))
    return digest.hexdigest()


def _keep_all(node: node_def_pb2.NodeDef) -> None:
    """Leaves a node as it is."""


def _drop_values(node: node_def_pb2.NodeDef) -> None:
    """Removes values and seeds that do not decide equality: constants keep type and shape."""
    if node.op == "Const":
        node.attr["value"].tensor.CopyFrom(
            tensor_pb2.TensorProto(
                dtype=node.attr["value"].tensor.dtype,
                tensor_shape=node.attr["value"].tensor.tensor_shape,
            )
        )
    for name in (*_SEED_ATTRIBUTES, _CONFIGURATION_ATTRIBUTE):
        node.attr.pop(name, None)


def _canonical(
    program: Program,
    name: str,
    functions: dict[str, str],
    feeds: dict[bytes, bytes],
    reduce: Callable[[node_def_pb2.NodeDef], None],
) -> bytes:
    """Returns one function, with generated names replaced by canonical ones."""
    function = type(program.functions[name])()
    function.CopyFrom(program.functions[name])
    function.signature.name = functions[name]
    _rename_arguments(function)
    for node in function.node_def:
        for value in node.attr.values():
            if value.HasField("func"):
                value.func.name = functions[value.func.name]
            for item in value.list.func:
                item.name = functions[item.name]
        if _FEED_ATTRIBUTE in node.attr:
            feed = node.attr[_FEED_ATTRIBUTE]
            feed.s = feeds.setdefault(feed.s, b"feed%d" % len(feeds))
        node.attr.pop(_GRADIENT_ATTRIBUTE, None)
        reduce(node)
    serialized: bytes = function.SerializeToString(deterministic=True)
    return serialized


def _rename_arguments(function: function_pb2.FunctionDef) -> None:
    """Names arguments by position: TensorFlow puts names of functions into their names."""
    names = {}
    for index, argument in enumerate(function.signature.input_arg):
        names[argument.name] = f"argument_{index}"
        argument.name = names[argument.name]
    for attributes in function.arg_attr.values():
        attributes.attr.pop("_user_specified_name", None)
    for node in function.node_def:
        for index, reference in enumerate(node.input):
            node.input[index] = names.get(reference, reference)
    for key, reference in list(function.ret.items()):
        function.ret[key] = names.get(reference, reference)
