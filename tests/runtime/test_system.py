"""Configuring, reconfiguring, devices, replicas, connection types."""

from __future__ import annotations

import copy
import enum
import inspect
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tensorflow as tf

from tensorflow_ipu.api import config, utils
from tensorflow_ipu.configs import chips, flags, legacy, poplar_options
from tensorflow_ipu.configs.enums import DeviceConnectionType, Effect, SelectionOrder
from tensorflow_ipu.configs.ipu_config import OPTIONS, IPUConfig
from tensorflow_ipu.configs.proto import ipu_options_pb2
from tensorflow_ipu.runtime import system

# --- Children of a process that uses IPUs: forks get an error, others work ---

FORK = """
import gc, os, sys
import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

tf1 = tf.compat.v1

def configure():
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

@tf.function(jit_compile=True)
def add(x):
    return x + 1

# A fork of a process that has not used anything may use IPUs.
child = os.fork()
if child == 0:
    configure()
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        os._exit(int(strategy.run(add, [tf.constant(41)])))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42

configure()
strategy = ipu.ipu_strategy.IPUStrategy()

def run():
    with strategy.scope():
        return strategy.run(add, [tf.ones([2])])

@tf.function
def around():
    return run()

def fit():
    return model.fit(np.ones((8, 4)), np.ones((8, 1)), 2, verbose=0)

with tf.Graph().as_default():
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(lambda: tf.constant(1.0) + 1)
    session = tf1.Session()
    session.run(result)
run(), around()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
    model.compile("sgd", "mse", steps_per_execution=2)
fit()
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensors([1.0]).repeat())
infeed.initializer

@tf.function(jit_compile=True)
def read():
    return ipu.loops.repeat(3, lambda total, x: total + x, [tf.zeros([1])], infeed)

with strategy.scope():
    strategy.run(read)

child = os.fork()
if child == 0:
    for use in (
        configure,
        run,
        around,
        fit,
        lambda: session.run(result),
        lambda: infeed.initializer,
        lambda: strategy.scope().__enter__(),
    ):
        try:
            use()
        except tf.errors.FailedPreconditionError as error:
            assert "forked" in str(error) and "spawn" in str(error), error
        else:
            raise AssertionError(use)
    # What frees native parts, in the parent, does not wait for threads that are not here.
    del infeed, model, read, add, session, result
    gc.collect()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
# The parent goes on.
np.testing.assert_array_equal(run(), [2, 2])
fit()
"""

SPAWN = """
import multiprocessing
import tensorflow as tf
from tensorflow.python import ipu

def launch(x):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        return float(strategy.run(tf.function(lambda x: x + 1), [tf.constant(x)]))

if __name__ == "__main__":
    assert launch(1.0) == 2.0
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(launch, [1.0, 2.0]) == [2.0, 3.0]
"""


def test_fork_of_process_that_uses_ipus_gets_error(run_python) -> None:
    run_python(FORK)


@pytest.mark.process
def test_a_spawned_process_launches(tmp_path: Path) -> None:
    # It imports the program of its parent, which therefore has to be a file.
    program = tmp_path / "program.py"
    program.write_text(SPAWN, encoding="utf-8")
    process = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=300, check=False
    )
    assert process.returncode == 0, process.stderr


# --- Configuring, reconfiguring, devices, replicas, connection types ---


def _here(offset=0):
    frame = inspect.currentframe().f_back
    return f"{__file__}:{frame.f_lineno + offset}"


def test_the_line_is_that_of_the_caller():
    assert system.line() == _here()


def test_a_configuration_knows_where_it_was_made():
    cfg = config.IPUConfig()
    cfg.auto_select_ipus = 2
    cfg.configure_ipu_system()
    assert system.current().configured_at == _here(-1)
    system.reset_ipu_configuration()
    assert system.current().configured_at == ""


def test_the_older_functions_know_it_too():
    options = utils.auto_select_ipus(utils.create_ipu_config(), 1)
    utils.configure_ipu_system(options)
    assert system.current().configured_at == _here(-1)


def test_a_function_without_a_file_has_no_line():
    found = []
    exec("found.append(line())", {"found": found, "line": system.line})
    assert found == [""]


