"""Functions and lists whose float16 tensors stay in their wide form."""

from __future__ import annotations

from collections.abc import Container

from tensorflow.core.framework import attr_value_pb2, node_def_pb2, types_pb2

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir.program import OUTSIDE_ATTRIBUTE, Program, called_functions

_LISTS = ("TensorList", "EmptyTensorList")


def is_list_op(node: node_def_pb2.NodeDef) -> bool:
    """Returns whether a node works on a list of tensors."""
    return node.op.startswith(_LISTS)


def functions(program: Program, outside: Container[str]) -> frozenset[str]:
    """Returns the functions that can take and return float32 where they did float16.

    All that runs them has to be rewritten with them: calls, loops and branches of the device.

    Args:
        program: the Program.
        outside: functions that run on the host as a whole.
    """
    narrow = {program.entry, *(name for name in program.functions if name in outside)}
    called_together = []
    for function, node in program.nodes():
        called = called_functions(node)
        on_device = OUTSIDE_ATTRIBUTE not in node.attr and function.signature.name not in outside
        if op_names.is_control_flow(node.op) and on_device:
            called_together.append(called)
        else:
            narrow.update(called)
    before = -1
    while before != len(narrow):  # one call may run functions of both kinds
        before = len(narrow)
        narrow.update(
            name for called in called_together if narrow.intersection(called) for name in called
        )
    return frozenset(program.functions) - narrow


def lists(program: Program, outside: Container[str]) -> bool:
    """Returns whether lists of float16 tensors can be lists of float32.

    Where a list comes from is not known, so that is all of them or none.

    Args:
        program: the Program.
        outside: functions that run on the host as a whole.
    """
    entry = program.functions[program.entry].signature
    if any(a.type == types_pb2.DT_VARIANT for a in (*entry.input_arg, *entry.output_arg)):
        return False
    return not any(
        is_list_op(node) and (OUTSIDE_ATTRIBUTE in node.attr or function.signature.name in outside)
        for function, node in program.nodes()
    )


def widen_types(attributes: dict[str, attr_value_pb2.AttrValue]) -> None:
    """Makes float16 float32 in the attributes of a node.

    Args:
        attributes: `node.attr`, changed in place.
    """
    for value in attributes.values():
        if value.type == types_pb2.DT_HALF:
            value.type = types_pb2.DT_FLOAT
        for index, kind in enumerate(value.list.type):
            if kind == types_pb2.DT_HALF:
                value.list.type[index] = types_pb2.DT_FLOAT
