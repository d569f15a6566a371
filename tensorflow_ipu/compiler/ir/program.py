"""`Program`: a library of functions and the name of the entry, which passes change."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import (
    attr_value_pb2,
    function_pb2,
    node_def_pb2,
    op_def_pb2,
    tensor_pb2,
)
from tensorflow.python.framework import dtypes, op_def_registry, tensor_shape, tensor_util

# Makes text of the bytes of an attribute; none where there is nothing to show.
Decoder = Callable[[bytes], str]
# Prefixes of attributes with an underscore that are shown: this package's, and of placement.
_PREFIXES_SHOWN = ("_ipu_", "_xla_", "_class")
# Shapes of results follow from the shapes of inputs.
_HIDDEN = "output_shapes"
# Constants with more elements are shown by type and shape.
_MOST_ELEMENTS = 8


def node_line(
    node: node_def_pb2.NodeDef, functions: Mapping[str, str], decoders: Mapping[str, Decoder]
) -> str:
    """Returns a node as `name = Op(input, ^control) {attribute=value}`.

    Shown are the attributes that follow neither from the inputs nor from the defaults of the op,
    but of those with an underscore only the ones of this package and of placement.

    Args:
        node: the node.
        functions: names to show instead of the names of functions, which differ in each trace.
        decoders: functions from serialized messages to text, by attribute.
    """
    shown = [f"device={node.device}"] if node.device else []
    shown += [decode(node.attr[key].s) for key, decode in decoders.items() if key in node.attr]
    shown += [f"{key}={value_text(node.attr[key], functions)}" for key in _shown(node)]
    shown = [text for text in shown if text]
    attributes = f" {{{', '.join(shown)}}}" if shown else ""
    return f"{node.name} = {node.op}({', '.join(node.input)}){attributes}"


def ipus_text(sharding: bytes) -> str:
    """Returns a sharding as `ipus=0+2`."""
    devices = xla_data_pb2.OpSharding.FromString(sharding).tile_assignment_devices
    return f"ipus={'+'.join(map(str, devices))}"


def frontend_text(attributes: bytes) -> str:
    """Returns frontend attributes as `KEY=value`, without those that are explicitly undefined."""
    values = xla_data_pb2.FrontendAttributes.FromString(attributes).map
    shown = {k: v for k, v in sorted(values.items()) if not v.endswith(("_UNDEFINED", "_INVALID"))}
    return ", ".join(f"{key}={value}" for key, value in shown.items())


def type_text(dtype: int, shape: Any = None) -> str:
    """Returns a type with its shape, if known, as `float32[2, 3]`."""
    return dtypes.as_dtype(dtype).name + ("" if shape is None else _shape_text(shape))


def value_text(value: attr_value_pb2.AttrValue, functions: Mapping[str, str]) -> str:
    """Returns the value of an attribute in Python's notation.

    Args:
        value: the value.
        functions: names to show instead of the names of functions.
    """
    kind = value.WhichOneof("value")
    if kind == "list":
        members = [
            _member_text(field.name, member, functions)
            for field, repeated in value.list.ListFields()
            for member in repeated
        ]
        return f"[{', '.join(members)}]"
    return _member_text(kind, getattr(value, kind), functions) if kind else "None"


def _shown(node: node_def_pb2.NodeDef) -> list[str]:
    """Returns the attributes that are shown, sorted: their order in the node is not fixed."""
    definition = op_def_registry.get(node.op)
    implied = _implied(definition) if definition else {_HIDDEN}
    defaults = {a.name: a.default_value for a in definition.attr} if definition else {}
    return [
        key
        for key in sorted(node.attr)
        if key.startswith(_PREFIXES_SHOWN)
        or not (key.startswith("_") or key in implied or node.attr[key] == defaults.get(key))
    ]


def _implied(definition: op_def_pb2.OpDef) -> set[str]:
    """Returns the attributes of an op that its inputs determine."""
    found = {_HIDDEN}
    for argument in definition.input_arg:
        found |= {argument.type_attr, argument.number_attr, argument.type_list_attr}
    return found


def _member_text(kind: str, value: Any, functions: Mapping[str, str]) -> str:
    """Returns a value that is no list, of one of the kinds that `AttrValue` has."""
    if kind == "type":
        return type_text(value)
    if kind == "shape":
        return _shape_text(value)
    if kind == "tensor":
        return _tensor_text(value)
    if kind == "func":
        return functions.get(value.name, value.name)
    if kind == "s":
        return value.decode(errors="backslashreplace")
    return str(value)


def _shape_text(shape: Any) -> str:
    """Returns a shape as `[2, None]`, or `[...]` if not even its rank is known."""
    dimensions = tensor_shape.TensorShape(shape)
    return "[...]" if dimensions.rank is None else str(dimensions.as_list())


def _tensor_text(tensor: tensor_pb2.TensorProto) -> str:
    """Returns the elements of a small tensor, the type and shape of a large one."""
    shape = tensor_shape.TensorShape(tensor.tensor_shape)
    if shape.num_elements() > _MOST_ELEMENTS:
        return type_text(tensor.dtype, shape)
    return str(tensor_util.MakeNdarray(tensor).tolist())


# --- `Program` ---

# Attributes that programs set through `ipu.scopes`.
SHARDING_ATTRIBUTE = "_XlaSharding"
FRONTEND_ATTRIBUTE = "_XlaFrontendAttributes"
OUTSIDE_ATTRIBUTE = "_xla_outside_compilation"
# Pipeline stage of an op, an integer.
STAGE_ATTRIBUTE = "_ipu_stage"
# The phase of a pipeline's op: `backward` or `update`. Forward ops have none.
PHASE_ATTRIBUTE = "_ipu_phase"
# On identities whose value is kept rather than recomputed in the backward pass.
CHECKPOINT_ATTRIBUTE = "_ipu_recomputation_checkpoint"
# JSON, on convolutions that run in parallel: the name of their group and Poplar options.
MULTI_CONV_ATTRIBUTE = "_ipu_multi_conv"
# JSON, on the ops of an update: the user's options for where its variables are kept.
MEMORY_ATTRIBUTE = "_ipu_memory"
# JSON, on a counter: the description of a gradient accumulation or a pipeline. With one mini-batch
# there is no counter, and the operation of the update has it.
ACCUMULATION_ATTRIBUTE = "_ipu_gradient_accumulation"
PIPELINE_ATTRIBUTE = "_ipu_pipeline"
# JSON, on an op that the compiler refuses, though a graph may have it: the code of the error and
# its message (`compiler/checks/refusals.py`).
REFUSAL_ATTRIBUTE = "_ipu_refusal"
# The position of a tensor in the list that a collective within a replica takes.
SHARD_INPUT_ATTRIBUTE = "_ipu_shard_input"
# On the variables of a queue (`internal_ops.fifo`): whether it is to be in remote memory.
FIFO_ATTRIBUTE = "_ipu_fifo"
# On one op of a program: floating-point events end it, for any configuration.
TRAPS_ATTRIBUTE = "_ipu_traps"
# JSON, on ops that use a variable: where a program says itself that it is kept (`remote`, and over
# how many replicas it is split: `split`), and its `role`, unless that follows from its use.
VARIABLE_ATTRIBUTE = "_ipu_variable"
# On the ops that load and store entries of a remote buffer, which is a variable.
REMOTE_BUFFER_ATTRIBUTE = "_ipu_remote_buffer"
# On a promise of equality: the host sends one value to all replicas of a process, so it holds.
SENT_ALIKE_ATTRIBUTE = "_ipu_sent_alike"
# On the ops that only move values of variables between host and device, in launches that are not
# planned.
WEIGHTS_ATTRIBUTE = "_ipu_host_weights"
# JSON, on ops, for their plan: `memory_proportion`, a part of a tile's memory; `tile_set`, "io" for
# ops on I/O tiles; `exchange`, the number of the exchange that a transfer is part of.
PLAN_ATTRIBUTE = "_ipu_plan"
# JSON, on a call: the one op that the function does the work of, for plans: `type`, its
# `attributes`, and `flops` of one execution.
COMPOSITE_ATTRIBUTE = "_ipu_composite"
# JSON, on one op of a program: the program's changes of the Settings for its plan.
SETTINGS_ATTRIBUTE = "_ipu_settings"
# On that op: the API that the program is written with.
API_ATTRIBUTE = "_ipu_api"
# Prefix of functions that are in a program once, for any number of calls.
OUTLINED_PREFIX = "__ipu_outlined_"
# The types of the attributes of ops that name functions.
_FUNCTION_TYPES = frozenset({"func", "list(func)"})


class DroppedCheck(NamedTuple):
    """A check of values that a Program lost: the chip has none.

    Args:
        function: name of the function it was in.
        name: its name there.
        op: its type.
    """

    function: str
    name: str
    op: str


@dataclasses.dataclass
class Program:
    """Functions by name, and which of them to run.

    Attributes:
        functions: Every function that the entry reaches, by name.
        entry: Name of the function to run.
        dropped: The checks of values that the pass `drop_checks` removed.
    """

    functions: dict[str, function_pb2.FunctionDef]
    entry: str
    dropped: list[DroppedCheck] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        """Returns the functions as text, for tests and for debugging a pass.

        The text is the same for all traces of the same program. Functions have numbers, in the
        order in which the entry reaches them, instead of generated names. Attributes that follow
        from others are left out.
        """
        used = self.names_by_use()
        names = [*used, *(name for name in self.functions if name not in used)]
        numbers = {name: f"function {number}" for number, name in enumerate(names)}
        return "\n".join(_function_text(self.functions[name], numbers) for name in names)

    @classmethod
    def from_library(cls, library: function_pb2.FunctionDefLibrary, entry: str) -> Program:
        """Returns a Program with copies of the functions of `library`."""
        functions = {}
        for function in library.function:
            functions[function.signature.name] = function_pb2.FunctionDef()
            functions[function.signature.name].CopyFrom(function)
        return cls(functions, entry)

    def to_library(self) -> function_pb2.FunctionDefLibrary:
        """Returns the functions as a proto, the entry first."""
        names = [self.entry, *(name for name in self.functions if name != self.entry)]
        return function_pb2.FunctionDefLibrary(function=[self.functions[name] for name in names])

    def names_by_use(self) -> list[str]:
        """Returns the names of the functions in the order in which the entry comes to use them.

        Names are generated anew each time a program is built, so their own order says nothing.
        Functions that are not reached are left out.
        """
        names, known = [self.entry], {self.entry}
        for name in names:  # grows meanwhile
            for node in self.functions[name].node_def:
                for called in called_functions(node):
                    if called in self.functions and called not in known:
                        known.add(called)
                        names.append(called)
        return names

    def nodes(self) -> Iterator[tuple[function_pb2.FunctionDef, node_def_pb2.NodeDef]]:
        """Yields every node with the function it is in."""
        for function in self.functions.values():
            for node in function.node_def:
                yield function, node


def input_node(reference: str) -> str:
    """Returns the node (or argument) that a node input, result or control edge comes from."""
    return reference.lstrip("^").split(":", 1)[0]


def node_tag(node: str, function: str = "") -> str:
    """Returns the tag of a node in messages, in TensorFlow's form; users see its line instead.

    Args:
        node: name of the node.
        function: name of the function it is in, where that is known.
    """
    return (f"{{{{function_node {function}}}}}" if function else "") + f"{{{{node {node}}}}}"


def at_node(node: str, function: str = "") -> str:
    """Returns the suffix of a message that is about a node but does not name it.

    Args:
        node: name of the node.
        function: name of the function it is in, where that is known.
    """
    return f"\n\t [[{node_tag(node, function)}]]"


def called_functions(node: node_def_pb2.NodeDef) -> list[str]:
    """Returns the names of the functions that a node's attributes name, sorted by attribute.

    Which attributes can do so is known of ops. This is asked of each node many times.
    """
    names: list[str] = []
    for key in _function_attributes(node.op):
        if key in node.attr:
            value = node.attr[key]
            if value.HasField("func"):
                names.append(value.func.name)
            else:
                names.extend(function.name for function in value.list.func)
    return names


def functions_run_by(program: Program, node: node_def_pb2.NodeDef) -> list[str]:
    """Returns the functions that a node calls, by its op or its attributes."""
    called = [name for name in called_functions(node) if name in program.functions]
    return [node.op, *called] if node.op in program.functions else called


def host_functions(program: Program) -> set[str]:
    """Returns the functions that run on the host: ops outside compilation call them."""
    pending = [
        called
        for _, node in program.nodes()
        if OUTSIDE_ATTRIBUTE in node.attr
        for called in functions_run_by(program, node)
    ]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            for node in program.functions[name].node_def:
                pending.extend(functions_run_by(program, node))
    return found


@functools.lru_cache(maxsize=4096)
def _function_attributes(op: str) -> tuple[str, ...]:
    """Returns the attributes of an op that name functions. Calls by a function's name have none."""
    definition = op_def_registry.get(op)
    if definition is None:
        return ()
    return tuple(sorted(one.name for one in definition.attr if one.type in _FUNCTION_TYPES))


