"""Tests of outputs of flags: liveness as CSV, tensor maps, schedules, cycles of executions."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from absl import logging

from tensorflow_ipu.api import utils
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.configs import flags
from tensorflow_ipu.ops.raw import gen_ipu_ops
from tensorflow_ipu.profiler import automatic
from tests.support.planner import plans
from tests.support.reports import profiled

ROOT = Path(__file__).parents[2]
Run = Callable[[str], Executable]


@pytest.fixture
def run(monkeypatch) -> Iterator[Run]:
    """Runs a program with flags."""

    def launch(text: str) -> Executable:
        monkeypatch.setenv("TF_POPLAR_FLAGS", text)
        flags._reset_for_tests()
        profiled.configure()
        profiled.run()
        return cache.executables()[-1]

    yield launch
    flags._reset_for_tests()


def test_liveness_is_written_as_csv(run: Run, tmp_path) -> None:
    executable = run(f"--save_interval_report={tmp_path}/intervals")
    with open(tmp_path / "intervals" / f"{executable.name}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    (memory,) = executable.plan.memory
    assert [int(row["not_always_live_bytes"]) for row in rows] == memory.live_bytes.tolist()
    assert {int(row["always_live_bytes"]) for row in rows} == {memory.always_live}
    assert [int(row["step"]) for row in rows] == list(range(len(rows)))
    assert "MatMul" in {row["type"] for row in rows}
    assert max(int(row["worst_tile_bytes"]) for row in rows) == memory.worst_bytes


def _check_map(mappings: dict[str, list[list[object]]], tiles: int) -> int:
    """Checks the pairs of tile and elements; returns how many results have some."""
    mapped = 0
    for entries in mappings.values():
        for _, _, _, kind, _, _, elements, pairs in entries:
            if pairs:
                mapped += 1
                assert sum(count for _, count in pairs) == elements  # type: ignore[attr-defined]
                used = [tile for tile, _ in pairs]  # type: ignore[attr-defined]
                assert len(set(used)) == len(used) and max(used) < tiles
            else:
                assert kind in ("resource", "string", "variant") or elements == 0
    return mapped


def test_tensor_maps_are_written(run: Run, tmp_path) -> None:
    executable = run(f"--tensor_map_file_path={tmp_path}")
    data = json.loads((tmp_path / f"{executable.name}.json").read_text())
    assert _check_map(data["mappings"], executable.settings.chip.tiles) >= 3


@pytest.mark.parametrize("limit, mapped", [(2**28, True), (100, False)])
def test_tensor_maps_are_in_events_with_reports(limit: int, mapped: bool) -> None:
    profiled.configure(profiling=True, max_report_size=limit)
    profiled.run()
    events = utils.extract_all_events(gen_ipu_ops.ipu_event_trace())
    (end,) = [event.compile_end for event in events if event.HasField("compile_end")]
    mappings = json.loads(end.tensor_map)["mappings"]
    pairs = [entry[-1] for entries in mappings.values() for entry in entries]
    assert pairs and any(pairs) is mapped
    if mapped:
        assert _check_map(mappings, 1472) >= 3


def test_events_without_reports_have_no_tiles() -> None:
    profiled.configure(enable_ipu_events=True)
    profiled.run()
    events = utils.extract_all_events(gen_ipu_ops.ipu_event_trace())
    (end,) = [event.compile_end for event in events if event.HasField("compile_end")]
    entries = [e for found in json.loads(end.tensor_map)["mappings"].values() for e in found]
    assert entries and not any(entry[-1] for entry in entries)


def test_schedules_are_written_as_graphs(run: Run, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_hlo_as_dot --xla_dump_to={tmp_path}/dump")
    executable = run("--dump_schedule_as_dot")
    text = (tmp_path / "dump" / f"{executable.name}.schedule.dot").read_text()
    assert text.startswith("digraph schedule {") and text.rstrip().endswith("}")
    nodes = re.findall(r'^ +(n\d+_\d+) \[label="(.*)"\];$', text, re.MULTILINE)
    assert len(nodes) == len(executable.plan.memory[0].live_ops)
    chain = re.search(r"^ +(n0_0 ->.*);$", text, re.MULTILINE)
    assert chain and chain[1].split(" -> ") == [name for name, _ in nodes]


def test_schedules_of_several_ipus_are_clusters() -> None:
    text = automatic.schedule_dot(plans.pipeline_plan())
    assert text.count("subgraph cluster_") == 2 and text.count("{") == text.count("}")


def test_unwritable_files_do_not_stop_program(run: Run, tmp_path, monkeypatch) -> None:
    found: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: found.append(text % args))
    (tmp_path / "file").write_text("")
    run(f"--save_interval_report={tmp_path}/file --tensor_map_file_path={tmp_path}/file")
    assert len(found) == 2
    assert "--save_interval_report" in found[0] and "--tensor_map_file_path" in found[1]


def test_cycles_are_logged_after_each_execution(run_python) -> None:
    code = """
from tensorflow_ipu.compiler import cache
from tests.support.reports import profiled
profiled.configure()
profiled.run(launches=3)
(executable,) = [e for e in cache.executables() if e.on_device]
print("expected", executable.name, round(executable.plan.timeline.cycles))
"""
    environment = {"TF_POPLAR_FLAGS": "--log_cycle_count=5", "TF_CPP_MIN_LOG_LEVEL": "0"}
    process = run_python(code, cwd=ROOT, env=environment)
    _, name, cycles = process.stdout.split()[-3:]
    lines = [line for line in process.stderr.splitlines() if "cycles on tile" in line]
    assert len(lines) == 3
    assert all(f"] {name}: {cycles} cycles on tile 5 (" in line for line in lines)
    # The letter is after the time, or before it since TensorFlow logs as Abseil does.
    assert all(" I " in line or re.match(r"I\d", line) for line in lines)


def test_a_tile_that_is_not_there(run: Run, monkeypatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: warnings.append(text % args))
    run("--log_cycle_count=1472")
    assert [text for text in warnings if "runs on the tiles 0 to 1471" in text]
