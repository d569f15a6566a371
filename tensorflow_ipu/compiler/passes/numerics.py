"""Passes that lower arithmetic to the device's: rounding, overflow, traps, invalid labels."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Container, Iterator, Mapping

from tensorflow.core.framework import attr_value_pb2, node_def_pb2, tensor_shape_pb2, types_pb2
from tensorflow.python.framework import op_def_registry

from tensorflow_ipu.compiler import device_numerics
from tensorflow_ipu.compiler.analysis import replica_identical
from tensorflow_ipu.compiler.device_numerics import (
    UPDATES,
    Arithmetic,
    FloatBehavior,
    Result,
    ResultFinisher,
)
from tensorflow_ipu.compiler.ir import dataflow, effects
from tensorflow_ipu.compiler.ir.function_nodes import (
    FunctionEditor,
    control_inputs,
    data_inputs,
    input_types,
    replace_data_inputs,
    results_of,
    topological,
)
from tensorflow_ipu.compiler.ir.program import (
    OUTSIDE_ATTRIBUTE,
    TRAPS_ATTRIBUTE,
    Program,
    called_functions,
    host_functions,
    node_tag,
)
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.configs.enums import StochasticRoundingBehaviour
from tensorflow_ipu.util import op_names

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


# --- Rewrite of dense variable updates, so that new values are checked and rounded ---

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
    for use in dataflow.resource_uses(program):
        if use.node.op in UPDATES:
            _, dims = found.setdefault(id(use.node), (use.node, []))
            dims.append(_shape(program, target, use.resource))
    return found


def _shape(
    program: Program, target: Target, resource: dataflow.Resource
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
        """Rewrites an update that is checked or rounded. Returns whether the node was one."""
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


# --- The pass ---

_FLOATS = (types_pb2.DT_FLOAT, types_pb2.DT_HALF)

_INTEGERS = (
    *(types_pb2.DT_INT8, types_pb2.DT_INT16, types_pb2.DT_INT32, types_pb2.DT_INT64),
    *(types_pb2.DT_UINT8, types_pb2.DT_UINT16, types_pb2.DT_UINT32),
)


def lower(program: Program, target: Target) -> None:
    """Computes float16 in float32 with one rounding for each op, and inserts the traps.

    Ops of the catalogue whose type is float16 become the same ops in float32. Each result is
    rounded to float16 (nearest or stochastically; an overflow clips or gives NaN). Tensors between
    such ops stay in float32, with values that float16 has: in loops and other functions, and in
    lists of tensors, too. With traps on, each result of float arithmetic is checked before it is
    rounded, and so are operands of casts to integers.

    It is the last pass, and only the program that the host runs has been through it. The listing of
    an Executable is the program of the device, whose arithmetic is not made of ops.

    Before: any legal Program. After: the same, with the arithmetic of the device. Without float16
    and without traps nothing changes.
    """
    asks = any(TRAPS_ATTRIBUTE in node.attr for _, node in program.nodes())
    behavior = FloatBehavior.of(target.system, asks)
    if not behavior.traps and not _has_half(program):
        return
    outside = host_functions(program)
    context = _Context(program, target, behavior, outside)
    for name in program.names_by_use():
        if name not in outside:
            _Rewriter(context, name).run()


def _has_half(program: Program) -> bool:
    return any(_is_half(node) for _, node in program.nodes())


class _Context:
    """State that the rewriters of all functions share."""

    def __init__(
        self, program: Program, target: Target, behavior: FloatBehavior, outside: set[str]
    ) -> None:
        self.wide_functions = functions(program, outside)
        self.wide_lists = lists(program, outside)
        self.program = program
        self.target = target
        self.behavior = behavior
        self.shapes = shapes(program, target)
        self._streams = 0
        if self._tells_replicas_apart:
            self.differing  # noqa: B018 - from the Program as it is before it is rewritten

    @property
    def _tells_replicas_apart(self) -> bool:
        only_identical = StochasticRoundingBehaviour.REPLICA_IDENTICAL_ONLY
        return self.behavior.prng_stability or self.behavior.rounding is only_identical

    @functools.cached_property
    def differing(self) -> frozenset[replica_identical.Place]:
        """The nodes that differ between replicas."""
        return replica_identical.differing(self.program, self.target.replicas)

    def next_stream(self) -> int:
        """Returns a number for the random bits of an op, always negative."""
        self._streams -= 1
        return self._streams

    def rounding(self, function: str, node: node_def_pb2.NodeDef) -> tuple[bool, bool]:
        """Returns whether a node rounds stochastically, and whether alike on all replicas."""
        identical = self._tells_replicas_apart and (function, node.name) not in self.differing
        together = effects.is_collective(node) and effects.equalises(node, self.target.replicas)
        stochastic = self.behavior.rounding_override(node)
        if stochastic is None:
            stochastic = self.behavior.rounding is StochasticRoundingBehaviour.ON or (
                self.behavior.rounding is StochasticRoundingBehaviour.REPLICA_IDENTICAL_ONLY
                and identical
            )
        return stochastic, identical or together


class _Rewriter:
    """Rewriter of one function."""

    def __init__(self, context: _Context, name: str) -> None:
        self._context = context
        self._behavior = context.behavior
        self._name = name
        self._editor = FunctionEditor(context.program.functions[name])
        self._finisher = ResultFinisher(self._editor, self._behavior, context.next_stream)
        self._updates = Updates(
            self._editor, context.shapes, self._behavior.traps, self._update_result
        )

    def run(self) -> None:
        """Rewrites the arguments, the nodes in order, then the results."""
        wide = self._name in self._context.wide_functions
        if wide:
            self._editor.take_wide_arguments()
        for node in topological(list(self._editor.function.node_def)):
            left = OUTSIDE_ATTRIBUTE in node.attr or op_def_registry.get(node.op) is None
            if left or not self._rewrite(node):
                self._use_values(node)
        self._editor.use_final_results(wide)

    def _use_values(self, node: node_def_pb2.NodeDef) -> None:
        replace_data_inputs(node, [self._editor.value(name) for name in data_inputs(node)])

    def _rewrite(self, node: node_def_pb2.NodeDef) -> bool:
        """Rewrites a node if need be; returns False if it only has to use the new values."""
        if self._updates.rewrite(node):
            return True
        if self._behavior.inv and _is_to_integer(node):
            self._check_cast(node)
            return True
        if self._stays_wide(node):
            self._use_wide_form(node)
            return True
        if _is_half(node):
            return self._rewrite_half(node)
        arithmetic = device_numerics.checked(node) if self._behavior.traps else None
        if arithmetic is None or node.op == "Cast":
            return False
        types = input_types(node)
        self._use_values(node)
        for reference, kind in _references(node):
            if kind == types_pb2.DT_FLOAT:
                self._announce(node, reference, arithmetic, reference, False, types)
        return True

    def _check_cast(self, node: node_def_pb2.NodeDef) -> None:
        """Adds a trap to a cast to integers of values out of range."""
        (operand,) = data_inputs(node)
        half = _is_from_half(node)
        check = self._editor.add(
            f"{node.name}/ipu_check",
            "IpuCheckCast",
            [self._editor.wide(operand) if half else self._editor.value(operand)],
            checked_name=node_tag(node.name, self._name),
            to=node.attr["DstT"].type,
        )
        replace_data_inputs(node, [f"{check.name}:output:0"])
        node.attr["SrcT"].type = types_pb2.DT_FLOAT

    def _stays_wide(self, node: node_def_pb2.NodeDef) -> bool:
        """Returns whether a node passes float16 tensors on, all of which can be wide there."""
        if op_names.is_control_flow(node.op):
            return self._context.wide_functions.issuperset(called_functions(node))
        return self._context.wide_lists and is_list_op(node)

    def _use_wide_form(self, node: node_def_pb2.NodeDef) -> None:
        """Rewrites a node without rounding to take and return float32 instead of float16."""
        references = [name for name, kind in _references(node) if kind == types_pb2.DT_HALF]
        self._use_wide(node)
        for reference in references:
            self._editor.announce(reference, lambda name: name, wide=True)

    def _rewrite_half(self, node: node_def_pb2.NodeDef) -> bool:
        arithmetic = device_numerics.arithmetic_of(node)
        gives_half = any(kind == types_pb2.DT_HALF for _, kind in _references(node))
        if node.op in device_numerics.EXACT or (node.op == "Cast" and _is_from_half(node)):
            return self._rewrite_exact(node)
        if arithmetic is None or not gives_half:
            return False
        if self._behavior.adds_in_half(node, arithmetic.family):
            self._round_native(node, arithmetic)
        else:
            self._widen(node, arithmetic)
        return True

    def _rewrite_exact(self, node: node_def_pb2.NodeDef) -> bool:
        """Rewrites a node without rounding to wide tensors, if its operands are wide."""
        types = input_types(node)
        halves = [name for name, kind in zip(data_inputs(node), types) if kind == types_pb2.DT_HALF]
        if not halves or not self._editor.is_wide(halves[0]):
            return False
        if node.op == "Cast" and node.attr["DstT"].type == types_pb2.DT_HALF:
            return False
        self._use_wide_form(node)
        return True

    def _use_wide(self, node: node_def_pb2.NodeDef) -> list[int]:
        """Rewrites a node to float32; returns the types of its operands."""
        types = input_types(node)
        editor = self._editor
        replace_data_inputs(
            node,
            [
                editor.wide(name) if kind == types_pb2.DT_HALF else editor.value(name)
                for name, kind in zip(data_inputs(node), types)
            ],
        )
        widen_types(node.attr)
        return [types_pb2.DT_FLOAT if kind == types_pb2.DT_HALF else kind for kind in types]

    def _widen(self, node: node_def_pb2.NodeDef, arithmetic: Arithmetic) -> None:
        references = list(_references(node))
        types = self._use_wide(node)
        for reference, kind in references:
            if kind in _FLOATS:
                half = kind == types_pb2.DT_HALF
                self._announce(node, reference, arithmetic, reference, half, types)

    def _round_native(self, node: node_def_pb2.NodeDef, arithmetic: Arithmetic) -> None:
        """Keeps a node's float16 kernel; rounds its result, whose overflow is infinite."""
        arithmetic = dataclasses.replace(arithmetic, overflows_float=True)
        types = input_types(node)
        self._use_values(node)
        for reference, _ in _references(node):
            wide = self._editor.wide(reference)
            self._announce(node, reference, arithmetic, wide, True, types)

    def _announce(
        self,
        node: node_def_pb2.NodeDef,
        reference: str,
        arithmetic: Arithmetic,
        raw: str,
        half: bool,
        types: list[int],
    ) -> None:
        """Registers a result of a node for checking and rounding."""
        if not half and not self._behavior.traps:
            return
        result = Result(
            node.name,
            node.op,
            arithmetic,
            raw,
            half,
            tuple(data_inputs(node)),
            tuple(types),
            self._context.rounding(self._name, node) if half else (False, False),
        )
        self._editor.announce(reference, lambda _: self._finisher.finish(result), wide=half)

    def _update_result(
        self,
        node: node_def_pb2.NodeDef,
        arithmetic: Arithmetic,
        raw: str,
        half: bool,
        operands: tuple[str, ...],
    ) -> str:
        """Checks and rounds the new value of a variable that a node updates, and returns it."""
        types = (types_pb2.DT_FLOAT,) * len(operands)
        rounding = self._context.rounding(self._name, node) if half else (False, False)
        return self._finisher.finish(
            Result(node.name, node.op, arithmetic, raw, half, operands, types, rounding)
        )