def _function_text(function: function_pb2.FunctionDef, numbers: Mapping[str, str]) -> str:
    """Returns a function as text: a line for its arguments and for each node and result."""
    signature = function.signature
    arguments = ", ".join(
        f"{argument.name}: {_argument_text(argument.type, function.arg_attr[number].attr)}"
        if number in function.arg_attr
        else f"{argument.name}: {type_text(argument.type)}"
        for number, argument in enumerate(signature.input_arg)
    )
    lines = [f"{numbers[signature.name]}({arguments})"]
    lines += ["  " + node_line(node, numbers, _DECODERS) for node in function.node_def]
    outputs = [argument.name for argument in signature.output_arg]
    lines += [f"  return {function.ret[name]}" for name in outputs or sorted(function.ret)]
    lines += [f"  run {function.control_ret[name]}" for name in sorted(function.control_ret)]
    return "\n".join(lines)


def _argument_text(dtype: int, attributes: Mapping[str, attr_value_pb2.AttrValue]) -> str:
    """Returns type and shape of an argument, or of its variable, as text."""
    if "_handle_dtypes" in attributes:
        (kind,) = attributes["_handle_dtypes"].list.type
        (shape,) = attributes["_handle_shapes"].list.shape
        return f"variable {type_text(kind, shape)}"
    if "_output_shapes" in attributes:
        return type_text(dtype, attributes["_output_shapes"].list.shape[0])
    return type_text(dtype)


# Functions from serialized messages to text, by attribute.
_DECODERS = {
    SHARDING_ATTRIBUTE: ipus_text,
    FRONTEND_ATTRIBUTE: frontend_text,
}
