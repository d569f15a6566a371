"""TF_POPLAR_FLAGS, the POPLAR_*_OPTIONS objects and the choice of chip."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs import chips, flags
from tensorflow_ipu.configs.enums import Effect, SyntheticDataCategory

# Name -> (type, default, a text and the value it means).
DOCUMENTED = {
    "help": ("bool", False, None, True),
    "use_synthetic_data": ("bool", False, None, True),
    "synthetic_data_categories": ("list", (), "infeed,seed", ("infeed", "seed")),
    "synthetic_data_initializer": ("string", "", None, None),
    "use_ipu_model": ("bool", False, "true", True),
    "ipu_model_tiles": ("int", -1, None, None),
    "log_cycle_count": ("int", -1, "3", 3),
    "while_loop_brute_force_max_trip_count": ("int", 128, "7", 7),
    "max_compilation_threads": ("int", -1, "2", 2),
    "max_infeed_threads": ("int", -1, "2", 2),
    "capacity_policy": ("string", "default", "warn", "warn"),
    "operator_policy": ("string", "warn", "raise", "raise"),
    "executable_cache_path": ("string", "", "/tmp/a", "/tmp/a"),
    "save_vertex_graph": ("string", "", "d", "d"),
    "save_interval_report": ("string", "", "d", "d"),
    "tensor_map_file_path": ("string", "", "d=e", "d=e"),
    "dump_schedule_as_dot": ("bool", False, "1", True),
    "fallback_scheduler": ("bool", False, None, True),
    "allow_nans": ("bool", False, None, True),
    "null_data_feed": ("bool", False, None, True),
    "show_progress_bar": ("string", "auto", "false", "false"),
    "on_demand_device_poll_time": ("int", 1000, "100", 100),
    "on_demand_device_timeout": ("int", 3600000, "0", 0),
    "sync_replica_start": ("bool", False, None, True),
    "enable_hlo_verifier": ("bool", False, "TRUE", True),
    "use_on_demand": ("bool", False, None, True),
    "disable_poplar_version_check": ("bool", False, None, True),
    "dump_text_reports_to_stdio": ("bool", False, None, True),
    "add_all_reduce_copies": ("bool", False, None, True),
    "force_replicated_mode": ("bool", False, None, True),
    "save_oom_profiler": ("string", "", "f", "f"),
}

HASHED = {
    "use_synthetic_data",
    "synthetic_data_categories",
    "synthetic_data_initializer",
    "use_ipu_model",
    "while_loop_brute_force_max_trip_count",
    "fallback_scheduler",
    "allow_nans",
    "log_cycle_count",
    "sync_replica_start",
    "ipu_model_tiles",
    "disable_poplar_version_check",
}


def test_the_table_is_complete():
    assert {info.name for info in flags.describe()} == set(DOCUMENTED)


@pytest.mark.parametrize("info", flags.describe(), ids=lambda info: info.name)
def test_flags_have_the_documented_type_and_default(info):
    assert (info.type, info.default) == DOCUMENTED[info.name][:2]
    assert isinstance(info.effect, Effect) and info.doc
    assert info.hashed is (info.name in HASHED)


def test_no_text_gives_the_defaults():
    assert flags.parse("") == flags.Flags()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [(name, row[2], row[3]) for name, row in DOCUMENTED.items() if row[3] is not None],
)
def test_values_are_parsed(name, text, value):
    word = f"--{name}" if text is None else f"--{name}={text}"
    assert getattr(flags.parse(word), name) == value


def test_several_flags_and_quotes_are_parsed():
    parsed = flags.parse("  --use_ipu_model --executable_cache_path='/tmp/a b' --use_ipu_model=0 ")
    assert parsed.executable_cache_path == "/tmp/a b" and parsed.use_ipu_model is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--use_ipu_modl", r"Unknown flag '--use_ipu_modl'.*Did you mean '--use_ipu_model'\?"),
        ("--nonsense=1", "Unknown flag '--nonsense=1' in TF_POPLAR_FLAGS"),
        ("use_ipu_model", r"Unknown flag 'use_ipu_model'.*'--use_ipu_model'"),
        ("--use_ipu_model=maybe", "takes true or false; received 'maybe'"),
        ("--log_cycle_count=x", "takes an integer in the range .*; received 'x'"),
        ("--log_cycle_count", "--log_cycle_count needs a value"),
        ("--executable_cache_path", "needs a value"),
        ("--executable_cache_path='a", "Cannot split"),
        (
            "--synthetic_data_categories=infeed,outfed",
            "unknown synthetic data category 'outfed'.*Did you mean 'outfeed'",
        ),
        (
            "--use_synthetic_data --synthetic_data_initializer=ones",
            "or a number that is finite; received 'ones'",
        ),
        ("--synthetic_data_initializer=uniform", "needs --use_synthetic_data"),
        ("--show_progress_bar=yes", "true, false, auto; received 'yes'"),
        ("--on_demand_device_poll_time=99", "range 100 to 2147483647 ms; received 99"),
        ("--on_demand_device_timeout=-1", "range 0 to 2147483647 ms; received -1"),
        ("--capacity_policy=rise", "takes default, raise, warn, mark; received 'rise'"),
        ("--operator_policy=strict", "takes warn, raise, allow; received 'strict'"),
        ("--ipu_model_tiles=4", "only applies together with --use_ipu_model"),
    ],
)
def test_wrong_flags_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        flags.parse(text)


@pytest.mark.parametrize("value", ["uniform", "normal", "random", "10", "-1.5"])
def test_synthetic_data_initializers_are_parsed(value):
    parsed = flags.parse(
        f"--synthetic_data_categories=parameters --synthetic_data_initializer={value}"
    )
    assert parsed.synthetic_data_initializer == value


def test_the_number_of_model_tiles_is_parsed():
    assert flags.parse("--use_ipu_model --ipu_model_tiles=4").ipu_model_tiles == 4


def test_parsed_is_fixed_at_first_use(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--log_cycle_count=1")
    assert flags.parsed().log_cycle_count == 1
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--log_cycle_count=2")
    assert flags.parsed().log_cycle_count == 1 == flags.preview().log_cycle_count


def test_a_preview_does_not_fix_the_flags(monkeypatch):
    assert flags.preview().log_cycle_count == -1
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--log_cycle_count=2")
    assert flags.parsed().log_cycle_count == 2


def test_a_mistake_can_be_corrected(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--wrong")
    for _ in range(2):
        with pytest.raises(ValueError, match="--wrong"):
            flags.parsed()
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    assert flags.parsed().use_ipu_model


def test_help_lists_every_flag(monkeypatch, capsys):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--help")
    flags.parsed()
    flags.parsed()
    output = capsys.readouterr().out
    for name in DOCUMENTED:
        assert output.count(f"--{name} (") == 1


def test_ignored_and_deprecated_flags_warn_once(monkeypatch, caplog):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--save_vertex_graph=d --force_replicated_mode")
    flags.parsed()
    flags.parsed()
    assert caplog.text.count("--save_vertex_graph is ignored") == 1
    assert caplog.text.count("--force_replicated_mode is deprecated") == 1
    assert len(caplog.records) == 2


def test_executable_key_has_only_flags_that_change_programs():
    first = flags.parse("--max_infeed_threads=2").executable_key()
    assert first == flags.Flags().executable_key() and set(first) == HASHED
    assert flags.parse("--use_synthetic_data").executable_key() != first


@pytest.mark.parametrize("text", ["", "--log_cycle_count=1", "--use_ipu_model", "x--use_ipu_model"])
def test_running_on_ipu_model_follows_the_flags(monkeypatch, text):
    monkeypatch.setenv("TF_POPLAR_FLAGS", text)
    assert flags.running_on_ipu_model() is ("--use_ipu_model" in text)


@pytest.mark.parametrize(
    ("text", "synthetic"),
    [
        ("", set()),
        ("--use_synthetic_data", set(SyntheticDataCategory)),
        (
            "--synthetic_data_categories=hostembedding,outfeed",
            {SyntheticDataCategory.HostEmbedding, SyntheticDataCategory.Outfeed},
        ),
    ],
)
def test_categories_of_synthetic_data_follow_the_flags(monkeypatch, text, synthetic):
    monkeypatch.setenv("TF_POPLAR_FLAGS", text)
    found = {c for c in SyntheticDataCategory if flags.parsed().synthetic(c)}
    assert found == synthetic


def test_the_chip_is_read_from_the_environment(monkeypatch):
    assert flags.chip() is chips.MK2
    monkeypatch.setenv("TENSORFLOW_IPU_CHIP", "bow")
    assert flags.chip() is chips.BOW
    monkeypatch.setenv("TENSORFLOW_IPU_CHIP", "mk9")
    with pytest.raises(ValueError, match="TENSORFLOW_IPU_CHIP: Unknown IPU chip 'mk9'"):
        flags.chip()


VARIABLES = [flags.ENGINE_OPTIONS, flags.TARGET_OPTIONS, flags.RUNTIME_OPTIONS]


@pytest.mark.parametrize("variable", VARIABLES)
def test_library_options_are_read_from_the_environment(monkeypatch, variable):
    assert flags.library_options(variable) == {}
    monkeypatch.setenv(variable, '{"debug.instrument": "true", "b": "2"}')
    assert flags.library_options(variable) == {"debug.instrument": "true", "b": "2"}


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{debug: true}", "must be a JSON object such as .* column 2 is wrong"),
        ('["a"]', "must be a JSON object"),
        ('{"a": true}', 'the value of "a" must be a string; received true'),
        ('{"a": 1}', "Write it in quotes"),
    ],
)
def test_wrong_library_options_are_refused(monkeypatch, variable, text, message):
    monkeypatch.setenv(variable, text)
    with pytest.raises(ValueError, match=f"{variable}.*{message}"):
        flags.library_options(variable)
