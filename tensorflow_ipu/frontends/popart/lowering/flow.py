"""Which ops gradients flow through: refuses those that have none, warns of those that stop them.

Gradients of booleans and integers do not exist in TensorFlow, which would take them for zero. So
the way from the loss to what is trained is followed node by node, before there is a program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import onnx

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering.nodes import named
from tensorflow_ipu.frontends.popart.model import imports
from tensorflow_ipu.frontends.popart.ops import kinds
from tensorflow_ipu.frontends.popart.ops.kinds import Gradient, OpKind
from tensorflow_ipu.util.notices import warn_once

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


def check(
    nodes: Sequence[onnx.NodeProto],
    opsets: Mapping[str, int],
    loss: str,
    sources: Iterable[str],
    type_of: _TypeOf,
    patterns_off: frozenset[str] = frozenset(),
) -> None:
    """Follows gradients from the loss to what is trained.

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
    """Goes back from tensors whose gradients are asked for."""
    fed = set(sources)
    for node in nodes:
        is_cut = _kind(node, opsets).gradient is Gradient.CUT
        if not is_cut and fed.intersection(imports.taken_by(node)):
            fed.update(node.output)
    makers = {name: _kind(node, opsets) for node in nodes for name in node.output}
    for node in reversed(nodes):
        if not asked.intersection(node.output):
            continue
        kind = _kind(node, opsets)
        behind = {
            name
            for name in fed.intersection(imports.taken_by(node))
            if _flows(node, kind, name, makers.get(name), type_of)
        }
        if behind and kind.gradient is Gradient.REFUSED:
            raise popart_exception(
                f"{kind.type} does not have a valid grad op, and {named(node)} is between the loss "
                "and what is trained. Detach what it makes, or its inputs."
            )
        if behind and kind.gradient is Gradient.NONE:
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
    """Refuses a node whose gradient by some of its inputs needs a pattern that is off."""
    for name, pattern in zip(node.input, _PATTERNS.get(node.op_type, ())):
        if name in behind and pattern in off:
            raise popart_exception(
                f"The gradient of {named(node)} by {name} cannot be computed. This op should have "
                f"been removed by pattern {pattern}"
            )


def _kind(node: onnx.NodeProto, opsets: Mapping[str, int]) -> OpKind:
    domain = "" if node.domain == "ai.onnx" else node.domain
    return kinds.find(domain, node.op_type, opsets.get(domain, 1))


def _graphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def _flows(
    node: onnx.NodeProto, kind: OpKind, name: str, maker: OpKind | None, type_of: _TypeOf
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
        return maker is None or maker.gradient is not Gradient.REFUSED
    return bool(own.is_floating or (made is not None and not made.is_floating))
