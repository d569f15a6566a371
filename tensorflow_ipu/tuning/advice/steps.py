"""Steps from a program to a configuration, with instructions in the API of the program."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.program.structure import FORWARD, UPDATE, Structure, structure
from tensorflow_ipu.planner.time.throughput import reserved_ipus
from tensorflow_ipu.planner.workload import POPART, POPXL, Workload
from tensorflow_ipu.tuning.search.choices import ON_CHIP, REMOTE, SPLIT, Choices, Trial
from tensorflow_ipu.tuning.stages import stage_split
from tensorflow_ipu.util import op_names

# --- Instructions in each API ---


class RemedyStep(NamedTuple):
    """A change of a program.

    Args:
        name: name of the change.
        lines: lines to write by hand.
        options: options of `IPUConfig` to set, with the text of their values.
    """

    name: str
    lines: tuple[str, ...] = ()
    options: Mapping[str, str] = {}

    @property
    def text(self) -> str:
        """The instruction, one or more lines."""
        set_options = (f"config.{name} = {value}" for name, value in self.options.items())
        return "\n".join([*set_options, *self.lines])


@dataclasses.dataclass(frozen=True)
class PipelineChange:
    """Changes of a pipeline; a value of None leaves an option unchanged.

    Attributes:
        stages: A line for each stage, with its layers; empty if they stay.
        count: Mini-batches for one update.
        schedule: Name of the schedule.
        remote_state: Whether the state of the optimizer is in streaming memory.
        split_state: Whether it is split over the replicas.
        split_weights: Whether the weights are, in streaming memory.
        remote_activations: Whether stashes are in streaming memory.
        ipus: IPUs of a process.
    """

    stages: tuple[str, ...] = ()
    count: int | None = None
    schedule: str | None = None
    remote_state: bool | None = None
    split_state: bool | None = None
    split_weights: bool | None = None
    remote_activations: bool | None = None
    ipus: int = 0


class Instructions:
    """Instructions for programs of TensorFlow or Keras."""

    #: Prefix of a line about a stage.
    stage = "stage"

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def precision(self) -> tuple[str, ...]:
        """Returns the instruction for float16 data and variables."""
        return (
            'tf.keras.backend.set_floatx("float16") before the model is made, or dtype=tf.float16 '
            "for data and variables",
        )

    def recompute(self, wanted: bool) -> RemedyStep:
        """Returns the instruction for recomputed activations, or for kept ones."""
        return RemedyStep("", options={"allow_recompute": str(wanted)})

    def partials(self) -> RemedyStep:
        """Returns the instruction for float16 sums of float16 products."""
        return RemedyStep(
            "",
            options={
                f'{library}.poplar_options["partialsType"]': '"half"'
                for library in ("convolutions", "matmuls")
            },
        )

    def proportions(self, values: Mapping[str, float]) -> RemedyStep:
        """Returns the instruction for the part of a tile's memory that temporaries may take.

        Args:
            values: the part, by the kind of ops: `matmul`, `convolution` or `slice`.
        """
        return RemedyStep(
            "",
            options={
                f'{kind}s.poplar_options["availableMemoryProportion"]': f'"{value}"'
                for kind, value in values.items()
            },
        )

    def ipus(self, number: int) -> RemedyStep:
        """Returns the instruction for a number of IPUs, which decides the number of replicas."""
        return RemedyStep("", options={"auto_select_ipus": str(number)})

    def batch(self, size: int) -> tuple[str, ...]:
        """Returns the instruction for a mini-batch size."""
        return (f"dataset.batch({size}, drop_remainder=True)",)

    def accumulation(self, count: int, state: PipelineChange) -> tuple[str, ...]:
        """Returns the instruction for an update of several mini-batches, without a pipeline.

        Args:
            count: mini-batches for an update.
            state: the memory of the optimizer's state.
        """
        more = _joined(_state(state))
        graphs = (
            "graphs: ipu.optimizers.GradientAccumulationOptimizerV2(optimizer, "
            f"num_mini_batches={count}{more})"
        )
        if count == 1:
            return (graphs,)  # Keras has no such option for updates after each mini-batch
        keras = f"gradient_accumulation_steps_per_replica={count}{more}"
        return graphs, f"Keras: model.set_gradient_accumulation_options({keras})"

    def pipeline(self, change: PipelineChange) -> RemedyStep:
        """Returns the instruction for a new or changed pipeline."""
        common = []
        if change.schedule is not None:
            schedule = f"ipu.pipelining_ops.PipelineSchedule.{change.schedule}"
            common.append(f"pipeline_schedule={schedule}")
        common += _state(change)
        if change.split_weights is not None:
            common += [f"offload_weights={change.split_weights}"]
            common += [f"replicated_weight_sharding={change.split_weights}"]
        if change.remote_activations is not None:
            common.append(f"offload_activations={change.remote_activations}")
        graphs, keras = common[:], common[:]
        if change.count is not None:
            graphs.insert(0, f"gradient_accumulation_count={change.count}")
            keras.insert(0, f"gradient_accumulation_steps_per_replica={change.count}")
        if not change.stages:
            return RemedyStep(
                "",
                (
                    f"Keras: model.set_pipelining_options({', '.join(keras)}, ...)",
                    f"graphs: ipu.pipelining_ops.pipeline(..., {', '.join(graphs)})",
                ),
            )
        functions = ", ".join(f"stage_{index}" for index in range(len(change.stages)))
        rest = (
            *change.stages,
            "Keras: make the layers of a stage in `with ipu.keras.PipelineStage(stage):`, then",
            f"  model.set_pipelining_options({', '.join(keras)})",
            f"graphs: ipu.pipelining_ops.pipeline([{functions}], {', '.join(graphs)}, ...)",
        )
        options = {"auto_select_ipus": str(change.ipus)} if change.ipus else {}
        return RemedyStep("", rest, options)

    def shards(self, lines: Sequence[str], ipus: int) -> RemedyStep:
        """Returns the instruction for layers on several IPUs.

        Args:
            lines: a line for each shard, with its layers.
            ipus: IPUs of a process.
        """
        scope = "graphs: make the layers of a shard in `with ipu.scopes.ipu_shard(shard):`"
        return RemedyStep("", (*lines, scope), {"auto_select_ipus": str(ipus)})


class PopxlInstructions(Instructions):
    """Instructions for programs of PopXL and its addons."""

    _OPTIONS = "ir._pb_ir.getSessionOptions()"

    def precision(self) -> tuple[str, ...]:
        """Returns the instruction for float16 data and variables."""
        return ("popxl.float16 for streams, variables and factories of variables",)

    def recompute(self, wanted: bool) -> RemedyStep:
        """Returns the instruction for recomputed activations, or for kept ones."""
        backward = "addons.autodiff(forward)"
        backward = f"addons.recompute_graph({backward})" if wanted else backward
        return RemedyStep("", (f"backward = {backward}",))

    def partials(self) -> RemedyStep:
        """Returns the instruction for float16 sums of float16 products."""
        lines = (
            f'{self._OPTIONS}.partialsTypeMatMuls = "half"',
            f'{self._OPTIONS}.convolutionOptions["partialsType"] = "half"',
        )
        return RemedyStep("", lines)

    def proportions(self, values: Mapping[str, float]) -> RemedyStep:
        """Returns the instruction for the part of a tile's memory that temporaries may take."""
        lines = [
            f'{self._OPTIONS}.{kind}Options["availableMemoryProportion"] = "{value}"'
            for kind, value in values.items()
            if kind != "slice"
        ]
        lines += [
            f"or available_memory_proportion={value} for single ops ({kind})"
            for kind, value in values.items()
        ]
        return RemedyStep("", tuple(lines))

    def ipus(self, number: int) -> RemedyStep:
        """Returns the instruction for the replicas of a number of IPUs."""
        return RemedyStep("", (f"ir.replication_factor for {number} IPUs",))

    def batch(self, size: int) -> tuple[str, ...]:
        """Returns the instruction for a micro-batch size."""
        return (f"streams of {size} elements",)

    def accumulation(self, count: int, state: PipelineChange) -> tuple[str, ...]:
        """Returns the instruction for an update of several micro-batches, without a pipeline."""
        lines = self._state(state)
        if count > 1:
            lines.append(
                f"{count} micro-batches for an update: addons.autodiff_with_accumulation, "
                "ir.num_host_transfers"
            )
        return tuple(lines)

    def pipeline(self, change: PipelineChange) -> RemedyStep:
        """Returns the instruction for a new or changed pipeline."""
        lines = list(change.stages)
        count = f"{change.count}" if change.count is not None else "steps"
        if change.stages or change.count is not None:
            lines += [
                f"with addons.pipelined_execution({count}) as pipeline:",
                "    with pipeline.stage(i), popxl.ipu(i):  # makes and calls its graphs",
            ]
        if change.stages:
            lines.append("Backward passes are further stages, on the IPUs of their forward passes.")
        lines += self._state(change)
        if change.split_weights:
            lines.append(
                "addons.add_replica_sharded_variable_input, and "
                "rts.all_gather_replica_sharded_graph"
            )
        if change.remote_activations:
            lines.append("ops.remote_store of activations, ops.remote_load before they are used")
        return RemedyStep("", tuple(lines))

    def shards(self, lines: Sequence[str], ipus: int) -> RemedyStep:
        """Returns the instruction for layers on several IPUs."""
        scope = "with popxl.ipu(i):  # makes and calls its graphs; copy_to_ipu between IPUs"
        return RemedyStep("", (*lines, scope))

    def _state(self, change: PipelineChange) -> list[str]:
        """Returns the lines for optimizer state in remote buffers, whole or split over replicas."""
        if change.split_state:
            return [
                "addons.named_variable_buffers(factories, shard_groups=...), with gradients from",
                "ops.collectives.replicated_reduce_scatter(..., "
                "configure_output_for_replicated_tensor_sharding=True)",
            ]
        if change.remote_state:
            return [
                "buffers = addons.named_variable_buffers(factories)",
                "factories.init_remote(buffers)",
                "addons.load_remote_graph before the update, addons.store_remote_graph after it",
            ]
        return [] if change.remote_state is None else ["factories.init() for optimizer state"]


