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
    roots = {"popxl": _api.POPXL_MODULES, "popxl_addons": _api.POPXL_ADDONS_MODULES}
    for root, table in roots.items():
        for name, module in table.items():
            public = importlib.import_module(f"{root}.{name}".rstrip("."))
            assert public is importlib.import_module(f"tensorflow_ipu.{module}")


def test_there_are_no_other_modules():
    with pytest.raises(ModuleNotFoundError, match=r"popxl\.builder"):
        importlib.import_module("popxl.builder")
    with pytest.raises(ModuleNotFoundError, match=r"popxl_addons\.builder"):
        importlib.import_module("popxl_addons.builder")


def test_functions_with_the_name_of_their_module_stay_functions():
    import popxl_addons as addons

    module = importlib.import_module("popxl_addons.seed_variable")
    assert module.seed_variable is addons.seed_variable
    for name in ("cross_entropy", "fp8_amax_scale"):
        module = importlib.import_module(f"popxl_addons.ops.{name}")
        assert getattr(module, name) is getattr(addons.ops, name)
