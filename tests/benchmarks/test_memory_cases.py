"""Configurations whose memory is known to suffice, or not to."""

from __future__ import annotations

import pytest
import tensorflow as tf
from measured import memory, programs, training
from measured.configuration import BERT_LARGE
from measured.models import resnet

from tensorflow_ipu.compiler.workload import describe

LAYOUT = programs.Layout((0, 1), "Grouped", recompute=True, momentum=True, offload=True)
SIZE = 2048


@pytest.fixture(scope="module")
def program():
    def stage(index: int):
        def layer(x: tf.Tensor):
            with tf.compat.v1.variable_scope(f"layer_{index}"):
                x = tf.nn.relu(tf.matmul(x, resnet.variable("kernel", [SIZE, SIZE])))
            return x if index == 0 else tf.reduce_mean(tf.cast(x, tf.float32))

        return layer

    element = [tf.TensorSpec([4, SIZE], tf.float16)]
    executable = programs.compile_pipeline("tiny", [stage(0), stage(1)], element, LAYOUT, 4)
    return describe.workload(executable)


def test_state_on_chip_and_fewer_ipus_take_more(program, monkeypatch):
    monkeypatch.setattr(training, "whole_program", lambda config: program)
    case = memory.Case("tiny", memory.CASES[0].config, "here")
    plain = memory.fullest_tile(case)
    state = memory.fullest_tile(case._replace(state_on_chip=True))
    alone = memory.fullest_tile(case._replace(on_one_ipu=True))
    tile = training.settings(case.config).chip.memory_per_tile
    # One momentum of a layer's weight, in blocks of 128 bytes on 1472 tiles.
    assert (state - plain) * tile == pytest.approx(2 * SIZE * SIZE / 1472, abs=2 * 128)
    assert alone > plain


def test_cases_name_source_and_fit_unless_changed():
    assert all(case.source for case in memory.CASES)
    for case in memory.CASES:
        assert case.fits is not (case.state_on_chip or case.on_one_ipu)
    assert any(case.config.model == BERT_LARGE and case.fits for case in memory.CASES)
