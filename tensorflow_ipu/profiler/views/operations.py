"""Operations of a launch: cycles, work, bounds and partition of each op and transfer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs import catalogue, intervals
from tensorflow_ipu.costs.cost import Cost, OpSpec, Partition, Resources, TensorType
from tensorflow_ipu.costs.label import worst
from tensorflow_ipu.costs.rules import data_movement, slicing
from tensorflow_ipu.costs.rules.elementwise import computed_type, vector_width
from tensorflow_ipu.planner.details import Details, group, groups_of_buffers
from tensorflow_ipu.planner.memory import tile_mapping
from tensorflow_ipu.planner.plan import OpTime, Plan, Segment
from tensorflow_ipu.planner.program.resources import SLICE, ResourceTable, family
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.planner.time.items import COLLECTIVE, HOST, LINK, STREAMING, Item
from tensorflow_ipu.planner.time.transfers import HOST_IN, HOST_OUT, STREAMING_IN, STREAMING_OUT
from tensorflow_ipu.planner.workload import Op
from tensorflow_ipu.profiler.breakdown import NO_LAYER, layers_of_variables
from tensorflow_ipu.util import op_names

# --- Bytes, peak rates and fixed costs ---

# The dimension of a partition that only products in the matrix unit have.
_MATRIX_DIMENSION = "outputs"

# Ops that move data. An update of rows adds to each element that it moves.
_MOVES = frozenset({*data_movement.RULES, *slicing.RULES})

# Updates of optimizers that change rows.
_SPARSE_UPDATES = "ResourceSparseApply"


class OpWork(NamedTuple):
    """The least work of one run of an op, and its cost.

    Args:
        flops: floating-point operations, 0 without a formula.
        read: bytes of operands to read.
        written: bytes to write.
        tiles: tiles that have a part of it.
        matrix: whether it is a product that the matrix units compute.
        moves: whether it moves data, with little or no arithmetic.
        peak: floating-point operations of one tile per cycle at most, for its types and units.
        matrix_peak: the same for its matrix unit.
        fixed: cycles of compute that it takes on single elements: starting vertices.
        cost: its cost.
    """

    flops: int
    read: int
    written: int
    tiles: int
    matrix: bool
    moves: bool
    peak: float
    matrix_peak: float
    fixed: float
    cost: Cost


class WorkTable:
    """Least work of ops.

    Args:
        settings: chip, replicas and options.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._resources = ResourceTable(settings)
        self._fixed: dict[tuple[object, ...], float] = {}

    def of(
        self, op: Op, cost: Cost, partition: Partition | None, before: Sequence[Op] = ()
    ) -> OpWork:
        """Returns the work of one run of an op on the IPU.

        Args:
            op: the op.
            cost: its cost.
            partition: its division over the tiles, if there is a choice.
            before: other ops of its fused group.
        """
        spec, chip = _map_spec((*before, op)) if before else op.spec, self._settings.chip
        matrix = partition is not None and _MATRIX_DIMENSION in dict(partition.parts)
        whole = computed_type(spec)
        tiles = partition.tiles if partition else _tiles(spec, self._settings.compute_tiles)
        partials = self._resources.of(op).partials
        matrix_peak = throughput.peak_flops(op, partials, chip) / chip.clock / chip.tiles
        peak = matrix_peak if matrix else float(vector_width(whole.dtype, chip))
        read, written = _bytes(spec)
        fixed = min(max(map(self._fixed_cycles, (op, *before))), cost.compute)
        flops = sum(each.flops or 0 for each in (op, *before))
        moves = op.type in _MOVES
        return OpWork(flops, read, written, tiles, matrix, moves, peak, matrix_peak, fixed, cost)

    def _fixed_cycles(self, op: Op) -> float:
        """Returns the compute cycles of an equal op on operands with one element each."""
        spec = op.spec
        key = (op.type, op.stage, op.phase, *((t.dtype, len(t.shape)) for t in spec.inputs))
        if key not in self._fixed:
            single = spec._replace(
                inputs=tuple(map(_single, spec.inputs)), outputs=tuple(map(_single, spec.outputs))
            )
            resources: Resources = self._resources.of(op)
            self._fixed[key] = catalogue.cost_of(single, resources).compute
        return self._fixed[key]


def _map_spec(ops: Sequence[Op]) -> OpSpec:
    """Returns a fused group as one op: external operands in, the last op's results out."""
    made = {operand.buffer for op in ops[:-1] for operand in op.outputs}
    inputs = dict.fromkeys(
        operand
        for op in ops
        for operand in op.inputs
        if operand.buffer is None or operand.buffer not in made
    )
    last = ops[-1]
    types = tuple(operand.type for operand in inputs)
    made_last = last.spec.outputs or last.spec.inputs[:1]  # an assignment makes its variable
    return OpSpec(last.type, types, made_last, last.attributes)


