"""The pipeline of a Program, checked, with its schedule."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tensorflow.python.framework import errors

from tensorflow_ipu.compiler.ir.program import PIPELINE_ATTRIBUTE, Program, at_node
from tensorflow_ipu.planner import schedule
from tensorflow_ipu.runtime.attachment import System
from tensorflow_ipu.util.short_repr import shows


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
