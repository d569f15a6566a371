"""Memory plan of a replica's IPUs: categories, liveness over time, and the peak with its tile."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.memory import liveness, residents, tile_mapping
from tensorflow_ipu.planner.memory.details import TEMPORARIES, MemoryDetails, Stretch
from tensorflow_ipu.planner.memory.lifetimes import Lifetimes, Liveness, recomputes
from tensorflow_ipu.planner.memory.liveness import Intervals, Order
from tensorflow_ipu.planner.memory.residents import STREAMED, Resident, ResidentLayout
from tensorflow_ipu.planner.memory.tile_mapping import BLOCK, Interval
from tensorflow_ipu.planner.plan import Category, IpuMemory, LiveBuffer
from tensorflow_ipu.planner.program import structure
from tensorflow_ipu.planner.program.accesses import INPUT_KIND
from tensorflow_ipu.planner.program.placement import Placement
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload

# At how many ops the peaks of tiles are looked for. Few programs need that many: an op matters only
# while tile 0 has more there than the emptiest tile has at its peak so far.
_CANDIDATES = 96


@dataclasses.dataclass(frozen=True)
class Transients:
    """Transient memory of one IPU, by live range.

    Attributes:
        start: First position of each stretch, int64.
        stop: Last position.
        num_bytes: Bytes of each stretch, int64.
        category: Number of the category of each, int64.
        temporary: Bytes that the op at each position needs besides on a tile, int64.
        temporary_tiles: On how many tiles, from tile 0, int64.
        tiles: Tiles that compute.
    """

    start: np.ndarray
    stop: np.ndarray
    num_bytes: np.ndarray
    category: np.ndarray
    temporary: np.ndarray
    temporary_tiles: np.ndarray
    tiles: int

    def curve(self) -> np.ndarray:
        """Returns the bytes on all tiles at each position, int64."""
        return self._sum(self.num_bytes) + self.temporary * self.temporary_tiles

    def worst(self) -> np.ndarray:
        """Returns the bytes on tile 0, the fullest tile, at each position, int64."""
        return self._sum(tile_mapping.fullest(self.num_bytes, self.tiles)) + self.temporary

    def live(self, position: int) -> np.ndarray:
        """Returns the indices of the stretches that a position is in.

        Args:
            position: the position.
        """
        return np.flatnonzero((self.start <= position) & (position <= self.stop))

    def at(self, position: int, categories: int) -> np.ndarray:
        """Returns the bytes at a position by category and tile, int64; temporaries come last.

        Args:
            position: the position.
            categories: number of categories besides temporaries.
        """
        live = self.live(position)
        found = np.zeros((categories + 1, self.tiles), np.int64)
        for category in np.unique(self.category[live]).tolist():
            sizes = self.num_bytes[live[self.category[live] == category]]
            found[category] = _on_tiles(sizes, self.tiles)
        found[categories, : self.temporary_tiles[position]] = self.temporary[position]
        return found

    def peaks(self, worst: np.ndarray, points: np.ndarray, categories: int) -> np.ndarray:
        """Returns the bytes by category and tile at each tile's own peak.

        Exact for tile 0. For other tiles, the positions with most bytes on tile 0 are examined.

        Args:
            worst: the result of `worst`.
            points: positions of the IPU's ops.
            categories: number of categories besides temporaries.
        """
        if not len(points):
            return np.zeros((categories + 1, self.tiles), np.int64)
        # Ops with the same bytes on tile 0 and on all tiles have, as a rule, the same live tensors.
        amounts = np.stack([-worst[points], -self.curve()[points]], axis=1)
        _, distinct = np.unique(amounts, axis=0, return_index=True)
        candidates = points[distinct[:_CANDIDATES]].tolist()
        best = self.at(candidates[0], categories)
        total = best.sum(axis=0)
        for position in candidates[1:]:
            if worst[position] <= total.min():
                break
            other = self.at(position, categories)
            more = other.sum(axis=0) > total
            best[:, more] = other[:, more]
            total = best.sum(axis=0)
        return best

    def _sum(self, amounts: np.ndarray) -> np.ndarray:
        change = np.zeros(len(self.temporary) + 1, np.int64)
        np.add.at(change, self.start, amounts)
        np.subtract.at(change, self.stop + 1, amounts)
        found: np.ndarray = np.cumsum(change[:-1])
        return found


def _on_tiles(sizes: np.ndarray, tiles: int) -> np.ndarray:
    """Returns the bytes of several evenly spread buffers on each tile."""
    blocks = -(-sizes // BLOCK)
    rounds, first = np.divmod(blocks, tiles)
    ends = np.bincount(first, minlength=tiles + 1)[: tiles + 1]
    # A tile has one more block of each buffer whose remainder reaches beyond it.
    more = len(sizes) - np.cumsum(ends)[:tiles]
    some = blocks > 0
    last = np.minimum(blocks, tiles)[some] - 1
    missing = np.bincount(last, weights=(blocks * BLOCK - sizes)[some], minlength=tiles)
    found: np.ndarray = (rounds.sum() + more) * BLOCK - missing.astype(np.int64)
    return found


# --- One IPU ---

ACTIVATIONS = "activations"
INPUTS = "inputs"
_TRANSIENT = (ACTIVATIONS, INPUTS, STREAMED)


@dataclasses.dataclass(frozen=True)
class MemoryInputs:
    """The inputs of the memory plan: workload, settings, order, costs and liveness.

    Attributes:
        workload: The program.
        settings: Chip, replicas and options.
        placement: IPUs of ops, buffers and variables.
        order: Order of the ops.
        costs: Cost of each op.
        temporary: `Cost.temporary` of each op, int64.
        temporary_tiles: Number of tiles with the temporary memory of each op, int64.
        choices: Live ranges without recomputation, and with it if the program may recompute. They
            have the same instances.
    """

    workload: Workload
    settings: Settings
    placement: Placement
    order: Order
    costs: Sequence[Cost]
    temporary: np.ndarray
    temporary_tiles: np.ndarray
    choices: Sequence[Liveness]


def planned(program: MemoryInputs, ipu: int) -> IpuMemory:
    """Returns the memory of one IPU.

    Args:
        program: the inputs of the plan.
        ipu: the IPU.
    """
    return _best(program, ipu).memory()


def details_of_ipu(program: MemoryInputs, ipu: int) -> MemoryDetails:
    """Returns the tensors of one IPU with their tiles and live ranges.

    Args:
        program: the inputs of the plan.
        ipu: the IPU.
    """
    return _best(program, ipu).details()


def _best(program: MemoryInputs, ipu: int) -> _Ipu:
    """Returns the choice with the fewest bytes on the fullest tile.

    Choices are recomputation, in one way or another, and loading variables into reserved or into
    free memory.
    """
    work = _Work(program, ipu)
    found = [
        _Ipu(work, choice, reserved)
        for choice in reversed(program.choices)
        for reserved in work.reservations
    ]
    return min(found, key=lambda choice: choice.worst_bytes)


class _Work:
    """Parts of an IPU's memory plan that are equal for all choices."""

    def __init__(self, program: MemoryInputs, ipu: int) -> None:
        self.program, self.ipu = program, ipu
        workload, placement = program.workload, program.placement
        self.loaded = np.zeros(len(workload.buffers), np.int64)
        for index, buffer in enumerate(workload.buffers):
            if buffer.variable is not None:
                self.loaded[index] = residents.loaded(workload.variables[buffer.variable])
        accesses = program.choices[0].accesses
        self.loads = liveness.streamed(accesses, program.order, ipu, self.loaded)
        self.streams = list(residents.streams(workload, placement, ipu, program.settings.prefetch))
        here = np.flatnonzero(placement.ops == ipu)
        repeated = structure.repeated(workload.ops)
        self.code = residents.code_parts(
            [(workload.ops[i], program.costs[i]) for i in here.tolist() if i not in repeated],
            program.settings.chip,
            program.settings.outlining,
        )
        self.points = np.sort(program.order.position[here])

        self._variables = {reserved: self._residents(reserved) for reserved in self.reservations}

    @property
    def reservations(self) -> tuple[bool, ...]:
        """Whether loaded variables have memory reserved: the alternatives."""
        return (False, True) if len(self.loads) else (False,)

    def layout(self, choice: Liveness, reserved: bool) -> ResidentLayout:
        """Lays out the residents of a choice on tiles."""
        program, variables = self.program, self._variables[reserved]
        if not program.settings.offload_activations:
            stashes = residents.stashes(choice.accesses, choice.stashes, self.ipu, choice.recompute)
            variables = [*variables, *stashes]
        return ResidentLayout(variables, self.streams, self.code, program.settings)

    def _residents(self, reserved: bool) -> list[Resident]:
        """Returns variables and constants, with memory reserved for loaded parts."""
        workload, placement = self.program.workload, self.program.placement
        free = residents.largest_load(self.loads, self.loaded) if reserved else {}
        return list(residents.variables(workload, placement, self.ipu, free))


