"""The table of the options of a session: default, type and effect of each."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

from tensorflow_ipu.frontends.popart import enums
from tensorflow_ipu.frontends.popart.locations import TensorLocationSettings
from tensorflow_ipu.frontends.popart.options import settings


class Effect(enum.Enum):
    """What an option does.

    Attributes:
        VALUES: It changes what is computed.
        PLAN: On the chip it changes only memory and time; here it has no effect yet, which is said
            once.
        STORED: It is kept, and has no effect anywhere but in the original's tools.
        MISSING: It would change what is computed, and is not there yet: sessions refuse it.
    """

    VALUES = "values"
    PLAN = "plan"
    STORED = "stored"
    MISSING = "missing"


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a session.

    Args:
        name: its name.
        default: makes its default.
        effect: what it does.
    """

    name: str
    default: Callable[[], Any]
    effect: Effect


V, P, S, M = Effect.VALUES, Effect.PLAN, Effect.STORED, Effect.MISSING

# Name -> default or what makes it, effect.
_ROWS: dict[str, tuple[Any, Effect]] = {
    "accumulateOuterFragmentSettings": (settings.AccumulateOuterFragmentSettings, P),
    "accumulationAndReplicationReductionType": (enums.ReductionType.Sum, V),
    "accumulationFactor": (1, V),
    "accumulatorTensorLocationSettings": (TensorLocationSettings, P),
    "activationTensorLocationSettings": (TensorLocationSettings, P),
    "aliasZeroCopy": (False, P),
    "autoRecomputation": (enums.RecomputationType.NoRecompute, P),
    "automaticLossScalingSettings": (settings.AutomaticLossScalingSettings, V),
    "batchSerializationSettings": (settings.BatchSerializationSettings, P),
    "bufferingDepthMap": (dict, P),
    "cachePath": ("session_cache", V),
    "compileEngine": (True, V),
    "constantWeights": (True, V),
    "convolutionOptions": (dict, P),
    "createImplicitPipeliningFwdOnlyProgram": (False, M),
    "customCodeletCompileFlags": ("", S),
    "customCodelets": (list, S),
    "decomposeGradSum": (False, P),
    "defaultBufferingDepth": (1, P),
    "delayVarUpdates": (True, P),
    "disableGradAccumulationTensorStreams": (False, V),
    "disableOptimizerStateTensorStreams": (False, V),
    "dotChecks": (set, S),
    "dotOpNames": (False, S),
    "enableConstantFoldingOfMultipleConsumers": (True, P),
    "enableDistributedReplicatedGraphs": (False, M),
    "enableEfficientOverlapIOTopoCons": (False, P),
    "enableEngineCaching": (False, V),
    "enableExplicitMainLoops": (False, P),
    "enableFloatingPointChecks": (False, M),
    "enableFullyConnectedPass": (True, P),
    "enableGradientAccumulation": (False, V),
    "enableInplaceAmbiguityChecking": (False, S),
    "enableLoadAndOffloadRNGState": (False, V),
    "enableMergeExchange": (True, P),
    "enableNonStableSoftmax": (False, V),
    "enableOutlining": (True, P),
    "enableOutliningCopyCostPruning": (True, P),
    "enablePipelining": (False, P),
    "enablePrefetchDatastreams": (True, P),
    "enableReplicatedGraphs": (False, V),
    "enableStableNorm": (False, P),
    "enableStochasticRounding": (False, V),
    "enableSupportedDataTypeCasting": (True, V),
    "enableVariablesCaching": (True, V),
    "engineOptions": (dict, P),
    "ensureFp32LossScaleTensor": (False, M),
    "executionPhaseSettings": (settings.ExecutionPhaseSettings, P),
    "experimentalSettings": (settings.ExperimentalSettings, S),
    "explicitRecomputation": (False, P),
    "exportPoplarComputationGraph": (False, S),
    "exportPoplarVertexGraph": (False, S),
    "finalDotOp": (10000, S),
    "firstDotOp": (0, S),
    "gclOptions": (dict, P),
    "globalReplicaOffset": (0, M),
    "globalReplicationFactor": (1, M),
    "groupHostSync": (False, P),
    "groupNormStridedChannelGrouping": (False, V),
    "hardwareInstrumentations": (lambda: {enums.Instrumentation.Outer}, V),
    "instrumentWithHardwareCycleCounter": (False, V),
    "kahnTieBreaker": ("greedy", S),
    "logDir": ("", S),
    "lstmOptions": (dict, P),
    "matmulOptions": (dict, P),
    "meanAccumulationAndReplicationReductionStrategy": (enums.MeanReductionStrategy.Post, V),
    "mergeVarUpdate": (enums.MergeVarUpdateType.Off, P),
    "mergeVarUpdateMemThreshold": (1000000, P),
    "numIOTiles": (0, P),
    "optimizerStateTensorLocationSettings": (TensorLocationSettings, P),
    "opxAliasChecking": (False, S),
    "opxModifyChecking": (False, S),
    "outlineSequenceBreakCost": (10000.0, P),
    "outlineThreshold": (1.0, P),
    "partialsTypeMatMuls": ("", P),
    "rearrangeAnchorsOnHost": (True, P),
    "rearrangeStreamsOnHost": (False, P),
    "replicatedCollectivesSettings": (settings.ReplicatedCollectivesSettings, P),
    "replicatedGraphCount": (1, V),
    "reportOptions": (dict, P),
    "scheduleNonWeightUpdateGradientConsumersEarly": (False, P),
    "separateCallOpPdfs": (True, S),
    "serializedPoprithmsAnnealGraphsDir": ("", S),
    "serializedPoprithmsShiftGraphsDir": ("", S),
    "stashAllTensorsInferencePipeline": (False, P),
    "strictOpVersions": (True, V),
    "subgraphCopyingStrategy": (enums.SubgraphCopyingStrategy.OnEnterAndExit, P),
    "swapLimitScheduler": (1000000000, S),
    "syntheticDataMode": (enums.SyntheticDataMode.Off, M),
    "tensorLocationSettingsOverride": (dict, P),
    "throwIfLog2ScaleTensorNotInRange": (True, S),
    "timeLimitScheduler": (1e9, S),
    "transitiveClosureOptimizationThreshold": (100000, S),
    "updatableNamedBuffers": (list, S),
    "useHostCopyOps": (False, P),
    "useLoopCandidateCreator": (False, P),
    "virtualGraphMode": (enums.VirtualGraphMode.Off, V),
    "virtualGraphSplitRatios": (list, P),
    "weightTensorLocationSettings": (TensorLocationSettings, P),
}


def _maker(default: Any) -> Callable[[], Any]:
    return default if callable(default) else lambda: default


OPTIONS = {name: Option(name, _maker(row[0]), row[1]) for name, row in _ROWS.items()}
