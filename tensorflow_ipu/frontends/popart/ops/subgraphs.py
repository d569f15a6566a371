"""Ops with subgraphs: conditionals, loops, scans, calls, and functions over packed data."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import onnx
import tensorflow as tf
from tensorflow.python.framework import func_graph as func_graph_lib

from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.operands import axis_of
from tensorflow_ipu.frontends.popart.ops.registry import GRAPHCORE, op
from tensorflow_ipu.ops.functional_ops import outlined_function


def iterated(type_: str, step: Any, count: int, begins: Any, carried: Sequence[Any]) -> list[Any]:
    """Runs a step again and again, while its first result is true.

    Args:
        type_: the op, for errors.
        step: takes the number of the iteration, whether it goes on, and the values that are
            carried; returns whether to go on, these values, and others to stack.
        count: the largest number of iterations.
        begins: whether there is a first one.
        carried: the values before it.

    Returns:
        The values after the last iteration; and of the others, for each a tensor with a new first
        dimension of `count`, zero where there was no iteration.

    Raises:
        popart_exception: If a carried tensor has another shape or type after an iteration.
    """
    types = types_of(lambda: step(tf.constant(0), begins, carried))[1:]
    for tensor, (dtype, shape) in zip(carried, types):
        if (tensor.dtype.name, tensor.shape.as_list()) != (dtype, shape):
            raise popart_exception(
                f"{type_}: a tensor that is carried is {tensor.dtype.name} "
                f"{tensor.shape.as_list()} before an iteration, and {dtype} {shape} after it."
            )
    arrays = [
        tf.TensorArray(dtype, count, element_shape=shape) for dtype, shape in types[len(carried) :]
    ]

    def iterate(i: Any, goes_on: Any, values: Any, stacked: Any) -> Any:
        goes_on, *results = step(i, goes_on, values)
        kept, others = results[: len(values)], results[len(values) :]
        return i + 1, goes_on, kept, [a.write(i, value) for a, value in zip(stacked, others)]

    _, _, values, stacked = tf.while_loop(
        lambda i, goes_on, *_: goes_on,
        iterate,
        (tf.constant(0), begins, list(carried), arrays),
        maximum_iterations=count,
        parallel_iterations=1,
    )
    shapes = [shape for _, shape in types[len(carried) :]]
    return [
        *values,
        *(tf.ensure_shape(array.stack(), [count, *s]) for array, s in zip(stacked, shapes)),
    ]


def types_of(function: Any) -> list[tuple[str, list[int]]]:
    """Returns types and shapes of a function's results, traced in a graph that never runs.

    Args:
        function: makes tensors.
    """
    found: list[tuple[str, list[int]]] = []

    def build() -> list[Any]:
        results = function()
        found.extend((result.dtype.name, result.shape.as_list()) for result in results)
        return []

    func_graph_lib.func_graph_from_py_func("types", build, [], {})
    return found


_COUNTS = ("int32", "int64", "uint32", "uint64")
_MOST_ITERATIONS = 2**31 - 1


@op("If", 1, 11)
def _if(
    condition: Any, *, else_branch: onnx.GraphProto, then_branch: onnx.GraphProto, context: Any
) -> Any:
    if condition.shape.num_elements() != 1:
        raise popart_exception(
            f"The condition of If must have one element. Received the shape {condition.shape}"
        )
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
    taken = tf.cast(tf.reshape(condition, []), tf.bool)
    results = tf.cond(taken, lambda: branches[0]([]), lambda: branches[1]([]))
    return results if isinstance(results, (list, tuple)) else [results]


@op("Call", 1, domain=GRAPHCORE)
def _call(*inputs: Any, callee: onnx.GraphProto, context: Any) -> Any:
    _check_call(inputs, callee)
    subgraph = context.subgraph(callee)
    if not callee.output:
        context.services.effect(subgraph.finished(inputs), ordered=True)
        return []
    function = outlined_function(lambda *given: subgraph(given), name=_fit(callee.name))
    return function(*inputs)


def _check_call(inputs: Sequence[Any], callee: onnx.GraphProto) -> None:
    """Raises if inputs differ from the graph's in number or type."""
    if len(inputs) != len(callee.input):
        raise popart_exception(
            f"For CallOp '{callee.name}', number of inputs ({len(inputs)}) does not match that of "
            f"the callee subgraph ({len(callee.input)})"
        )
    for tensor, value in zip(inputs, callee.input):
        type_ = value.type.tensor_type
        if not type_.elem_type:  # untyped: any type fits
            continue
        dtype = datatypes.for_device(datatypes.of_onnx(type_.elem_type)).tf
        if tensor.dtype != dtype:
            raise popart_exception(
                f"CallOp input {tensor.shape.as_list()} {tensor.dtype.name} does not match callee "
                f"input tensor {value.name} of {callee.name}: {dtype.name}."
            )