def _single(tensor: TensorType) -> TensorType:
    """Returns a tensor of the same rank with one element."""
    return TensorType(tensor.dtype, (1,) * len(tensor.shape))


def _tiles(spec: OpSpec, tiles: int) -> int:
    """Returns the number of tiles with a part of the largest tensor, spread in blocks."""
    most = max((tensor.num_bytes for tensor in (*spec.inputs, *spec.outputs)), default=0)
    return max(tile_mapping.spread(most, tiles).last + 1, 1)


def _bytes(spec: OpSpec) -> tuple[int, int]:
    """Returns the bytes that an op has to read and to write.

    An op on slices of a tensor reads and writes the bytes of the slices. These are the bytes of its
    result or, of an update, of its largest operand after the first.
    """
    read = [tensor.num_bytes for tensor in spec.inputs]
    written = [tensor.num_bytes for tensor in spec.outputs]
    updates = spec.type.startswith(_SPARSE_UPDATES)
    if (family(spec.type) == SLICE or updates) and read:
        scattered = updates or any(part in spec.type for part in ("Scatter", "Update", "Assign"))
        if updates:
            # Gradient and indices come last; the other operands are as large as the variable.
            most = max((size for size in read if size < read[0]), default=read[0])
        else:
            most = max(read[1:], default=0) if scattered or not written else max(written)
        read = [min(size, most) for size in read]
        written = [min(size, most) for size in written] or [most]
    if not written and read:
        written = read[:1]  # a variable, in its place
    return sum(read), sum(written)


# --- Bounds and shares of the roofline ---

AMP = "AMP"
VECTOR = "vector"
LOAD_STORE = "load/store"
EXCHANGE = "exchange"
SYNC = "sync"

#: The possible bounds of an op or transfer, with their meanings.
BOUNDS: Mapping[str, str] = {
    AMP: "multiply-adds of the matrix units",
    VECTOR: "arithmetic of the vector units",
    LOAD_STORE: "reads and writes of the tiles' own memory",
    EXCHANGE: "data that tiles receive from each other",
    SYNC: "synchronization of the tiles and starts of vertices, which take as long on one element",
    HOST: "the link to the host",
    STREAMING: "streaming memory",
    LINK: "the links between IPUs",
}

_OF_TRANSFERS = {HOST: HOST, STREAMING: STREAMING, LINK: LINK, COLLECTIVE: LINK}

# Bytes that a load or store of a vertex moves: 64 bits, one of them per instruction. Compiled
# vertices reach 3.7 B per cycle and tile in STREAM on GC2 (Louw and McIntosh-Smith, 2021).
_ACCESS_BYTES = 8


class Roofline(NamedTuple):
    """An op's attained share of the chip's peak, with its arithmetic intensity.

    Args:
        intensity: floating-point operations per byte of operands and results; None without any.
        attainable: operations per second of one IPU at the roof; None without operations.
        share: cycles at the roof / cycles taken, 0 to 1.
    """

    intensity: float | None
    attainable: float | None
    share: float


def of_op(work: OpWork, chip: Chip) -> str:
    """Returns the bound of an op on the tiles: the largest part of its cycles.

    The parts are exchange, fixed costs (sync, and compute on single elements) and the rest of its
    compute. If the rest is largest, a product is bound by the matrix units, unless its operands
    take longer to load than its multiply-adds. Ops that move data are bound by loads and stores. So
    are other vertices if loads and stores, of 64 bits each, are half of their cycles or more; else
    they are bound by vector arithmetic.

    Args:
        work: least work and cost of the op.
        chip: the chip.

    Returns:
        One of the names of `BOUNDS`.
    """
    cost = work.cost
    computed = cost.compute - work.fixed
    parts = {"": computed, EXCHANGE: cost.exchange, SYNC: cost.sync + work.fixed}
    longest = max(parts, key=lambda name: parts[name])
    if longest:
        return longest
    if work.matrix:
        return AMP if work.flops / work.peak >= work.read / chip.load_rate else LOAD_STORE
    accesses = (work.read + work.written) / _ACCESS_BYTES / max(work.tiles, 1)
    return LOAD_STORE if work.moves or 2 * accesses >= computed else VECTOR


def of_transfer(kind: str) -> str:
    """Returns the bound of a transfer.

    Args:
        kind: kind of its segments: `host`, `streaming`, `link` or `collective`.
    """
    return _OF_TRANSFERS[kind]


