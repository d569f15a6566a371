"""Programs that contradict themselves are refused before they are planned."""

from __future__ import annotations

import dataclasses

import pytest

from tensorflow_ipu.planner import serialize
from tensorflow_ipu.planner.schedule import PipelineSchedule
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Copy
from tests.support.planner import workloads

STEP = workloads.training_step(8, 4, 1)
PIPELINE = workloads.pipeline(2, PipelineSchedule.Grouped, width=8)


def _with_op(workload, index, **changes):
    ops = list(workload.ops)
    ops[index] = dataclasses.replace(ops[index], **changes)
    return dataclasses.replace(workload, ops=tuple(ops))


def _with_buffer(workload, index, **changes):
    buffers = list(workload.buffers)
    buffers[index] = buffers[index]._replace(**changes)
    return dataclasses.replace(workload, buffers=tuple(buffers))


def _with_pipeline(**changes):
    return dataclasses.replace(PIPELINE, pipeline=dataclasses.replace(PIPELINE.pipeline, **changes))


_COPY = dataclasses.replace(PIPELINE, copies=(Copy("x", 0, 1, 8, 1, phase="recompute"),))


@pytest.mark.parametrize(
    "workload", [STEP, PIPELINE, workloads.loop(), workloads.chain()], ids=range(4)
)
def test_generated_programs_are_consistent(workload) -> None:
    serialize.check(workload, Settings())


@pytest.mark.parametrize(
    ("workload", "settings", "message"),
    [
        (_with_op(STEP, 0, ipu=1), {}, "op 0 names IPU 1 of 1"),
        (STEP, {"replicas": 3, "instances": 2}, "3 replicas are not divided evenly among 2"),
        (_with_op(STEP, 0, stage=0), {}, "op 0 names stage 0 of 0"),
        (_with_op(STEP, 0, phase="dense"), {}, "op 0 has the phase 'dense'; expected one of ''"),
        (_COPY, {}, "copy 0 has the phase 'recompute'"),
        (_with_op(workloads.loop(), 1, end=99), {}, "op 1 ends at 99"),
        (_with_buffer(STEP, 0, ipu=3), {}, "buffer 0 names IPU 3 of 1"),
        (_with_buffer(STEP, 0, shape=(2**60,)), {}, "tensors of more than"),
        (_with_buffer(STEP, 0, batched=9), {}, "buffer 0 grows in dimension 9"),
        (_with_pipeline(device_mapping=(0, 7)), {}, "a stage is on IPU 7 of 2"),
        (_with_pipeline(count=10**6), {}, "more than 1000000 entries"),
        (dataclasses.replace(PIPELINE, stage_names=("a",)), {}, "1 names for 2 stages"),
        (STEP, {"io_tiles": 1472}, "which leaves none"),
        (STEP, {"stage_devices": (0,)}, "are not the IPUs of the program's stages"),
    ],
    ids=range(14),
)
def test_contradictions_are_refused(workload, settings, message) -> None:
    with pytest.raises(ValueError, match=message):
        serialize.check(workload, Settings(**settings))
