"""IPUConfig to IpuOptions and back."""

from __future__ import annotations

import enum
import typing

import pytest

from tensorflow_ipu.configs import translate
from tensorflow_ipu.configs.enums import StochasticRoundingBehaviour
from tensorflow_ipu.configs.ipu_config import OPTIONS, IPUConfig
from tensorflow_ipu.configs.proto import ipu_options_pb2


def another_value(option):
    """A value of the option's type that is not its default."""
    hint = option.type
    if typing.get_origin(hint) is typing.Union:
        hint = typing.get_args(hint)[-1]
    if hint is bool:
        return not option.default
    if isinstance(hint, enum.EnumMeta):
        return [member for member in hint if member is not option.default][-1]
    return {int: 7, float: 0.25, str: "text", dict: {"b": "2", "a": "1"}}[hint]


def assign(config, name, value):
    *parents, leaf = name.split(".")
    for parent in parents:
        config = getattr(config, parent)
    setattr(config, leaf, value)


def leaf_of(options, name):
    path, _ = translate.FIELDS[name]
    for part in path.split("."):
        options = getattr(options, part)
    return options


@pytest.mark.parametrize("name", translate.FIELDS)
def test_every_option_survives_the_round_trip_alone(name):
    config = IPUConfig()
    value = another_value(OPTIONS[name])
    assign(config, name, value)
    options = translate.to_options(config)
    back = dict(translate.from_options(options).items())
    if name != "floating_point_behaviour.set_all":  # which by design turns on others
        expected = {k: ([] if v == () else v) for k, v in config.items()}
        assert back == expected
    assert back[name] == value


def test_every_field_is_used_once():
    paths = [path for path, _ in translate.FIELDS.values()]
    assert len(set(paths)) == len(paths)


def test_defaults_make_a_round_trip():
    assert str(translate.from_options(translate.to_options(IPUConfig()))) == str(IPUConfig())


@pytest.mark.parametrize(
    ("attribute", "field"), [("auto_select_ipus", "auto_count"), ("select_ipus", "cfg_index")]
)
@pytest.mark.parametrize(("value", "devices"), [(0, [0]), (2, [2]), ([1, 2], [1, 2]), ((4,), [4])])
def test_selecting_ipus_sets_one_field_for_each_device(attribute, field, value, devices):
    config = IPUConfig()
    setattr(config, attribute, value)
    before = dict(config.items())
    options = translate.to_options(config)
    assert [getattr(d, field) for d in options.device_config] == devices
    assert all(d.WhichOneof("selection") == field for d in options.device_config)
    assert getattr(translate.from_options(options), attribute) == devices
    # An int becomes a list on the object; nothing else changes.
    expected = {**before, attribute: [value] if isinstance(value, int) else value}
    assert dict(config.items()) == expected


def test_the_creator_is_recorded():
    assert translate.to_options(IPUConfig()).creator_id == ipu_options_pb2.IPU_UTILS


def test_set_all_turns_everything_on():
    config = IPUConfig()
    config.floating_point_behaviour.set_all = True
    behavior = translate.to_options(config).floating_point_behaviour
    assert (behavior.inv, behavior.div0, behavior.oflo, behavior.nanoo) == (True,) * 4
    assert behavior.esr == ipu_options_pb2.ON
    assert config.floating_point_behaviour.inv is False


@pytest.mark.parametrize(
    ("value", "stored"),
    [(False, 0), (True, 1), *((member, member.value) for member in StochasticRoundingBehaviour)],
)
def test_stochastic_rounding_is_stored_as_its_number(value, stored):
    config = IPUConfig()
    config.floating_point_behaviour.esr = value
    assert translate.to_options(config).floating_point_behaviour.esr == stored


def test_library_options_are_replaced_or_updated():
    options = translate.to_options(IPUConfig())
    name = "matmuls.poplar_options"
    translate.set_option(options, name, {"a": "1"})
    translate.set_option(options, name, {"b": "2"})
    assert translate.get_option(options, name) == {"b": "2"}
    translate.update_pairs(options, name, {"a": "3", "b": "4"})
    assert translate.get_option(options, name) == {"a": "3", "b": "4"}


def test_equal_dictionaries_give_equal_messages():
    first, second = IPUConfig(), IPUConfig()
    first.gcl_poplar_options = {"a": "1", "b": "2"}
    second.gcl_poplar_options = {"b": "2", "a": "1"}
    assert translate.to_options(first) == translate.to_options(second)


@pytest.mark.parametrize("options", [{"a": True}, {"a": 0.6}, {1: "a"}])
def test_library_options_are_strings(options):
    config = IPUConfig()
    config.convolutions.poplar_options = options
    with pytest.raises(TypeError, match=r"'convolutions\.poplar_options' maps strings to strings"):
        translate.to_options(config)


def test_numbers_too_large_for_the_message_are_refused():
    config = IPUConfig()
    config.io_tiles.num_io_tiles = 2**70
    with pytest.raises(ValueError, match="'io_tiles.num_io_tiles' must be in the range 0 to 192"):
        translate.to_options(config)
    config = IPUConfig()
    config.auto_select_ipus = 2**70
    with pytest.raises(ValueError, match="'auto_select_ipus' must be in the range 1 to"):
        translate.to_options(config)
