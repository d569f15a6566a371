"""`Step`: what one run of a program does, as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tensorflow_ipu.frontends.common.replica_groups import ReplicaGrouping
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.enums import SyntheticDataMode
from tensorflow_ipu.frontends.popart.lowering.schedules import PLAIN, Schedule
from tensorflow_ipu.frontends.popart.lowering.training import Training
from tensorflow_ipu.frontends.popart.model.imports import Model
from tensorflow_ipu.frontends.popart.ops.kinds import Numerics
from tensorflow_ipu.frontends.popart.options.planned import NO_OPTIONS, ProgramOptions
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo


@dataclasses.dataclass(frozen=True)
class Step:
    """What one run of a program does.

    Attributes:
        model: What it computes.
        data_flow: Batches, and what comes to the host.
        infos: Shape and type of each tensor.
        accumulation: Micro-batches of a batch.
        replicas: Number of replicas, in all processes.
        schedule: Where nodes run, and which memory variables are in.
        training: How weights are trained; None for inference.
        numerics: Options that change what ops compute.
        is_rounded_stochastically: Whether results in float16 are.
        groupings: The groups of replicas of variables of which they have values of their own.
        tracked: The tensors whose gradients the loss scale follows.
        options: What the program is planned for, where the configuration does not say it.
        synthetic: What takes the place of data from the host.
        is_forward_only: Whether weights are not updated although the model is trained.
        local_replicas: Number of replicas in this process.
    """

    model: Model
    data_flow: DataFlow
    infos: Mapping[str, TensorInfo]
    accumulation: int = 1
    replicas: int = 1
    schedule: Schedule = PLAIN
    training: Training | None = None
    numerics: Numerics = Numerics()
    is_rounded_stochastically: bool = False
    groupings: Mapping[str, ReplicaGrouping] = dataclasses.field(default_factory=dict)
    tracked: tuple[str, ...] = ()
    options: ProgramOptions = NO_OPTIONS
    synthetic: SyntheticDataMode = SyntheticDataMode.Off
    is_forward_only: bool = False
    local_replicas: int = 1

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a run, for each replica."""
        return self.data_flow.batchesPerStep() * self.accumulation