class PopartInstructions(Instructions):
    """Instructions for programs of PopART."""

    def precision(self) -> tuple[str, ...]:
        """Returns the instruction for float16 data and variables."""
        return ('"FLOAT16" in the TensorInfo of inputs, and weights of np.float16',)

    def recompute(self, wanted: bool) -> RemedyStep:
        """Returns the instruction for recomputed activations, or for kept ones."""
        kind = "Standard" if wanted else "NoRecompute"
        return RemedyStep("", (f"options.autoRecomputation = popart.RecomputationType.{kind}",))

    def partials(self) -> RemedyStep:
        """Returns the instruction for float16 sums of float16 products."""
        return RemedyStep(
            "",
            (
                'options.partialsTypeMatMuls = "half"',
                'options.convolutionOptions = {"partialsType": "half"}',
            ),
        )

    def proportions(self, values: Mapping[str, float]) -> RemedyStep:
        """Returns the instruction for the part of a tile's memory that temporaries may take."""
        lines = [
            f'options.{kind}Options = {{"availableMemoryProportion": "{value}"}}'
            for kind, value in values.items()
            if kind != "slice"
        ]
        if "slice" in values:
            lines.append(
                f"builder.setAvailableMemoryProportion(output, {values['slice']}) for gathers"
            )
        return RemedyStep("", tuple(lines))

    def ipus(self, number: int) -> RemedyStep:
        """Returns the instruction for the replicas of a number of IPUs."""
        lines = (
            f"popart.DeviceManager().acquireAvailableDevice({number})",
            "options.enableReplicatedGraphs = True; options.replicatedGraphCount = ...",
        )
        return RemedyStep("", lines)

    def batch(self, size: int) -> tuple[str, ...]:
        """Returns the instruction for a micro-batch size."""
        return (f"a first dimension of {size} in the TensorInfo of inputs",)

    def accumulation(self, count: int, state: PipelineChange) -> tuple[str, ...]:
        """Returns the instruction for an update of several micro-batches, without a pipeline."""
        lines = self._state(state)
        return tuple([*lines, *self._count(count)] if count > 1 else lines)

    def pipeline(self, change: PipelineChange) -> RemedyStep:
        """Returns the instruction for a new or changed pipeline."""
        lines = list(change.stages)
        if change.stages:
            lines += [
                "with builder.virtualGraph(stage), builder.pipelineStage(stage):  # its nodes",
                "options.virtualGraphMode = popart.VirtualGraphMode.Manual",
                "options.enablePipelining = True",
                f"popart.DeviceManager().acquireAvailableDevice({change.ipus})",
            ]
        if change.count is not None:
            lines += self._count(change.count)
        lines += self._state(change)
        for name, wanted in (
            ("weight", change.split_weights),
            ("activation", change.remote_activations),
        ):
            if wanted is not None:
                lines += _location(name, remote=wanted, split=wanted and name == "weight")
        return RemedyStep("", tuple(lines))

    def shards(self, lines: Sequence[str], ipus: int) -> RemedyStep:
        """Returns the instruction for layers on several IPUs."""
        return RemedyStep(
            "",
            (
                *lines,
                "with builder.virtualGraph(shard):  # its nodes",
                "options.virtualGraphMode = popart.VirtualGraphMode.Manual",
                f"popart.DeviceManager().acquireAvailableDevice({ipus})",
            ),
        )

    def _count(self, count: int) -> list[str]:
        return [
            "options.enableGradientAccumulation = True",
            f"options.accumulationFactor = {count}",
        ]

    def _state(self, change: PipelineChange) -> list[str]:
        if change.remote_state is None:
            return []
        return _location("optimizerState", change.remote_state, bool(change.split_state))


