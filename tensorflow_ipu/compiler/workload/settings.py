"""Converts a configuration to the planner's Settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorflow_ipu.compiler.analysis.pipeline_plan import PipelinePlan
from tensorflow_ipu.configs import partials
from tensorflow_ipu.device.system import System
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
    """Returns what a program is planned for.

    Args:
        system: what was configured when the program was compiled.
        ordinal: of the device `/device:IPU:<ordinal>` that it was compiled for.
        replicas: how many copies of it run at once.
        pipeline: its pipeline, None without one.
    """
    config = system.settings
    convolutions = _library(config.convolutions.poplar_options, "convolution")
    matmuls = _library(config.matmuls.poplar_options, "matmul")
    slices = _library(config.slices.poplar_options, "slice")
    slices.pop("slice_partials", None)  # sums in slices are of the type of the data
    return Settings(
        chip=system.device(ordinal).chip,
        replicas=replicas,
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
        **convolutions,
        **matmuls,
        **slices,
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


def _library(options: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """Arguments of Settings from the options of one library."""
    found: dict[str, Any] = {}
    if _PROPORTION in options:
        found[f"{prefix}_proportion"] = float(options[_PROPORTION])
    if partials.OPTION in options:
        found[f"{prefix}_partials"] = partials.OF_OPTION[options[partials.OPTION]]
    return found
