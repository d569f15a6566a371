"""Session options of PopART and PopXL that are objects with fields of their own."""

from __future__ import annotations

import dataclasses
from typing import Any

from tensorflow_ipu.frontends.common.enums import (
    AccumulateOuterFragmentSchedule,
    AutodiffStitchStrategy,
    BatchSerializationBatchSchedule,
    BatchSerializationMethod,
    BatchSerializationTransformContext,
    ExecutionPhaseIOSchedule,
    ExecutionPhaseSchedule,
    GradientTensorTrackingMethod,
)

#: Former names of session options.
FORMER_NAMES = {
    "defaultPrefetchBufferingDepth": "defaultBufferingDepth",
    "prefetchBufferingDepthMap": "bufferingDepthMap",
}


@dataclasses.dataclass
class AccumulateOuterFragmentSettings:
    """How the part of the program outside the accumulation loop is ordered.

    Args:
        schedule: the order of its ops.
        excludedVirtualGraphs: IPUs that it does not hold for.
    """

    schedule: AccumulateOuterFragmentSchedule = AccumulateOuterFragmentSchedule.Serial
    excludedVirtualGraphs: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class AutodiffSettings:
    """How backward graphs get values of forward graphs.

    Args:
        stitchStrategy: which values are kept, and which are computed again.
    """

    stitchStrategy: AutodiffStitchStrategy = AutodiffStitchStrategy.RecomputeAllNonInputs


@dataclasses.dataclass
class AutomaticLossScalingSettings:
    """How the loss scale follows the gradients.

    Args:
        enabled: whether it does.
        toTrackTensors: ids of the tensors whose gradients count; None for all that the method says.
        binEdgeLocation: a gradient above this share of the greatest float16 is a large one.
        thresholdUpperCountProportion: share of large gradients above which the scale is halved.
        updatePeriod: updates of the weights for one of the scale.
        gradientTensorTrackingMethod: which gradients count.
    """

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
    """How ops on batches are split into parts that run one after the other.

    Args:
        factor: number of parts; 0 or 1 for no split.
        concatOnVirtualGraphChange: whether parts are put together where the IPU changes.
        concatOnExecutionPhaseChange: the same where the phase changes.
        concatOnPipelineStageChange: the same where the stage of a pipeline changes.
        transformContext: which graphs are split.
        method: how.
        batchSchedule: the order of the parts.
    """

    factor: int = 0
    concatOnVirtualGraphChange: bool = True
    concatOnExecutionPhaseChange: bool = True
    concatOnPipelineStageChange: bool = True
    transformContext: BatchSerializationTransformContext = BatchSerializationTransformContext.Fwd
    method: BatchSerializationMethod = BatchSerializationMethod.UnrollDynamic
    batchSchedule: BatchSerializationBatchSchedule = BatchSerializationBatchSchedule.Isomorphic


@dataclasses.dataclass
class ExecutionPhaseSettings:
    """How a program is divided into phases that are loaded one after the other.

    Args:
        phases: their number; 0 for none.
        stages: groups of IPUs that take turns.
        weightIOSchedule: when weights are loaded and stored.
        activationIOSchedule: the same of activations.
        optimizerStateIOSchedule: the same of the state of optimizers.
        accumulatorIOSchedule: the same of accumulated gradients.
        optimizerSchedule: how phases overlap; the attribute is `schedule`.
    """

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
    """Which collectives of replicas are merged.

    Args:
        prepareScheduleForMergingCollectives: whether ops are ordered for it.
        mergeAllReduceCollectives: whether all-reduces are merged.
        mergeReduceScatterCollectives: the same of reduce-scatters.
        mergeAllGatherCollectives: the same of all-gathers.
    """

    prepareScheduleForMergingCollectives: bool = False
    mergeAllReduceCollectives: bool = False
    mergeReduceScatterCollectives: bool = False
    mergeAllGatherCollectives: bool = False


@dataclasses.dataclass
class ExperimentalSettings:
    """Options that may go again.

    Args:
        customTransformApplierSettings: names of transforms, by where they are applied.
        createHostTransferableTensorWithOffset: whether tensors of the host begin on another tile.
    """

    customTransformApplierSettings: dict[str, Any] = dataclasses.field(default_factory=dict)
    createHostTransferableTensorWithOffset: bool = False
