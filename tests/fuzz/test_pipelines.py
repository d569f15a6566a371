"""Random pipelines train to the weights of plain gradient accumulation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import strategies

from tensorflow_ipu.ops import pipelining_ops
from tensorflow_ipu.optimizers import CrossReplicaOptimizer
from tests.fuzz import support
from tests.support.models import pipelines


class Case(NamedTuple):
    """A pipeline and how it is run."""

    stages: int
    schedule: pipelining_ops.PipelineSchedule
    optimizer: str
    multiple: int  # mini-batches of an update, as a multiple of what the schedule needs
    repeats: int
    replicas: int
    recomputes: bool


CASES = strategies.builds(
    Case,
    strategies.sampled_from([2, 4]),
    strategies.sampled_from(pipelining_ops.PipelineSchedule),
    strategies.sampled_from(["sgd", "momentum", "adam", "rmsprop"]),
    strategies.integers(1, 3),
    strategies.integers(1, 2),
    strategies.sampled_from([1, 2, 4]),
    strategies.booleans(),
)


def _mini_batches(case: Case) -> int:
    grouped = case.schedule is pipelining_ops.PipelineSchedule.Grouped
    return case.multiple * case.stages * (2 if grouped else 1)


def _check(case: Case) -> None:
    count = _mini_batches(case)
    mode = pipelining_ops.RecomputationMode
    sequential = case.schedule is pipelining_ops.PipelineSchedule.Sequential
    got = pipelines.run(
        pipelines.stages(case.stages),
        pipelines.data(count * case.repeats * case.replicas),
        ipus=case.stages * case.replicas,
        wrap=CrossReplicaOptimizer,
        opt=case.optimizer,
        gradient_accumulation_count=count,
        repeat_count=case.repeats,
        pipeline_schedule=case.schedule,
        recomputation_mode=mode.Auto if case.recomputes and not sequential else None,
    )
    want = pipelines.expected(count, case.repeats, case.optimizer, case.replicas)
    # RMSprop and Adam divide by what the gradients sum up to, so their roundings grow.
    pipelines.assert_same_weights(got, want, tolerance=5e-5)
    losses = np.asarray(got.outfeed[0])
    np.testing.assert_allclose(losses.reshape(-1), want.outfeed, rtol=5e-5, atol=5e-5)


def test_pipelines_equal_gradient_accumulation(request: pytest.FixtureRequest) -> None:
    support.run(request, "pipelines", CASES, _check)
