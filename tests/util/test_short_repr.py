"""One line shows an object, however much is in it."""

from __future__ import annotations

import enum

import numpy as np
import pytest

from tensorflow_ipu.configs.attributes import AttributeMetadata
from tensorflow_ipu.configs.ipu_config import OPTIONS, IPUConfig
from tensorflow_ipu.util.short_repr import LENGTH, Shown, short_repr, shows


class Colour(enum.Enum):
    RED = 1


def function():
    pass


@pytest.mark.parametrize(
    "attributes, line",
    [
        ({}, "Name()"),
        ({"": "text", "number": 3, "missing": None}, "Name('text', number=3)"),
        ({"": Shown("float32[2]"), "of": Colour.RED}, "Name(float32[2], of=Colour.RED)"),
        ({"functions": [function, np.mean, int]}, "Name(functions=[function, mean, int])"),
        ({"many": list(range(99))}, "Name(many=[0, 1, 2, 3, 4, 5, ...])"),
        ({"array": np.zeros([2, 2])}, "Name(array=array([[0., 0.], [0., 0.]]))"),
    ],
)
def test_attributes_are_on_one_line(attributes, line):
    assert short_repr("Name", attributes) == line


def test_long_values_and_many_attributes_are_left_out():
    line = short_repr("Name", {"text": "x" * 1000, **{f"attribute_{i}": i for i in range(40)}})
    assert "xxx...xxx" in line
    assert len(line) <= LENGTH
    shown = line.count("=")
    assert line.endswith(f", ... {41 - shown} more)")


def test_object_not_made_yet_shows_its_class():
    class Thing:
        __repr__ = shows(lambda self: {"name": self.name})

    thing = Thing()
    assert repr(thing) == "Thing()"
    thing.name = "t"
    assert repr(thing) == "Thing(name='t')"


def test_configuration_shows_what_differs_from_the_defaults():
    config = IPUConfig()
    assert repr(config) == "IPUConfig()"
    config.auto_select_ipus = 2
    config.optimizations.math.fast = True
    assert repr(config) == "IPUConfig(auto_select_ipus=2, optimizations.math.fast=True)"
    assert repr(config.optimizations) == "optimizations(math.fast=True)"
    assert repr(config.optimizations.math) == "optimizations.math(fast=True)"
    assert repr(config.norms) == "norms()"


def test_default_value_of_other_type_is_shown():
    config = IPUConfig()
    config.auto_select_ipus = ()
    assert repr(config) == "IPUConfig(auto_select_ipus=())"


def test_configuration_with_everything_changed_is_short():
    config = IPUConfig()
    for name, option in OPTIONS.items():
        *path, leaf = name.split(".")
        node = config
        for part in path:
            node = getattr(node, part)
        changed = {bool: lambda v: not v, int: lambda v: v + 1, str: lambda v: v + "x"}
        if option.type in changed:
            setattr(node, leaf, changed[option.type](option.default))
    assert len(repr(config)) <= LENGTH
    assert repr(config).endswith(" more)")


def test_metadata_of_an_option_is_on_one_line():
    metadata = IPUConfig().get_attribute_metadata("optimizations.math.fast")
    assert isinstance(metadata, AttributeMetadata)
    assert repr(metadata) == (
        "AttributeMetadata('optimizations.math.fast', type=bool, default=False)"
    )
