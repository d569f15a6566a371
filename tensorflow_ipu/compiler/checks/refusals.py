"""Errors found while a graph is built, delayed until the op is compiled."""

from __future__ import annotations

import json

from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import errors, ops

from tensorflow_ipu.compiler import trace
from tensorflow_ipu.compiler.ir.program import REFUSAL_ATTRIBUTE, Program, at_node
from tensorflow_ipu.compiler.ir.target import Target


def refuse(operation: ops.Operation, error: errors.OpError) -> None:
    """Makes compilation raise an error if a program needs an op.

    Args:
        operation: the op, of the graph of a program.
        error: the error.
    """
    text = json.dumps({"code": error.error_code, "message": error.message}, sort_keys=True)
    operation._set_attr(REFUSAL_ATTRIBUTE, attr_value_pb2.AttrValue(s=text.encode()))


def raise_outside_program(error: errors.OpError) -> None:
    """Raises an error at once where there is no compiler: in eager mode, and outside of programs.

    Args:
        error: the error.

    Raises:
        tf.errors.OpError: the error.
    """
    if context.executing_eagerly() or not trace.in_cluster():
        raise error


def check(program: Program, target: Target) -> None:
    """Raises the error of the first op that has one.

    Args:
        program: the Program, without ops that it does not need.
        target: the compilation target.

    Raises:
        tf.errors.OpError: of the class that was asked for.
    """
    del target
    for function, node in program.nodes():
        if REFUSAL_ATTRIBUTE in node.attr:
            refusal = json.loads(node.attr[REFUSAL_ATTRIBUTE].s)
            error = errors.exception_type_from_error_code(refusal["code"])
            place = at_node(node.name, function.signature.name)
            raise error(None, None, refusal["message"] + place)
