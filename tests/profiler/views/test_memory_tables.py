"""The data of the page's memory views says what the plan says, for each step and tile."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.planner.planning import plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.views.memory_tables import memory_tables
from tensorflow_ipu.profiler.views.tables import Texts, runs
from tests.support.planner import plans
from tests.support.planner.workloads import pipelines, training_step, workloads

FAST = settings(max_examples=12, derandomize=True, deadline=None)


def expanded(pairs: list[int]) -> np.ndarray:
    return np.repeat(pairs[::2], pairs[1::2])


def of_stretch(size: int, table: dict) -> np.ndarray:
    """The bytes on each tile as the page computes them."""
    tiles, block = table["compute_tiles"], table["block"]
    blocks = -(-size // block)
    found = block * (blocks // tiles + (np.arange(tiles) < blocks % tiles))
    if blocks:
        found[min(blocks, tiles) - 1] -= block * blocks - size
    return np.pad(found, (0, table["tiles"] - tiles))


@given(
    workload=st.one_of(workloads(), pipelines()),
    io_tiles=st.sampled_from([0, 32]),
    recompute=st.booleans(),
)
@FAST
def test_births_and_deaths_make_the_curve_and_the_tiles(workload, io_tiles, recompute):
    made = plan(workload, Settings(io_tiles=io_tiles, recompute=recompute))
    tables = memory_tables(made, Report.from_plan(made).view.details, Texts())
    for memory, table in zip(made.memory, json.loads(json.dumps(tables))):
        assert table["matches"]
        stretches = list(
            zip(*(table["stretches"][n] for n in ("bytes", "worst", "birth", "death")))
        )
        always = sum(
            (expanded(table["mappings"][i]) for i in table["residents"]["mapping"]),
            np.zeros(table["tiles"], np.int64),
        )
        assert always.sum() == table["always_bytes"] == sum(table["residents"]["bytes"])
        most = always.copy()
        for step, temporary in enumerate(table["temporaries"]):
            live = [(b, w) for b, w, birth, death in stretches if birth <= step <= death]
            whole = sum(b for b, _ in live) + temporary * table["temporary_tiles"][step]
            assert whole == table["steps"]["bytes"][step] == memory.live_bytes[step]
            worst = sum(w for _, w in live) + temporary
            assert worst == table["steps"]["worst"][step] == memory.live_worst[step]
            there = sum((of_stretch(b, table) for b, _ in live), always.copy())
            there[: table["temporary_tiles"][step]] += temporary
            most = np.maximum(most, there)
        # Exact on tile 0; of other tiles the plan looks at the fullest steps only.
        assert most[0] == memory.peak[0]
        assert (most >= memory.peak).all()
        assert np.array_equal(expanded(table["peak"]), memory.peak)


def test_a_report_with_other_memory_says_so_and_is_consistent():
    made = plans.plan()
    (table,) = memory_tables(made, Report.from_plan(made).view.details, Texts())
    assert not table["matches"]
    assert len(table["steps"]["bytes"]) == len(table["steps"]["op"]) == len(table["temporaries"])


@pytest.mark.parametrize(
    ("values", "pairs"),
    [([], []), ([5], [5, 1]), ([1, 1, 2, 1], [1, 2, 2, 1, 1, 1]), ([0] * 1472, [0, 1472])],
)
def test_runs_of_equal_numbers(values, pairs):
    assert runs(np.array(values, np.int64)) == pairs


def test_tensors_at_a_step_add_up_to_the_liveness():
    report = Report.from_plan(plan(training_step(), Settings()))
    (memory,) = report.plan.memory
    for step in range(len(memory.live_ops)):
        moving = [t for t in report.tensors_at(step) if t.born is not None]
        assert sum(t.num_bytes for t in moving) == memory.live_bytes[step]
        assert sum(t.worst_bytes for t in moving) == memory.live_worst[step]
        assert all(t.born <= step <= t.dies for t in moving)
    sizes = [t.num_bytes for t in report.tensors_at(0)]
    assert sizes == sorted(sizes, reverse=True)
    assert "w0" in {t.name for t in report.tensors_at(0) if t.born is None}


def test_tensors_on_the_fullest_tile_add_up_to_its_bytes():
    report = Report.from_plan(plan(training_step(), Settings()))
    worst = report.plan.fullest
    found = report.tensors_on(worst.worst_tile)
    assert sum(found.values()) == worst.worst_bytes
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert {"w0", "vertex code", "temporaries"} <= set(found)


def test_ipus_that_are_not_there_are_errors():
    report = Report.from_plan(plan(training_step(), Settings()))
    with pytest.raises(IndexError, match="IPUs 0 to 0; received 1"):
        report.tensors_at(0, ipu=1)
    with pytest.raises(IndexError, match="steps 0 to"):
        report.tensors_at(10_000)
    with pytest.raises(IndexError, match="tiles 0 to 1471; received -1"):
        report.tensors_on(-1)
