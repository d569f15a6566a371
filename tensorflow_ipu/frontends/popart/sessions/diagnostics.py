"""Records of a compilation for its user: debug contexts, plans in the log, the order of nodes."""

from __future__ import annotations

import collections
import json
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

import onnx
from onnx import helper

from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.frontends.common import debug_contexts
from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.popart import debug_info
from tensorflow_ipu.frontends.popart.building.annotations import MEMORY
from tensorflow_ipu.frontends.popart.debug_info import LINE
from tensorflow_ipu.frontends.popart.model.imports import Model
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.util import private_files

# What debug information calls the operations of compiled programs.
_PROGRAM = "tensorflow"


def record_ops(model: Model, infos: Mapping[str, TensorInfo], outlines: bool) -> None:
    """Adds a context for each op and each tensor of a model, if there is a file of them.

    Args:
        model: the model.
        infos: shapes and types of its tensors.
        outlines: whether equal ops share code. Each then has the context of a call, too.
    """
    if not debug_contexts.is_recording():
        return
    keys = [_code_of(node, infos) for node in model.nodes]
    counts = collections.Counter(keys)
    shared = {key: number for number, key in enumerate(k for k in counts if counts[k] > 1)}
    for node, key in zip(model.nodes, keys):
        line = debug_info.line(node)
        op = debug_contexts.record(
            debug_contexts.OPS,
            debug_info.scope_name(node),
            None if line is None else line.place,
            next((a.i for a in node.attribute if a.name == LINE), None),
            category="op",
            opType=node.op_type,
            inputs=list(node.input),
            outputs=list(node.output),
        )
        if outlines and key in shared:
            callee = f"call_subgraph({shared[key]})"
            debug_contexts.record(
                debug_contexts.OPS,
                f"{debug_info.scope_name(node)}/{callee}",
                None if line is None else line.place,
                op,
                category="op",
                opType="Call",
                attributes={"callee": callee},
            )
    for name, info in infos.items():
        debug_contexts.record(
            debug_contexts.OPS,
            name,
            None,
            category="tensor",
            tensorId=name,
            shape=list(info.shape()),
            elementType=info.data_type_lcase(),
        )


def record_program(executable: Executable) -> None:
    """Adds a context for each operation of a compiled program and its result, on request.

    Args:
        executable: the program.
    """
    if not debug_contexts.is_recording():
        return
    for function in executable.library.function:
        for node in function.node_def:
            op = debug_contexts.record(
                _PROGRAM, node.name, None, category="op", opType=node.op, inputs=list(node.input)
            )
            debug_contexts.record(_PROGRAM, f"{node.name}:0", None, op, category="tensor")


def _code_of(node: onnx.NodeProto, infos: Mapping[str, TensorInfo]) -> Hashable:
    """Returns a key that ops with the same code share."""
    operands = [infos.get(name) for name in node.input]
    return (node.domain, node.op_type, *operands, *_attributes_of(node))


def _attributes_of(node: onnx.NodeProto) -> list[Hashable]:
    """Returns keys of the attributes of a node, without annotations."""
    return [
        (attribute.name, _graph_code(attribute.g))
        if attribute.HasField("g")
        else attribute.SerializeToString()
        for attribute in sorted(node.attribute, key=lambda attribute: attribute.name)
        if not attribute.name.startswith("__")
    ]


def _graph_code(graph: onnx.GraphProto) -> Hashable:
    """Returns a key that equal graphs share: tensors have numbers in place of names."""
    numbers: dict[str, int] = {}

    def numbered(names: Iterable[str]) -> tuple[int, ...]:
        return tuple(numbers.setdefault(name, len(numbers)) for name in names)

    return (
        numbered(value.name for value in graph.input),
        tuple(
            (
                *(node.domain, node.op_type, numbered(node.input), numbered(node.output)),
                *_attributes_of(node),
            )
            for node in graph.node
        ),
        numbered(value.name for value in graph.output),
    )


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
# The product itself, and the products of both operands' gradients.
_PASSES = 3


def log_plans(
    operations: Iterable[onnx.NodeProto],
    options: SessionOptions,
    memory_per_tile: int,
    trains: bool,
) -> None:
    """Logs the memory that each operation may plan with, as PopLibs does.

    Args:
        operations: the nodes of the model.
        options: the options of the session.
        memory_per_tile: bytes of a tile.
        trains: whether there are gradients.
    """
    logger = Logger("poplibs")
    if logger.shows("DEBUG"):
        for node in _all(operations):
            for line in _lines(node, options, memory_per_tile, _PASSES if trains else 1):
                logger.debug(line)


def _all(operations: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yields nodes, and the nodes of the graphs in them."""
    for node in operations:
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


def write_order(operations: Sequence[onnx.NodeProto], folder: str, name: str) -> None:
    """Writes the graph of the schedule: ops in their order, and which have to come before.

    Args:
        operations: the nodes in the order of the program.
        folder: where to; made if it is missing.
        name: the name of the session.

    Raises:
        OSError: If it cannot be written.
    """
    makers = {tensor: number for number, node in enumerate(operations) for tensor in node.output}
    ops = [
        {
            "address": number,
            "debugString": f"{node.op_type} {node.name}".strip(),
            "ins": sorted({makers[tensor] for tensor in node.input if tensor in makers}),
        }
        for number, node in enumerate(operations)
    ]
    path = private_files.make_folder(folder) / f"shift_graph_{name}.json"
    private_files.write_text(path, json.dumps({"ops": ops}, indent=1))
