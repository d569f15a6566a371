"""`Builder`: makes ONNX models op by op; the module `popart.builder`."""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from tensorflow_ipu.frontends.popart import onnx_files
from tensorflow_ipu.frontends.popart.builder import core, graphcore, opsets
from tensorflow_ipu.frontends.popart.builder.opsets import DEFAULT_VERSION, VERSIONS
from tensorflow_ipu.frontends.popart.debug_info import as_context

__all__ = [
    *("AiGraphcore", "AiGraphcoreOpset1", "AiOnnx", "AiOnnx6", "AiOnnx7", "AiOnnx8", "AiOnnx9"),
    *("AiOnnx10", "AiOnnx11", "AiOnnxMl", "Builder", "Opset"),
]
# The name of the original.
_BuilderCore = core.BuilderCore


class Opset:
    """The ops of a domain, for a `Builder`."""

    def __init__(self, builder: Builder, version: int) -> None:
        """Takes the builder that nodes are added to.

        Args:
            builder: the builder.
            version: version of the domain.
        """
        self.builder = builder
        self.version = version

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.version}]"

    def __str__(self) -> str:
        return type(self).__name__


class AiOnnx(Opset):
    """The ops of ONNX; those that take subgraphs take builders."""

    def __init__(self, builder: Builder, version: int) -> None:
        """Takes the builder that nodes are added to.

        Args:
            builder: the builder.
            version: version of ONNX.
        """
        super().__init__(builder, version)
        self.aiOnnx: Any = builder._impl.onnx_opset(version)

    def __getattr__(self, name: str) -> Any:
        if name == "aiOnnx":
            raise AttributeError(name)
        return getattr(self.aiOnnx, name)

    def logical_if(
        self,
        args: list[str],
        num_outputs: int,
        else_branch: Builder,
        then_branch: Builder,
        name: str = "",
    ) -> Any:
        """Adds the op If: one of two subgraphs runs.

        Args:
            args: the condition, a BOOL scalar.
            num_outputs: how many outputs the branches have.
            else_branch: the builder of the subgraph for False.
            then_branch: that for True.
            name: name of the node.
        """
        graphs = (_graph(else_branch), _graph(then_branch))
        return self.aiOnnx.logical_if(args, num_outputs, *graphs, name)

    def loop(self, args: list[str], num_outputs: int, body: Builder, debugContext: Any = "") -> Any:
        """Adds the op Loop: a subgraph runs again and again.

        Args:
            args: the largest number of iterations, the condition, and values that are carried.
            num_outputs: how many outputs it has.
            body: the builder of the subgraph.
            debugContext: name of the node.
        """
        return self.aiOnnx.loop(args, num_outputs, _graph(body), debugContext)


class AiOnnx6(AiOnnx):
    """The ops of version 6 of ONNX."""


class AiOnnx7(AiOnnx6):
    """The ops of version 7 of ONNX."""


class AiOnnx8(AiOnnx7):
    """The ops of version 8 of ONNX."""

    def scan(
        self,
        args: list[str],
        num_outputs: int,
        body: Builder,
        num_scan_inputs: int,
        directions: list[int] = [],
        debugContext: Any = "",
    ) -> Any:
        """Adds the op Scan: a subgraph runs for each element.

        Args:
            args: sequence lengths, initial states and inputs.
            num_outputs: how many outputs it has.
            body: the builder of the subgraph.
            num_scan_inputs: how many inputs are scanned.
            directions: 1 for each input that is scanned from its end.
            debugContext: name of the node.
        """
        return self.aiOnnx.scan(
            args, num_outputs, _graph(body), num_scan_inputs, directions, debugContext
        )


