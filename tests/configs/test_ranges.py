"""Values that options do not take: each option refuses them where it is set, by name."""

from __future__ import annotations

import inspect
import json
import math
import typing

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tensorflow.python.framework import errors

from tensorflow_ipu.configs import (
    flags,
    legacy,
    poplar_options,
    ranges,
    translate,
    validation,
)
from tensorflow_ipu.configs.attributes import has_type
from tensorflow_ipu.configs.ipu_config import OPTIONS, IPUConfig
from tensorflow_ipu.configs.ranges import FOLDER, Digits, Folder, Range, WordChoice

#: What programs may pass by mistake to anything.
NASTY = (
    *(math.nan, math.inf, -math.inf, -1, -1.0, -0.0, 0, 1, 0.5, 5e-324, 1e308, 2**31, 2**32),
    *(2**63, 2**64, -(2**63) - 1, 10**5000, -(10**5000), True, False, None, object(), b"x"),
    *("", "1", "-1", "nan", "\0", "folder\0name", "\ud800", "9" * 5000, "ä", "a" * 100_000),
    *([], [-1], [math.nan], [0] * 3, [10**30], [[1]], (), (1, 2), (-5,), {}, {"a": 1}, set()),
    *({"a": "b"}, {"\0": "\0"}, {"\ud800": "\ud800"}, {1: 2}, {"availableMemoryProportion": "nan"}),
)
values = st.one_of(
    st.sampled_from(NASTY),
    st.integers(),
    st.floats(),
    st.text(),
    st.lists(st.integers(-2, 2**65), max_size=3),
    st.dictionaries(st.sampled_from(poplar_options.CONVOLUTION), st.text(), max_size=2),
)

#: The same cases each time, and no more than the suite has time for.
bounded = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

#: Options that are texts, but no folders: names of chips, which are checked with the connection.
CHIP_NAMES = {"device_connection.version", "ipu_model.version"}
#: Options whose wrong values are errors when the system is configured, as in the reference.
LATER = {
    "auto_select_ipus",
    "select_ipus",
    "experimental.multi_replica_distribution.process_index",
    "experimental.multi_replica_distribution.process_count",
    "io_tiles.num_io_tiles",
    "norms.experimental.distributed_batch_norm_replica_group_size",
}


def _is_number(hint: object) -> bool:
    return hint in (int, float) or any(map(_is_number, typing.get_args(hint)))


def test_every_number_or_folder_option_documents_values() -> None:
    for name, option in OPTIONS.items():
        if _is_number(option.type):
            assert isinstance(option.allowed, Range), name
            defaults = option.default if isinstance(option.default, list) else [option.default]
            assert all(default in option.allowed for default in defaults), name
        elif option.type is str and name not in CHIP_NAMES:
            assert option.allowed is FOLDER, name
        assert option.checked_later == (name in LATER)


def test_every_number_or_folder_flag_documents_values() -> None:
    words = {
        "synthetic_data_initializer",
        "capacity_policy",
        "operator_policy",
        "show_progress_bar",
    }
    for info in flags.describe():
        if info.type == "int":
            assert isinstance(info.allowed, Range) and info.default in info.allowed, info.name
        elif info.type == "string" and info.name not in words and not info.deprecated:
            assert info.allowed is FOLDER, info.name


def test_ranges_are_shown_to_users() -> None:
    about = IPUConfig().get_attribute_metadata("io_tiles.available_memory_proportion")
    assert about.allowed == "in the range 0.0 to 2147483647.0"
    assert IPUConfig().get_attribute_metadata("io_tiles").allowed is None
    assert "--max_infeed_threads (int, default -1, no-op, in the range -1" in flags.help_text()


