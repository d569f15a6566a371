"""`operations`: the cycles of a launch, op by op and transfer by transfer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tensorflow_ipu import op_names
from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.costs.label import worst
from tensorflow_ipu.planner.details import Details
from tensorflow_ipu.planner.op_groups import group, groups_of_buffers
from tensorflow_ipu.planner.plan import OpTime, Plan, Segment
from tensorflow_ipu.planner.time.items import COLLECTIVE, HOST, STREAMING, Item
from tensorflow_ipu.planner.time.transfers import HOST_IN, HOST_OUT, STREAMING_IN, STREAMING_OUT
from tensorflow_ipu.planner.workload import Op
from tensorflow_ipu.profiler.breakdown import NO_LAYER, layers_of_variables
from tensorflow_ipu.profiler.views import bounds
from tensorflow_ipu.profiler.views.operation import EMPTY, FORWARD, Operation, kind_of
from tensorflow_ipu.profiler.views.work import WorkTable

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
        roof = bounds.roofline(work, chip)
        flops = work.flops if work.flops or op.flops is not None else None
        rate = flops / cost.cycles * chip.clock if flops and cost.cycles else None
        return self._row(
            op,
            time,
            compute=cost.compute * runs,
            exchange=cost.exchange * runs,
            sync=cost.sync * runs,
            bound=bounds.of_op(work, chip),
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
            bound=bounds.of_transfer(kind),
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
            bound=bounds.of_transfer(item.kind),
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
            bound=bounds.of_transfer(segment.kind),
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
            moved = bounds.collective_bytes(op.type if op else "", size, self._replicas(op))
        return bounds.transfer_share(kind, moved, cost.cycles, self._chip)

    def _replicas(self, op: Op | None) -> int:
        """Returns the number of replicas of a collective."""
        group = op_names.COLLECTIVES[op.type].group if op else ""
        wanted = int(op.attributes.get(group) or 0) if op else 0
        return min(wanted or self._plan.settings.replicas, self._plan.settings.replicas)
