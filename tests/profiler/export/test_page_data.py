"""The data of the page: whole, consistent, and linear in the size of the program."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.planner.planning import plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.profiler.export.html_page import comparison_data
from tensorflow_ipu.profiler.export.page_data import Texts, memory_tables, page_data, runs
from tensorflow_ipu.profiler.report import Report
from tests.profiler.views.test_trees import nested
from tests.support.planner import plans
from tests.support.planner.workloads import (
    chain,
    loop,
    pipeline,
    pipelines,
    training_step,
    workloads,
)

# --- The data of the page's memory views says what the plan says, for each step and tile ---

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
def test_births_and_deaths_make_curve_and_tiles(workload, io_tiles, recompute):
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


def test_report_with_other_memory_is_consistent():
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


def test_tensors_at_a_step_add_up_to_liveness():
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


def test_tensors_on_fullest_tile_add_up():
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


# --- The data of the page: whole, consistent, and linear in the size of the program ---

REPORTS = {
    "nested": lambda: plan(nested(), Settings()),
    "loop": lambda: plan(loop(), Settings()),
    "pipeline": lambda: plan(pipeline(3), Settings(recompute=True)),
    "by hand": plans.plan,
    "pipeline by hand": plans.pipeline_plan,
    "empty": lambda: plan(Workload("none", (), (), (), (), 1), Settings()),
}


@pytest.fixture(scope="module", params=REPORTS)
def report(request) -> Report:
    return Report.from_plan(REPORTS[request.param]())


def read(data: object) -> dict:
    """The data as the page gets it."""
    found: dict = json.loads(json.dumps(data, allow_nan=False))
    return found


def tables(data: dict) -> dict[str, dict[str, list]]:
    """All tables of columns."""
    found = {name: data[name] for name in ("layers", "ops", "operations", "tensors", "idle")}
    found["program_tree"] = data["program_tree"]
    for memory in data["memory"]:
        for name in ("steps", "residents", "parts", "stretches"):
            found[f"memory {memory['ipu']} {name}"] = memory[name]
    for ipu in data["timeline"]["ipus"]:
        for name in ("spans", "layers"):
            found[f"timeline {ipu['ipu']} {name}"] = ipu[name]
    return found


def check(numbers: list, count: int) -> None:
    """Checks that positions are below a number of entries."""
    assert all(0 <= number < count for number in numbers if number is not None)


def test_columns_have_equal_length_and_valid_positions(report):
    data = read(page_data(report))
    found = tables(data)
    counts = {}
    for name, table in found.items():
        assert table and len({len(column) for column in table.values()}) == 1, name
        counts[name] = len(next(iter(table.values())))
    of = {
        **{"op": "ops", "row": "operations", "layer": "layers", "tensor": "tensors"},
        **{"maker": "ops", "parent": "layers"},
    }
    for table in found.values():
        for column, other in of.items():
            check(table.get(column, []), counts[other])
    for name in ("inputs", "outputs"):
        for operands in data["ops"][name]:
            check(operands[::2], counts["tensors"])
            check(operands[1::2], len(data["texts"]))
    for table, names in (("operations", ("type", "bound", "partition")), ("tensors", ("dtype",))):
        for name in names:
            check(data[table][name], len(data["texts"]))
    assert {data["texts"][i] for i in data["operations"]["bound"]} <= set(data["bounds"])
    assert {data["texts"][i] for i in data["operations"]["type"]} == set(data["intervals"])


def test_numbers_are_those_of_the_plan(report):
    data, timeline = read(page_data(report)), report.plan.timeline
    assert data["summary"]["cycles"] == timeline.cycles
    assert data["summary"]["worst"]["bytes"] == report.plan.fullest.worst_bytes
    for cycles, row in zip(data["operations"]["cycles"], report.operations()):
        assert cycles == pytest.approx(row.cycles, abs=0.005)
    for memory, planned in zip(data["memory"], report.plan.memory):
        assert memory["worst_bytes"] == planned.worst_bytes
        assert [c["total"] for c in memory["categories"]] == [c.total for c in planned.categories]


def test_a_saved_report_has_the_same_data(report, tmp_path):
    report.save(tmp_path / "report.json")
    assert read(page_data(Report.load(tmp_path))) == read(page_data(report))


def test_an_older_report_has_partitions_too():
    made = plan(nested(), Settings())
    ops = tuple(
        time._replace(cost=dataclasses.replace(time.cost, partition=None))
        for time in made.timeline.ops
    )
    older = dataclasses.replace(made, timeline=dataclasses.replace(made.timeline, ops=ops))
    assert Report.from_plan(older).operations() == Report.from_plan(made).operations()


def test_the_data_grow_no_faster_than_the_program():
    sizes = []
    for layers in (4, 8, 16):
        data = page_data(Report.from_plan(plan(training_step(32, 8, layers), Settings())))
        sizes.append(len(json.dumps(data)) - len(json.dumps(data["memory"][0]["categories"])))
    assert sizes[2] - sizes[1] < 2.2 * (sizes[1] - sizes[0])


def test_two_reports_side_by_side():
    before = Report.from_plan(plan(nested(), Settings()))
    after = Report.from_plan(plan(nested(), Settings(matmul_proportion=0.1, replicas=2)))
    data = read(comparison_data(before, after))
    assert data["layers"]["path"][0] == ""
    assert data["layers"]["before"][0] == pytest.approx(before.plan.timeline.cycles, abs=0.01)
    assert data["layers"]["after"][0] == pytest.approx(after.plan.timeline.cycles, abs=0.01)
    for side, report in (("before", before), ("after", after)):
        rows = [cycles for cycles in data["operations"][side] if cycles is not None]
        assert len(rows) == len(report.operations())
        total = sum(row.cycles for row in report.operations())
        assert sum(rows) == pytest.approx(total, abs=0.005 * len(rows))
    assert None not in data["operations"]["before"] + data["operations"]["after"]


def test_operations_are_matched_though_numbers_of_layers_differ():
    def renamed(name: str) -> str:
        return name.replace("encoder", "encoder_1")

    workload = nested()
    ops = tuple(
        dataclasses.replace(op, layer=renamed(op.layer), name=op.name.replace("dense0", "dense0_7"))
        for op in workload.ops
    )
    before = Report.from_plan(plan(workload, Settings()))
    after = Report.from_plan(plan(dataclasses.replace(workload, ops=ops), Settings()))
    data = comparison_data(before, after)
    assert data["operations"]["before"] == data["operations"]["after"]
    assert data["layers"]["before"] == data["layers"]["after"]
    assert "encoder_1/block/first" in data["layers"]["path"]


def test_what_only_one_report_has_stands_alone():
    before = Report.from_plan(plan(chain(), Settings()))
    after = Report.from_plan(plan(training_step(), Settings()))
    data = comparison_data(before, after)
    alone = [
        name
        for name, old, new in zip(*(data["operations"][n] for n in ("name", "before", "after")))
        if old is None or new is None
    ]
    assert {"a", "b", "c", "dense0/MatMul"} <= set(alone)
