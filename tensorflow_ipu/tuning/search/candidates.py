"""Candidates of the search: the program and the settings of each configuration."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import Any

from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.program.structure import Structure
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time.throughput import reserved_ipus
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.tuning import what_if
from tensorflow_ipu.tuning.edits import batch, restage, workload_edits
from tensorflow_ipu.tuning.search.choices import ON_CHIP, REMOTE, SPLIT, Choices
from tensorflow_ipu.tuning.stages.stage_cut import Stage
from tensorflow_ipu.tuning.stages.stage_split import Splitter, check_count, schedule_named
from tensorflow_ipu.util import op_names

# Programs whose planners are cached: a large program's take tens of megabytes.
_KEPT = 8
_PROPORTIONS = ("matmul_proportion", "convolution_proportion", "slice_proportion")


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A candidate: the program of a configuration, with its planner and settings.

    Attributes:
        planner: Of the program.
        settings: Chip, replicas and options.
        parts: The layers of each stage or shard; empty where the program keeps its own.
    """

    planner: Planner
    settings: Settings
    parts: tuple[Stage, ...] = ()

    @property
    def workload(self) -> Workload:
        """The program."""
        return self.planner.workload

    def plan(self) -> Plan:
        """Plans memory and time."""
        return self.planner.plan(self.settings)


