"""Collectives of replicas, and gathering of variables split over replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tensorflow_ipu import op_names
from tensorflow_ipu.costs.chip import collectives
from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.planner.plan import Transfer
from tensorflow_ipu.planner.time.items import COLLECTIVE, labeled, op_item
from tensorflow_ipu.planner.time.transfers import COLLECTIVE as COLLECTIVE_TRANSFER
from tensorflow_ipu.planner.time.transfers import Subject, Traffic, merged, size
from tensorflow_ipu.planner.workload import Op


class _Member(NamedTuple):
    """A collective op, where it is in the program, and the bytes of its whole tensor."""

    position: int
    op: Op
    num_bytes: int


class _Group(NamedTuple):
    """The properties that collectives share if they may be merged."""

    type: str
    dtype: str
    ipu: int
    stage: int | None
    phase: str
    runs: int
    replicas: int


def add(subject: Subject, traffic: Traffic) -> None:
    """Adds the collectives of a launch.

    Collectives of one type, element type, IPU, stage, phase and number of runs are merged in the
    order of the program, up to the option's bytes; each gets its part of the cost. Dependences
    between them are ignored: gradients have none.

    Args:
        subject: the program and its settings.
        traffic: receives them.
    """
    groups: dict[_Group, list[_Member]] = {}
    for index, op in subject.live_ops():
        if op.type not in op_names.LINK_COLLECTIVES or op.ipu is None:
            continue
        collective = op_names.COLLECTIVES[op.type]
        num_bytes = size(op.outputs if collective.of_result else op.inputs)
        replicas = int(op.attributes.get(collective.group) or 0) or subject.settings.replicas
        replicas = min(replicas, subject.settings.replicas)
        dtype = op.inputs[0].dtype if op.inputs else ""
        key = _Group(op.type, dtype, op.ipu, op.stage, op.phase, op.runs, replicas)
        groups.setdefault(key, []).append(_Member(index, op, num_bytes))
    for key, members in groups.items():
        option = op_names.COLLECTIVES[key.type].merged_up_to
        limit = subject.settings.merged_bytes.get(option, 0)
        for run in merged(members, limit):
            _add(subject, traffic, run, collectives.FORMULAS[key.type], key.replicas)


def gathered(subject: Subject, num_bytes: int) -> Cost:
    """Returns the cost of gathering a variable that is split over replicas.

    Args:
        subject: the program and settings.
        num_bytes: of the whole variable.
    """
    settings = subject.settings
    return collectives.all_gather(
        num_bytes, settings.replicas, subject.workload.ipus, settings.chip
    )


def _add(
    subject: Subject,
    traffic: Traffic,
    members: Sequence[_Member],
    formula: collectives.Formula,
    replicas: int,
) -> None:
    """Adds collectives that are done as one."""
    total = sum(member.num_bytes for member in members)
    cost = formula(total, replicas, subject.workload.ipus, subject.settings.chip)
    if not cost.cycles:
        return
    for position, op, num_bytes in members:
        part = num_bytes / total
        cycles = (cost.compute * part, cost.exchange * part, cost.sync * part)
        share = Cost(*cycles, label=cost.label)
        item = op_item(position, op, labeled(share, op.label), COLLECTIVE)
        traffic.items.append(item)
        traffic.transfers.append(
            Transfer(
                op.name,
                COLLECTIVE_TRANSFER,
                item.ipu,
                num_bytes,
                op.runs,
                item.cost.cycles,
                False,
                item.cost.label,
            )
        )
