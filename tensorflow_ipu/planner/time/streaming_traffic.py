"""Transfers of variables in streaming memory, or split over replicas."""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow_ipu import op_names
from tensorflow_ipu.costs.chip.streams import streaming_cycles, streaming_label
from tensorflow_ipu.planner.plan import Transfer
from tensorflow_ipu.planner.time import replica_traffic
from tensorflow_ipu.planner.time.items import COLLECTIVE, STREAMING, Item
from tensorflow_ipu.planner.time.transfers import (
    COLLECTIVE as COLLECTIVE_TRANSFER,
)
from tensorflow_ipu.planner.time.transfers import (
    STREAMING_IN,
    STREAMING_OUT,
    Subject,
    Traffic,
    moved,
)
from tensorflow_ipu.planner.workload import VARIABLE, Variable

_UPDATE = "update"


class _Use:
    """The ops of one phase that use a variable: first, last, whether one writes, most runs."""

    def __init__(self, index: int) -> None:
        self.first = self.last = index
        self.writes = False
        self.runs = 0


def add(subject: Subject, traffic: Traffic) -> None:
    """Adds the transfers of variables in streaming memory, and of variables split over replicas.

    Of a variable in streaming memory a replica fetches its part before the first op of a phase that
    uses it, and sends it back after the last if the phase changes it: in each mini-batch for the
    passes, once for an update. A pipeline that handles mini-batches one after the other in a stage
    fetches once for all of them. An all-gather makes a variable whole if it is needed whole; the
    optimizer's state and updates work on parts. Of a remote buffer each op moves one entry.

    Args:
        subject: the program and its settings.
        traffic: receives them.
    """
    variables = subject.workload.variables
    wanted = {i for i, v in enumerate(variables) if v.offloaded or v.split > 1}
    if not wanted:
        return
    for (index, phase, _), use in _uses(subject, wanted).items():
        if variables[index].entries:
            _add_entry(subject, traffic, variables[index], phase, use)
        else:
            _add(subject, traffic, variables[index], phase, use)


def _uses(subject: Subject, wanted: set[int]) -> Mapping[tuple[int, str, int], _Use]:
    """Returns the uses of variables by phase, and of remote buffers by op."""
    workload = subject.workload
    of_buffer = {
        index: buffer.variable
        for index, buffer in enumerate(workload.buffers)
        if buffer.kind == VARIABLE and buffer.variable in wanted
    }
    found: dict[tuple[int, str, int], _Use] = {}
    for index, op in subject.live_ops():
        if op.end > index + 1:
            continue
        for operand in (*op.inputs, *op.outputs):
            variable = of_buffer.get(-1 if operand.buffer is None else operand.buffer)
            if variable is not None:
                one = index if workload.variables[variable].entries else -1
                use = found.setdefault((variable, op.phase, one), _Use(index))
                use.last = index
                use.runs = max(use.runs, op.runs)
                use.writes = use.writes or op_names.is_update(op.type)
    return found


def _add_entry(
    subject: Subject, traffic: Traffic, variable: Variable, phase: str, use: _Use
) -> None:
    """Adds the load or store of one entry of a remote buffer."""
    chip, num_bytes = subject.settings.chip, variable.share // variable.entries
    op = subject.workload.ops[use.first]
    item = Item(
        variable.name, STREAMING, variable.ipu if op.ipu is None else op.ipu,
        moved(streaming_cycles(num_bytes, chip) - subject.saved(op), streaming_label(chip)),
        use.runs, use.first, 1 if use.writes else -1, stage=op.stage, phase=phase,
    )  # fmt: skip
    direction = STREAMING_OUT if use.writes else STREAMING_IN
    end = len(subject.workload.ops)
    traffic.add(item, direction, num_bytes, subject.overlaps(op), end)


def _add(subject: Subject, traffic: Traffic, variable: Variable, phase: str, use: _Use) -> None:
    """Adds the transfers of one variable in one phase."""
    pipeline, chip = subject.workload.pipeline, subject.settings.chip
    runs = use.runs
    if pipeline is not None and phase != _UPDATE:
        runs = -(-runs // pipeline.batch_serialization_iterations)
    stage = subject.workload.ops[use.first].stage
    end = len(subject.workload.ops)
    if variable.offloaded:
        cost = moved(streaming_cycles(variable.share, chip), streaming_label(chip))
        fetch = Item(
            variable.name, STREAMING, variable.ipu, cost, runs, use.first, -1,
            stage=stage, phase=phase,
        )  # fmt: skip
        traffic.add(fetch, STREAMING_IN, variable.share, subject.io_overlap, end)
        if use.writes:
            send = fetch._replace(position=use.last, after=1)
            traffic.add(send, STREAMING_OUT, variable.share, subject.io_overlap, end)
    if variable.split > 1 and phase != _UPDATE:
        cost = replica_traffic.gathered(subject, variable.num_bytes)
        gather = Item(
            variable.name, COLLECTIVE, variable.ipu, cost, runs, use.first, -1,
            stage=stage, phase=phase,
        )  # fmt: skip
        if cost.cycles:
            traffic.items.append(gather)
            traffic.transfers.append(
                Transfer(variable.name, COLLECTIVE_TRANSFER, variable.ipu, variable.num_bytes,
                         runs, cost.cycles, False, cost.label)
            )  # fmt: skip
