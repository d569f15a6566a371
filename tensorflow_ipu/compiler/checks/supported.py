"""Check that the device has a kernel for every op of a Program."""

from __future__ import annotations

import functools

from tensorflow.core.framework import node_def_pb2, op_def_pb2, types_pb2
from tensorflow.python.framework import errors, kernels, op_def_registry

from tensorflow_ipu.compiler.checks import operator_table
from tensorflow_ipu.compiler.ir.program import OUTSIDE_ATTRIBUTE, Program, node_tag
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.runtime import native
from tensorflow_ipu.util import op_names

_CALLS_PYTHON = "it calls Python"
_NO_STRINGS = "the device has no strings"
_NO_KERNEL = "no supported kernel for IPU devices is available"


def check(program: Program, target: Target) -> None:
    """Checks that the device has every op of a Program, but for those outside compilation.

    Raises:
        tf.errors.InvalidArgumentError: Naming the first ops that it lacks.
    """
    del target
    problems = []
    for function, node in program.nodes():
        if OUTSIDE_ATTRIBUTE in node.attr:
            continue
        problem = _problem(node)
        if problem is not None:
            name = node_tag(node.name, function.signature.name)
            problems.append(f"{name} ({node.op}): {problem}{_mend(node.op)}")
    if problems:
        shown = "; ".join(problems[:5])
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise errors.InvalidArgumentError(
            None,
            None,
            "Detected unsupported operations when trying to compile graph: there is no supported "
            f"kernel for IPU devices for {shown}{more}. Use types and ops that the IPU has, or "
            "place the op on the host with ipu.scopes.outside_compilation_scope().",
        )


def refused_whatever_types(definition: op_def_pb2.OpDef) -> str | None:
    """Returns the reason why programs cannot have an op, None if they can for some types.

    Args:
        definition: the op.
    """
    if definition.name in op_names.PYTHON_CALLS:
        return _CALLS_PYTHON
    if _has_string_arguments(definition):
        return _NO_STRINGS
    registered = kernels.get_registered_kernels_for_op(definition.name).kernel
    return None if any(kernel.device_type == "IPU" for kernel in registered) else _NO_KERNEL


def _problem(node: node_def_pb2.NodeDef) -> str | None:
    if op_names.is_own(node.op):
        return None
    if node.op in op_names.PYTHON_CALLS:
        return _CALLS_PYTHON
    if _uses_strings(node):
        return _NO_STRINGS
    return None if _kernel_available(_without_inputs(node)) else _NO_KERNEL


def _mend(op: str) -> str:
    """Returns advice in brackets for an op that is refused with all types; else empty."""
    definition = op_def_registry.get(op)
    refused = definition is not None and refused_whatever_types(definition) is not None
    mend = operator_table.instead(op) if refused else None
    return f" ({mend})" if mend else ""


def _uses_strings(node: node_def_pb2.NodeDef) -> bool:
    """Returns whether a node has string operands or results: by its attributes, or always."""
    definition = op_def_registry.get(node.op)
    if definition is not None and _has_string_arguments(definition):
        return True
    return any(
        value.type == types_pb2.DT_STRING or types_pb2.DT_STRING in value.list.type
        for value in node.attr.values()
    )


def _has_string_arguments(definition: op_def_pb2.OpDef) -> bool:
    arguments = [*definition.input_arg, *definition.output_arg]
    return any(argument.type == types_pb2.DT_STRING for argument in arguments)


def _without_inputs(node: node_def_pb2.NodeDef) -> bytes:
    """Returns the key of a node's kernel: op, types, and attributes that kernels select by."""
    key = node_def_pb2.NodeDef(name="node", op=node.op)
    deciding = _deciding_attributes(node.op)
    for name in sorted(node.attr):
        value = node.attr[name]
        if name in deciding or value.WhichOneof("value") == "type" or value.list.type:
            key.attr[name].CopyFrom(value)
    return key.SerializeToString(deterministic=True)


@functools.lru_cache(maxsize=4096)
def _deciding_attributes(op: str) -> frozenset[str]:
    """Returns the attributes that a kernel of the op takes only some values of."""
    registered = kernels.get_registered_kernels_for_op(op).kernel
    return frozenset(
        constraint.name
        for kernel in registered
        if kernel.device_type == "IPU"
        for constraint in kernel.constraint
    )


@functools.lru_cache(maxsize=4096)
def _kernel_available(node_def: bytes) -> bool:
    return native.kernel_available(node_def)
