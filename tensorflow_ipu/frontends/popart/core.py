"""Names of the compiled part of PopART: the module `popart_core`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorflow_ipu.frontends.common import enums as _enums
from tensorflow_ipu.frontends.common.locations import (
    TensorLocation,
    TensorLocationSettings,
    VariableSettings,
)
from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.common.option_groups import (
    AccumulateOuterFragmentSettings,
    AutodiffSettings,
    AutomaticLossScalingSettings,
    BatchSerializationSettings,
    ExecutionPhaseSettings,
    ExperimentalSettings,
    ReplicatedCollectivesSettings,
)
from tensorflow_ipu.frontends.common.replica_groups import CommGroup, ReplicaGrouping
from tensorflow_ipu.frontends.popart import errors as _errors
from tensorflow_ipu.frontends.popart import onnx_model as _reserved
from tensorflow_ipu.frontends.popart.builder.core import BuilderCore
from tensorflow_ipu.frontends.popart.builder.graphcore import AiGraphcoreOpset1
from tensorflow_ipu.frontends.popart.builder.model_tools import GraphTransformer, NumericsReport
from tensorflow_ipu.frontends.popart.builder.opsets import OPSETS as _OPSETS
from tensorflow_ipu.frontends.popart.dataflow import AnchorReturnType, DataFlow, InputSettings
from tensorflow_ipu.frontends.popart.debug_info import (
    DebugContext,
    DebugInfo,
    SourceLocation,
    closePoplarDebugInfo,
    initializePoplarDebugInfo,
)
from tensorflow_ipu.frontends.popart.devices import DeviceInfo, DeviceManager
from tensorflow_ipu.frontends.popart.ops.registry import (
    OpDefinition,
    OperatorIdentifier,
    getSupportedOperations,
    getSupportedOperationsDefinition,
    getUnsupportedOperations,
)
from tensorflow_ipu.frontends.popart.optimizers.adaptive import Adam, Adaptive
from tensorflow_ipu.frontends.popart.optimizers.optimizer import (
    ClipNormSettings,
    Optimizer,
    OptimizerValue,
    OptimizerValueMap,
)
from tensorflow_ipu.frontends.popart.optimizers.sgd import SGD, ConstSGD
from tensorflow_ipu.frontends.popart.patterns import Patterns
from tensorflow_ipu.frontends.popart.session.inference import InferenceSessionCore
from tensorflow_ipu.frontends.popart.session.training import TrainingSessionCore
from tensorflow_ipu.frontends.popart.session_options import SessionOptions
from tensorflow_ipu.frontends.popart.stepio import (
    InputShapeInfo,
    IStepIO,
    IWeightsIO,
    PyStepIO,
    PyStepIOCallback,
    PyWeightsIO,
)
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo

# Names of the original.
_BuilderCore = BuilderCore
_InferenceSessionCore = InferenceSessionCore
_TrainingSessionCore = TrainingSessionCore

defaultAiOnnxOpset = 10
defaultAiOnnxMlOpset = 1
defaultAiGraphcoreOpset = 1
# The release of the original that this follows.
__version__ = "3.4.0"

_SYNC_PATTERNS = {str(pattern): pattern for pattern in _enums.SyncPattern}


def versionString() -> str:
    """Returns the release of the original that this follows."""
    return __version__


def versionNumber() -> tuple[int, int, int]:
    """Returns the numbers of that release."""
    major, minor, point = map(int, __version__.split("."))
    return major, minor, point


def getTensorInfo(arg0: np.ndarray) -> TensorInfo:
    """Returns shape and type of an array.

    Args:
        arg0: the array.
    """
    return TensorInfo(arg0)


def syncPatternFromString(arg0: str) -> _enums.SyncPattern:
    """Returns the pattern of a name.

    Args:
        arg0: "full", "singlePipeline" or "replicaAndLadder".

    Raises:
        popart_exception: If it is another.
    """
    if arg0 not in _SYNC_PATTERNS:
        raise _errors.popart_exception(
            f"Unknown syncPattern setting: {arg0}. Expected one of: {', '.join(_SYNC_PATTERNS)}."
        )
    return _SYNC_PATTERNS[arg0]


def syncPatternToString(arg0: _enums.SyncPattern) -> str:
    """Returns the name of a pattern.

    Args:
        arg0: the pattern.
    """
    return str(arg0)


def packageHash() -> str:
    """Returns the version, which identifies the release."""
    return __version__


def getLogger(name: str = "all") -> Logger:
    """Returns the logger of a part of PopART.

    Args:
        name: the part; "all" for all of them.
    """
    return Logger(name)


def _prefix_function(name: str, prefix: str) -> Any:
    """Returns a function that returns a prefix."""

    def function() -> str:
        return prefix

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Returns the prefix of names `{prefix}`."
    return function


def _public(module: Any) -> dict[str, Any]:
    """Returns the public classes of a module."""
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and name[0] != "_"
    }


globals().update(_public(_enums))
globals().update({name: getattr(_errors, name) for name in _errors.__all__})
globals().update({f"AiOnnxOpset{version}": opset for version, opset in _OPSETS.items()})
globals().update(
    {
        f"reserved{name}Prefix": _prefix_function(f"reserved{name}Prefix", prefix)
        for name, prefix in _reserved.PREFIXES.items()
    }
)
__all__ = [
    name
    for name in globals()
    if not name.startswith("_") and name not in ("Any", "annotations", "np")
]
