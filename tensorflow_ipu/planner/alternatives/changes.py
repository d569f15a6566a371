"""Changes of a Workload and its Settings that remedies are made of."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

from tensorflow_ipu.configs.machine import Machine
from tensorflow_ipu.planner.alternatives import (
    batch,
    restage,
    stage_split,
    workload_edits,
)
from tensorflow_ipu.planner.alternatives.words import words_of
from tensorflow_ipu.planner.plan import IpuMemory, Plan
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time.throughput import reserved_ipus
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.schedule import RecomputationMode

# Smaller proportions that are tried, from the default of 0.6 down.
_PROPORTIONS = (0.3, 0.1)
# Numbers of IPUs that are tried for a program of many ops, where planning takes long: of those
# beyond the least that might do the next few, then powers of two. Otherwise all are.
_NEARBY = 4
_LARGE = 2000


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A program with some changes made, and what it is planned for.

    Attributes:
        planner: Of the program.
        settings: What it is planned for.
        name: Of the change that led to it, where the search for it decides.
        instruction: What to write for that.
    """

    planner: Planner
    settings: Settings
    name: str = ""
    instruction: str = ""

    @property
    def workload(self) -> Workload:
        """The program."""
        return self.planner.workload

    @functools.cached_property
    def memory(self) -> tuple[IpuMemory, ...]:
        """The memory of each IPU of a replica."""
        return self.planner.memory(self.settings)

    @functools.cached_property
    def splitter(self) -> stage_split.Splitter:
        """Cuts the program into stages."""
        return stage_split.Splitter(self.workload, self.settings, self.planner.structure)

    def plan(self) -> Plan:
        """Plans memory and time."""
        timeline = self.planner.timeline(self.settings)
        return Plan(self.workload, self.settings, self.memory, timeline)

    def fits(self) -> bool:
        """Returns whether every tile can hold what is on it."""
        return all(ipu.fits for ipu in self.memory)


@dataclasses.dataclass(frozen=True)
class Change:
    """A change of a program or its settings that may save memory.

    Attributes:
        kind: Changes of one kind exclude each other.
        name: What is changed.
        instruction: What to write in the user's program.
        apply: Makes it; returns None where there is nothing to change.
    """

    kind: str
    name: str
    instruction: str
    apply: Callable[[Candidate], Candidate | None]

    def then(self, other: Change) -> Change:
        """Returns both, one after the other."""

        def both(candidate: Candidate) -> Candidate | None:
            first = self.apply(candidate)
            if first is None:
                return None
            second = other.apply(dataclasses.replace(first, name="", instruction=""))
            if second is None:
                return None
            return dataclasses.replace(
                second,
                name=f"{first.name or self.name} and {second.name or other.name}",
                instruction=f"{first.instruction or self.instruction}\n"
                f"{second.instruction or other.instruction}",
            )

        return Change(f"{self.kind}+{other.kind}", f"{self.name} and {other.name}", "", both)


def possible(candidate: Candidate) -> Iterator[Change]:
    """Yields the changes that may make a program need less memory.

    Args:
        candidate: the program.
    """
    words = words_of(candidate.workload)
    yield Change("recompute", "recompute activations", words.recompute, _recompute)
    yield Change("proportion", "smaller temporaries", "", _proportion)
    yield Change("float16", "float16", words.float16, _float16)
    yield Change("state", "offload optimizer state", words.offload(), _offload)
    if candidate.settings.replicas > 1:
        yield Change("state", "optimizer state split over replicas", words.split(), _split)
        if candidate.workload.pipeline is not None:
            yield Change("weights", "weights split over replicas", words.weights, _weights)
    yield Change("batch", "smaller mini-batches", "", _smaller_batch)
    yield Change("ipus", "more pipeline stages", "", _pipeline)
    if candidate.workload.pipeline is None:
        yield Change("ipus", "shards on more IPUs", "", _shards)


def _recompute(candidate: Candidate) -> Candidate | None:
    pipeline = candidate.workload.pipeline
    if candidate.settings.recompute and (pipeline is None or pipeline.recomputation is not None):
        return None
    planner = candidate.planner
    if pipeline is not None and pipeline.training:
        again = dataclasses.replace(
            pipeline, recomputation=pipeline.recomputation or RecomputationMode.Auto
        )
        planner = Planner(dataclasses.replace(candidate.workload, pipeline=again))
    return Candidate(planner, candidate.settings.replace(recompute=True))


