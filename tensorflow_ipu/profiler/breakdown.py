"""Tables of a Plan: by layer, op and op type; tensors and host traffic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.details import group
from tensorflow_ipu.planner.plan import IpuMemory, LiveBuffer, median_label
from tensorflow_ipu.planner.workload import TENSOR, VARIABLE, Workload

# Phase of ops -> column of their cycles; everything else is the forward pass.
_PHASES = {"backward": "backward_cycles", "update": "update_cycles"}

# Layer of ops in none.
NO_LAYER = "(no layer)"


class LayerRow(NamedTuple):
    """Memory, work and cycles of a layer.

    Args:
        layer: name of the layer; of ops in no layer the function of the user's program, such as
            `step (train.py)`, `infeed` or `outfeed`.
        forward_cycles: of its ops and transfers of the forward pass in one launch, on all IPUs of a
            replica.
        backward_cycles: the same for the backward pass.
        update_cycles: the same for weight updates.
        variable_bytes: bytes of its variables on one replica.
        activation_bytes: results of its forward ops, each counted once.
        flops: floating-point operations of one launch, as far as there are formulas.
        ops: number of ops.
        label: label of the cycles: the label of the ops that make up most of them.
    """

    layer: str
    forward_cycles: float
    backward_cycles: float
    update_cycles: float
    variable_bytes: int
    activation_bytes: int
    flops: int
    ops: int
    label: str

    @property
    def cycles(self) -> float:
        """Cycles of all phases."""
        return self.forward_cycles + self.backward_cycles + self.update_cycles


class TypeRow(NamedTuple):
    """Cycles of all ops of one type in a launch.

    Args:
        type: op type of TensorFlow.
        ops: number of ops.
        runs: executions of all of them.
        cycles: of all runs.
        compute: part of it that tiles compute.
        exchange: part of it that tiles exchange data.
        sync: part of it that tiles wait for each other.
    """

    type: str
    ops: int
    runs: int
    cycles: float
    compute: float
    exchange: float
    sync: float


class Timed(Protocol):
    """An op or a transfer with its cycles in a launch."""

    @property
    def layer(self) -> str:
        """The layer it is in, or its stand-in."""

    @property
    def phase(self) -> str:
        """`forward`, `backward` or `update`."""

    @property
    def label(self) -> str:
        """Label of the cycles."""

    @property
    def type(self) -> str:
        """Op type of TensorFlow."""

    @property
    def runs(self) -> int:
        """Executions."""

    @property
    def cycles(self) -> float:
        """Of all runs."""

    @property
    def compute(self) -> float:
        """Part of it that tiles compute."""

    @property
    def exchange(self) -> float:
        """Part of it that tiles exchange data."""

    @property
    def sync(self) -> float:
        """Part of it that tiles wait for each other."""


def tensors_at_peak(memory: IpuMemory) -> tuple[LiveBuffer, ...]:
    """Returns the tensors that are live at the peak of an IPU, largest first.

    Args:
        memory: of the IPU.

    Returns:
        Variables, tensors, stashes and temporaries; not memory of the program as a whole, such as
        code.
    """
    return tuple(
        live for live in memory.at_peak if live.buffer is not None or live.name != live.category
    )


def type_rows(rows: Iterable[Timed]) -> tuple[TypeRow, ...]:
    """Returns runs and cycles of each op type, the most expensive first.

    Args:
        rows: of all ops.
    """
    sums: dict[str, TypeRow] = {}
    for row in rows:
        known = sums.get(row.type, TypeRow(row.type, 0, 0, 0.0, 0.0, 0.0, 0.0))
        sums[row.type] = TypeRow(
            row.type,
            known.ops + 1,
            known.runs + row.runs,
            known.cycles + row.cycles,
            known.compute + row.compute,
            known.exchange + row.exchange,
            known.sync + row.sync,
        )
    return tuple(sorted(sums.values(), key=lambda row: -row.cycles))


def layer_rows(workload: Workload, operations: Iterable[Timed]) -> tuple[LayerRow, ...]:
    """Returns memory, work and cycles of each layer, in program order.

    Args:
        workload: a program.
        operations: its ops and transfers with their cycles, as `Report.operations` returns them.
    """
    sums: dict[str, dict[str, float]] = {}
    by_label: dict[str, dict[Label, float]] = {}

    def of(layer: str) -> dict[str, float]:
        return sums.setdefault(layer or NO_LAYER, dict.fromkeys(LayerRow._fields[1:-1], 0))

    for op in workload.ops:
        numbers = of(group(op))
        numbers["ops"] += 1
        numbers["flops"] += (op.flops or 0) * op.runs
    for row in operations:
        of(row.layer)[_PHASES.get(row.phase, "forward_cycles")] += row.cycles
        parts = by_label.setdefault(row.layer, dict.fromkeys(Label, 0.0))
        parts[Label(row.label)] += row.cycles
    for variable, layer in layers_of_variables(workload).items():
        of(layer)["variable_bytes"] += workload.variables[variable].share
    for layer, num_bytes in activations(workload):
        of(layer)["activation_bytes"] += num_bytes
    return tuple(
        LayerRow(layer, **numbers, label=median_label(by_label.get(layer, {})).value)  # type: ignore[arg-type]
        for layer, numbers in sums.items()
    )


def activations(workload: Workload) -> Iterable[tuple[str, int]]:
    """Yields the layer, empty if there is none, and the bytes of each result of a forward op.

    Args:
        workload: a program.
    """
    made: set[int] = set()
    for op in workload.ops:
        for operand in op.outputs:
            index = operand.buffer
            if index is None or index in made:
                continue
            made.add(index)
            buffer = workload.buffers[index]
            if buffer.kind == TENSOR and op.phase not in _PHASES:
                yield group(op), buffer.num_bytes


def layers_of_variables(workload: Workload) -> dict[int, str]:
    """Returns the layer of each variable: of its first user in a layer.

    Args:
        workload: a program.

    Returns:
        Names of layers by index of the variable, empty for variables without a layer.
    """
    found = dict.fromkeys(range(len(workload.variables)), "")
    for index, op in enumerate(workload.ops):
        if not op.layer or op.end > index + 1:
            continue  # the ops inside say more
        for operand in (*op.inputs, *op.outputs):
            if operand.buffer is None:
                continue
            buffer = workload.buffers[operand.buffer]
            if buffer.kind == VARIABLE and buffer.variable is not None:
                found[buffer.variable] = found[buffer.variable] or op.layer
    return found
