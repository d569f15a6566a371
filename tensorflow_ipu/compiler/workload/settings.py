"""The planner's Settings for a configuration."""

from __future__ import annotations

from typing import Any

from tensorflow_ipu.compiler.analysis.pipeline_plan import PipelinePlan
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.device.attachment import System
from tensorflow_ipu.planner.settings import Settings

#: Options that merge transfers, as `Settings.merged_bytes` names them.
MERGING = (
    "maximum_cross_replica_sum_buffer_size",
    "maximum_reduce_scatter_buffer_size",
    "maximum_inter_ipu_copies_buffer_size",
    "maximum_send_recv_cluster_size",
    "maximum_reduce_many_buffer_size",
    "maximum_all_gather_buffer_size",
)
_PROPORTION = "availableMemoryProportion"
_UPDATE = "update"


def settings_of(
    system: System, ordinal: int, replicas: int, pipeline: PipelinePlan | None
) -> Settings:
    """Returns the planner's Settings for a program.

    Args:
        system: the configuration that the program was compiled for.
        ordinal: of the device `/device:IPU:<ordinal>` that it was compiled for.
        replicas: its replicas in all processes.
        pipeline: its pipeline, None without one.
    """
    config = system.settings
    return Settings(
        chip=system.device(ordinal).chip,
        replicas=replicas,
        instances=system.process_count,
        io_tiles=system.num_io_tiles,
        place_ops_on_io_tiles=system.place_ops_on_io_tiles,
        io_memory_proportion=config.io_tiles.available_memory_proportion,
        recompute=system.allow_recompute,
        ordering=config.scheduling.algorithm.name,
        stage_options={} if pipeline is None else stage_options(pipeline),
        offload_activations=pipeline is not None and pipeline.offload_activations,
        outlining=config.optimizations.enable_graph_outlining,
        merged_bytes={name: getattr(config.optimizations, name) for name in MERGING},
        prefetch=config.optimizations.prefetch_data_streams,
        minimum_remote_bytes=config.optimizations.minimum_remote_tensor_size,
        **_proportions(config),
        **_partials(system),
    )


def stage_options(pipeline: PipelinePlan) -> dict[tuple[int, str], dict[str, str]]:
    """Returns the library options of each part of a pipeline that has some.

    An option has the name of its library in front of it, `convolutions.` or `matmuls.`.

    Args:
        pipeline: the pipeline. The options of its update hold for the update of each stage.
    """
    found = {}
    for phase, stages in pipeline.options.items():
        parts = [stages] * len(pipeline.stages) if phase == _UPDATE else stages
        for stage, part in enumerate(parts):
            options = {
                f"{library}.{name}": value
                for library, given in part.items()
                for name, value in given.items()
            }
            if options:
                found[stage, phase] = options
    return found


def _proportions(config: IPUConfig) -> dict[str, Any]:
    """Returns arguments of Settings for the memory of ops, where an option sets it."""
    given = {
        "convolution_proportion": config.convolutions.poplar_options.get(_PROPORTION),
        "matmul_proportion": config.matmuls.poplar_options.get(_PROPORTION),
        "slice_proportion": config.slices.poplar_options.get(_PROPORTION),
    }
    return {name: float(value) for name, value in given.items() if value is not None}


def _partials(system: System) -> dict[str, Any]:
    """Returns arguments of Settings for the types of sums, where an option sets it."""
    given = {
        "convolution_partials": system.partials_type("convolutions"),
        "matmul_partials": system.partials_type("matmuls"),
    }
    return {name: value for name, value in given.items() if value is not None}
