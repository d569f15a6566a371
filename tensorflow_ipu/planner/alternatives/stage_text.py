"""Writes the code for a split into stages that users put into their program."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow_ipu.planner.alternatives.stage_split import Split, Stage

# Layers of a stage that are named; of more, the first and the last are.
_NAMED = 3


def pipeline(split: Split, ipus: int, replicas: int) -> str:
    """Returns what to write for a pipeline.

    Args:
        split: the stages.
        ipus: IPUs that a replica occupies.
        replicas: how many a process has.
    """
    functions = ", ".join(f"stage_{index}" for index in range(len(split.stages)))
    schedule = f"ipu.pipelining_ops.PipelineSchedule.{split.schedule}"
    return "\n".join(
        [
            f"config.auto_select_ipus = {ipus * replicas}",
            *lines("stage", split.stages),
            "Keras: make the layers of a stage in `with ipu.keras.PipelineStage(stage):`, then",
            f"  model.set_pipelining_options(gradient_accumulation_steps_per_replica={split.count}"
            f", pipeline_schedule={schedule})",
            f"graphs: ipu.pipelining_ops.pipeline([{functions}], gradient_accumulation_count="
            f"{split.count}, pipeline_schedule={schedule}, ...)",
            "The optimizer state goes to streaming memory, as it does unless "
            "offload_weight_update_variables=False.",
        ]
    )


def shards(split: Split, ipus: int, replicas: int) -> str:
    """Returns what to write for shards.

    Args:
        split: the stages that become shards.
        ipus: IPUs that a replica occupies.
        replicas: how many a process has.
    """
    return "\n".join(
        [
            f"config.auto_select_ipus = {ipus * replicas}",
            *lines("shard", split.stages),
            "graphs: make the layers of a shard in `with ipu.scopes.ipu_shard(shard):`",
        ]
    )


def layers(names: Sequence[str]) -> str:
    """Returns the names of some layers, or the ends of a long list of them."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{names[0]} to {names[-1]} ({len(names)} layers)"


def lines(word: str, stages: Sequence[Stage]) -> list[str]:
    """Returns a line for each stage with its layers.

    Args:
        word: what stages are called.
        stages: the stages.
    """
    return [f"{word} {index}: {layers(stage.layers)}" for index, stage in enumerate(stages)]