@op("Loop", 1, 11, known=(0,), gradient=GradientRule.NONE)
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


@op("Scan", 9, 11, gradient=GradientRule.NONE)
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
    ways = (scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions)
    return scanned(inputs, body, num_scan_inputs, ways, True, context)


def scanned(
    inputs: Sequence[Any],
    body: onnx.GraphProto,
    count_of_scanned: int,
    ways: Sequence[Any],
    keeps_axes: bool,
    context: Any,
) -> list[Any]:
    """Runs a graph over the elements of axes.

    Args:
        inputs: states, then scanned tensors.
        body: the graph.
        count_of_scanned: how many of the inputs are scanned.
        ways: axes and directions of scanned inputs, then of results; None for 0.
        keeps_axes: whether the graph sees a scanned axis with size 1, and results are joined along
            their axis, as in PopART. In ONNX the axis is removed, and results are stacked.
        context: the interface of the session to its ops.

    Raises:
        popart_exception: If the scanned axes have several lengths.
    """
    states = len(inputs) - count_of_scanned
    given_axes, backwards, out_axes, turned = ways
    taken = inputs[states:]
    axes = [
        axis_of(axis, tensor.shape.rank)
        for axis, tensor in zip(given_axes or [0] * count_of_scanned, taken)
    ]
    lengths = {tensor.shape[axis] for tensor, axis in zip(taken, axes)}
    if len(lengths) != 1:
        raise popart_exception(
            "Number of iterations required by the inputs do not match: Scan got inputs of the "
            f"lengths {sorted(lengths)}."
        )
    (count,) = lengths
    subgraph = context.subgraph(body)
    backwards = backwards or [0] * count_of_scanned

    def step(i: Any, goes_on: Any, values: Sequence[Any]) -> list[Any]:
        elements = [
            _slice(tensor, axis, count - 1 - i if back else i)
            for tensor, axis, back in zip(taken, axes, backwards)
        ]
        if not keeps_axes:
            elements = [tf.squeeze(element, axis) for element, axis in zip(elements, axes)]
        return [goes_on, *subgraph([*values, *elements], i)]

    results = iterated("Scan", step, count, tf.constant(True), inputs[:states])
    stacked = results[states:]
    turned = turned or [0] * len(stacked)
    put = _joined if keeps_axes else _stacked
    return [
        *results[:states],
        *(
            put(tf.reverse(tensor, [0]) if is_turned else tensor, axis)
            for tensor, axis, is_turned in zip(stacked, out_axes or [0] * len(stacked), turned)
        ),
    ]


def _stacked(tensor: Any, axis: int) -> Any:
    """Moves the results of iterations from the first axis to another one."""
    order = list(range(1, tensor.shape.rank))
    order.insert(axis_of(axis, tensor.shape.rank), 0)
    return tf.transpose(tensor, order)


def _slice(tensor: Any, axis: int, i: Any) -> Any:
    """Returns one element of an axis, as an axis of size 1."""
    return tf.gather(tensor, tf.reshape(i, [1]), axis=axis)


