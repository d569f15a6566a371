"""Costs of users' operations that are Poplar programs.

Memory and vertices follow the user's mapping, and cycles the user's estimates. Ops of Poplar's
libraries are priced as the ops of TensorFlow that compute the same.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

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
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.util import op_names

#: The op of TensorFlow that an op of a library is priced as; others as an unknown op.
_LIKE = {
    "poplin::LUFactorization": "Lu",
    "poplin::QRFactorization": "Qr",
    "poplin::addBias": "BiasAdd",
    "poplin::cholesky": "Cholesky",
    "poplin::convolutionBiasUpdate": "BiasAddGrad",
    "poplin::normGradients": "Mul",
    "poplin::normParamUpdate": "Sum",
    "poplin::normScale": "Mul",
    "poplin::normStatistics": "Sum",
    "poplin::normSums": "Sum",
    "poplin::normWhiten": "Mul",
    "poplin::triangularSolve": "MatrixTriangularSolve",
    "popnn::calcLoss": "SoftmaxCrossEntropyWithLogits",
    "popnn::logSoftmax": "LogSoftmax",
    "popnn::nonLinearity": "Tanh",
    "popnn::nonLinearityInputGradient": "TanhGrad",
    "popnn::pool": "MaxPool",
    "popnn::select": "TopKV2",
    "popops::dynamicSlice": "Slice",
    "popops::encodeOneHot": "OneHot",
    "popops::gather": "GatherV2",
    "popops::map": "Mul",
    "popops::multiSlice": "GatherV2",
    "popops::reduce": "Sum",
    "popops::scatter": "ScatterNd",
    "popops::topK": "TopKV2",
    "poprand::normal": "RandomStandardNormal",
    "poprand::truncatedNormal": "TruncatedNormal",
    "poprand::uniform": "RandomUniform",
}
_UNKNOWN = "UserProgram"
_TYPES = {
    "float": "float32",
    "half": "float16",
    "int": "int32",
    "unsigned int": "uint32",
    "short": "int16",
    "unsigned short": "uint16",
    "char": "int8",
    "unsigned char": "uint8",
}
# Of Poplar's description of a program.
_FIELDS = frozenset(
    ("compute", "exchange", "sync", "temporary", "codelets", "vertex_state", "certain", "ops")
)

Price = Callable[[OpSpec, Resources], Cost]


def rules_with(price: Price) -> Mapping[str, Rule]:
    """Returns the rule of users' operations.

    Args:
        price: gives the cost of an op of TensorFlow.
    """

    def user_program(spec: OpSpec, resources: Resources) -> Cost:
        return _cost(_described(spec), resources, price)

    return rules(user_program, op_names.USER_OP, "takes")


def _described(spec: OpSpec) -> Mapping[str, Any]:
    """Returns Poplar's description of the program of an op."""
    takes = spec.attributes.get("takes")
    try:
        described = json.loads(takes) if isinstance(takes, str) else None
    except ValueError:
        described = None
    if not isinstance(described, dict) or not described.keys() >= _FIELDS:
        raise UnknownCostError(f"{spec.type}: nothing is known of the program.")
    return described


def _cost(takes: Mapping[str, Any], resources: Resources, price: Price) -> Cost:
    """Returns the cost of a program, from its description by Poplar."""
    own = Cost(
        compute=takes["compute"],
        exchange=takes["exchange"],
        sync=takes["sync"],
        temporary=takes["temporary"],
        codelets=tuple(takes["codelets"]),
        vertex_state=takes["vertex_state"],
        label=Label.MODELLED if takes["certain"] else Label.ASSUMED,
    )
    libraries = FREE
    for op in takes["ops"]:
        spec, times = _like(op)
        libraries = libraries + price(spec, resources).times(op["times"] * times)
    if not takes["ops"]:
        return own
    # Intermediate results are there while the ops of libraries run.
    temporary = own.temporary + libraries.temporary
    return dataclasses.replace(own + libraries, temporary=temporary)


def _like(op: Mapping[str, Any]) -> tuple[OpSpec, int]:
    """Returns an op of TensorFlow with the work of an op of a library, and how often it runs."""
    inputs, outputs = _tensors(op["inputs"]), _tensors(op["outputs"])
    if "products" not in op:
        return OpSpec(_LIKE.get(op["name"], _UNKNOWN), inputs, outputs, {}), 1
    # A convolution, or a step of a recurrent layer, has the products of matrices.
    times, groups, rows, inner, columns = op["products"]
    dtype = inputs[0].dtype
    left = TensorType(dtype, (groups, rows, inner))
    right = TensorType(dtype, (groups, inner, columns))
    result = TensorType(dtype, (groups, rows, columns))
    return OpSpec("BatchMatMulV2", (left, right), (result,), {}), times


def _tensors(tensors: list[tuple[str, list[int]]]) -> tuple[TensorType, ...]:
    return tuple(TensorType(_TYPES.get(name, name), tuple(shape)) for name, shape in tensors)
