"""`SessionOptions`: one table of all options with their effects; planner settings made of them."""

from __future__ import annotations

import copy
import dataclasses
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorflow_ipu.frontends.common import enums, executable_cache, option_groups
from tensorflow_ipu.frontends.common.enums import DeviceType
from tensorflow_ipu.frontends.common.locations import TensorLocationSettings
from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.common.option_groups import FORMER_NAMES
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.util.notices import warn_once

# --- The table of options ---


class Effect(enum.Enum):
    """Effect of an option.

    Attributes:
        VALUES: It changes results, state or refusals.
        PLAN: It changes memory and time in the plan, and no values.
        IGNORED: On the chip it changes memory and time; here nothing, which is said once.
        STORED: It is kept, and has no effect but in the original's own tools.
    """

    VALUES = "values"
    PLAN = "plan"
    IGNORED = "ignored with one warning"
    STORED = "stored"


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a session.

    Args:
        name: its name.
        default: makes its default.
        effect: its effect.
        doc: its purpose.
    """

    name: str
    default: Callable[[], Any]
    effect: Effect
    doc: str


V, P, W, S = Effect.VALUES, Effect.PLAN, Effect.IGNORED, Effect.STORED


# Name -> default or its factory, effect, meaning.
_ROWS: dict[str, tuple[Any, Effect, str]] = {
    "accumulateOuterFragmentSettings": (
        option_groups.AccumulateOuterFragmentSettings,
        V,
        "order of the updates of pipelines; clip norms need another one than Serial",
    ),
    "accumulationAndReplicationReductionType": (
        enums.ReductionType.Sum,
        V,
        "whether gradients of micro-batches and replicas are summed or averaged",
    ),
    "accumulationFactor": (1, V, "micro-batches of a batch"),
    "accumulatorTensorLocationSettings": (TensorLocationSettings, P, "memory of accumulators"),
    "activationTensorLocationSettings": (
        TensorLocationSettings,
        P,
        "memory of the stashes of a pipeline",
    ),
    "aliasZeroCopy": (False, W, "whether values stay in place between parts of the program"),
    "autoRecomputation": (
        enums.RecomputationType.NoRecompute,
        P,
        "whether the backward pass computes activations again",
    ),
    "automaticLossScalingSettings": (
        option_groups.AutomaticLossScalingSettings,
        V,
        "how the loss scale follows float16 gradients",
    ),
    "batchSerializationSettings": (
        option_groups.BatchSerializationSettings,
        W,
        "whether ops split the batch into parts",
    ),
    "bufferingDepthMap": (dict, W, "how far single inputs are read ahead"),
    "cachePath": ("session_cache", V, "folder of the cache of compiled programs"),
    "compileEngine": (True, V, "whether `prepareDevice` compiles"),
    "constantWeights": (True, V, "whether weights never change in inference"),
    "convolutionOptions": (
        dict,
        P,
        "options of convolutions: `availableMemoryProportion` is planned with",
    ),
    "createImplicitPipeliningFwdOnlyProgram": (
        False,
        V,
        "whether there is a second program, of the forward passes only",
    ),
    "customCodeletCompileFlags": ("", S, "flags for code of custom ops"),
    "customCodelets": (list, S, "code of custom ops"),
    "decomposeGradSum": (False, W, "whether gradients of one tensor are added one by one"),
    "defaultBufferingDepth": (1, W, "how far inputs are read ahead"),
    "delayVarUpdates": (True, W, "whether updates come as late as possible"),
    "disableGradAccumulationTensorStreams": (False, V, "whether accumulators stay on the device"),
    "disableOptimizerStateTensorStreams": (False, V, "whether optimizer state stays on the device"),
    "dotChecks": (set, V, "checkpoints whose drawings of the graph are written"),
    "dotOpNames": (False, V, "whether drawings have names"),
    "enableConstantFoldingOfMultipleConsumers": (
        True,
        W,
        "whether constants with several uses are folded",
    ),
    "enableDistributedReplicatedGraphs": (False, V, "whether replicas run in several processes"),
    "enableEfficientOverlapIOTopoCons": (False, W, "order of transfers beside computation"),
    "enableEngineCaching": (False, V, "whether compiled programs are kept in files"),
    "enableExplicitMainLoops": (
        False,
        S,
        "whether loops over micro-batches are ops of the graph: they always are here",
    ),
    "enableFloatingPointChecks": (
        False,
        V,
        "whether invalid operations, divisions by zero and overflows stop a run",
    ),
    "enableFullyConnectedPass": (True, W, "whether the three products of a layer share a layout"),
    "enableGradientAccumulation": (False, V, "whether gradients of micro-batches are added up"),
    "enableInplaceAmbiguityChecking": (
        False,
        S,
        "whether ambiguous modifications in place are looked for: there are none here",
    ),
    "enableLoadAndOffloadRNGState": (
        False,
        V,
        "whether the state of generators can be read and written",
    ),
    "enableMergeExchange": (True, W, "whether exchanges are merged"),
    "enableNonStableSoftmax": (False, V, "whether softmax does not subtract the maximum"),
    "enableOutlining": (True, P, "whether equal parts of the program share code"),
    "enableOutliningCopyCostPruning": (True, W, "whether copies count where code is shared"),
    "enablePipelining": (
        False,
        P,
        "whether the stages of a model are a pipeline; values are those of sequential execution",
    ),
    "enablePrefetchDatastreams": (True, P, "whether inputs are read while the program runs"),
    "enableReplicatedGraphs": (False, V, "whether the model is replicated"),
    "enableStableNorm": (False, S, "whether variances take two passes: they always do here"),
    "enableStochasticRounding": (False, V, "whether float16 results are rounded stochastically"),
    "enableSupportedDataTypeCasting": (True, V, "whether integers of 64 bits are kept in 32"),
    "enableVariablesCaching": (True, V, "whether files of the cache have weights"),
    "engineOptions": (
        dict,
        V,
        "options of the engine: `autoReport.*` write reports; unknown groups of them are refused",
    ),
    "ensureFp32LossScaleTensor": (
        False,
        V,
        "whether the scale of a float16 loss is kept in float32",
    ),
    "executionPhaseSettings": (
        option_groups.ExecutionPhaseSettings,
        P,
        "phases of the program, and the IPUs that they take turns on",
    ),
    "experimentalSettings": (option_groups.ExperimentalSettings, S, "options that may go again"),
    "explicitRecomputation": (False, S, "whether recomputation is ops of the graph"),
    "exportPoplarComputationGraph": (
        False,
        S,
        "whether a file of the computation graph is written",
    ),
    "exportPoplarVertexGraph": (False, S, "whether a file of the vertices is written"),
    "finalDotOp": (10000, V, "last op of drawings"),
    "firstDotOp": (0, V, "first op of drawings"),
    "gclOptions": (dict, W, "options of collectives"),
    "globalReplicaOffset": (0, V, "number of the first replica of this process"),
    "globalReplicationFactor": (1, V, "replicas of all processes"),
    "groupHostSync": (False, W, "whether transfers of one kind wait for each other"),
    "groupNormStridedChannelGrouping": (
        False,
        V,
        "whether channels go round-robin into groups of group norm",
    ),
    "hardwareInstrumentations": (
        lambda: {enums.Instrumentation.Outer},
        V,
        "scope of cycle counters",
    ),
    "instrumentWithHardwareCycleCounter": (False, V, "whether `getCycleCount` can be called"),
    "kahnTieBreaker": ("greedy", S, "order of ops that nothing else orders"),
    "logDir": ("", V, "folder of drawings"),
    "lstmOptions": (dict, W, "options of LSTM layers"),
    "matmulOptions": (
        dict,
        P,
        "options of matrix products: `availableMemoryProportion` is planned with",
    ),
    "meanAccumulationAndReplicationReductionStrategy": (
        enums.MeanReductionStrategy.Post,
        V,
        "when a mean is divided: rounding differs",
    ),
    "mergeVarUpdate": (
        enums.MergeVarUpdateType.Off,
        W,
        "whether updates of several weights are one op",
    ),
    "mergeVarUpdateMemThreshold": (1000000, W, "up to which size they are"),
    "numIOTiles": (0, P, "tiles that only move data"),
    "optimizerStateTensorLocationSettings": (
        TensorLocationSettings,
        P,
        "memory of optimizer state",
    ),
    "opxAliasChecking": (False, V, "whether aliases of ops in C++ are checked"),
    "opxModifyChecking": (False, V, "whether modifications by ops in C++ are checked"),
    "outlineSequenceBreakCost": (10000.0, W, "how parts of the program that share code are chosen"),
    "outlineThreshold": (1.0, W, "how parts of the program that share code are chosen"),
    "partialsTypeMatMuls": ("", V, "type in which float16 matrix products add: half or float"),
    "rearrangeAnchorsOnHost": (True, W, "where the layout of anchors changes"),
    "rearrangeStreamsOnHost": (False, W, "where the layout of inputs changes"),
    "replicatedCollectivesSettings": (
        option_groups.ReplicatedCollectivesSettings,
        W,
        "which collectives are merged",
    ),
    "replicatedGraphCount": (1, V, "replicas, if the model is replicated"),
    "reportOptions": (dict, W, "options of reports of the original"),
    "scheduleNonWeightUpdateGradientConsumersEarly": (False, W, "order of ops that use gradients"),
    "separateCallOpPdfs": (True, S, "whether subgraphs have drawings of their own"),
    "serializedPoprithmsAnnealGraphsDir": ("", S, "folder for graphs of the scheduler"),
    "serializedPoprithmsShiftGraphsDir": ("", V, "folder for a file of the order of nodes"),
    "stashAllTensorsInferencePipeline": (False, W, "stashes of pipelines of inference"),
    "strictOpVersions": (True, V, "whether ops have to be of the version that the opset has"),
    "subgraphCopyingStrategy": (
        enums.SubgraphCopyingStrategy.OnEnterAndExit,
        W,
        "when inputs of calls are copied",
    ),
    "swapLimitScheduler": (1000000000, S, "effort of the scheduler"),
    "syntheticDataMode": (
        enums.SyntheticDataMode.Off,
        V,
        "whether made-up data take the place of transfers from and to the host",
    ),
    "tensorLocationSettingsOverride": (dict, P, "memory of single tensors"),
    "throwIfLog2ScaleTensorNotInRange": (True, S, "whether scales of 8-bit floats are checked"),
    "timeLimitScheduler": (1e9, S, "effort of the scheduler"),
    "transitiveClosureOptimizationThreshold": (100000, S, "effort of the scheduler"),
    "updatableNamedBuffers": (list, S, "buffers that PopXL may update"),
    "useHostCopyOps": (False, S, "whether transfers are ops of the graph: they always are here"),
    "useLoopCandidateCreator": (False, W, "layout of values that loops carry"),
    "virtualGraphMode": (enums.VirtualGraphMode.Off, V, "how nodes come to IPUs"),
    "virtualGraphSplitRatios": (list, P, "how much of the model each IPU gets with Auto"),
    "weightTensorLocationSettings": (TensorLocationSettings, P, "memory of weights"),
}


def _maker(default: Any) -> Callable[[], Any]:
    return default if callable(default) else lambda: default


OPTIONS = {name: Option(name, _maker(row[0]), *row[1:]) for name, row in _ROWS.items()}


def _property(name: str) -> property:
    """Makes the property of an option; it refuses values of other types."""
    expected = type(OPTIONS[name].default())

    def read(self: SessionOptions) -> Any:
        return self._values[name]

    def write(self: SessionOptions, value: Any) -> None:
        fits = isinstance(value, expected) and not (
            isinstance(value, bool) and expected is not bool
        )
        if not fits and not (expected is float and isinstance(value, int)):
            raise TypeError(
                f"SessionOptions.{name}: incompatible function arguments. Expected "
                f"{expected.__name__}; received {value!r}."
            )
        self._values[name] = value

    return property(read, write, doc=f"The option {name} ({OPTIONS[name].effect.value}).")


def _alias(name: str, target: str) -> property:
    """Returns the property of a former name of an option."""

    def write(self: SessionOptions, value: Any) -> None:
        Logger("session").warn(f"SessionOptions.{name} has been deprecated. Use {target}.")
        setattr(self, target, value)

    return property(lambda self: getattr(self, target), write, doc=f"The former name of {target}.")


class _Declared:
    """Gives a class a property for each option of the table."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in OPTIONS:
            setattr(cls, name, _property(name))
        for name, target in FORMER_NAMES.items():
            setattr(cls, name, _alias(name, target))