class AiOnnx9(AiOnnx8):
    """The ops of version 9 of ONNX."""

    def scan(  # type: ignore[override]
        self,
        args: list[str],
        num_outputs: int,
        body: Builder,
        num_scan_inputs: int,
        scan_input_axes: list[int] = [],
        scan_input_directions: list[int] = [],
        scan_output_axes: list[int] = [],
        scan_output_directions: list[int] = [],
        debugContext: Any = "",
    ) -> Any:
        """Adds the op Scan: a subgraph runs for each element.

        Args:
            args: initial states and inputs.
            num_outputs: how many outputs it has.
            body: the builder of the subgraph.
            num_scan_inputs: how many inputs are scanned.
            scan_input_axes: axis along which each input is scanned.
            scan_input_directions: 1 for each input that is scanned from its end.
            scan_output_axes: axis along which each output is stacked.
            scan_output_directions: 1 for each output that is stacked from its end.
            debugContext: name of the node.
        """
        lists = {
            "scan_input_axes": scan_input_axes,
            "scan_input_directions": scan_input_directions,
            "scan_output_axes": scan_output_axes,
            "scan_output_directions": scan_output_directions,
        }
        given = {name: value for name, value in lists.items() if value}
        return self.aiOnnx.scan(
            args,
            num_outputs,
            body=_graph(body),
            num_scan_inputs=num_scan_inputs,
            debugContext=debugContext,
            **given,
        )


class AiOnnx10(AiOnnx9):
    """The ops of version 10 of ONNX."""


class AiOnnx11(AiOnnx10):
    """The ops of version 11 of ONNX."""


class AiOnnxMl(Opset):
    """The domain ai.onnx.ml, of which no op is supported."""

    def __init__(self, builder: Builder, version: int) -> None:
        """Takes the builder.

        Args:
            builder: the builder.
            version: 1.

        Raises:
            ValueError: If the version is another.
        """
        if version != 1:
            raise ValueError(f"Unsupported or unrecognized ai.onnx.ml version: {version}")
        super().__init__(builder, version)


class AiGraphcore(Opset):
    """The ops of the domain ai.graphcore; those that take subgraphs take builders."""

    def __init__(self, builder: Builder, version: int) -> None:
        """Takes the builder that nodes are added to.

        Args:
            builder: the builder.
            version: 1.

        Raises:
            ValueError: If the version is another.
        """
        if version != 1:
            raise ValueError(f"Unsupported or unrecognized ai.graphcore version: {version}")
        super().__init__(builder, version)
        self.aiGraphcore: Any = builder._impl.graphcore_opset()

    def __getattr__(self, name: str) -> Any:
        if name == "aiGraphcore":
            raise AttributeError(name)
        return getattr(self.aiGraphcore, name)

    def call(self, args: list[str], num_outputs: int, callee: Builder, debugName: str = "") -> Any:
        """Calls a subgraph; see `AiGraphcoreOpset1.call`.

        Args:
            args: its inputs.
            num_outputs: how many outputs it has.
            callee: the builder of the subgraph.
            debugName: name of the node.
        """
        return self.aiGraphcore.call(args, num_outputs, callee._impl, debugName)

    def packedDataBlock(
        self,
        args: list[str],
        maxSequenceLengths: list[int],
        resultSize: int,
        callbackBatchSize: int,
        callback: Builder,
        debugName: str = "",
    ) -> Any:
        """Runs a subgraph on packed sequences.

        Args:
            args: data, offsets and lengths for each input, then offsets and lengths of the result.
            maxSequenceLengths: longest sequence of each input.
            resultSize: rows of the result.
            callbackBatchSize: sequences that the subgraph takes at once.
            callback: the builder of the subgraph.
            debugName: name of the node.

        Returns:
            The id of the result.
        """
        return self.aiGraphcore.packedDataBlock(
            args, maxSequenceLengths, resultSize, callbackBatchSize, callback._impl, debugName
        )


class AiGraphcoreOpset1(AiGraphcore):
    """The ops of version 1 of the domain ai.graphcore."""


_CLASSES = {6: AiOnnx6, 7: AiOnnx7, 8: AiOnnx8, 9: AiOnnx9, 10: AiOnnx10, 11: AiOnnx11}


