"""Section and layer of each op of a Workload.

Ops say themselves which phase of a training step they are part of (`Op.phase`).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from tensorflow_ipu.planner.workload import VARIABLE, Op, Operand, Workload
from tensorflow_ipu.util import op_names

__all__ = ["ACCUMULATOR", "BACKWARD", "FORWARD", "Structure", "UPDATE", "structure"]


# --- Sections of ops: forward pass, backward pass and weight update ---

FORWARD = "forward"


BACKWARD = "backward"


UPDATE = "update"


def mini_batches(workload: Workload) -> int:
    """Returns the number of mini-batches of one replica in one launch.

    Args:
        workload: the program. Without feeds and pipelines a launch is one mini-batch.
    """
    if workload.pipeline is not None:
        return max(1, workload.pipeline.mini_batches * workload.pipeline.repeat_count)
    return max((op.runs for op in workload.ops if op.type == op_names.INFEED), default=1) or 1


def variables_of(workload: Workload, op: Op) -> set[int]:
    """Returns the indices of the variables that an op reads or writes."""
    found = set()
    for operand in (*op.inputs, *op.outputs):
        if operand.buffer is not None:
            buffer = workload.buffers[operand.buffer]
            if buffer.kind == VARIABLE and buffer.variable is not None:
                found.add(buffer.variable)
    return found


def sections_of(workload: Workload) -> tuple[str, ...]:
    """Returns the section of each op: `forward`, `backward`, `update` or empty.

    Args:
        workload: the program, whose ops have phases by the dataflow.
    """
    begin, end = _loop(workload.ops)
    return tuple(
        (op.phase or FORWARD) if begin <= index < end else ""
        for index, op in enumerate(workload.ops)
    )


def _loop(ops: Sequence[Op]) -> tuple[int, int]:
    """Returns the range of ops of the innermost loop with all gradients, else with the feeds."""
    gradients = [index for index, op in enumerate(ops) if op.phase == BACKWARD]
    wanted = gradients or [i for i, op in enumerate(ops) if op.type == op_names.INFEED]
    begin, end = 0, len(ops)
    if not wanted:
        return begin, end
    for index, op in enumerate(ops):
        if op.end > index + 1 and index < wanted[0] and wanted[-1] < op.end:
            begin, end = index + 1, op.end
    return begin, end


# --- The ops that count: once for equal calls, in the costliest branch, in the loop ---


def is_container(index: int, op: Op) -> bool:
    """Returns whether an op runs others, which count themselves.

    Args:
        index: of the op.
        op: the op.
    """
    return op.end > index + 1


def repeated(ops: Sequence[Op]) -> frozenset[int]:
    """Returns the ops whose code and vertices an IPU has already, from an earlier call.

    Args:
        ops: of a program. A call of a function that the program has once names it, as `outlined`.

    Returns:
        Their indices.
    """
    known: set[tuple[str, int | None]] = set()
    found: set[int] = set()
    for index, op in enumerate(ops):
        name = op.attributes.get("outlined")
        if name is None:
            continue
        if (name, op.ipu) in known:
            found.update(range(index + 1, op.end))
        known.add((name, op.ipu))
    return frozenset(found)


def taken(workload: Workload, cycles: np.ndarray) -> np.ndarray:
    """Returns whether each op is counted: of a conditional's branches, only the dearest is.

    Args:
        workload: the program.
        cycles: of each op with all its runs.
    """
    left = cycles.astype(np.float64)
    counted = np.ones(len(workload.ops), bool)
    # Inner conditionals come after outer ones, so they are decided before them.
    for index in range(len(workload.ops) - 1, -1, -1):
        op = workload.ops[index]
        ranges = branches(workload.ops, index) if op_names.is_conditional(op.type) else {}
        if len(ranges) > 1:
            sums = {
                branch: sum(float(left[begin:end].sum()) for begin, end in parts)
                for branch, parts in ranges.items()
            }
            dearest = max(sums, key=lambda branch: (sums[branch], -branch))
            for branch, parts in ranges.items():
                for begin, end in parts if branch != dearest else ():
                    left[begin:end] = 0.0
                    counted[begin:end] = False
    return counted


def branches(ops: Sequence[Op], index: int) -> dict[int, list[tuple[int, int]]]:
    """Returns the ops of each branch of a conditional as ranges, by the number of the branch.

    Args:
        ops: all ops.
        index: of the conditional.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    position = index + 1
    while position < ops[index].end:
        end = max(ops[position].end, position + 1)
        found.setdefault(ops[position].branch, []).append((position, end))
        position = end
    return found