class Candidates:
    """The candidates of one program, by their choices; the latest programs are cached.

    Args:
        workload: the program.
        settings: the present chip, replicas and options.
        ipus: number of IPUs for all replicas.
        fewer: whether there may be fewer replicas than now, where the IPUs do not suffice.
        items: elements of data of all replicas that a weight update is to be made of; None for any
            number.
    """

    def __init__(
        self,
        workload: Workload,
        settings: Settings,
        ipus: int,
        fewer: bool = False,
        items: int | None = None,
    ) -> None:
        self._settings = settings
        self._ipus = ipus
        self._fewer, self._items = fewer, items
        self._bases: dict[Choices, Planner] = {Choices(): Planner(workload)}
        self._splitters: dict[Choices, Splitter] = {}
        self._kept: OrderedDict[tuple[Any, ...], tuple[Planner, tuple[Stage, ...]]] = OrderedDict()

    @property
    def structure(self) -> Structure:
        """Section and layer of each op of the unchanged program."""
        return self._bases[Choices()].structure

    def canonical(self, choices: Choices) -> Choices:
        """Returns the choices without those that change nothing.

        There are as many replicas as fit on the IPUs. If gradient accumulation is new, the
        optimizer state is in streaming memory anyway. Where an update keeps its elements of data,
        the mini-batches of an update follow from the rest, else the size of a mini-batch.

        Args:
            choices: the changes.

        Raises:
            ValueError: there are too few IPUs, or an update cannot keep its elements of data.
        """
        replicas = self._replicas(choices)
        choices = self._keeping(choices, replicas)
        changed = None if replicas == self._settings.replicas else replicas
        state = choices.optimizer_state
        if state == REMOTE and self.offloads(choices):
            state = None
        return dataclasses.replace(choices, replicas=changed, optimizer_state=state)

    def offloads(self, choices: Choices) -> bool:
        """Returns whether the optimizer state goes to streaming memory by default.

        Pipelines and gradient accumulation put it there.

        Args:
            choices: the changes.
        """
        workload = self._bases[Choices()].workload
        if workload.pipeline is not None or self.structure.accumulated:
            return False
        changes = (choices.stages, choices.count, choices.mini_batches)
        return any(value is not None for value in changes)

    def _keeping(self, choices: Choices, replicas: int) -> Choices:
        """Returns the choices with the mini-batches that keep an update's elements of data."""
        workload = self._bases[Choices()].workload
        now = workload.batch
        choices = dataclasses.replace(choices, mini_batches=None)
        if self._items is None or now is None or choices.count is not None:
            return choices
        usual = self._usual_count(choices)
        of_all = (choices.batch or now) * replicas
        count, rest = divmod(self._items, of_all)
        if count and not rest and self._can_have(choices, count, usual):
            return dataclasses.replace(choices, mini_batches=None if count == usual else count)
        size, rest = divmod(self._items, usual * replicas)
        if choices.batch is None and size and not rest:
            return dataclasses.replace(choices, batch=None if size == now else size)
        raise ValueError(
            f"An update would not be made of {self._items:,} elements of data, as it is now: "
            "--most-items any allows that."
        )

    def _usual_count(self, choices: Choices) -> int:
        """Returns the default number of mini-batches of an update."""
        if choices.stages is not None:
            return self._splitter(Choices()).count(choices.stages, choices.schedule)
        return self._count_now(self._bases[Choices()].workload)

    def _can_have(self, choices: Choices, count: int, usual: int) -> bool:
        """Returns whether an update can be made of a number of mini-batches."""
        workload = self._bases[Choices()].workload
        pipeline = workload.pipeline
        if count == usual:
            return True
        if choices.stages is None and pipeline is None:
            fed = any(op.type == op_names.INFEED for op in workload.ops)
            return fed and choices.shards is None
        try:
            if choices.stages is not None:
                self._splitter(Choices()).describe(choices.stages, choices.schedule, count)
            elif pipeline is not None:
                wanted = schedule_named(choices.schedule or pipeline.schedule.name)
                check_count(dataclasses.replace(pipeline, schedule=wanted, count=count))
        except ValueError:
            return False
        return True

    def candidate(self, choices: Choices) -> Candidate:
        """Returns the program with some changes.

        Args:
            choices: the changes.

        Raises:
            ValueError: the program does not allow this combination, or there are too few IPUs.
        """
        replicas = self._replicas(choices)
        key = _program_key(choices, replicas)
        if key not in self._kept:
            self._kept[key] = self._program(choices, replicas)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        planner, parts = self._kept[key]
        return Candidate(planner, self._changed_settings(choices, replicas), parts)

    def _replicas(self, choices: Choices) -> int:
        """Returns the replicas of all instances: as chosen, or as many as fit on the IPUs."""
        workload = self._bases[Choices()].workload
        each = reserved_ipus(choices.stages or choices.shards or workload.ipus)
        instances, wanted = self._settings.instances, choices.replicas or self._settings.replicas
        fit = self._ipus // instances // each * instances
        if not fit or (fit < wanted and not self._fewer):
            raise ValueError(
                f"{1 if self._fewer else wanted} replica(s) with {each} IPU(s) each need more than "
                f"the {self._ipus} that there are."
            )
        return min(wanted, fit)

    def _base(self, choices: Choices) -> tuple[Choices, Planner]:
        """Returns the program with another batch and precision, from which stages are cut."""
        key = Choices(batch=choices.batch, precision=choices.precision)
        if key not in self._bases:
            workload = self._bases[Choices()].workload
            if key.batch is not None:
                workload = batch.with_batch(workload, key.batch)
            if key.precision is not None:
                workload = workload_edits.to_half(workload)
            self._bases[key] = Planner(workload)
        return key, self._bases[key]

    def _program(self, choices: Choices, replicas: int) -> tuple[Planner, tuple[Stage, ...]]:
        base, planner = self._base(choices)
        workload = planner.workload
        parts: tuple[Stage, ...] = ()
        if choices.stages is not None:
            workload, parts = self._pipeline(base, choices.stages, choices)
        elif choices.shards is not None:
            parts = self._splitter(base).parts(choices.shards)
            workload = _sharded(workload, planner.structure, parts)
        workload = self._scheduled(workload, choices)
        workload = self._placed(workload, planner.structure, choices, replicas)
        if self._settings.replicas == 1 < replicas:
            workload = workload_edits.with_replica_sums(workload)
        return (planner if workload is planner.workload else Planner(workload)), parts

    def _scheduled(self, workload: Workload, choices: Choices) -> Workload:
        """Returns the program with another schedule, count or recomputation."""
        changes: dict[str, Any] = {}
        if choices.recompute is not None:
            changes["recompute"] = choices.recompute
        if workload.pipeline is None and choices.schedule is not None:
            raise ValueError("Only pipelines have a schedule.")
        if choices.stages is None:  # a cut into stages has these already
            if choices.schedule is not None:
                changes["schedule"] = choices.schedule
            if choices.mini_batches is not None:
                changes["count"] = choices.mini_batches
            elif choices.count is not None:
                changes["count"] = max(1, int(self._count_now(workload) * choices.count))
        return what_if.changed_program(workload, self._settings, self._settings, changes)

    def _count_now(self, workload: Workload) -> int:
        """Returns the mini-batches of an update in the unchanged program."""
        if workload.pipeline is not None:
            return workload.pipeline.count
        return max(1, self.structure.mini_batches // self.structure.updates)

    def _placed(
        self, workload: Workload, found: Structure, choices: Choices, replicas: int
    ) -> Workload:
        """Returns the program with optimizer state and weights in the chosen memory."""
        state, least = choices.optimizer_state, self._settings.minimum_remote_bytes
        if state == ON_CHIP:
            workload = workload_edits.on_chip(workload, found.state)
        elif state is not None:
            times = replicas if state == SPLIT else 1
            workload = workload_edits.offloaded_from(workload, found.state, least, times)
        if choices.weights is not None:
            if workload.pipeline is None:
                raise ValueError("Only pipelines keep weights in streaming memory.")
            workload = workload_edits.offloaded_from(workload, found.trained, least, replicas)
        return workload

    def _pipeline(
        self, base: Choices, stages: int, choices: Choices
    ) -> tuple[Workload, tuple[Stage, ...]]:
        """Returns the program cut into stages, with its mini-batches per update scaled."""
        splitter, count = self._splitter(base), choices.mini_batches
        if choices.count is not None:
            count = max(1, int(splitter.count(stages, choices.schedule) * choices.count))
        split = splitter.split(stages, choices.schedule, count)
        return split.workload, split.stages

    def _splitter(self, base: Choices) -> Splitter:
        """Returns the splitter of a program with another batch and precision, cached."""
        if base not in self._splitters:
            planner = self._bases[base]
            splitter = Splitter(planner.workload, self._settings, planner.structure)
            self._splitters[base] = splitter
        return self._splitters[base]

    def _changed_settings(self, choices: Choices, replicas: int) -> Settings:
        made: dict[str, Any] = {"replicas": replicas}
        for name in _PROPORTIONS:
            if getattr(choices, name) is not None:
                made[name] = getattr(choices, name)
        if choices.partials is not None:
            made.update(convolution_partials=choices.partials, matmul_partials=choices.partials)
        if choices.recompute is not None:
            made["recompute"] = choices.recompute
        if choices.activations is not None:
            made["offload_activations"] = choices.activations == REMOTE
        if choices.stages is not None or choices.shards is not None:
            made.update(stage_devices=None, stage_options={})
        return self._settings.replace(**made)


def _program_key(choices: Choices, replicas: int) -> tuple[Any, ...]:
    """Returns a key that is equal for all choices that make the same program."""
    changed = dict.fromkeys((*_PROPORTIONS, "partials", "activations", "replicas"))
    divided = SPLIT in (choices.optimizer_state, choices.weights)
    return dataclasses.replace(choices, **changed), replicas if divided else min(replicas, 2)


def _sharded(workload: Workload, found: Structure, parts: tuple[Stage, ...]) -> Workload:
    """Returns the program with the parts of a cut as shards."""
    places = [shard for shard, part in enumerate(parts) for _ in part.layers]
    return restage.restaged(workload, found, places, None)