class _Ipu:
    """One way to use the memory of an IPU.

    Args:
        work: the parts that do not depend on the choice.
        choice: live ranges of the choice.
        reserved: whether memory for loaded variables is reserved.
    """

    def __init__(self, work: _Work, choice: Liveness, reserved: bool) -> None:
        program = work.program
        self._work, self._program, self._accesses = work, program, choice.accesses
        self._tiles = program.settings.compute_tiles
        self._layout = work.layout(choice, reserved)
        self._loads = work.loads[:0] if reserved else work.loads
        self._transients = self._transient(choice.intervals)
        self._worst = self._transients.worst()
        points = work.points
        self._peak = int(points[self._worst[points].argmax()]) if len(points) else None

    @property
    def worst_bytes(self) -> int:
        """Bytes on the fullest tile: tile 0, or an I/O tile, which has residents only."""
        most = 0 if self._peak is None else int(self._worst[self._peak])
        return max(int(self._layout.tiles[0]) + most, int(self._layout.tiles.max()))

    def memory(self) -> IpuMemory:
        """Returns the memory in full."""
        program, points = self._program, self._work.points
        peaks = self._transients.peaks(self._worst, points, len(_TRANSIENT))
        categories = (*self._layout.categories(), *self._transient_categories(peaks))
        peak = np.sum([c.tiles for c in categories], axis=0, dtype=np.int64)
        return IpuMemory(
            ipu=self._work.ipu,
            capacity=program.settings.chip.memory_per_tile,
            categories=categories,
            peak=peak,
            live_ops=program.order.ops[points],
            live_bytes=self._transients.curve()[points],
            live_worst=self._worst[points],
            peak_op=None if self._peak is None else int(program.order.ops[self._peak]),
            at_peak=tuple(sorted(self._at_peak(), key=lambda b: -b.num_bytes)),
        )

    def details(self) -> MemoryDetails:
        """Returns the memory tensor by tensor."""
        program, points, transients = self._program, self._work.points, self._transients
        # Positions count all IPUs' ops; a tensor between two ops of this one is seen by neither.
        births = np.searchsorted(points, transients.start, "left")
        deaths = np.searchsorted(points, transients.stop, "right") - 1
        buffers = np.concatenate(
            [self._accesses.instance_buffer[self._instance], self._loads[:, 1]]
        )
        columns = (buffers, transients.category, transients.num_bytes, births, deaths)
        stretches = [
            Stretch(buffer, _TRANSIENT[category], size, birth, death)
            for buffer, category, size, birth, death in zip(*(c.tolist() for c in columns))
            if birth <= death and size
        ]
        return MemoryDetails(
            self._work.ipu,
            tuple(self._layout.placed()),
            program.order.ops[points],
            tuple(stretches),
            transients.temporary[points],
            transients.temporary_tiles[points],
            self._tiles,
            program.settings.chip.tiles,
        )

    def _transient(self, found: Intervals) -> Transients:
        """Returns the transient buffers of the IPU, with loads and temporaries."""
        program, work, loads = self._program, self._work, self._loads
        accesses = self._accesses
        here = accesses.instance_ipu[found.instance] == work.ipu
        self._instance = found.instance[here]
        kinds = accesses.kind[self._instance] == INPUT_KIND
        temporary, on_tiles = np.zeros((2, len(program.order.ops)), np.int64)
        temporary[work.points] = program.temporary[program.order.ops[work.points]]
        on_tiles[work.points] = program.temporary_tiles[program.order.ops[work.points]]
        return Transients(
            np.concatenate([found.start[here], loads[:, 0]]),
            np.concatenate([found.stop[here], loads[:, 0]]),
            np.concatenate([accesses.num_bytes[self._instance], work.loaded[loads[:, 1]]]),
            np.concatenate([kinds.astype(np.int64), np.full(len(loads), 2)]),
            temporary,
            on_tiles,
            self._tiles,
        )

    def _transient_categories(self, peaks: np.ndarray) -> list[Category]:
        """Returns the categories of transient memory that have any bytes."""
        found = []
        for name, tiles in zip((*_TRANSIENT, TEMPORARIES), peaks):
            if tiles.any():
                padded = np.pad(tiles, (0, self._program.settings.io_tiles))
                found.append(Category(name, False, padded, Label.MODELLED))
        return found

    def _at_peak(self) -> list[LiveBuffer]:
        """Returns the buffers that are live at the peak of tile 0, largest first."""
        workload, tiles = self._program.workload, self._program.settings.chip.tiles
        found = []
        for resident in self._layout.residents:
            parts = resident.parts or ((resident.buffer, resident.num_bytes),)
            for buffer, size in parts:
                name = resident.name
                if resident.parts and buffer is not None:
                    name = f"{workload.buffers[buffer].name}, {resident.name}"
                source = resident.source or self._source(buffer)
                found.append(LiveBuffer(buffer, name, resident.category, size, source))
        for part in self._work.code:
            found.append(LiveBuffer(None, part.name, part.name, part.num_bytes * tiles, ""))
        if self._peak is not None:
            found += self._live(self._peak)
        return [buffer for buffer in found if buffer.num_bytes]

    def _live(self, position: int) -> list[LiveBuffer]:
        """Returns the transient buffers and the temporaries that are live at one position."""
        workload, transients = self._program.workload, self._transients
        found = []
        buffer_of = self._accesses.instance_buffer
        for index in transients.live(position).tolist():
            if index < len(self._instance):
                buffer = int(buffer_of[self._instance[index]])
            else:
                buffer = int(self._loads[index - len(self._instance), 1])
            category = _TRANSIENT[int(transients.category[index])]
            name, size = workload.buffers[buffer].name, int(transients.num_bytes[index])
            found.append(LiveBuffer(buffer, name, category, size, self._source(buffer)))
        op = workload.ops[int(self._program.order.ops[position])]
        size = int(transients.temporary[position] * transients.temporary_tiles[position])
        found.append(LiveBuffer(None, f"temporaries of {op.name}", TEMPORARIES, size, op.source))
        return found

    def _source(self, buffer: int | None) -> str:
        """Returns the user's line of the op that made a buffer, or used it first."""
        if buffer is None:
            return ""
        maker = int(self._accesses.maker[buffer])
        if maker < 0:
            maker = self._accesses.first_user(buffer)
        return self._program.workload.ops[maker].source if maker >= 0 else ""


