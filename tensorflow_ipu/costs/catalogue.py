"""Costs of ops by their type: `cost_of`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from tensorflow_ipu.costs.contractions import float8, matmul, recurrent
from tensorflow_ipu.costs.contractions.convolution import convolution
from tensorflow_ipu.costs.cost import (
    FREE,
    Cost,
    OpSpec,
    Resources,
    Rule,
    TensorType,
    UnknownCostError,
    rules,
)
from tensorflow_ipu.costs.rules import (
    data_movement,
    elementwise,
    normalization,
    pooling,
    randomness,
    reduction,
    sequences,
    slicing,
    user_programs,
    variable_updates,
    zero_cost,
)

# Costs that are kept: a large program has some thousand different ones.
_KEPT = 65536

_CONVOLUTIONS = """
    Conv2D Conv2DBackpropInput Conv2DBackpropFilter
    Conv3D Conv3DBackpropInput Conv3DBackpropInputV2 Conv3DBackpropFilter Conv3DBackpropFilterV2
    DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter
    """
_CONVOLUTION_ATTRIBUTES = "strides padding explicit_paddings dilations data_format"


def _price(spec: OpSpec, resources: Resources) -> Cost:
    """Returns the cost of an op that a user's program has inside."""
    return cost_of(spec, resources)


#: The rule of each op type that is known.
RULES: Mapping[str, Rule] = {
    **rules(convolution, _CONVOLUTIONS, _CONVOLUTION_ATTRIBUTES),
    **elementwise.RULES,
    **float8.RULES,
    **zero_cost.RULES,
    **data_movement.RULES,
    **normalization.RULES,
    **pooling.RULES,
    **matmul.RULES,
    **randomness.RULES,
    **recurrent.RULES,
    **reduction.RULES,
    **slicing.RULES,
    **sequences.RULES,
    **user_programs.rules_with(_price),
    **variable_updates.RULES,
}

#: For what is in no table: user ops and what TensorFlow has besides.
UNKNOWN = Rule(elementwise.unknown)


def cost_of(spec: OpSpec, resources: Resources) -> Cost:
    """Returns the cost of one execution of an op on one IPU.

    Args:
        spec: the op. Of its attributes only those count that its rule reads.
        resources: what it has at its disposal.

    Returns:
        The cost; none when the results have no elements. An unknown op type costs three simple
        operations on each element of its largest operand or result, and its label is `assumed`.
        The same goes for an op that its rule cannot handle, such as one with shapes of unknown
        rank: the rule raises `UnknownCostError`. Any other error of a rule is a fault of the rule,
        and is raised.
    """
    given, reads = spec.attributes, RULES.get(spec.type, UNKNOWN).reads
    attributes = tuple([(name, _frozen(given[name])) for name in reads if name in given])
    return _cost(spec.type, spec.inputs, spec.outputs, attributes, resources)


def _frozen(value: Any) -> Any:
    """Returns an attribute's value as a key: lists become tuples."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return tuple(_frozen(item) for item in value)
    return value


@lru_cache(maxsize=_KEPT)
def _cost(
    op_type: str,
    inputs: tuple[TensorType, ...],
    outputs: tuple[TensorType, ...],
    attributes: tuple[tuple[str, Any], ...],
    resources: Resources,
) -> Cost:
    """Prices an op, cached by all inputs of its cost."""
    if outputs and not any(tensor.elements for tensor in outputs):
        return FREE
    spec = OpSpec(op_type, inputs, outputs, dict(attributes))
    try:
        return RULES.get(op_type, UNKNOWN).cost(spec, resources)
    except UnknownCostError:
        return UNKNOWN.cost(spec, resources)
