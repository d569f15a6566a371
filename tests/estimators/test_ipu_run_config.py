from __future__ import annotations

import copy

import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tests.support.models import estimator_models as models

IPURunConfig = ipu.ipu_run_config.IPURunConfig
RunConfig = ipu.ipu_run_config.RunConfig


def _options(**values):
    options = ipu.config.IPUConfig()
    for name, value in values.items():
        setattr(options, name, value)
    return options


def test_defaults_are_those_of_the_reference() -> None:
    config = IPURunConfig()
    assert config == (1, None, False, 1, 1, 0, None)
    assert RunConfig().ipu_run_config == config
    assert RunConfig().master == ""


def test_run_config_keeps_what_it_is_given() -> None:
    config = IPURunConfig(2, _options(auto_select_ipus=[1, 4]), True, 2, 2, 1, 5)
    run_config = RunConfig(config, master="local", tf_random_seed=3, save_summary_steps=7)
    # As estimators do.
    copied = copy.deepcopy(run_config.replace(model_dir="x"))
    assert copied.ipu_run_config[:1] == (2,)
    assert copied.ipu_run_config.ipu_options.auto_select_ipus == [1, 4]
    assert copied.ipu_run_config[2:] == (True, 2, 2, 1, 5)
    assert (copied.master, copied.evaluation_master) == ("local", "local")
    assert (copied.tf_random_seed, copied.save_summary_steps) == (3, 7)


@pytest.mark.parametrize(
    ("arguments", "error", "phrases"),
    [
        ({"num_replicas": 2}, ValueError, ["requires more than one device, but `ipu_options` is"]),
        ({"num_shards": 2}, ValueError, ["requires more than one device, but `ipu_options` is"]),
        ({"ipu_options": {"auto_select_ipus": 1}}, TypeError, ["ipu_options", "dict"]),
        (
            {"ipu_options": _options(auto_select_ipus=[1, 1]), "ordinal": 2},
            ValueError,
            ["available to choose from"],
        ),
        (
            {"ipu_options": _options(select_ipus=[0, 1]), "ordinal": 2},
            ValueError,
            ["available to choose from"],
        ),
        (
            {"ipu_options": _options(auto_select_ipus=4), "num_replicas": 2},
            ValueError,
            [
                "`IPURunConfig` configured with 2 devices (2 replicas times 1 shards), ",
                "but `IpuOptions` configured with 4 devices",
            ],
        ),
        (
            {"ipu_options": _options(auto_select_ipus=[2, 4]), "num_shards": 2, "ordinal": 1},
            ValueError,
            ["`IPURunConfig` configured with 2", "but `IpuOptions` configured with 4"],
        ),
        (
            {"ipu_options": _options(), "num_replicas": 2},
            ValueError,
            ["`IPURunConfig` configured with 2", "but `IpuOptions` configured with 1"],
        ),
        ({"num_replicas": 4}, ValueError, ["Pass an IPUConfig with auto_select_ipus = 4."]),
        (
            {"num_replicas": 3},
            ValueError,
            ["No device has 3 IPUs", "of 16 IPUs has devices with 1, 2, 4, 8 or 16 IPUs."],
        ),
        (
            {"ipu_options": _options(auto_select_ipus=16), "num_shards": 99},
            ValueError,
            ["configured with 16", "No device has 99 IPUs", "The machine of 16 IPUs"],
        ),
        ({"iterations_per_loop": 0}, ValueError, ["iterations_per_loop"]),
        ({"num_replicas": 0}, ValueError, ["num_replicas"]),
        ({"num_shards": -1}, ValueError, ["num_shards"]),
        ({"ordinal": -1}, ValueError, ["ordinal"]),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, phrases) -> None:
    with pytest.raises(error) as raised:
        IPURunConfig(**arguments)
    for phrase in phrases:
        assert phrase in str(raised.value)


def test_run_config_of_something_else() -> None:
    with pytest.raises(TypeError, match="IPURunConfig"):
        RunConfig({"num_replicas": 1})


def test_contradictory_options_of_a_message_are_refused() -> None:
    options = ipu.utils.auto_select_ipus(ipu.utils.create_ipu_config(), [1, 2])
    assert IPURunConfig(ipu_options=options, num_replicas=2, ordinal=1).num_ipus == 2
    with pytest.raises(ValueError, match="but `IpuOptions` configured with 2"):
        IPURunConfig(ipu_options=options, ordinal=1)


def test_selected_ids_are_checked_when_the_session_starts() -> None:
    """Only the system knows that the id 16 of the listing stands for two IPUs."""
    listed = {"ipu_options": _options(select_ipus=[0, 16])}
    wrong = models.run_config(ipu={**listed, "ordinal": 1})
    with pytest.raises(ValueError, match="but `IpuOptions` configured with 2"):
        models.estimator(wrong).train(models.repeated, steps=1)
    right = models.run_config(replicas=2, ipu={**listed, "ordinal": 1})
    models.estimator(right).train(models.repeated, steps=1)


def test_stock_configuration_is_no_configuration_for_ipus() -> None:
    with pytest.raises(ValueError, match="RunConfig"):
        models.estimator(tf.estimator.RunConfig())


@pytest.mark.parametrize("argument", ["train_distribute", "eval_distribute"])
def test_distribution_strategies_of_others_are_refused(argument: str) -> None:
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with pytest.raises(NotImplementedError, match=f"OneDeviceStrategy: {argument} must be None"):
        models.estimator(models.run_config(**{argument: strategy}))