def instructions_for(workload: Workload) -> Instructions:
    """Returns the instructions in the API of a program.

    Args:
        workload: the program.
    """
    known: dict[str, type[Instructions]] = {POPXL: PopxlInstructions, POPART: PopartInstructions}
    return known.get(workload.api, Instructions)()


def _location(name: str, remote: bool, split: bool) -> list[str]:
    """Returns the lines that put a kind of PopART tensors into a memory."""
    settings = f"options.{name}TensorLocationSettings.location"
    storage = "OffChip" if remote else "OnChip"
    lines = [f"{settings}.storage = popart.TensorStorage.{storage}"]
    if split:
        sharding = "popart.ReplicatedTensorSharding.On"
        lines.append(f"{settings}.replicatedTensorSharding = {sharding}")
    return lines


def _state(change: PipelineChange) -> list[str]:
    """Returns the arguments for the memory of the optimizer's state."""
    found = []
    if change.remote_state is not None:
        found.append(f"offload_weight_update_variables={change.remote_state}")
    if change.split_state:
        found.append("replicated_optimizer_state_sharding=True")
    return found


def _joined(arguments: Sequence[str]) -> str:
    """Returns arguments as text behind other arguments."""
    return "".join(f", {argument}" for argument in arguments)


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
        self._words = instructions_for(plan.workload)
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
