"""`Target` and `Graph`: the chip that a program was compiled for, and sizes of its graph."""

from __future__ import annotations

import dataclasses

from tensorflow_ipu.configs.short_repr import shows
from tensorflow_ipu.frontends.pva.objects import PvaObject
from tensorflow_ipu.profiler.report import Report as SavedReport


@dataclasses.dataclass(frozen=True, repr=False)
class Target(PvaObject):
    """The IPUs that one replica of the program was compiled for.

    Attributes:
        type: `IPU_MODEL`, as cycles and memory come from a model.
        numIPUs: IPUs of one replica.
        numReplicas: Replicas, in all instances.
        tilesPerIpu: Tiles of each IPU.
        numTiles: Tiles of one replica, as many as `CompilationReport.tiles` has.
        bytesPerTile: Memory of a tile.
        bytesPerIPU: Memory of an IPU.
        totalMemory: Memory of all tiles of a replica.
        clockFrequency: Cycles per second.
    """

    type: str
    numIPUs: int
    numReplicas: int
    tilesPerIpu: int
    numTiles: int
    bytesPerTile: int
    bytesPerIPU: int
    totalMemory: int
    clockFrequency: float

    NOT_MODELLED = {
        "relativeSyncDelayByTile": "a sync takes the same time on all tiles",
        "minSyncDelay": "a sync takes the same time on all tiles",
    }

    __repr__ = shows(
        lambda self: {
            "type": self.type,
            "numIPUs": self.numIPUs,
            "numReplicas": self.numReplicas,
            "tilesPerIpu": self.tilesPerIpu,
            "bytesPerTile": self.bytesPerTile,
        }
    )


@dataclasses.dataclass(frozen=True, repr=False)
class Graph(PvaObject):
    """Sizes of the graph of one replica.

    Attributes:
        numComputeSets: Compute sets of the program, as many as `CompilationReport.computeSets`.
        numVars: Buffers of the program: tensors that share memory are one.
    """

    numComputeSets: int
    numVars: int

    NOT_MODELLED = {
        "numVertices": "ops are modelled by their cycles, not as single vertices",
        "numEdges": "ops are modelled by their cycles, not as single vertices",
    }

    __repr__ = shows(lambda self: {"numComputeSets": self.numComputeSets, "numVars": self.numVars})


def target_of(report: SavedReport) -> Target:
    """Returns the target of a report.

    Args:
        report: the report.
    """
    chip, ipus = report.settings.chip, report.workload.ipus
    return Target(
        type="IPU_MODEL",
        numIPUs=ipus,
        numReplicas=report.settings.replicas,
        tilesPerIpu=chip.tiles,
        numTiles=chip.tiles * ipus,
        bytesPerTile=chip.memory_per_tile,
        bytesPerIPU=chip.memory_per_tile * chip.tiles,
        totalMemory=chip.memory_per_tile * chip.tiles * ipus,
        clockFrequency=chip.clock,
    )
