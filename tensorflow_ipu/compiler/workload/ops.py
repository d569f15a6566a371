"""Conversion of drafts to the ops of a Workload."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.analysis.layer_names import LayerNames
from tensorflow_ipu.compiler.listing.variable_placement import OPTIMIZER_STATE, WEIGHT
from tensorflow_ipu.compiler.workload import op_layers
from tensorflow_ipu.compiler.workload.draft import UPDATE, Draft
from tensorflow_ipu.planner.workload import Op, Variable


def finish(
    drafts: Sequence[Draft], layers: LayerNames, variables: Sequence[Variable]
) -> tuple[Op, ...]:
    """Returns the ops, with their layers and phases.

    Args:
        drafts: drafts of the ops, in order.
        layers: layers by variable, from all ops that read variables.
        variables: the program's variables.
    """
    op_layers.assign(drafts, layers, variables)
    _number_branches(drafts)
    return tuple(draft.op() for draft in drafts)


def _number_branches(drafts: Sequence[Draft]) -> None:
    """Numbers the branches of each conditional by the functions that its ops are in."""
    found: dict[int, dict[str, int]] = {}
    for draft in drafts:
        if draft.caller is None:
            continue
        caller = drafts[draft.caller]
        if op_names.is_conditional(caller.record.type):
            functions = found.setdefault(draft.caller, {})
            draft.branch = functions.setdefault(draft.record.function, len(functions))
        else:
            draft.branch = caller.branch


def roles(drafts: Sequence[Draft], variables: Sequence[Variable]) -> list[str]:
    """Returns the role of each variable: variables that only updates use are optimizer state.

    Args:
        drafts: the ops, finished.
        variables: the program's variables.
    """
    used = {name for d in drafts if d.phase != UPDATE for name in d.variables}
    updated = {name for d in drafts if d.phase == UPDATE for name in d.variables} - used
    return [
        OPTIMIZER_STATE if v.role == WEIGHT and v.name in updated else v.role for v in variables
    ]
