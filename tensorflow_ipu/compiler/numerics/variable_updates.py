"""Rewrite of dense variable updates, so that new values are checked and rounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensorflow.core.framework import node_def_pb2, tensor_shape_pb2, types_pb2

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir import resource_uses
from tensorflow_ipu.compiler.ir.function_editor import (
    FunctionEditor,
    control_inputs,
    data_inputs,
    replace_data_inputs,
)
from tensorflow_ipu.compiler.ir.node_results import input_types
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.compiler.numerics.catalogue import UPDATES, Arithmetic

#: The node of an update and the shapes of its variables, in order, by the identity of the node.
Shapes = Mapping[int, "tuple[node_def_pb2.NodeDef, list[tensor_shape_pb2.TensorShapeProto]]"]
#: Checks and rounds a value: node, arithmetic, value, whether it becomes float16, operands.
Finish = Callable[[node_def_pb2.NodeDef, Arithmetic, str, bool, tuple[str, ...]], str]

_FLOAT, _HALF = types_pb2.DT_FLOAT, types_pb2.DT_HALF
_SUM = Arithmetic()
_RULE = Arithmetic(elementwise=False)


def shapes(program: Program, target: Target) -> Shapes:
    """Returns the shapes of the variables that optimizers update."""
    # The nodes are kept, as an identity means nothing once its object is gone.
    found: dict[int, tuple[node_def_pb2.NodeDef, list[tensor_shape_pb2.TensorShapeProto]]] = {}
    for use in resource_uses.find(program):
        if use.node.op in UPDATES:
            _, dims = found.setdefault(id(use.node), (use.node, []))
            dims.append(_shape(program, target, use.resource))
    return found


def _shape(
    program: Program, target: Target, resource: resource_uses.Resource
) -> tensor_shape_pb2.TensorShapeProto:
    if resource[0] == "argument":
        return target.arguments[int(str(resource[1]))].shape.as_proto()
    _, function, name = resource
    nodes = program.functions[str(function)].node_def
    return next(node for node in nodes if node.name == name).attr["shape"].shape


class Updates:
    """The updates of variables in one function.

    Args:
        editor: the function.
        shapes: the result of `shapes`.
        traps: whether float32 is to be checked.
        finish: checks and rounds new values.
    """

    def __init__(self, editor: FunctionEditor, shapes: Shapes, traps: bool, finish: Finish) -> None:
        self._editor = editor
        self._shapes = shapes
        self._traps = traps
        self._finish = finish
        # The last rewritten update of each variable: they are no longer atomic.
        self._last: dict[str, str] = {}

    def rewrite(self, node: node_def_pb2.NodeDef) -> bool:
        """Rewrites a node if it is an update to be checked or rounded; returns whether it is."""
        if node.op not in op_names.ACCUMULATIONS and node.op not in UPDATES:
            return False
        kind = node.attr["dtype" if node.op in op_names.ACCUMULATIONS else "T"].type
        if kind != _HALF and not (kind == _FLOAT and self._traps):
            return False
        self._chain(node)
        if node.op in op_names.ACCUMULATIONS:
            self._assign(node, kind == _HALF)
        elif kind == _HALF:
            self._apply_half(node)
        else:
            self._apply_float(node)
        return True

    def _chain(self, node: node_def_pb2.NodeDef) -> None:
        """Makes a node wait for the update before it of the same variables."""
        for name, kind in zip(data_inputs(node), input_types(node)):
            if kind != types_pb2.DT_RESOURCE:
                continue
            before = self._last.get(name)
            if before is not None and f"^{before}" not in node.input:
                node.input.append(f"^{before}")
            self._last[name] = node.name

    def _read(self, name: str, variable: str, controls: list[str], kind: int) -> str:
        node = self._editor.add(
            f"{name}/ipu_read", "ReadVariableOp", [variable, *controls], dtype=kind
        )
        return f"{node.name}:value:0"

    def _assign(self, node: node_def_pb2.NodeDef, half: bool) -> None:
        """Turns an addition to a variable into a read, an addition and an assignment."""
        editor, kind = self._editor, _HALF if half else _FLOAT
        variable, delta = data_inputs(node)
        value = self._read(node.name, variable, control_inputs(node), kind)
        operands = (
            (editor.wide(value), editor.wide(delta)) if half else (value, editor.value(delta))
        )
        added = editor.add(
            f"{node.name}/ipu_new", op_names.ACCUMULATIONS[node.op], operands, T=_FLOAT
        )
        final = self._finish(node, _SUM, f"{added.name}:z:0", half, operands)
        if half:
            final = editor.cast(final, _FLOAT, _HALF, f"{node.name}/half")
        node.op = op_names.ASSIGN
        replace_data_inputs(node, [variable, final])

    def _apply_half(self, node: node_def_pb2.NodeDef) -> None:
        """Makes the rule of an optimizer work on float32 copies of its variables."""
        editor = self._editor
        controls = control_inputs(node)
        given = list(zip(data_inputs(node), input_types(node)))
        handles = iter(self._shapes[id(node)][1])
        inputs, pairs, filled = [], [], []
        for name, kind in given:
            if kind == types_pb2.DT_RESOURCE:
                copy, written = self._copy(node, name, next(handles), controls)
                pairs.append((name, copy))
                inputs.append(copy)
                filled.append(f"^{written}")
            else:
                inputs.append(editor.wide(name) if kind == _HALF else editor.value(name))
        rule = editor.add(f"{node.name}/ipu_rule", node.op, [*inputs, *controls, *filled])
        for key, value in node.attr.items():
            rule.attr[key].CopyFrom(value)
        rule.attr["T"].type = _FLOAT
        operands = tuple(
            name for name, (_, kind) in zip(inputs, given) if kind != types_pb2.DT_RESOURCE
        )
        done = []
        for variable, copy in pairs:
            value = self._read(node.name, copy, [f"^{rule.name}"], _FLOAT)
            final = self._finish(node, _RULE, value, True, operands)
            final = editor.cast(final, _FLOAT, _HALF, f"{node.name}/half")
            write = editor.add(
                f"{node.name}/ipu_write", op_names.ASSIGN, [variable, final], dtype=_HALF
            )
            done.append(f"^{write.name}")
        self._replace_by_end(node, done)

    def _copy(
        self,
        node: node_def_pb2.NodeDef,
        variable: str,
        shape: tensor_shape_pb2.TensorShapeProto,
        controls: list[str],
    ) -> tuple[str, str]:
        """Adds a float32 copy of a variable; returns it, and the node that fills it."""
        editor = self._editor
        copy = editor.add(
            f"{node.name}/ipu_copy", op_names.PROGRAM_VARIABLE, [], dtype=_FLOAT, shape=shape
        )
        value = editor.wide(self._read(node.name, variable, controls, _HALF))
        handle = f"{copy.name}:handle:0"
        write = editor.add(f"{node.name}/ipu_fill", op_names.ASSIGN, [handle, value], dtype=_FLOAT)
        return handle, write.name

    def _apply_float(self, node: node_def_pb2.NodeDef) -> None:
        """Checks the variables after the rule of an optimizer has changed them."""
        editor = self._editor
        given = list(zip(data_inputs(node), input_types(node)))
        rule = editor.add(
            f"{node.name}/ipu_rule",
            node.op,
            [*(editor.value(name) for name, _ in given), *control_inputs(node)],
        )
        for key, value in node.attr.items():
            rule.attr[key].CopyFrom(value)
        operands = tuple(
            editor.value(name) for name, kind in given if kind != types_pb2.DT_RESOURCE
        )
        done = []
        for name, kind in given:
            if kind == types_pb2.DT_RESOURCE:
                value = self._read(node.name, name, [f"^{rule.name}"], _FLOAT)
                checked = self._finish(node, _RULE, value, False, operands)
                done.append(f"^{checked.split(':')[0]}")
        self._replace_by_end(node, done)

    def _replace_by_end(self, node: node_def_pb2.NodeDef, controls: list[str]) -> None:
        """Turns a node into a no-op with control inputs, so that its users wait for these."""
        node.op = "NoOp"
        del node.input[:]
        node.input.extend(controls)
        kept = {key: value for key, value in node.attr.items() if key.startswith("_")}
        node.attr.clear()
        for key, value in kept.items():
            node.attr[key].CopyFrom(value)
