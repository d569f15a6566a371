"""`Settings`: the chip, the replicas and the options that a Workload is planned for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.util.short_repr import short_repr


@dataclasses.dataclass(frozen=True)
class Settings:
    """The chip, replicas and options that a Workload is planned for.

    Attributes:
        chip: The chip, with the number of tiles to use.
        replicas: Copies of the program that run at once, in all instances.
        instances: Processes that run the program together, with as many replicas each.
        io_tiles: Tiles of each IPU that only move data.
        place_ops_on_io_tiles: Whether feeds and remote buffers go through the I/O tiles.
        io_memory_proportion: Part of the memory of I/O tiles that may hold data.
        recompute: Whether activations may be recomputed in the backward pass.
        ordering: Name of a `SchedulingAlgorithm`, such as `CHOOSE_BEST`.
        convolution_proportion: `availableMemoryProportion` of convolutions.
        matmul_proportion: `availableMemoryProportion` of matrix multiplications.
        slice_proportion: `availableMemoryProportion` of gathers and scatters.
        stage_options: For each pipeline stage and phase (`forward`, `backward`) the library options
            that override the above: `{(stage, phase): {"availableMemoryProportion": "0.2"}}`. With
            `convolutions.` or `matmuls.` in front of its name an option applies to these ops only.
        convolution_partials: Type of sums of float16 products in convolutions, `float16` or
            `float32`.
        matmul_partials: Type of sums of float16 products in matrix multiplications.
        outlining: Whether equal parts of the program share code.
        merged_bytes: Most bytes of collectives and copies that are merged into one, by the name of
            the option, such as `maximum_cross_replica_sum_buffer_size`.
        prefetch: Whether infeed data is fetched while the program runs.
        stage_devices: IPU of each pipeline stage, to move stages; None leaves them.
        offload_activations: Whether the stashes of a pipeline are in streaming memory.
        minimum_remote_bytes: Least size of a variable that a change puts in streaming memory.
    """

    chip: Chip = chips.DEFAULT
    replicas: int = 1
    instances: int = 1
    io_tiles: int = 0
    place_ops_on_io_tiles: bool = False
    io_memory_proportion: float = 0.9
    recompute: bool = False
    ordering: str = "CHOOSE_BEST"
    convolution_proportion: float = 0.6
    matmul_proportion: float = 0.6
    slice_proportion: float = 0.6
    stage_options: Mapping[tuple[int, str], Mapping[str, str]] = dataclasses.field(
        default_factory=dict
    )
    convolution_partials: str = "float32"
    matmul_partials: str = "float32"
    outlining: bool = True
    merged_bytes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    prefetch: bool = True
    stage_devices: tuple[int, ...] | None = None
    offload_activations: bool = False
    minimum_remote_bytes: int = 128

    def __repr__(self) -> str:
        """Shows chip, replicas, and other values that differ from the defaults."""
        defaults = Settings()
        shown = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name in ("chip", "replicas")
            or getattr(self, field.name) != getattr(defaults, field.name)
        }
        return short_repr(type(self).__name__, shown)

    @property
    def compute_tiles(self) -> int:
        """Tiles of each IPU that compute."""
        return self.chip.tiles - self.io_tiles

    @property
    def local_replicas(self) -> int:
        """Replicas of each instance."""
        return self.replicas // self.instances

    @property
    def division(self) -> str:
        """The division of the replicas among instances, as words for a table; empty for one."""
        if self.instances == 1:
            return ""
        return f"{self.local_replicas} in each of {self.instances} instances"

    def replace(self, **changes: Any) -> Settings:
        """Returns settings with some attributes changed."""
        return dataclasses.replace(self, **changes)
