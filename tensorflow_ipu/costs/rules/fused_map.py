"""Cost of elementwise ops that are one expression: `popops::map` makes one vertex of them."""

from __future__ import annotations

import dataclasses
import functools

from tensorflow_ipu import op_names
from tensorflow_ipu.costs.chip.vertex import phase, share
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, TensorType
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules import elementwise_table as table
from tensorflow_ipu.costs.rules.elementwise import computed_type, is_float, map_cycles

# They write a variable: what an expression is assigned to, it writes itself.
_ASSIGNMENTS: dict[str, tuple[str, ...]] = {
    op_names.ASSIGN: (),
    **{name: table.EXPRESSIONS[change] for name, change in op_names.ACCUMULATIONS.items()},
}


def is_assignment(op_type: str) -> bool:
    """Returns whether ops of a type can be the end of an expression, which writes a variable."""
    return op_type in _ASSIGNMENTS


def functions(spec: OpSpec) -> tuple[str, ...] | None:
    """Returns the functions of the table that an op is in an expression.

    Args:
        spec: the op.

    Returns:
        Their names; None if the op cannot be a part of one, such as a non-linearity, which has a
        vertex of its own, or arithmetic of integers.
    """
    if spec.type in table.NONLINEARITIES or not is_float(computed_type(spec).dtype):
        return None
    if spec.type == "AddN":
        return ("add",) * max(len(spec.inputs) - 1, 1)
    if spec.type == "Pow" and spec.inputs[-1].elements == 1:
        return table.EXPRESSIONS["Cube"]
    if spec.type == "Cast":
        return ("cast",)
    found = _ASSIGNMENTS.get(spec.type)
    return table.EXPRESSIONS.get(spec.type) if found is None else found


@functools.lru_cache(maxsize=8192)
def fused(
    ops: tuple[tuple[str, tuple[TensorType, ...], tuple[TensorType, ...]], ...],
    inputs: tuple[TensorType, ...],
    codelets: tuple[str, ...],
    label: Label,
    resources: Resources,
) -> Cost:
    """Returns the cost of several elementwise ops as one map.

    Formula: one vertex with the functions of all ops on each element; the tiles receive the
    operands that are broadcast. What one op hands to the next stays in registers.

    Args:
        ops: type, inputs and outputs of each, of one shape.
        inputs: what comes from outside.
        codelets: vertex types of the ops by themselves: the code of a map is taken as theirs.
        label: how far the cycles of the ops can be trusted.
        resources: what it has at its disposal.
    """
    specs = [OpSpec(*op, {}) for op in ops]
    steps = [(functions(spec) or (), _step_type(spec)) for spec in specs]
    whole = max((computed_type(spec) for spec in specs), key=lambda tensor: tensor.num_bytes)
    on_tile = share(whole.elements, whole.element_size, resources.tiles)
    broadcast = [t for t in inputs if 1 < t.elements < whole.elements]
    received = sum(min(t.elements, on_tile) * t.element_size for t in broadcast)
    cost = phase(
        map_cycles(steps, on_tile, resources.chip),
        "Map",
        resources.chip,
        received,
        received,
        operands=len(inputs) + 1,
        label=label,
    )
    return dataclasses.replace(cost, codelets=codelets)


def _step_type(spec: OpSpec) -> str:
    """The type that an op of an expression is computed in; a cast has the wider one's vectors."""
    tensors = (*spec.inputs, *spec.outputs)
    wide = spec.type == "Cast" and any(t.dtype == "float32" for t in tensors)
    return "float32" if wide else computed_type(spec).dtype
