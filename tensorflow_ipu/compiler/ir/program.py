"""`Program`: a library of functions and the name of the entry, which passes change."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping

from tensorflow.core.framework import attr_value_pb2, function_pb2, node_def_pb2
from tensorflow.python.framework import op_def_registry

from tensorflow_ipu.compiler.ir import node_text

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
# its message (`compiler/refusals.py`).
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


@dataclasses.dataclass
class Program:
    """Functions by name, and which of them to run.

    Attributes:
        functions: Every function that the entry reaches, by name.
        entry: Name of the function to run.
    """

    functions: dict[str, function_pb2.FunctionDef]
    entry: str

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
        else f"{argument.name}: {node_text.type_text(argument.type)}"
        for number, argument in enumerate(signature.input_arg)
    )
    lines = [f"{numbers[signature.name]}({arguments})"]
    lines += ["  " + node_text.node_line(node, numbers, _DECODERS) for node in function.node_def]
    outputs = [argument.name for argument in signature.output_arg]
    lines += [f"  return {function.ret[name]}" for name in outputs or sorted(function.ret)]
    lines += [f"  run {function.control_ret[name]}" for name in sorted(function.control_ret)]
    return "\n".join(lines)


def _argument_text(dtype: int, attributes: Mapping[str, attr_value_pb2.AttrValue]) -> str:
    """Returns type and shape of an argument, or of its variable, as text."""
    if "_handle_dtypes" in attributes:
        (kind,) = attributes["_handle_dtypes"].list.type
        (shape,) = attributes["_handle_shapes"].list.shape
        return f"variable {node_text.type_text(kind, shape)}"
    if "_output_shapes" in attributes:
        return node_text.type_text(dtype, attributes["_output_shapes"].list.shape[0])
    return node_text.type_text(dtype)


# Functions from serialized messages to text, by attribute.
_DECODERS = {
    SHARDING_ATTRIBUTE: node_text.ipus_text,
    FRONTEND_ATTRIBUTE: node_text.frontend_text,
}
