"""Subgraphs: If, Loop, Scan, and calls."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import onnx
import tensorflow as tf

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.broadcasting import axis_of
from tensorflow_ipu.frontends.popart.ops.control_flow.iterations import iterated, types_of
from tensorflow_ipu.frontends.popart.ops.kinds import GRAPHCORE, Gradient, op
from tensorflow_ipu.ops.functional_ops import outlined_function

_COUNTS = ("int32", "int64", "uint32", "uint64")
_MOST_ITERATIONS = 2**31 - 1


@op("If", 1, 11)
def _if(
    condition: Any, *, else_branch: onnx.GraphProto, then_branch: onnx.GraphProto, context: Any
) -> Any:
    _check_condition("If", condition)
    branches = [context.subgraph(graph) for graph in (then_branch, else_branch)]
    types = [types_of(functools.partial(branch, [])) for branch in branches]
    if types[0] != types[1]:
        raise popart_exception(
            f"If: the outputs of its branches differ: {types[0]} and {types[1]}. They must have "
            "the same shapes and types."
        )
    if len(types[0]) != context.output_count:
        raise popart_exception(
            f"If has {context.output_count} outputs, and its branches have {len(types[0])}."
        )
    # Inputs of branches are the tensors around them that have their names.
    results = tf.cond(tf.reshape(condition, []), lambda: branches[0]([]), lambda: branches[1]([]))
    return results if isinstance(results, (list, tuple)) else [results]


@op("Call", 1, domain=GRAPHCORE)
def _call(*inputs: Any, callee: onnx.GraphProto, context: Any) -> Any:
    _check_call(inputs, callee)
    subgraph = context.subgraph(callee)
    if not callee.output:
        subgraph(inputs)
        return []
    function = outlined_function(lambda *given: subgraph(given), name=_fit(callee.name))
    return function(*inputs)


def _check_call(inputs: Sequence[Any], callee: onnx.GraphProto) -> None:
    """Refuses inputs of other shapes or types than those of the graph."""
    if len(inputs) != len(callee.input):
        raise popart_exception(
            f"For CallOp of {callee.name}, number of inputs ({len(inputs)}) does not match that of "
            f"the callee subgraph ({len(callee.input)})."
        )
    for tensor, value in zip(inputs, callee.input):
        type_ = value.type.tensor_type
        if not type_.elem_type:  # untyped: it takes what it gets
            continue
        shape = [dim.dim_value for dim in type_.shape.dim]
        dtype = datatypes.for_device(datatypes.of_onnx(type_.elem_type)).tf
        if (tensor.shape.as_list(), tensor.dtype) != (shape, dtype):
            raise popart_exception(
                f"CallOp input {tensor.shape.as_list()} {tensor.dtype.name} does not match callee "
                f"input tensor {value.name} of {callee.name}: {shape} {dtype.name}."
            )


@op("Loop", 1, 11, known=(0,), gradient=Gradient.NONE)
def _loop(
    count: Any, condition: Any = None, *carried: Any, body: onnx.GraphProto, context: Any
) -> Any:
    if count is None:
        raise popart_exception("Loop needs the maximum trip count: pass a constant for it.")
    if count.dtype.name not in _COUNTS or count.size != 1:
        raise popart_exception(
            f"Loop: unsupported trip count data type {count.dtype.name}, or no single number."
        )
    if condition is not None:
        _check_condition("Loop", condition)
    if len(body.input) != 2 + len(carried):
        raise popart_exception(
            f"Loop carries {len(carried)} tensors, and its body has {len(body.input)} inputs: "
            "iteration, condition, and those that are carried."
        )
    subgraph = context.subgraph(body)
    number_type = datatypes.of_onnx(body.input[0].type.tensor_type.elem_type or 7).tf
    form = [1] * len(body.input[0].type.tensor_type.shape.dim)
    condition_form = [1] * len(body.input[1].type.tensor_type.shape.dim)

    def step(i: Any, goes_on: Any, values: Sequence[Any]) -> list[Any]:
        number = tf.reshape(tf.cast(i, number_type), form)
        results = subgraph([number, tf.reshape(goes_on, condition_form), *values], i)
        return [tf.reshape(results[0], []), *results[1:]]

    begins = tf.constant(True) if condition is None else tf.reshape(condition, [])
    most = min(int(count.reshape(-1)[0]), _MOST_ITERATIONS)
    return iterated("Loop", step, most, begins, carried)


@op("Scan", 9, 11, gradient=Gradient.NONE)
def _scan(
    *inputs: Any,
    body: onnx.GraphProto,
    num_scan_inputs: int,
    scan_input_axes: Any = None,
    scan_input_directions: Any = None,
    scan_output_axes: Any = None,
    scan_output_directions: Any = None,
    context: Any,
) -> Any:
    states = len(inputs) - num_scan_inputs
    axes = [
        axis_of(axis, tensor.shape.rank)
        for axis, tensor in zip(scan_input_axes or [0] * num_scan_inputs, inputs[states:])
    ]
    scanned = [_first(tensor, axis) for tensor, axis in zip(inputs[states:], axes)]
    lengths = {tensor.shape[0] for tensor in scanned}
    if len(lengths) != 1:
        raise popart_exception(
            "Number of iterations required by the inputs do not match: Scan got inputs of the "
            f"lengths {sorted(lengths)}."
        )
    (count,) = lengths
    subgraph = context.subgraph(body)
    backwards = scan_input_directions or [0] * num_scan_inputs

    def step(i: Any, goes_on: Any, values: Sequence[Any]) -> list[Any]:
        elements = [t[count - 1 - i if back else i] for t, back in zip(scanned, backwards)]
        return [goes_on, *subgraph([*values, *elements], i)]

    results = iterated("Scan", step, count, tf.constant(True), inputs[:states])
    stacked = results[states:]
    out_axes = scan_output_axes or [0] * len(stacked)
    turned = scan_output_directions or [0] * len(stacked)
    return [
        *results[:states],
        *(
            _back(tf.reverse(tensor, [0]) if is_turned else tensor, axis)
            for tensor, axis, is_turned in zip(stacked, out_axes, turned)
        ),
    ]


def _first(tensor: Any, axis: int) -> Any:
    """Returns a tensor with an axis as its first one."""
    others = [i for i in range(tensor.shape.rank) if i != axis]
    return tf.transpose(tensor, [axis, *others]) if axis else tensor


def _back(tensor: Any, axis: int) -> Any:
    """Returns a tensor with its first axis at another place."""
    axis = axis_of(axis, tensor.shape.rank)
    order = list(range(1, tensor.shape.rank))
    order.insert(axis, 0)
    return tf.transpose(tensor, order) if axis else tensor


def _check_condition(type_: str, condition: Any) -> None:
    if condition.dtype != tf.bool or condition.shape.num_elements() != 1:
        raise popart_exception(
            f"The condition of {type_} must be a BOOL scalar. Received: {condition.dtype.name} "
            f"{condition.shape.as_list()}"
        )


def _fit(name: str) -> str:
    """Returns a name as functions of TensorFlow have it."""
    return "".join(c if c.isalnum() else "_" for c in name).strip("_") or "callee"
