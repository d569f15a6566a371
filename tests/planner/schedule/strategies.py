"""Pipelines for property tests, legal or not: a table can be made for any of them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from tensorflow_ipu.planner.schedule import PipelineDescription, PipelineSchedule, RecomputationMode


@st.composite
def descriptions(
    draw: st.DrawFn,
    parallel: bool = True,
    schedules: Sequence[PipelineSchedule] = tuple(PipelineSchedule),
) -> PipelineDescription:
    """Pipelines of up to 7 stages, with shared IPUs and, if `parallel`, parallel stages."""
    stages = draw(st.integers(1, 7))
    ipu = st.integers(0, stages - 1)
    group = st.lists(ipu, min_size=1, max_size=3).map(tuple)
    own = st.just(tuple(range(stages)))
    device = st.one_of(ipu, group) if parallel else ipu
    mapping = draw(st.one_of(own, st.lists(device, min_size=stages, max_size=stages).map(tuple)))
    return PipelineDescription(
        mapping,
        draw(st.integers(1, 18)),
        training=draw(st.booleans()),
        schedule=draw(st.sampled_from(schedules)),
        batch_serialization_iterations=draw(st.sampled_from([1, 1, 1, 2, 3])),
        recomputation=draw(st.one_of(st.none(), st.sampled_from(RecomputationMode))),
    )