def _proportion(candidate: Candidate) -> Candidate | None:
    settings = candidate.settings
    names = ("convolution_proportion", "matmul_proportion", "slice_proportion")
    largest = max(getattr(settings, name) for name in names)
    found = None
    for proportion in _PROPORTIONS:
        if proportion >= largest:
            continue
        smaller = {name: min(proportion, getattr(settings, name)) for name in names}
        found = Candidate(
            candidate.planner,
            settings.replace(**smaller),
            f"smaller temporaries (availableMemoryProportion {proportion})",
            words_of(candidate.workload).proportion(proportion),
        )
        if found.fits():
            break
    return found


def _float16(candidate: Candidate) -> Candidate | None:
    if not workload_edits.has_full(candidate.workload):
        return None
    return Candidate(Planner(workload_edits.to_half(candidate.workload)), candidate.settings)


def _state(candidate: Candidate) -> list[int]:
    """Indices of the variables of the optimizer that are on the chip."""
    variables = candidate.workload.variables
    return [i for i in candidate.planner.structure.state if not variables[i].offloaded]


def _offloaded(candidate: Candidate, indices: list[int], split: int = 1) -> Candidate:
    """The program with some variables in streaming memory."""
    workload = workload_edits.offloaded(candidate.workload, indices, split)
    return Candidate(Planner(workload), candidate.settings)


def _offload(candidate: Candidate) -> Candidate | None:
    state = _state(candidate)
    if not state:
        return None
    return _offloaded(candidate, state)


def _split(candidate: Candidate) -> Candidate | None:
    state = _state(candidate)
    if not state:
        return None
    return _offloaded(candidate, state, candidate.settings.replicas)


def _weights(candidate: Candidate) -> Candidate | None:
    variables = candidate.workload.variables
    trained = [i for i in candidate.planner.structure.trained if not variables[i].offloaded]
    if not trained:
        return None
    return _offloaded(candidate, trained, candidate.settings.replicas)


def _smaller_batch(candidate: Candidate) -> Candidate | None:
    before = candidate.workload.batch
    found = None
    size = before or 1
    while size > 1 and size % 2 == 0:
        size //= 2
        found = Candidate(
            Planner(batch.with_batch(candidate.workload, size)),
            candidate.settings,
            f"mini-batches of {size} in place of {before}",
            words_of(candidate.workload).batch(size, (before or 1) // size),
        )
        if found.fits():
            break
    return found


def _numbers(candidate: Candidate, layers: int) -> Iterator[int]:
    """Numbers of IPUs to try, least first."""
    settings = candidate.settings
    each = Machine(settings.chip).num_ipus // max(1, settings.local_replicas)
    # A replica occupies a power of two: of 5 IPUs for each, 4 can be had.
    most = min(layers, 1 << max(0, each.bit_length() - 1))
    capacity = settings.chip.tiles * settings.chip.memory_per_tile
    needed = sum(ipu.always_live for ipu in candidate.memory)
    least = max(candidate.workload.ipus + 1, -(-needed // (2 * capacity)))
    small = len(candidate.workload.ops) <= _LARGE
    nearby = range(least, max(least, most) + 1 if small else least + _NEARBY)
    yield from (n for n in nearby if n <= most)
    yield from (n for n in (4, 8, 16) if nearby.stop <= n <= most)
    if most >= nearby.stop and most not in (4, 8, 16):
        yield most


def _pipeline(candidate: Candidate) -> Candidate | None:
    """The fewest stages that suffice, as they are or with recomputation."""
    found, words = None, words_of(candidate.workload)
    for stages in _numbers(candidate, len(candidate.planner.structure.layers)):
        split = candidate.splitter.split(stages)
        text = words.pipeline(split, reserved_ipus(stages), candidate.settings.local_replicas)
        plain = Candidate(
            Planner(split.workload), candidate.settings, f"pipeline with {stages} stages", text
        )
        again = _recompute(plain)
        if again is not None:
            again = dataclasses.replace(
                again,
                name=f"{plain.name} that recompute",
                instruction=f"{words.recompute}\n{text}",
            )
        # What recomputes needs less memory, so it is the better one if none suffices.
        for found in (plain, again) if again is not None else (plain,):
            if found.fits():
                return found
    return found


def _shards(candidate: Candidate) -> Candidate | None:
    known = candidate.planner.structure
    found = None
    for shards in _numbers(candidate, len(known.layers)):
        split = candidate.splitter.split(shards)
        lengths = [len(stage.layers) for stage in split.stages]
        places = [shard for shard, length in enumerate(lengths) for _ in range(length)]
        found = Candidate(
            Planner(restage.restaged(candidate.workload, known, places, None)),
            candidate.settings,
            f"shards on {shards} IPUs",
            words_of(candidate.workload).shards(
                split, reserved_ipus(shards), candidate.settings.local_replicas
            ),
        )
        if found.fits():
            break
    return found
