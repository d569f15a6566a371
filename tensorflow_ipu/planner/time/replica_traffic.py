"""What replicas do together: collectives, and the gathering of variables split over replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tensorflow_ipu.costs.chip import collectives
from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.planner.plan import Transfer
from tensorflow_ipu.planner.time.items import COLLECTIVE, labelled, op_item
from tensorflow_ipu.planner.time.transfers import COLLECTIVE as COLLECTIVE_TRANSFER
from tensorflow_ipu.planner.time.transfers import Subject, Traffic, merged, size
from tensorflow_ipu.planner.workload import Op

_Formula = Callable[[int, int, int, collectives.Chip], Cost]


class _Rule(NamedTuple):
    """How a collective is counted.

    Args:
        formula: its cost.
        of_result: whether the whole tensor is its result, not what it takes.
        group: attribute with the number of replicas that do it together.
        option: name of the option that says how many bytes are merged into one.
    """

    formula: _Formula
    of_result: bool = False
    group: str = "replication_factor"
    option: str = ""


_RULES = {
    "IpuCrossReplicaSum": _Rule(
        collectives.all_reduce, False, "replica_group_size", "maximum_cross_replica_sum_buffer_size"
    ),
    "IpuReduceScatter": _Rule(
        collectives.reduce_scatter, option="maximum_reduce_scatter_buffer_size"
    ),
    "IpuAllGather": _Rule(collectives.all_gather, True, option="maximum_all_gather_buffer_size"),
    "IpuAllToAll": _Rule(collectives.all_to_all),
    "IpuReplicaBroadcast": _Rule(collectives.broadcast),
}
TYPES = frozenset(_RULES)


class _Member(NamedTuple):
    """A collective op, where it is in the program, and the bytes of its whole tensor."""

    position: int
    op: Op
    num_bytes: int


class _Group(NamedTuple):
    """What collectives that may be merged have in common."""

    type: str
    dtype: str
    ipu: int
    stage: int | None
    phase: str
    runs: int
    replicas: int


def add(subject: Subject, traffic: Traffic) -> None:
    """Adds the collectives of a launch.

    Those of one type, element type, IPU, stage, phase and number of runs are merged in the order of
    the program, up to as many bytes as the option says; each gets its part of the cost. Whether one
    needs the result of another is not looked at: gradients do not.

    Args:
        subject: what the transfers are for.
        traffic: receives them.
    """
    groups: dict[_Group, list[_Member]] = {}
    for index, op in subject.live_ops():
        rule = _RULES.get(op.type)
        if rule is None or op.ipu is None:
            continue
        num_bytes = size(op.outputs if rule.of_result else op.inputs)
        replicas = int(op.attributes.get(rule.group) or 0) or subject.settings.replicas
        replicas = min(replicas, subject.settings.replicas)
        dtype = op.inputs[0].dtype if op.inputs else ""
        key = _Group(op.type, dtype, op.ipu, op.stage, op.phase, op.runs, replicas)
        groups.setdefault(key, []).append(_Member(index, op, num_bytes))
    for key, members in groups.items():
        rule = _RULES[key.type]
        limit = subject.settings.merged_bytes.get(rule.option, 0)
        for run in merged(members, limit):
            _add(subject, traffic, run, rule.formula, key.replicas)


def gathered(subject: Subject, num_bytes: int) -> Cost:
    """Returns the cost of gathering a variable that is split over replicas.

    Args:
        subject: what it is for.
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
    formula: _Formula,
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
        item = op_item(position, op, labelled(share, op.label), COLLECTIVE)
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
