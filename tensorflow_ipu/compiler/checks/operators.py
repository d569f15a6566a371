"""Checks that the device can run a Program: kernels, ops of the chip, fixed shapes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

from tensorflow.core.framework import node_def_pb2, op_def_pb2, types_pb2
from tensorflow.python.framework import errors, kernels, op_def_registry

from tensorflow_ipu.compiler.analysis.constants import Constants, Tensor, data_inputs
from tensorflow_ipu.compiler.checks import operator_table
from tensorflow_ipu.compiler.ir.program import OUTSIDE_ATTRIBUTE, Program, host_functions, node_tag
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.compiler.source_map import SourceMap
from tensorflow_ipu.runtime import native
from tensorflow_ipu.util import op_names
from tensorflow_ipu.util.notices import warn_once

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.cluster import Cluster
    from tensorflow_ipu.compiler.executable import Executable


_CALLS_PYTHON = "it calls Python"
_NO_STRINGS = "the device has no strings"
_NO_KERNEL = "no supported kernel for IPU devices is available"


def check_kernels(program: Program, target: Target) -> None:
    """Checks that the device has every op of a Program, but for those outside compilation.

    Raises:
        tf.errors.InvalidArgumentError: Naming the first ops that it lacks.
    """
    del target
    problems = []
    for function, node in program.nodes():
        if OUTSIDE_ATTRIBUTE in node.attr:
            continue
        problem = _kernel_problem(node)
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


def _kernel_problem(node: node_def_pb2.NodeDef) -> str | None:
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


# Masks of a slice whose dimensions have a fixed size in the result, for any bounds.
_FIXED_SIZE = ("shrink_axis_mask", "new_axis_mask", "ellipsis_mask")


def problem(function: str, node: node_def_pb2.NodeDef, constants: Constants) -> str | None:
    """Returns the reason why the chip cannot run an op, None if it can.

    Args:
        function: name of the function that the op is in.
        node: the op. Not one of this package's own.
        constants: compile-time constants of the program.
    """
    if node.op in operator_table.ON_CHIP:
        return _RULES.get(node.op, _fixed)(function, node, constants)
    definition = op_def_registry.get(node.op)
    inputs = data_inputs(node)
    if inputs and definition is not None and not definition.is_stateful:
        if all(constants.is_computed_before(Tensor(function, name)) for name in inputs):
            return None
    return operator_table.reason(node.op)


def _fixed(function: str, node: node_def_pb2.NodeDef, constants: Constants) -> str | None:
    """Checks most ops: the inputs that the table names are compile-time constants."""
    for argument in operator_table.ON_CHIP[node.op]:
        for name in _inputs(node, argument):
            cause = constants.cause(Tensor(function, name))
            if cause is not None:
                return (
                    f"its input `{argument}` has to be known when the program is compiled, and "
                    f"depends on {cause}"
                )
    return None


def _list(function: str, node: node_def_pb2.NodeDef, constants: Constants) -> str | None:
    """Checks lists of tensors: the number of elements is constant, the element type not "any"."""
    for argument in operator_table.ON_CHIP[node.op]:
        for name in _inputs(node, argument):
            value = constants.value(Tensor(function, name))
            if (
                value is not None
                and value < 0
                and not _is_of_counted_loop(function, node, constants)
            ):
                return "it holds any number of tensors, and has to have a size"
    return _fixed(function, node, constants)


def _is_of_counted_loop(function: str, node: node_def_pb2.NodeDef, constants: Constants) -> bool:
    """Returns whether a list is a gradient's accumulator of a loop with a known trip count.

    Compiling for the chip, TensorFlow and Keras tell such loops their number of iterations.
    """
    loops = constants.calls.users(Tensor(function, f"{node.name}:handle:0"), op_names.LOOPS)
    return bool(loops) and all(map(constants.ends_after_known_iterations, loops))


def _set_item(_function: str, node: node_def_pb2.NodeDef, _constants: Constants) -> str | None:
    """Checks writes to a list: the list does not grow."""
    attribute = "resize_if_index_out_of_bounds"
    grows = attribute in node.attr and node.attr[attribute].b
    return "the list grows while the program runs, and has to have a size" if grows else None


def _slice(function: str, node: node_def_pb2.NodeDef, constants: Constants) -> str | None:
    """Checks `tf.slice`: its size is a constant; its begin may be computed."""
    size = constants.value(Tensor(function, node.input[2]))
    cause = constants.cause(Tensor(function, node.input[1]))
    if cause is not None and size is not None and (size < 0).any():
        return f"it takes all from `begin` on, which depends on {cause}, and so does its shape"
    return _fixed(function, node, constants)


def _strided_slice(function: str, node: node_def_pb2.NodeDef, constants: Constants) -> str | None:
    """Checks `x[begin:end:stride]`: its begin may be computed, its size may not."""
    begin, end, strides = node.input[1:4]
    steps = constants.value(Tensor(function, strides))
    if steps is not None:
        fixed = reduce(or_, [_number(node, mask) for mask in _FIXED_SIZE])
        for bound, mask in ((begin, "begin_mask"), (end, "end_mask")):
            ignored = fixed | _number(node, mask)
            for index, cause in enumerate(_elements(function, bound, len(steps), constants)):
                if cause is not None and not ignored >> index & 1:
                    return f"where it begins or ends depends on {cause}, and so does its shape"
    return _fixed(function, node, constants)


def _number(node: node_def_pb2.NodeDef, attribute: str) -> int:
    """Returns an integer attribute of a node; 0 without it."""
    return int(node.attr[attribute].i) if attribute in node.attr else 0


def _elements(function: str, reference: str, count: int, constants: Constants) -> list[str | None]:
    """Returns for each element of a vector the unknown value it depends on, None if constant."""
    tensor = Tensor(function, reference)
    cause, node = constants.cause(tensor), constants.calls.node(tensor)
    if cause is None or node is None or node.op != "Pack":
        return [cause] * count
    return [constants.cause(Tensor(function, name)) for name in data_inputs(node)]


def _pad(function: str, node: node_def_pb2.NodeDef, constants: Constants) -> str | None:
    """Checks padding. A gradient of `tf.slice` passes: compiled for the chip, it is no padding."""
    return (
        None if _is_slice_gradient(node, function, constants) else _fixed(function, node, constants)
    )


def _is_slice_gradient(node: node_def_pb2.NodeDef, function: str, constants: Constants) -> bool:
    """Returns whether paddings are `[begin, shape - size - begin]`, of a known shape."""

    def maker(reference: str, op: str) -> node_def_pb2.NodeDef | None:
        found = constants.calls.node(Tensor(function, reference))
        return found if found is not None and found.op == op else None

    paddings = maker(node.input[1], "ConcatV2")
    if paddings is None or len(data_inputs(paddings)) != 3:
        return False
    before, after = (maker(name, "Reshape") for name in paddings.input[:2])
    rest = maker(after.input[0], "Sub") if before is not None and after is not None else None
    if before is None or rest is None or rest.input[1] != before.input[0]:
        return False
    return constants.cause(Tensor(function, rest.input[0])) is None


def _inputs(node: node_def_pb2.NodeDef, argument: str) -> list[str]:
    """Returns the inputs of a node that belong to an argument of its op."""
    position = 0
    for given in _arguments(node.op):
        count = node.attr[given.number_attr].i if given.number_attr else 1
        if given.name == argument:
            return list(node.input[position : position + count])
        position += count
    return []


@lru_cache(maxsize=1024)
def _arguments(op: str) -> tuple[op_def_pb2.OpDef.ArgDef, ...]:
    """Returns the arguments of an op."""
    definition = op_def_registry.get(op)
    return () if definition is None else tuple(definition.input_arg)


_Rule = Callable[[str, node_def_pb2.NodeDef, Constants], "str | None"]

# The rules of ops that the table alone does not decide.
_RULES: Mapping[str, _Rule] = {
    "EmptyTensorList": _list,
    "Pad": _pad,
    "ResourceStridedSliceAssign": _strided_slice,
    "Slice": _slice,
    "StackV2": _list,
    "StridedSlice": _strided_slice,
    "StridedSliceGrad": _strided_slice,
    "TensorListReserve": _list,
    "TensorListSetItem": _set_item,
    "TensorStridedSliceUpdate": _strided_slice,
}


# --- The check ---

# Prefix of TensorFlow's internal ops, which users do not write.
_INTERNAL = "_"
_SHOWN = 5


class UnsupportedOp(NamedTuple):
    """An op of a Program that the chip could not run.

    Args:
        function: name of the function it is in.
        node: the op.
        reason: why not.
    """

    function: str
    node: node_def_pb2.NodeDef
    reason: str


def check_chip(program: Program, executable: Executable, cluster: Cluster) -> None:
    """Warns of ops that run here and would not compile for the chip, or refuses them.

    Programs that the host evaluates are not checked. `--operator_policy` of TF_POPLAR_FLAGS is
    "warn", "raise", or "allow" for neither.

    Args:
        program: the Program, without checks of values, which the chip drops.
        executable: its Executable.
        cluster: the Cluster, which knows the user's lines.

    Raises:
        tf.errors.InvalidArgumentError: The policy is to refuse, and there are such ops.
    """
    policy = executable.system.flags.operator_policy
    if policy == "allow" or not executable.on_device:
        return
    sources = cluster.sources
    constants = Constants(program, cluster.constant_arguments())
    found: dict[str, UnsupportedOp] = {}
    for finding in find(program, constants):
        found.setdefault(finding.node.op, finding)
    texts = [_text(finding, sources) for finding in found.values()]
    if texts and policy == "raise":
        more = f" There are {len(texts) - _SHOWN} more." if len(texts) > _SHOWN else ""
        raise errors.InvalidArgumentError(
            None,
            None,
            "Detected unsupported operations when trying to compile graph, which "
            f"--operator_policy=raise refuses. {' '.join(texts[:_SHOWN])}{more}",
        )
    for text in texts:
        warn_once(
            "%s (--operator_policy=raise in TF_POPLAR_FLAGS makes this an error, "
            "--operator_policy=allow silences it. docs/operators.md lists all ops.)",
            text,
        )


def find(program: Program, constants: Constants) -> Iterator[UnsupportedOp]:
    """Yields the ops of a Program that the chip could not run, without the host's ops.

    Args:
        program: the Program.
        constants: its compile-time constants.
    """
    on_host = host_functions(program)
    for name, function in program.functions.items():
        if name in on_host:
            continue
        for node in function.node_def:
            if op_names.is_own(node.op) or node.op.startswith(_INTERNAL):
                continue
            if node.op in program.functions:
                continue
            if OUTSIDE_ATTRIBUTE in node.attr:
                continue
            reason = problem(name, node, constants)
            if reason is not None:
                yield UnsupportedOp(name, node, reason)


def _text(finding: UnsupportedOp, sources: SourceMap) -> str:
    """Returns the message about an op: line, type, reason and advice."""
    node = finding.node
    source = sources.lookup(finding.function, node.name)
    place = f"{source}: " if source is not None else ""
    return (
        f"{place}{node.op} ({node.name}) runs here, and would not compile for the chip: "
        f"{finding.reason}. What to do: {operator_table.mend(node.op)}."
    )
