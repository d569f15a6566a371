"""`InstrumentationSettings`: how finely the options of a program asked to measure cycles."""

from __future__ import annotations

import enum

from tensorflow_ipu.configs.short_repr import shows
from tensorflow_ipu.frontends.pva.objects import PvaObject
from tensorflow_ipu.profiler.report import Report as SavedReport

_COMPUTE = "debug.computeInstrumentationLevel"
_EXTERNAL = "debug.externalExchangeInstrumentationLevel"
_INSTRUMENT = "debug.instrument"


class _ComputeLevel(enum.Enum):
    """For how much of the chip cycles of compute are measured together."""

    Off = 0
    Vertex = 1
    Tile = 2
    Ipu = 3
    Device = 4
    Unknown = 5


class _ExternalExchangeLevel(enum.Enum):
    """For how much of the chip cycles of exchange between IPUs are measured together."""

    Off = 0
    Tile = 1
    Unknown = 2


# The classes are inside the one that has them, and named so.
for _level, _name in ((_ComputeLevel, "Compute"), (_ExternalExchangeLevel, "ExternalExchange")):
    _level.__name__ = f"{_name}InstrumentationLevel"
    _level.__qualname__ = f"InstrumentationSettings.{_level.__name__}"


class InstrumentationSettings(PvaObject):
    """What the engine options of the program asked for; nothing is measured on a chip.

    Without `debug.instrument` both levels are `Unknown`: cycles are modelled, whatever is asked.

    Args:
        report: the report.
    """

    ComputeInstrumentationLevel = _ComputeLevel
    ExternalExchangeInstrumentationLevel = _ExternalExchangeLevel
    Device = _ComputeLevel.Device
    Ipu = _ComputeLevel.Ipu
    Off = _ExternalExchangeLevel.Off
    Tile = _ExternalExchangeLevel.Tile
    Unknown = _ExternalExchangeLevel.Unknown
    Vertex = _ComputeLevel.Vertex

    def __init__(self, report: SavedReport) -> None:
        engine = report.options.get("engine", {})
        self._compute = str(engine.get(_COMPUTE, "")).lower()
        self._external = str(engine.get(_EXTERNAL, "")).lower()
        self._off = str(engine.get(_INSTRUMENT, "")).lower() == "false"

    @property
    def compute(self) -> _ComputeLevel:
        """The level that `debug.computeInstrumentationLevel` named."""
        if self._off:
            return _ComputeLevel.Off
        known = {level.name.lower(): level for level in _ComputeLevel}
        return known.get(self._compute, _ComputeLevel.Unknown)

    @property
    def externalExchange(self) -> _ExternalExchangeLevel:
        """The level that `debug.externalExchangeInstrumentationLevel` named."""
        if self._off:
            return _ExternalExchangeLevel.Off
        known = {level.name.lower(): level for level in _ExternalExchangeLevel}
        return known.get(self._external, _ExternalExchangeLevel.Unknown)

    __repr__ = shows(
        lambda self: {"compute": self.compute, "externalExchange": self.externalExchange}
    )
