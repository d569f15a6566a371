"""Programs of whole models: compiling without running, repeating layers, other counts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tensorflow as tf
from measured import programs, training, whole_models
from measured.configuration import BERT_BASE, BERT_LARGE, RESNET, Configuration, configuration
from measured.models import bert, resnet
from measured.replicate import replicated, with_count, with_replicas
from measured.rows import Row, parameters

from tensorflow_ipu.compiler.workload import describe
from tensorflow_ipu.configs.chips import BOW, MK2
from tensorflow_ipu.costs.releases import CURRENT, SDK_2_1
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.settings import Settings

LAYOUT = programs.Layout((0, 1), "Grouped", recompute=True, momentum=True)
SIZE = 256


def stage(index: int):
    def layer(x: tf.Tensor):
        with tf.compat.v1.variable_scope(f"layer_{index}"):
            x = tf.nn.relu(tf.matmul(x, resnet.variable("kernel", [SIZE, SIZE])))
        return x if index == 0 else tf.reduce_mean(tf.cast(x, tf.float32))

    return layer


@pytest.fixture(scope="module")
def workload():
    element = [tf.TensorSpec([4, SIZE], tf.float16)]
    executable = programs.compile_pipeline("tiny", [stage(0), stage(1)], element, LAYOUT, 4)
    assert executable.launches == 0
    return describe.workload(executable)


def count(workload, op_type: str, phase: str | None = None) -> int:
    return sum(o.type == op_type and phase in (None, o.phase) for o in workload.ops)


def test_replicating_layers_repeats_their_ops(workload):
    more = replicated(workload, {0: 3})
    # Each layer has a product, and two in the backward pass but for the first.
    assert count(workload, "MatMul", "") == 2
    assert count(more, "MatMul", "") == 4
    assert count(workload, "ResourceApplyMomentum") == 2
    assert count(more, "ResourceApplyMomentum") == 4
    assert count(more, "IpuCrossReplicaSum") == count(workload, "IpuCrossReplicaSum") + 2
    assert replicated(workload, {0: 1, 1: 1}) == workload


def test_repeated_layers_have_variables_of_their_own(workload):
    more = replicated(workload, {0: 3})
    of_layer = [v for v in workload.variables if "layer_0" in v.name]
    # The weight, its momentum, and the sum of its gradients, which has another name.
    assert len(of_layer) == 2
    assert len(more.variables) == len(workload.variables) + 2 * 3
    sizes = [sum(v.num_bytes for v in found.variables) for found in (workload, more)]
    assert sizes[1] - sizes[0] == 2 * 3 * 2 * SIZE * SIZE
    updated = [o.inputs[0].buffer for o in more.ops if o.type == "ResourceApplyMomentum"]
    assert len(set(updated)) == 4


def test_state_is_split_over_all_replicas():
    layout = LAYOUT._replace(offload=True)
    element = [tf.TensorSpec([4, SIZE], tf.float16)]
    executable = programs.compile_pipeline("tiny", [stage(0), stage(1)], element, layout, 4)
    found = describe.workload(executable)
    state = [v for v in found.variables if v.offloaded]
    assert [(v.role, v.split) for v in state] == [("optimizer state", 2)] * 2
    more = with_replicas(found, 16)
    assert [v.share for v in more.variables if v.offloaded] == [2 * SIZE * SIZE // 16] * 2
    assert [v for v in more.variables if not v.offloaded] == [
        v for v in found.variables if not v.offloaded
    ]


def test_functions_still_end_where_they_did(workload):
    more = replicated(workload, {0: 3})
    added = len(more.ops) - len(workload.ops)
    (loop,) = [(i, op) for i, op in enumerate(workload.ops) if op.type == "While"]
    (same,) = [(i, op) for i, op in enumerate(more.ops) if op.type == "While"]
    assert same[1].end == loop[1].end + added
    assert all(op.end > index for index, op in enumerate(more.ops))


def test_repeated_layers_take_longer(workload):
    settings = Settings(chip=BOW, replicas=2)
    once, thrice = (
        Planner(replicated(workload, {0: n, 1: n})).timeline(settings).cycles for n in (1, 3)
    )
    assert once < thrice < 3 * once + 1


def test_a_larger_count_runs_more_mini_batches(workload):
    settings = Settings(chip=BOW, replicas=2)
    more = with_count(workload, 40)
    assert more.pipeline.count == 40
    assert {op.runs for op in more.ops if op.type == "MatMul"} == {40}
    steps = [Planner(with_count(workload, n)).timeline(settings).cycles for n in (20, 40, 60)]
    # A pipeline's time is that of its ramps and update, and so much for each mini-batch.
    assert steps[2] - steps[1] == pytest.approx(steps[1] - steps[0], rel=1e-6)


def test_a_program_without_pipeline_has_no_count(workload):
    with pytest.raises(ValueError, match="Expected a pipeline"):
        with_count(SimpleNamespace(pipeline=None, name="plain"), 3)


@pytest.mark.parametrize(
    ("model", "stages", "layers"),
    [
        (RESNET, 0, ()),
        (BERT_LARGE, 0, (3, 7, 7, 7)),
        (BERT_LARGE, 4, (3, 7, 7, 7)),
        (BERT_LARGE, 8, (3,) * 8),
        (BERT_LARGE, 16, (1, 2) * 8),
        (BERT_BASE, 0, (0, 4, 4, 4)),
    ],
)
def test_encoder_layers_are_dealt_to_ipus(model, stages, layers):
    config = Configuration(model, BOW, 2, 2, 10, 128, 1.0, stages)
    assert training.encoder_layers(config) == layers


def test_stages_have_one_layer_each():
    shape = bert.Shape(768, 128, 2)
    assert [stage.__name__ for stage in bert.stages(shape, (0, 1, 1))] == [
        "encoder_0",
        "encoder_1",
        "encoder_2",
        "heads",
    ]
    assert (shape.heads, shape.masked, shape.tokens) == (12, 19, 256)


def test_throughput_is_samples_of_update_by_its_time(monkeypatch):
    monkeypatch.setattr(training, "plan", lambda config: SimpleNamespace(seconds=0.5))
    monkeypatch.setattr(training, "parts", lambda config: (("dense products", 1.0),))
    options = "POD16;microbatch=2;GA=10;GBS=320;SL512 packed;4-stage pipeline x4 replicas"
    fields = ("BERT-Large pre-training", parameters(options))
    rate = Row(2, "MLPerf Training v1.1", "t", "GC200", *fields, "throughput", 700.0, "sequences/s")
    found = whole_models.predict(rate)
    # 4 replicas x 2 packs x 10, and 320 / 80 = 4 sequences in a pack.
    assert found.value == 320 / 0.5
    assert (found.chip, found.fitted) == (MK2, True)
    block = rate._replace(metric="block time", unit="s")
    # 0.05 x (230.23 x 320 + 3e6) = 153,683, down to 150,000, is 469 batches of 320.
    assert whole_models.predict(block).value == pytest.approx(469 * 0.5)


def test_first_round_has_the_release_of_its_time():
    options = parameters("POD64;microbatch=20;GA=2;GBS=2560;replicas=64")
    fields = ("ResNet-50 v1.5 training", options, "throughput", 80_000.0, "samples/s")
    old, new = (
        configuration(Row(2, f"MLPerf Training {name}: logs", "t", "Mk2", *fields))
        for name in ("v1.0", "v1.1")
    )
    assert (old.release, new.release) == (SDK_2_1, CURRENT)
    chips = [training.settings(config).chip for config in (old, new)]
    assert chips[0].collective_efficiency < chips[1].collective_efficiency
