"""Steps from a program to a configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.program.structure import FORWARD, UPDATE, Structure, structure
from tensorflow_ipu.planner.time.throughput import reserved_ipus
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.tuning.advice import instructions
from tensorflow_ipu.tuning.advice.instructions import Instructions, PipelineChange, RemedyStep
from tensorflow_ipu.tuning.search.choices import ON_CHIP, REMOTE, SPLIT, Choices, Trial
from tensorflow_ipu.tuning.stages import stage_split
from tensorflow_ipu.util import op_names

_STATE_NAMES = {
    ON_CHIP: "optimizer state on the chip",
    REMOTE: "offload optimizer state",
    SPLIT: "optimizer state split over replicas",
}
_ACTIVATIONS = {ON_CHIP: "activations on the chip", REMOTE: "offload activations"}


class Guide:
    """Steps from one program to its configurations, in the program's API.

    Args:
        plan: of the program as it is.
        found: section and layer of its ops; None to find them.
    """

    def __init__(self, plan: Plan, found: Structure | None = None) -> None:
        self._plan = plan
        self._found = structure(plan.workload) if found is None else found
        self._words = instructions.instructions_for(plan.workload)
        self._sources = layer_sources(plan.workload, self._found)

    def steps(self, trial: Trial) -> tuple[RemedyStep, ...]:
        """Returns the changes that lead to a configuration.

        Args:
            trial: the configuration.
        """
        return tuple(_Writer(self._plan, self._found, self._words, self._sources, trial).steps())


def layer_sources(workload: Workload, found: Structure) -> dict[str, str]:
    """Returns the user's line of each layer, where it is known.

    Args:
        workload: the program.
        found: section and layer of its ops.
    """
    counted: dict[str, dict[str, int]] = {}
    for op, section, layer in zip(workload.ops, found.sections, found.layer_of):
        named = 0 <= layer < len(found.layers) and section == FORWARD
        if named and op.source and op.type != op_names.INFEED:
            lines = counted.setdefault(found.layers[layer], {})
            lines[op.source] = lines.get(op.source, 0) + 1
    # The first of the most frequent ones.
    return {layer: max(lines, key=lambda line: lines[line]) for layer, lines in counted.items()}


class _Writer:
    """Writer of the steps of one configuration."""

    def __init__(
        self,
        plan: Plan,
        found: Structure,
        said: Instructions,
        sources: Mapping[str, str],
        trial: Trial,
    ) -> None:
        self._plan, self._found, self._words, self._sources = plan, found, said, sources
        self._trial = trial
        self._choices = trial.choices

    def steps(self) -> Iterator[RemedyStep]:
        """Yields the changes."""
        choices, said = self._choices, self._words
        if choices.precision is not None:
            yield RemedyStep("float16", said.precision())
        if choices.partials is not None:
            yield said.partials()._replace(name="sums of products in float16")
        if choices.batch is not None:
            yield self._batch(choices.batch)
        if choices.recompute is not None:
            name = "recompute activations" if choices.recompute else "keep activations"
            yield said.recompute(choices.recompute)._replace(name=name)
        if choices.shards is not None:
            yield self._shards()
        yield from self._pipeline() if self._is_piped() else self._accumulation()
        yield from self._proportions()
        if choices.replicas is not None:
            yield self._replicas(choices.replicas)

    def _is_piped(self) -> bool:
        return self._trial.plan.workload.pipeline is not None

    def _ipus(self) -> int:
        """Returns the number of IPUs of a process."""
        settings = self._trial.plan.settings
        return reserved_ipus(self._trial.plan.workload.ipus) * settings.local_replicas

    def _batch(self, size: int) -> RemedyStep:
        before = self._plan.workload.batch
        lines = tuple(
            f"{line}{_at(_line_of(self._plan.workload, op_names.INFEED))}"
            for line in self._words.batch(size)
        )
        return RemedyStep(f"mini-batches of {size} in place of {before}", lines)

    def _shards(self) -> RemedyStep:
        parts = self._trial.parts
        said = stage_split.lines("shard", parts, self._sources)
        step = self._words.shards(said, self._ipus())
        return step._replace(name=f"shards on {len(parts)} IPUs")

    def _state(self) -> PipelineChange:
        state = self._choices.optimizer_state
        if state is None:
            return PipelineChange()
        return PipelineChange(remote_state=state != ON_CHIP, split_state=state == SPLIT or None)

    def _accumulation(self) -> Iterator[RemedyStep]:
        """Yields the step for gradient accumulation and optimizer state without a pipeline."""
        state, factor = self._choices.optimizer_state, self._choices.count
        now = max(1, self._found.mini_batches // self._found.updates)
        count = self._choices.mini_batches or int(now * (factor or 1))
        counted = factor is not None or self._choices.mini_batches is not None
        names = [] if state is None else [_STATE_NAMES[state]]
        if counted:
            names.insert(0, f"{count} mini-batches for an update in place of {now}")
        if names:
            where = self._state()
            if counted and state is None and not self._found.accumulated:
                where = dataclasses.replace(where, remote_state=True)
            lines = self._words.accumulation(count, where)
            place = _at(_update_line(self._plan.workload))
            yield RemedyStep(" and ".join(names), tuple(f"{line}{place}" for line in lines))

    def _pipeline(self) -> Iterator[RemedyStep]:
        """Yields one step with all options of the pipeline, which are set in one call."""
        choices = self._choices
        change = dataclasses.replace(
            self._state(),
            schedule=choices.schedule,
            split_weights=None if choices.weights is None else True,
            remote_activations=None
            if choices.activations is None
            else choices.activations == REMOTE,
        )
        names = []
        pipeline = self._trial.plan.workload.pipeline
        if choices.stages is not None and pipeline is not None:
            names.append(f"pipeline with {choices.stages} stage{'s'[: choices.stages != 1]}")
            change = dataclasses.replace(
                change,
                stages=tuple(stage_split.lines("stage", self._trial.parts, self._sources)),
                schedule=pipeline.schedule.name,
                count=pipeline.count,
                ipus=self._ipus(),
            )
            # The default has to be written if other options are set, too.
            if self._plan.workload.pipeline is None and change.remote_state is None:
                change = dataclasses.replace(change, remote_state=True)
        elif self._counted() and pipeline is not None:
            change = dataclasses.replace(change, count=pipeline.count)
        names += self._pipeline_names(choices, change.count)
        if names:
            yield self._words.pipeline(change)._replace(name=", ".join(names))

    def _counted(self) -> bool:
        """Returns whether an update takes another number of mini-batches."""
        return self._choices.count is not None or self._choices.mini_batches is not None

    def _pipeline_names(self, choices: Choices, count: int | None) -> Iterator[str]:
        if choices.schedule is not None:
            yield f"{choices.schedule} schedule"
        if self._counted():
            yield f"{count} mini-batches for an update"
        if choices.optimizer_state is not None:
            yield _STATE_NAMES[choices.optimizer_state]
        if choices.weights is not None:
            yield "weights split over replicas"
        if choices.activations is not None:
            yield _ACTIVATIONS[choices.activations]

    def _proportions(self) -> Iterator[RemedyStep]:
        kinds = ("convolution", "matmul", "slice")
        values = {
            kind: value
            for kind in kinds
            if (value := getattr(self._choices, f"{kind}_proportion")) is not None
        }
        if values:
            said = ", ".join(f"{value:g} for {kind}s" for kind, value in values.items())
            now = self._plan.settings
            less = all(v < getattr(now, f"{kind}_proportion") for kind, v in values.items())
            word = "smaller" if less else "other"
            name = f"{word} temporaries (availableMemoryProportion {said})"
            yield self._words.proportions(values)._replace(name=name)

    def _replicas(self, number: int) -> RemedyStep:
        name = f"{number} replica{'s'[: number != 1]} in place of {self._plan.settings.replicas}"
        instances = self._plan.settings.instances
        if instances > 1:
            name += f", {number // instances} in each of {instances} instances"
        return self._words.ipus(self._ipus())._replace(name=name)


def _at(source: str) -> str:
    """Returns the place of a line in the program as a comment behind code."""
    return f"  # {source}" if source else ""


def _line_of(workload: Workload, op_type: str) -> str:
    """Returns the user's line of the first op of a type."""
    return next((op.source for op in workload.ops if op.type == op_type and op.source), "")


def _update_line(workload: Workload) -> str:
    """Returns the user's line of the weight update."""
    return next((op.source for op in workload.ops if op.phase == UPDATE and op.source), "")
