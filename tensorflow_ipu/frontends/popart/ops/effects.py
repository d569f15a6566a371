"""Ops with side effects: writes to weights, prints, ends of the program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
import tensorflow as tf

from tensorflow_ipu.api import scopes
from tensorflow_ipu.compiler import trace
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.registry import GRAPHCORE, op
from tensorflow_ipu.ops.cross_replica_ops import cross_replica_sum
from tensorflow_ipu.runtime import native

# Ops that run although their results have no uses.
_OPS = frozenset({"PrintTensor", "Abort", "CopyVarUpdate"})
# Begins the error of a program that stops itself.
ABORTED = "Abort Program"
# Notations of floats by number.
_FORMATS = ("auto", "fixed", "scientific", "none")
# Stands for no limit in the layout of a print.
_NO_LIMIT = 2**31 - 1


def has_effect(node: onnx.NodeProto) -> bool:
    """Returns whether a node does something besides its results, itself or in a subgraph.

    Args:
        node: the node.
    """
    return node.op_type in _OPS or runs_effects(node)


def runs_effects(node: onnx.NodeProto) -> bool:
    """Returns whether a node has a subgraph with effects.

    Args:
        node: the node.
    """
    graphs = (graph for a in node.attribute for graph in (a.g, *a.graphs))
    return any(has_effect(inner) for graph in graphs for inner in graph.node)


@op("Abort", 1, domain=GRAPHCORE, gradient=GradientRule.NONE)
def _abort(condition: Any = None, *, context: Any) -> list[Any]:
    if condition is None:
        condition = tf.constant(True)
    if condition.shape.num_elements() != 1:
        raise popart_exception(
            "Conditional abort op can only test a scalar tensor. Received the shape "
            f"{condition.shape.as_list()}."
        )
    stops = tf.cast(tf.cast(tf.reshape(condition, []), tf.bool), tf.float32)
    if context.replicas > 1:
        stops = cross_replica_sum(stops)
    is_program = trace.in_cluster()
    with scopes.outside_compilation_scope("abort") if is_program else tf.name_scope("abort"):
        going = tf.equal(stops, 0)
        context.services.effect(tf.raw_ops.Assert(condition=going, data=[ABORTED]))
    return []


@op("CopyVarUpdate", 1, domain=GRAPHCORE, gradient=GradientRule.NONE)
def _copy_var_update(*inputs: Any, context: Any) -> Any:
    if len(inputs) != 2:
        raise popart_exception(
            f"CopyVarUpdate should have two args, a weight and its value. Received: {len(inputs)}"
        )
    weight, value = inputs
    name = context.node.input[0]
    if not context.is_weight(name):
        raise popart_exception(
            f"The first arg of CopyVarUpdate should be an initalised tensor. {name} is none: make "
            "it with addInitializedInputTensor."
        )
    if weight.shape != value.shape or weight.dtype != value.dtype:
        raise popart_exception(
            f"CopyVarUpdate of {name}: the value has the shape {value.shape} and type "
            f"{value.dtype.name}, the weight {weight.shape} and {weight.dtype.name}."
        )
    context.services.assign(name, value)
    return tf.identity(value)


@op("PrintTensor", 1, domain=GRAPHCORE)
def _print(
    x: Any,
    *,
    print_gradient: int = 1,
    title: str = "",
    summariseThreshold: int = 1000,
    edgeItems: int = 3,
    maxLineWidth: int = 75,
    digits: int = 8,
    floatFormat: int = 0,
    separator: str = " ",
    openBracket: str = "[",
    closeBracket: str = "]",
    context: Any,
) -> Any:
    name = context.node.input[0]
    if not 0 <= floatFormat < len(_FORMATS):
        raise popart_exception(
            f"PrintTensor has the float formats 0 to {len(_FORMATS) - 1}. Received: {floatFormat}"
        )
    layout = {
        "summarise_threshold": summariseThreshold or _NO_LIMIT,
        "edge_items": edgeItems,
        "max_line_width": maxLineWidth or _NO_LIMIT,
        "digits": digits,
        "float_format": _FORMATS[floatFormat],
        "separator": separator,
        "open_bracket": openBracket,
        "close_bracket": closeBracket,
    }

    @tf.custom_gradient
    def printed(value: Any) -> Any:
        def backward(gradient: Any) -> Any:
            if not print_gradient:
                return gradient
            own = f"{title}_gradient" if title else f"Gradient___{name}"
            return _printed(gradient, own, layout)

        with tf.control_dependencies(context.services.ordered[-1:]):
            return _printed(value, title or name, layout), backward

    result = printed(x)
    context.services.effect(result.op, ordered=True)
    return result


def _printed(value: Any, title: str, layout: Mapping[str, Any]) -> Any:
    shown = native.ops().ipu_print_tensor(value, tensor_name=title, **layout)
    with tf.control_dependencies([shown]):
        return tf.identity(value)
