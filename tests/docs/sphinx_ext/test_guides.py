"""Tests that the reference leads to pages that treat its modules."""

from __future__ import annotations

import re

import pytest
from sphinx_ext import guides, public_names

from tensorflow_ipu.import_hook import tables
from tests.support.checkout.repository import ROOT


@pytest.mark.parametrize("name", guides.GUIDES)
def test_pages_of_a_module_say_something_of_it(name):
    modules = public_names.modules().values()
    below = [module for module in modules if f"{module.name}.".startswith(f"{name}.")]
    words = {name.removeprefix("tensorflow.python."), name.rpartition(".")[2]}
    words |= {word for module in below for word in (*module.names, *module.elsewhere)}
    for page in guides.of(name):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        assert any(re.search(rf"\b{re.escape(word)}\b", text) for word in words), page


@pytest.mark.parametrize("root", sorted(set(public_names.TABLES) - {tables.POPLAR}))
def test_every_package_has_pages(root):
    assert guides.of(root)


def test_a_module_without_pages_has_none():
    assert guides.of(f"{tables.PUBLIC}.image_ops") == ()
    assert guides.of("popxl.ops.collectives") == guides.of("popxl")
