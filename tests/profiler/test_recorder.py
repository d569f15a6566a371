"""Tests of the host's activity, from events made by hand and from real programs."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

import numpy as np
import pytest
import tensorflow as tf
from absl import logging
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tensorflow_ipu import profiler
from tensorflow_ipu.configs.proto.trace_pb2 import IpuTraceEvent as Trace
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.profiler.recorder import Recorder
from tensorflow_ipu.runtime import events, system
from tensorflow_ipu.runtime.native import EngineEvent
from tests.support.reports import profiled, xplanes
from tests.support.reports.trace_rules import check


@dataclass
class Engine:
    """An engine whose events the test writes."""

    pending: list[EngineEvent] = field(default_factory=list)
    enabled: bool = False

    def enable_events(self, enabled: bool) -> None:
        self.enabled = enabled

    def drain_events(self) -> list[EngineEvent]:
        drained, self.pending = self.pending, []
        return drained


def no_launches(program: str) -> tuple[int, float]:
    """Returns the engine's launches and seconds of an unknown program: none."""
    del program
    return 0, 0.0


def recorder_of(engine: Engine, **rest) -> Recorder:
    return Recorder(events.EventStore(engine), **{"statistics": no_launches, **rest})


def recorded(*happened: tuple[int, float, str], ordinal: int = 0, **rest):
    """Records events, each a type, seconds from now and a program."""
    engine = Engine()
    recorder = recorder_of(engine, **rest)
    now = time.time()
    engine.pending = [
        EngineEvent(kind, ordinal, now + at, False, program) for kind, at, program in happened
    ]
    recorder.take_over()
    activity = recorder.stop()
    assert not engine.enabled
    return activity


def test_a_launch_ends_when_its_results_come() -> None:
    activity = recorded((Trace.EXECUTE, 1, "a.1"), (Trace.DEVICE_TO_HOST_TRANSFER, 3, "a.1"))
    (launch,) = activity.of("launch")
    assert launch.name == "a" and launch.end - launch.begin == pytest.approx(2)


@pytest.mark.parametrize(
    "after",
    [
        (),
        ((Trace.EXECUTE, 2, "a.1"),),
        ((Trace.DEVICE_TO_HOST_TRANSFER, 3, "b.2"),),
        ((Trace.LOAD_ENGINE, 3, "b.2"),),
    ],
)
def test_a_launch_without_results_has_no_end(after) -> None:
    first = recorded((Trace.EXECUTE, 1, "a.1"), *after).of("launch")[0]
    assert first.end is None


def test_launches_without_results_last_their_mean() -> None:
    known = {"a.1": (4, 2.0)}.__getitem__
    events_of = ((Trace.EXECUTE, 1, "a.1"), (Trace.EXECUTE, 1.25, "a.1"), (Trace.EXECUTE, 3, "a.1"))
    launches = recorded(*events_of, statistics=known).of("launch")
    lengths = [launch.end - launch.begin for launch in launches]
    assert lengths == pytest.approx([0.25, 0.5, 0.5])  # not into the next one
    assert all(launch.is_mean for launch in launches)


def test_devices_have_launches_of_their_own() -> None:
    engine = Engine()
    recorder = recorder_of(engine)
    now = time.time()
    engine.pending = [
        EngineEvent(Trace.EXECUTE, 0, now + 1, False, "a.1"),
        EngineEvent(Trace.EXECUTE, 1, now + 2, False, "b.2"),
        EngineEvent(Trace.DEVICE_TO_HOST_TRANSFER, 0, now + 3, False, "a.1"),
        EngineEvent(Trace.DEVICE_TO_HOST_TRANSFER, 1, now + 5, False, "b.2"),
    ]
    launches = recorder.stop().of("launch")
    assert [round(span.end - span.begin) for span in launches] == [2, 3]


def test_variables_that_go_to_host_end_no_launch() -> None:
    engine = Engine()
    recorder = recorder_of(engine)
    engine.pending = [
        EngineEvent(Trace.EXECUTE, 0, time.time(), False, "a.1"),
        EngineEvent(Trace.DEVICE_TO_HOST_TRANSFER, 0, time.time(), True, "a.1"),
    ]
    assert recorder.stop().of("launch")[0].end is None


def test_recording_ends_when_there_is_too_much() -> None:
    activity = recorded(*((Trace.EXECUTE, i, "a.1") for i in range(5)), most=3)
    assert activity.full and len(activity.spans) == 3
    assert "full=True" in repr(activity)


def test_compilation_before_recording_has_whole_time() -> None:
    store = events.EventStore(Engine())
    began = time.time() - 5
    recorder = Recorder(store)
    store.compiled("net", 2, began, began + 5.5)
    activity = recorder.stop()
    (span,) = activity.of("compile")
    assert activity.began == began and span.begin == 0
    assert span.end == pytest.approx(5.5) and span.ordinal == 2


