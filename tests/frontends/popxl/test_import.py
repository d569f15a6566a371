"""The names under which PopXL is imported."""

from __future__ import annotations

import importlib
import sys

import popxl
import popxl.ops as same_ops
import pytest
from popxl import ops

from tensorflow_ipu import _api


def test_modules_are_the_same_under_all_names():
    assert same_ops is ops is popxl.ops is sys.modules["popxl.ops"]
    for name, module in _api.POPXL_MODULES.items():
        public = importlib.import_module(f"popxl.{name}".rstrip("."))
        assert public is importlib.import_module(f"tensorflow_ipu.{module}")


def test_there_are_no_other_modules():
    with pytest.raises(ModuleNotFoundError, match=r"popxl\.builder"):
        importlib.import_module("popxl.builder")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("popxl_addons")