# --- All IPUs of a replica ---


def plan(lifetimes: Lifetimes, settings: Settings, costs: Sequence[Cost]) -> tuple[IpuMemory, ...]:
    """Plans the memory of each IPU of a replica.

    The order of the ops does not depend on the number of tiles, nor on offloading, splitting or
    recomputation. So each of these lowers the fullest tile or leaves it.

    Args:
        lifetimes: the program with its live ranges.
        settings: chip, replicas and options.
        costs: cost of each op with these settings.

    Returns:
        The memory of each IPU, also of those without ops.
    """
    program = _program(lifetimes, settings, costs)
    return tuple(planned(program, ipu) for ipu in range(program.placement.ipus))


def details(
    lifetimes: Lifetimes, settings: Settings, costs: Sequence[Cost]
) -> tuple[MemoryDetails, ...]:
    """Returns the memory of each IPU of a replica tensor by tensor.

    Args:
        lifetimes: the program with its live ranges.
        settings: chip, replicas and options.
        costs: cost of each op with these settings.
    """
    program = _program(lifetimes, settings, costs)
    return tuple(details_of_ipu(program, ipu) for ipu in range(program.placement.ipus))


def mappings(
    lifetimes: Lifetimes, settings: Settings, costs: Sequence[Cost]
) -> tuple[Mapping[int, tuple[Interval, ...]], ...]:
    """Returns the tile mapping of each buffer.

    Args:
        lifetimes: the program with its live ranges.
        settings: chip, replicas and options.
        costs: cost of each op with these settings.

    Returns:
        For each IPU of a replica, by index of the buffer, its tiles with their number of elements.
        For a stash of several mini-batches, the mapping of one.
    """
    buffers = lifetimes.placed.workload.buffers
    return tuple(each.mapping(buffers) for each in details(lifetimes, settings, costs))


def _program(lifetimes: Lifetimes, settings: Settings, costs: Sequence[Cost]) -> MemoryInputs:
    """Returns the inputs of the memory plan."""
    placed = lifetimes.placed
    return MemoryInputs(
        placed.workload,
        settings,
        placed.placement,
        lifetimes.order,
        costs,
        np.fromiter((cost.temporary for cost in costs), np.int64, len(costs)),
        _temporary_tiles(placed.workload, settings, costs),
        lifetimes.choices(recomputes(placed.workload, settings)),
    )


def _temporary_tiles(workload: Workload, settings: Settings, costs: Sequence[Cost]) -> np.ndarray:
    """Returns the number of tiles with each op's temporary memory, int64.

    Those among which it is divided, where that was chosen; else those that have a block of the
    largest tensor that it takes or makes.
    """
    found = np.zeros(len(costs), np.int64)
    for index, (op, cost) in enumerate(zip(workload.ops, costs)):
        if not cost.temporary:
            continue
        if cost.partition is not None:
            number = cost.partition.tiles
        else:
            largest = max((o.type.num_bytes for o in (*op.inputs, *op.outputs)), default=0)
            number = -(-largest // BLOCK)
        found[index] = min(max(number, 1), settings.compute_tiles)
    return found
