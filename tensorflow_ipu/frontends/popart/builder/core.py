"""`BuilderCore`: tensors, nodes and annotations of one graph, behind a `Builder`."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper

from tensorflow_ipu.frontends.common.enums import RecomputeType
from tensorflow_ipu.frontends.common.locations import VariableSettings
from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.popart import datatypes, onnx_files
from tensorflow_ipu.frontends.popart.builder import graph
from tensorflow_ipu.frontends.popart.builder.annotations import RECOMPUTE, Annotations
from tensorflow_ipu.frontends.popart.builder.graph import ONNX_DOMAIN, ModelGraph
from tensorflow_ipu.frontends.popart.builder.graphcore import AiGraphcoreOpset1
from tensorflow_ipu.frontends.popart.builder.opsets import OPSETS, OnnxOpset
from tensorflow_ipu.frontends.popart.dataflow import InputSettings
from tensorflow_ipu.frontends.popart.debug_info import (
    LINE,
    DebugContext,
    DebugContextLike,
    as_context,
    note_call,
    note_line,
)
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering import abstract_evaluation
from tensorflow_ipu.frontends.popart.patterns import EXCLUDED_PATTERNS
from tensorflow_ipu.frontends.popart.signatures import checked, refused
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.util import private_files

# Inputs that may be "" although ONNX does not say that they are optional.
_OPTIONAL = {("Resize", 2)}


@checked
class BuilderCore(Annotations):
    """Builds one graph of a model."""

    def __init__(
        self, model: onnx.ModelProto | None = None, parent: BuilderCore | None = None
    ) -> None:
        """Starts an empty graph, or with a model.

        Args:
            model: the model to start from.
            parent: the builder of the graph around it.
        """
        super().__init__(ModelGraph(None if parent is None else parent.model_graph))
        note_call(DebugContext(), "Builder")
        self._parent = parent
        around = None if parent is None else parent._types
        self._types: graph.Inference = graph.Inference(
            self.model_graph, abstract_evaluation.types_of_node, around
        )
        if model is not None:
            self.model_graph.load(model)

    def __repr__(self) -> str:
        graph = self.model_graph.proto
        return f"{type(self).__name__}[{graph.name} {len(graph.node)} nodes]"

    @property
    def graph_proto(self) -> onnx.GraphProto:
        """The graph that was built so far."""
        return self.model_graph.proto

    def onnx_opset(self, version: int) -> OnnxOpset:
        """Returns the ops of a version of ONNX, which add nodes to this graph.

        Args:
            version: the version.
        """
        return OPSETS[version](self)

    def graphcore_opset(self) -> AiGraphcoreOpset1:
        """Returns the ops of the domain ai.graphcore, which add nodes to this graph."""
        return AiGraphcoreOpset1(self)

    def add_node(
        self,
        type_: str,
        domain: str,
        version: int,
        inputs: Sequence[str],
        outputs: int,
        attributes: Mapping[str, Any],
        context: DebugContext,
    ) -> list[str]:
        """Adds a node.

        Args:
            type_: its op.
            domain: the domain of the op.
            version: version of the domain.
            inputs: ids of its inputs; "" for optional ones that are left out.
            outputs: how many outputs it has.
            attributes: its attributes.
            context: its name and source line.

        Returns:
            Ids of its outputs.

        Raises:
            popart_exception: If numbers of inputs or outputs do not fit the op, an input is no
                tensor, or a shape is impossible.
        """
        if domain == ONNX_DOMAIN:
            _check_counts(type_, version, len(inputs), outputs)
        self.model_graph.use_opset(domain, version)
        shapes = {name: self._types.shape_of(name) for name in inputs if name}
        ids = self.model_graph.add_node(
            type_,
            domain,
            inputs,
            outputs,
            {**attributes, LINE: note_line(context, type_)},
            context.path_name,
        )
        try:
            graph.check_node(self.model_graph.producer(ids[0]) if ids else None, shapes.get)
        except popart_exception:
            self.model_graph.remove_last_node()
            raise
        Logger("builder").trace(f"Adding {domain or 'ai.onnx'}.{type_}")
        return ids

    def addInputTensor(self, *args: Any, **kwargs: Any) -> str:
        """Adds an input that comes from the host.

        Args:
            *args: a `TensorInfo`, or type and shape; then `InputSettings` and a debug context.
            **kwargs: the same by name: `tensorInfo`, `dataType`, `shape`, `settings`,
                `debugContext`.

        Returns:
            The id of the tensor.

        Raises:
            TypeError: If the arguments are others.
            popart_exception: If there is no such type.
        """
        info, settings, context = _input_arguments(args, kwargs)
        note_call(context, "addInputTensor")
        tensor_id = self.model_graph.unique(context.path_name or "input")
        self.model_graph.proto.input.append(_value_info(tensor_id, info))
        entries = (
            ("__tile_set", settings.tileSet()),
            ("__exchange_strategy", settings.exchangeStrategy()),
            ("__replicated_stream_mode", settings.replicatedStreamMode()),
        )
        for key, value in entries:
            self.model_graph.metadata[f"{key}/{tensor_id}"] = str(int(value))
        return tensor_id

    def addUntypedInputTensor(self, debugContext: DebugContextLike = "") -> str:
        """Adds an input of a subgraph that gets its type from the caller.

        Args:
            debugContext: its name, or its debug context.

        Raises:
            popart_exception: If this is the main graph.
        """
        if self._parent is None:
            raise popart_exception("Can not add untyped tensors to the top-level graph.")
        tensor_id = self.model_graph.unique(as_context(debugContext).path_name or "input")
        self.model_graph.proto.input.add(name=tensor_id)
        return tensor_id

    def addInputTensorFromParentGraph(self, tensorId: str) -> None:
        """Makes a tensor of the graph around it an input of a subgraph, under the same id.

        Args:
            tensorId: the tensor.

        Raises:
            popart_exception: If there is no such tensor.
        """
        if self._parent is None or not self._parent.model_graph.knows(tensorId):
            raise popart_exception(
                f"Failed to add unrecognised Tensor {tensorId}: no graph around it has one."
            )
        value = self.model_graph.proto.input.add(name=tensorId)
        type_ = self._parent._types.type_of(tensorId)
        if type_ is not None:
            value.type.CopyFrom(type_)
        self.model_graph.take(tensorId)

    def addInitializedInputTensor(self, *args: Any, **kwargs: Any) -> str:
        """Adds a weight.

        Args:
            *args: its value, then `VariableSettings` and a debug context, if any.
            **kwargs: the same by name: `initVal`, `variableSettings`, `debugContext`.

        Returns:
            The id of the tensor.

        Raises:
            TypeError: If the arguments are others.
            popart_exception: If there is no such type, or no model can hold the settings.
        """
        array, settings, context = _weight_arguments(args, kwargs)
        note_call(context, "addInitializedInputTensor")
        array = np.asarray(array)
        type_ = datatypes.of_data(array)
        tensor_id = self.model_graph.unique(context.path_name or "init_input")
        self.model_graph.proto.input.append(
            _value_info(tensor_id, TensorInfo(type_.member, array.shape))
        )
        whole = np.asarray(array, order="C")
        self.model_graph.proto.initializer.append(onnx_files.made(whole, tensor_id))
        entries = (
            ("__comm_group_type", settings.getCommGroupType()),
            ("__comm_group_size", settings.getGroupSize()),
            ("__variable_settings", settings.getRetrievalMode()),
        )
        for key, value in entries:
            self.model_graph.metadata[f"{key}/{tensor_id}"] = str(int(value))
        return tensor_id

    def addOutputTensor(self, outputName: str) -> None:
        """Makes a tensor an output of the graph.

        Args:
            outputName: the tensor.
        """
        note_call(DebugContext(outputName), "addOutputTensor")
        value = self.model_graph.proto.output.add(name=outputName)
        type_ = self._types.type_of(outputName)
        if type_ is not None:
            value.type.CopyFrom(type_)

    def customOp(
        self,
        opName: str,
        opVersion: int,
        domain: str,
        inputs: list[str],
        attributes: dict[str, Any],
        numOutputs: int = 1,
        name: str = "",
    ) -> list[str]:
        """Adds a node of any op.

        Args:
            opName: the op.
            opVersion: its version.
            domain: its domain.
            inputs: ids of its inputs.
            attributes: its attributes: texts, numbers or lists of numbers.
            numOutputs: how many outputs it has.
            name: name of the node.

        Returns:
            Ids of its outputs.

        Raises:
            popart_exception: If an attribute has another type, or an input is no tensor.
        """
        for value in attributes.values():
            _check_custom(value)
        context = as_context(name)
        return self.add_node(opName, domain, opVersion, inputs, numOutputs, attributes, context)

    def checkpointOutput(self, nodeOutputNames: Iterable[str]) -> list[str]:
        """Keeps tensors for the backward pass, where others are computed again.

        Args:
            nodeOutputNames: the tensors.

        Returns:
            Ids of the tensors to use from here on.

        Raises:
            popart_exception: If there is no such tensor.
        """
        attributes = {
            RECOMPUTE: int(RecomputeType.Checkpoint),
            EXCLUDED_PATTERNS: ["PreUniRepl", "PostNRepl"],
        }
        version = self.model_graph.opsets.get(ONNX_DOMAIN, 10)
        return [
            self.add_node("Identity", ONNX_DOMAIN, version, [name], 1, attributes, as_context(""))[
                0
            ]
            for name in ([nodeOutputNames] if isinstance(nodeOutputNames, str) else nodeOutputNames)
        ]

    def embedReplicationFactor(self, replicationFactor: int) -> None:
        """Writes a number of replicas into the model.

        Args:
            replicationFactor: the number.
        """
        self.model_graph.metadata["__replicationFactor"] = str(int(replicationFactor))

    def getInputTensorIds(self) -> list[str]:
        """Returns the inputs, weights among them."""
        return [value.name for value in self.model_graph.proto.input]

    def getOutputTensorIds(self) -> list[str]:
        """Returns the outputs."""
        return [value.name for value in self.model_graph.proto.output]

    def getValueTensorIds(self) -> list[str]:
        """Returns all tensors that nodes make."""
        return [name for node in self.model_graph.proto.node for name in node.output if name]

    def getTrainableTensorIds(self) -> list[str]:
        """Returns the weights."""
        return [tensor.name for tensor in self.model_graph.proto.initializer]

    def isInitializer(self, id: str) -> bool:  # noqa: A002
        """Returns whether a tensor is a weight.

        Args:
            id: the tensor.
        """
        return id in self.getTrainableTensorIds()

    def getTensorShape(self, id: str) -> list[int]:  # noqa: A002
        """Returns the shape of a tensor; [] if it is not known.

        Args:
            id: the tensor.

        Raises:
            popart_exception: If there is no such tensor.
        """
        self._check_tensor(id)
        return self._types.shape_of(id) or []

    def getTensorDtypeString(self, id: str) -> str:  # noqa: A002
        """Returns NumPy's name of the type of a tensor; "undefined" if it is not known.

        Args:
            id: the tensor.

        Raises:
            popart_exception: If there is no such tensor.
        """
        self._check_tensor(id)
        return graph.describe(self._types.type_of(id))

    @contextlib.contextmanager
    def nameScope(self, name: str) -> Iterator[None]:
        """Prefixes the names of all tensors and nodes added in `with`.

        Args:
            name: the name.

        Yields:
            Nothing.
        """
        self.model_graph.scopes.append(name)
        try:
            yield
        finally:
            self.model_graph.scopes.pop()

    def getNameScope(self, name: str = "") -> str:
        """Returns a name prefixed with the open scopes.

        Args:
            name: the name.
        """
        return self.model_graph.scoped(name)

    def setGraphName(self, name: str) -> None:
        """Names the graph.

        Args:
            name: the name.
        """
        self.model_graph.proto.name = name or f"_{self.model_graph.proto.name.rpartition('_')[2]}"

    def getModelProto(self) -> bytes:
        """Returns the model as an ONNX file has it; it is not checked."""
        note_call(DebugContext(), "getModelProto")
        return bytes(self.model_graph.model().SerializeToString())

    def saveModelProto(self, filename: str) -> None:
        """Writes the model to a file.

        Args:
            filename: the file.

        Raises:
            popart_exception: If ONNX refuses the model.
            OSError: If the file cannot be written.
        """
        model = self.model_graph.model()
        onnx_files.check(model)
        private_files.write_bytes(filename, model.SerializeToString())

    def saveInitializersExternally(self, ids: Iterable[str], filename: str) -> None:
        """Moves values of weights from the model into a file.

        Args:
            ids: the weights.
            filename: the file; one that is there is replaced.

        Raises:
            popart_exception: If one is no weight or is in a file already, or the folder is missing.
            OSError: If the file cannot be written.
        """
        onnx_files.save(self.model_graph.proto, list(ids), Path(filename))

    def _check_tensor(self, tensor_id: str) -> None:
        if not self.model_graph.knows(tensor_id):
            raise popart_exception(
                f"{tensor_id} is not an known tensor. Must be one of "
                f"{', '.join(self.model_graph.known_ids()) or 'none'}."
            )


def _input_arguments(args: Any, kwargs: Any) -> tuple[TensorInfo, InputSettings, DebugContext]:
    """Returns the arguments of `addInputTensor`."""
    given = [*args]
    if given and isinstance(given[0], TensorInfo):
        info = given.pop(0)
    elif "tensorInfo" in kwargs:
        info = kwargs.pop("tensorInfo")
    else:
        dtype = given.pop(0) if given else kwargs.pop("dataType", None)
        shape = given.pop(0) if given else kwargs.pop("shape", None)
        info = TensorInfo(dtype, shape)
    settings = kwargs.pop("settings", None) or InputSettings()
    if given and isinstance(given[0], InputSettings):
        settings = given.pop(0)
    context = given.pop(0) if given else kwargs.pop("debugContext", "")
    _check_all_used("addInputTensor", given, kwargs)
    return info, settings, as_context(context)


def _weight_arguments(args: Any, kwargs: Any) -> tuple[Any, VariableSettings, DebugContext]:
    """Returns the arguments of `addInitializedInputTensor`."""
    given = [*args]
    array = given.pop(0) if given else kwargs.pop("initVal", None)
    settings = kwargs.pop("variableSettings", None) or VariableSettings()
    if given and isinstance(given[0], VariableSettings):
        settings = given.pop(0)
    context = given.pop(0) if given else kwargs.pop("debugContext", "")
    _check_all_used("addInitializedInputTensor", given, kwargs)
    return array, settings, as_context(context)


def _check_all_used(method: str, args: Any, kwargs: Any) -> None:
    if args or kwargs:
        signature = inspect.signature(getattr(BuilderCore, method))
        raise refused(method, signature, f"Not taken: {[*args, *kwargs.items()]}")


def _value_info(name: str, info: TensorInfo) -> onnx.ValueInfoProto:
    number = datatypes.named(info.data_type()).onnx
    return helper.make_tensor_value_info(name, number, info.shape())


def _check_counts(type_: str, version: int, inputs: int, outputs: int) -> None:
    """Refuses numbers of inputs and outputs that an op of ONNX does not take."""
    newest = min(version, 9) if type_ == "Upsample" else version
    schema = defs.get_schema(type_, newest, ONNX_DOMAIN)
    for told, count, least, most in (
        ("invalid number of inputs", inputs, schema.min_input, schema.max_input),
        ("an invalid number of outputs", outputs, schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            shown = "inf" if most >= 2**31 - 1 else most
            raise popart_exception(f"{type_} has {told} {count}. Must be between {least}..{shown}")


def _check_custom(value: Any) -> None:
    """Refuses an attribute that no custom op can have."""
    if isinstance(value, (list, tuple)):
        if len({type(part) for part in value}) > 1 or not all(
            isinstance(part, (int, float)) for part in value
        ):
            raise popart_exception(f"Invalid or mismatched python list type: {value!r}.")
    elif not isinstance(value, (str, int, float)):
        raise popart_exception(f"Invalid type provided in custom op attribute: {value!r}.")
