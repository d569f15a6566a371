"""Abstract evaluation: shapes, types and trained weights of a model before there is a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import helper, numpy_helper

from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popart import datatypes, onnx_model
from tensorflow_ipu.frontends.popart.debug_info import named
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering import training
from tensorflow_ipu.frontends.popart.lowering.graphs import NodeLowering, Value
from tensorflow_ipu.frontends.popart.onnx_model import Model
from tensorflow_ipu.frontends.popart.ops import libraries, registry
from tensorflow_ipu.frontends.popart.ops.context import Context, Numerics, ProgramServices
from tensorflow_ipu.frontends.popart.ops.registry import RegisteredOp
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.util.notices import warn_once

# TensorFlow takes gradients of booleans and integers for zero. So gradients are followed node by
# node, from the loss to the weights.

# Returns TensorFlow's type of a tensor; None if it is not known.
_TypeOf = Callable[[str], Any]
# Patterns that make the gradient of an op, by its inputs.
_PATTERNS = {
    "Atan2": ("Atan2Arg0GradOp", "Atan2Arg1GradOp"),
    "Conv": ("ConvFlipWeightsGradOp",),
    "Cos": ("CosGradOp",),
    "Cosh": ("CoshOp",),
    "Exp": ("ExpGradOp",),
    "Expm1": ("Expm1GradOp",),
    "Log1p": ("Log1pGradOp",),
    "Reciprocal": ("ReciprocalGradOp",),
    "Sqrt": ("SqrtGradOp",),
    "Sub": (None, "SubtractArg1GradOp"),
}


def check_gradients(
    nodes: Sequence[onnx.NodeProto],
    opsets: Mapping[str, int],
    loss: str,
    sources: Iterable[str],
    type_of: _TypeOf,
    patterns_off: frozenset[str] = frozenset(),
) -> None:
    """Follows gradients from the loss to the sources.

    Args:
        nodes: the nodes, in order.
        opsets: versions of the domains.
        loss: the loss.
        sources: the tensors whose gradients are wanted.
        type_of: returns TensorFlow's type of a tensor; None if it is not known.
        patterns_off: patterns that are switched off.

    Raises:
        popart_exception: If an op on the way has no gradient, or needs a pattern for it.
    """
    _follow(nodes, opsets, {loss}, set(sources), type_of, patterns_off)


def _follow(
    nodes: Sequence[onnx.NodeProto],
    opsets: Mapping[str, int],
    asked: set[str],
    sources: set[str],
    type_of: _TypeOf,
    patterns_off: frozenset[str],
) -> None:
    """Walks back from tensors with requested gradients."""
    fed = set(sources)
    for node in nodes:
        is_cut = _kind(node, opsets).gradient is GradientRule.CUT
        if not is_cut and fed.intersection(onnx_model.taken_by(node)):
            fed.update(node.output)
    makers = {name: _kind(node, opsets) for node in nodes for name in node.output}
    for node in reversed(nodes):
        if not asked.intersection(node.output):
            continue
        kind = _kind(node, opsets)
        behind = {
            name
            for name in fed.intersection(onnx_model.taken_by(node))
            if _flows(node, kind, name, makers.get(name), type_of)
        }
        if behind and kind.gradient is GradientRule.REFUSED:
            raise popart_exception(
                f"{kind.type} does not have a valid grad op, and {named(node)} is between the loss "
                "and what is trained. Detach what it makes, or its inputs."
            )
        if behind and kind.gradient is GradientRule.NONE:
            warn_once(
                "No gradient flows through %s: what is behind it is not trained.", named(node)
            )
            continue
        _check_patterns(node, behind, patterns_off)
        asked |= behind
        for graph in _graphs(node):
            outputs = {value.name for value in graph.output}
            inner = fed | {value.name for value in graph.input} if behind else fed
            _follow(graph.node, opsets, outputs, inner, type_of, patterns_off)


def _check_patterns(node: onnx.NodeProto, behind: set[str], off: frozenset[str]) -> None:
    """Refuses a node if a gradient by one of its inputs needs a pattern that is off."""
    for name, pattern in zip(node.input, _PATTERNS.get(node.op_type, ())):
        if name in behind and pattern in off:
            raise popart_exception(
                f"The gradient of {named(node)} by {name} cannot be computed. This op should have "
                f"been removed by pattern {pattern}"
            )


def _kind(node: onnx.NodeProto, opsets: Mapping[str, int]) -> RegisteredOp:
    domain = "" if node.domain == "ai.onnx" else node.domain
    return registry.find(domain, node.op_type, opsets.get(domain, 1))


def _graphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def _flows(
    node: onnx.NodeProto,
    kind: RegisteredOp,
    name: str,
    maker: RegisteredOp | None,
    type_of: _TypeOf,
) -> bool:
    """Returns whether a gradient of a node's output makes one of an input.

    Those of booleans and integers are asked for by casts, and by ops that compute with them.
    """
    if any(node.input[i] == name for i in kind.known if i < len(node.input)):
        return False
    if node.op_type == "Cast":
        return True
    own, made = type_of(name), type_of(node.output[0]) if node.output else None
    if own is None:
        return maker is None or maker.gradient is not GradientRule.REFUSED
    return bool(own.is_floating or (made is not None and not made.is_floating))


_USUAL = Numerics()


@dataclasses.dataclass(frozen=True)
class ModelFacts:
    """Facts about a model, found by abstract evaluation.

    Attributes:
        infos: Shape and type of each tensor.
        trained: The weights that the loss depends on.
        tracked: The tensors whose gradients the loss scale follows.
        draws: Whether an op draws random numbers.
    """

    infos: Mapping[str, TensorInfo]
    trained: tuple[str, ...]
    tracked: tuple[str, ...] = ()
    draws: bool = False


def evaluate(
    model: Model,
    trained: training.Training | None,
    replicas: int,
    differentiated: Sequence[str] = (),
    numerics: Numerics = _USUAL,
    patterns_off: frozenset[str] = frozenset(),
) -> ModelFacts:
    """Evaluates a model on shapes, in a graph that never runs.

    Args:
        model: the model.
        trained: how it is trained; None for inference.
        replicas: number of replicas.
        differentiated: tensors whose gradients are wanted.
        numerics: options that change the results of ops.
        patterns_off: patterns that are switched off.

    Raises:
        popart_exception: If nodes do not fit each other, or there is no such loss.
    """
    with tf.Graph().as_default():
        services = ProgramServices()
        context = Context(
            trained is not None,
            replicas,
            numerics,
            services,
            differentiated=frozenset(differentiated),
        )
        lowering = NodeLowering(model.opsets, context)
        for name, info in model.inputs.items():
            type_ = datatypes.of_member(info.dataType())
            placeholder = tf.compat.v1.placeholder(type_.tf, info.shape())
            lowering.values[name] = Value(placeholder)
        for name, array in model.weights.items():
            lowering.values[name] = _weight(model, name, array, replicas)
        lowering.run(model.nodes)
        infos = {name: _info(value) for name, value in lowering.values.items()}
        floating = [name for name, array in model.weights.items() if array.dtype.kind == "f"]
        found: dict[str, Any] = {}
        if trained is not None:
            wanted = [*floating, *(name for name in differentiated if name in infos)]
            found = _gradients(lowering, model, trained, wanted, patterns_off)
        kept = [name for name in differentiated if name in found]
        infos.update({training.GRADIENT + name: infos[name] for name in kept})
        tracked = _tracked(lowering, model, trained) if trained else ()
    weights = [name for name in floating if name in found]
    return ModelFacts(infos, tuple(weights), tracked, services.needs_seed)


def _weight(model: Model, name: str, array: np.ndarray, replicas: int) -> Value:
    """Returns a placeholder for a weight on one replica."""
    if model.grouping(name, replicas) is None:
        return Value(tf.compat.v1.placeholder(array.dtype, array.shape), array)
    shape = model.settings[name].shapeOnReplica(list(array.shape), replicas, name)
    return Value(tf.compat.v1.placeholder(array.dtype, shape), is_weight=True)


def _tracked(lowering: NodeLowering, model: Model, trained: training.Training) -> tuple[str, ...]:
    """Returns the tensors with gradients that the loss scale follows."""
    settings = trained.scale
    if settings is None:
        return ()
    types = {name: value.dtype for name, value in lowering.values.items()}
    names = training.tracked(settings, model.nodes, types)
    if trained.optimizer.loss_scaling.isConst():
        raise popart_exception(
            'Pass {"lossScaling": (value, False)}. [AutomaticLossScale transform] The optimizer '
            "must have non-const loss scaling"
        )
    return tuple(training.gradients(lowering, trained, names, 1.0))


def _gradients(
    lowering: NodeLowering,
    model: Model,
    trained: training.Training,
    wanted: Sequence[str],
    patterns_off: frozenset[str],
) -> dict[str, Any]:
    """Returns gradients of the loss by tensor, without those that do not lead to it."""
    if trained.loss not in lowering.values:
        raise popart_exception(
            f"Could not find loss tensor '{trained.loss}' in main graph tensors."
        )

    def type_of(name: str) -> Any:
        return lowering.values[name].dtype if name in lowering.values else None

    check_gradients(model.nodes, model.opsets, trained.loss, wanted, type_of, patterns_off)
    return training.gradients(lowering, trained, wanted, 1.0)


def _info(value: Value) -> TensorInfo:
    return TensorInfo(datatypes.of_tf(value.dtype).member, value.shape)


# Ops of which the original's builder knows no shapes.
_WITHOUT = (
    *("ScaledAdd", "NormalizeImage", "ReplicatedAllReduce", "ReplicatedReduceScatter"),
    *("PackedDataBlock", "IncrementMod", "Abort"),
)


def types_of_node(
    node: onnx.NodeProto,
    type_of: Callable[[str], onnx.TypeProto | None],
    data_of: Callable[[str], onnx.TensorProto | None],
    opsets: Mapping[str, int],
) -> dict[str, onnx.TypeProto] | None:
    """Returns the types of the outputs of a node; None if there is no rule.

    Args:
        node: the node.
        type_of: returns the type of a tensor.
        data_of: returns the value of a tensor, if it is known.
        opsets: versions of the domains.
    """
    if node.op_type in _WITHOUT:
        return None
    if node.op_type in _RULES:
        return _RULES[node.op_type](node, type_of(node.input[0]))
    known = libraries.types_of(node, type_of, opsets.get(node.domain, 1))
    if known is not None:
        return known
    with tf.Graph().as_default():
        lowering = NodeLowering(opsets, Context(services=ProgramServices()), knows_weights=False)
        for name in onnx_model.taken_by(node):
            type_ = type_of(name)
            if type_ is not None:
                lowering.values[name] = _placeholder(type_, data_of(name))
        try:
            lowering.run([node])
        except popart_exception:
            return None
        return {
            name: helper.make_tensor_type_proto(
                datatypes.of_tf(lowering.value(name).dtype).onnx, lowering.value(name).shape
            )
            for name in node.output
            if name in lowering.values
        }


def _subsampled(node: onnx.NodeProto, type_: onnx.TypeProto) -> dict[str, onnx.TypeProto]:
    """Returns the type of a Subsample: the original's builder rounds sizes down, its run up."""
    (strides,) = (attribute.ints for attribute in node.attribute if attribute.name == "strides")
    sizes = [dim.dim_value for dim in type_.tensor_type.shape.dim]
    shape = [size // stride for size, stride in zip(sizes, strides)]
    return {node.output[0]: helper.make_tensor_type_proto(type_.tensor_type.elem_type, shape)}


def _updated(node: onnx.NodeProto, type_: onnx.TypeProto) -> dict[str, onnx.TypeProto]:
    """Returns the type of a DynamicUpdate: the type of its tensor."""
    return {node.output[0]: type_}


# Ops whose types in the builder differ from their results, or need no evaluation.
_RULES: Mapping[str, Callable[[onnx.NodeProto, Any], dict[str, onnx.TypeProto]]] = {
    "Subsample": _subsampled,
    "DynamicUpdate": _updated,
}


def _placeholder(type_: onnx.TypeProto, data: onnx.TensorProto | None) -> Value:
    tensor = type_.tensor_type
    shape = [dim.dim_value for dim in tensor.shape.dim]
    placeholder = tf.compat.v1.placeholder(datatypes.of_onnx(tensor.elem_type).tf, shape)
    return Value(placeholder, None if data is None else numpy_helper.to_array(data))
