"""Tests the contents of the API reference: every public module, and each of its names once."""

from __future__ import annotations

import collections
import importlib

import pytest
from sphinx_ext import public_names

from tensorflow_ipu.import_hook import tables

IPU = "tensorflow.python.ipu"


def test_every_table_module_has_one_described_name():
    described = [
        name for module in public_names.modules().values() for name in (module.name, *module.others)
    ]
    tables = {
        f"{root}.{name}".rstrip(".")
        for root, table in public_names.TABLES.items()
        for name in table
    }
    assert sorted(described) == sorted(tables)


def test_the_tables_are_all_that_the_finder_has():
    names = {name for name in vars(tables) if name == "MODULES" or name.endswith("_MODULES")}
    assert len(names) == len(public_names.TABLES)


def test_each_thing_is_described_in_one_module():
    """Which may have two names for it, of which one is the old one."""
    homes = collections.defaultdict(set)
    for module in public_names.modules().values():
        for name in module.names:
            if callable(module[name]):
                homes[id(module[name])].add(module.name)
    assert {frozenset(names) for names in homes.values() if len(names) > 1} == set()


@pytest.mark.parametrize("module", public_names.modules().values(), ids=lambda m: m.name)
def test_names_are_what_programs_can_import(module):
    for alias in (module.name, *module.others):
        assert importlib.import_module(alias) is module.code
    names = [*module.names, *module.elsewhere]
    assert len(names) == len(set(names))
    assert all(hasattr(module.code, name) and name[0] != "_" for name in names)
    assert not {"annotations", "Any", "tf", "np"} & set(names)


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("popxl.tensor.Tensor", "popxl.Tensor"),
        ("popart_core.DataFlow", "popart.DataFlow"),
        (f"{IPU}.function", f"{IPU}.functional_ops.outlined_function"),
        (f"{IPU}.ipu_strategy.IPUStrategy", f"{IPU}.ipu_strategy.IPUStrategyV1"),
        (f"{IPU}.distributed.host_collective_ops.allreduce", f"{IPU}.distributed.allreduce"),
    ],
)
def test_what_several_modules_have_is_described_in_one(name, home):
    module, _, last = name.rpartition(".")
    assert public_names.modules()[module].elsewhere[last] == home
    module, _, last = home.rpartition(".")
    assert last in public_names.modules()[module].names


def test_members_are_those_that_the_package_defines():
    strategy = public_names.modules()[f"{IPU}.ipu_strategy"]["IPUStrategyV1"]
    assert "run" in public_names.members(strategy)
    assert "reduce" not in public_names.members(strategy), "one of tf.distribute.Strategy"


def test_what_public_class_has_inherits_is_described_there():
    popxl = public_names.modules()["popxl"]
    assert "shape" in public_names.members(popxl["Tensor"])
    assert "shape" not in public_names.members(popxl["Variable"])
