"""Spans of the timeline under the layers they are in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tensorflow_ipu.planner.planning import plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.profiler.report import Report
from tests.profiler.views.test_trees import nested
from tests.support.planner.workloads import pipeline, workloads

FAST = settings(max_examples=10, derandomize=True, deadline=None)


@given(workload=workloads())
@FAST
def test_spans_are_the_segments_of_the_timeline(workload):
    report = Report.from_plan(plan(workload, Settings()))
    for found in report.view.spans():
        segments = [s for s in report.plan.timeline.segments if s.ipu == found.ipu]
        assert sum(s.length for s in found.spans) == pytest.approx(sum(s.cycles for s in segments))
        assert not found.merged
        end = 0.0
        for span in found.spans:
            assert span.start == pytest.approx(end, abs=1e-6)
            end = span.start + span.length
            if span.kind == "op":
                row = report.operations()[span.row]
                assert span.name == row.name
                assert span.length == pytest.approx(row.cycles)
                parts = span.sync, span.exchange, span.compute
                assert parts == pytest.approx((row.sync, row.exchange, row.compute))


@pytest.mark.parametrize("most", [1, 3, 10, 10_000])
def test_neighbors_are_merged_until_there_are_few(most):
    report = Report.from_plan(plan(nested(), Settings()))
    (found,) = report.view.spans(most)
    (whole,) = report.view.spans()
    assert len(found.spans) <= most
    assert len(found.spans) + found.merged == len(whole.spans)
    assert sum(s.length for s in found.spans) == pytest.approx(report.plan.timeline.cycles)
    names = {s.name for s in found.spans if not s.kind}
    assert all(name.endswith(" operations") for name in names)


def test_layers_are_around_their_operations():
    report = Report.from_plan(plan(nested(), Settings()))
    (found,) = report.view.spans()
    tree = report.layer_tree()
    for layer in found.layers:
        node = tree[layer.layer]
        assert layer.depth == node.depth
        inside = [
            s for s in found.spans
            if layer.start <= s.start + s.length / 2 < layer.start + layer.length
        ]  # fmt: skip
        assert inside and all(
            tree[s.layer].path.startswith(node.path) for s in inside if s.layer is not None
        )
        if node.parent:
            assert any(
                outer.layer == node.parent
                and outer.start <= layer.start
                and layer.start + layer.length <= outer.start + outer.length + 1e-6
                for outer in found.layers
            )


def test_pipeline_stages_are_spans_with_mini_batch():
    report = Report.from_plan(plan(pipeline(2, count=4), Settings()))
    first, second = report.view.spans()
    for found in (first, second):
        batches = {s.mini_batch for s in found.spans if s.phase == "backward"}
        assert batches == {0, 1, 2, 3}
        assert found.spans[-1].start + found.spans[-1].length <= report.plan.timeline.cycles * 1.001
