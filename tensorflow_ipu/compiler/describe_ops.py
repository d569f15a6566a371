"""From what was found out about the ops of a program to the ops of a Workload."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tensorflow_ipu.compiler.layers import LayerNames, is_backward, path
from tensorflow_ipu.compiler.op_record import OpRecord
from tensorflow_ipu.compiler.variable_placement import OPTIMIZER_STATE, WEIGHT
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.workload import Op, Operand, Variable

BACKWARD = "backward"
UPDATE = "update"
_UPDATES = ("ResourceApply", "ResourceSparseApply")
_CONDITIONALS = ("If", "StatelessIf", "Case", "StatelessCase")
_WRITES = (*_UPDATES, "Assign", "ResourceScatter")


@dataclasses.dataclass(eq=False)
class Draft:
    """What is found out about an op while the program is followed.

    Attributes:
        record: What the listing says of it.
        inputs: What it takes.
        caller: Position of the op that runs the function it is in.
        every: Of how many runs one is made: of the update, only the last mini-batch's.
        outputs: What it makes.
        attributes: Its attributes.
        end: One past the last op of the functions it runs.
        exact: Whether all its shapes are known.
        known: Whether its results are known when the program is compiled, and take no memory.
        variables: Names of the variables that it works on itself.
        phase: What of a training step it is part of.
        layer: Its layer.
        branch: Which branch of the innermost conditional around it it is in.
    """

    record: OpRecord
    inputs: tuple[Operand, ...]
    caller: int | None
    every: int = 1
    outputs: tuple[Operand, ...] = ()
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    end: int = 0
    exact: bool = True
    known: bool = False
    variables: tuple[str, ...] = ()
    phase: str = ""
    layer: str = ""
    branch: int = 0

    @property
    def calls(self) -> bool:
        """Whether it runs a function that may have been made elsewhere."""
        return self.record.type.endswith("PartitionedCall")

    def op(self) -> Op:
        """The op."""
        record = self.record
        loop = record.type in ("While", "StatelessWhile")
        exact = self.exact and record.runs is not None
        exact = exact and not (loop and record.trip_count is None)
        runs = 1 if record.runs is None else record.runs
        return Op(
            name=record.name,
            type=record.type,
            layer=self.layer,
            ipu=None if self.known else record.ipu,
            inputs=self.inputs,
            outputs=self.outputs,
            attributes=self.attributes,
            end=self.end,
            runs=runs // self.every,
            trip_count=record.trip_count,
            conditional=record.conditional and self.every == 1,
            stage=record.stage,
            phase=self.phase,
            source="" if record.source is None else str(record.source),
            flops=record.flops,
            label=Label.EXACT if exact else Label.ASSUMED,
            branch=self.branch,
        )


def finish(drafts: Sequence[Draft], layers: LayerNames, roles: Mapping[str, str]) -> tuple[Op, ...]:
    """Returns the ops, with their layers and phases.

    Args:
        drafts: what is known of them, in order.
        layers: has learnt which ops read which variables.
        roles: role of each variable by its name.
    """
    _assign_update_layers(drafts, layers)
    scopes = _update_scopes(drafts, layers, roles)
    for draft in drafts:
        draft.phase = draft.record.phase or _phase(draft.record, scopes)
    of_makers: dict[int | None, int] = {
        operand.buffer: position
        for position, draft in reversed(tuple(enumerate(drafts)))
        for operand in draft.outputs
        if operand.buffer is not None
    }
    for position, draft in enumerate(drafts):
        draft.layer = _layer(position, drafts, layers, of_makers)
    _spread_updates(drafts, of_makers)
    _number_branches(drafts)
    return tuple(draft.op() for draft in drafts)


def _number_branches(drafts: Sequence[Draft]) -> None:
    """Numbers the branches of each conditional by the functions that its ops are in."""
    found: dict[int, dict[str, int]] = {}
    for draft in drafts:
        if draft.caller is None:
            continue
        caller = drafts[draft.caller]
        if caller.record.type in _CONDITIONALS:
            functions = found.setdefault(draft.caller, {})
            draft.branch = functions.setdefault(draft.record.function, len(functions))
        else:
            draft.branch = caller.branch


def roles(drafts: Sequence[Draft], variables: Sequence[Variable]) -> list[str]:
    """Returns the role of each variable: what only update ops use is optimizer state.

    Args:
        drafts: the ops, finished.
        variables: the program's variables.
    """
    used = {name for d in drafts if d.phase != UPDATE for name in d.variables}
    updated = {name for d in drafts if d.phase == UPDATE for name in d.variables} - used
    return [
        OPTIMIZER_STATE if v.role == WEIGHT and v.name in updated else v.role for v in variables
    ]


def _assign_update_layers(drafts: Sequence[Draft], layers: LayerNames) -> None:
    """Gives what is updated together with a weight (slots, accumulators) the weight's layer."""
    for draft in drafts:
        if draft.record.type.startswith(_UPDATES):
            found = [layers.of_variable(name) for name in draft.variables]
            layer = next(filter(None, found), "")
            for name in draft.variables:
                layers.assign(name, layer)


