"""Floating-point operations, against counts by hand and TensorFlow's profiler."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from tensorflow_ipu.compiler.analysis import op_work
from tensorflow_ipu.compiler.analysis.op_work import bytes_of
from tensorflow_ipu.ops import reduce_scatter_op
from tensorflow_ipu.runtime import native


def _op(build: Callable[[], tf.Tensor], op_type: str) -> tf.Operation:
    """The only op of a type in a graph."""
    with tf.Graph().as_default() as graph:
        build()
        found = [op for op in graph.get_operations() if op.type == op_type]
    assert len(found) == 1
    return found[0]


def _ones(*shape: int | None) -> tf.Tensor:
    return tf.compat.v1.placeholder(tf.float32, shape)


def test_matmul_counts_multiply_accumulates_twice() -> None:
    op = _op(lambda: tf.matmul(_ones(3, 4), _ones(4, 5)), "MatMul")
    assert op_work.flops_of(op) == op_work.Flops(2 * 3 * 4 * 5, "exact")


def test_given_node_definition_counts_no_control_inputs() -> None:
    with tf.Graph().as_default() as graph:
        parts = [_ones(7), _ones(7), _ones(7)]
        with tf.control_dependencies([tf.no_op()]):
            tf.add_n(parts)
        op = next(op for op in graph.get_operations() if op.type == "AddN")
    assert op.node_def.input[-1].startswith("^")
    assert op_work.flops_of(op, op.node_def).count == 2 * 7
    assert op_work.flops_of(op).count == 2 * 7


@pytest.mark.parametrize(
    "equation, shapes, expected",
    [
        ("ab,bc->ac", [(3, 4), (4, 5)], 2 * 3 * 4 * 5),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], 2 * 2 * 3 * 4 * 5),
        ("i,j->ij", [(3,), (4,)], 12),
    ],
)
def test_flops_of_einsum_by_hand(
    equation: str, shapes: list[tuple[int, ...]], expected: int
) -> None:
    op = _op(
        lambda: tf.raw_ops.Einsum(inputs=[_ones(*s) for s in shapes], equation=equation), "Einsum"
    )
    assert op_work.flops_of(op) == op_work.Flops(expected, "exact")


def test_einsum_with_ellipsis_is_unknown() -> None:
    op = _op(lambda: tf.raw_ops.Einsum(inputs=[_ones(3, 4)], equation="...a->..."), "Einsum")
    assert op_work.flops_of(op) == op_work.UNKNOWN


@pytest.mark.parametrize(
    "size, stride, padding", [(8, 1, "SAME"), (8, 2, "SAME"), (9, 2, "VALID"), (7, 3, "VALID")]
)
def test_convolution_gradients_do_the_multiplications_of_the_convolution(
    size: int, stride: int, padding: str
) -> None:
    def build() -> None:
        image, kernel = _ones(2, size, size, 3), _ones(3, 3, 3, 5)
        result = tf.nn.conv2d(image, kernel, stride, padding)
        tf.gradients(result, [image, kernel])

    counts = {
        kind: op_work.flops_of(_op(build, kind))
        for kind in ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")
    }
    assert len(set(counts.values())) == 1
    outputs = len(range(0, size, stride)) if padding == "SAME" else (size - 3) // stride + 1
    assert counts["Conv2D"].count == 2 * 2 * outputs**2 * 5 * 3 * 3 * 3


def test_depthwise_gradients_do_the_multiplications_of_the_convolution() -> None:
    def build() -> None:
        image, kernel = _ones(1, 6, 6, 4), _ones(3, 3, 4, 2)
        result = tf.raw_ops.DepthwiseConv2dNative(
            input=image, filter=kernel, strides=[1, 2, 2, 1], padding="SAME"
        )
        tf.gradients(result, [image, kernel])

    expected = op_work.Flops(2 * 3 * 3 * (3 * 3 * 8), "exact")
    for kind in (
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropInput",
        "DepthwiseConv2dNativeBackpropFilter",
    ):
        assert op_work.flops_of(_op(build, kind)) == expected


def test_pooling_of_either_layout_counts_the_same() -> None:
    last = _op(
        lambda: tf.raw_ops.MaxPool(
            input=_ones(1, 8, 8, 3), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME"
        ),
        "MaxPool",
    )
    first = _op(
        lambda: tf.raw_ops.MaxPool(
            input=_ones(1, 3, 8, 8),
            ksize=[1, 1, 2, 2],
            strides=[1, 1, 2, 2],
            padding="SAME",
            data_format="NCHW",
        ),
        "MaxPool",
    )
    assert (
        op_work.flops_of(last) == op_work.flops_of(first) == op_work.Flops(4 * 4 * 4 * 3, "exact")
    )


def test_integer_arithmetic_is_no_work() -> None:
    op = _op(lambda: tf.constant([1, 2]) + tf.compat.v1.placeholder(tf.int32, [2]), "AddV2")
    assert op_work.flops_of(op) == op_work.NO_WORK


def test_moving_data_is_no_work_without_static_shapes() -> None:
    op = _op(lambda: tf.transpose(_ones(None, 3), [1, 0]), "Transpose")
    assert op_work.flops_of(op) == op_work.NO_WORK


@pytest.mark.parametrize(
    "build, op_type",
    [
        (lambda: tf.exp(_ones(None)), "Exp"),
        (lambda: tf.matmul(_ones(None, 3), _ones(3, 2)), "MatMul"),
        (lambda: tf.sort(_ones(3)), "TopKV2"),
    ],
)
def test_unknown_shapes_and_unknown_ops_have_no_count(
    build: Callable[[], tf.Tensor], op_type: str
) -> None:
    assert op_work.flops_of(_op(build, op_type)) == op_work.UNKNOWN


def test_lists_of_tensors_have_no_count() -> None:
    def build() -> None:
        lists = [
            tf.raw_ops.EmptyTensorList(
                element_shape=[2], max_num_elements=3, element_dtype=tf.float32
            )
            for _ in range(2)
        ]
        tf.add_n(lists)

    assert op_work.flops_of(_op(build, "AddN")) == op_work.UNKNOWN


@pytest.mark.parametrize(
    "build, op_type, expected",
    [
        (lambda: tf.reduce_max(_ones(4, 6), 1), "Max", op_work.Flops(4 * 5, "exact")),
        (lambda: tf.cumsum(_ones(4, 6), 1), "Cumsum", op_work.Flops(4 * 5, "exact")),
        (lambda: tf.norm(_ones(4, 6), axis=1), "Sqrt", op_work.Flops(4, "exact")),
        (
            lambda: tf.raw_ops.EuclideanNorm(input=_ones(4, 6), axis=[1]),
            "EuclideanNorm",
            op_work.Flops(4 * (6 + 5 + 1), "exact"),
        ),
        (lambda: tf.tanh(_ones(5)), "Tanh", op_work.Flops(5, "modelled")),
        (lambda: tf.nn.softmax(_ones(2, 5)), "Softmax", op_work.Flops(50, "modelled")),
        (lambda: tf.random.uniform([5]), "RandomUniform", op_work.Flops(10, "assumed")),
        (
            lambda: tf.nn.softmax_cross_entropy_with_logits(_ones(2, 5), _ones(2, 5)),
            "SoftmaxCrossEntropyWithLogits",
            op_work.Flops(9 * 10 + 2, "modelled"),
        ),
    ],
)
def test_flops_of_ops_by_hand(
    build: Callable[[], tf.Tensor], op_type: str, expected: op_work.Flops
) -> None:
    assert op_work.flops_of(_op(build, op_type)) == expected


@pytest.mark.parametrize("nesterov, expected", [(False, 4), (True, 7)])
def test_flops_of_a_momentum_update_by_hand(nesterov: bool, expected: int) -> None:
    def build() -> None:
        variable, slot = (tf.Variable(np.zeros([2, 3], np.float32)) for _ in range(2))
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=slot.handle,
            lr=0.1,
            grad=_ones(2, 3),
            momentum=0.9,
            use_nesterov=nesterov,
        )

    op = _op(build, "ResourceApplyMomentum")
    assert op_work.flops_of(op) == op_work.Flops(expected * 6, "exact")


def test_every_formula_names_a_registered_op() -> None:
    native.ops()  # registers ours
    named = {*op_work.FORMULAS, *op_work.DATA_MOVEMENT, *op_work.CONTROL}
    assert {name for name in named if op_def_registry.get(name) is None} == set()


@pytest.mark.parametrize(
    ("op", "expected"), [("ADD", 3), ("MAX", 3), ("SQUARE_ADD", 7), ("LOCAL", 0)]
)
def test_reduce_scatter_counts_the_slice_of_one_replica(op: str, expected: int) -> None:
    node = _op(
        lambda: reduce_scatter_op.reduce_scatter(_ones(9), 4, f"COLLECTIVE_OP_{op}"),
        "IpuReduceScatter",
    )
    assert op_work.flops_of(node) == op_work.Flops(3 * expected, "exact")


def test_no_op_is_in_two_tables() -> None:
    assert not set(op_work.FORMULAS) & op_work.DATA_MOVEMENT
    assert not set(op_work.FORMULAS) & op_work.CONTROL
    assert not op_work.CONTROL & op_work.DATA_MOVEMENT


def test_a_model_agrees_with_the_profiler() -> None:
    with tf.Graph().as_default() as graph:
        image = _ones(4, 8, 8, 3)
        hidden = tf.nn.relu(tf.nn.conv2d(image, _ones(3, 3, 3, 8), 1, "SAME"))
        pooled = tf.nn.max_pool2d(hidden, 2, 2, "VALID")
        logits = tf.nn.bias_add(tf.matmul(tf.reshape(pooled, [4, 128]), _ones(128, 10)), _ones(10))
        tf.reduce_mean(tf.square(logits))
        options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
        options["output"] = "none"
        profile = tf.compat.v1.profiler.profile(graph, options=options)
        ours = {op.name: op_work.flops_of(op) for op in graph.get_operations()}
    relu = ours.pop("Relu")
    assert relu.count == 4 * 8 * 8 * 8
    assert sum(count.count or 0 for count in ours.values()) == profile.total_float_ops


def test_flops_of_a_fused_lstm_by_hand() -> None:
    steps, batch, size, units = 3, 2, 5, 4
    with tf.Graph().as_default():
        zeros = tf.zeros([units])
        state = tf.zeros([batch, units])
        result = tf.raw_ops.BlockLSTMV2(
            seq_len_max=steps,
            x=tf.zeros([steps, batch, size]),
            cs_prev=state,
            h_prev=state,
            w=tf.zeros([size + units, 4 * units]),
            wci=zeros,
            wcf=zeros,
            wco=zeros,
            b=tf.zeros([4 * units]),
        )
        count = op_work.flops_of(result.h.op).count
    products = 2 * (size + units) * 4 * units
    assert count == steps * batch * (products + 22 * units)


def test_flops_of_ctc_by_hand() -> None:
    integers = tf.compat.v1.placeholder
    loss = _op(
        lambda: native.ops().ipu_ctc_loss(
            _ones(4, 3, 5),
            integers(tf.int32, [3, 2]),
            integers(tf.int32, [3]),
            integers(tf.int32, [3]),
            blank_index=0,
        ),
        "IpuCtcLoss",
    )
    assert op_work.flops_of(loss) == op_work.Flops(25 * 4 * 3 * (2 * 2 + 1), "modelled")
    search = _op(
        lambda: native.ops().ipu_ctc_beam_search(
            _ones(4, 3, 5), integers(tf.int32, [3]), beam_width=7, top_paths=1, blank_index=0
        ),
        "IpuCtcBeamSearch",
    )
    assert op_work.flops_of(search) == op_work.Flops(2 * 7 * 4 * 3 * 5, "modelled")


def test_flops_of_candidate_sampling_by_hand() -> None:
    op = _op(
        lambda: tf.random.log_uniform_candidate_sampler(
            tf.compat.v1.placeholder(tf.int64, [3, 2]), 2, 4, True, 10
        ),
        "LogUniformCandidateSampler",
    )
    assert op_work.flops_of(op) == op_work.Flops(4 + 3 * (3 * 2 + 4), "assumed")


# --- Bytes of variables that an op reads and writes ---


def test_an_assignment_to_a_slice_writes_the_slice() -> None:
    with tf.Graph().as_default() as graph:
        variable = tf.Variable(tf.zeros([8, 4]))
        variable[2:5].assign(tf.ones([3, 4]))
    (op,) = (op for op in graph.get_operations() if op.type == "ResourceStridedSliceAssign")
    assert bytes_of(op) == (0, 3 * 4 * 4)