def _is_half(node: node_def_pb2.NodeDef) -> bool:
    return any(value.type == types_pb2.DT_HALF for value in node.attr.values())


def _is_to_integer(node: node_def_pb2.NodeDef) -> bool:
    """Returns whether a node casts floats to integers."""
    return (
        node.op == "Cast"
        and node.attr["SrcT"].type in _FLOATS
        and node.attr["DstT"].type in _INTEGERS
    )


def _is_from_half(node: node_def_pb2.NodeDef) -> bool:
    return bool(node.attr["SrcT"].type == types_pb2.DT_HALF)


def _references(node: node_def_pb2.NodeDef) -> Iterator[tuple[str, int]]:
    """Yields the name and the type of each result of a node."""
    for name, types in results_of(node):
        for index, kind in enumerate(types):
            yield f"{node.name}:{name}:{index}", kind


# --- Labels that are no class ---

_LOSS = "SparseSoftmaxCrossEntropyWithLogits"


def mask_labels(program: Program, target: Target) -> None:
    """Makes loss and gradient NaN for examples whose label is no class.

    Compiled programs do that. TensorFlow's kernel for the CPU ends with an error, and so would a
    program whose data have such labels for examples that do not count.

    Before: any legal Program. After: the same, but for such labels. Ops outside compilation stay as
    they are.
    """
    del target
    outside = host_functions(program)
    for name, function in program.functions.items():
        losses = [
            node
            for node in function.node_def
            if node.op == _LOSS and OUTSIDE_ATTRIBUTE not in node.attr
        ]
        if not losses or name in outside:
            continue
        editor = FunctionEditor(function)
        for node in losses:
            mask = editor.add(
                f"{node.name}/ipu_labels",
                "IpuMaskLabels",
                data_inputs(node),
                T=node.attr["T"].type,
                Tlabels=node.attr["Tlabels"].type,
            )
            outputs = [f"{mask.name}:masked_logits:0", f"{mask.name}:masked_labels:0"]
            replace_data_inputs(node, outputs)
