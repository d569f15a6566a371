"""Workloads and Settings as JSON: exact round trips, small, and nothing else accepted."""

from __future__ import annotations

import copy
import dataclasses
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs import chips
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner import serialize
from tensorflow_ipu.planner.schedule.description import (
    PipelineDescription,
    PipelineSchedule,
    RecomputationMode,
)
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Buffer, Copy, Op, Operand, Variable, Workload

_texts = st.text(max_size=6)
_counts = st.integers(0, 10**12)
_maybe = st.none() | st.integers(0, 9)
_shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)
_dtypes = st.sampled_from(["float32", "float16", "int32", "variant"])
_labels = st.sampled_from(Label)
_scalars = st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | _texts
_attributes = st.dictionaries(_texts, _scalars | st.lists(_scalars, max_size=3), max_size=3)
_BUFFERS = 3

_buffers = st.builds(
    Buffer, _texts, _dtypes, _shapes, _texts, _maybe, st.none(), _counts, _maybe, _labels
)
_variables = st.builds(
    Variable, _texts, _dtypes, _shapes, _texts, st.integers(0, 9), st.booleans(), st.integers(1, 8)
)
_copies = st.builds(Copy, _texts, _counts, _counts, _counts, _counts, _maybe, _texts, _labels)
_operands = st.builds(Operand, _dtypes, _shapes, st.none() | st.integers(0, _BUFFERS - 1))
_ops = st.builds(
    Op,
    name=_texts,
    type=_texts,
    layer=_texts,
    ipu=_maybe,
    inputs=st.lists(_operands, max_size=3).map(tuple),
    outputs=st.lists(_operands, max_size=2).map(tuple),
    attributes=_attributes,
    end=st.just(3),
    runs=_counts,
    trip_count=_maybe,
    conditional=st.booleans(),
    stage=_maybe,
    phase=_texts,
    source=_texts,
    flops=st.none() | _counts,
    label=_labels,
)
_descriptions = st.builds(
    PipelineDescription,
    st.lists(st.integers(0, 3) | st.tuples(st.integers(0, 3)), min_size=1, max_size=3).map(tuple),
    st.integers(0, 9),
    st.booleans(),
    st.sampled_from(PipelineSchedule),
    recomputation=st.none() | st.sampled_from(RecomputationMode),
)
_workloads = st.builds(
    Workload,
    name=_texts,
    ops=st.lists(_ops, min_size=3, max_size=3).map(tuple),
    buffers=st.lists(_buffers, min_size=_BUFFERS, max_size=_BUFFERS).map(tuple),
    variables=st.lists(_variables, max_size=2).map(tuple),
    copies=st.lists(_copies, max_size=2).map(tuple),
    ipus=st.integers(1, 16),
    pipeline=st.none() | _descriptions,
    stage_names=st.lists(_texts, max_size=2).map(tuple),
    batch=_maybe,
    fingerprint=_texts,
)
_proportions = st.floats(0, 1)
_settings = st.builds(
    Settings,
    chip=st.sampled_from([*chips.CHIPS, chips.BOW.with_tiles(7)]),
    replicas=st.integers(1, 16),
    instances=st.integers(1, 4),
    io_tiles=st.integers(0, 192),
    recompute=st.booleans(),
    matmul_proportion=_proportions,
    stage_options=st.dictionaries(
        st.tuples(st.integers(0, 3), st.sampled_from(["forward", "backward"])),
        st.dictionaries(_texts, _texts, max_size=2),
        max_size=2,
    ),
    merged_bytes=st.dictionaries(_texts, _counts, max_size=2),
    stage_devices=st.none() | st.lists(st.integers(0, 3), max_size=3).map(tuple),
)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(_workloads)
def test_workloads_come_back_as_they_were(workload: Workload) -> None:
    text = json.dumps(serialize.workload_to_dict(workload))
    again = serialize.workload_from_dict(json.loads(text))
    assert again == workload
    # 1, 1.0 and True are equal, but not the same.
    assert repr(dataclasses.asdict(again)) == repr(dataclasses.asdict(workload))


@settings(derandomize=True, max_examples=60, deadline=None)
@given(_settings)
def test_settings_come_back_as_they_were(of_plan: Settings) -> None:
    text = json.dumps(serialize.settings_to_dict(of_plan))
    again = serialize.settings_from_dict(json.loads(text))
    assert again == of_plan
    assert again.chip.sources == of_plan.chip.sources