# --- Configuring, reconfiguring, devices, replicas, connection types ---


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    """A system in which nothing is configured, with nobody else listening."""
    for variable in (
        flags.VARIABLE,
        flags.CHIP_VARIABLE,
        flags.ENGINE_OPTIONS,
        flags.TARGET_OPTIONS,
        flags.RUNTIME_OPTIONS,
    ):
        monkeypatch.delenv(variable, raising=False)
    flags._reset_for_tests()
    monkeypatch.setattr(system, "_state", system._State())
    yield
    flags._reset_for_tests()


@pytest.fixture
def on_model(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")


def config_with(**settings):
    config = IPUConfig()
    for name, value in settings.items():
        *parents, leaf = name.split("__")
        node = config
        for parent in parents:
            node = getattr(node, parent)
        setattr(node, leaf, value)
    return config


def configure(**settings):
    system.configure_ipu_system(config_with(**settings))
    return system.current()


def ipus():
    return [device.ipus for device in system.current().devices]


def test_without_a_configuration_there_is_one_ipu():
    current = system.current()
    assert not system.is_configured()
    assert (current.generation, current.config) == (0, None)
    assert ipus() == [(0,)]
    assert current.machine.chip is chips.MK2
    assert str(current.settings) == str(IPUConfig())
    assert system.current() is current


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [(0,)]),
        ({"auto_select_ipus": 1}, [(0,)]),
        ({"auto_select_ipus": 2}, [(5, 7)]),
        ({"auto_select_ipus": [2, 2]}, [(5, 7), (4, 6)]),
        ({"auto_select_ipus": (1, 2)}, [(0,), (5, 7)]),
        ({"auto_select_ipus": [4, 8, 1]}, [(5, 7, 4, 6), (13, 15, 12, 14, 9, 11, 10, 8), (0,)]),
        ({"auto_select_ipus": 4, "selection_order": SelectionOrder.SNAKE}, [(5, 7, 6, 4)]),
        ({"auto_select_ipus": 4, "selection_order": SelectionOrder.HOOF}, [(5, 4, 6, 7)]),
        ({"auto_select_ipus": [1] * 16}, [(i,) for i in range(16)]),
        ({"select_ipus": 0}, [(0,)]),
        ({"select_ipus": 8}, [(8,)]),
        ({"select_ipus": [0, 1]}, [(0,), (1,)]),
        ({"select_ipus": [24, 25]}, [(5, 7, 4, 6), (3, 1, 2, 0)]),
    ],
)
def test_the_configuration_decides_on_the_devices(settings, expected):
    configure(**settings)
    assert ipus() == expected
    assert [device.ordinal for device in system.current().devices] == list(range(len(expected)))
    assert system.device(0).num_ipus == len(expected[0])


def test_devices_of_front_ends_beyond_machine_are_models():
    config = IPUConfig()
    config.auto_select_ipus = [2, 32, 1, 64]
    system.reconfigure(config)
    assert ipus() == [(5, 7), tuple(range(16, 48)), (0,), tuple(range(48, 112))]
    assert system.current().replication_factor(3, 4) == 16
    config.auto_select_ipus = [17]
    with pytest.raises(tf.errors.FailedPreconditionError, match="a power of two"):
        system.reconfigure(config)


@pytest.mark.parametrize("count", [0, -1, 3, 17, 32])
def test_an_unsupported_number_of_ipus_is_refused(count):
    with pytest.raises(tf.errors.FailedPreconditionError, match="Unsupported number of IPUs"):
        configure(auto_select_ipus=[1, count])
    assert not system.is_configured()


@pytest.mark.parametrize(
    "settings",
    [
        {"auto_select_ipus": [16, 1]},
        {"auto_select_ipus": [1] * 17},
        {"select_ipus": 31},
        {"select_ipus": -1},
        {"select_ipus": [16, 5]},
    ],
)
def test_a_size_that_no_device_has_is_refused(settings):
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="No device matches the requested configuration for ordinal",
    ):
        configure(**settings)
    assert not system.is_configured()


@pytest.mark.parametrize("config", [None, {}, "ipu", IPUConfig])
def test_what_is_neither_config_nor_options_is_refused(config):
    with pytest.raises(TypeError, match="`config` must be an IpuOptions instance"):
        system.configure_ipu_system(config)


def test_device_must_be_a_name():
    with pytest.raises(TypeError, match="`device` must be a device name"):
        system.configure_ipu_system(IPUConfig(), device=0)


def test_options_made_by_hand_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="Badly initialized IpuOptions object"):
        system.configure_ipu_system(ipu_options_pb2.IpuOptions())