def _joined(tensor: Any, axis: int) -> Any:
    """Joins the results of iterations, stacked along the first axis, along another axis."""
    axis = axis_of(axis, tensor.shape.rank - 1)
    shape = tensor.shape.as_list()
    order = list(range(1, tensor.shape.rank))
    order.insert(axis, 0)
    return tf.reshape(
        tf.transpose(tensor, order),
        [*shape[1 : axis + 1], shape[0] * shape[axis + 1], *shape[axis + 2 :]],
    )


def _check_condition(type_: str, condition: Any) -> None:
    if condition.dtype != tf.bool or condition.shape.num_elements() != 1:
        raise popart_exception(
            f"The condition of {type_} must be a BOOL scalar. Received: {condition.dtype.name} "
            f"{condition.shape.as_list()}"
        )


def _fit(name: str) -> str:
    """Returns a name as functions of TensorFlow have it."""
    return "".join(c if c.isalnum() else "_" for c in name).strip("_") or "callee"


@op("PackedDataBlock", 1, domain=GRAPHCORE)
def _packed_data_block(
    *inputs: Any,
    maxSequenceLengths: Any,
    resultSize: int,
    callbackBatchSize: int,
    callback: onnx.GraphProto,
    context: Any,
) -> Any:
    if len(inputs) % 3 != 2 or len(inputs) // 3 != len(maxSequenceLengths):
        raise popart_exception(
            "PackedDataBlock takes data, offsets and lengths for each of its "
            f"{len(maxSequenceLengths)} maxSequenceLengths, then offsets and lengths of the "
            f"result. Received: {len(inputs)} inputs"
        )
    *given, offsets, lengths = inputs
    sequences = offsets.shape[0]
    if sequences % callbackBatchSize:
        raise popart_exception(
            f"PackedDataBlock: the number of sequences, {sequences}, must be a multiple of "
            f"callbackBatchSize, {callbackBatchSize}."
        )
    batches = sequences // callbackBatchSize
    unpacked = []
    for i, longest in enumerate(maxSequenceLengths):
        data, first, counts = given[3 * i : 3 * i + 3]
        rows = _unpacked(data, first, counts, longest)
        shape = [batches, callbackBatchSize, *rows.shape[1:]]
        unpacked.append(tf.reshape(rows, shape))
    subgraph = context.subgraph(callback)

    def step(i: Any, goes_on: Any, _: Sequence[Any]) -> list[Any]:
        return [goes_on, *subgraph([rows[i] for rows in unpacked], i)]

    (results,) = iterated("PackedDataBlock", step, batches, tf.constant(True), [])
    rows = tf.reshape(results, [sequences, *results.shape[2:]])
    return _packed(rows, offsets, lengths, resultSize)


def _rows_of(offsets: Any, lengths: Any, longest: int) -> tuple[Any, Any]:
    """Returns the row of each element of sequences, and whether there is one."""
    steps = tf.range(longest)
    rows = tf.cast(offsets, tf.int32)[:, tf.newaxis] + steps
    return rows, steps < tf.cast(lengths, tf.int32)[:, tf.newaxis]


def _unpacked(data: Any, offsets: Any, lengths: Any, longest: int) -> Any:
    """Returns sequences one beside the other, with zeros after their ends."""
    rows, inside = _rows_of(offsets, lengths, longest)
    found = tf.gather(data, tf.where(inside, rows, 0))
    mask = tf.reshape(inside, [*inside.shape, *[1] * (data.shape.rank - 1)])
    return tf.where(mask, found, tf.zeros_like(found))


def _packed(sequences: Any, offsets: Any, lengths: Any, size: int) -> Any:
    """Returns sequences one after the other; rows that belong to none are zero."""
    rows, inside = _rows_of(offsets, lengths, sequences.shape[1])
    # What is after the end of a sequence goes to a row that is cut off.
    places = tf.where(inside, rows, size)
    shape = [size + 1, *sequences.shape[2:]]
    packed = tf.tensor_scatter_nd_update(
        tf.zeros(shape, sequences.dtype), places[..., tf.newaxis], sequences
    )
    return packed[:size]
