"""Tests of errors of a native library that is missing or damaged."""

from __future__ import annotations

import sysconfig

import pytest

from tensorflow_ipu.runtime import native_library
from tensorflow_ipu.versions import built_for

# Without what it remembers.
LOAD = native_library.load.__wrapped__


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """The folder of plugins of a made-up environment."""
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setattr(built_for.site, "ENABLE_USER_SITE", False)
    folder = tmp_path / "tensorflow-plugins"
    folder.mkdir()
    return folder


def test_a_missing_library_is_an_error_with_its_folder(plugins):
    with pytest.raises(ImportError, match=f"is not in {plugins}.*tensorflow-ipu doctor"):
        LOAD()


def test_a_damaged_library_names_the_doctor(plugins):
    (plugins / built_for.LIBRARY).write_bytes(b"no library")
    with pytest.raises(ImportError, match=r"does not load into TensorFlow .*tensorflow-ipu doctor"):
        LOAD()
