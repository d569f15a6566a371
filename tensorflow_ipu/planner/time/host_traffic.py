"""Transfers between IPUs and their host: feeds, arguments, tables, ops on the host."""

from __future__ import annotations

from tensorflow_ipu import op_names
from tensorflow_ipu.costs.chip.streams import host_cycles, host_label, network_cycles
from tensorflow_ipu.costs.label import worst
from tensorflow_ipu.planner.program.counted_ops import is_container
from tensorflow_ipu.planner.time.items import HOST, Item
from tensorflow_ipu.planner.time.transfers import HOST_IN, HOST_OUT, Subject, Traffic, moved, size
from tensorflow_ipu.planner.workload import CONSTANT, INPUT, Op, Operand, Workload


def add(subject: Subject, traffic: Traffic) -> None:
    """Adds all transfers between IPUs and host in a launch.

    Feeds that go through I/O tiles are overlapped. Of other infeeds that are fetched ahead, the
    host's part is overlapped: an IPU waits for the transfer from its machine's memory, and a launch
    takes no less than the transfers from the host to there. Transfers of one exchange wait for the
    host once. IPUs always wait for arguments and results of ops on the host. Variables stay on the
    IPUs from launch to launch.

    Args:
        subject: the program and its settings.
        traffic: receives them.
    """
    _add_arguments(subject, traffic)
    workload = subject.workload
    for index, op in subject.live_ops():
        if op.type == op_names.INFEED:
            beside = subject.overlaps(op)
            ahead = subject.settings.prefetch and not beside
            _add(subject, traffic, index, op, HOST_IN, op.outputs, beside, ahead)
        elif op.type == op_names.OUTFEED:
            _add(subject, traffic, index, op, HOST_OUT, op.inputs, subject.overlaps(op))
        elif op.type == op_names.TABLE_LOOKUP:
            _add(subject, traffic, index, op, HOST_OUT, op.inputs, False)
            _add(subject, traffic, index, op, HOST_IN, op.outputs, False)
        elif op.type == op_names.TABLE_UPDATE:
            _add(subject, traffic, index, op, HOST_OUT, op.inputs, False)
        elif (
            op.ipu is None and op.type not in op_names.SHAPE_QUERIES and not is_container(index, op)
        ):
            sent = _on_chip(workload, op.inputs)
            made = _on_chip(workload, op.outputs)
            _add(subject, traffic, index, op, HOST_OUT, sent, False)
            _add(subject, traffic, index, op, HOST_IN, made, False)


def _add(
    subject: Subject,
    traffic: Traffic,
    index: int,
    op: Op,
    kind: str,
    operands: tuple[Operand, ...],
    overlapped: bool,
    ahead: bool = False,
) -> None:
    """Adds the transfer of one op."""
    num_bytes = size(operands)
    if not num_bytes:
        return
    chip = subject.settings.chip
    label = worst((host_label(chip), op.label))
    cost = moved(host_cycles(num_bytes, chip, ahead) - subject.saved(op), label)
    ipu = _ipu(subject.workload, op, operands)
    item = Item(op.name, HOST, ipu, cost, op.runs, index, 0, index, op.stage, op.phase)
    traffic.add(item, kind, num_bytes, overlapped, len(subject.workload.ops))
    if ahead:
        traffic.hide(ipu, kind, moved(network_cycles(num_bytes, chip), label).times(op.runs))


def _ipu(workload: Workload, op: Op, operands: tuple[Operand, ...]) -> int:
    """Returns the IPU that sends or receives the operands of an op."""
    if op.ipu is not None:
        return op.ipu
    places = (workload.buffers[o.buffer].ipu for o in operands if o.buffer is not None)
    return next((ipu for ipu in places if ipu is not None), 0)


def _on_chip(workload: Workload, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """Returns the operands of a host op that IPUs have too, without constants."""
    found = []
    for operand in operands:
        buffer = None if operand.buffer is None else workload.buffers[operand.buffer]
        if buffer is not None and buffer.ipu is not None and buffer.kind != CONSTANT:
            found.append(operand)
    return tuple(found)


def _add_arguments(subject: Subject, traffic: Traffic) -> None:
    """Adds the arguments that the host sends at each launch."""
    chip = subject.settings.chip
    for index, buffer in enumerate(subject.workload.buffers):
        if buffer.kind == INPUT and buffer.ipu is not None and buffer.num_bytes:
            label = worst((host_label(chip), buffer.label))
            cost = moved(host_cycles(buffer.num_bytes, chip), label)
            item = Item(buffer.name, HOST, buffer.ipu, cost, 1, -1, buffer=index)
            traffic.add(item, HOST_IN, buffer.num_bytes, False, len(subject.workload.ops))
