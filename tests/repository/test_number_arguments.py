"""Arguments that are numbers: other types and values out of range are refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tensorflow_ipu import (
    dataset_benchmark,
    dataset_extractor,
    ipu_infeed_queue,
    ipu_outfeed_queue,
    optimizers,
    profiler,
    serving,
)
from tensorflow_ipu.api import loops
from tensorflow_ipu.estimators.ipu_run_config import IPURunConfig
from tensorflow_ipu.keras_layers import optimizers as keras_optimizers
from tensorflow_ipu.keras_layers.models import model_options as option_arguments
from tensorflow_ipu.ops import pipelining_ops

#: Nothing takes these as a number of things; numbers that are too long to print are among them.
NUMBERS = (math.nan, math.inf, 1.5, "3", True, 2**31, 2**70, -(10**5000))
OBJECTS = ([], object())
#: Arguments that may be tensors, so that TensorFlow says what objects are none.
TENSORS = ("n", "maximum_iterations", "repeat_count")
#: What has to be at least 1 does not take these either.
BELOW_ONE = (0, -1)


def _infeed(**arguments: Any) -> Any:
    return ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.range(3), **arguments)


def _pipeline(**arguments: Any) -> Any:
    with tf.Graph().as_default():
        return pipelining_ops.pipeline(
            [lambda: tf.constant(1.0), lambda x: x],
            **{"gradient_accumulation_count": 4, **arguments},
            outfeed_queue=ipu_outfeed_queue.IPUOutfeedQueue(),
        )


def _benchmark(**arguments: Any) -> Any:
    counts = {"number_of_epochs": 1, "elements_per_epochs": 1, **arguments}
    return dataset_benchmark.dataset_benchmark(tf.data.Dataset.range(3), **counts)


def _extract(folder: Path = Path("x"), **arguments: Any) -> Any:
    return dataset_extractor.dataset_extractor(
        tf.data.Dataset.range(3), filename=folder, **arguments
    )


def _repeat(**arguments: Any) -> Any:
    return loops.repeat(body=lambda x: x, inputs=[tf.constant(1.0)], **arguments)


def _while(**arguments: Any) -> Any:
    return loops.while_loop(lambda x: x < 1, lambda x: x, [tf.constant(1.0)], **arguments)


def _serve(**arguments: Any) -> Any:
    return serving.export_single_step(lambda x: x, "none", **arguments)


def _als(**arguments: Any) -> Any:
    return keras_optimizers.ALSOptimizer(tf.keras.optimizers.SGD(), **arguments)


def _accumulation(**arguments: Any) -> Any:
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    return optimizers.GradientAccumulationOptimizerV2(optimizer, **arguments)


def _keras_accumulation(**arguments: Any) -> Any:
    sgd = tf.keras.optimizers.SGD()
    return keras_optimizers.GradientAccumulationOptimizer(sgd, **arguments)


def _infeed_option(**arguments: Any) -> Any:
    return option_arguments.checked_kwargs("infeed_kwargs", arguments)


def _outfeed_option(**arguments: Any) -> Any:
    return option_arguments.checked_kwargs("outfeed_kwargs", arguments)


def _steps(**arguments: Any) -> Any:
    return option_arguments.positive_integer(*arguments.popitem())


#: Name of the argument, what takes it, and what it refuses besides what no argument takes.
ARGUMENTS: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("prefetch_depth", _infeed, (*BELOW_ONE, 256)),
    ("prefetch_depth", _infeed_option, (*BELOW_ONE, 256)),
    ("device_ordinal", _infeed, (-1,)),
    ("device_ordinal", ipu_outfeed_queue.IPUOutfeedQueue, (-1,)),
    ("buffer_depth", ipu_outfeed_queue.IPUOutfeedQueue, (*BELOW_ONE, None)),
    ("buffer_depth", _outfeed_option, (*BELOW_ONE, None)),
    ("iterations_per_loop", IPURunConfig, (*BELOW_ONE, None)),
    ("num_replicas", IPURunConfig, (*BELOW_ONE, None, 4097)),
    ("num_shards", IPURunConfig, (*BELOW_ONE, None, 4097)),
    ("ordinal", IPURunConfig, (-1, None)),
    ("gradient_accumulation_count", _pipeline, (*BELOW_ONE, None)),
    ("batch_serialization_iterations", _pipeline, (*BELOW_ONE, None)),
    ("repeat_count", _pipeline, (-1, 2**30)),
    ("number_of_epochs", _benchmark, (*BELOW_ONE, None)),
    ("elements_per_epochs", _benchmark, (*BELOW_ONE, None)),
    ("num_elements", _extract, (*BELOW_ONE, None)),
    ("n", _repeat, ()),
    ("maximum_iterations", _while, ()),
    ("iterations", _serve, (*BELOW_ONE, None)),
    ("launches", profiler.profile, (*BELOW_ONE, None, 1001)),
    ("num_mini_batches", _accumulation, (*BELOW_ONE, None)),
    ("num_mini_batches", _keras_accumulation, (*BELOW_ONE, None)),
    ("gradient_accumulation_steps_per_replica", _steps, (*BELOW_ONE, None)),
    ("update_frequency", _als, (*BELOW_ONE, None)),
]

#: Numbers that need not be whole.
FRACTIONS: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("ratio_threshold", _als, (0, 1, -1, math.nan, math.inf, "3", None)),
    ("lpf_alpha", _als, (-0.1, 1.1, math.nan, math.inf, "3", None)),
    ("histogram_bin_edge", _als, (-1, math.nan, math.inf, "3", None)),
    ("increase_factor", _als, (0, 3, math.nan, math.inf, "3", None)),
    ("max_loss_scaling_factor", _als, (0, 3, math.nan, math.inf, "3", None)),
]
_IDS = [f"{take.__name__.strip('_')}-{name}" for name, take, _ in ARGUMENTS + FRACTIONS]


def _refused(name: str, more: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*NUMBERS, *(() if name in TENSORS else OBJECTS), *more)


@pytest.mark.parametrize(
    ("name", "take", "refused"),
    [*((name, take, _refused(name, more)) for name, take, more in ARGUMENTS), *FRACTIONS],
    ids=_IDS,
)
def test_values_out_of_range_are_refused_by_name(name, take, refused) -> None:
    said = name.replace("device_", "").replace("_", "[_ ]")
    for value in refused:
        with pytest.raises((ValueError, TypeError), match=f"(?i){said}") as error:
            take(**{name: value})
        assert len(str(error.value)) < 500
