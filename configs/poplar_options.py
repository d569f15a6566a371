"""The library options (string to string) that are known, and the checks of their names and values.

The names are those of the published Poplar, PopLibs and GCL references. Engine options are checked
by their group (the part before the first dot), since releases differ in the names inside a group.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from tensorflow_ipu.configs import errors
from tensorflow_ipu.configs.ipu_config import IPUConfig

_PLANNED = (
    "availableMemoryProportion",
    "partialsType",
    "planConstraints",
    "use128BitConvUnitLoad",
    "enableMultiStageReduce",
    "enableFastReduce",
    "enableSingleInputReduce",
    "remapOutputTensor",
    "planConstraintsOutputFilename",
    "tempMemoryBudget",
    "maxOutputMemoryProportion",
)

CONVOLUTION = (
    *_PLANNED,
    "pass",
    "enableConvDithering",
    "gatherConvOutput",
    "interTilePartialsType",
    "interIpuPartialsType",
    "partialsType.interTile",
    "partialsType.interIpu",
    "numIPUs",
    "startTileMultiplier",
    "useAggressiveRegrouping",
    "weightUpdateMethod",
    "disableTransformations",
    "insertTransformsCycleCountProgs",
    "cycleBackoffPercent",
    "disableSRForAMPVertices",
    "experimental.slicVmac16",
)
MATMUL = (
    *_PLANNED,
    "fullyConnectedPass",
    "inputRHSIsPreArranged",
    "gatherOutput",
    "enableConvDithering",
    "disableSRForAMPVertices",
)
POOLING = ("poolUseIntrospectiveMapping", "optimizeForSpeed")
SLICE = (
    "availableMemoryProportion",
    "usedForSlice",
    "usedForUpdate",
    "operationForUpdate",
    "indicesDistribution",
    "indicesAreSorted",
    "validateIndices",
    "planConstraints",
    "partialType",
)
GCL = (
    "method",
    "useReplicatedImplementation",
    "maxBytesPerTile",
    "topology",
    "link_topology",
    "syncful.maxBytesPerTile",
    "syncful.useOptimisedLayout",
    "syncful.useForwardingToCreateTwoHop",
    "useSynclessCollectives",
    "rearrangeOnHost",
)

#: Groups of engine options, such as `debug` of `debug.instrument`.
ENGINE = (
    "autoReport",
    "autoTarget",
    "debug",
    "device",
    "exchange",
    "graph",
    "memory",
    "opt",
    "performance",
    "prng",
    "profiler",
    "streamCallbacks",
    "target",
)

_VALUES: Mapping[str, tuple[str, ...]] = {
    "partialsType": ("half", "float"),
    "target.deterministicWorkers": ("true", "false", "portable"),
    "debug.instrument": ("true", "false"),
    "autoReport.all": ("true", "false"),
    "autoReport.outputGraphProfile": ("true", "false"),
    "autoReport.outputExecutionProfile": ("true", "false"),
    "autoReport.outputDebugInfo": ("true", "false"),
    "poolUseIntrospectiveMapping": ("true", "false"),
}

_DICTIONARIES: Mapping[str, tuple[str, ...]] = {
    "convolutions.poplar_options": CONVOLUTION,
    "matmuls.poplar_options": MATMUL,
    "pooling.poplar_options": POOLING,
    "slices.poplar_options": SLICE,
    "gcl_poplar_options": GCL,
}


def check(config: IPUConfig) -> None:
    """Checks the library options of a configuration.

    Args:
        config: the configuration; its dictionaries hold strings only.

    Raises:
        tf.errors.InvalidArgumentError: an unknown option, or a value that an option does not take.
    """
    values = dict(config.items())
    for dictionary, known in _DICTIONARIES.items():
        for name, value in values[dictionary].items():
            _check_name(dictionary, name, name, known)
            _check_value(dictionary, name, value)
    for name, value in values["compilation_poplar_options"].items():
        _check_name("compilation_poplar_options", name, name.split(".")[0], ENGINE)
        _check_value("compilation_poplar_options", name, value)


def _check_name(dictionary: str, name: str, key: str, known: tuple[str, ...]) -> None:
    """Raises unless `key`, the part of an option's name that decides, is known."""
    if key in known:
        return
    close = difflib.get_close_matches(key, known, n=1)
    hint = f" Did you mean '{name.replace(key, close[0], 1)}'?" if close else ""
    kind = "groups" if known is ENGINE else "options"
    raise errors.invalid_argument(
        f"Unrecognised option '{name}' in {dictionary}.{hint} Known {kind}: {', '.join(known)}."
    )


def _check_value(dictionary: str, name: str, value: str) -> None:
    """Raises unless an option that the simulator understands has a value it takes."""
    allowed = _VALUES.get(name)
    if allowed and value not in allowed:
        raise errors.invalid_argument(
            f"{dictionary}: '{name}' takes {' or '.join(allowed)}; received '{value}'."
        )
    if name == "availableMemoryProportion" and not _is_proportion(value):
        raise errors.invalid_argument(
            f"{dictionary}: '{name}' takes a decimal from 0 to 1, such as '0.6'; received "
            f"'{value}'."
        )


def _is_proportion(text: str) -> bool:
    """Whether `text` is a number from 0 to 1."""
    try:
        return 0.0 <= float(text) <= 1.0
    except ValueError:
        return False