def _large(count: int) -> Workload:
    """A Workload as large as the training of ResNet-50, whose ops take turns."""
    shape = (16, 56, 56, 64)
    buffers = tuple(
        Buffer(f"layer_{i // 9}/op_{i}:0", "float16", shape, "tensor", 0) for i in range(count)
    )
    ops = tuple(
        Op(
            name=f"gradients/conv{i // 9}_block/layer_{i // 9}/Conv2D_grad/op_{i}",
            type="Conv2D",
            layer=f"conv{i // 9}_block/layer_{i // 9}",
            ipu=0,
            inputs=(
                Operand("float16", shape, max(i - 1, 0)),
                Operand("float16", (3, 3, 64, 64), 0),
            ),
            outputs=(Operand("float16", shape, i),),
            attributes={"strides": [1, 1 + i % 2, 1, 1], "padding": "SAME", "data_format": "NHWC"},
            end=i + 1,
            source="train.py:12 (step)",
            flops=10**9 + i,
        )
        for i in range(count)
    )
    return Workload("training", ops, buffers, (), (), 1)


def test_a_large_workload_is_small_and_read_fast() -> None:
    text = json.dumps(serialize.workload_to_dict(_large(9000)))
    assert len(text) <= 5e6
    seconds = []
    for _ in range(3):  # the best of them, as other processes share the machine
        began = time.process_time()
        serialize.workload_from_dict(json.loads(text))
        seconds.append(time.process_time() - began)
    assert min(seconds) <= 0.5


def _broken(**changes: Any) -> dict[str, Any]:
    data = copy.deepcopy(serialize.workload_to_dict(_large(2)))
    for path, value in changes.items():
        *outer, last = path.split("__")
        place: Any = data
        for part in outer:
            place = place[int(part) if part.isdigit() else part]
        place[int(last) if last.isdigit() else last] = value
    return data


@pytest.mark.parametrize(
    "data, message",
    [
        ([], "Expected the data of a Workload.*received 'list'"),
        ({}, "Expected the data of a Workload.*received None"),
        (serialize.settings_to_dict(Settings()), "received 'settings'"),
        (_broken(version=2), "Expected a Workload of version 1; received version 2"),
        (_broken(version="1"), "received version '1'"),
        ({"kind": "workload", "version": 1}, "received data without 'buffers'"),
        (_broken(ops__fields=["name"]), r"ops have the columns \['name'\]"),
        (_broken(ops__rows__1=[1, 2]), "op 1 is"),
        (_broken(ops__rows__1__7=1), "op 1 of 2 ends at 1"),
        (_broken(ops__rows__1__7=3), "op 1 of 2 ends at 3"),
        (_broken(ops__rows__1__0=-1), "position -1"),
        (_broken(ops__rows__1__0=99), "not of that form"),
        (_broken(ops__rows__1__4=[0, 7]), "buffer 7 of 2"),
        (_broken(ops__rows__1__15="certain"), "op 1 is"),
        (_broken(buffers__fields__0="nickname"), r"unknown columns \['nickname'\]"),
        (_broken(buffers__rows__1=[]), "0 values in row 1"),
        (_broken(buffers__rows__1__5=3), "buffer 1 is of variable 3"),
        (_broken(buffers__rows__1__8="certain"), "'certain' is not a valid Label"),
        (_broken(pipeline={"count": 3}), "Not the description of a pipeline"),
    ],
    ids=lambda value: None if not isinstance(value, str) else value[:20],
)
def test_other_workloads_are_refused(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        serialize.workload_from_dict(data)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"version": 0}, "Expected Settings of version 1; received version 0"),
        ({"kind": "workload"}, "Expected the data of Settings.*received 'workload'"),
        ({"colour": 1}, r"unknown fields \['colour'\]"),
        ({"chip": {"name": "mk9"}}, "Unknown IPU chip 'mk9'"),
        ({"chip": {}}, "received data without 'name'"),
        ({"chip": {"name": "mk2", "wheels": 4}}, r"unknown figures of a chip \['wheels'\]"),
        ({"stage_options": [[1]]}, "not of that form"),
    ],
    ids=lambda value: None,
)
def test_other_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        serialize.settings_from_dict({**serialize.settings_to_dict(Settings()), **changes})


def test_missing_settings_have_their_defaults() -> None:
    assert serialize.settings_from_dict({"kind": "settings", "version": 1}) == Settings()


def test_a_changed_chip_comes_back() -> None:
    chip = dataclasses.replace(chips.MK2, clock=1e9)
    data = serialize.settings_to_dict(Settings(chip=chip))
    assert data["chip"] == {"name": "mk2", "clock": 1e9}
    assert serialize.settings_from_dict(data).chip == chip