def enclosing(ops: Sequence[Op], members: Sequence[int]) -> tuple[int, int]:
    """Returns the innermost range of ops, a function's or all, that some ops are in.

    Args:
        ops: all ops.
        members: indices of some, in order; at least one.
    """
    begin, end = 0, len(ops)
    for index in range(members[0]):
        op = ops[index]
        if is_container(index, op) and members[-1] < op.end:
            begin, end = index + 1, op.end
    return begin, end


# --- Layers that are parts of another layer, such as attention projections ---

# Parts with variables that a layer may have even if those are most of the program's: an attention
# layer has four.
_FEW = 4


def wholes(layers: Mapping[str, bool]) -> dict[str, str]:
    """Returns the layer that each part belongs to. Users cannot cut inside of one.

    A scope with ops of its own besides inner layers is one layer, such as attention: the ops
    between its projections are in its own scope. A scope with most layers of the program is the
    program, or the trunk of it, where users do cut.

    Args:
        layers: whether each layer has variables, by the names of the layers with ops of their own.
    """
    trained = sum(layers.values())
    inside: Counter[str] = Counter()
    for name, has_variables in layers.items():
        if has_variables:
            inside.update(_enclosing(name, layers))
    found = {}
    for name in layers:
        for scope in _enclosing(name, layers):
            if inside[scope] < trained and inside[scope] <= max(_FEW, trained // 2):
                found[name] = scope
                break
    return found


def _enclosing(name: str, layers: Mapping[str, bool]) -> Iterator[str]:
    """Returns the layers whose scopes a layer is in, outermost first."""
    parts = name.split("/")
    scopes = ("/".join(parts[:end]) for end in range(1, len(parts)))
    return (scope for scope in scopes if scope in layers)


# --- Section and layer of each op of a Workload ---

_OPTIMIZER_STATE = "optimizer state"


ACCUMULATOR = "accumulator"


_SUM = "AddN"


_WHOLE_NUMBERS = ("int32", "int64", "uint32", "uint64", "bool")


@dataclasses.dataclass(frozen=True)
class Structure:
    """The section and layer of each op of a Workload, and the role of its variables.

    Attributes:
        sections: Of each op: `forward`, `backward`, `update`, or empty outside of the loop over
            mini-batches.
        layers: Names of the layers of the forward pass, in the order of their first op.
        layer_of: Of each op, the index of its layer; -1 if it has none, as outside of the loop over
            mini-batches and for the loop's counters.
        trained: Indices of the variables that the forward pass uses and the update changes.
        state: Indices of the variables that only the update uses.
        accumulated: Whether gradients are summed in variables already.
        mini_batches: Of one launch of one replica.
        updates: Weight updates of one launch.
    """

    sections: tuple[str, ...]
    layers: tuple[str, ...]
    layer_of: tuple[int, ...]
    trained: tuple[int, ...]
    state: tuple[int, ...]
    accumulated: bool
    mini_batches: int
    updates: int

    def runs(self, runs: int, section: str, mini_batches: int, updates: int) -> int:
        """Returns an op's runs in a launch with other numbers of mini-batches and updates.

        Args:
            runs: its present runs in a launch.
            section: its section, or its phase. Counters of mini-batches run with each mini-batch.
            mini_batches: of a launch.
            updates: of a launch.
        """
        each_batch = section != UPDATE or runs >= self.mini_batches > self.updates
        before = self.mini_batches if each_batch else self.updates
        return max(1, runs * (mini_batches if each_batch else updates) // before)


def structure(workload: Workload) -> Structure:
    """Returns the section and layer of each op, and the role of each variable.

    Args:
        workload: the program.
    """
    sections = sections_of(workload)
    layers, layer_of = _layers(workload, sections)
    trained, state = _variables(workload, sections)
    return Structure(
        sections,
        layers,
        layer_of,
        trained,
        state,
        any(variable.role == ACCUMULATOR for variable in workload.variables),
        mini_batches(workload),
        _updates(workload, sections, set(trained)),
    )


def _layers(workload: Workload, sections: Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Returns the names of the forward pass's layers, and the index of each op's layer.

    Layers after the last one with weights, such as the loss and metrics, are part of that layer: no
    user cuts there. Ops in no layer follow the ops that their data come from or go to.
    """
    updated = _updated(workload, sections) or set(range(len(workload.variables)))
    trained: dict[str, bool] = {}
    for op, section in zip(workload.ops, sections):
        name = _layer_name(workload, op)
        if section == FORWARD and name and op.type != op_names.INFEED and _works(op):
            weights = variables_of(workload, op) & updated
            trained[name] = trained.get(name, False) or bool(weights)
    whole = wholes(trained)
    order: dict[str, int] = {}
    last = -1
    for name, has_weights in trained.items():
        index = order.setdefault(whole.get(name, name), len(order))
        last = max(last, index) if has_weights else last
    names = tuple(order)[: last + 1] if last >= 0 else tuple(order)
    place = {name: min(order[whole.get(name, name)], len(names) - 1) for name in trained}
    known = [
        place.get(_layer_name(workload, op), -1) if section and not _joins(op, section) else -1
        for op, section in zip(workload.ops, sections)
    ]
    layer_of = _spread(workload, sections, known)
    for index in _counters(workload, sections):
        layer_of[index] = -1
    return names, tuple(layer_of)


def _joins(op: Op, section: str) -> bool:
    """Returns whether an op adds up gradients of a tensor that several layers use.

    Its layer is its users', whatever its name says.
    """
    return section == BACKWARD and op.type == _SUM


def _counters(workload: Workload, sections: Sequence[str]) -> list[int]:
    """Returns the ops in no layer that count the runs of the mini-batch loop: integer ops.

    A pipeline has none of them: its schedule is fixed when it is compiled.
    """
    index = next((i for i, section in enumerate(sections) if section), len(sections))
    found = []
    while index < len(sections):
        op = workload.ops[index]
        operands = (*op.inputs, *op.outputs)
        counts = sections[index] == FORWARD and not op.layer and op.stage is None
        if counts and operands and all(_is_whole_number(operand) for operand in operands):
            found.append(index)
        index = max(op.end, index + 1)
    return found


def _is_whole_number(operand: Operand) -> bool:
    return operand.type.elements == 1 and operand.dtype in _WHOLE_NUMBERS


def _layer_name(workload: Workload, op: Op) -> str:
    """Returns the layer of an op; for ops in no layer of a pipeline, its stage."""
    if op.layer or op.stage is None:
        return op.layer
    known = op.stage < len(workload.stage_names)
    return workload.stage_names[op.stage] if known else f"stage {op.stage}"


def _works(op: Op) -> bool:
    """Returns whether an op has data: constants and control flow do not make a layer."""
    return bool(op.inputs) and bool(op.outputs) and op.type != "Const"


def _spread(workload: Workload, sections: Sequence[str], known: list[int]) -> list[int]:
    """Assigns ops without a layer a neighbor's: of an op that shares a tensor with them."""
    if all(layer < 0 for layer in known):
        return [0 if section else -1 for section in sections]
    for index, op in enumerate(workload.ops):
        if op.type == op_names.INFEED and sections[index]:
            known[index] = 0
    _along(workload, known, [i for i, s in enumerate(sections) if s == FORWARD], back=False)
    _along(workload, known, [i for i, s in enumerate(sections) if s == BACKWARD], back=True)
    _around(workload, sections, known)
    return _filled(sections, known)


def _along(workload: Workload, known: list[int], members: Sequence[int], back: bool) -> None:
    """Assigns ops the last layer that their data come from or, in reverse, go to."""
    layer_of: dict[int, int] = {}
    for index in reversed(members) if back else members:
        op = workload.ops[index]
        near, far = (op.outputs, op.inputs) if back else (op.inputs, op.outputs)
        if known[index] < 0:
            known[index] = max(
                (layer_of.get(o.buffer, -1) for o in near if o.buffer is not None), default=-1
            )
        for operand in far:
            if operand.buffer is not None and known[index] >= 0:
                # A gradient goes to the layer that is nearest to the loss.
                before = layer_of.get(operand.buffer, -1)
                layer_of[operand.buffer] = max(before, known[index])


def _around(workload: Workload, sections: Sequence[str], known: list[int]) -> None:
    """Assigns ops the layer of the nearest op that has one, from tensor to tensor."""
    touching: dict[int, list[int]] = {}
    for index, op in enumerate(workload.ops):
        for buffer in _tensors(op):
            touching.setdefault(buffer, []).append(index)
    frontier = [index for index, layer in enumerate(known) if layer >= 0]
    while frontier:
        reached = []
        for index in frontier:
            for buffer in _tensors(workload.ops[index]):
                for other in touching.pop(buffer, ()):
                    if known[other] < 0 and sections[other]:
                        known[other] = known[index]
                        reached.append(other)
        frontier = reached


def _tensors(op: Op) -> Iterable[int]:
    """Returns the buffers of an op that decide its layer: scalars are everywhere."""
    return (
        operand.buffer
        for operand in (*op.inputs, *op.outputs)
        if operand.buffer is not None and operand.type.elements > 1
    )


def _filled(sections: Sequence[str], known: list[int]) -> list[int]:
    """Assigns remaining ops the layer of the op before; scalar ops of the update the first."""
    before = 0
    for index, layer in enumerate(known):
        if layer >= 0:
            before = layer
        elif sections[index]:
            known[index] = 0 if sections[index] == UPDATE else before
    return known


def _variables(
    workload: Workload, sections: Sequence[str]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the variables that are trained, and those that only the update uses."""
    used: dict[str, set[int]] = {FORWARD: set(), BACKWARD: set(), UPDATE: set(), "": set()}
    for op, section in zip(workload.ops, sections):
        used[section] |= variables_of(workload, op)
    written = _updated(workload, sections)
    passes = used[FORWARD] | used[BACKWARD]
    state = {i for i, v in enumerate(workload.variables) if v.role == _OPTIMIZER_STATE}
    state |= {i for i in written - passes if _is_tensor(workload, i)}
    trained = (written & passes) - state
    accumulators = {i for i, v in enumerate(workload.variables) if v.role == ACCUMULATOR}
    trained = {i for i in trained - accumulators if _is_tensor(workload, i)}
    return tuple(sorted(trained)), tuple(sorted(state - accumulators))


def _updated(workload: Workload, sections: Sequence[str]) -> set[int]:
    """Returns the variables that the update writes."""
    found: set[int] = set()
    for op, section in zip(workload.ops, sections):
        if section == UPDATE and op_names.is_update(op.type):
            found |= variables_of(workload, op)
    return found


def _updates(workload: Workload, sections: Sequence[str], trained: set[int]) -> int:
    """Returns the number of weight updates in a launch."""
    if workload.pipeline is not None:
        return workload.pipeline.repeat_count
    runs = [
        op.runs
        for op, section in zip(workload.ops, sections)
        if section == UPDATE
        and op_names.is_update(op.type)
        and variables_of(workload, op) & trained
    ]
    return max(1, min(max(runs, default=1), mini_batches(workload)))


def _is_tensor(workload: Workload, index: int) -> bool:
    """Returns whether a variable has more than one element."""
    return bool(workload.variables[index].shape)
