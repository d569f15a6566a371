"""Transfers of a launch, and the time that IPUs wait for them.

A transfer that overlaps with compute costs the IPU one run, which nothing hides: the first of a
prefetch, the last of a delayed send. The cycles of the other runs are in `Traffic.hidden`: a launch
cannot be shorter.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from tensorflow_ipu import op_names
from tensorflow_ipu.costs.chip.sync import sync_cycles
from tensorflow_ipu.costs.cost import FREE, Cost
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.plan import Transfer
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time.items import Item
from tensorflow_ipu.planner.workload import Op, Operand, Workload

HOST_IN = "host in"
HOST_OUT = "host out"
STREAMING_IN = "streaming in"
STREAMING_OUT = "streaming out"
LINK = "link"
COLLECTIVE = "collective"


class Sized(Protocol):
    """An object with a size in bytes."""

    @property
    def num_bytes(self) -> int:
        """Size in bytes."""


_S = TypeVar("_S", bound=Sized)


def merged(things: Iterable[_S], limit: int) -> list[list[_S]]:
    """Returns runs of things that have at most `limit` bytes together, or one thing.

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