def _set(config: IPUConfig, name: str, value: object) -> None:
    *parents, leaf = name.split(".")
    for parent in parents:
        config = getattr(config, parent)
    setattr(config, leaf, value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "io_tiles.available_memory_proportion",
            math.nan,
            "in the range 0.0 to .*; received nan",
        ),
        (
            "io_tiles.available_memory_proportion",
            -0.5,
            "in the range 0.0 to .*; received -0.5",
        ),
        (
            "optimizations.maximum_all_gather_buffer_size",
            -1,
            "in the range 0 to .* bytes; received -1",
        ),
        (
            "_profiling.max_report_size",
            2**63,
            "in the range 0 to .* bytes; received 9223372036854775808",
        ),
        ("ipu_model.tiles_per_ipu", 1473, "in the range 0 to 1472 tiles; received 1473"),
        ("_profiling.report_directory", "a\0b", r"a path without NUL .*; received 'a\\x00b'"),
        ("serialization_output_folder", "\ud800", "a path"),
        ("optimizations.cholesky_block_size", 10**5000, ".*; received a int of very many digits"),
    ],
    ids=range(8),
)
def test_a_value_is_refused_where_it_is_set(name, value, message) -> None:
    config = IPUConfig()
    with pytest.raises(ValueError, match=f"'{name}' must be {message}"):
        _set(config, name, value)
    assert dict(config.items())[name] == OPTIONS[name].default
    *categories, leaf = name.split(".")
    data: dict[str, object] = {leaf: value}
    for category in reversed(categories):
        data = {category: data}
    with pytest.raises(ValueError, match=f"'{name}' must be"):
        config.from_dict(data)


@settings(bounded, max_examples=1500)
@given(name=st.sampled_from(sorted(OPTIONS)), value=values)
def test_any_value_is_taken_or_refused_by_name(name: str, value: object) -> None:
    option, config = OPTIONS[name], IPUConfig()
    try:
        _set(config, name, value)
    except (TypeError, ValueError) as error:
        assert name in str(error) and len(str(error)) < 1000
        if has_type(value, option.type):
            assert str(option.allowed) in str(error)
        return
    assert has_type(value, option.type)
    _check_as_configured(config, name)


def _check_as_configured(config: IPUConfig, name: str) -> None:
    """A value passes all checks, or an error names its option."""
    leaf = name.rsplit(".", 1)[-1]
    try:
        options = translate.to_options(config)
        again = translate.from_options(options)
        validation.check(again, on_model=False)
        poplar_options.check(again)
    except (TypeError, ValueError, errors.InvalidArgumentError) as error:
        assert leaf in str(error) or "IO tiles" in str(error)
        assert len(str(error)) < 2000
    else:
        assert dict(again.items())[name] == dict(config.items())[name]


@settings(bounded, max_examples=500)
@given(info=st.sampled_from(flags.describe()), text=st.one_of(st.sampled_from(NASTY), st.text()))
@example(info=flags.describe()[7], text="99999999999999999999")
def test_any_flag_is_taken_or_refused_by_name(info: flags.FlagInfo, text: object) -> None:
    try:
        parsed = flags.parse(f"--{info.name}='{ranges.shown(text) if type(text) is int else text}'")
    except ValueError as error:
        assert (
            info.name in str(error) or "Cannot split" in str(error) or "Unknown flag" in str(error)
        )
        return
    if info.allowed is not None:
        info.allowed.check(info.name, getattr(parsed, info.name))


