"""Words that programs look for in errors of ops, feeds, loops, scopes and the configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import dataset_benchmark, optimizers
from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.api.gradient_accumulation import GradientAccumulationReductionMethod
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue, IPUIterator
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.keras import layers
from tensorflow_ipu.ops import (
    cross_replica_ops,
    embedding_ops,
    image_ops,
    math_ops,
    nn_ops,
    normalization_ops,
    rand_ops,
    slicing_ops,
    statistics_ops,
    within_replica_ops,
)
from tests.support.programs import replicas

tf1 = tf.compat.v1
errors = tf.errors


class Row(NamedTuple):
    """One message.

    Args:
        name: what is called, and with what.
        error: class of the exception.
        phrases: what stands in its message.
        provoke: makes the mistake.
    """

    name: str
    error: type[Exception]
    phrases: str | tuple[str, ...]
    provoke: Callable[[], Any]


ONES = np.ones([3], np.float32)
SQUARE = np.ones([2, 2], np.float32)
IMAGE = np.ones([2, 4, 4], np.float32)


def in_graph(make: Callable[[], Any]) -> Callable[[], Any]:
    """Builds something in a graph of its own."""

    def build() -> None:
        with tf.Graph().as_default():
            make()

    return build


def unknown(shape: Any, dtype: tf.DType = tf.float32) -> tf.Tensor:
    return tf1.placeholder(dtype, shape, name="x")


def program(function: Callable[[], Any], count: int = 1) -> Callable[[], Any]:
    """Runs a program on replicas."""
    return lambda: replicas.run(count, function)


def option(name: str, value: Any) -> Callable[[], Any]:
    def assign() -> None:
        node: Any = IPUConfig()
        *parents, leaf = name.split(".")
        for parent in parents:
            node = getattr(node, parent)
        setattr(node, leaf, value)

    return assign


def configured(**options: Any) -> Callable[[], Any]:
    """Configures with options, whose dots are double underscores."""

    def configure() -> None:
        config = IPUConfig()
        for name, value in options.items():
            node: Any = config
            *parents, leaf = name.split("__")
            for parent in parents:
                node = getattr(node, parent)
            setattr(node, leaf, value)
        config.configure_ipu_system()

    return configure


def trapped(function: Callable[[tf.Tensor], tf.Tensor], value: float) -> Callable[[], Any]:
    """Runs a program with floating-point exceptions on."""

    def run() -> None:
        config = IPUConfig()
        config.auto_select_ipus = 1
        for event in ("inv", "div0", "oflo"):
            setattr(config.floating_point_behaviour, event, True)
        config.configure_ipu_system()
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            strategy.run(tf.function(function, jit_compile=True), [tf.constant([value])])

    return run


def accumulation(iterations: int, mini_batches: int) -> Callable[[], Any]:
    """Trains in a loop with gradient accumulation."""

    def train() -> None:
        weight = tf1.get_variable("weight", initializer=1.0, use_resource=True)
        optimizer = optimizers.GradientAccumulationOptimizerV2(
            tf1.train.GradientDescentOptimizer(0.1), mini_batches
        )
        return loops.repeat(iterations, lambda: optimizer.minimize(weight * 2.0), [])

    def run() -> None:
        replicas.configure(1)
        with tf.Graph().as_default(), tf1.Session() as session:
            with scopes.ipu_scope("/device:IPU:0"):
                launch = ipu_compiler.compile(train)
            session.run(tf1.global_variables_initializer())
            session.run(launch)

    return run


def partly_known() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(np.ones([6, 4, 4], np.float32)).batch(4)


def read_twice() -> None:
    queue = IPUInfeedQueue(tf.data.Dataset.from_tensors(1.0))
    queue.initializer  # noqa: B018  (reading it makes the op)
    queue.initializer  # noqa: B018  (reading it makes the op)


def initialize(value: Any) -> Callable[[], Any]:
    return lambda: IPUInfeedQueue(tf.data.Dataset.from_tensors(value)).initializer


def dependent(x: tf.Tensor) -> tf.Tensor:
    first = tf.nn.conv2d(x, tf.ones([1, 1, 1, 1]), 1, "SAME")
    return tf.nn.conv2d(first, tf.ones([1, 1, 1, 1]), 1, "SAME")


def swapped() -> list[tf.Tensor]:
    tensors = []
    for index in (1, 0):
        with scopes.ipu_shard(index):
            tensors.append(tf.sin(tf.ones([2])))
    return within_replica_ops.all_gather(tensors)


def without_shards() -> list[tf.Tensor]:
    return within_replica_ops.all_reduce([tf.sin(tf.ones([2])), tf.cos(tf.ones([2]))])


def classes(function: Callable[..., Any]) -> Callable[[], Any]:
    labels, data = np.ones([2, 1], np.int32), np.zeros([4, 2, 3], np.float32)
    return lambda: function(labels, data, [1, 1], [4, 4], 0, out_dtype=tf.float16)


TRAP = (
    "[Poplar][Execute engine] application_runtime_error: [Recovery action: IPU_RESET] "
    "Tiles in excepted state",
    "IPU will be reset the next time a program is executed",
)
NORMS = {
    "group_norm": normalization_ops.group_norm,
    "layer_norm": normalization_ops.layer_norm,
    "instance_norm": normalization_ops.instance_norm,
}

CONFIGURATION = [
    *(
        Row(
            f"IPUConfig.{name}",
            TypeError,
            f"Trying to set {name} to True, but it must be of type int, list of int ",
            option(name, True),
        )
        for name in ("auto_select_ipus", "select_ipus")
    ),
    Row(
        "IPUConfig, an option in a category",
        TypeError,
        "Trying to set floating_point_behaviour.inv to 1, but it must be of type bool",
        option("floating_point_behaviour.inv", 1),
    ),
    Row(
        "IPUConfig, index of a process",
        ValueError,
        "experimental.multi_replica_distribution.process_index must be in the range",
        configured(
            experimental__multi_replica_distribution__process_count=2,
            experimental__multi_replica_distribution__process_index=2,
        ),
    ),
    Row(
        "IPUConfig, I/O tiles and a distributed batch norm",
        ValueError,
        "norms.experimental.distributed_batch_norm_replica_group_size is not supported with I/O "
        "tiles.",
        configured(
            io_tiles__num_io_tiles=32,
            norms__experimental__distributed_batch_norm_replica_group_size=2,
        ),
    ),
]

ARITHMETIC = [
    Row("exception inv", errors.InternalError, TRAP, trapped(tf.math.log, -1.0)),
    Row("exception inv of a cast", errors.InternalError, TRAP, trapped(tf.math.asin, 2.0)),
    Row("exception div0", errors.InternalError, TRAP, trapped(lambda x: 1 / x, 0.0)),
    Row("exception oflo", errors.InternalError, TRAP, trapped(tf.exp, 1e3)),
    Row(
        "scopes.partials_type",
        ValueError,
        "Only support float16, float32, provided float64",
        lambda: scopes.partials_type(tf.float64),
    ),
    Row(
        "scopes.partials_type, a NumPy type",
        ValueError,
        "Only support float16, float32, provided int8",
        lambda: scopes.partials_type(np.int8),
    ),
    Row(
        "GradientAccumulationReductionMethod",
        ValueError,
        "Cannot parse Exp as one of GradientAccumulationReductionMethod.",
        lambda: GradientAccumulationReductionMethod.parse("Exp"),
    ),
    Row(
        "GradientAccumulationOptimizer, iterations",
        errors.FailedPreconditionError,
        "Detected a gradient accumulation operation with 32 number of mini batches inside a loop "
        "with 10 iterations.",
        accumulation(10, 32),
    ),
]

RANDOM_AND_TABLES = [
    Row(
        "rand_ops.dropout, length of noise_shape",
        ValueError,
        "The length of noise_shape must equal the rank of x.",
        lambda: rand_ops.dropout(IMAGE, noise_shape=[2]),
    ),
    Row(
        "rand_ops.dropout, a dimension of noise_shape",
        ValueError,
        "Dimension mismatch",
        lambda: rand_ops.dropout(IMAGE, noise_shape=[2, 3, 4]),
    ),
    Row(
        "rand_ops.dropout, rate",
        ValueError,
        "The rate must be in the range [0, 1), but was 1",
        lambda: rand_ops.dropout(ONES, rate=1),
    ),
    Row(
        "embedding_ops.embedding_lookup",
        ValueError,
        "The serialization_factor (7) must divide the size of the 0th dimension of params (2000).",
        lambda: embedding_ops.embedding_lookup(tf.ones([2000, 2]), [1], serialization_factor=7),
    ),
    Row(
        "keras.layers.Embedding",
        ValueError,
        "The input shape should be a tensor of shape [batch, input_length]",
        lambda: layers.Embedding(4, 2)(np.ones([2, 3, 4], np.int32)),
    ),
]


def _histograms() -> list[Row]:
    update, count = statistics_ops.histogram_update, statistics_ops.histogram
    only = "Only float16 and float32 types are supported for histogram"
    integers = tf.ones([3], tf.int32)
    wanted: dict[str, tuple[str, Callable[[], Any]]] = {
        "histogram_update, lengths": (
            "hist and levels shapes are incompatible. For n levels, hist must have n+1 elements.",
            lambda: update(ONES, ONES, ONES),
        ),
        "histogram_update, type of hist": (
            "hist must be of float32 type",
            lambda: update(tf.ones([4], tf.float16), ONES, ONES),
        ),
        "histogram, type": (f"{only} computation.", lambda: count(integers, integers)),
        "histogram, type of levels": (f"{only} computation.", lambda: count(ONES, integers)),
        "histogram_update, type": (
            f"{only} update.",
            lambda: update(tf.ones([4]), integers, integers),
        ),
        "histogram, rank": (
            "histogram expects rank-1 tensor inputs.",
            lambda: count(SQUARE, ONES),
        ),
        "histogram, rank of levels": (
            "histogram expects rank-1 tensor inputs.",
            lambda: count(ONES, SQUARE),
        ),
        "histogram_update, rank": (
            "histogram_update expects rank-1 tensor inputs.",
            lambda: update(SQUARE, ONES, ONES),
        ),
        "histogram_update, rank of inputs": (
            "histogram_update expects rank-1 tensor inputs.",
            lambda: update(tf.ones([4]), SQUARE, ONES),
        ),
    }
    return [
        Row(f"statistics_ops.{name}", ValueError, phrase, provoke)
        for name, (phrase, provoke) in wanted.items()
    ]


def _slices() -> list[Row]:
    wanted: dict[str, tuple[str, Callable[[], Any]]] = {
        "sequence_slice": (
            "num_elems, src_offsets and dst_offsets must have matching",
            lambda: slicing_ops.sequence_slice(SQUARE, SQUARE, [1], [0, 1], [0], False),
        ),
        "sequence_slice_unpack": (
            "num_elems and src_offsets must have matching",
            lambda: slicing_ops.sequence_slice_unpack(SQUARE, [1], [0, 1], 2),
        ),
        "sequence_slice_pack": (
            "num_elems and dst_offsets must have matching",
            lambda: slicing_ops.sequence_slice_pack(SQUARE, SQUARE, [1], [0, 1], False),
        ),
    }
    rest = ", nonzero shapes of rank 1."
    return [
        Row(f"slicing_ops.{name}", ValueError, phrase + rest, provoke)
        for name, (phrase, provoke) in wanted.items()
    ]


def _norms() -> list[Row]:
    rows = [
        Row(
            "group_norm, more groups than channels",
            ValueError,
            "Invalid groups 10 for 2 channels.",
            in_graph(lambda: normalization_ops.group_norm(SQUARE, 10)),
        ),
        Row(
            "group_norm, groups that do not divide",
            ValueError,
            "4 channels is not commensurate with 3 groups.",
            in_graph(lambda: normalization_ops.group_norm(IMAGE, 3)),
        ),
    ]
    for name, norm in NORMS.items():
        wanted: dict[str, tuple[str, Callable[[], Any]]] = {
            "axis": (
                "Axis is out of bounds.",
                lambda norm=norm: norm(tf.ones([2, 4]), channels_axis=5),
            ),
            "axis in the middle": (
                "Unsupported data format",
                lambda norm=norm: norm(tf.ones([2, 4, 4, 4]), channels_axis=2),
            ),
            "rank": ("Inputs x:0 has undefined rank", lambda norm=norm: norm(unknown(None))),
            "channels": (
                "has undefined channel dimension",
                lambda norm=norm: norm(unknown([2, None])),
            ),
        }
        rows += [
            Row(f"{name}, {what}", ValueError, phrase, in_graph(provoke))
            for what, (phrase, provoke) in wanted.items()
        ]
    return rows


def _sums() -> list[Row]:
    total = math_ops.segment_sum
    wanted: dict[str, tuple[str, Callable[[], Any]]] = {
        "scalar data": ("Shape () must have rank at least 1", lambda: total(1.0, [0], 1)),
        "data not known": (
            "Shape of data must be fully defined",
            in_graph(lambda: total(unknown([None, 2]), [0], 1)),
        ),
        "ids not known": (
            "Shape of segment_ids must be fully defined",
            in_graph(lambda: total(ONES, unknown([None], tf.int32), 1)),
        ),
        "ids of rank 2": (
            "Shape (10, 2) must have rank 1",
            lambda: total(tf.ones([10, 2]), np.zeros([10, 2], np.int32), 1),
        ),
        "number negative": (
            "num_segments must be greater than 0; got -123",
            lambda: total(ONES, [0, 0, 0], -123),
        ),
        "number 0": (
            "num_segments must be greater than 0; got 0",
            lambda: total(ONES, [0, 0, 0], 0),
        ),
        "lengths": (
            "segment_ids (shape (10,)) must have same length as axis 0 of data (shape (20,))",
            lambda: total(tf.ones([20]), np.zeros(10, np.int32), 1),
        ),
    }
    return [
        Row(f"math_ops.segment_sum, {name}", ValueError, phrase, provoke)
        for name, (phrase, provoke) in wanted.items()
    ]


OF_THE_COMPILER = [
    Row(
        "cross_replica_sum",
        errors.InvalidArgumentError,
        "The replica group size (got 3) does not evenly divide the total number of replicas (got "
        "4)",
        program(lambda: cross_replica_ops.cross_replica_sum(ONES, 3), 4),
    ),
    Row(
        "normalise_image, channels",
        errors.InvalidArgumentError,
        "The image has 2 channels, expected 3.",
        program(lambda: image_ops.normalise_image(SQUARE, ONES, ONES)),
    ),
    Row(
        "normalise_image, channel_offsets",
        errors.InvalidArgumentError,
        "The channel_offsets must be the same size as the number of image channels 3, but was 2",
        program(lambda: image_ops.normalise_image(tf.ones([2, 3]), tf.ones([2]), ONES)),
    ),
    Row(
        "normalise_image, channel_scales",
        errors.InvalidArgumentError,
        "The channel_scales must be the same size as the number of image channels 3, but was 2",
        program(lambda: image_ops.normalise_image(tf.ones([2, 3]), ONES, tf.ones([2]))),
    ),
    Row(
        "multi_conv",
        errors.FailedPreconditionError,
        "A MultiConvolution operation requires all convolutions to be independent of each other, "
        "however a data dependency was detected",
        program(lambda: nn_ops.multi_conv(dependent)(tf.ones([1, 2, 2, 1]))),
    ),
    Row(
        "within_replica_ops, order",
        errors.FailedPreconditionError,
        "must be provided in incrementing shard order",
        program(swapped, 2),
    ),
    Row(
        "within_replica_ops, no shards",
        errors.FailedPreconditionError,
        "Missing shard information",
        program(without_shards, 2),
    ),
]

CLASSIFICATION = [
    *(
        Row(
            f"nn_ops.{function.__name__}",
            ValueError,
            f"out_dtype cannot be float16 when dtype of {data} is float32",
            classes(function),
        )
        for function, data in (
            (nn_ops.ctc_loss_v2, "logits"),
            (nn_ops.ctc_loss_with_logits, "logits"),
            (nn_ops.ctc_loss_with_log_probs, "data"),
        )
    ),
]

FEEDS = [
    Row(
        "IPUInfeedQueue.initializer, read twice",
        ValueError,
        "The IPUInfeedQueue `initializer` function can only be accessed once.",
        in_graph(read_twice),
    ),
    Row(
        "IPUInfeedQueue, shape",
        ValueError,
        (
            "Output shape (None, 4, 4) is not fully defined.",
            "If using tf.Dataset.batch, set `drop_remainder=True`.",
        ),
        lambda: IPUInfeedQueue(partly_known()),
    ),
    Row(
        "IPUInfeedQueue.initializer, type",
        errors.FailedPreconditionError,
        "Unsupported datatype int64 on index 0 of feed operation",
        initialize(np.int64(1)),
    ),
    Row(
        "IPUInfeedQueue.initializer, empty",
        errors.InvalidArgumentError,
        "Detected an input tensor to an infeed queue with a dimension of size 0",
        initialize(np.zeros([2, 0], np.float32)),
    ),
    Row(
        "IPUInfeedQueue.deleter, before the initializer",
        errors.NotFoundError,
        (
            "Infeed with id='",
            "'. Make sure that you have run the initializer for this infeed before attempting to "
            "delete it.",
        ),
        lambda: IPUInfeedQueue(tf.data.Dataset.from_tensors(1.0)).deleter,
    ),
    Row(
        "IPUOutfeedQueue.enqueue, empty",
        errors.InvalidArgumentError,
        "Detected an input tensor to an outfeed queue with a dimension of size 0",
        program(lambda: tf.zeros([2, 0])),
    ),
    Row(
        "IPUOutfeedQueue.dequeue",
        ValueError,
        "Trying to dequeue an outfeed which has not been enqueued",
        lambda: IPUOutfeedQueue().dequeue(),
    ),
    Row(
        "dataset_benchmark, empty",
        errors.InvalidArgumentError,
        "Detected a tensor in the dataset with a dimension of size 0",
        lambda: dataset_benchmark.dataset_benchmark(
            tf.data.Dataset.from_tensors(tf.zeros([2, 0])), 1, 1
        ),
    ),
    Row(
        "next of an IPU iterator, eagerly",
        RuntimeError,
        ("Accessing dataset elements", "can not be accessed in eager mode"),
        lambda: next(IPUIterator(tf.data.Dataset.from_tensors(1.0))),
    ),
]

ROWS = [
    *CONFIGURATION,
    *ARITHMETIC,
    *RANDOM_AND_TABLES,
    *_histograms(),
    *_slices(),
    *_norms(),
    *_sums(),
    *OF_THE_COMPILER,
    *CLASSIFICATION,
    *FEEDS,
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_errors_of_ops_have_phrases_of_original(row: Row) -> None:
    with pytest.raises(row.error) as info:
        row.provoke()
    for phrase in (row.phrases,) if isinstance(row.phrases, str) else row.phrases:
        assert phrase in str(info.value)
