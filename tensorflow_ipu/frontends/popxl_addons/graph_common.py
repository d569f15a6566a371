"""Types of graphs and gradient graphs as arguments; the module `popxl_addons.graph_common`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl.transforms import GradGraphInfo
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs

__all__ = [
    "CalledGraphsGradInfo",
    "CalledGraphsGradInfoLike",
    "GradGraphInfoLike",
    "GraphLike",
]

GraphLike = Union[popxl.Graph, GraphWithNamedArgs]
GradGraphInfoLike = Union[GradGraphInfo, GraphWithNamedArgs]
CalledGraphsGradInfo = Mapping[popxl.Graph, GradGraphInfo]
CalledGraphsGradInfoLike = Mapping[GraphLike, GradGraphInfoLike]