class Builder:
    """Makes an ONNX model op by op.

    Attributes of it are the ops: `aiOnnx` (those of the builder's version of ONNX), `aiOnnxOpset6`
    to `aiOnnxOpset11`, `aiGraphcore`, and all methods for tensors and annotations.
    """

    def __init__(
        self,
        modelProtoOrFilename: bytes | str | None = None,
        opsets: dict[str, int] | None = None,
        builderCore: core.BuilderCore | None = None,
    ) -> None:
        """Starts an empty model, or continues an existing one.

        Args:
            modelProtoOrFilename: the model to start from, or its file.
            opsets: versions of "ai.onnx" and "ai.graphcore".
            builderCore: the builder of a subgraph to wrap.

        Raises:
            KeyError: If `opsets` lacks a domain.
            ValueError: If a version of ai.graphcore is not 1.
            popart_exception: If the model is not valid, or of an opset that is not supported.
            RuntimeError: If values of the model are in a file that is not there.
        """
        self._onnx_version: int | None = None
        if modelProtoOrFilename is not None:
            model = onnx_files.load_checked(modelProtoOrFilename)
            onnx_files.check_files(model.graph)
            self._impl = core.BuilderCore(model)
            self._onnx_version = onnx_files.opsets(model).get("")
        else:
            self._impl = builderCore or core.BuilderCore()
        if opsets is not None:
            self._onnx_version = opsets["ai.onnx"]
            AiGraphcore(self, opsets["ai.graphcore"])
        self._default = self._onnx_version or DEFAULT_VERSION
        self.aiGraphcore = AiGraphcore(self, 1)
        self.aiGraphcoreOpset1 = AiGraphcoreOpset1(self, 1)

    def __repr__(self) -> str:
        return f"Builder[{self._impl!r}]"

    def __getattr__(self, name: str) -> Returned:
        if name.startswith("aiOnnx"):
            number = name[len("aiOnnxOpset") :]
            if name == "aiOnnx" or (number.isdigit() and int(number) in VERSIONS):
                return self._onnx_opset(name, self._default if name == "aiOnnx" else int(number))
        if name == "_impl":
            raise AttributeError(name)
        return getattr(self._impl, name)

    def createSubgraphBuilder(self) -> Builder:
        """Returns a builder of a subgraph, which can take tensors of this graph."""
        return Builder(builderCore=core.BuilderCore(parent=self._impl))

    def reshape_const(
        self, aiOnnx: Any, args: list[str], shape: Any, debugContext: Any = ""
    ) -> str:
        """Adds a reshape to a shape that is known.

        Args:
            aiOnnx: the ops to use.
            args: the tensor.
            shape: the shape.
            debugContext: name of the nodes.

        Returns:
            The id of the result.
        """
        context = as_context(debugContext)
        known = aiOnnx.constant(np.asarray(shape, np.int64), False, context)
        return str(aiOnnx.reshape([args[0], known], context))

    def _onnx_opset(self, name: str, version: int) -> AiOnnx:
        """Returns the ops of a version; the first requested version is fixed."""
        if self._onnx_version is None:
            self._onnx_version = self._default = version
        if version != self._onnx_version:
            raise RuntimeError(
                f"Invalid opset '{name}' selected. Opset for domain ai.onnx already defined as "
                f"{self._onnx_version}"
            )
        return _CLASSES[version](self, version)


Returned = Union[
    graphcore.AiGraphcoreOpset1, AiOnnx6, AiOnnx7, AiOnnx8, AiOnnx9, AiOnnx10, AiOnnx11, Any
]
# Programs read the annotation, as an object, to know the opsets.
_OPSETS = (graphcore.AiGraphcoreOpset1, *opsets.OPSETS.values())
Builder.__getattr__.__annotations__["return"] = Union[_OPSETS]


def _graph(builder: Builder) -> Any:
    """Returns the graph of a builder."""
    return builder._impl.graph_proto