class SessionOptions(_Declared):
    """The options of a session; each is an attribute."""

    __slots__ = ("_values",)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Stands for the properties of the table."""

    def __init__(self) -> None:
        self._values = {name: option.default() for name, option in OPTIONS.items()}
        folder = executable_cache.folder_of_environment()
        if folder:
            self._values.update(enableEngineCaching=True, cachePath=folder)

    def __repr__(self) -> str:
        return f"SessionOptions[{', '.join(sorted(self.changed())) or 'defaults'}]"

    def changed(self) -> dict[str, Any]:
        """Returns the options that do not have their defaults, by name."""
        return {
            name: value for name, value in self._values.items() if value != OPTIONS[name].default()
        }

    def copied(self) -> SessionOptions:
        """Returns options that later changes of these do not reach."""
        made = SessionOptions()
        made._values = copy.deepcopy(self._values)
        return made

    def enableExplicitIR(self, arg0: bool) -> None:
        """Sets the three options that make copies, loops and recomputation ops of the graph.

        Args:
            arg0: their value.
        """
        for name in ("useHostCopyOps", "enableExplicitMainLoops", "explicitRecomputation"):
            setattr(self, name, arg0)

    def getGlobalReplicationFactor(self) -> int:
        """Returns the number of replicas in all processes."""
        if self._values["enableDistributedReplicatedGraphs"]:
            return int(self._values["globalReplicationFactor"])
        return self.replication_factor

    @property
    def replication_factor(self) -> int:
        """The number of replicas."""
        count = self._values["replicatedGraphCount"]
        return int(count) if self._values["enableReplicatedGraphs"] else 1

    @property
    def accumulation_factor(self) -> int:
        """The number of micro-batches of a batch."""
        count = int(self._values["accumulationFactor"])
        return count if self._values["enableGradientAccumulation"] else 1

    def check_accumulation(self) -> None:
        """Refuses several micro-batches for a batch if accumulation is not enabled.

        Raises:
            popart_exception: If there are several.
        """
        count = int(self._values["accumulationFactor"])
        if count > 1 and not self._values["enableGradientAccumulation"]:
            raise popart_exception(
                "enableGradientAccumulation is false, but accumulationFactor > 1. Received: "
                f"accumulationFactor={count}"
            )

    def warn_of_ignored(self) -> None:
        """Logs each option that has an effect on the chip only."""
        for name in self.changed():
            if OPTIONS[name].effect is Effect.IGNORED:
                warn_once(
                    f"SessionOptions.{name} changes only memory and time on the chip; it has no "
                    "effect on the simulated IPU."
                )


# --- Planner settings ---

_PROPORTION = "availableMemoryProportion"


# Session option with options of a library -> the planner's name of its proportion.
_LIBRARIES = {
    "convolutionOptions": "convolution_proportion",
    "matmulOptions": "matmul_proportion",
}


_PARTIALS = {"": None, "half": "float16", "float": "float32"}


class ProgramOptions(NamedTuple):
    """Options that a program has of its own.

    Args:
        settings: planner settings by names of `planner.settings.Settings`, where that
            differs from the configuration.
        traps: whether floating-point events end it.
    """

    settings: dict[str, Any]
    traps: bool = False


NO_OPTIONS = ProgramOptions({})


def program_options(
    options: SessionOptions, device: DeviceType, recomputes: bool
) -> ProgramOptions:
    """Returns the options of a program that differ from the defaults.

    Args:
        options: the options of the session.
        device: the kind of its device.
        recomputes: whether activations are computed again.

    Raises:
        popart_exception: If an option has a value that is none.
    """
    settings: dict[str, Any] = {}
    if recomputes:
        settings["recompute"] = True
    if not options.enableOutlining:
        settings["outlining"] = False
    if not options.enablePrefetchDatastreams:
        settings["prefetch"] = False
    if options.numIOTiles:
        settings["io_tiles"] = int(options.numIOTiles)
    for name, planned in _LIBRARIES.items():
        given = getattr(options, name).get(_PROPORTION)
        if given is not None:
            settings[planned] = _proportion(name, given)
    partials = partials_of(options.partialsTypeMatMuls)
    if partials is not None:
        settings["matmul_partials"] = partials
    return ProgramOptions(settings, _traps(options, device))


def partials_of(value: str) -> str | None:
    """Returns the type in which matrix products add.

    Args:
        value: the value of `partialsTypeMatMuls`.

    Returns:
        The type; None if it is not said.

    Raises:
        popart_exception: If it is neither half nor float.
    """
    if value.lower() not in _PARTIALS:
        raise popart_exception(
            f"Bad MatMulPartialsType {value!r} in SessionOptions.partialsTypeMatMuls. Expected "
            '"half" or "float".'
        )
    return _PARTIALS[value.lower()]


def _traps(options: SessionOptions, device: DeviceType) -> bool:
    """Returns whether floating-point events stop a program: only hardware does that."""
    if options.enableFloatingPointChecks and device is not DeviceType.Ipu:
        warn_once(
            "SessionOptions.enableFloatingPointChecks has an effect on hardware devices only, and "
            f"this one is of the kind {device}."
        )
        return False
    return bool(options.enableFloatingPointChecks)


def _proportion(name: str, given: Any) -> float:
    """Returns a proportion of memory that is passed as a text."""
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = -1.0
    if not 0 < value <= 1:
        raise popart_exception(
            f"{_PROPORTION} in SessionOptions.{name} must be a number above 0 and at most 1. "
            f"Received: {given!r}"
        )
    return value
