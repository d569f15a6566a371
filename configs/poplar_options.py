"""Known Poplar library options (string to string), and checks of their names and values.

The names are those of the published Poplar, PopLibs and GCL references. Engine options are checked
by their group (the part before the first dot), since releases differ in the names inside a group;
those of reports, which have an effect here, by their whole name.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from tensorflow_ipu.configs import enums, flags
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.configs.ranges import (
    BYTES,
    COUNT,
    FOLDER,
    INT32,
    PROPORTION,
    Digits,
    Folder,
    Range,
    WordChoice,
    shown,
)
from tensorflow_ipu.util import errors

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

#: The options of reports, which have an effect here, so that none may be misspelt.
_AUTO_REPORT = (
    "autoReport.all",
    "autoReport.directory",
    "autoReport.executionProfileProgramRunCount",
    "autoReport.outputArchive",
    "autoReport.outputDebugInfo",
    "autoReport.outputExecutionProfile",
    "autoReport.outputGraphProfile",
    "autoReport.outputLoweredVars",
    "autoReport.outputSerializedGraph",
    "autoReport.streamAtEachRun",
)

#: How many launches the timeline of a report can show.
SHOWN_LAUNCHES = Range(1, 1000)

_SWITCH = WordChoice(("true", "false"))

#: What options take, by name; others take any text.
_VALUES: Mapping[str, WordChoice | Digits | Folder] = {
    **dict.fromkeys(_AUTO_REPORT, _SWITCH),
    "autoReport.directory": FOLDER,
    "autoReport.executionProfileProgramRunCount": Digits(SHOWN_LAUNCHES),
    "availableMemoryProportion": Digits(PROPORTION),
    "cycleBackoffPercent": Digits(Range(0.0, 100.0)),
    "debug.allowOutOfMemory": _SWITCH,
    "debug.instrument": _SWITCH,
    "maxBytesPerTile": Digits(BYTES),
    "maxOutputMemoryProportion": Digits(PROPORTION),
    "numIPUs": Digits(COUNT),
    enums.PARTIALS_OPTION: WordChoice(tuple(enums.PARTIALS_OF_OPTION)),
    "poolUseIntrospectiveMapping": _SWITCH,
    "startTileMultiplier": Digits(Range(0, INT32)),
    "syncful.maxBytesPerTile": Digits(BYTES),
    "target.deterministicWorkers": WordChoice(("true", "false", "portable")),
    "tempMemoryBudget": Digits(BYTES),
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
    check_engine("compilation_poplar_options", values["compilation_poplar_options"])


def check_engine(where: str, options: Mapping[str, str]) -> None:
    """Checks engine options.

    Args:
        where: where they are set: an option of the configuration, or a variable.
        options: values by name.

    Raises:
        tf.errors.InvalidArgumentError: an unknown option, or a value that an option does not take.
    """
    for name, value in options.items():
        group = name.split(".")[0]
        _check_name(where, name, group, ENGINE)
        if group == "autoReport":
            _check_name(where, name, name, _AUTO_REPORT)
        _check_value(where, name, value)


def check_environment() -> None:
    """Checks the variables that hold library options, such as POPLAR_ENGINE_OPTIONS.

    Raises:
        ValueError: a variable does not hold a JSON object of strings.
        tf.errors.InvalidArgumentError: an unknown option, or a value that an option does not take.
    """
    check_engine(flags.ENGINE_OPTIONS, flags.library_options(flags.ENGINE_OPTIONS))
    for variable in (flags.TARGET_OPTIONS, flags.RUNTIME_OPTIONS):
        flags.library_options(variable)


def _check_name(where: str, name: str, key: str, known: tuple[str, ...]) -> None:
    """Raises unless `key`, the part of an option's name that decides, is known."""
    if key in known:
        return
    close = difflib.get_close_matches(key, known, n=1)
    hint = f" Did you mean '{name.replace(key, close[0], 1)}'?" if close else ""
    kind = "groups" if known is ENGINE else "options"
    raise errors.invalid_argument(
        f"Unrecognised option {shown(name)} in {where}.{hint} Known {kind}: {', '.join(known)}."
    )


def _check_value(where: str, name: str, value: str) -> None:
    """Raises unless an option has a value it takes."""
    if name in _VALUES:
        try:
            _VALUES[name].check(f"{where}: '{name}'", value)
        except ValueError as error:
            raise errors.invalid_argument(str(error)) from None
