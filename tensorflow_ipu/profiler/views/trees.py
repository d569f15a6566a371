"""Trees of a report: layers as nested scopes, and a launch in order of its loops, calls and ops."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.details import group
from tensorflow_ipu.planner.plan import Plan, median_label
from tensorflow_ipu.planner.time.items import COLLECTIVE, HOST
from tensorflow_ipu.planner.time.transfers import HOST_IN, HOST_OUT
from tensorflow_ipu.planner.workload import Op
from tensorflow_ipu.profiler.breakdown import NO_LAYER, activations, layers_of_variables
from tensorflow_ipu.profiler.views.operations import FORWARD, Operation, kind_of
from tensorflow_ipu.util import op_names

# Numbers of a layer that are sums over its operations and over the layers in it.
_SUMS = (
    *("cycles", "forward", "backward", "update", "compute", "exchange", "sync", "transfer"),
    *("flops", "ops", "variable_bytes", "activation_bytes"),
)

_OF_OPERATIONS = ("cycles", "compute", "exchange", "sync", "transfer")


class LayerNode(NamedTuple):
    """A layer in a tree, with all layers in it.

    Args:
        name: last part of its name scope; empty for the root.
        path: its name scope, as `encoder/layer_0/attention`; for ops in no layer its stand-in, as
            in `LayerRow`.
        parent: position of the layer around it, None for the root.
        end: position one past the last layer in it.
        depth: layers around it.
        cycles: of one launch of a replica, on all IPUs.
        own_cycles: cycles of operations that are in no inner layer.
        share: its part of the cycles of all operations, 0 to 1.
        forward: its cycles in the forward pass.
        backward: its cycles in the backward pass.
        update: its cycles in weight updates.
        compute: cycles that tiles compute.
        exchange: cycles that tiles exchange data.
        sync: cycles that tiles wait for each other.
        transfer: cycles that data come from host, streaming memory and other IPUs, or go there.
        flops: floating-point operations of one launch, as far as there are formulas.
        ops: number of ops.
        variable_bytes: bytes of its variables on one replica.
        activation_bytes: results of its forward ops, each counted once.
        temporary: most bytes of temporaries on a tile, of one of its ops.
        label: median label of the cycles.
    """

    name: str
    path: str
    parent: int | None
    end: int
    depth: int
    cycles: float
    own_cycles: float
    share: float
    forward: float
    backward: float
    update: float
    compute: float
    exchange: float
    sync: float
    transfer: float
    flops: int
    ops: int
    variable_bytes: int
    activation_bytes: int
    temporary: int
    label: str


class _Draft:
    """Builder of a layer."""

    def __init__(self, name: str, path: str) -> None:
        self.name, self.path = name, path
        self.inner: dict[str, _Draft] = {}
        self.sums: dict[str, float] = dict.fromkeys(_SUMS, 0)
        self.own = 0.0
        self.temporary = 0
        self.labels: dict[Label, float] = {}

    def include(self, other: _Draft) -> None:
        """Adds the numbers of an inner layer."""
        for name in _SUMS:
            self.sums[name] += other.sums[name]
        self.temporary = max(self.temporary, other.temporary)
        for label, cycles in other.labels.items():
            self.labels[label] = self.labels.get(label, 0.0) + cycles


@functools.lru_cache(maxsize=4096)
def path(layer: str) -> str:
    """Returns the path of the layer that has a name: its scopes without empty ones.

    Args:
        layer: name of a layer, or its stand-in.
    """
    return "/".join(_scopes(layer))


def _scopes(layer: str) -> list[str]:
    """Returns the scopes of a layer from the outermost; a function of the program is one scope."""
    return [layer] if layer.endswith(")") else [part for part in layer.split("/") if part]


def layer_tree(plan: Plan, operations: Iterable[Operation]) -> tuple[LayerNode, ...]:
    """Returns the layers of a program as a tree.

    Args:
        plan: memory and time of a program.
        operations: its operations with their cycles.

    Returns:
        Layers in the order of the program, inner layers after their outer one. The first is the
        program.
    """
    root = _Draft("", "")
    _add_program(root, plan)
    for row in operations:
        draft = _find(root, row.layer)
        for name in _OF_OPERATIONS:
            draft.sums[name] += getattr(row, name)
        draft.sums[row.phase] += row.cycles
        draft.own += row.cycles
        draft.temporary = max(draft.temporary, row.temporary)
        label = Label(row.label)
        draft.labels[label] = draft.labels.get(label, 0.0) + row.cycles
    _accumulate(root)
    nodes: list[LayerNode] = []
    _flatten(root, None, 0, root.sums["cycles"], nodes)
    return tuple(nodes)


def positions(nodes: Sequence[LayerNode]) -> dict[str, int]:
    """Returns the positions of layers in a tree by their paths.

    Args:
        nodes: the result of `layer_tree`.
    """
    return {node.path: position for position, node in enumerate(nodes) if position}


def _add_program(root: _Draft, plan: Plan) -> None:
    """Adds the numbers that do not depend on the chip: ops, work and bytes."""
    workload = plan.workload
    for op in workload.ops:
        sums = _find(root, group(op) or NO_LAYER).sums
        sums["ops"] += 1
        sums["flops"] += (op.flops or 0) * op.runs
    for variable, layer in layers_of_variables(workload).items():
        found = _find(root, layer or NO_LAYER)
        found.sums["variable_bytes"] += workload.variables[variable].share
    for layer, num_bytes in activations(workload):
        _find(root, layer or NO_LAYER).sums["activation_bytes"] += num_bytes


def _find(root: _Draft, layer: str) -> _Draft:
    """Returns the draft of a layer, creating it and its outer layers if needed."""
    draft = root
    for name in _scopes(layer):
        inner = draft.inner.get(name)
        if inner is None:
            path = f"{draft.path}/{name}" if draft.path else name
            inner = draft.inner[name] = _Draft(name, path)
        draft = inner
    return draft


def _accumulate(draft: _Draft) -> None:
    """Adds the numbers of inner layers to each layer."""
    for inner in draft.inner.values():
        _accumulate(inner)
        draft.include(inner)


def _flatten(
    draft: _Draft, parent: int | None, depth: int, total: float, nodes: list[LayerNode]
) -> None:
    """Appends a layer and its inner layers."""
    position = len(nodes)
    sums = draft.sums
    node = LayerNode(
        name=draft.name,
        path=draft.path,
        parent=parent,
        end=position,
        depth=depth,
        own_cycles=draft.own,
        share=sums["cycles"] / total if total else 0.0,
        temporary=draft.temporary,
        label=median_label(draft.labels).value,
        **sums,  # type: ignore[arg-type]
    )
    nodes.append(node)
    for inner in draft.inner.values():
        _flatten(inner, position, depth + 1, total, nodes)
    nodes[position] = node._replace(end=len(nodes))


# --- A launch in order ---

PROGRAM = "program"
LOOP = "loop"
CALL = "call"
CONDITIONAL = "conditional"
BRANCH = "branch"
STAGE = "stage"
OP = "op"


class ProgramNode(NamedTuple):
    """An executed part of a program, with its inner parts.

    Args:
        kind: `program`, `loop`, `call`, `conditional`, `branch` (of a conditional), `stage` (a
            phase of a pipeline's stage), `op`, or the kind of a transfer: `host in`, `host out`,
            `streaming in`, `streaming out`, `link`, `collective`.
        name: of the op, stage or transfer.
        op: index into `Workload.ops`; None if it is no op.
        row: position of its operation, None for a node with parts.
        ipu: the IPU it runs on; None for the program.
        end: position one past the last part in it.
        depth: parts around it.
        trips: iterations of a loop; None if it is no loop.
        runs: executions in a launch.
        cycles: of all runs in a launch, with all parts.
        label: median label of the cycles.
    """

    kind: str
    name: str
    op: int | None
    row: int | None
    ipu: int | None
    end: int
    depth: int
    trips: int | None
    runs: int
    cycles: float
    label: str


def program_tree(
    plan: Plan, order: np.ndarray, operations: Sequence[Operation]
) -> tuple[ProgramNode, ...]:
    """Returns the parts of a launch as a tree, in order of execution.

    Args:
        plan: memory and time of a program.
        order: indices of the ops in the order of execution.
        operations: its operations with their cycles.

    Returns:
        Parts in the order of execution, inner parts after their outer one; without ops that take no
        time. The first is the program.
    """
    tree = _Tree(plan, order, operations)
    tree.add_program()
    return tuple(tree.nodes)


class _Tree:
    """Builder of a tree."""

    def __init__(self, plan: Plan, order: np.ndarray, operations: Sequence[Operation]) -> None:
        self.nodes: list[ProgramNode] = []
        self._workload = plan.workload
        self._order: list[int] = order.tolist()
        self._rows = operations
        self._at: dict[tuple[int, int], list[int]] = {}
        for index, row in enumerate(operations):
            self._at.setdefault(row.place, []).append(index)
        for found in self._at.values():
            # The rows of one place in the order in which they were found, not of their cycles.
            found.sort(key=lambda index: self._rows[index].op is not None)
        self._labels: list[dict[Label, float]] = []

    def add_program(self) -> None:
        """Adds the whole program."""
        end = len(self._workload.ops)
        root = self._open(PROGRAM, self._workload.name)
        self._add_rows((-1, -1), (-1, 0), (-1, 1))
        self._add_ops(0, len(self._order))
        self._add_rows((end, -1), (end, 0), (end, 1))
        self._close(root)

    def _add_ops(self, begin: int, end: int) -> None:
        """Adds the ops at some positions of the order, the parts of each with it."""
        stages = {} if self._workload.pipeline is None else self._stages(begin, end)
        position = begin
        while position < end:
            op = self._workload.ops[self._order[position]]
            if position not in stages:
                self._add_op(position)
            elif stages[position]:
                self._add_stage(op, stages[position])
            position = self._end(position)

    def _stages(self, begin: int, end: int) -> dict[int, list[int]]:
        """Returns the positions of each phase of a stage, at the first of them; none at the others.

        Stages are on IPUs of their own, so their ops are grouped even with other ops between them.
        Ops without a phase are in the phase of the stage before them.
        """
        found: dict[int, list[int]] = {}
        groups: dict[tuple[int, str], list[int]] = {}
        phases: dict[int, str] = {}
        position = begin
        while position < end:
            op = self._workload.ops[self._order[position]]
            if op.stage is not None:
                phase = phases[op.stage] = op.phase or phases.get(op.stage, FORWARD)
                group = groups.setdefault((op.stage, phase), [])
                found[position] = [] if group else group
                group.append(position)
            position = self._end(position)
        return found

    def _add_stage(self, op: Op, positions: Sequence[int]) -> None:
        """Adds a phase of a pipeline's stage."""
        names, stage = self._workload.stage_names, op.stage or 0
        name = names[stage] if stage < len(names) else f"stage {stage}"
        phase = op.phase or FORWARD
        node = self._open(STAGE, f"{name}, {phase}", ipu=op.ipu, runs=op.runs)
        for position in positions:
            self._add_op(position)
        self._close(node)

    def _add_op(self, position: int) -> None:
        """Adds an op with its callees, and the transfers before and after it."""
        index = self._order[position]
        op = self._workload.ops[index]
        self._add_rows((index, -1))
        if op.end > index + 1:
            kind, trips = _container(op), op.trip_count
            node = self._open(kind, op.name, index, op.ipu, trips, op.runs)
            self._add_rows((index, 0))
            if kind == CONDITIONAL:
                self._add_branches(position + 1, self._end(position))
            else:
                self._add_ops(position + 1, self._end(position))
            self._close(node)
        else:
            self._add_rows((index, 0))
        self._add_rows((index, 1))

    def _add_branches(self, begin: int, end: int) -> None:
        """Adds the ops of a conditional by branch."""
        position = begin
        while position < end:
            branch = self._workload.ops[self._order[position]].branch
            after = self._end(position)
            while after < end and self._workload.ops[self._order[after]].branch == branch:
                after = self._end(after)
            node = self._open(BRANCH, f"branch {branch}")
            self._add_ops(position, after)
            self._close(node)
            position = after

    def _add_rows(self, *places: tuple[int, int]) -> None:
        """Adds the operations at some places."""
        for place in places:
            for index in self._at.get(place, ()):
                row = self._rows[index]
                node = self._open(self._kind(row), row.name, row.op, row.ipu, None, row.runs, index)
                self._close(node, row)

    def _kind(self, row: Operation) -> str:
        """Returns the kind of a node that is an operation."""
        if row.op is None:
            return row.type
        op = self._workload.ops[row.op]
        kind = kind_of(op)
        if kind == HOST:
            return HOST_IN if op.type == op_names.INFEED else HOST_OUT
        return COLLECTIVE if kind == COLLECTIVE else OP

    def _end(self, position: int) -> int:
        """Returns the position after an op and its callees, which stay together."""
        index = self._order[position]
        return position + self._workload.ops[index].end - index

    def _open(
        self,
        kind: str,
        name: str,
        op: int | None = None,
        ipu: int | None = None,
        trips: int | None = None,
        runs: int = 1,
        row: int | None = None,
    ) -> int:
        """Starts a part; returns its position."""
        depth = len(self._labels)
        node = ProgramNode(kind, name, op, row, ipu, 0, depth, trips, runs, 0.0, "")
        self.nodes.append(node)
        self._labels.append({})
        return len(self.nodes) - 1

    def _close(self, position: int, row: Operation | None = None) -> None:
        """Ends a part; a part without any time is dropped."""
        cycles = self._labels.pop()
        node, end = self.nodes[position], len(self.nodes)
        if row is not None:
            cycles = {Label(row.label): row.cycles}
            self.nodes[position] = node._replace(end=end, cycles=row.cycles, label=row.label)
        elif end == position + 1 and position:
            self.nodes.pop()
            return
        else:
            total, label = sum(cycles.values()), median_label(cycles).value
            self.nodes[position] = node._replace(end=end, cycles=total, label=label)
        for each, of_label in cycles.items() if self._labels else ():
            around = self._labels[-1]
            around[each] = around.get(each, 0.0) + of_label


def _container(op: Op) -> str:
    """Returns the kind of an op that runs others."""
    if op_names.is_conditional(op.type):
        return CONDITIONAL
    return LOOP if op_names.is_loop(op.type) or op.trip_count is not None else CALL
