"""Groups of options that are objects of their own."""

from __future__ import annotations

import dataclasses
from typing import Any

from tensorflow_ipu.frontends.popart.enums import (
    AccumulateOuterFragmentSchedule,
    AutodiffStitchStrategy,
    BatchSerializationBatchSchedule,
    BatchSerializationMethod,
    BatchSerializationTransformContext,
    ExecutionPhaseIOSchedule,
    ExecutionPhaseSchedule,
    GradientTensorTrackingMethod,
)


@dataclasses.dataclass
class AccumulateOuterFragmentSettings:
    """How the part of the program outside the accumulation loop is ordered."""

    schedule: AccumulateOuterFragmentSchedule = AccumulateOuterFragmentSchedule.Serial
    excludedVirtualGraphs: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class AutodiffSettings:
    """How backward graphs get values of forward graphs."""

    stitchStrategy: AutodiffStitchStrategy = AutodiffStitchStrategy.RecomputeAllNonInputs


@dataclasses.dataclass
class AutomaticLossScalingSettings:
    """How the loss scale follows the gradients."""

    enabled: bool = False
    toTrackTensors: list[str] | None = None
    binEdgeLocation: float = 0.125
    thresholdUpperCountProportion: float = 1e-7
    updatePeriod: int = 1
    gradientTensorTrackingMethod: GradientTensorTrackingMethod = (
        GradientTensorTrackingMethod.AllNonViewChangingGradientTensors
    )


@dataclasses.dataclass
class BatchSerializationSettings:
    """How ops on batches are split into parts that run one after the other."""

    factor: int = 0
    concatOnVirtualGraphChange: bool = True
    concatOnExecutionPhaseChange: bool = True
    concatOnPipelineStageChange: bool = True
    transformContext: BatchSerializationTransformContext = BatchSerializationTransformContext.Fwd
    method: BatchSerializationMethod = BatchSerializationMethod.UnrollDynamic
    batchSchedule: BatchSerializationBatchSchedule = BatchSerializationBatchSchedule.Isomorphic


@dataclasses.dataclass
class ExecutionPhaseSettings:
    """How a program is divided into phases that are loaded one after the other."""

    phases: int = 0
    stages: int = 2
    weightIOSchedule: ExecutionPhaseIOSchedule = ExecutionPhaseIOSchedule.Preload
    activationIOSchedule: ExecutionPhaseIOSchedule = ExecutionPhaseIOSchedule.Preload
    optimizerStateIOSchedule: ExecutionPhaseIOSchedule = ExecutionPhaseIOSchedule.OnDemand
    accumulatorIOSchedule: ExecutionPhaseIOSchedule = ExecutionPhaseIOSchedule.Preload
    optimizerSchedule: dataclasses.InitVar[ExecutionPhaseSchedule] = (
        ExecutionPhaseSchedule.Interleaving
    )
    schedule: ExecutionPhaseSchedule = dataclasses.field(init=False)

    def __post_init__(self, optimizerSchedule: Any) -> None:
        self.schedule = optimizerSchedule


@dataclasses.dataclass
class ReplicatedCollectivesSettings:
    """Which collectives of replicas are merged."""

    prepareScheduleForMergingCollectives: bool = False
    mergeAllReduceCollectives: bool = False
    mergeReduceScatterCollectives: bool = False
    mergeAllGatherCollectives: bool = False


@dataclasses.dataclass
class ExperimentalSettings:
    """Options that may go again."""

    customTransformApplierSettings: dict[str, Any] = dataclasses.field(default_factory=dict)
    createHostTransferableTensorWithOffset: bool = False
