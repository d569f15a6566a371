"""`Annotations`: attributes of nodes for placement, recomputation and memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Union

import onnx

from tensorflow_ipu.frontends.common.enums import RecomputeType
from tensorflow_ipu.frontends.common.locations import TensorLocation
from tensorflow_ipu.frontends.popart.builder.graph import ModelGraph, make_attribute
from tensorflow_ipu.frontends.popart.errors import add_note, popart_exception
from tensorflow_ipu.frontends.popart.ops.registry import COMM_GROUP
from tensorflow_ipu.frontends.popart.patterns import EXCLUDED_PATTERNS
from tensorflow_ipu.frontends.popart.signatures import checked

IPU, STAGE, PHASE = "__ipu_number", "__pipeline_stage", "__execution_phase"
RECOMPUTE = "__recompute_output_in_backward_pass"
LOCATION = "__output_tensor_location"
PARTIALS = "__partials_type"
MEMORY = "__available_memory"

Ids = Union[str, Iterable[str]]

_FIELDS = {
    onnx.AttributeProto.INT: "i",
    onnx.AttributeProto.INTS: "ints",
    onnx.AttributeProto.FLOAT: "f",
    onnx.AttributeProto.FLOATS: "floats",
    onnx.AttributeProto.STRING: "s",
    onnx.AttributeProto.STRINGS: "strings",
}
_SERIALIZATION_MODES = ("input_channels", "reducing_dim", "output_channels", "none")


@checked
class Annotations:
    """The methods of a builder that annotate nodes."""

    def __init__(self, graph: ModelGraph) -> None:
        """Takes the graph whose nodes are annotated.

        Args:
            graph: the graph.
        """
        self.model_graph = graph

    def addNodeAttribute(
        self, attributeName: str, attributeValue: Any, nodeOutputNames: Ids
    ) -> None:
        """Gives a node an attribute.

        Args:
            attributeName: its name.
            attributeValue: a number, text or a list of these.
            nodeOutputNames: all outputs of the node.

        Raises:
            popart_exception: If there is no such node, or it has the attribute.
        """
        node = self.model_graph.node_of(nodeOutputNames)
        if _attribute(node, attributeName) is not None:
            raise _refused(f"Node already has attribute {attributeName}.", node)
        node.attribute.append(make_attribute(attributeName, attributeValue))

    def nodeHasAttribute(self, attributeName: str, nodeOutputNames: Ids) -> bool:
        """Returns whether a node has an attribute.

        Args:
            attributeName: its name.
            nodeOutputNames: all outputs of the node.

        Raises:
            popart_exception: If there is no such node.
        """
        return _attribute(self.model_graph.node_of(nodeOutputNames), attributeName) is not None

    def removeNodeAttribute(self, attributeName: str, nodeOutputNames: Ids) -> None:
        """Takes an attribute from a node.

        Args:
            attributeName: its name.
            nodeOutputNames: all outputs of the node.

        Raises:
            popart_exception: If there is no such node, or it does not have it.
        """
        node = self.model_graph.node_of(nodeOutputNames)
        found = _attribute(node, attributeName)
        if found is None:
            raise _refused(f"Cannot remove attribute {attributeName} as it does not exist.", node)
        node.attribute.remove(found)

    def getAllNodeAttributeNames(self, nodeOutputNames: Ids) -> list[str]:
        """Returns the names of the attributes of a node.

        Args:
            nodeOutputNames: all outputs of the node.

        Raises:
            popart_exception: If there is no such node.
        """
        return [attribute.name for attribute in self.model_graph.node_of(nodeOutputNames).attribute]

    def getInt64NodeAttribute(self, attributeName: str, nodeOutputNames: Ids) -> int:
        """Returns an attribute of a node that is an integer; see `getStringNodeAttribute`."""
        return int(self._get(attributeName, nodeOutputNames, "i", "an integer"))

    def getInt64VectorNodeAttribute(self, attributeName: str, nodeOutputNames: Ids) -> list[int]:
        """Returns an attribute of a node that is integers; see `getStringNodeAttribute`."""
        return list(self._get(attributeName, nodeOutputNames, "ints", "an integer vector"))

    def getFloatNodeAttribute(self, attributeName: str, nodeOutputNames: Ids) -> float:
        """Returns an attribute of a node that is a number; see `getStringNodeAttribute`."""
        return float(self._get(attributeName, nodeOutputNames, "f", "a float"))

    def getFloatVectorNodeAttribute(self, attributeName: str, nodeOutputNames: Ids) -> list[float]:
        """Returns an attribute of a node that is numbers; see `getStringNodeAttribute`."""
        return list(self._get(attributeName, nodeOutputNames, "floats", "a float vector"))

    def getStringNodeAttribute(self, attributeName: str, nodeOutputNames: Ids) -> str:
        """Returns an attribute of a node that is text.

        Args:
            attributeName: its name.
            nodeOutputNames: all outputs of the node.

        Raises:
            popart_exception: If there is no such node, it does not have it, or it is not that.
        """
        return str(self._get(attributeName, nodeOutputNames, "s", "a string").decode())

    def getStringVectorNodeAttribute(self, attributeName: str, nodeOutputNames: Ids) -> list[str]:
        """Returns an attribute of a node that is texts; see `getStringNodeAttribute`."""
        found = self._get(attributeName, nodeOutputNames, "strings", "a string vector")
        return [text.decode() for text in found]

    def virtualGraph(self, *args: Any, **kwargs: Any) -> Any:
        """Places nodes on an IPU: a node, or in `with` all nodes added inside.

        Args:
            *args: the number of the IPU; or outputs of a node, and the number (0).
            **kwargs: the same by name: `nodeOutputNames`, `value`.

        Raises:
            popart_exception: If there is no such node.
        """
        return self._annotate(IPU, args, kwargs)

    def pipelineStage(self, *args: Any, **kwargs: Any) -> Any:
        """Gives nodes a pipeline stage; see `virtualGraph`."""
        return self._annotate(STAGE, args, kwargs)

    def executionPhase(self, *args: Any, **kwargs: Any) -> Any:
        """Gives nodes an execution phase; see `virtualGraph`."""
        return self._annotate(PHASE, args, kwargs)

    def recomputeOutput(self, *args: Any, **kwargs: Any) -> Any:
        """Says whether outputs of nodes are computed again; see `virtualGraph`."""
        return self._annotate(RECOMPUTE, args, kwargs)

    def outputTensorLocation(self, *args: Any, **kwargs: Any) -> Any:
        """Says where outputs of nodes are kept; see `virtualGraph`."""
        return self._annotate(LOCATION, args, kwargs, TensorLocation())

    def recomputeOutputInBackwardPass(
        self,
        nodeOutputName: Ids = (),
        value: RecomputeType = RecomputeType.Recompute,
        *,
        nodeOutputNames: Ids = (),
    ) -> None:
        """Says whether outputs of a node are computed again in the backward pass.

        Args:
            nodeOutputName: all outputs of the node.
            value: whether.
            nodeOutputNames: another name for `nodeOutputName`.

        Raises:
            popart_exception: If there is no such node, or it was said before.
        """
        self.addNodeAttribute(RECOMPUTE, int(value), nodeOutputName or nodeOutputNames)

    def getRecomputeOutputInBackwardPass(
        self, nodeOutputName: Ids = (), *, nodeOutputNames: Ids = ()
    ) -> bool:
        """Returns whether outputs of a node are computed again in the backward pass.

        Args:
            nodeOutputName: all outputs of the node.
            nodeOutputNames: another name for that.

        Raises:
            popart_exception: If there is no such node.
        """
        found = _attribute(self.model_graph.node_of(nodeOutputName or nodeOutputNames), RECOMPUTE)
        return found is not None and found.i != 0

    def hasVirtualGraph(self) -> bool:
        """Returns whether a `with virtualGraph` is open."""
        return bool(self.model_graph.attributes.get(IPU))

    def hasPipelineStage(self) -> bool:
        """Returns whether a `with pipelineStage` is open."""
        return bool(self.model_graph.attributes.get(STAGE))

    def hasExecutionPhase(self) -> bool:
        """Returns whether a `with executionPhase` is open."""
        return bool(self.model_graph.attributes.get(PHASE))

    def getVirtualGraph(self, nodeOutputNames: Ids | None = None) -> int:
        """Returns the IPU of a node, or of the `with` that is open.

        Args:
            nodeOutputNames: all outputs of the node; None for the open `with`.

        Raises:
            popart_exception: If there is none.
        """
        if nodeOutputNames is not None:
            return self.getInt64NodeAttribute(IPU, nodeOutputNames)
        return self._current(IPU, "Virtual graph")

    def getPipelineStage(self) -> int:
        """Returns the stage of the `with pipelineStage` that is open.

        Raises:
            popart_exception: If there is none.
        """
        return self._current(STAGE, "Pipeline stage")

    def getExecutionPhase(self) -> int:
        """Returns the phase of the `with executionPhase` that is open.

        Raises:
            popart_exception: If there is none.
        """
        return self._current(PHASE, "Execution phase")

    @contextlib.contextmanager
    def schedulePriority(self, value: float) -> Iterator[None]:
        """Gives all nodes added in `with` a priority.

        Args:
            value: the priority: nodes with higher ones come earlier.

        Yields:
            Nothing.
        """
        with self._scope("__schedule_priority", float(value)):
            yield

    @contextlib.contextmanager
    def commGroup(self, type: int = 0, groupSize: int = 0) -> Iterator[None]:  # noqa: A002
        """Gives all collectives added in `with` a group of replicas.

        Args:
            type: the number of a `CommGroupType`.
            groupSize: replicas in a group.

        Yields:
            Nothing.
        """
        with self._scope(COMM_GROUP, [int(type), int(groupSize)]):
            yield

    @contextlib.contextmanager
    def outlineAttributes(self, arg0: Mapping[str, str]) -> Iterator[None]:
        """Gives all nodes added in `with` attributes; only nodes with equal ones share code.

        Args:
            arg0: the attributes. Those of a `with` around it stay.

        Yields:
            Nothing.
        """
        around = self.model_graph.attributes.get("__outline") or [[]]
        pairs = dict(zip(around[-1][::2], around[-1][1::2]))
        merged = {**arg0, **pairs}
        with self._scope("__outline", [text for pair in merged.items() for text in pair]):
            yield

    def excludePatterns(self, nodeOutputName: Ids, patternNames: Iterable[str]) -> None:
        """Keeps patterns from changing a node.

        Args:
            nodeOutputName: all outputs of the node.
            patternNames: the patterns.

        Raises:
            popart_exception: If there is no such node.
        """
        self.addNodeAttribute(EXCLUDED_PATTERNS, list(patternNames), nodeOutputName)

    def setAvailableMemoryProportion(
        self,
        nodeOutputName: Ids = (),
        availableMemoryProportion: float = 0.0,
        *,
        nodeOutputNames: Ids = (),
    ) -> None:
        """Sets how much memory a node may use.

        Args:
            nodeOutputName: all outputs of the node.
            availableMemoryProportion: part of the memory, above 0 and up to 1.
            nodeOutputNames: another name for `nodeOutputName`.

        Raises:
            popart_exception: If there is no such node, or the number is another.
        """
        if not 0 < availableMemoryProportion <= 1:
            raise popart_exception(
                f"availableMemoryProportion must be in (0,1]. Received: {availableMemoryProportion}"
            )
        proportion = float(availableMemoryProportion)
        self._replace(MEMORY, proportion, nodeOutputName or nodeOutputNames)

    def setPartialsType(self, nodeOutputName: Ids, partialsType: str) -> None:
        """Sets the type in which a Conv or MatMul adds.

        Args:
            nodeOutputName: its output.
            partialsType: "FLOAT" or "HALF".

        Raises:
            popart_exception: If it is another op.
        """
        self._check_partials(nodeOutputName)
        self._replace(PARTIALS, partialsType, nodeOutputName)

    def getPartialsType(self, nodeOutputName: Ids) -> str:
        """Returns the type in which a Conv or MatMul adds.

        Args:
            nodeOutputName: its output.

        Raises:
            popart_exception: If it is another op.
        """
        found = _attribute(self._check_partials(nodeOutputName), PARTIALS)
        return "FLOAT" if found is None else str(found.s.decode())

    def setEnableConvDithering(self, nodeOutputName: Ids, enableConvDithering: int) -> None:
        """Chooses whether a convolution begins on a tile of its own.

        Args:
            nodeOutputName: its output.
            enableConvDithering: 0 or 1.

        Raises:
            popart_exception: If it is another number, or the node is no convolution.
        """
        node = self.model_graph.node_of(nodeOutputName)
        if node.op_type not in ("Conv", "MultiConv"):
            raise popart_exception(
                "Builder::setEnableConvDithering should only be called on convolutions but was "
                f"given: {node.op_type}"
            )
        if enableConvDithering not in (0, 1):
            raise popart_exception("enableConvDithering must be a bool value")
        self.addNodeAttribute("__enable_conv_dithering", int(enableConvDithering), nodeOutputName)

    def setSerializeMatMul(
        self, nodeOutputName: Ids, mode: str, factor: int = 0, keep_precision: bool = False
    ) -> None:
        """Splits a matrix product into parts that run one after the other.

        Args:
            nodeOutputName: its output.
            mode: the dimension: "input_channels", "reducing_dim", "output_channels" or "none".
            factor: number of parts.
            keep_precision: whether parts of float16 products are added in float32.

        Raises:
            popart_exception: If the mode is unknown.
        """
        if mode not in _SERIALIZATION_MODES:
            raise popart_exception(
                f"Unsupported mat mul serialization mode '{mode}'. Supported modes are "
                "'input_channels', 'reducing_dim', 'output_channels' or 'none'"
            )
        if mode != "none":
            prefix = "__serialize_matmul_"
            self.addNodeAttribute(f"{prefix}mode", mode, nodeOutputName)
            self.addNodeAttribute(f"{prefix}factor", factor, nodeOutputName)
            self.addNodeAttribute(f"{prefix}precision", int(keep_precision), nodeOutputName)

    def setInplacePreferences(self, nodeOutputName: Ids, prefs: Mapping[str, float]) -> None:
        """Sets how much a node prefers its in-place forms.

        Args:
            nodeOutputName: all outputs of the node.
            prefs: a priority for each form.

        Raises:
            popart_exception: If there is no such node.
        """
        self.addNodeAttribute("__inplace_op_names", list(prefs), nodeOutputName)
        priorities = [float(priority) for priority in prefs.values()]
        self.addNodeAttribute("__inplace_op_priorities", priorities, nodeOutputName)

    def _annotate(self, name: str, args: Any, kwargs: Any, default: Any = 0) -> Any:
        """Gives an attribute to one node, or to all of a `with`."""
        given = dict(zip(("nodeOutputNames", "value"), args), **kwargs)
        ids = given.get("nodeOutputNames")
        if len(given) == 1 and not isinstance(ids, (str, set, frozenset, list, tuple)):
            return self._scope(name, _plain(given.get("value", ids)))
        return self.addNodeAttribute(name, _plain(given.get("value", default)), ids or ())

    @contextlib.contextmanager
    def _scope(self, name: str, value: Any) -> Iterator[None]:
        """Gives all nodes that are added inside an attribute."""
        values = self.model_graph.attributes.setdefault(name, [])
        values.append(value)
        try:
            yield
        finally:
            values.pop()

    def _replace(self, name: str, value: Any, ids: Ids) -> None:
        found = _attribute(self.model_graph.node_of(ids), name)
        if found is not None:
            self.model_graph.node_of(ids).attribute.remove(found)
        self.addNodeAttribute(name, value, ids)

    def _current(self, name: str, told: str) -> int:
        values = self.model_graph.attributes.get(name)
        if not values:
            raise popart_exception(f"{told} not set in current scope")
        return int(values[-1])

    def _check_partials(self, ids: Ids) -> onnx.NodeProto:
        node = self.model_graph.node_of(ids)
        if node.op_type not in ("Conv", "MatMul"):
            raise popart_exception(
                "Partials types should only be called on operators: Conv, MatMul. Received: "
                f"{node.op_type}"
            )
        return node

    def _get(self, name: str, ids: Ids, field: str, told: str) -> Any:
        """Returns an attribute of a node, of a given kind."""
        node = self.model_graph.node_of(ids)
        found = _attribute(node, name)
        if found is None:
            raise _refused(f"Node does not have an attribute {name}.", node)
        if _FIELDS.get(found.type) != field:
            raise _refused(f"The attribute {name} is not {told}.", node)
        return getattr(found, field)


def _attribute(node: onnx.NodeProto, name: str) -> onnx.AttributeProto | None:
    return next((attribute for attribute in node.attribute if attribute.name == name), None)


def _refused(message: str, node: onnx.NodeProto) -> popart_exception:
    """Returns an error about an attribute of a node."""
    error = popart_exception(message)
    named = ", ".join(attribute.name for attribute in node.attribute) or "none"
    outputs = ", ".join(node.output)
    add_note(error, f"The node {node.op_type} with the outputs {outputs} has: {named}.")
    return error


def _plain(value: Any) -> Any:
    """Returns a value as an attribute holds it."""
    return value.serialized() if isinstance(value, TensorLocation) else int(value)
