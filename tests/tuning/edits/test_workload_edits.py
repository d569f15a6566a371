"""Programs of one replica, as several would train them."""

from __future__ import annotations

import pytest

from tensorflow_ipu.costs.chip import collectives
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.program import structure
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.tuning import what_if
from tensorflow_ipu.tuning.edits import workload_edits
from tensorflow_ipu.tuning.edits.batch import with_batch
from tests.support.planner import real_programs, training_steps, workloads

SUM = "IpuCrossReplicaSum"


def sums(workload):
    return [op for op in workload.ops if op.type == SUM]


def test_each_gradient_is_summed_right_before_its_update():
    before = workloads.training_step(width=256, layers=3)
    after = workload_edits.with_replica_sums(before)
    assert [op.inputs[0].shape for op in sums(after)] == [(256, 256)] * 3
    for index, op in enumerate(after.ops):
        if op.type == SUM:
            assert after.ops[index + 1].type == "ResourceApplyMomentum"
            assert op.inputs[0] in after.ops[index + 1].inputs
            assert op.inputs == op.outputs
    kept = [op for op in after.ops if op.type != SUM]
    assert [op.name for op in kept] == [op.name for op in before.ops]


@pytest.mark.parametrize("name", ["mlp", "cnn", "residual", "lstm"])
def test_sums_equal_program_compiled_for_two_replicas(name):
    after = workload_edits.with_replica_sums(real_programs.workload(name, 8))
    compiled = real_programs.workload(name, 8, replicas=2)
    shapes = [sorted(op.inputs[0].shape for op in sums(w)) for w in (after, compiled)]
    assert shapes[0] == shapes[1] and shapes[0]
    assert sum(op.runs for op in sums(after)) == sum(op.runs for op in sums(compiled))
    for index, op in enumerate(after.ops):
        assert index < op.end <= len(after.ops)
        assert all(inner.end <= op.end for inner in after.ops[index + 1 : op.end])


@pytest.mark.parametrize("name", ["residual", "lstm", "encoder"])
def test_only_weight_gradients_are_summed(name):
    before = real_programs.workload(name, 8)
    trained = structure.structure(before).trained
    summed = [op.inputs[0].type.num_bytes for op in sums(workload_edits.with_replica_sums(before))]
    assert sum(summed) == sum(before.variables[index].num_bytes for index in trained)
    larger = workload_edits.with_replica_sums(real_programs.workload(name, 16))
    assert [op.inputs[0].type.num_bytes for op in sums(larger)] == summed


def test_program_collectives_or_does_not_train_stays():
    once = workload_edits.with_replica_sums(workloads.training_step())
    assert workload_edits.with_replica_sums(once) is once
    assert workload_edits.with_replica_sums(workloads.chain()).ops == workloads.chain().ops


@pytest.mark.parametrize("replicas", [2, 4, 8])
def test_what_if_counts_the_sums(replicas):
    workload, settings = workloads.training_step(width=512, layers=2), Settings()
    (found,) = what_if.outcomes(workload, settings, {"replicas": [replicas]})
    alone = planning.plan(workload, settings).timeline.cycles
    each = collectives.all_reduce(512 * 512 * 4, replicas, 1, settings.chip).cycles
    assert found.cycles == pytest.approx(alone + 2 * each, rel=0.01)


@pytest.mark.parametrize("name", sorted(training_steps.PROGRAMS))
def test_trained_values_are_summed_for_any_batch(name):
    """Two optimizers, tied weights, clipping by the global norm, moving averages."""
    before, trained = training_steps.workload(name, 4)
    for workload in (before, with_batch(before, 64)):
        summed = [
            op.inputs[0].type.num_bytes for op in sums(workload_edits.with_replica_sums(workload))
        ]
        assert sum(summed) == trained
