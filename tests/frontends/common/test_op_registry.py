"""The registry of ops: versions, duplicates, removal."""

from __future__ import annotations

import pytest

from tensorflow_ipu.frontends.common.op_registry import OpRegistry


@pytest.fixture
def registry():
    made = OpRegistry()
    made.add("Clip", "by attributes", 6)
    made.add("Clip", "by inputs", 11)
    made.add("Relu", "of floats")
    return made


@pytest.mark.parametrize(
    ("key", "version", "record"),
    [
        ("Clip", 5, None),
        ("Clip", 6, "by attributes"),
        ("Clip", 10, "by attributes"),
        ("Clip", 23, "by inputs"),
        ("Relu", 1, "of floats"),
        ("Abs", 6, None),
    ],
)
def test_newest_record_up_to_version_is_found(registry, key, version, record):
    assert registry.find(key, version) == record


def test_second_record_of_version_is_refused(registry):
    with pytest.raises(ValueError, match="There is an op Clip of version 11 already"):
        registry.add("Clip", "again", 11)


def test_removed_op_can_be_registered_anew(registry):
    registry.remove("Clip")
    registry.remove("Clip")
    registry.add("Clip", "again", 11)
    assert dict(registry.versions("Clip")) == {11: "again"}
    assert list(registry) == ["of floats", "again"]
    assert len(registry) == 2
