"""Values that a pipeline puts into its outfeed, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import tf2

from tensorflow_ipu.ops import pipelining_ops
from tests.support.models import pipelines

COUNT, EXECUTIONS = 4, 3
X = np.arange(COUNT * EXECUTIONS * pipelines.BATCH, dtype=np.float32)
BATCHES = X.reshape(COUNT * EXECUTIONS, pipelines.BATCH)


def _run(last: Any, opt: str | None = None, **arguments: Any) -> Any:
    def first(x: tf.Tensor) -> tf.Tensor:
        return 2.0 * x

    outcome = pipelines.run(
        [first, last],
        X,
        opt=opt,
        gradient_accumulation_count=COUNT,
        repeat_count=EXECUTIONS,
        **arguments,
    )
    return outcome.outfeed


@pytest.fixture
def tensorflow_1() -> Iterator[None]:
    tf2.disable()
    yield
    tf2.enable()


def _single(x: tf.Tensor) -> tf.Tensor:
    return x + 1.0


def _pair(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return x + 1.0, tf.reduce_sum(x)


def _dict(x: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"plus": x + 1.0, "sum": tf.reduce_sum(x)}


def test_inference_sends_a_bare_tensor() -> None:
    np.testing.assert_array_equal(_run(_single), 2 * BATCHES + 1)


def test_inference_sends_list_of_one_in_tensorflow_1(tensorflow_1: None) -> None:
    (got,) = _run(_single)
    np.testing.assert_array_equal(got, 2 * BATCHES + 1)
    # An argument that the SDKs of TensorFlow 1 do not have: a program for later ones.
    bare = _run(_single, reduction_method="sum")
    np.testing.assert_array_equal(bare, 2 * BATCHES + 1)


def test_inference_sends_lists() -> None:
    got = _run(_pair)
    assert isinstance(got, list)
    np.testing.assert_array_equal(got[0], 2 * BATCHES + 1)
    np.testing.assert_array_equal(got[1], 2 * BATCHES.sum(axis=1))


def test_inference_keeps_the_keys_of_a_dict() -> None:
    got = _run(_dict)
    assert set(got) == {"plus", "sum"}
    np.testing.assert_array_equal(got["plus"], 2 * BATCHES + 1)


def test_inference_accumulates_to_one_sum_for_each_execution() -> None:
    got = _run(_dict, accumulate_outfeed=True, accumulate_outfeed_dtype=tf.float16)
    want = (2 * BATCHES + 1).reshape(EXECUTIONS, COUNT, -1).sum(axis=1)
    np.testing.assert_array_equal(got["plus"], want)
    assert got["sum"].dtype == np.float16


def _trained(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    w = tf.compat.v1.get_variable("w", initializer=0.0, use_resource=True)
    return x, tf.reduce_sum(x) + 0.0 * w


def test_training_sends_what_the_optimizer_function_gets() -> None:
    got = _run(_trained, opt="sgd")
    assert isinstance(got, list)
    np.testing.assert_array_equal(got[0], 2 * BATCHES)
    np.testing.assert_array_equal(got[1], 2 * BATCHES.sum(axis=1))


def test_training_sends_the_loss_alone() -> None:
    got = _run(_trained, opt="sgd", outfeed_loss=True)
    np.testing.assert_array_equal(got, 2 * BATCHES.sum(axis=1))


@pytest.mark.parametrize("dtype", [None, tf.float32, lambda tensor: tensor.dtype])
def test_training_accumulates_the_loss(dtype: Any) -> None:
    got = _run(
        _trained,
        opt="sgd",
        outfeed_loss=True,
        accumulate_outfeed=True,
        accumulate_outfeed_dtype=dtype,
    )
    np.testing.assert_array_equal(got, 2 * BATCHES.reshape(EXECUTIONS, -1).sum(axis=1))


def test_a_mask_leaves_outputs_out() -> None:
    (got,) = _run(_trained, opt="sgd", outfeed_mask=[True, False])
    np.testing.assert_array_equal(got, 2 * BATCHES.sum(axis=1))


def test_a_full_mask_needs_no_outfeed() -> None:
    got = _run(_trained, opt="sgd", outfeed_mask=[True, True], has_outfeed=False)
    assert got == []


@pytest.mark.parametrize("mask", [None, [True, False]])
def test_training_needs_outfeed_for_what_is_not_masked(mask: Any) -> None:
    with pytest.raises(ValueError, match="The last computational stage has tensor outputs: .*:0"):
        _run(_trained, opt="sgd", has_outfeed=False, outfeed_mask=mask)


def test_stages_without_outputs_need_no_outfeed() -> None:
    def last(x: tf.Tensor) -> None:
        del x

    assert _run(last, has_outfeed=False) == []


def test_a_dict_element_arrives_by_keyword() -> None:
    def first(b: tf.Tensor, a: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"difference": a - b}

    def last(difference: tf.Tensor) -> tf.Tensor:
        return difference

    got = pipelines.run(
        [first, last], {"a": 3 * X, "b": X}, opt=None, gradient_accumulation_count=len(BATCHES)
    )
    np.testing.assert_array_equal(got.outfeed, 2 * BATCHES)


def test_inputs_come_before_the_element() -> None:
    def first(scale: tf.Tensor, offset: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return scale * x + offset

    got = pipelines.run(
        [first, lambda x: x],
        X,
        opt=None,
        gradient_accumulation_count=len(BATCHES),
        inputs=[3.0, tf.constant(2.0).numpy()],
    )
    np.testing.assert_array_equal(got.outfeed, 3 * BATCHES + 2)


def test_all_schedules_keep_the_order() -> None:
    for schedule in pipelining_ops.PipelineSchedule:
        np.testing.assert_array_equal(_run(_single, pipeline_schedule=schedule), 2 * BATCHES + 1)
