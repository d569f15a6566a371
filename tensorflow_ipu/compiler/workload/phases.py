"""The phase of each op of a program: forward, backward or update.

Ops of pipelines name their phase. Ops of gradients and optimizers have it in their names. If a
program updates its weights by hand, the phase follows from the dataflow.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Optional

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.analysis.layer_names import path
from tensorflow_ipu.compiler.ir.records import OpRecord
from tensorflow_ipu.compiler.workload.draft import BACKWARD, UPDATE, Draft

# Ops that tapes and functions apply to gradients outside of their named scopes.
_PASSES = ("AddN", "Identity")
# The op that makes a dense gradient of a lookup's rows: it takes them first.
_WHOLE = "UnsortedSegmentSum"

# The op that makes each buffer.
Makers = Mapping[Optional[int], int]  # an expression, which Python 3.9 evaluates


def assign(
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
