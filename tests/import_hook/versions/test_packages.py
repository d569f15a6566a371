"""Tests of the error where TensorBoard is not installed."""

from __future__ import annotations

import importlib.util

import pytest

from tensorflow_ipu import profiler
from tensorflow_ipu.import_hook.versions import packages


def test_tensorboard_is_found() -> None:
    packages.require_tensorboard()


def test_profile_without_the_package_says_what_to_install(monkeypatch, tmp_path) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "tensorboard" else find_spec(name, *more),
    )
    profiler.profile(tmp_path)
    with pytest.raises(ImportError, match="pip install tensorboard"):
        profiler.profile(tensorboard=tmp_path)