def _update_scopes(
    drafts: Sequence[Draft], layers: LayerNames, roles: Mapping[str, str]
) -> frozenset[str]:
    """The scopes of optimizers: where variables of other layers are written."""
    found = set()
    for draft in drafts:
        if not draft.variables or not draft.record.type.startswith(_WRITES):
            continue
        scope = path(draft.record.name)
        layer = layers.of_variable(draft.variables[0])
        foreign = bool(layer) and f"/{layer}/" not in f"/{scope}/"
        state = any(roles.get(name) == OPTIMIZER_STATE for name in draft.variables)
        if foreign or state or draft.record.type.startswith(_UPDATES):
            found.add(scope.split("/update")[0])
    return frozenset(found - {""})


def _phase(record: OpRecord, update_scopes: frozenset[str]) -> str:
    """What of a training step an op is part of, by its name."""
    if record.type.startswith(_UPDATES):
        return UPDATE
    if is_backward(record.name):
        return BACKWARD
    scope = path(record.name)
    parts = scope.split("/")
    inside = any("/".join(parts[:end]) in update_scopes for end in range(1, len(parts) + 1))
    return UPDATE if inside else ""


def _layer(
    position: int,
    drafts: Sequence[Draft],
    layers: LayerNames,
    makers: Mapping[int | None, int],
) -> str:
    """The layer of an op, when those of all ops in front of it are known."""
    draft = drafts[position]
    caller = None if draft.caller is None else drafts[draft.caller]
    if caller is not None and caller.calls and caller.layer:
        return caller.layer  # names inside of the function say nothing of where it is called
    layer = next(filter(None, map(layers.of_variable, draft.variables)), "")
    if not layer and not (draft.variables and draft.phase == UPDATE):
        layer = layers.of_op(draft.record.name)
    if not layer and caller is not None:
        layer = caller.layer
    if not layer and draft.calls and draft.phase != UPDATE:
        layer = _layer_of_inputs(position, drafts, makers)
    return layer


def _layer_of_inputs(
    position: int, drafts: Sequence[Draft], makers: Mapping[int | None, int]
) -> str:
    """The layer that most inputs of an op were made in: the gradient of a layer's function."""
    found = collections.Counter(
        drafts[makers[operand.buffer]].layer
        for operand in drafts[position].inputs
        if makers.get(operand.buffer, position) < position
    )
    del found[""]
    return found.most_common(1)[0][0] if found else ""


def _spread_updates(drafts: Sequence[Draft], makers: Mapping[int | None, int]) -> None:
    """Gives ops of an optimizer the layer of the variable that their results update."""
    assigned = {
        position: draft.layer
        for position, draft in enumerate(drafts)
        if draft.phase == UPDATE and draft.variables and draft.record.type.startswith(_WRITES)
    }
    for position in range(len(drafts) - 1, -1, -1):
        if position not in assigned:
            continue
        drafts[position].layer = assigned[position]
        for operand in drafts[position].inputs:
            maker = makers.get(operand.buffer, position)
            if maker < position and drafts[maker].phase == UPDATE:
                if not drafts[maker].variables:
                    assigned.setdefault(maker, assigned[position])