def roofline(work: OpWork, chip: Chip) -> Roofline:
    """Returns the share of the roofline that an op attains.

    Cycles at the roof are the most of: operations / peak rate of all tiles (of the matrix units for
    products, else one operation per lane and cycle of the vector units); bytes read / load rate of
    all tiles; bytes written / store rate; and, for ops that only move data between tiles, bytes
    written / exchange rate. Attainable rate = operations / that time. Source: Williams, Waterman
    and Patterson, "Roofline" (2009), with the rates of `configs/chips.py`.

    Args:
        work: least work and cost of the op.
        chip: the chip.
    """
    moves = work.moves and work.cost.exchange > 0
    cycles = max(
        work.flops / work.peak,
        work.read / chip.load_rate,
        work.written / chip.store_rate,
        work.written / chip.exchange_rate if moves else 0.0,
    )
    cycles /= chip.tiles
    moved = work.read + work.written
    return Roofline(
        work.flops / moved if moved and work.flops else None,
        work.flops / cycles * chip.clock if work.flops else None,
        min(cycles / work.cost.cycles, 1.0) if work.cost.cycles else 0.0,
    )


def transfer_share(kind: str, num_bytes: float, cycles: float, chip: Chip) -> float:
    """Returns the share of the bandwidth that a transfer attains.

    Bytes / bandwidth / time, with the bandwidth of the host, of streaming memory, of the links to
    the other IPU of a pair or, for collectives, of all links of an IPU.

    Args:
        kind: kind of its segments.
        num_bytes: that one IPU sends or receives in one run.
        cycles: of one run.
        chip: the chip.
    """
    bandwidth = {
        HOST: chip.host_bandwidth,
        STREAMING: chip.streaming_bandwidth,
        LINK: chip.pair_links * chip.link_bandwidth,
        COLLECTIVE: chip.link_bandwidth_total,
    }[kind]
    return min(num_bytes / bandwidth * chip.clock / cycles, 1.0) if cycles else 0.0


def collective_bytes(op_type: str, num_bytes: int, replicas: int) -> float:
    """Returns the least number of bytes that each replica of a collective sends.

    Of n replicas each sends (n - 1) / n of the tensor to others; for a sum that all get, twice:
    parts of the sums, then the sums. Source: any text on ring all-reduce.

    Args:
        op_type: type of the op; empty for the gathering of a variable.
        num_bytes: of the whole tensor.
        replicas: that do it together.
    """
    times = 2 if op_type == op_names.CROSS_REPLICA_SUM else 1
    return times * num_bytes * (replicas - 1) / max(replicas, 1)


# --- One operation ---

FORWARD = "forward"


class Operation(NamedTuple):
    """An op or a transfer with its cycles in a launch of a replica.

    Args:
        name: of the op; for a transfer that no op makes, of the transferred tensor.
        type: op type of TensorFlow; of a transfer that no op makes `host in`, `host out`,
            `streaming in`, `streaming out`, `link` or `collective`.
        layer: the layer it is in, or its stand-in, as in `LayerRow`.
        ipu: the IPU it runs on.
        phase: `forward`, `backward` or `update`.
        runs: executions.
        cycles: of all runs: compute, exchange, sync and transfer.
        compute: part of it that tiles compute.
        exchange: part of it that tiles exchange data.
        sync: part of it that tiles wait for each other.
        transfer: part of it that data come or go: from and to host, streaming memory, other IPUs.
        share: part of the cycles of all operations, 0 to 1.
        bound: its bound, one of `bounds.BOUNDS`: `AMP`, `vector`, `load/store`, `exchange`, `sync`,
            `host`, `streaming`, `link`.
        roofline: cycles at the roof / cycles taken, 0 to 1: see `bounds.roofline` and, for
            transfers, `bounds.transfer_share`; None for a wait.
        partition: its division over the tiles, as `positions 46, outputs 32; partials
            float32`; empty if there is no choice.
        tiles: tiles that have a part of it.
        temporary: bytes of its temporaries on the fullest tile.
        vertex_state: bytes of vertex descriptions per tile.
        exchange_code: bytes of exchange code per tile.
        flops: of all runs, None without a formula.
        rate: operations a second while it runs.
        peak_share: `rate` / peak of the IPU's matrix units for its types.
        intensity: operations per byte of operands and results.
        attainable: operations a second at the roof.
        num_bytes: of one run of a transfer; None for computation.
        peer: IPU that a copy between IPUs goes to, and keeps as busy as the first; else None.
        op: index into `Workload.ops`, None for a transfer that no op makes.
        fused: indices of the other ops of its fused group; its numbers are the group's.
        place: its place in the program: index of an op, -1 at the start, and -1 before the op, 0 at
            it or 1 after it.
        stage: pipeline stage, None outside of pipelines.
        source: line of the user's program.
        label: label of the cycles.
    """

    name: str
    type: str
    layer: str
    ipu: int
    phase: str
    runs: int
    cycles: float
    compute: float
    exchange: float
    sync: float
    transfer: float
    share: float
    bound: str
    roofline: float | None
    partition: str
    tiles: int
    temporary: int
    vertex_state: int
    exchange_code: int
    flops: int | None
    rate: float | None
    peak_share: float | None
    intensity: float | None
    attainable: float | None
    num_bytes: int | None
    peer: int | None
    op: int | None
    fused: tuple[int, ...]
    place: tuple[int, int]
    stage: int | None
    source: str
    label: str

    @property
    def range(self) -> tuple[float, float]:
        """Cycles between which eight of ten measurements of its kind lie: see `costs.intervals`."""
        return intervals.of_op(self.type).of_time(self.cycles)


