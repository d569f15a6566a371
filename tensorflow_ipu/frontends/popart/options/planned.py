"""`program_options`: planner settings of a program, by the options of its session."""

from __future__ import annotations

from typing import Any, NamedTuple

from tensorflow_ipu.frontends.common.enums import DeviceType
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions
from tensorflow_ipu.util.notices import warn_once

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
    """Returns the options of a program that its session has, where they are not the defaults.

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
