"""Copies between the IPUs of a replica."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow_ipu.costs.chip.links import link_cycles, link_label, links_between
from tensorflow_ipu.costs.chip.sync import sync_cycles
from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.costs.label import worst
from tensorflow_ipu.planner.plan import Transfer
from tensorflow_ipu.planner.time import items
from tensorflow_ipu.planner.time.items import Item
from tensorflow_ipu.planner.time.transfers import LINK, Subject, Traffic, merged
from tensorflow_ipu.planner.workload import Copy, Workload

_OPTION = "maximum_inter_ipu_copies_buffer_size"


def add(subject: Subject, traffic: Traffic) -> None:
    """Adds the copies of a launch.

    Copies between the same two IPUs, from the same stage and phase, are merged up to the option's
    bytes; each gets its part of the cost. A copy keeps both its IPUs busy.

    Args:
        subject: the program and its settings.
        traffic: receives them.
    """
    workload, limit = subject.workload, subject.settings.merged_bytes.get(_OPTION, 0)
    if not workload.copies:
        return
    origins = _Origins(workload)
    groups: dict[tuple[object, ...], list[Copy]] = {}
    for copy in workload.copies:
        if copy.num_bytes and copy.runs:
            key = (copy.source, copy.destination, copy.stage, copy.phase, copy.runs)
            groups.setdefault(key, []).append(copy)
    for copies in groups.values():
        for group in merged(copies, limit):
            _add(subject, traffic, group, origins)


def _add(subject: Subject, traffic: Traffic, copies: Sequence[Copy], origins: _Origins) -> None:
    """Adds copies that are made as one."""
    chip = subject.settings.chip
    source, destination = copies[0].source, copies[0].destination
    total = sum(copy.num_bytes for copy in copies)
    links = links_between(source, destination, chip)
    cycles = link_cycles(total, chip, links) + sync_cycles(2, chip)
    for copy in copies:
        share = cycles * copy.num_bytes / total
        cost = Cost(exchange=share, label=worst((link_label(chip), copy.label)))
        maker, buffer = origins.of(copy)
        # The destination goes on with other things until it needs the data.
        user = origins.user(copy, maker, buffer)
        traffic.items.append(
            Item(
                copy.tensor,
                items.LINK,
                source,
                cost,
                copy.runs,
                maker if user is None else user,
                1 if user is None else -1,
                stage=copy.stage,
                phase=copy.phase,
                peer=destination,
                buffer=buffer,
            )
        )
        traffic.transfers.append(
            Transfer(copy.tensor, LINK, source, copy.num_bytes, copy.runs, share, False, cost.label)
        )


class _Origins:
    """Producers and buffers of the tensors that copies name."""

    def __init__(self, workload: Workload) -> None:
        self._ops: dict[tuple[str, int | None], int] = {}
        for index, op in enumerate(workload.ops):
            self._ops.setdefault((op.name, op.ipu), index)
        self._buffers = {
            (buffer.name, buffer.ipu): index for index, buffer in enumerate(workload.buffers)
        }
        self._workload = workload
        # The first op on each IPU that uses a buffer.
        self._users: dict[tuple[int | None, int | None], int] = {}
        for index, op in enumerate(workload.ops):
            for operand in op.inputs if op.end == index + 1 else ():
                self._users.setdefault((operand.buffer, op.ipu), index)

    def user(self, copy: Copy, maker: int, buffer: int | None) -> int | None:
        """Returns the op that a copy is made for, None if it is unknown.

        Args:
            copy: the copy.
            maker: the op that makes the tensor.
            buffer: the buffer of the tensor.
        """
        found = self._users.get((buffer, copy.destination), -1)
        return found if buffer is not None and found > maker else None

    def of(self, copy: Copy) -> tuple[int, int | None]:
        """Returns the producer of a copied tensor, -1 for none, and its buffer, None if unknown.

        Tensors are named by their op, `name:output`, in the function that they are in. A name that
        several ops on an IPU have stands for the first.
        """
        name, _, rest = copy.tensor.partition(":")
        maker = self._ops.get((name, copy.source), -1)
        if maker < 0:
            return -1, self._buffers.get((copy.tensor, copy.source))
        outputs = self._workload.ops[maker].outputs
        number = rest.rpartition(":")[2]
        position = int(number) if number.isdigit() else 0
        return maker, outputs[position].buffer if position < len(outputs) else None