def kind_of(op: Op) -> str:
    """Returns the kind of the segments of an op; empty for an op that computes on the tiles.

    Args:
        op: the op.
    """
    if op.ipu is None or op.type in op_names.FEEDS or op.type in op_names.TABLE_OPS:
        return HOST
    return COLLECTIVE if op.type in op_names.LINK_COLLECTIVES else ""


#: An operation of nothing.
EMPTY = Operation(
    "", "", NO_LAYER, 0, FORWARD, 1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, "", None, "", 0, 0, 0, 0,
    None, None, None, None, None, None, None, None, (), (-1, 0), None, "", "",
)  # fmt: skip


# --- All operations of a launch ---

_KINDS_OF_WAITS = (HOST_IN, HOST_OUT, STREAMING_IN, STREAMING_OUT)


def operations(plan: Plan, details: Details) -> tuple[Operation, ...]:
    """Returns the ops and transfers of a launch, the most expensive first.

    Without a pipeline, the cycles of an IPU, with copies that come to it, add up to the launch's,
    except for waits for other IPUs. In a pipeline they are the cycles of all mini-batches, without
    recomputation.

    Args:
        plan: memory and time of a program.
        details: summands of the plan.
    """
    table = _Table(plan, details)
    rows = [*table.ops(), *table.transfers(), *table.waits()]
    return tuple(sorted(rows, key=lambda row: -row.cycles))


