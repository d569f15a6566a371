"""Tests of which layers are parts of another."""

from __future__ import annotations

import pytest

from tensorflow_ipu.planner.program.layer_parts import wholes
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.tuning.stages import stage_split
from tests.support import real_programs

_ATTENTION = {f"att/{part}": True for part in ("query", "key", "value", "output")}


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        # Attention computes between its projections.
        ({"in": True, **_ATTENTION, "att": False, "out": True}, dict.fromkeys(_ATTENTION, "att")),
        # A scope without ops of its own is no layer.
        ({"in": True, **_ATTENTION, "out": True}, {}),
        # What has all layers is the model.
        ({"net/a": True, "net/b": True, "net": False}, {}),
        # What has most of many is the trunk of it.
        ({**{f"net/{i}": True for i in range(9)}, "net": False, "out": True}, {}),
        # The outermost layer counts, names that only begin alike do not.
        (
            {"a": True, "a/b": False, "a/b/c": True, "ab": True, "d": True},
            {"a/b": "a", "a/b/c": "a"},
        ),
        ({}, {}),
    ],
)
def test_parts_belong_to_the_layer_around_them(layers, expected):
    assert wholes(layers) == expected


def test_attention_is_in_one_stage():
    """Keras sets the stage of a layer by its call, so none can begin inside of attention."""
    found = stage_split.split(real_programs.workload("attention", 4), Settings(), 3)
    names = [name for stage in found.stages for name in stage.layers]
    assert "multi_head_attention" in names
    assert not any("/" in name for name in names)
