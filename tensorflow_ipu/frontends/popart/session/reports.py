"""Reports of a session: memory, cycles, its graph, debug contexts, plans in the log."""

from __future__ import annotations

import collections
import json
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.frontends.common import debug_contexts, profiles
from tensorflow_ipu.frontends.common.enums import Instrumentation
from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.popart import debug_info
from tensorflow_ipu.frontends.popart.builder.annotations import MEMORY
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.debug_info import LINE
from tensorflow_ipu.frontends.popart.errors import popart_runtime_error
from tensorflow_ipu.frontends.popart.onnx_model import Model
from tensorflow_ipu.frontends.popart.session.device_program import DeviceProgram, ExecutableFiles
from tensorflow_ipu.frontends.popart.session.setup import Setup
from tensorflow_ipu.frontends.popart.session_options import SessionOptions
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.frontends.pva import Report
from tensorflow_ipu.profiler.report_data import Executions, options_of
from tensorflow_ipu.util import private_files

# --- Debug contexts, plans in the log, order of nodes ---

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
    """Writes the graph of the schedule: ops in their order, with their producers.

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


# --- Memory, cycles and graph ---

_INNER = "inner_ipu_"


class SessionReports:
    """Reports of the program of a session."""

    def __init__(self, setup: Setup, program: DeviceProgram, files: ExecutableFiles) -> None:
        """Takes the program.

        Args:
            setup: options and device.
            program: the program.
            files: the file that the program came from, if any.
        """
        self._setup = setup
        self._program = program
        self._files = files

    def __repr__(self) -> str:
        return f"SessionReports[{self._setup.name}]"

    def summary(self) -> str:
        """Returns memory and time of the program as text.

        Raises:
            popart_runtime_error: If the session is not prepared, or its program is from a file.
        """
        text = str(self.report())
        return text if self._is_profiled() else f"{text}\nExecution profiling not enabled\n"

    def report(self) -> Report:
        """Returns memory and time of the program.

        Raises:
            popart_runtime_error: If the session is not prepared, or its program is from a file.
        """
        executable = self._reported()
        executions = Executions.of(executable)
        return Report.from_plan(self._program.plan(), options_of(executable), executions)

    def serialized_graph(self) -> bytes:
        """Returns the functions of the compiled program as a serialized `FunctionDefLibrary`.

        Raises:
            popart_runtime_error: If the session is not prepared, or its program is from a file.
        """
        return bytes(self._reported().library.SerializeToString(deterministic=True))

    def cycles(self, counter: str) -> int:
        """Returns the modelled cycles of one run.

        Args:
            counter: "" for the whole run; "inner_ipu_0" and so on for an IPU.

        Raises:
            popart_runtime_error: If cycles are not counted, or there is no such counter.
        """
        if not self._setup.options.instrumentWithHardwareCycleCounter:
            raise popart_runtime_error(
                "SessionOption 'instrumentWithHardwareCycleCounter' must be True to count cycles."
            )
        counters = self._counters()
        if counter not in counters:
            raise popart_runtime_error(
                f"Invalid id for cycle counter: '{counter}'. There are: "
                f"{', '.join(map(repr, counters))}. Make sure you have set "
                "SessionOption::hardwareInstrumentations correctly."
            )
        timeline = self._program.plan().timeline
        if not counter:
            return round(timeline.cycles)
        ipu = int(counter[len(_INNER) :]) % self._program.compiled().ipus_used
        return round(
            sum(
                segment.cycles
                for segment in timeline.segments
                if segment.ipu == ipu and segment.kind != "idle"
            )
        )

    def write(self, owner: Any, kept: Path | None) -> None:
        """Writes the report files that engine options request, or restores cached ones.

        Args:
            owner: the session; when it is gone, the files get its executions.
            kept: the folder where the compiled program is kept; None if it is not.

        Raises:
            OSError: If they cannot be written.
        """
        executable = self._program.compiled()
        engine = self._setup.options.engineOptions
        profile = profiles.Profile.asked_for(self._setup.name, engine, executable.system)
        if profile is None:
            return
        if self._files.folder is not None and profile.restore(self._files.folder):
            return
        report = Report.from_plan(self._program.plan(), options_of(executable), Executions())
        profile.write(owner, executable, report)
        if kept is not None:
            profile.store(kept)

    def _counters(self) -> list[str]:
        kinds = self._setup.options.hardwareInstrumentations
        inner = [f"{_INNER}{ipu}" for ipu in range(self._setup.device.numIpus)]
        return [
            *([""] if Instrumentation.Outer in kinds else []),
            *(inner if Instrumentation.Inner in kinds else []),
        ]

    def _reported(self) -> Executable:
        """Returns the compiled program, if there are reports of it."""
        if self._program.executable is None:
            raise popart_runtime_error(
                "The session must have been prepared before a report can be fetched. Call "
                "prepareDevice."
            )
        if self._files.has_loaded:
            raise popart_runtime_error("Unable to get reports when using a cached executable.")
        return self._program.executable

    def _is_profiled(self) -> bool:
        return any(
            name.startswith("autoReport.") and str(value).lower() == "true"
            for name, value in self._setup.options.engineOptions.items()
        )


class Ir:
    """The graph of a session: its nodes and their tensors, read only."""

    def __init__(self, setup: Setup) -> None:
        """Takes the graph.

        Args:
            setup: model and options of the session.
        """
        self._setup = setup

    def __repr__(self) -> str:
        return f"Ir[{self._setup.name} {len(self._setup.model.nodes)} nodes]"

    def getSessionName(self) -> str:
        """Returns the name of the session."""
        return self._setup.name

    def getSessionOptions(self) -> SessionOptions:
        """Returns a copy of the options of the session."""
        return self._setup.options.copied()

    def getDataFlow(self) -> DataFlow:
        """Returns batches and anchors."""
        return self._setup.flow

    def isTraining(self) -> bool:
        """Returns whether the session trains."""
        return self._setup.training is not None

    def to_dict(self) -> dict[str, Any]:
        """Returns the nodes of the main graph, as data for JSON."""
        return {"maingraph": [_node(node) for node in self._setup.model.nodes]}


def _node(node: Any) -> dict[str, Any]:
    attributes = {
        attribute.name: str(helper.get_attribute_value(attribute))
        for attribute in node.attribute
        if not attribute.g.node and not attribute.t.dims
    }
    return {
        "type": node.op_type,
        "domain": node.domain or "ai.onnx",
        "name": node.name,
        "inputs": [{"name": name} for name in node.input],
        "outputs": [{"name": name} for name in node.output],
        "attributes": attributes,
    }