def test_legacy_options_are_accepted():
    opts = legacy.auto_select_ipus(legacy.create_ipu_config(), [2, 4])
    system.configure_ipu_system(opts)
    assert [device.num_ipus for device in system.current().devices] == [2, 4]
    assert system.current().config.auto_select_ipus == [2, 4]
    # The same settings in the other form are the same settings.
    before = system.current()
    assert configure(auto_select_ipus=[2, 4]) is before


def test_the_config_configures_the_system_itself():
    config_with(auto_select_ipus=2).configure_ipu_system(device="/device:CPU:0")
    assert system.device(0).num_ipus == 2


def test_checks_of_the_configuration_are_made():
    with pytest.raises(ValueError, match="must be unique"):
        configure(select_ipus=[1, 1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Unrecognised option"):
        configure(matmuls__poplar_options={"nonsense": "1"})


def test_same_settings_change_nothing(caplog):
    before = configure(auto_select_ipus=2)
    assert configure(auto_select_ipus=2) is before
    system.configure_ipu_system(config_with(auto_select_ipus=2), reset_configuration=False)
    assert system.current() is before
    assert caplog.text == ""


def test_other_settings_replace_the_attached_ones(caplog):
    before = configure(auto_select_ipus=2)
    after = configure(auto_select_ipus=4)
    assert after.generation > before.generation
    assert system.device(0).num_ipus == 4
    assert "Resetting existing IPU configuration before applying new configuration" in caplog.text


def test_front_ends_replace_settings_without_a_warning(caplog):
    configure(auto_select_ipus=2)
    system.reconfigure(config_with(auto_select_ipus=4))
    assert system.device(0).num_ipus == 4 and caplog.text == ""


def test_other_settings_are_refused_without_reset():
    before = configure(auto_select_ipus=2)
    with pytest.raises(
        tf.errors.FailedPreconditionError,
        match="IPU system configuration has already been set in this process",
    ):
        system.configure_ipu_system(IPUConfig(), reset_configuration=False)
    assert system.current() is before


def test_a_wrong_configuration_leaves_the_old_one():
    before = configure(auto_select_ipus=2)
    with pytest.raises(tf.errors.FailedPreconditionError):
        configure(auto_select_ipus=3)
    assert system.current() is before


def test_the_attached_config_is_private():
    config = config_with(auto_select_ipus=2, gcl_poplar_options={"method": "auto"})
    system.configure_ipu_system(config)
    config.auto_select_ipus = 8
    config.gcl_poplar_options["method"] = "other"
    assert system.current().settings.auto_select_ipus == [2]
    assert system.current().settings.gcl_poplar_options == {"method": "auto"}


def test_attached_options_are_private():
    opts = legacy.auto_select_ipus(legacy.create_ipu_config(), 2)
    system.configure_ipu_system(opts)
    opts.num_io_tiles = 4
    system.get_ipu_config()[0].num_io_tiles = 6
    assert system.current().options.num_io_tiles == 0


def test_a_reset_forgets_the_configuration():
    system.reset_ipu_configuration()
    assert system.current().generation == 0
    generation = configure(auto_select_ipus=2).generation
    system.reset_ipu_configuration()
    assert not system.is_configured()
    assert system.current().generation > generation
    assert ipus() == [(0,)]


def test_subscribers_hear_of_every_change():
    heard = []
    system.subscribe(lambda s: heard.append((s.generation, s.config is None, len(s.devices))))
    configure(auto_select_ipus=[1, 1])
    configure(auto_select_ipus=[1, 1])
    configure(auto_select_ipus=[2, 2, 2])
    system.reset_ipu_configuration()
    system.reset_ipu_configuration()
    assert [entry[1:] for entry in heard] == [
        (True, 1),
        (False, 2),
        (True, 1),
        (False, 3),
        (True, 1),
    ]
    generations = [entry[0] for entry in heard]
    assert generations == sorted(set(generations))


def test_subscribing_late_hears_the_present():
    heard = []
    current = configure(auto_select_ipus=2)
    system.subscribe(heard.append)
    assert heard == [current]


def test_subscribing_does_not_fix_the_flags(monkeypatch):
    system.subscribe(lambda s: None)
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    assert system.current().machine.is_model


def test_get_ipu_config_returns_options_of_each_device():
    with pytest.raises(RuntimeError, match=r"No IPU devices configured\."):
        system.get_ipu_config()
    configure(auto_select_ipus=[1, 2])
    first, second = system.get_ipu_config()
    assert first == second
    assert [d.auto_count for d in first.device_config] == [1, 2]


def test_get_ipu_config_with_a_session():
    configure(auto_select_ipus=2)
    with tf.Graph().as_default():
        with tf.compat.v1.Session() as session:
            assert len(system.get_ipu_config(session)) == 1
        assert len(system.get_ipu_config()) == 1
    with pytest.raises(AssertionError, match="No session is required for eager execution"):
        system.get_ipu_config(session)


def test_an_unknown_ordinal_is_refused():
    configure(auto_select_ipus=[1, 1])
    for ordinal in (2, -1):
        with pytest.raises(
            tf.errors.FailedPreconditionError,
            match=f"No device target has been configured for ordinal {ordinal}",
        ):
            system.device(ordinal)


@pytest.mark.parametrize(
    "name", ["/device:IPU:1", "IPU:1", "/ipu:1", "/job:a/replica:0/task:0/device:IPU:1"]
)
def test_get_num_of_ipus_in_device(name):
    configure(auto_select_ipus=[1, 4])
    assert system.get_num_of_ipus_in_device(name) == 4


@pytest.mark.parametrize("name", ["/device:CPU:0", "", "IPU", "/device:IPU:x", 0])
def test_an_invalid_device_name_is_refused(name):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid device name"):
        system.get_num_of_ipus_in_device(name)


@pytest.mark.parametrize(
    ("available", "used", "replicas"),
    [(4, 1, 4), (4, 2, 2), (4, 3, 1), (4, 4, 1), (1, 1, 1), (16, 5, 2), (16, 1, 16), (2, 0, 2)],
)
def test_replicas_are_available_by_used_ipus(available, used, replicas):
    configure(auto_select_ipus=available)
    assert system.current().replication_factor(0, used) == replicas


@pytest.mark.parametrize(
    ("available", "used", "advice"),
    [
        (1, 2, "Set IPUConfig.auto_select_ipus to 2, 4, 8 or 16: the machine has 16 IPUs."),
        (2, 3, "Set IPUConfig.auto_select_ipus to 4, 8 or 16: the machine has 16 IPUs."),
        (4, 16, "Set IPUConfig.auto_select_ipus to 16: the machine has 16 IPUs."),
        (4, 17, "The machine has 16 IPUs and no device with more: use the IPUs 0 to 15 only."),
        (16, 100, "The machine has 16 IPUs and no device with more: use the IPUs 0 to 15 only."),
    ],
)
def test_shards_that_do_not_fit(available, used, advice):
    configure(auto_select_ipus=available)
    phrase = "The number of shards needs to divide the number of IPUs"
    with pytest.raises(tf.errors.InternalError, match=phrase) as raised:
        system.current().replication_factor(0, used)
    assert str(raised.value).endswith(advice)


def test_misfit_shards_without_attached_device():
    configure(
        auto_select_ipus=32,
        device_connection__type=DeviceConnectionType.NEVER,
        device_connection__version="ipu2",
    )
    with pytest.raises(tf.errors.InternalError, match="Select a multiple of 64 IPUs"):
        system.current().replication_factor(0, 33)


def test_replicas_are_counted_over_processes():
    configure(
        auto_select_ipus=4,
        experimental__multi_replica_distribution__process_count=3,
        experimental__multi_replica_distribution__process_index=1,
    )
    current = system.current()
    assert (current.replication_factor(0, 2), current.process_count) == (2, 3)


def test_io_tiles_are_rounded_up():
    assert configure(io_tiles__num_io_tiles=31).num_io_tiles == 32
    assert configure(io_tiles__num_io_tiles=32).num_io_tiles == 32


def test_model_has_tiles_and_version_of_its_options(on_model):
    current = configure(
        auto_select_ipus=[3, 2], ipu_model__tiles_per_ipu=4, ipu_model__version="ipu1"
    )
    assert current.machine.is_model
    assert current.machine.chip.aliases[0] == "ipu1" and current.machine.chip.tiles == 4
    assert ipus() == [(0, 1, 2), (3, 4)]
    with pytest.raises(tf.errors.FailedPreconditionError, match="Unsupported number of IPUs"):
        configure(auto_select_ipus=0)


def test_the_model_does_not_replicate(on_model):
    configure(auto_select_ipus=4)
    assert system.current().replication_factor(0, 1) == 1
    with pytest.raises(tf.errors.InternalError, match="auto_select_ipus to a multiple of 8"):
        system.current().replication_factor(0, 5)


def test_the_model_cannot_be_selected_from(on_model):
    with pytest.raises(Exception, match="can only be specified with `auto_select_ipus`"):
        configure(select_ipus=[0])


def test_the_flags_set_the_tiles_of_the_model(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model --ipu_model_tiles=8")
    assert configure().machine.chip.tiles == 8
    assert configure(ipu_model__tiles_per_ipu=16).machine.chip.tiles == 16


def test_a_flag_mistake_shows_at_first_use(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_modell")
    with pytest.raises(ValueError, match="--use_ipu_modell"):
        configure()
    monkeypatch.delenv("TF_POPLAR_FLAGS")
    assert configure().devices


def test_the_chip_can_be_chosen(monkeypatch):
    monkeypatch.setenv("TENSORFLOW_IPU_CHIP", "bow")
    assert configure().machine.chip is chips.BOW


def test_engine_options_of_the_environment_override_the_config(monkeypatch):
    monkeypatch.setenv(flags.ENGINE_OPTIONS, '{"debug.instrument": "true", "opt.a": "1"}')
    current = configure(compilation_poplar_options={"debug.instrument": "false", "prng.b": "2"})
    merged = {"debug.instrument": "true", "opt.a": "1", "prng.b": "2"}
    requested = current.with_environment()
    assert requested.engine_options == merged
    monkeypatch.delenv(flags.ENGINE_OPTIONS)
    assert requested.engine_options == merged
    assert current.engine_options == {"debug.instrument": "false", "prng.b": "2"}


@pytest.mark.parametrize(
    "variable", [flags.ENGINE_OPTIONS, flags.TARGET_OPTIONS, flags.RUNTIME_OPTIONS]
)
def test_a_badly_written_environment_is_refused(monkeypatch, variable):
    monkeypatch.setenv(variable, "{")
    with pytest.raises(ValueError, match=variable):
        configure()
    assert not system.is_configured()


@pytest.mark.parametrize("configured", [False, True])
def test_unknown_engine_options_of_the_environment_are_refused(monkeypatch, configured):
    monkeypatch.setenv(flags.ENGINE_OPTIONS, '{"autoReport.al": "true"}')
    message = "'autoReport.al' in POPLAR_ENGINE_OPTIONS. Did you mean 'autoReport.all'"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        configure() if configured else system.current()


@pytest.mark.parametrize("count", [0, -1, 4097, 10**12, 2**62])
def test_numbers_of_ipus_that_no_model_has(on_model, count):
    with pytest.raises(tf.errors.FailedPreconditionError, match="must be from 1 to 4096"):
        configure(auto_select_ipus=count)
    with pytest.raises(ValueError, match="'auto_select_ipus' must be in the range 1 to 4096"):
        configure(auto_select_ipus=2**63)


def test_connections_without_a_device_attach_nothing():
    for connection in (DeviceConnectionType.NEVER, DeviceConnectionType.PRE_COMPILE):
        current = configure(
            device_connection__type=connection,
            device_connection__version="ipu1",
            auto_select_ipus=[32, 16],
        )
        assert current.connection is connection
        assert current.machine.chip is chips.MK1
        assert [device.num_ipus for device in current.devices] == [32, 16]
        assert not current.remote_buffers
    with pytest.raises(tf.errors.FailedPreconditionError, match="a power of two"):
        configure(
            device_connection__type=DeviceConnectionType.NEVER,
            device_connection__version="ipu1",
            auto_select_ipus=3,
        )


def test_remote_buffers_depend_on_the_connection():
    assert configure().remote_buffers
    on_demand = DeviceConnectionType.ON_DEMAND
    assert not configure(device_connection__type=on_demand).remote_buffers
    assert configure(
        device_connection__type=on_demand, device_connection__enable_remote_buffers=True
    ).remote_buffers


def test_a_device_that_is_never_attached_is_refused():
    configure(auto_select_ipus=2)
    assert system.ensure_attached(0) is system.device(0)
    configure(device_connection__type=DeviceConnectionType.NEVER, device_connection__version="ipu2")
    with pytest.raises(tf.errors.FailedPreconditionError, match="device_connection.type is NEVER"):
        system.ensure_attached(0)


def test_on_demand_devices_attach_when_used(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--on_demand_device_timeout=0")
    on_demand = DeviceConnectionType.ON_DEMAND
    configure(device_connection__type=on_demand, auto_select_ipus=[2, 16, 2])
    assert ipus()[0] == (5, 7) and len(ipus()[1]) == 16
    assert system.ensure_attached(0).ordinal == 0
    assert system.ensure_attached(0).ordinal == 0
    with pytest.raises(
        tf.errors.InternalError,
        match="Timed out trying to find an available device for ordinal 1",
    ):
        system.ensure_attached(1)


def test_waiting_for_a_device_ends_with_a_reset():
    on_demand = DeviceConnectionType.ON_DEMAND
    configure(device_connection__type=on_demand, auto_select_ipus=[16, 16])
    system.ensure_attached(0)
    found = []
    waiting = threading.Thread(target=lambda: found.append(system.ensure_attached(1)))
    waiting.start()
    configure(auto_select_ipus=[8, 8])
    waiting.join(timeout=60)
    assert [device.num_ipus for device in found] == [8]


def test_ignored_options_warn(caplog):
    opts = legacy.create_ipu_config(use_poplar_cbor_report=True)
    legacy.set_transfer_options(opts, True)
    caplog.clear()
    system.configure_ipu_system(opts)
    system.configure_ipu_system(copy.deepcopy(opts))
    assert caplog.text.count("_profiling.use_poplar_cbor_report = True is ignored") == 1
    assert caplog.text.count("Verified transfers are ignored") == 1


def test_ignored_options_warn_once_in_a_process(caplog):
    opts = legacy.create_ipu_config(use_poplar_cbor_report=True)
    for ipus in (1, 2, 4):
        system.configure_ipu_system(legacy.auto_select_ipus(copy.deepcopy(opts), ipus))
        system.reset_ipu_configuration()
    assert caplog.text.count("_profiling.use_poplar_cbor_report = True is ignored") == 1
    assert caplog.text.count("auto_select_ipus is deprecated") == 1


def _changed(option):
    """A value of an option that is not its default, and legal beside the defaults of the others."""
    if isinstance(option.type, enum.EnumMeta):
        return next(member for member in option.type if member is not option.default)
    return {bool: lambda v: not v, int: lambda v: v + 8}[option.type](option.default)


@pytest.mark.parametrize(
    "name", [name for name, option in OPTIONS.items() if option.effect is Effect.NO_OP]
)
def test_options_without_an_effect_are_accepted_in_silence(name, caplog):
    """Such as `optimizations.merge_infeed_io_copies`, which the reference recommends."""
    known = {
        "gcl_poplar_options": {poplar_options.GCL[0]: "true"},
        "pooling.poplar_options": {poplar_options.POOLING[0]: "true"},
    }
    configure(**{name.replace(".", "__"): known.get(name) or _changed(OPTIONS[name])})
    deprecated = OPTIONS[name].deprecated_msg is not None
    assert [record for record in caplog.records if "deprecated" not in record.message] == []
    assert len(caplog.records) == deprecated


def test_options_changing_results_are_not_ignored():
    ignored = {name for name, option in OPTIONS.items() if option.effect is Effect.IGNORED}
    assert ignored == {
        "norms.experimental.distributed_batch_norm_replica_group_size",
        # What their files would hold:
        "_profiling.use_poplar_cbor_report",
        "_profiling.enable_poplar_serialized_graph",
        "_profiling.graph_poplar_options",
        "_profiling.execution_poplar_options",
    }


def test_threads_may_configure_at_the_same_time():
    threads = [
        threading.Thread(target=configure, kwargs={"auto_select_ipus": 2 ** (i % 3)})
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert system.current().settings.auto_select_ipus[0] == system.device(0).num_ipus


def test_tensorflow_is_not_imported():
    program = (
        "import sys\n"
        "from tensorflow_ipu.runtime import system\n"
        "from tensorflow_ipu.configs import flags, legacy\n"
        "from tensorflow_ipu.configs.ipu_config import IPUConfig\n"
        "config = IPUConfig()\n"
        "config.auto_select_ipus = 2\n"
        "config.configure_ipu_system()\n"
        "assert system.get_num_of_ipus_in_device('/device:IPU:0') == 2\n"
        "print('tensorflow' in sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"
