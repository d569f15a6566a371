"""`Program`: what passes change, a library of functions and the name of the entry."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tensorflow.core.framework import function_pb2, node_def_pb2

# Attributes that programs set through `ipu.scopes`.
SHARDING_ATTRIBUTE = "_XlaSharding"
FRONTEND_ATTRIBUTE = "_XlaFrontendAttributes"
OUTSIDE_ATTRIBUTE = "_xla_outside_compilation"
# Pipeline stage of an op, an integer.
STAGE_ATTRIBUTE = "_ipu_stage"
# What a pipeline's op is part of: `backward` or `update`. Forward ops have none.
PHASE_ATTRIBUTE = "_ipu_phase"
# On identities whose value is kept rather than recomputed in the backward pass.
CHECKPOINT_ATTRIBUTE = "_ipu_recomputation_checkpoint"
# JSON, on convolutions that run in parallel: the name of their group and Poplar options.
MULTI_CONV_ATTRIBUTE = "_ipu_multi_conv"
# JSON, on the ops of an update: the user's options for where its variables are kept.
MEMORY_ATTRIBUTE = "_ipu_memory"
# JSON, on the counter of what it describes: a gradient accumulation, a pipeline. On the operation
# of the update where that is of one mini-batch, so that there is no counter.
ACCUMULATION_ATTRIBUTE = "_ipu_gradient_accumulation"
PIPELINE_ATTRIBUTE = "_ipu_pipeline"
# JSON, on what the compiler has to refuse, though a graph may have it: the code of the error and
# its message (`compiler/refusals.py`).
REFUSAL_ATTRIBUTE = "_ipu_refusal"
# The position of a tensor in the list that a collective within a replica takes.
SHARD_INPUT_ATTRIBUTE = "_ipu_shard_input"
# On the variables of a queue (`internal_ops.fifo`): whether it is to be in remote memory.
FIFO_ATTRIBUTE = "_ipu_fifo"


@dataclasses.dataclass
class Program:
    """Functions by name, and which of them to run.

    Attributes:
        functions: Every function that the entry reaches, by name.
        entry: Name of the function to run.
    """

    functions: dict[str, function_pb2.FunctionDef]
    entry: str

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
        names = [self.entry]
        for name in names:  # grows meanwhile
            for node in self.functions[name].node_def:
                for called in called_functions(node):
                    if called in self.functions and called not in names:
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
    """Returns how messages name a node, so that a user gets its line: as TensorFlow's own do.

    Args:
        node: name of the node.
        function: name of the function it is in, where that is known.
    """
    return (f"{{{{function_node {function}}}}}" if function else "") + f"{{{{node {node}}}}}"


def at_node(node: str, function: str = "") -> str:
    """Returns what to add to a message that is about a node, but does not name it.

    Args:
        node: name of the node.
        function: name of the function it is in, where that is known.
    """
    return f"\n\t [[{node_tag(node, function)}]]"


def called_functions(node: node_def_pb2.NodeDef) -> list[str]:
    """Returns the names of the functions that a node's attributes name, sorted by attribute."""
    names = []
    for key in sorted(node.attr):
        value = node.attr[key]
        if value.HasField("func"):
            names.append(value.func.name)
        names.extend(function.name for function in value.list.func)
    return names
