"""Tests the measures of the package's structure."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

grimp = pytest.importorskip("grimp", reason="the measures need the packages of `make lint`")

# A script, not in a package; its tuples look up the module that defines them.
_SPEC = importlib.util.spec_from_file_location(
    "house", Path(__file__).resolve().parents[2] / "lint" / "house.py"
)
house = importlib.util.module_from_spec(_SPEC)
sys.modules["house"] = house
_SPEC.loader.exec_module(house)


def _graph(*imports: tuple[str, str]) -> object:
    """Returns a graph of modules from pairs of importer and imported module."""
    graph = grimp.ImportGraph()
    for importer, imported in imports:
        graph.add_import(importer=importer, imported=imported)
    return graph


def test_lone_module_has_one_importer_in_its_folder():
    graph = _graph(("a.b.c", "a.b.lone"), ("a.b.c", "a.d"), ("a.b", "a.b.c"), ("a.d", "a.b.c"))
    assert house.lone_modules(graph, set()) == ["a.b.lone <- a.b.c"]


def test_lone_modules_leave_out_public_modules():
    graph = _graph(("a.b", "a.b.public"), ("a.b", "a.b.lone"))
    assert house.lone_modules(graph, {"a.b.public"}) == ["a.b.lone <- a.b"]


def test_public_modules_include_those_of_every_front_end():
    expected = {
        "tensorflow_ipu.ops.rnn_ops",
        "tensorflow_ipu.frontends.popxl.ops.control_flow",
        "tensorflow_ipu.frontends.popxl_addons.rts",
        "tensorflow_ipu.frontends.popart.session",
    }
    assert expected <= house.public_modules()
