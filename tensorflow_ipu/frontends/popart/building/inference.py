"""Shapes and types of the tensors of a graph under construction, and checks of windows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, shape_inference

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.building.graph import ONNX_DOMAIN, ModelGraph
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import windows

_OPS = ("Conv", "MaxPool", "AveragePool", "MultiConv", "Pad")
_Shapes = Callable[[str], "list[int] | None"]


def check_node(node: onnx.NodeProto | None, shape_of: _Shapes) -> None:
    """Refuses a window that does not fit the data, if the shape of that is known.

    Args:
        node: the node.
        shape_of: returns the shape of a tensor.

    Raises:
        popart_exception: If it does not fit.
    """
    if node is None or node.op_type not in _OPS:
        return
    given: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "Pad":
        shape = shape_of(node.input[0])
        if shape and "pads" in given:
            windows.check_pads(given["pads"], len(shape))
        return
    if node.op_type != "MultiConv":
        _check_window(node.op_type, node.input, given, shape_of)
        return
    for number, inputs in enumerate(windows.parts(node.input, given["numInputs"])):
        own = {}
        for name in ("strides", "pads", "dilations", "inDilations"):
            counts = given.get(f"{name}Lengths")
            own[name] = windows.parts(given[name], counts)[number] if counts else None
        _check_window(node.op_type, inputs, own, shape_of)


def _check_window(
    type_: str, inputs: Sequence[str], given: Mapping[str, Any], shape_of: _Shapes
) -> None:
    """Refuses a window over one tensor."""
    shape = shape_of(inputs[0])
    if not shape:
        return
    kernel, sizes = given.get("kernel_shape"), shape[2:]
    if type_.endswith("Conv"):
        weights = shape_of(inputs[1])
        if not weights:
            return
        windows.check_kernel(kernel, weights[2:], inputs[1])
        kernel = weights[2:]
    if given.get("inDilations"):
        sizes = [(size - 1) * step + 1 for size, step in zip(sizes, given["inDilations"])]
    windows.check(
        type_,
        sizes,
        kernel or [],
        given.get("strides"),
        given.get("pads"),
        given.get("dilations"),
    )


# Takes a node, functions from ids of its inputs to types and data, and versions of domains; returns
# types of its outputs, or None if there is no rule.
Rule = Callable[[onnx.NodeProto, Any, Any, Any], "dict[str, onnx.TypeProto] | None"]
# Ops whose results are booleans, of the shape to which their inputs broadcast.
_LOGICAL = frozenset({"And", "Or", "Xor", "Not", "Equal", "Greater", "Less"})
_logger = logging.getLogger("popart.builder")


class Inference:
    """The types of the tensors of one graph, found node by node as they are asked for."""

    def __init__(self, graph: ModelGraph, rule: Rule, parent: Inference | None = None) -> None:
        """Starts with the types of inputs and initializers.

        Args:
            graph: the graph.
            rule: infers the types of nodes of domains other than ONNX.
            parent: of the graph around it.
        """
        self._graph = graph
        self._rule = rule
        self._parent = parent
        self._types: dict[str, onnx.TypeProto] = {}
        self._done = 0

    def type_of(self, tensor_id: str) -> onnx.TypeProto | None:
        """Returns the type of a tensor; None if it is not known.

        Args:
            tensor_id: the tensor.
        """
        self._go_on()
        return self._known(tensor_id)

    def _known(self, tensor_id: str) -> onnx.TypeProto | None:
        """Returns the type of a tensor that inputs, weights or nodes so far make."""
        if tensor_id not in self._types:
            for value in self._graph.proto.input:
                self._types.setdefault(value.name, value.type)
            for tensor in self._graph.proto.initializer:
                made = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
                self._types.setdefault(tensor.name, made)
        found = self._types.get(tensor_id)
        if found is None and self._parent is not None:
            return self._parent.type_of(tensor_id)
        return found

    def shape_of(self, tensor_id: str) -> list[int] | None:
        """Returns the shape of a tensor; None if it is not known.

        Args:
            tensor_id: the tensor.
        """
        found = self.type_of(tensor_id)
        if found is None or not found.tensor_type.HasField("shape"):
            return None
        dims = found.tensor_type.shape.dim
        return [dim.dim_value for dim in dims] if all(d.HasField("dim_value") for d in dims) else []

    def _go_on(self) -> None:
        """Infers the nodes that were added since."""
        nodes = self._graph.proto.node
        while self._done < len(nodes):
            node = nodes[self._done]
            self._done += 1
            self._types.update(self._infer(node))

    def _infer(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        version = self._graph.opsets.get(node.domain, 1)
        try:
            if node.domain != ONNX_DOMAIN or any(a.HasField("g") for a in node.attribute):
                opsets = self._graph.model_opsets()
                found = self._rule(node, self._known, self._data, opsets)
            else:
                found = self._infer_onnx(node, version)
        except Exception as error:  # whatever is wrong is said when a session is made
            _logger.debug("No types for %s: %s", node.op_type, error)
            found = None
        if found is None:
            _logger.info("The types of the outputs of %s are not known.", node.op_type)
        found = found or {}
        for type_ in found.values():
            _check(node, [d.dim_value for d in type_.tensor_type.shape.dim])
        return found

    def _infer_onnx(self, node: onnx.NodeProto, version: int) -> dict[str, onnx.TypeProto]:
        schema = defs.get_schema(node.op_type, version, node.domain)
        types = {name: self._known(name) for name in node.input if name}
        known = {name: type_ for name, type_ in types.items() if type_ is not None}
        if len(known) != len(types):
            return {}
        if node.op_type in _LOGICAL:
            return _logical(node, known)
        found = shape_inference.infer_node_outputs(
            schema,
            node,
            known,
            {name: data for name in known if (data := self._data(name)) is not None},
            opset_imports=[helper.make_opsetid(ONNX_DOMAIN, version)],
        )
        if node.op_type == "BatchNormalization":
            found.update({name: known[node.input[1]] for name in node.output[1:]})
        return found

    def _data(self, tensor_id: str) -> onnx.TensorProto | None:
        """Returns the value of a constant or initializer."""
        producer = self._graph.producer(tensor_id)
        if producer is not None and producer.op_type == "Constant":
            return next((a.t for a in producer.attribute if a.name == "value"), None)
        tensors = self._graph.proto.initializer
        return next((tensor for tensor in tensors if tensor.name == tensor_id), None)


def _logical(
    node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]
) -> dict[str, onnx.TypeProto]:
    """Returns the type of a logical op, whose inputs may have any type here."""
    shapes = [[d.dim_value for d in types[name].tensor_type.shape.dim] for name in node.input]
    shape = np.broadcast_shapes(*(tuple(shape) for shape in shapes))
    return {node.output[0]: helper.make_tensor_type_proto(onnx.TensorProto.BOOL, shape)}


def _check(node: onnx.NodeProto, shape: Sequence[int]) -> None:
    if any(size < 0 for size in shape):
        raise popart_exception(f"{node.op_type} has invalid shape {list(shape)}.")


def describe(type_: onnx.TypeProto | None) -> str:
    """Returns NumPy's name of the elements of a type; "undefined" if it is not known.

    Args:
        type_: the type.
    """
    return datatypes.of_onnx(type_.tensor_type.elem_type).lower_case if type_ else "undefined"
