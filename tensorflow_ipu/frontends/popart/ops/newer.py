"""Ops of ONNX as of opset 12: changed, new and unchanged ones."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import defs

from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import (
    elementwise,
    images,
    indexing,
    losses,
    movement,
    normalization,
    operands,
    pooling,
    random_values,
    recurrent,
    reductions,
    subgraphs,
)
from tensorflow_ipu.frontends.popart.ops.operands import axes_of, axis_of
from tensorflow_ipu.frontends.popart.ops.registry import carry_on, op

_FIRST = 12
# What versions after this one mean is not known.
_LAST = 23
# Ops whose later versions take further types, but mean the same.
_SAME = (
    *("Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Concat", "Conv"),
    *("ConvTranspose", "Cos", "Cosh", "CumSum", "DepthToSpace", "Div", "Elu", "Erf", "Exp"),
    *("Expand", "Flatten", "Floor", "GatherElements", "Gemm", "GlobalAveragePool"),
    *("GlobalMaxPool", "HardSigmoid", "Identity", "InstanceNormalization", "IsInf", "IsNaN"),
    *("LRN", "LeakyRelu", "Log", "Loop", "MatMul", "Max", "Mean", "Min", "Mod", "Mul", "Neg"),
    *("OneHot", "PRelu", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    *("Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh"),
    *("Softplus", "Softsign", "SpaceToDepth", "Sqrt", "Sub", "Sum", "Tan", "Tanh"),
    *("ThresholdedRelu", "Tile", "TopK", "Transpose"),
)
# Ops that are computed on the host where their inputs are constants, as shapes are made of them.
_OF_SHAPES = ("Equal", "Greater", "Less", "And", "Or", "Not", "Where", "Max", "Min", "Tile", "Mod")


def _later(type_: str) -> list[int]:
    """Returns the versions of an op from opset 12 to the last that is known here."""
    return sorted(
        schema.since_version
        for schema in defs.get_all_schemas_with_history()
        if schema.domain == "" and schema.name == type_ and _FIRST <= schema.since_version <= _LAST
    )


for _type in _SAME:
    carry_on(_type, _later(_type), folds=True if _type in _OF_SHAPES else None)
carry_on("If", _later("If"))
for _type in set(_OF_SHAPES) - set(_SAME):
    carry_on(_type, [_FIRST, *(v for v in _later(_type) if v > _FIRST)], folds=True)


def _numbers(values: Any) -> list[int] | None:
    """Returns integers of an input that is known; None if it is left out."""
    return None if values is None else [int(value) for value in np.reshape(values, [-1])]


# Axes and lengths that were attributes.


@op("Squeeze", 13, 21, 23, known=(1,), folds=True)
def _squeeze(x: Any, axes: Any = None) -> Any:
    return movement.squeezed(x, _numbers(axes))


@op("Unsqueeze", 13, 21, 23, known=(1,), folds=True)
def _unsqueeze(x: Any, axes: Any) -> Any:
    return movement.unsqueezed(x, _numbers(axes) or [])


@op("Split", 13, known=(1,))
def _split(x: Any, split: Any = None, *, axis: int = 0, context: Any = None) -> Any:
    return movement.divided(x, axis, _numbers(split), context.output_count)


@op("Split", 18, known=(1,))
def _split_evenly(
    x: Any, split: Any = None, *, axis: int = 0, num_outputs: int | None = None, context: Any
) -> Any:
    """All parts but the last have one size."""
    counts = _numbers(split)
    if counts is None:
        size = x.shape[axis_of(axis, x.shape.rank)]
        count = num_outputs or context.output_count
        part = -(-size // count)
        counts = [max(0, min(part, size - i * part)) for i in range(count)]
    return movement.divided(x, axis, counts, context.output_count)


def _enter_reduction(type_: str, function: Any) -> None:
    def computed(
        x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Any:
        chosen = _numbers(axes)
        if not chosen:
            if noop_with_empty_axes:
                return tf.square(x) if type_ == "ReduceSumSquare" else tf.identity(x)
            chosen = None
        return function(x, axes_of(chosen, x.shape.rank), bool(keepdims))

    versions = (13, 18) if type_ == "ReduceSum" else (18,)
    extremes = (20,) if type_ in ("ReduceMax", "ReduceMin") else ()
    op(type_, *versions, *extremes, known=(1,), folds=type_ == "ReduceProd")(computed)
    former = [v for v in _later(type_) if v < versions[0]]
    carry_on(type_, former)


for _type, _function in reductions.REDUCTIONS.items():
    _enter_reduction(_type, _function)


def _enter_position(type_: str, function: Any) -> None:
    def computed(x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        number = axis_of(axis, x.shape.rank)
        if not select_last_index:
            return reductions.position(function, x, axis, keepdims)
        found = reductions.position(function, tf.reverse(x, [number]), axis, keepdims)
        return x.shape[number] - 1 - found

    op(type_, 12, 13, gradient=GradientRule.NONE)(computed)


_enter_position("ArgMax", tf.argmax)
_enter_position("ArgMin", tf.argmin)


@op("Slice", 12, 13, known=(1, 2, 3, 4), folds=True)
def _slice(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    """Takes any steps; before opset 12, steps need a pattern."""
    return movement.sliced(x, starts, ends, axes, steps)


@op("Pad", 13, 18, 19, 21, 23, known=(1, 2, 3))
def _pad(x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str = "constant") -> Any:
    rank, given = x.shape.rank, _numbers(pads) or []
    chosen = axes_of(_numbers(axes), rank)
    whole = [0] * (2 * rank)
    for i, axis in enumerate(chosen):
        whole[axis], whole[rank + axis] = given[i], given[len(chosen) + i]
    if mode == "wrap":
        for axis in range(rank):
            places = np.arange(-whole[axis], x.shape[axis] + whole[rank + axis]) % x.shape[axis]
            x = tf.gather(x, places, axis=axis)
        return x
    number = 0 if value is None or not np.size(value) else np.reshape(value, [-1])[0]
    return movement.padded(x, whole, mode, number)


# Shapes and constants.


@op("Constant", 12, 13, 19, 21, 23, folds=True)
def _constant(
    *,
    value: Any = None,
    value_float: float | None = None,
    value_floats: Any = None,
    value_int: int | None = None,
    value_ints: Any = None,
) -> Any:
    if value is not None:
        return movement.constant(value)
    number = value_float if value_float is not None else value_floats
    if number is not None:
        return tf.constant(number, tf.float32)
    return tf.constant(value_int if value_int is not None else value_ints, tf.int64)


carry_on("ConstantOfShape", [20, 21, 23])


@op("Reshape", 13, known=(1,), folds=True)
def _reshape(x: Any, shape: Any) -> Any:
    return movement.reshaped(x, shape)


@op("Reshape", 14, 19, 21, 23, known=(1,), folds=True)
def _reshape_to_zero(x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    return tf.reshape(x, _numbers(shape)) if allowzero else movement.reshaped(x, shape)


carry_on("Shape", [13])


@op("Shape", 15, 19, 21, 23, folds=True, of_shapes=True, gradient=GradientRule.NONE)
def _shape(x: Any, *, start: int = 0, end: int | None = None) -> Any:
    return tf.constant(x.shape.as_list()[start:end], tf.int64)


@op("Size", 1, 13, 19, 21, 23, folds=True, of_shapes=True, gradient=GradientRule.NONE)
def _size(x: Any) -> Any:
    return tf.constant(x.shape.num_elements(), tf.int64)


@op("Range", 11, known=(0, 1, 2), folds=True, gradient=GradientRule.NONE)
def _range(start: Any, limit: Any, delta: Any) -> Any:
    first, last, step = (np.reshape(value, []) for value in (start, limit, delta))
    return tf.constant(np.arange(first, last, step).astype(first.dtype))


@op("EyeLike", 9, 22, gradient=GradientRule.NONE)
def _eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    type_ = x.dtype if dtype is None else datatypes.for_device(datatypes.of_onnx(dtype)).tf
    rows, columns = x.shape.as_list()
    return tf.constant(np.eye(rows, columns, k).astype(type_.as_numpy_dtype))


@op("Trilu", 14, known=(1,), folds=True)
def _trilu(x: Any, k: Any = None, *, upper: int = 1) -> Any:
    number = 0 if k is None else int(np.reshape(k, []))
    rows, columns = x.shape.as_list()[-2:]
    whole = np.tri(rows, columns, number - 1 if upper else number, bool)
    return tf.where(~whole if upper else whole, x, tf.zeros([], x.dtype))


@op("Cast", 13, 19, 21, 23, folds=True)
def _cast(x: Any, *, to: Any, saturate: int = 1) -> Any:
    return elementwise.cast(x, to=to)


@op("CastLike", 15, 19, 21, 23)
def _cast_like(x: Any, like: Any, *, saturate: int = 1) -> Any:
    return tf.cast(x, like.dtype)


# Indices.


@op("GatherND", 12, 13)
def _gather_nd(x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    count = indices.shape[-1]
    sizes = x.shape.as_list()[batch_dims : batch_dims + count]
    return tf.gather_nd(x, indexing.counted(indices, sizes), batch_dims)


_SCATTERS = {
    "none": tf.tensor_scatter_nd_update,
    "add": tf.tensor_scatter_nd_add,
    "min": tf.tensor_scatter_nd_min,
    "max": tf.tensor_scatter_nd_max,
}


def _scattered(x: Any, positions: Any, updates: Any, reduction: str) -> Any:
    if reduction == "mul":
        flat = tf.reshape(tf.range(x.shape.num_elements()), x.shape)
        places = tf.reshape(tf.gather_nd(flat, positions), [-1])
        parts = tf.reshape(tf.broadcast_to(updates, tf.gather_nd(flat, positions).shape), [-1])
        product = tf.math.unsorted_segment_prod(parts, places, x.shape.num_elements())
        return x * tf.reshape(product, x.shape)
    if reduction not in _SCATTERS:
        raise popart_exception(
            f"There is no reduction {reduction} of updates. Expected one of: "
            f"{', '.join(_SCATTERS)}, mul."
        )
    return _SCATTERS[reduction](x, positions, updates)


@op("ScatterElements", 13, 16, 18)
def _scatter_elements(
    x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none"
) -> Any:
    positions = indexing.positions(x, indices, axis_of(axis, x.shape.rank))
    return _scattered(x, positions, updates, reduction)


@op("ScatterND", 13, 16, 18)
def _scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    sizes = x.shape.as_list()[: indices.shape[-1]]
    return _scattered(x, indexing.counted(indices, sizes), updates, reduction)


# Elements.


@op("Pow", 12, 13, 15, folds=True)
def _pow(x: Any, y: Any) -> Any:
    if x.dtype.is_integer and y.dtype.is_floating:
        return tf.cast(tf.pow(tf.cast(x, y.dtype), y), x.dtype)
    return elementwise.powers(x, tf.cast(y, x.dtype))


@op("Clip", 12, 13, known=(1, 2))
def _clip(x: Any, least: Any = None, most: Any = None) -> Any:
    """If the bounds cross, the upper one counts."""
    if least is not None:
        x = tf.maximum(x, tf.constant(np.reshape(least, []), x.dtype))
    return x if most is None else tf.minimum(x, tf.constant(np.reshape(most, []), x.dtype))


def _enter_comparison(type_: str, function: Any) -> None:
    def computed(x: Any, y: Any) -> Any:
        operands.check(x, y)
        return function(x, y)

    op(type_, 12, 16, gradient=GradientRule.REFUSED, folds=True)(computed)


_enter_comparison("GreaterOrEqual", tf.greater_equal)
_enter_comparison("LessOrEqual", tf.less_equal)

for _type in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    elementwise.enter_bits(_type, elementwise.BITS[_type], "", 18)
op("BitwiseNot", 18, gradient=GradientRule.REFUSED)(lambda x: tf.bitwise.invert(x))


@op("Gelu", 20)
def _gelu(x: Any, *, approximate: str = "none") -> Any:
    return tf.nn.gelu(x, approximate=approximate == "tanh")


@op("Celu", 12)
def _celu(x: Any, *, alpha: float = 1.0) -> Any:
    scale = tf.cast(alpha, x.dtype)
    return tf.where(x > 0, x, scale * tf.math.expm1(tf.minimum(x, 0) / scale))


op("HardSwish", 14, 22)(
    lambda x: x * tf.clip_by_value(x / 6 + 0.5, tf.cast(0, x.dtype), tf.cast(1, x.dtype))
)
op("Mish", 18, 22)(lambda x: x * tf.tanh(tf.math.softplus(x)))


@op("Dropout", 12, 13, 22, known=(1, 2))
def _dropout(
    x: Any, ratio: Any = None, training: Any = None, *, seed: int | None = None, context: Any
) -> Any:
    """Drops values in training, unless the model turns it off."""
    share = 0.5 if ratio is None or not np.size(ratio) else float(np.reshape(ratio, []))
    is_on = context.is_training and (training is None or bool(np.reshape(training, [])))
    return random_values.dropped(x, x.shape, share, is_on, context)[: context.output_count]


@op("Einsum", 12)
def _einsum(*tensors: Any, equation: str) -> Any:
    text = equation.replace(" ", "")
    if "->" not in text:  # letters that occur once, in their order
        letters = sorted({c for c in text if c.isalpha() and text.count(c) == 1})
        text = f"{text}->{'...' if '...' in text else ''}{''.join(letters)}"
    return tf.einsum(text, *tensors)


# Normalization.


@op("Softmax", 13)
def _softmax(x: Any, *, axis: int = -1) -> Any:
    return tf.nn.softmax(x, axis_of(axis, x.shape.rank))


@op("LogSoftmax", 13)
def _log_softmax(x: Any, *, axis: int = -1) -> Any:
    return tf.nn.log_softmax(x, axis_of(axis, x.shape.rank))


@op("Hardmax", 13)
def _hardmax(x: Any, *, axis: int = -1) -> Any:
    number = axis_of(axis, x.shape.rank)
    return tf.one_hot(tf.argmax(x, number), x.shape[number], axis=number, dtype=x.dtype)


@op("BatchNormalization", 12)
def _batch_normalization_by_outputs(
    *inputs: Any, epsilon: float = 1e-5, momentum: float = 0.9, context: Any
) -> Any:
    """Trains if there are statistics among the outputs, of tensors of any rank."""
    return normalization.batch_normalized(inputs, epsilon, momentum, context.output_count > 1)


@op("BatchNormalization", 14, 15)
def _batch_normalization(
    *inputs: Any,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    context: Any,
) -> Any:
    found = normalization.batch_normalized(inputs, epsilon, momentum, bool(training_mode))
    return found[: context.output_count]


@op("LayerNormalization", 17)
def _layer_normalization(
    x: Any,
    scale: Any,
    bias: Any = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    context: Any,
) -> Any:
    axes = list(range(axis_of(axis, x.shape.rank), x.shape.rank))
    mean, variance = normalization.moments(x, axes)
    none = tf.zeros([], x.dtype)
    result = normalization.normalized(x, mean, variance, scale, none, epsilon)
    result = result if bias is None else result + bias
    return [result, mean, tf.math.rsqrt(variance + epsilon)][: context.output_count]


@op("RMSNormalization", 23)
def _rms_normalization(
    x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    axes = list(range(axis_of(axis, x.shape.rank), x.shape.rank))
    wide = tf.cast(x, tf.float32)
    power = tf.reduce_mean(tf.square(wide), axes, True)
    return tf.cast(wide * tf.math.rsqrt(power + epsilon), x.dtype) * scale


def _group_normalized(x: Any, groups: int, epsilon: float) -> Any:
    rows = tf.reshape(x, [x.shape[0], groups, -1])
    mean, variance = normalization.moments(rows, [2])
    one, none = tf.ones([], x.dtype), tf.zeros([], x.dtype)
    normal = normalization.normalized(rows, mean, variance, one, none, epsilon)
    return tf.reshape(normal, x.shape)


def _per_channel(values: Any, x: Any) -> Any:
    """Returns values of channels, or of groups of them, in a form that broadcasts."""
    repeated = tf.repeat(values, x.shape[1] // values.shape[0])
    return tf.reshape(repeated, [1, -1, *[1] * (x.shape.rank - 2)])


@op("GroupNormalization", 18, 21)
def _group_normalization(
    x: Any, scale: Any, bias: Any, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    normal = _group_normalized(x, num_groups, epsilon)
    return normal * _per_channel(scale, x) + _per_channel(bias, x)


# Losses.


def _entropy(scores: Any, labels: Any, weights: Any, ignored: int | None, reduction: str) -> Any:
    """Returns the loss of labels by logarithms of probabilities, with the classes second."""
    rank = scores.shape.rank
    last = tf.transpose(scores, [0, *range(2, rank), 1])
    own = tf.cast(labels, tf.int32)
    counted = tf.ones(own.shape, tf.bool) if ignored is None else tf.not_equal(own, ignored)
    safe = tf.where(counted, own, 0)
    found = -tf.gather(last, safe, batch_dims=rank - 1)
    share = tf.ones(own.shape, scores.dtype) if weights is None else tf.gather(weights, safe)
    share = tf.where(counted, share, tf.zeros_like(share))
    if reduction == "mean":
        return tf.reduce_sum(found * share) / tf.reduce_sum(share)
    named = {"none": "NoReduction", "sum": "Sum"}.get(reduction, reduction)
    return losses.reduced(found * share, named)


@op("NegativeLogLikelihoodLoss", 12, 13, 22)
def _negative_log_likelihood(
    scores: Any,
    labels: Any,
    weights: Any = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Any:
    return _entropy(scores, labels, weights, ignore_index, reduction)


@op("SoftmaxCrossEntropyLoss", 12, 13)
def _softmax_cross_entropy(
    scores: Any,
    labels: Any,
    weights: Any = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    context: Any,
) -> Any:
    logs = tf.nn.log_softmax(scores, 1)
    loss = _entropy(logs, labels, weights, ignore_index, reduction)
    return [loss, logs][: context.output_count]


# Layers.


def _enter_layer(type_: str, function: Any) -> None:
    """Registers a recurrent layer; its attribute `layout` puts the batch first."""

    def computed(x: Any, *others: Any, layout: int = 0, **attributes: Any) -> Any:
        if not layout:
            return function(x, *others, **attributes, _as_onnx=True)
        states = [_turned(other) if i >= _STATES else other for i, other in enumerate(others)]
        y, *last = function(_turned(x), *states, **attributes, _as_onnx=True)
        return [tf.transpose(y, [2, 0, 1, 3]), *map(_turned, last)]

    computed.__signature__ = _with_layout(function)  # type: ignore[attr-defined]
    op(type_, 12, 14, 22)(computed)


# Place of the first state among the inputs that follow the first one.
_STATES = 4


def _turned(x: Any) -> Any:
    """Returns a tensor with its first two axes in the other order; None for None."""
    return None if x is None else tf.transpose(x, [1, 0, *range(2, x.shape.rank)])


def _with_layout(function: Any) -> Any:
    """Returns the signature of a layer with the attribute `layout`."""
    signature = inspect.signature(function)
    layout = inspect.Parameter("layout", inspect.Parameter.KEYWORD_ONLY, default=0)
    return signature.replace(parameters=[*signature.parameters.values(), layout])


for _type, _function in recurrent.LAYERS.items():
    _enter_layer(_type, _function)


@op("AveragePool", 12, 19, 22)
def _average_pool(
    x: Any,
    *,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Any:
    given = (kernel_shape, auto_pad, ceil_mode, pads, strides)
    return pooling.averaged(x, *given, bool(count_include_pad), dilations)


@op("MaxPool", 12, 22)
def _max_pool(
    x: Any,
    *,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Any = None,
    pads: Any = None,
    storage_order: int = 0,
    strides: Any = None,
    context: Any,
) -> Any:
    pooling.check_maxima(storage_order, context)
    return pooling.maxima(x, kernel_shape, auto_pad, ceil_mode, pads, strides, dilations)


@op("Resize", 13, 18, 19, known=(1, 2, 3))
def _resize(
    x: Any,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    antialias: int = 0,
    axes: Any = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Any:
    if antialias or keep_aspect_ratio_policy != "stretch":
        raise popart_exception(
            "Resize: antialias and keep_aspect_ratio_policy are not supported. Leave them out."
        )
    whole = x.shape.as_list()
    if axes is not None:
        chosen = axes_of(axes, x.shape.rank)
        if scales is not None and np.size(scales):
            factors = np.ones(len(whole), np.float32)
            factors[chosen] = scales
            scales = factors
        if sizes is not None and np.size(sizes):
            counts = np.array(whole)
            counts[chosen] = sizes
            sizes = counts
    return images.resize(
        x,
        roi,
        scales,
        sizes,
        coordinate_transformation_mode=coordinate_transformation_mode,
        cubic_coeff_a=cubic_coeff_a,
        exclude_outside=exclude_outside,
        mode=mode,
        nearest_mode=nearest_mode,
    )


@op("Scan", 12, 16, 19, 21, 23, gradient=GradientRule.NONE)
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
    return subgraphs.scanned(
        inputs,
        body,
        num_scan_inputs,
        (scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions),
        False,
        context,
    )


@op("Attention", 23)
def _attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    context: Any,
) -> Any:
    if context.output_count > 3:
        raise popart_exception("Attention does not produce its fourth output, the products.")
    is_flat = query.shape.rank == 3
    if is_flat:
        query = _heads(query, q_num_heads)
        key, value = (_heads(tensor, kv_num_heads) for tensor in (key, value))
    if past_key is not None:
        key, value = tf.concat([past_key, key], 2), tf.concat([past_value, value], 2)
    present = [key, value]
    if key.shape[1] != query.shape[1]:
        key, value = (tf.repeat(t, query.shape[1] // t.shape[1], axis=1) for t in present)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = tf.matmul(query, key, transpose_b=True) * tf.cast(factor, query.dtype)
    if softcap:
        scores = softcap * tf.tanh(scores / softcap)
    scores = scores + _bias(scores, mask, bool(is_causal))
    result = tf.matmul(tf.nn.softmax(scores), value)
    if is_flat:
        result = tf.transpose(result, [0, 2, 1, 3])
        result = tf.reshape(result, [*result.shape[:2], -1])
    return [result, *present][: context.output_count]


def _heads(x: Any, count: int | None) -> Any:
    """Returns a tensor [batch, time, size] as [batch, heads, time, size of a head]."""
    if not count:
        raise popart_exception("Attention of tensors of rank 3 needs q_num_heads and kv_num_heads.")
    parts = tf.reshape(x, [*x.shape[:2], count, x.shape[2] // count])
    return tf.transpose(parts, [0, 2, 1, 3])


def _bias(scores: Any, mask: Any, is_causal: bool) -> Any:
    """Returns the bias of the products of queries and keys."""
    least = tf.constant(scores.dtype.min, scores.dtype)
    bias = tf.zeros([], scores.dtype)
    if mask is not None and mask.dtype == tf.bool:
        bias = tf.where(mask, bias, least)
    elif mask is not None:
        bias = mask
    if not is_causal:
        return bias
    rows, columns = scores.shape.as_list()[-2:]
    return bias + tf.where(np.tri(rows, columns, dtype=bool), tf.zeros([], scores.dtype), least)


@op("RotaryEmbedding", 23)
def _rotary_embedding(
    x: Any,
    cosines: Any,
    sines: Any,
    positions: Any = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Any:
    """Turns pairs of elements of each head by angles of their position."""
    rows = _by_time(x, num_heads)
    size = rotary_embedding_dim or rows.shape[-1]
    turned, kept = rows[..., :size], rows[..., size:]
    if positions is not None:
        cosines, sines = (tf.gather(t, indexing.signed(positions)) for t in (cosines, sines))
    cosine, sine = (t[:, :, tf.newaxis, : size // 2] for t in (cosines, sines))
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = tf.split(turned, 2, -1)
    parts = [cosine * first - sine * second, sine * first + cosine * second]
    if interleaved:
        turned = tf.reshape(tf.stack(parts, -1), turned.shape)
    else:
        turned = tf.concat(parts, -1)
    result = tf.concat([turned, kept], -1)
    return tf.reshape(result, x.shape) if x.shape.rank == 3 else tf.transpose(result, [0, 2, 1, 3])


def _by_time(x: Any, heads: int) -> Any:
    """Returns a tensor as [batch, time, heads, size of a head]."""
    if x.shape.rank == 4:
        return tf.transpose(x, [0, 2, 1, 3])
    if not heads:
        raise popart_exception("RotaryEmbedding of a tensor of rank 3 needs num_heads.")
    return tf.reshape(x, [*x.shape[:2], heads, x.shape[2] // heads])
