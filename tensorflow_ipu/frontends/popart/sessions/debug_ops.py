"""Contexts of debug information of a session: its ops, its tensors and its compiled program."""

from __future__ import annotations

import collections
from collections.abc import Hashable, Iterable, Mapping

import onnx

from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.frontends.common import debug_contexts
from tensorflow_ipu.frontends.popart.debugging.context import LINE
from tensorflow_ipu.frontends.popart.lowering import nodes
from tensorflow_ipu.frontends.popart.model.imports import Model
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo

# What debug information calls the operations of compiled programs.
_PROGRAM = "tensorflow"


def record_ops(model: Model, infos: Mapping[str, TensorInfo], outlines: bool) -> None:
    """Adds a context for each op and each tensor of a model, if there is a file of them.

    Args:
        model: the model.
        infos: shapes and types of its tensors.
        outlines: whether equal ops share code. Each then has the context of a call, too.
    """
    if not debug_contexts.is_recording():
        return
    keys = [_code_of(node, infos) for node in model.nodes]
    counts = collections.Counter(keys)
    shared = {key: number for number, key in enumerate(k for k in counts if counts[k] > 1)}
    for node, key in zip(model.nodes, keys):
        line = nodes.line(node)
        op = debug_contexts.record(
            debug_contexts.OPS,
            nodes.scope_name(node),
            None if line is None else line.place,
            next((a.i for a in node.attribute if a.name == LINE), None),
            category="op",
            opType=node.op_type,
            inputs=list(node.input),
            outputs=list(node.output),
        )
        if outlines and key in shared:
            callee = f"call_subgraph({shared[key]})"
            debug_contexts.record(
                debug_contexts.OPS,
                f"{nodes.scope_name(node)}/{callee}",
                None if line is None else line.place,
                op,
                category="op",
                opType="Call",
                attributes={"callee": callee},
            )
    for name, info in infos.items():
        debug_contexts.record(
            debug_contexts.OPS,
            name,
            None,
            category="tensor",
            tensorId=name,
            shape=list(info.shape()),
            elementType=info.data_type_lcase(),
        )


def record_program(executable: Executable) -> None:
    """Adds a context for each operation of a compiled program and its result, on request.

    Args:
        executable: the program.
    """
    if not debug_contexts.is_recording():
        return
    for function in executable.library.function:
        for node in function.node_def:
            op = debug_contexts.record(
                _PROGRAM, node.name, None, category="op", opType=node.op, inputs=list(node.input)
            )
            debug_contexts.record(_PROGRAM, f"{node.name}:0", None, op, category="tensor")


def _code_of(node: onnx.NodeProto, infos: Mapping[str, TensorInfo]) -> Hashable:
    """Returns a key that ops with the same code share."""
    operands = [infos.get(name) for name in node.input]
    return (node.domain, node.op_type, *operands, *_attributes_of(node))


def _attributes_of(node: onnx.NodeProto) -> list[Hashable]:
    """Returns keys of the attributes of a node, without annotations."""
    return [
        (attribute.name, _graph_code(attribute.g))
        if attribute.HasField("g")
        else attribute.SerializeToString()
        for attribute in sorted(node.attribute, key=lambda attribute: attribute.name)
        if not attribute.name.startswith("__")
    ]


def _graph_code(graph: onnx.GraphProto) -> Hashable:
    """Returns a key that equal graphs share: tensors have numbers in place of names."""
    numbers: dict[str, int] = {}

    def numbered(names: Iterable[str]) -> tuple[int, ...]:
        return tuple(numbers.setdefault(name, len(numbers)) for name in names)

    return (
        numbered(value.name for value in graph.input),
        tuple(
            (
                *(node.domain, node.op_type, numbered(node.input), numbered(node.output)),
                *_attributes_of(node),
            )
            for node in graph.node
        ),
        numbered(value.name for value in graph.output),
    )