class _Table:
    """The rows of a plan."""

    def __init__(self, plan: Plan, details: Details) -> None:
        self._plan, self._details = plan, details
        self._chip = plan.settings.chip
        self._work = WorkTable(plan.settings)
        self._sizes: dict[tuple[str, int, bool], int] = {}
        for transfer in plan.timeline.transfers:
            inward = transfer.kind in (HOST_IN, STREAMING_IN)
            self._sizes[transfer.name, transfer.ipu, inward] = transfer.num_bytes
        self._items = [item for item in details.items if item.op is None]
        self._waits = [
            segment
            for segment in plan.timeline.segments
            if segment.op is None and segment.name in _KINDS_OF_WAITS
        ]
        self._total = sum(
            sum(each.cycles for each in part)
            for part in (plan.timeline.ops, self._items, self._waits)
        )

    def ops(self) -> Iterator[Operation]:
        """Yields the rows of ops."""
        for time in self._plan.timeline.ops:
            op = self._plan.workload.ops[time.op]
            kind = kind_of(op)
            yield self._moving(time, op, kind) if kind else self._computing(time, op)

    def transfers(self) -> Iterator[Operation]:
        """Yields the rows of transfers that no op makes."""
        workload = self._plan.workload
        if not self._items:
            return
        of_variables = {
            workload.variables[index].name: layer
            for index, layer in layers_of_variables(workload).items()
        }
        of_buffers = groups_of_buffers(workload)
        for item in self._items:
            made = None
            if 0 <= item.position < len(workload.ops):
                made = workload.ops[item.position]
            layer = of_variables.get(item.name) or of_buffers.get(
                -1 if item.buffer is None else item.buffer, ""
            )
            yield self._transfer(item, layer or (group(made) if made else ""), made)

    def waits(self) -> Iterator[Operation]:
        """Returns the rows of transfers that end after the computation beside them."""
        return map(self._wait, self._waits)

    def _computing(self, time: OpTime, op: Op) -> Operation:
        """Returns the row of an op on the tiles."""
        cost, runs, chip = time.cost, time.runs, self._chip
        partition = cost.partition or self._details.costs[time.op].partition
        fused = self._details.maps.get(time.op, ())[:-1]
        work = self._work.of(op, cost, partition, [self._plan.workload.ops[i] for i in fused])
        roof = roofline(work, chip)
        flops = work.flops if work.flops or op.flops is not None else None
        rate = flops / cost.cycles * chip.clock if flops and cost.cycles else None
        return self._row(
            op,
            time,
            compute=cost.compute * runs,
            exchange=cost.exchange * runs,
            sync=cost.sync * runs,
            bound=of_op(work, chip),
            roofline=roof.share,
            partition="" if partition is None else str(partition),
            tiles=work.tiles,
            flops=None if flops is None else flops * runs,
            rate=rate,
            peak_share=rate and rate / (work.matrix_peak * chip.tiles * chip.clock),
            intensity=roof.intensity,
            attainable=roof.attainable,
            fused=fused,
        )

    def _moving(self, time: OpTime, op: Op, kind: str) -> Operation:
        """Returns the row of an op that is a transfer."""
        inward = op.type == op_names.INFEED
        size = self._sizes.get((op.name, time.ipu, inward))
        return self._row(
            op,
            time,
            transfer=time.cycles,
            bound=of_transfer(kind),
            roofline=self._share(kind, size, time.cost, op),
            num_bytes=size,
        )

    def _transfer(self, item: Item, layer: str, op: Op | None) -> Operation:
        """Returns the row of a transfer that no op makes."""
        inward = item.after < 0 or item.position < 0
        kinds = {HOST: (HOST_IN, HOST_OUT), STREAMING: (STREAMING_IN, STREAMING_OUT)}
        kind = kinds[item.kind][not inward] if item.kind in kinds else item.kind
        size = self._sizes.get((item.name, item.ipu, inward and item.kind in kinds))
        return EMPTY._replace(
            name=item.name,
            type=kind,
            layer=layer or NO_LAYER,
            ipu=item.ipu,
            phase=item.phase or FORWARD,
            runs=item.runs,
            cycles=item.cycles,
            share=self._part(item.cycles),
            transfer=item.cycles,
            bound=of_transfer(item.kind),
            roofline=self._share(item.kind, size, item.cost),
            num_bytes=size,
            peer=item.peer,
            place=(item.position, item.after),
            stage=item.stage,
            source=op.source if op else "",
            label=item.cost.label.value,
        )

    def _wait(self, segment: Segment) -> Operation:
        """Returns the row of an IPU's wait at the end of a launch."""
        return EMPTY._replace(
            name=f"wait for {segment.name}",
            type=segment.name,
            ipu=segment.ipu,
            cycles=segment.cycles,
            share=self._part(segment.cycles),
            transfer=segment.cycles,
            bound=of_transfer(segment.kind),
            place=(len(self._plan.workload.ops), 1),
            label=segment.label.value,
        )

    def _row(self, op: Op, time: OpTime, **numbers: object) -> Operation:
        """Returns the row of an op, with the numbers that depend on its kind."""
        fields: Mapping[str, object] = {
            "name": op.name,
            "type": op.type,
            "layer": group(op) or NO_LAYER,
            "ipu": time.ipu,
            "phase": op.phase or FORWARD,
            "runs": time.runs,
            "cycles": time.cycles,
            "share": self._part(time.cycles),
            "temporary": time.cost.temporary,
            "vertex_state": time.cost.vertex_state,
            "exchange_code": time.cost.exchange_code,
            "flops": None if op.flops is None else op.flops * time.runs,
            "op": time.op,
            "place": (time.op, 0),
            "stage": op.stage,
            "source": op.source,
            "label": worst((op.label, time.cost.label)).value,
            **numbers,
        }
        return EMPTY._replace(**fields)  # type: ignore[arg-type]

    def _part(self, cycles: float) -> float:
        """Returns the share of the cycles of all operations."""
        return cycles / self._total if self._total else 0.0

    def _share(self, kind: str, size: int | None, cost: Cost, op: Op | None = None) -> float | None:
        """Returns the share of its bandwidth that a transfer attains."""
        if size is None:
            return None
        moved: float = size
        if kind == COLLECTIVE:
            moved = collective_bytes(op.type if op else "", size, self._replicas(op))
        return transfer_share(kind, moved, cost.cycles, self._chip)

    def _replicas(self, op: Op | None) -> int:
        """Returns the number of replicas of a collective."""
        group = op_names.COLLECTIVES[op.type].group if op else ""
        wanted = int(op.attributes.get(group) or 0) if op else 0
        return min(wanted or self._plan.settings.replicas, self._plan.settings.replicas)
