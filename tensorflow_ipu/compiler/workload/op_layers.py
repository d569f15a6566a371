"""Layers and phases of the ops of a Workload."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Optional

from tensorflow_ipu.compiler.analysis.layer_names import LayerNames, path
from tensorflow_ipu.compiler.ir.records import OpRecord
from tensorflow_ipu.compiler.listing.variable_placement import ACCUMULATOR, OPTIMIZER_STATE
from tensorflow_ipu.compiler.source_map import OPTIMIZER
from tensorflow_ipu.compiler.workload.walk import BACKWARD, UPDATE, Draft
from tensorflow_ipu.planner.workload import Variable
from tensorflow_ipu.util import op_names

# Ops of pipelines name their phase. Ops of gradients and optimizers have it in their names. If a
# program updates its weights by hand, the phase follows from the dataflow.

# Ops that tapes and functions apply to gradients outside of their named scopes.
_PASSES = ("AddN", "Identity")
# The op that makes a dense gradient of a lookup's rows: it takes them first.
_WHOLE = "UnsortedSegmentSum"
# The op that makes each buffer.
Makers = Mapping[Optional[int], int]  # an expression, which Python 3.9 evaluates


def assign_phases(
    drafts: Sequence[Draft],
    scopes: frozenset[str],
    makers: Makers,
    accumulators: frozenset[str] = frozenset(),
) -> None:
    """Assigns each op its phase of a training step.

    Args:
        drafts: drafts of the ops, in order.
        scopes: the name scopes of optimizers.
        makers: the op that makes each buffer.
        accumulators: names of the variables in which gradients of mini-batches are added up.
    """
    for draft in drafts:
        phase = draft.record.phase or _phase(draft.record, scopes)
        if not phase and draft.caller is not None:
            phase = drafts[draft.caller].phase
        draft.phase = phase
    _find_kept_lists(drafts, makers)
    _find_updates(drafts, makers, accumulators)


def _phase(record: OpRecord, update_scopes: frozenset[str]) -> str:
    """Returns the phase of an op by its name."""
    if op_names.is_optimizer_update(record.type):
        return UPDATE
    if op_names.is_backward(record.name):
        return BACKWARD
    scope = path(record.name, record.keras.layers)
    parts = scope.split("/")
    inside = any("/".join(parts[:end]) in update_scopes for end in range(1, len(parts) + 1))
    return UPDATE if inside else ""


def _find_kept_lists(drafts: Sequence[Draft], makers: Makers) -> None:
    """Moves lists of activations that are named like gradients to the forward pass.

    A loop keeps activations in them for gradients: they have no operands with data, and an op of
    the forward pass is their user.
    """
    for position, draft in enumerate(drafts):
        if draft.phase:
            continue
        for source in sources(drafts, position, makers):
            maker = drafts[source]
            if maker.phase == BACKWARD and all(o.buffer is None for o in maker.inputs):
                maker.phase = ""


def _find_updates(drafts: Sequence[Draft], makers: Makers, accumulators: frozenset[str]) -> None:
    """Finds the ops that apply gradients in a program that updates its weights by hand.

    An op is one if its data come from gradients, unless gradients depend on it. Sums of gradients
    that tapes make are gradients, and so are results of gradient functions. Ops that accumulate
    gradients over mini-batches, and their inputs, are part of the backward pass. So are ops on
    gradients in a stage of a pipeline.
    """
    callers = {d.caller for d in drafts if d.phase == BACKWARD and d.caller is not None}
    others = {d.caller for d in drafts if d.phase != BACKWARD and _computes(d)}
    for position, draft in enumerate(drafts):
        whole = position in callers - others and op_names.is_call(draft.record.type)
        if not draft.phase and (whole or _passes_gradients(drafts, position, callers, makers)):
            draft.phase = BACKWARD
    gradients = [p for p, draft in enumerate(drafts) if draft.phase == BACKWARD]
    sums = [p for p, draft in enumerate(drafts) if _adds_up(draft, accumulators)]
    before, summed = (_sources_of_all(drafts, found, makers) for found in (gradients, sums))
    for position in _after_gradients(drafts, before, makers):
        draft = drafts[position]
        if not draft.phase:
            backward = position in summed or draft.record.stage is not None
            draft.phase = BACKWARD if backward else UPDATE
    _find_prepared(drafts, before | summed)


def _sources_of_all(drafts: Sequence[Draft], ends: Iterable[int], makers: Makers) -> set[int]:
    """Returns some ops and all of their predecessors."""
    found = set(ends)
    for position in range(len(drafts) - 1, -1, -1):
        if position in found:
            found.update(sources(drafts, position, makers))
    return found


def _computes(draft: Draft) -> bool:
    """Returns whether an op computes new data of tensors with several elements."""
    if draft.known or draft.record.type in _PASSES:
        return False
    operands = (*draft.inputs, *draft.outputs)
    return any(o.buffer is not None and o.type.elements > 1 for o in operands)


def _adds_up(draft: Draft, accumulators: frozenset[str]) -> bool:
    """Returns whether an op adds gradients of a mini-batch to a sum that lasts longer."""
    return (
        not draft.phase
        and op_names.is_update(draft.record.type)
        and not accumulators.isdisjoint(draft.variables)
    )


def _passes_gradients(
    drafts: Sequence[Draft], position: int, callers: set[int], makers: Makers
) -> bool:
    """Returns whether an op adds gradients up, passes one on, or calls a function of gradients."""
    kind = drafts[position].record.type
    if kind == _WHOLE:
        maker = makers.get(drafts[position].inputs[0].buffer, position)
        return maker < position and drafts[maker].phase == BACKWARD
    if kind not in _PASSES and not (position in callers and op_names.is_call(kind)):
        return False
    made = [drafts[source].phase == BACKWARD for source in sources(drafts, position, makers)]
    return bool(made) and (any(made) if position in callers else all(made))


def _after_gradients(drafts: Sequence[Draft], before: set[int], makers: Makers) -> set[int]:
    """Returns the ops whose data come from gradients, also through state such as a momentum."""
    weights = {operand.buffer for position in before for operand in drafts[position].inputs}
    state: set[int | None] = set()
    after: set[int] = set()
    for position, draft in enumerate(drafts):
        found = any(
            source in after or drafts[source].phase == BACKWARD
            for source in sources(drafts, position, makers)
        )
        found = found or any(operand.buffer in state for operand in draft.inputs)
        if not found or position in before or draft.record.type == op_names.OUTFEED:
            continue
        after.add(position)
        if draft.variables and op_names.is_update(draft.record.type):
            state.update({draft.inputs[0].buffer} - weights)
    return after


def _find_prepared(drafts: Sequence[Draft], before: set[int]) -> None:
    """Finds the ops whose results only updates use, such as a momentum that decays."""
    users: dict[int | None, list[int]] = collections.defaultdict(list)
    for position, draft in enumerate(drafts):
        for operand in draft.inputs if draft.record.type != op_names.READ else ():
            users[operand.buffer].append(position)
    for position in range(len(drafts) - 1, -1, -1):
        draft = drafts[position]
        if draft.phase or draft.record.stage is not None or position in before:
            continue
        using = [user for o in draft.outputs if o.buffer is not None for user in users[o.buffer]]
        if draft.inputs and using and all(drafts[user].phase == UPDATE for user in using):
            draft.phase = UPDATE


def sources(drafts: Sequence[Draft], position: int, makers: Makers) -> Iterator[int]:
    """Yields the producers of an op's operands, as far as they come before it.

    Args:
        drafts: drafts of the ops, in order.
        position: of the op.
        makers: the op that makes each buffer.
    """
    for operand in drafts[position].inputs:
        maker = makers.get(operand.buffer, position)
        if maker < position:
            yield maker


# --- The layer of each op of a program ---


def assign(drafts: Sequence[Draft], layers: LayerNames, variables: Sequence[Variable]) -> None:
    """Assigns ops their phases and layers.

    Args:
        drafts: drafts of the ops, in order.
        layers: layers by variable, from all ops that read variables.
        variables: the program's variables.
    """
    makers: Makers = {
        operand.buffer: position
        for position, draft in reversed(tuple(enumerate(drafts)))
        for operand in draft.outputs
        if operand.buffer is not None
    }
    _assign_update_layers(drafts, layers)
    scopes = _update_scopes(drafts, layers, variables)
    accumulators = frozenset(v.name for v in variables if v.role == ACCUMULATOR)
    assign_phases(drafts, scopes, makers, accumulators)
    # The values of variables are in the first buffers.
    found = (layers.of_variable(variable.name) for variable in variables)
    of_values: dict[int | None, str] = {i: layer for i, layer in enumerate(found) if layer}
    optimizer = next(iter(scopes)) if len(scopes) == 1 else "optimizer"
    _Assignment(drafts, layers, makers, of_values, optimizer).run()
    _spread_updates(drafts, makers)


def _assign_update_layers(drafts: Sequence[Draft], layers: LayerNames) -> None:
    """Assigns variables that are updated with a weight (slots, accumulators) to its layer."""
    for draft in drafts:
        if op_names.is_optimizer_update(draft.record.type):
            found = [layers.of_variable(name) for name in draft.variables]
            layer = next(filter(None, found), "")
            for name in draft.variables:
                layers.assign(name, layer)


def _update_scopes(
    drafts: Sequence[Draft], layers: LayerNames, variables: Sequence[Variable]
) -> frozenset[str]:
    """Returns the scopes of optimizers: scopes that write variables of other layers."""
    found = set()
    state_names = {variable.name for variable in variables if variable.role == OPTIMIZER_STATE}
    for draft in drafts:
        if not draft.variables or not op_names.is_update(draft.record.type):
            continue
        if draft.record.layer is not None:
            continue  # a front end names it
        scope = path(draft.record.name, draft.record.keras.layers)
        layer = layers.of_variable(draft.variables[0])
        foreign = bool(layer) and f"/{layer}/" not in f"/{scope}/"
        state = not state_names.isdisjoint(draft.variables)
        if foreign or state or op_names.is_optimizer_update(draft.record.type):
            found.add(scope.split("/update")[0])
    return frozenset(found - {""})


class _Assignment:
    """Assignment of layers to ops, in the order of the program."""

    def __init__(
        self,
        drafts: Sequence[Draft],
        layers: LayerNames,
        makers: Makers,
        of_values: Mapping[int | None, str],
        optimizer: str,
    ) -> None:
        self._drafts = drafts
        self._layers = layers
        self._makers = makers
        self._of_values = of_values
        self._optimizer = optimizer
        self._by_name: dict[str, str] = {}
        self._in_calls: set[int] = set()
        # Buffer -> the op that wrote it last: a reshape, for one, shares its operand's buffer.
        self._latest: dict[int, int] = {}

    def run(self) -> None:
        """Assigns all ops their layers."""
        for position, draft in enumerate(self._drafts):
            if draft.caller is not None:
                if self._drafts[draft.caller].calls or draft.caller in self._in_calls:
                    self._in_calls.add(position)
            draft.layer = self._layer(position)
            self._by_name.setdefault(draft.record.name, draft.layer)
            for operand in draft.outputs:
                if operand.buffer is not None:
                    self._latest[operand.buffer] = position

    def _layer(self, position: int) -> str:
        """Returns the layer of an op, after the layers of all ops in front of it."""
        draft = self._drafts[position]
        around = "" if draft.caller is None else self._drafts[draft.caller].layer
        declared = draft.record.layer
        if around and position in self._in_calls:
            return f"{around}/{declared}" if declared else around
        if declared or (declared is not None and draft.calls):
            return declared  # operands of a call say nothing of the ops that it runs
        found = self._by_name.get(draft.record.original) or self._own(draft) or around
        if not found and draft.phase != BACKWARD:  # optimizers of Keras compute gradients, too
            part = draft.record.keras.part
            found = self._optimizer if part == OPTIMIZER else part
        return found or self._of_sources(position)

    def _own(self, draft: Draft) -> str:
        """Returns the layer of an op's variable, or of its own name."""
        found = next(filter(None, map(self._layers.of_variable, draft.variables)), "")
        has_name = draft.record.layer is None and not (draft.variables and draft.phase == UPDATE)
        if not found and has_name:
            found = self._layers.of_op(draft.record.name, draft.record.keras)
        return found

    def _of_sources(self, position: int) -> str:
        """Returns the layer of the ops that an op's data come from."""
        draft = self._drafts[position]
        if draft.end > position + 1 and not draft.calls:
            return ""  # a loop or conditional may have the whole program in it
        for operand in () if draft.calls else draft.inputs:
            if operand.buffer in self._of_values:
                return self._of_values[operand.buffer]
        if draft.phase == BACKWARD and not draft.calls:
            # Ops that make a sparse gradient dense are of the lookup, whose reshape is in the
            # buffer of the layer after it.
            latest = [self._latest[o.buffer] for o in draft.inputs if o.buffer in self._latest]
            found = _most_common(self._drafts[source].layer for source in latest)
            if found:
                return found
        near = list(sources(self._drafts, position, self._makers))
        if draft.phase == UPDATE or draft.phase == BACKWARD or draft.calls:
            return _most_common(self._drafts[source].layer for source in near)
        here = _function_of(draft.record)
        # Where branches come together, that is the layer which comes last.
        for source in sorted(near, reverse=True):
            if _function_of(self._drafts[source].record) == here and self._drafts[source].layer:
                return self._drafts[source].layer
        return ""


def _most_common(layers: Iterable[str]) -> str:
    found = collections.Counter(layers)
    del found[""]
    return found.most_common(1)[0][0] if found else ""


def _function_of(record: OpRecord) -> tuple[str, str] | None:
    """Returns the function of the user's program that an op was made in."""
    return None if record.source is None else (record.source.file, record.source.function)


def _spread_updates(drafts: Sequence[Draft], makers: Makers) -> None:
    """Assigns ops of an optimizer to the layer of the variable that their results update."""
    assigned = {
        position: draft.layer
        for position, draft in enumerate(drafts)
        if draft.phase == UPDATE and draft.variables and op_names.is_update(draft.record.type)
    }
    for position in range(len(drafts) - 1, -1, -1):
        if position not in assigned:
            continue
        drafts[position].layer = assigned[position]
        for maker in sources(drafts, position, makers):
            if drafts[maker].phase == UPDATE and not drafts[maker].variables:
                assigned.setdefault(maker, assigned[position])
