"""Log directories, read back with TensorBoard's own reader and TensorFlow's profile converter."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.profiler.export import tensorboard, text_report
from tensorflow_ipu.profiler.report import Report
from tests.support.planner import plans
from tests.support.reports import xplanes

PLANS = {
    "replicas": plans.plan(2),
    "pipeline": plans.pipeline_plan(),
    "oom": plans.plan(scale=1000),
}
each_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)


def _series(run: object) -> event_accumulator.EventAccumulator:
    sizes = {event_accumulator.TENSORS: 0}
    return event_accumulator.EventAccumulator(str(run), size_guidance=sizes).Reload()


def _values(events: event_accumulator.EventAccumulator, tag: str) -> list[tuple[int, float]]:
    return [(e.step, float(tf.make_ndarray(e.tensor_proto))) for e in events.Tensors(tag)]


@pytest.mark.parametrize("graph_mode", [False, True])
@each_plan
def test_scalars_and_texts_have_numbers_of_report(plan: Plan, graph_mode: bool, tmp_path) -> None:
    report = Report.from_plan(plan)
    if graph_mode:
        with tf.Graph().as_default():
            run = tensorboard.write(report, tmp_path, step=7)
    else:
        run = tensorboard.write(report, tmp_path, step=7)
    events = _series(run)
    assert _values(events, "launch/cycles") == [(7, plan.timeline.cycles)]
    for kind, cycles in plan.timeline.by_kind.items():
        assert _values(events, f"cycles/{kind}") == [(7, cycles)]
    for memory in plan.memory:
        tiles = _values(events, f"bytes_by_tile/ipu_{memory.ipu}")
        assert tiles == list(enumerate(memory.peak.tolist()))
        live = _values(events, f"live_bytes_by_op/ipu_{memory.ipu}")
        assert live == [(i, memory.always_live + b) for i, b in enumerate(memory.live_bytes)]
    (text,) = events.Tensors("report")
    shown = tf.make_ndarray(text.tensor_proto).item().decode()
    assert [line[4:] for line in shown.splitlines()] == text_report.text(report).splitlines()


@each_plan
def test_pictures_show_memory_per_tile(plan: Plan, tmp_path) -> None:
    events = _series(tensorboard.write(Report.from_plan(plan), tmp_path))
    for memory in plan.memory:
        (image,) = events.Tensors(f"memory_per_tile/ipu_{memory.ipu}")
        width, height, png = tf.make_ndarray(image.tensor_proto)
        pixels = tf.io.decode_png(png).numpy()
        assert pixels.shape == (int(height), int(width), 3)
        drawn = (pixels != 255).any(axis=2).sum(axis=0) / pixels.shape[0]
        top = max(memory.capacity, memory.worst_bytes)
        tile = len(memory.peak) - 1  # the last column shows the last tile
        expected = float(memory.peak[tile]) / top
        assert drawn[-1] == pytest.approx(expected, abs=0.02)


@each_plan
def test_trace_of_profile_has_cycles_of_plan(plan: Plan, tmp_path) -> None:
    run = tensorboard.write(Report.from_plan(plan), tmp_path)
    (path,) = run.glob("plugins/profile/*/*.xplane.pb")
    trace = xplanes.trace(path)
    for ipu in range(plan.workload.ipus):
        (number,) = [n for n, d in trace.devices.items() if d.name.endswith(f"IPU:{ipu}")]
        names = {
            r: trace.devices[number].resources[r].name for r in trace.devices[number].resources
        }
        (line,) = [r for r, name in names.items() if name == "slowest tile (modelled)"]
        own = [event for event in trace.trace_events if event.device_id == number]
        slices = [event for event in own if event.resource_id == line]
        wanted = [s for s in plan.timeline.segments if s.ipu == ipu and s.kind != "idle"]
        assert [event.name for event in slices] == [segment.name for segment in wanted]
        assert [event.args["kind"] for event in slices] == [segment.kind for segment in wanted]
        assert {event.args["label"] for event in slices} == {Label.MODELLED.value}
        scale = 1e12 / plan.timeline.clock
        for event, segment in zip(slices, wanted):
            assert event.timestamp_ps == pytest.approx(segment.start * scale, abs=1)
            assert event.duration_ps == pytest.approx(segment.cycles * scale, abs=1)
