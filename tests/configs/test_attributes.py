"""The attribute tree: types, unknown names, categories, metadata, copies, dictionaries."""

from __future__ import annotations

import copy
import enum
import json
import pickle
from typing import Dict, List, Tuple, Union

import pytest

from tensorflow_ipu.configs.attributes import (
    AttributeMetadata,
    Category,
    Group,
    Option,
    has_type,
    options,
    type_text,
)
from tensorflow_ipu.configs.enums import Effect
from tensorflow_ipu.configs.ipu_config import IPUConfig


class Colour(enum.Enum):
    RED = 0
    BLUE = 7


TREE = Group(
    "",
    "Everything.",
    (
        Option("count", Union[int, List[int], Tuple[int, ...]], [], Effect.EFFECT, "How many."),
        Option("old", bool, False, Effect.NO_OP, "Old.", "use paint.coat."),
        Group(
            "paint",
            "About paint.",
            (
                Option("colour", Colour, Colour.RED, Effect.EFFECT, "Which colour."),
                Option("either", Union[bool, Colour], False, Effect.EFFECT, "A bool or a colour."),
                Option("coat", float, 0.5, Effect.MODEL, "How thick."),
                Group("can", "About cans.", (Option("labels", dict, {}, Effect.EFFECT, "Texts."),)),
            ),
        ),
        Group("_hidden", "Private.", (Option("level", int, 3, Effect.EFFECT, "Level."),)),
    ),
)


@pytest.fixture
def config():
    return Category(TREE, TREE)


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (bool, "bool"),
        (Colour, "Colour"),
        (
            Union[int, List[int], Tuple[int, ...]],
            "typing.Union[int, typing.List[int], typing.Tuple[int, ...]]",
        ),
        (Union[bool, Colour], "typing.Union[bool, Colour]"),
        (Dict[str, int], "typing.Dict[str, int]"),
    ],
)
def test_types_are_shown_as_text(hint, text):
    assert type_text(hint) == text


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, int, True),
        (True, int, False),
        (1, bool, False),
        (1, float, False),
        ([1, 2], List[int], True),
        ([1, True], List[int], False),
        ((), Tuple[int, ...], True),
        ((1, "2"), Tuple[int, ...], False),
        ([1], Tuple[int, ...], False),
        (0, Colour, False),
        ("RED", Colour, False),
        (Colour.RED, Colour, True),
        (Colour.RED, Union[bool, Colour], True),
        (None, Union[bool, Colour], False),
    ],
)
def test_has_type_is_exact(value, hint, expected):
    assert has_type(value, hint) is expected


def test_values_can_be_set_and_read(config):
    config.paint.can.labels = {"a": "b"}
    config.count = (1, 2)
    assert config.paint.can.labels == {"a": "b"}
    assert config.count == (1, 2)


@pytest.mark.parametrize(
    ("path", "value"),
    [("count", True), ("count", [1.0]), ("paint.colour", 7), ("paint.coat", 1), ("old", 0)],
)
def test_a_value_of_the_wrong_type_is_refused(config, path, value):
    *parents, leaf = path.split(".")
    node = config
    for parent in parents:
        node = getattr(node, parent)
    before = getattr(node, leaf)
    with pytest.raises(TypeError, match="but it must be of type") as info:
        setattr(node, leaf, value)
    assert path in str(info.value) and repr(value) in str(info.value)
    assert "typing." not in str(info.value)
    assert getattr(node, leaf) == before


def test_wrong_type_of_an_enumeration_lists_the_members(config):
    with pytest.raises(TypeError, match=r"Choose one of Colour\.RED, Colour\.BLUE"):
        config.paint.colour = "RED"


@pytest.mark.parametrize("access", [lambda c: c.coat, lambda c: setattr(c, "coat", 0.1)])
def test_unknown_attribute_names_the_one_elsewhere(config, access):
    with pytest.raises(ValueError, match="is not a valid attribute of this config") as info:
        access(config)
    assert "Did you mean 'paint.coat'?" in str(info.value)


def test_unknown_attribute_in_category_has_its_full_name(config):
    with pytest.raises(ValueError, match=r"'paint\.colur' is not .* 'paint\.colour'\?"):
        _ = config.paint.colur


def test_unlike_anything_has_no_suggestion(config):
    with pytest.raises(ValueError) as info:
        _ = config.zzzzzz
    assert "Did you mean" not in str(info.value)


def test_hasattr_answers_without_an_exception(config):
    assert hasattr(config, "paint") and not hasattr(config, "pint")


@pytest.mark.parametrize("name", ["paint", "_hidden"])
def test_category_cannot_be_assigned(config, name):
    with pytest.raises(Exception, match="is a category and cannot be assigned to"):
        setattr(config, name, 1)


def test_deprecated_attribute_warns_and_works(config, caplog):
    config.old = True
    assert config.old is True
    assert "old has been deprecated: use paint.coat." in caplog.text


