"""Estimates of the effect of a change on memory and speed, to order candidates.

The numbers decide only the order. All reported numbers of a configuration come from its plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.tuning.search.choices import ON_CHIP, Choices

# Categories of memory that change together; all others are of the program itself.
_GROUPS = {
    "weights": ("variables", "constants", "gradient accumulators"),
    "state": ("optimizer state",),
    "kept": ("stash", "activations", "inputs"),
    "temporary": ("temporaries", "streamed"),
}


class Guess(NamedTuple):
    """Estimated bytes of the fullest tile and speed of a configuration.

    Args:
        weights: bytes of variables and sums of their gradients.
        state: of the optimizer's state.
        kept: of activations, stashes of a pipeline included.
        temporary: of temporaries of ops.
        rest: of code and the like.
        speed: elements per second.
        ipus: IPUs that are occupied.
        batch: elements of a mini-batch.
        parts: IPUs of a replica.
        pipelined: whether there is a pipeline.
        proportion: availableMemoryProportion of products.
    """

    weights: float
    state: float
    kept: float
    temporary: float
    rest: float
    speed: float
    ipus: float
    batch: int
    parts: int
    pipelined: bool
    proportion: float

    @property
    def memory(self) -> float:
        """Bytes on the fullest tile."""
        return max(1.0, self.weights + self.state + self.kept + self.temporary + self.rest)


def of_plan(plan: Plan) -> Guess:
    """Returns bytes and speed of a planned configuration.

    Args:
        plan: the plan.
    """
    memory, workload = plan.fullest, plan.workload
    tile = memory.worst_tile
    sizes = {category.name: float(category.tiles[tile]) for category in memory.categories}
    groups = {name: sum(sizes.get(n, 0.0) for n in names) for name, names in _GROUPS.items()}
    occupied = throughput.reserved_ipus(workload.ipus)
    return Guess(
        **groups,
        rest=max(0.0, memory.worst_bytes - sum(groups.values())),
        speed=throughput.items_per_second(plan),
        ipus=occupied * plan.settings.replicas,
        batch=workload.batch or 1,
        parts=max(1, workload.ipus),
        pipelined=workload.pipeline is not None,
        proportion=max(0.01, plan.settings.matmul_proportion),
    )


def after(guessed: Guess, choices: Choices, subject: str) -> Guess:
    """Returns the estimate of a configuration with one more change.

    Args:
        guessed: the configuration without it.
        choices: the configuration with it.
        subject: the subject of the change.
    """
    value = getattr(choices, subject)
    return guessed if value is None else _CHANGES[subject](guessed, value)


def _precision(now: Guess, value: Any) -> Guess:
    halves = {name: getattr(now, name) / 2 for name in _GROUPS}
    return now._replace(**halves, speed=1.8 * now.speed)


def _partials(now: Guess, value: Any) -> Guess:
    return now._replace(temporary=0.8 * now.temporary, speed=1.1 * now.speed)


def _batch(now: Guess, value: int) -> Guess:
    times = value / now.batch
    moving = {name: times * getattr(now, name) for name in ("kept", "temporary")}
    # Twice the batch is faster, though seldom twice as fast; updates come less often.
    return now._replace(**moving, speed=now.speed * times**0.35, batch=value)


def _state(now: Guess, value: str) -> Guess:
    if value == ON_CHIP:
        return now._replace(state=now.weights, speed=1.1 * now.speed)
    return now._replace(state=0.0, speed=0.85 * now.speed)


def _weights(now: Guess, value: str) -> Guess:
    return now._replace(weights=0.0, speed=0.5 * now.speed)


def _divided(now: Guess, value: int, **changes: Any) -> Guess:
    """Returns the estimate for another number of IPUs in each replica."""
    sizes = {n: getattr(now, n) * now.parts / value for n in ("weights", "state", "rest")}
    occupied = throughput.reserved_ipus(value) / throughput.reserved_ipus(now.parts)
    made = {**sizes, "ipus": now.ipus * occupied, "parts": value, **changes}
    return now._replace(**made)


def _stages(now: Guess, value: int) -> Guess:
    times = value / now.parts
    speed = now.speed * times * 0.85 ** math.log2(max(1.0, times))
    if now.pipelined:
        return _divided(now, value, speed=speed)
    # Each stage keeps its activations of two mini-batches for each stage; the sums of gradients
    # are new, and the state of the optimizer goes to streaming memory.
    divided = _divided(now, value, speed=speed, kept=1.5 * now.kept, state=0.0, pipelined=True)
    return divided._replace(weights=2 * divided.weights)


def _shards(now: Guess, value: int) -> Guess:
    kept = now.kept * now.parts / value
    return _divided(now, value, speed=0.9 * now.speed, kept=kept)


def _schedule(now: Guess, value: str) -> Guess:
    kept, speed = {"Sequential": (0.2, 0.5), "Interleaved": (0.7, 0.8)}.get(value, (1.5, 1.2))
    return now._replace(kept=kept * now.kept, speed=speed * now.speed)


def _count(now: Guess, value: float) -> Guess:
    speed = now.speed * value**0.1
    if now.pipelined:
        return now._replace(speed=speed)
    return now._replace(speed=speed, weights=2 * now.weights, state=0.0)


def _recompute(now: Guess, value: bool) -> Guess:
    part = 0.25 if now.pipelined else 0.6
    if value:
        return now._replace(kept=part * now.kept, speed=0.75 * now.speed)
    return now._replace(kept=now.kept / part, speed=now.speed / 0.75)


def _activations(now: Guess, value: str) -> Guess:
    if value == ON_CHIP:
        return now._replace(kept=2 * now.kept, speed=1.1 * now.speed)
    return now._replace(kept=0.5 * now.kept, speed=0.9 * now.speed)


def _matmul(now: Guess, value: float) -> Guess:
    times = min(2.0, value / now.proportion)
    temporary = (0.8 + 0.2 * times) * now.temporary
    return now._replace(temporary=temporary, speed=now.speed * times**0.02)


def _other(now: Guess, value: float) -> Guess:
    times = min(2.0, value / 0.6)
    return now._replace(temporary=(0.9 + 0.1 * times) * now.temporary, speed=now.speed * 0.99)


def _replicas(now: Guess, value: int) -> Guess:
    times = value * throughput.reserved_ipus(now.parts) / now.ipus
    return now._replace(speed=now.speed * times**0.95, ipus=now.ipus * times)


_CHANGES: dict[str, Callable[[Guess, Any], Guess]] = {
    "precision": _precision,
    "partials": _partials,
    "batch": _batch,
    "optimizer_state": _state,
    "weights": _weights,
    "stages": _stages,
    "shards": _shards,
    "schedule": _schedule,
    "count": _count,
    "recompute": _recompute,
    "activations": _activations,
    "matmul_proportion": _matmul,
    "convolution_proportion": _other,
    "slice_proportion": _other,
    "replicas": _replicas,
}
