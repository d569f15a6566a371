"""`ComputeSet`: the vertices that an op runs at once, by vertex type."""

from __future__ import annotations

import dataclasses

from tensorflow_ipu.configs.short_repr import shows
from tensorflow_ipu.frontends.pva.objects import PvaObject


@dataclasses.dataclass(frozen=True, eq=False)
class VertexType(PvaObject):
    """A type of vertices.

    Attributes:
        name: Its name, one of those that the cost of ops is modelled by.
    """

    name: str

    NOT_MODELLED = {"size": "the code of all vertex types of a tile is one number"}


@dataclasses.dataclass(frozen=True, eq=False)
class ComputeSetVertices(PvaObject):
    """The vertices of one type in a compute set.

    Attributes:
        type: Their type.
    """

    type: VertexType

    NOT_MODELLED = {"count": "ops are modelled by their cycles, not as single vertices"}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ComputeSet(PvaObject):
    """What an op, or in a pipeline a stage, computes at once.

    Attributes:
        name: Name of the op or stage.
        vertices: Its vertices, an entry for each vertex type.
    """

    name: str
    vertices: tuple[ComputeSetVertices, ...]

    __repr__ = shows(lambda self: {"": self.name, "vertices": [v.type.name for v in self.vertices]})


def compute_set(name: str, codelets: tuple[str, ...]) -> ComputeSet:
    """Returns a compute set.

    Args:
        name: of the op or stage.
        codelets: names of the vertex types it uses.
    """
    vertices = tuple(ComputeSetVertices(VertexType(codelet)) for codelet in codelets)
    return ComputeSet(name, vertices)