def test_a_huge_number_of_threads_is_refused() -> None:
    message = "--max_compilation_threads must be in the range -1 to .* threads; received 99999"
    with pytest.raises(ValueError, match=message):
        flags.parse("--max_compilation_threads=99999999999999999999")
    with pytest.raises(ValueError, match="--max_compilation_threads takes an integer in the range"):
        flags.parse(f"--max_compilation_threads={'9' * 5000}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"autoReport.direcotry": "a"}, r"Did you mean 'autoReport.directory'\?"),
        ({"autoreport.all": "true"}, "Did you mean 'autoReport.all'"),
        ({"nonsense": "true"}, "Unrecognised option 'nonsense' in POPLAR_ENGINE_OPTIONS"),
        ({"autoReport.directory": "a\0b"}, r"a path without NUL characters; received 'a\\x00b'"),
        ({"autoReport.executionProfileProgramRunCount": "1e3"}, "whole number in the range 1 to"),
        ({"debug.instrument": "yes"}, "'debug.instrument' takes true or false; received 'yes'"),
    ],
)
def test_wrong_engine_options_of_the_environment_are_refused(monkeypatch, options, message) -> None:
    monkeypatch.setenv(flags.ENGINE_OPTIONS, json.dumps(options))
    with pytest.raises(errors.InvalidArgumentError, match=message):
        poplar_options.check_environment()


@settings(bounded, max_examples=300)
@given(
    st.dictionaries(
        st.one_of(st.sampled_from(sorted(poplar_options._VALUES)), st.text()),
        st.one_of(
            st.sampled_from([v for v in NASTY if isinstance(v, str)]), st.text(), st.floats()
        ),
        max_size=2,
    )
)
def test_any_engine_options_are_taken_or_refused(monkeypatch, options: object) -> None:
    monkeypatch.setenv(flags.ENGINE_OPTIONS, json.dumps(options))
    try:
        poplar_options.check_environment()
    except (ValueError, errors.InvalidArgumentError) as error:
        assert flags.ENGINE_OPTIONS in str(error)


LEGACY = [
    (function, parameter)
    for function, signature in (
        (name, inspect.signature(getattr(legacy, name)))
        for name in dir(legacy)
        if name.startswith(("set_", "create_"))
    )
    for parameter, about in signature.parameters.items()
    if "int" in str(about.annotation) or "float" in str(about.annotation)
]


@pytest.mark.parametrize(("function", "parameter"), LEGACY)
@pytest.mark.parametrize("value", [math.nan, -5, 2**63, 10**5000, "1", [1]], ids=range(6))
def test_legacy_functions_refuse_numbers_out_of_range(function, parameter, value) -> None:
    arguments = {parameter: value}
    if function != "create_ipu_config":
        arguments["opts"] = legacy.create_ipu_config()
    required = {"num_io_tiles": 2, "process_count": 2, "process_index": 0}
    signature = inspect.signature(getattr(legacy, function))
    arguments = {**{k: v for k, v in required.items() if k in signature.parameters}, **arguments}
    try:
        made = getattr(legacy, function)(**arguments)
    except (TypeError, ValueError):
        return
    # What is checked later is refused when the system is configured; a version may be any text.
    if function != "set_ipu_connection_type":
        with pytest.raises((ValueError, errors.InvalidArgumentError)):
            validation.check(translate.from_options(made), on_model=False)


def test_arguments_have_to_be_whole_numbers() -> None:
    for value in (math.nan, 1.5, "3", None, [], True, object(), 10**5000, -1, 256):
        with pytest.raises(
            ValueError, match="depth must be (an integer )?in the range 1 to 255 elements; received"
        ):
            Range(1, 255, "elements").whole("depth", value)


def test_arguments_may_be_any_integers() -> None:
    class Integer:
        def __index__(self) -> int:
            return 3

    assert Range(1, 255).whole("depth", Integer()) == 3


def test_words_digits_and_folders_are_checked() -> None:
    WordChoice(("a", "b")).check("x", "a")
    Digits(Range(0, 5)).check("x", "3")
    Digits(Range(0.0, 1.0)).check("x", "1e-3")
    Folder().check("x", "/tmp/ä")
    for allowed, value in [
        (WordChoice(("a", "b")), "c"),
        (Digits(Range(0, 5)), "3.0"),
        (Digits(Range(0.0, 1.0)), "nan"),
        (Digits(Range(0, 5)), "9" * 5000),
    ]:
        with pytest.raises(ValueError, match="x takes .*; received"):
            allowed.check("x", value)
