"""`SessionOptions`: the options by name that `ir._pb_ir.getSessionOptions()` returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorflow_ipu.frontends.common import executable_cache
from tensorflow_ipu.frontends.common.enums import (
    Instrumentation,
    MeanReductionStrategy,
    MergeVarUpdateType,
    RecomputationType,
    ReductionType,
    SubgraphCopyingStrategy,
    SyntheticDataMode,
    VirtualGraphMode,
)
from tensorflow_ipu.frontends.common.locations import TensorLocationSettings
from tensorflow_ipu.frontends.common.option_groups import (
    FORMER_NAMES,
    AccumulateOuterFragmentSettings,
    AutomaticLossScalingSettings,
    BatchSerializationSettings,
    ExecutionPhaseSettings,
    ExperimentalSettings,
    ReplicatedCollectivesSettings,
)
from tensorflow_ipu.frontends.popxl.core.shapes import as_int
from tensorflow_ipu.util.notices import warn_once

_PROPORTION, _PARTIALS = "availableMemoryProportion", "partialsType"
_SUMS = {"half": "float16", "float": "float32"}

#: Options that reach plans, with their defaults.
_PLANNED: Mapping[str, Any] = {
    "numIOTiles": 0,
    "partialsTypeMatMuls": "",
    "convolutionOptions": {},
    "matmulOptions": {},
    "enableOutlining": True,
    "enablePrefetchDatastreams": True,
}
#: Options that change what a session computes, or refuses, with their defaults.
_COMPUTED: Mapping[str, Any] = {
    "enableStochasticRounding": False,
    "enableInplaceAmbiguityChecking": True,
    "throwIfLog2ScaleTensorNotInRange": True,
}
#: Options for the number of replicas: of this process, and of all.
_REPLICAS: Mapping[str, Any] = {
    "enableReplicatedGraphs": False,
    "replicatedGraphCount": 1,
    "enableDistributedReplicatedGraphs": False,
    "globalReplicationFactor": 1,
    "globalReplicaOffset": 0,
}
#: Options of files: the cache of compiled programs, and drawings. Their defaults or makers.
_OF_FILES: Mapping[str, Any] = {
    "cachePath": "session_cache",
    "dotChecks": set,
    "dotOpNames": False,
    "enableEngineCaching": False,
    "enableVariablesCaching": False,
    "engineOptions": dict,
    "finalDotOp": 10000,
    "firstDotOp": 0,
    "logDir": "",
}
#: Options for which there is nothing to do here: logs, code and the order of work.
_WITHOUT_EFFECT: Mapping[str, Any] = {
    "aliasZeroCopy": True,
    "compileEngine": True,
    "customCodeletCompileFlags": "",
    "customCodelets": list,
    "decomposeGradSum": True,
    "enableConstantFoldingOfMultipleConsumers": True,
    "enableExplicitMainLoops": True,
    "enableMergeExchange": True,
    "explicitPipelining": False,
    "explicitRecomputation": True,
    "exportPoplarComputationGraph": False,
    "exportPoplarVertexGraph": False,
    "gclOptions": dict,
    "groupHostSync": False,
    "groupNormOptions": dict,
    "instrumentWithHardwareCycleCounter": False,
    "kahnTieBreaker": "greedy",
    "lstmOptions": dict,
    "opxAliasChecking": False,
    "opxModifyChecking": False,
    "outlineSequenceBreakCost": 10000.0,
    "outlineThreshold": 1.0,
    "reductionOptions": dict,
    "reportOptions": dict,
    "separateCallOpPdfs": True,
    "serializedPoprithmsAnnealGraphsDir": "",
    "serializedPoprithmsShiftGraphsDir": "",
    "strictOpVersions": True,
    "swapLimitScheduler": 1000000000,
    "timeLimitScheduler": 1e9,
    "transitiveClosureOptimizationThreshold": 100000,
    "useHostCopyOps": True,
    "useLoopCandidateCreator": False,
    "virtualGraphMode": VirtualGraphMode.Manual,
}
#: Options that are kept, with a warning: in the original they change values, memory or time.
_IGNORED: Mapping[str, Any] = {
    "accumulateOuterFragmentSettings": AccumulateOuterFragmentSettings,
    "accumulationAndReplicationReductionType": ReductionType.Sum,
    "accumulationFactor": 1,
    "accumulatorTensorLocationSettings": TensorLocationSettings,
    "activationTensorLocationSettings": TensorLocationSettings,
    "autoRecomputation": RecomputationType.NoRecompute,
    "automaticLossScalingSettings": AutomaticLossScalingSettings,
    "batchSerializationSettings": BatchSerializationSettings,
    "bufferingDepthMap": dict,
    "constantWeights": True,
    "createImplicitPipeliningFwdOnlyProgram": False,
    "defaultBufferingDepth": 1,
    "delayVarUpdates": True,
    "disableGradAccumulationTensorStreams": False,
    "disableOptimizerStateTensorStreams": False,
    "enableEfficientOverlapIOTopoCons": False,
    "enableFloatingPointChecks": False,
    "enableFullyConnectedPass": True,
    "enableGradientAccumulation": False,
    "enableLoadAndOffloadRNGState": False,
    "enableNonStableSoftmax": False,
    "enableOutliningCopyCostPruning": True,
    "enablePipelining": False,
    "enableStableNorm": False,
    "enableSupportedDataTypeCasting": True,
    "ensureFp32LossScaleTensor": False,
    "executionPhaseSettings": ExecutionPhaseSettings,
    "experimentalSettings": ExperimentalSettings,
    "groupNormStridedChannelGrouping": False,
    "hardwareInstrumentations": lambda: {Instrumentation.Outer},
    "meanAccumulationAndReplicationReductionStrategy": MeanReductionStrategy.Post,
    "mergeVarUpdate": MergeVarUpdateType.Off,
    "mergeVarUpdateMemThreshold": 1000000,
    "optimizerStateTensorLocationSettings": TensorLocationSettings,
    "rearrangeAnchorsOnHost": True,
    "rearrangeStreamsOnHost": False,
    "replicatedCollectivesSettings": ReplicatedCollectivesSettings,
    "scheduleNonWeightUpdateGradientConsumersEarly": False,
    "stashAllTensorsInferencePipeline": False,
    "subgraphCopyingStrategy": SubgraphCopyingStrategy.OnEnterAndExit,
    "syntheticDataMode": SyntheticDataMode.Off,
    "tensorLocationSettingsOverride": dict,
    "updatableNamedBuffers": list,
    "virtualGraphSplitRatios": list,
    "weightTensorLocationSettings": TensorLocationSettings,
}
_SILENT = {**_PLANNED, **_COMPUTED, **_REPLICAS, **_OF_FILES, **_WITHOUT_EFFECT}
#: The default of each option.
DEFAULTS: Mapping[str, Any] = {**_SILENT, **_IGNORED}


class SessionOptions:
    """Options of a session, which are attributes. Set them before the session is made.

    Options that are unknown here are kept, with one warning each: they have no effect.
    """

    def __init__(self) -> None:
        """Starts with the defaults."""
        for name in DEFAULTS:
            object.__setattr__(self, name, _default(name))
        folder = executable_cache.folder_of_environment()
        if folder:
            self.enableEngineCaching, self.cachePath = True, folder

    def __repr__(self) -> str:
        return f"SessionOptions[{', '.join(f'{k}={v!r}' for k, v in self.changed().items())}]"

    def changed(self) -> dict[str, Any]:
        """Returns the options that do not have their defaults, by name."""
        return {k: v for k, v in vars(self).items() if k not in DEFAULTS or v != _default(k)}

    def changed_in_program(self) -> dict[str, Any]:
        """Returns the changed options that the compiled program may depend on."""
        others = _OF_FILES.keys() - {"engineOptions"}
        return {k: v for k, v in self.changed().items() if k not in others}

    def __setattr__(self, name: str, value: Any) -> None:
        name = FORMER_NAMES.get(name, name)
        if name not in _SILENT:
            _warn(name)
        object.__setattr__(self, name, value)

    def warn_of_ignored(self) -> None:
        """Warns of each option without effect that a program has changed, also field by field."""
        for name in self.changed().keys() & _IGNORED.keys():
            _warn(name)

    def __getattr__(self, name: str) -> Any:
        # Options that nobody has set: containers of the original are filled in place.
        if name in FORMER_NAMES:
            return getattr(self, FORMER_NAMES[name])
        if name.startswith("_"):
            raise AttributeError(name)
        if name.endswith("Options"):
            object.__setattr__(self, name, {})
            return vars(self)[name]
        raise AttributeError(
            f"The session option {name!r} is not set, and its default is not known here."
        )

    def enableExplicitIR(self, value: bool) -> None:  # noqa: N802
        """Sets the three options that make copies, loops and recomputation ops of the graph.

        Args:
            value: their value.
        """
        for name in ("useHostCopyOps", "enableExplicitMainLoops", "explicitRecomputation"):
            setattr(self, name, value)

    def value(self, name: str) -> Any:
        """Returns an option.

        Args:
            name: its name, one that has an effect.
        """
        return vars(self)[name]

    def getGlobalReplicationFactor(self) -> int:  # noqa: N802
        """Returns the number of replicas of all processes."""
        return self.replicas[1]

    @property
    def replicas(self) -> tuple[int, int]:
        """Number of replicas of this process, and of all."""
        own = self.value("replicatedGraphCount") if self.value("enableReplicatedGraphs") else 1
        if self.value("enableDistributedReplicatedGraphs"):
            return own, self.value("globalReplicationFactor")
        return own, own

    def set_replicas(self, total: int, instances: int, index: int) -> None:
        """Sets the options for the number of replicas.

        Args:
            total: number of replicas of all processes.
            instances: number of processes.
            index: number of this process.
        """
        own = total // instances
        self.enableReplicatedGraphs, self.replicatedGraphCount = own > 1, own
        self.enableDistributedReplicatedGraphs = instances > 1
        self.globalReplicationFactor = total if instances > 1 else 1
        self.globalReplicaOffset = own * index

    def check_matmul_sums(self) -> None:
        """Refuses a type of the partial sums of matmuls that does not exist.

        Raises:
            ValueError: If `partialsTypeMatMuls` is such.
        """
        sums = self.value("partialsTypeMatMuls")
        if sums:
            _type_of_sums(sums)

    def planned(self) -> dict[str, Any]:
        """Returns the attributes of the planner's Settings that the options set.

        Raises:
            ValueError: If a value is none that the option may have.
        """
        found: dict[str, Any] = {}
        tiles = as_int(self.value("numIOTiles"))
        if tiles is None or tiles < 0:
            raise ValueError(
                f"numIOTiles must be a number of tiles. Received: {self.value('numIOTiles')!r}"
            )
        if tiles:
            found["io_tiles"] = tiles
        for option, attribute in (
            ("enableOutlining", "outlining"),
            ("enablePrefetchDatastreams", "prefetch"),
        ):
            if not self.value(option):
                found[attribute] = False
        for library in ("convolution", "matmul"):
            given = self.value(f"{library}Options")
            if _PROPORTION in given:
                found[f"{library}_proportion"] = float(given[_PROPORTION])
            sums = given.get(_PARTIALS, "")
            if library == "matmul":
                sums = self.value("partialsTypeMatMuls") or sums
            if sums:
                found[f"{library}_partials"] = _type_of_sums(sums)
        return found


def _warn(name: str) -> None:
    """Warns once that an option has no effect."""
    known = "" if name in DEFAULTS else ": it is not known"
    warn_once("The session option %s has no effect here%s.", name, known)


def _default(name: str) -> Any:
    """The default of an option; a new container each time."""
    value = DEFAULTS[name]
    if isinstance(value, dict):
        return dict(value)
    return value() if callable(value) else value


def _type_of_sums(name: Any) -> str:
    """The type of partial sums that an option names."""
    found = _SUMS.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        raise ValueError(
            f"The type of partial sums must be one of {', '.join(_SUMS)}. Received: {name!r}"
        )
    return found


class PbIr:
    """The supported part of the original's `ir._pb_ir`: the session options."""

    def __init__(self) -> None:
        """Makes options with the defaults."""
        self._options = SessionOptions()

    def __repr__(self) -> str:
        return f"PbIr[{self._options!r}]"

    def getSessionOptions(self) -> SessionOptions:  # noqa: N802
        """Returns the session options, to be set by attribute."""
        return self._options
