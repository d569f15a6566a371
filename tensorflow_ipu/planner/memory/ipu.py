"""Memory plan of one IPU: categories, liveness over time, and the peak."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.memory import code_size, liveness, residents
from tensorflow_ipu.planner.memory.details import TEMPORARIES, MemoryDetails, Stretch
from tensorflow_ipu.planner.memory.lifetimes import Liveness
from tensorflow_ipu.planner.memory.liveness import Intervals, Order
from tensorflow_ipu.planner.memory.peak import Transients
from tensorflow_ipu.planner.memory.residents import STREAMED, Resident, ResidentLayout
from tensorflow_ipu.planner.plan import Category, IpuMemory, LiveBuffer
from tensorflow_ipu.planner.program import structure
from tensorflow_ipu.planner.program.accesses import INPUT_KIND
from tensorflow_ipu.planner.program.placement import Placement
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload

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


def details(program: MemoryInputs, ipu: int) -> MemoryDetails:
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
        self.code = code_size.parts(
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