def test_reading_a_deprecated_attribute_is_silent(config, caplog):
    assert config.old is False
    assert caplog.text == ""


def test_metadata_of_an_option_has_type_and_default(config):
    metadata = config.get_attribute_metadata("paint.colour")
    assert isinstance(metadata, AttributeMetadata)
    assert (metadata.name, metadata.type, metadata.default) == (
        "paint.colour",
        "Colour",
        Colour.RED,
    )
    assert (metadata.deprecated, metadata.deprecated_msg) == (False, None)
    assert metadata.__doc__ == "Which colour."
    assert metadata.effect is Effect.EFFECT
    assert metadata.check_type(Colour.BLUE) is True
    with pytest.raises(TypeError, match="but it must be of type Colour"):
        metadata.check_type(7)


def test_metadata_of_a_category_has_no_value(config, caplog):
    metadata = config.get_attribute_metadata("paint.can")
    assert (metadata.name, metadata.type, metadata.default, metadata.effect) == (
        "paint.can",
        None,
        None,
        None,
    )
    metadata.warn_if_deprecated()
    assert caplog.text == ""
    with pytest.raises(TypeError, match="category"):
        metadata.check_type(1)


def test_metadata_is_relative_to_its_category(config):
    assert config.paint.get_attribute_metadata("can.labels").name == "paint.can.labels"


def test_metadata_default_is_a_copy(config):
    config.get_attribute_metadata("paint.can.labels").default["x"] = "y"
    assert config.paint.can.labels == {} == Category(TREE, TREE).paint.can.labels


@pytest.mark.parametrize("name", ["colour", "paint.nothing", "", "paint."])
def test_an_unknown_name_has_no_metadata(config, name):
    with pytest.raises(ValueError, match="Could not get attribute metadata for"):
        config.get_attribute_metadata(name)


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))]
)
def test_copies_share_nothing(config, duplicate):
    config.paint.can.labels["a"] = "b"
    other = duplicate(config)
    assert other.to_dict() == config.to_dict()
    other.paint.can.labels["a"] = "c"
    other.paint.coat = 0.75
    assert config.paint.can.labels == {"a": "b"} and config.paint.coat == 0.5


def test_new_configs_share_nothing(config):
    config.paint.can.labels["a"] = "b"
    config.count.append(4)
    other = Category(TREE, TREE)
    assert other.paint.can.labels == {} and other.count == []


def test_a_dict_makes_a_round_trip(config):
    config.paint.colour = Colour.BLUE
    config.paint.either = Colour.BLUE
    config.count = (1, 2)
    values = config.to_dict()
    assert values["paint"]["colour"] == 7 and values["paint"]["either"] == 7
    other = Category(TREE, TREE)
    other.from_dict(values)
    assert dict(other.items()) == dict(config.items())


def test_json_makes_a_round_trip(config):
    config.paint.either = True
    other = Category(TREE, TREE)
    other.from_json(config.to_json())
    assert other.paint.either is True
    assert json.loads(config.to_json()) == config.to_dict()


def test_to_dict_does_not_share_state(config):
    config.to_dict()["paint"]["can"]["labels"]["a"] = "b"
    assert config.paint.can.labels == {}


def test_from_dict_keeps_values_of_missing_names(config, caplog):
    config.paint.coat = 0.25
    config.from_dict(
        {"count": 3, "old": False, "paint": {"colour": 7, "either": False, "can": {"labels": {}}}}
    )
    assert (config.count, config.paint.coat, config.paint.colour) == (3, 0.25, Colour.BLUE)
    assert [record.message for record in caplog.records] == [
        "Missing from the given configuration, so these keep their values: paint.coat."
    ]


def test_all_missing_names_are_in_one_warning(caplog):
    IPUConfig().from_dict({"auto_select_ipus": 2})
    (record,) = caplog.records
    assert "select_ipus, allow_recompute" in record.message
    assert "optimizations, " in record.message


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"paint": {"colour": 3}}, ValueError),
        ({"paint": {"colour": True}}, TypeError),
        ({"paint": {"coat": "thick"}}, TypeError),
        ({"paint": 3}, TypeError),
        ({"pain": {}}, ValueError),
        ([1], TypeError),
    ],
)
def test_from_dict_changes_nothing_on_an_error(config, values, error):
    if isinstance(values, dict):
        values = {"count": 9, **values}
    with pytest.raises(error):
        config.from_dict(values)
    assert config.count == []


def test_from_json_of_text_that_is_not_json(config):
    with pytest.raises(ValueError):
        config.from_json("{count: 1}")


def test_str_has_one_line_per_attribute(config):
    lines = str(config).splitlines()
    assert lines[0] == "count = []"
    assert "paint.coat = 0.5" in lines
    assert len(lines) == len(options(TREE)) == 7


def test_dir_lists_the_attributes(config):
    assert set(dir(config.paint)) == {"colour", "either", "coat", "can"}