def host_process(path) -> tuple[list[dict], dict]:
    """Returns the events of the host in a trace, and its entry in the other data."""
    data = json.loads(path.read_text())
    (process,) = [
        event["pid"]
        for event in data["traceEvents"]
        if event["name"] == "process_name" and event["args"]["name"] == "Host, measured"
    ]
    events_of = [e for e in data["traceEvents"] if e["pid"] == process and e["ph"] != "M"]
    return events_of, data["otherData"]["host"]


def test_a_profile_shows_compilations_and_launches(tmp_path) -> None:
    profiled.configure()
    with profiler.profile(tmp_path / "reports", tmp_path / "board") as found:
        profiled.run(launches=3)
    (report,) = found.reports
    (directory,) = found.directories
    shown, about = host_process(directory / "trace.json")
    compiled = [e for e in shown if e["cat"] == "compile"]
    launches = [e for e in shown if e["cat"] == "launch"]
    assert [e["name"] for e in compiled] == [report.name]
    assert len(launches) == report.executions.launches == 3
    assert all(e["ph"] == "X" and e["args"]["label"] == "measured" for e in launches)
    assert 0 < sum(e["dur"] for e in launches) / 1e6 <= about["seconds"]
    assert compiled[0]["ts"] + compiled[0]["dur"] <= launches[0]["ts"]
    assert "wall time" in about["clock"] and any("feeds" in t for t in about["not recorded"])
    assert not events.STORE.observed


ELEMENTS = 8


def fit() -> None:
    """Trains a small model on a dataset, with a thread that reads ahead."""
    with ipu_strategy.IPUStrategy().scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
        model.compile("sgd", "mse", steps_per_execution=4)
        data = tf.data.Dataset.from_tensors((np.ones((4, 3), np.float32), np.ones((4, 2))))
        model.fit(data.repeat(ELEMENTS), epochs=1, verbose=0)


def test_threads_show_what_infeeds_read(tmp_path) -> None:
    profiled.configure()
    with profiler.profile(tmp_path / "reports", tmp_path / "board", host_threads=True) as found:
        fit()
    (directory,) = found.directories
    shown, about = host_process(directory / "trace.json")
    reads = [e for e in shown if e["cat"] == "thread" and e["name"] == "IpuFeed::Root"]
    assert len(reads) >= ELEMENTS
    assert len({event["tid"] for event in reads}) == 1
    launches = [e for e in shown if e["cat"] == "launch"]
    assert reads[0]["ts"] < launches[-1]["ts"] + launches[-1]["dur"]  # one clock
    assert {event["args"]["length"] for event in launches} == {
        "mean of all launches of the program"
    }
    assert not any("feeds" in text for text in about["not recorded"])
    check((directory / "trace.json").read_text())
    (path,) = (tmp_path / "board").rglob("*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    lines = [line.name for plane in space.planes for line in plane.lines]
    assert "thread ipu_infeed (measured)" in lines


def test_threads_are_left_out_while_another_profiler_runs(tmp_path, monkeypatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: said.append(text % args))
    profiled.configure()
    tf.profiler.experimental.start(str(tmp_path / "own"))
    try:
        with profiler.profile(tmp_path / "reports", host_threads=True):
            profiled.run()
    finally:
        tf.profiler.experimental.stop(save=False)
    assert any("not traced" in text for text in said)
    shown, _ = host_process(next((tmp_path / "reports").rglob("trace.json")))
    assert {e["cat"] for e in shown} >= {"launch"} and "thread" not in {e["cat"] for e in shown}


def test_tensorboard_has_the_host_in_a_plane(tmp_path) -> None:
    profiled.configure()
    with profiler.profile(tensorboard=tmp_path):
        profiled.run(launches=2)
    (path,) = tmp_path.rglob("*.xplane.pb")
    trace = xplanes.trace(path)
    (host,) = [n for n, device in trace.devices.items() if device.name.endswith("/host:CPU")]
    shown = [event.name for event in trace.trace_events if event.device_id == host]
    assert sum(name.startswith("launch: ") for name in shown) == 2
    assert sum(name.startswith("compile: ") for name in shown) == 1


def test_reports_by_options_show_host_at_end(tmp_path) -> None:
    options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    profiled.configure(compilation_poplar_options=options)
    profiled.run(launches=2)
    (directory,) = tmp_path.iterdir()
    assert json.loads((directory / "trace.json").read_text())["otherData"]["host"] is None
    system.reset_ipu_configuration()
    shown, _ = host_process(directory / "trace.json")
    kinds = [e["cat"] for e in shown]
    assert kinds.count("launch") == 2 and kinds.count("compile") == 1
    assert not events.STORE.observed


def test_trace_events_are_equal_without_profile(tmp_path) -> None:
    profiled.configure(enable_ipu_events=True)
    with profiler.profile(tmp_path):
        profiled.run(launches=2)
    kinds = [event.type for event in events.extract_all_events(events.STORE.drain())]
    assert kinds.count(Trace.EXECUTE) == 2 and kinds.count(Trace.COMPILE_END) == 1


def test_nothing_is_recorded_where_nothing_is_written() -> None:
    profiled.configure()
    with profiler.profile():
        assert not events.STORE.observed
        profiled.run()
