"""Pipelines and gradient accumulation of a Program: schedule, and memory that is offloaded."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import errors

from tensorflow_ipu.compiler.ir.program import (
    ACCUMULATION_ATTRIBUTE,
    MEMORY_ATTRIBUTE,
    PIPELINE_ATTRIBUTE,
    Program,
    at_node,
)
from tensorflow_ipu.planner import schedule
from tensorflow_ipu.runtime.attachment import System
from tensorflow_ipu.util.short_repr import shows

#: Options that move tensors to remote memory.
OFFLOADS = (
    "offload_weight_update_variables",
    "offload_activations",
    "offload_gradient_accumulation_buffers",
    "offload_weights",
)

Options = Mapping[str, "bool | None"]
# The names of the states in the configurations of saved optimizers.
_STATE_NAMES = {True: "THREESTATE_ON", False: "THREESTATE_OFF", None: "THREESTATE_UNDEFINED"}


class RemoteMemory(NamedTuple):
    """Whether a configuration allows remote memory, and for tensors of which size.

    Args:
        available: whether programs may use it.
        minimum_bytes: the least size of a variable that is put there.
    """

    available: bool
    minimum_bytes: int

    @classmethod
    def of(cls, attached: System) -> RemoteMemory:
        """Returns the remote memory of a configuration.

        Args:
            attached: the configuration.
        """
        minimum: int = attached.settings.optimizations.minimum_remote_tensor_size
        return cls(attached.remote_buffers, minimum)


def check_options(memory: Options) -> None:
    """Checks the memory options of a gradient accumulation or a pipeline for themselves.

    Args:
        memory: the options that there are, each None, True or False: `offload_...` for
            `weight_update_variables`, `activations`, `gradient_accumulation_buffers` and
            `weights`; `replicated_optimizer_state_sharding` and `replicated_weight_sharding`.

    Raises:
        TypeError: If a value is something else.
        ValueError: If optimizer state is to be split, but not offloaded.
        tf.errors.UnimplementedError: If weights are to be split, but not offloaded.
    """
    for name, value in memory.items():
        if not isinstance(value, (bool, type(None))):
            raise TypeError(f"{name} must be None, True or False. Received: {value!r}")
    sharded = memory.get("replicated_optimizer_state_sharding")
    if sharded and memory.get("offload_weight_update_variables") is False:
        raise ValueError(
            "The optimizer state must be offloaded for replicated_optimizer_state_sharding=True, "
            "which splits variables in remote memory, but offload_weight_update_variables=False "
            "keeps them out of it. Set both or neither."
        )
    if memory.get("replicated_weight_sharding") and memory.get("offload_weights") is False:
        raise weights_not_offloaded("offload_weights is False")


def state(name: str, value: bool | str | None) -> bool | None:
    """Returns the state that a user passes for an option.

    Args:
        name: name of the option.
        value: None, True or False, or the name of such a state: see `state_name`.

    Raises:
        TypeError: If it is something else.
    """
    for known, called in _STATE_NAMES.items():
        if value is known or value == called:
            return known
    raise TypeError(
        f"{name} must be None, True or False, or the name of one of these states: "
        f"{', '.join(_STATE_NAMES.values())}. Received: {value!r}"
    )


def state_name(value: bool | None) -> str:
    """Returns the name of a state in configurations of optimizers: THREESTATE_ON for True."""
    return _STATE_NAMES[value]


def weights_not_offloaded(why: str) -> errors.UnimplementedError:
    """Returns the error for weights that are split without being offloaded.

    Args:
        why: the reason why they are not offloaded.
    """
    return errors.UnimplementedError(
        None,
        None,
        "replicated_weight_sharding=True is implemented for weights in remote memory only, and "
        f"{why}. Set offload_weights=True too, or do not split the weights.",
    )


def of_update(node: node_def_pb2.NodeDef) -> Options | None:
    """Returns the memory options of the update that an op is part of, None when there are none."""
    if MEMORY_ATTRIBUTE not in node.attr:
        return None
    options: Options = json.loads(node.attr[MEMORY_ATTRIBUTE].s)
    return options


def descriptions(program: Program) -> list[dict[str, Any]]:
    """Returns the descriptions of gradient accumulations and pipelines."""
    return [
        json.loads(node.attr[attribute].s)
        for _, node in program.nodes()
        for attribute in (ACCUMULATION_ATTRIBUTE, PIPELINE_ATTRIBUTE)
        if attribute in node.attr
    ]


def of_pipeline(program: Program) -> Options:
    """Returns the memory options of the pipeline; `serialized` is whether it serializes batches."""
    for description in descriptions(program):
        if "description" in description:
            pipeline = json.loads(description["description"])
            serialized = pipeline.get("batch_serialization_iterations", 1) > 1
            return {**description["memory"], "serialized": serialized}
    return {}


# --- The schedule of a pipeline ---


@dataclasses.dataclass(frozen=True)
class PipelinePlan:
    """The pipeline of a compiled program: its description, schedule and options.

    Attributes:
        name: Name that the user gave it.
        stages: Names of the functions of each stage; several for a parallel stage.
        schedule: Which stage of which mini-batch is on which IPU at which time step.
        options: Poplar options of the parts: `forward` and `backward` for each stage, `update`.
        offload_activations: Whether stashed activations are in remote memory.
    """

    name: str
    stages: tuple[tuple[str, ...], ...]
    schedule: schedule.Schedule
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    offload_activations: bool = False

    __repr__ = shows(
        lambda self: {
            "": self.name,
            "stages": len(self.stages),
            "ipus_of_stages": self.schedule.description.ipus_of_stages,
            "schedule": self.schedule.description.schedule,
            "steps": self.schedule.steps,
        }
    )

    def __str__(self) -> str:
        """Returns the stages, then the schedule as a grid."""
        mapping = self.schedule.description.ipus_of_stages
        lines = [f"pipeline {self.name}"]
        for index, (functions, ipus) in enumerate(zip(self.stages, mapping)):
            places = ", ".join(str(ipu) for ipu in ipus)
            lines.append(f"  stage {index}: {', '.join(functions)} on IPU {places}")
        return "\n".join([*lines, str(self.schedule)])


def plan(program: Program, attached: System) -> PipelinePlan | None:
    """Returns the plan of a Program's pipeline, or None if it has none.

    Args:
        program: the Program.
        attached: the configuration that it is compiled for.

    Raises:
        tf.errors.FailedPreconditionError: If there are several pipelines, or the number of
            mini-batches does not suit the schedule.
        tf.errors.UnimplementedError: If the schedule cannot recompute in the mode asked for.
    """
    nodes = [(f, node) for f, node in program.nodes() if PIPELINE_ATTRIBUTE in node.attr]
    found = [json.loads(node.attr[PIPELINE_ATTRIBUTE].s) for _, node in nodes]
    if not found:
        return None
    if len(found) > 1:
        names = ", ".join(attribute["name"] for attribute in found)
        places = [at_node(node.name, function.signature.name) for function, node in nodes]
        raise errors.FailedPreconditionError(
            None,
            None,
            "Only a single ipu.pipeline() is allowed in a compiled program. Received "
            f"{len(found)}: {names}. Compile each in a program of its own.{''.join(places)}",
        )
    attribute = found[0]
    given = schedule.PipelineDescription.from_json(attribute["description"])
    description = _configured(given, attached)
    if description.count == 0:
        # The schedule with the fewest mini-batches stands for the final one.
        description = dataclasses.replace(description, count=schedule.fewest(description))
    schedule.check(description)
    # Either the configuration allows it, or the program asks for it itself.
    if not attached.allow_recompute and not attribute.get("recompute"):
        description = dataclasses.replace(description, recomputation=None)
    return PipelinePlan(
        name=attribute["name"],
        stages=tuple(tuple(functions) for functions in attribute["stages"]),
        schedule=schedule.build(description),
        options=attribute["options"],
        offload_activations=bool(attribute["memory"].get("offload_activations")),
    )


def _configured(
    description: schedule.PipelineDescription, attached: System
) -> schedule.PipelineDescription:
    """Sets whether I/O tiles move data during compute, as the configuration decides."""
    overlap = (
        description.schedule is schedule.PipelineSchedule.Grouped
        and attached.place_ops_on_io_tiles
        and attached.num_io_tiles > 0
    )
    return dataclasses.replace(description, io_overlap=overlap)
