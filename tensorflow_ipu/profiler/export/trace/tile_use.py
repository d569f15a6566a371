"""`TileUse`: the tiles that an op uses, and the busy share of the mean tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tensorflow_ipu.costs.chip.vertex import share
from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.costs.rules.elementwise import computed_type
from tensorflow_ipu.planner.plan import OpTime, Plan, Segment
from tensorflow_ipu.planner.workload import Op


class TileUse(NamedTuple):
    """Number and mean load of the tiles while the slowest of them computes. Modelled.

    Args:
        tiles: tiles that take part.
        mean: cycles of the mean of all compute tiles for each cycle of the slowest one, 0 to 1.
    """

    tiles: float
    mean: float


class TileUses:
    """The tiles that the ops, and the stages of a pipeline, use.

    An op whose cost has a partition uses the tiles of that, all for the same time. Another one is
    done where its largest tensor is, which is spread evenly over the tiles, and takes each tile as
    long as its share of that. Costs are made of the share of the fullest tile in the same way.

    Args:
        plan: memory and time of the program.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._tiles = max(plan.settings.compute_tiles, 1)
        self._of_ops: dict[int, TileUse] = {}
        self._costs = {time.op: time.cost for time in plan.timeline.ops}
        self._of_stages = self._stages(plan.timeline.ops)

    def of(self, segment: Segment) -> TileUse:
        """Returns the use of tiles in a segment of computation.

        Args:
            segment: the stretch.
        """
        if segment.op is not None:
            return self._of_op(segment.op)
        if segment.stage is not None:
            key = segment.stage, segment.phase
            found = self._of_stages.get(key) or self._of_stages.get((segment.stage, ""))
            if found is not None:
                return found
        return TileUse(self._tiles, 1.0)

    def _of_op(self, index: int) -> TileUse:
        if index not in self._of_ops:
            op, cost = self._plan.workload.ops[index], self._costs.get(index)
            self._of_ops[index] = _use(op, cost, self._tiles)
        return self._of_ops[index]

    def _stages(self, times: tuple[OpTime, ...]) -> Mapping[tuple[int, str], TileUse]:
        """Returns the mean use of tiles in each stage and phase, weighted by compute cycles."""
        sums: dict[tuple[int, str], list[float]] = {}
        for time in times:
            op = self._plan.workload.ops[time.op]
            if op.stage is not None and time.cost.compute:
                weight, use = time.cost.compute * time.runs, self._of_op(time.op)
                total = sums.setdefault((op.stage, op.phase), [0.0, 0.0, 0.0])
                for at, value in enumerate((1.0, use.tiles, use.mean)):
                    total[at] += weight * value
        return {key: TileUse(t / weight, m / weight) for key, (weight, t, m) in sums.items()}


def _use(op: Op, cost: Cost | None, tiles: int) -> TileUse:
    """Returns the use of tiles while an op computes."""
    partition = None if cost is None else cost.partition
    if partition is not None:
        used = min(partition.tiles, tiles)
        return TileUse(used, used / tiles)
    whole = computed_type(op.spec)
    if not whole.elements:
        return TileUse(1, 1 / tiles)
    fullest = share(whole.elements, whole.element_size, tiles)
    return TileUse(-(-whole.elements // fullest), whole.elements / fullest / tiles)
