"""Tests of instructions for a change: in the words of each API, and of no other."""

from __future__ import annotations

import dataclasses

import pytest

from tensorflow_ipu.configs import chips
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import POPART, POPXL
from tensorflow_ipu.tuning.advice.steps import Guide
from tensorflow_ipu.tuning.search.candidates import Candidates
from tensorflow_ipu.tuning.search.choices import ON_CHIP, REMOTE, SPLIT, Choices, Trial
from tests.support.planner.layered_workloads import dense

WORKLOAD = dense([64] * 5, batch=16)
CHOICES = (
    Choices(precision="float16"),
    Choices(partials="float16"),
    Choices(batch=8),
    Choices(optimizer_state=REMOTE),
    Choices(optimizer_state=SPLIT, replicas=2),
    Choices(stages=2),
    Choices(stages=2, optimizer_state=ON_CHIP, schedule="Interleaved", count=2.0),
    Choices(stages=2, weights=SPLIT, activations=REMOTE, replicas=2),
    Choices(shards=2),
    Choices(count=4.0),
    Choices(recompute=True),
    Choices(matmul_proportion=0.1, convolution_proportion=0.2, slice_proportion=0.3),
    Choices(replicas=4),
)
# Words of an API that programs of the others do not have.
FOREIGN = {
    "": ("popart", "popxl", "addons", "builder"),
    POPXL: ("tf.", "Keras", "config.", "dataset", "popart", "builder"),
    POPART: ("tf.", "Keras", "config.", "dataset", "popxl", "addons"),
}


def _steps(choices, api=""):
    workload = dataclasses.replace(WORKLOAD, api=api)
    settings = Settings(chip=chips.MK2.with_tiles(16))
    plan = planning.plan(workload, settings)
    made = Candidates(workload, settings, 16, fewer=True).candidate(choices)
    return Guide(plan).steps(Trial(choices, made.plan(), made.parts))


@pytest.mark.parametrize("choices", CHOICES, ids=str)
@pytest.mark.parametrize("api", FOREIGN)
def test_changes_are_written_in_words_of_api(choices, api):
    steps = _steps(choices, api)
    assert steps
    for step in steps:
        assert step.name and step.text
        assert not any(word in step.text for word in FOREIGN[api])
    assert bool([step for step in steps if step.options]) <= (api == "")


def test_a_pipeline_is_set_in_one_call():
    """Further arguments of `set_pipelining_options` replace the last call's."""
    choices = Choices(
        stages=2, optimizer_state=SPLIT, activations=REMOTE, weights=SPLIT, replicas=2
    )
    pipeline, replicas = _steps(choices)
    (call,) = (line for line in pipeline.lines if "set_pipelining_options" in line)
    for argument in (
        "gradient_accumulation_steps_per_replica=16",
        "pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Grouped",
        "offload_weight_update_variables=True",
        "replicated_optimizer_state_sharding=True",
        "offload_weights=True",
        "replicated_weight_sharding=True",
        "offload_activations=True",
    ):
        assert argument in call
    assert pipeline.options == replicas.options == {"auto_select_ipus": "4"}


def test_new_pipelines_say_where_the_optimizer_state_is():
    """The plan has it in streaming memory, as pipelines do by default."""
    assert "offload_weight_update_variables=True" in _steps(Choices(stages=2))[0].text
    on_chip = _steps(Choices(stages=2, optimizer_state=ON_CHIP))[0].text
    assert "offload_weight_update_variables=False" in on_chip


def test_stages_have_the_lines_that_they_come_from():
    (step,) = _steps(Choices(stages=2))
    first, second = step.lines[:2]
    assert first == "stage 0: dense0, dense1, from model.py:1 (step)"
    assert second.startswith("stage 1: dense2, dense3, from model.py:")


@pytest.mark.parametrize(
    ("choices", "name"),
    [
        (Choices(recompute=True), "recompute activations"),
        (Choices(batch=4), "mini-batches of 4 in place of 16"),
        (Choices(count=4.0), "4 mini-batches for an update in place of 1"),
        (Choices(shards=2), "shards on 2 IPUs"),
        (Choices(replicas=4), "4 replicas in place of 1"),
        (
            Choices(matmul_proportion=0.1),
            "smaller temporaries (availableMemoryProportion 0.1 for matmuls)",
        ),
        (
            Choices(stages=2, count=2.0, optimizer_state=ON_CHIP),
            "pipeline with 2 stages, 32 mini-batches for an update, optimizer state on the chip",
        ),
    ],
)
def test_changes_have_names(choices, name):
    assert [step.name for step in _steps(choices)] == [name]
