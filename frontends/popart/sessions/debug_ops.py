"""Contexts of debug information of a session: its ops, its tensors and its compiled program."""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.frontends import debug_contexts
from tensorflow_ipu.frontends.popart.debugging.context import LINE
from tensorflow_ipu.frontends.popart.lowering import nodes
from tensorflow_ipu.frontends.popart.model.imports import Model
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo

# What debug information calls the operations of compiled programs.
_PROGRAM = "tensorflow"


def record_ops(model: Model, infos: Mapping[str, TensorInfo]) -> None:
    """Adds a context for each op and each tensor of a model, if there is a file of them.

    Args:
        model: the model.
        infos: shapes and types of its tensors.
    """
    if not debug_contexts.is_recording():
        return
    for node in model.nodes:
        line = nodes.line(node)
        debug_contexts.record(
            debug_contexts.OPS,
            nodes.scope_name(node),
            None if line is None else line.place,
            next((a.i for a in node.attribute if a.name == LINE), None),
            category="op",
            opType=node.op_type,
            inputs=list(node.input),
            outputs=list(node.output),
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
