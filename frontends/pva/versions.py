"""`PoplarVersion` and `ProfileReportVersion`: what made a report, and in which form it is."""

from __future__ import annotations

import dataclasses
import re

from tensorflow_ipu import __version__
from tensorflow_ipu.configs.short_repr import shows
from tensorflow_ipu.frontends.pva.objects import PvaObject
from tensorflow_ipu.profiler import schema


@dataclasses.dataclass(frozen=True, repr=False)
class PoplarVersion(PvaObject):
    """The version of tensorflow_ipu that reads the report: no Poplar was used.

    Attributes:
        string: Name and version, which say that this is a model of the chip.
        major: Number before the first point.
        minor: Number after it.
        point: Number after the second point.
    """

    string: str
    major: int
    minor: int
    point: int

    NOT_MODELLED = {"packageHash": "no version of Poplar made the report"}

    __repr__ = shows(lambda self: {"": self.string})


@dataclasses.dataclass(frozen=True, repr=False)
class ProfileReportVersion(PvaObject):
    """The version of the form of the report: that of the schema of `report.json`.

    Attributes:
        major: The number of the schema.
        minor: 0, as the schema has one number.
        point: 0.
        isUnstableFormat: Whether the form is one under development: never.
    """

    major: int = schema.VERSION
    minor: int = 0
    point: int = 0
    isUnstableFormat: bool = False

    __repr__ = shows(lambda self: {"": f"{self.major}.{self.minor}.{self.point}"})


def package_version() -> PoplarVersion:
    """Returns the version of this package, in the place of that of Poplar."""
    numbers = [int(number) for number in re.findall(r"\d+", __version__)[:3]]
    major, minor, point = (*numbers, 0, 0, 0)[:3]
    text = f"tensorflow_ipu {__version__} (a model of the chip)"
    return PoplarVersion(text, major, minor, point)
