"""Hashes Programs so that equal ones are compiled once."""

from __future__ import annotations

import hashlib

from tensorflow.core.framework import function_pb2

from tensorflow_ipu.compiler.ir.program import Program

_FEED_ATTRIBUTE = "feed_id"
# Names a Python function by which TensorFlow made the gradient, which it has by now. Functions of
# `tf.custom_gradient` get a fresh name each time.
_GRADIENT_ATTRIBUTE = "_gradient_op_type"


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
    digest = hashlib.sha256(key)
    functions = {name: f"f{number}" for number, name in enumerate(program.names_by_use())}
    feeds: dict[bytes, bytes] = {}
    for name in functions:
        _update(digest, program, name, functions, feeds)
    return digest.hexdigest()


def _update(
    digest: hashlib._Hash,
    program: Program,
    name: str,
    functions: dict[str, str],
    feeds: dict[bytes, bytes],
) -> None:
    """Adds one function, with names replaced by canonical ones."""
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
    digest.update(function.SerializeToString(deterministic=True))


def _rename_arguments(function: function_pb2.FunctionDef) -> None:
    """Calls arguments by their position: TensorFlow puts names of functions into theirs."""
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
