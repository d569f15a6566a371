"""Transfers of a launch, and the time that IPUs wait for them.

A transfer that overlaps with compute costs the IPU one run, which nothing hides: the first of a
prefetch, the last of a delayed send. The cycles of the other runs are in `Traffic.hidden`: a launch
cannot be shorter.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from tensorflow_ipu.costs.chip import collectives
from tensorflow_ipu.costs.chip.exchange import (
    host_cycles,
    host_label,
    link_cycles,
    link_label,
    links_between,
    network_cycles,
    streaming_cycles,
    streaming_label,
    sync_cycles,
)
from tensorflow_ipu.costs.cost import FREE, Cost
from tensorflow_ipu.costs.label import Label, worst
from tensorflow_ipu.planner.plan import Transfer
from tensorflow_ipu.planner.program.structure import is_container
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time.items import (
    COLLECTIVE,
    HOST,
    LINK,
    STREAMING,
    Item,
    labeled,
    op_item,
)
from tensorflow_ipu.planner.workload import (
    CONSTANT,
    INPUT,
    VARIABLE,
    Copy,
    Op,
    Operand,
    Variable,
    Workload,
)
from tensorflow_ipu.util import op_names

HOST_IN = "host in"


HOST_OUT = "host out"


STREAMING_IN = "streaming in"


STREAMING_OUT = "streaming out"


class Sized(Protocol):
    """An object with a size in bytes."""

    @property
    def num_bytes(self) -> int:
        """Size in bytes."""


_S = TypeVar("_S", bound=Sized)


def merged(things: Iterable[_S], limit: int) -> list[list[_S]]:
    """Returns runs of objects of at most `limit` bytes together, or one object.

    Args:
        things: things that may be merged, in order.
        limit: bytes.
    """
    found: list[list[_S]] = []
    total = 0
    for thing in things:
        total += thing.num_bytes
        if not found or total > limit:
            found.append([])
            total = thing.num_bytes
        found[-1].append(thing)
    return found


@dataclasses.dataclass(frozen=True)
class Subject:
    """The Workload and the Settings that transfers are made for.

    Attributes:
        workload: The program.
        settings: Chip, replicas and options.
    """

    workload: Workload
    settings: Settings

    @property
    def io_overlap(self) -> bool:
        """Whether I/O tiles move data while the others compute."""
        return self.settings.io_tiles > 0 and self.settings.place_ops_on_io_tiles

    def overlaps(self, op: Op) -> bool:
        """Returns whether an op's transfer goes through I/O tiles while the others compute.

        Args:
            op: the op.
        """
        on_io_tiles = op.attributes.get("tile_set") == "io" and self.settings.io_tiles > 0
        return on_io_tiles or self.io_overlap

    def saved(self, op: Op) -> float:
        """Returns the cycles that the transfer of an op saves by being merged with others.

        The transfers of an exchange wait once for the other side, each for its part of that time.

        Args:
            op: the op.
        """
        number = op.attributes.get("exchange")
        if number is None:
            return 0.0
        return sync_cycles(2, self.settings.chip) * (1 - 1 / len(self._exchanges[number]))

    @functools.cached_property
    def _exchanges(self) -> Mapping[int, set[str]]:
        """Returns the names of the transfer ops in each exchange of several."""
        found: dict[int, set[str]] = {}
        for _, op in self.live_ops():
            number = op.attributes.get("exchange")
            if number is not None and self._is_merged(op):
                found.setdefault(number, set()).add(op.name)
        return found

    def _is_merged(self, op: Op) -> bool:
        """Returns whether an op is a transfer that an exchange can merge with others."""
        return op.type in op_names.FEEDS or self.workload.moves_entry(op)

    def live_ops(self) -> Iterator[tuple[int, Op]]:
        """Returns the ops that run, with their indices."""
        return ((index, op) for index, op in enumerate(self.workload.ops) if op.runs)


@dataclasses.dataclass
class Traffic:
    """Transfers found so far.

    Attributes:
        items: Transfers that IPUs wait for.
        transfers: All transfers.
        hidden: Transfers beside the computation, by IPU and kind of transfer.
    """

    items: list[Item] = dataclasses.field(default_factory=list)
    transfers: list[Transfer] = dataclasses.field(default_factory=list)
    hidden: dict[tuple[int, str], Cost] = dataclasses.field(default_factory=dict)

    def add(self, item: Item, kind: str, num_bytes: int, overlapped: bool, last: int) -> None:
        """Adds a transfer.

        Args:
            item: the transfer, were it waited for.
            kind: kind of transfer.
            num_bytes: of one run.
            overlapped: whether it goes on while the IPU computes.
            last: position of the last op.
        """
        cost, runs = item.cost, item.runs
        self.transfers.append(
            Transfer(
                item.name, kind, item.ipu, num_bytes, runs, cost.cycles, overlapped, cost.label
            )
        )
        if not overlapped:
            self.items.append(item)
            return
        inward = kind in (HOST_IN, STREAMING_IN)
        self.hide(item.ipu, kind, cost.times(runs - 1))
        # Outside of any pipeline, as it comes once.
        exposed = item._replace(
            runs=1, position=-1 if inward else last, after=0, stage=None, phase=""
        )
        self.items.append(exposed)

    def hide(self, ipu: int, kind: str, cost: Cost) -> None:
        """Adds a transfer beside the computation of an IPU.

        Args:
            ipu: the IPU.
            kind: kind of transfer.
            cost: of all runs.
        """
        key = ipu, kind
        self.hidden[key] = self.hidden.get(key, FREE) + cost


def moved(cycles: float, label: Label) -> Cost:
    """Returns the cost of a transfer.

    Args:
        cycles: of one run.
        label: label of the cycles.
    """
    return Cost(exchange=cycles, label=label)


def size(operands: Iterable[Operand]) -> int:
    """Returns the bytes of some operands."""
    return sum(operand.type.num_bytes for operand in operands)


# --- Copies between the IPUs of a replica ---

_OPTION = "maximum_inter_ipu_copies_buffer_size"


def add_copies(subject: Subject, traffic: Traffic) -> None:
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
            _add_copy_group(subject, traffic, group, origins)


def _add_copy_group(
    subject: Subject, traffic: Traffic, copies: Sequence[Copy], origins: _Origins
) -> None:
    """Adds copies that are merged into one."""
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
                LINK,
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


# --- Transfers between IPUs and their host: feeds, arguments, tables, ops on the host ---


def add_host_transfers(subject: Subject, traffic: Traffic) -> None:
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
            _add_host_transfer(subject, traffic, index, op, HOST_IN, op.outputs, beside, ahead)
        elif op.type == op_names.OUTFEED:
            _add_host_transfer(
                subject, traffic, index, op, HOST_OUT, op.inputs, subject.overlaps(op)
            )
        elif op.type == op_names.TABLE_LOOKUP:
            _add_host_transfer(subject, traffic, index, op, HOST_OUT, op.inputs, False)
            _add_host_transfer(subject, traffic, index, op, HOST_IN, op.outputs, False)
        elif op.type == op_names.TABLE_UPDATE:
            _add_host_transfer(subject, traffic, index, op, HOST_OUT, op.inputs, False)
        elif (
            op.ipu is None and op.type not in op_names.SHAPE_QUERIES and not is_container(index, op)
        ):
            sent = _on_chip(workload, op.inputs)
            made = _on_chip(workload, op.outputs)
            _add_host_transfer(subject, traffic, index, op, HOST_OUT, sent, False)
            _add_host_transfer(subject, traffic, index, op, HOST_IN, made, False)


def _add_host_transfer(
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


# --- Collectives of replicas, and gathering of variables split over replicas ---


class _Member(NamedTuple):
    """A collective op with its position in the program and the bytes of its whole tensor."""

    position: int
    op: Op
    num_bytes: int


class _Group(NamedTuple):
    """Key of collectives that may be merged."""

    type: str
    dtype: str
    ipu: int
    stage: int | None
    phase: str
    runs: int
    replicas: int


def add_collectives(subject: Subject, traffic: Traffic) -> None:
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
            _add_collective(subject, traffic, run, collectives.FORMULAS[key.type], key.replicas)


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


def _add_collective(
    subject: Subject,
    traffic: Traffic,
    members: Sequence[_Member],
    formula: collectives.Formula,
    replicas: int,
) -> None:
    """Adds collectives that are merged into one."""
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
                COLLECTIVE,
                item.ipu,
                num_bytes,
                op.runs,
                item.cost.cycles,
                False,
                item.cost.label,
            )
        )


# --- Transfers of variables in streaming memory, or split over replicas ---

_UPDATE = "update"


class _Use:
    """The ops of one phase that use a variable: first, last, whether one writes, most runs."""

    def __init__(self, index: int) -> None:
        self.first = self.last = index
        self.writes = False
        self.runs = 0


def add_streaming_transfers(subject: Subject, traffic: Traffic) -> None:
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
            _add_streaming_transfer(subject, traffic, variables[index], phase, use)


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


def _add_streaming_transfer(
    subject: Subject, traffic: Traffic, variable: Variable, phase: str, use: _Use
) -> None:
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
        cost = gathered(subject, variable.num_bytes)
        gather = Item(
            variable.name, COLLECTIVE, variable.ipu, cost, runs, use.first, -1,
            stage=stage, phase=phase,
        )  # fmt: skip
        if cost.cycles:
            traffic.items.append(gather)
            traffic.transfers.append(
                Transfer(variable.name, COLLECTIVE, variable.ipu, variable.num_bytes,
                         runs, cost.cycles, False, cost.label)
            )  # fmt: skip
