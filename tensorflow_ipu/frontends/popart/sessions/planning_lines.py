"""Lines of the log about the plans of convolutions, matrix products and lookups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import onnx
from onnx import helper

from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.popart.building.annotations import MEMORY
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions

_PROPORTION = "availableMemoryProportion"
_DEFAULT = 0.6
_DITHERING = "__enable_conv_dithering"
# Type of a node that is planned as products -> the session option with its proportion.
_PRODUCTS = {
    **dict.fromkeys(("Conv", "ConvTranspose", "MultiConv"), "convolutionOptions"),
    **dict.fromkeys(("MatMul", "Gemm"), "matmulOptions"),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), "lstmOptions"),
}
_CONVOLUTIONS = ("Conv", "ConvTranspose", "MultiConv")
_LOOKUPS = ("Gather", "TiedGather", "GroupedGather", "ScatterReduce", "GroupedScatterReduce")
# The product itself, and those of the gradients of both operands.
_PASSES = 3


def log(
    nodes: Iterable[onnx.NodeProto], options: SessionOptions, memory_per_tile: int, trains: bool
) -> None:
    """Logs the memory that each operation may plan with, as PopLibs does.

    Args:
        nodes: the nodes of the model.
        options: the options of the session.
        memory_per_tile: bytes of a tile.
        trains: whether there are gradients.
    """
    logger = Logger("poplibs")
    if logger.shows("DEBUG"):
        for node in _all(nodes):
            for line in _lines(node, options, memory_per_tile, _PASSES if trains else 1):
                logger.debug(line)


def _all(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yields nodes, and the nodes of the graphs in them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _all(graph.node)


def _lines(
    node: onnx.NodeProto, options: SessionOptions, memory_per_tile: int, passes: int
) -> Iterator[str]:
    """Yields the lines of a node."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    option = _PRODUCTS.get(node.op_type)
    of_session = getattr(options, option).get(_PROPORTION) if option else None
    proportions = _listed(given.get(MEMORY)) or [float(of_session or _DEFAULT)]
    if option is not None:
        dithering = _listed(given.get(_DITHERING)) or [0]
        for _ in range(passes):
            for proportion in proportions:
                limit = math.floor(proportion * memory_per_tile)
                yield f"Planning convolution with a per-tile memory limit of {limit}"
            if node.op_type in _CONVOLUTIONS:
                yield from (f"  enableConvDithering {int(value)}" for value in dithering)
    elif node.op_type in _LOOKUPS:
        for proportion in proportions:
            yield f"Planning {node.op_type} with {_PROPORTION}={proportion:g}"


def _listed(value: object) -> list[float]:
    """Returns an attribute that is a number or a list of them as a list."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]  # type: ignore[list-item]
