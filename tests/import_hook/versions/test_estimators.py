"""Tests that Estimators are there in every TensorFlow; tests/estimators/ runs them."""

from __future__ import annotations

import sys

import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tensorflow_ipu.import_hook.versions import estimator_training, estimators
from tests.support.checkout.versions import needs_tensorflow

DROPPED = needs_tensorflow(">=2.16", "TensorFlow itself has Estimators")


def test_all_apis_of_tensorflow_have_estimators():
    assert tf.estimator.Estimator is tf.compat.v2.estimator.Estimator
    assert issubclass(tf.estimator.Estimator, tf.compat.v1.estimator.Estimator)
    from tensorflow.estimator import RunConfig

    assert RunConfig is tf.estimator.RunConfig
    assert issubclass(ipu.ipu_run_config.RunConfig, tf.compat.v1.estimator.RunConfig)


@DROPPED
def test_estimators_for_tpus_are_refused():
    from tensorflow.python.tpu import tpu_embedding

    with pytest.raises(NotImplementedError, match="tpu_embedding.AdamParameters was dropped"):
        tpu_embedding.AdamParameters(0.1)
    assert not hasattr(tpu_embedding, "__wrapped__")


@DROPPED
def test_only_programs_that_import_ipu_have_them(run_python):
    run_python(
        "import tensorflow as tf\n"
        "assert not hasattr(tf, 'estimator')\n"
        "from tensorflow.python import ipu\n"
        "assert hasattr(tf, 'estimator')\n"
        "import sys\n"
        "assert 'tensorflow_estimator.python' not in sys.modules\n"
        "assert tf.estimator.ModeKeys.TRAIN == 'train'\n"
    )


@DROPPED
def test_without_package_errors_say_what_to_install(run_python):
    process = run_python(
        "import sys\n"
        "sys.modules['tensorflow_estimator'] = None\n"
        "import tensorflow as tf\n"
        "from tensorflow.python import ipu\n"
        "assert not hasattr(tf, 'estimator') and not hasattr(tf, 'nothing')\n"
        "for use in ('tf.estimator', 'ipu.ipu_estimator', 'ipu.ipu_run_config'):\n"
        "    try: eval(use)\n"
        "    except (AttributeError, ImportError) as error: print(error)\n"
    )
    lines = process.stdout.splitlines()[-3:]
    assert all(f'pip install "{estimators.REQUIREMENT}"' in line for line in lines)
    assert lines[0].startswith("module 'tensorflow' has no attribute 'estimator'")


class _Config:
    """The members of a stock `RunConfig` that the module reads and sets."""

    def __init__(self, strategy, experimental=None):
        self._train_distribute, self._eval_distribute = strategy, None
        self._experimental_distribute = experimental
        self.seen = []

    def _init_distributed_setting_from_environment_var(self, tf_config):
        self.seen.append(dict(tf_config))

    def _maybe_overwrite_session_config_for_distributed_training(self):
        self.seen.append("sessions")


CLUSTER = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 0}}


@pytest.mark.parametrize(
    ("strategy", "tf_config", "coordinated"),
    [
        ("a strategy", {}, False),
        ("a strategy", {"cluster": {"master": ["a:1"]}}, False),
        (None, CLUSTER, False),
        ("a strategy", CLUSTER, True),
    ],
)
def test_only_workers_of_a_cluster_need_a_coordinator(strategy, tf_config, coordinated):
    config = _Config(strategy)
    estimator_training.init_run_config(config, tf_config)
    assert estimator_training.should_run_distribute_coordinator(config) is coordinated
    assert config.seen == ([{}] if coordinated else [tf_config, "sessions"])


def test_a_strategy_is_given_once():
    experimental = type("Distribute", (), {"train_distribute": "b", "eval_distribute": "c"})()
    config = _Config(None, experimental)
    estimator_training.init_run_config(config, {})
    assert (config._train_distribute, config._eval_distribute) == ("b", "c")
    with pytest.raises(ValueError, match="Either `train_distribute` or"):
        estimator_training.init_run_config(_Config("a", experimental), {})


def test_cluster_with_a_strategy_of_tensorflow_is_refused():
    for name in ("train_and_evaluate", "estimator_train", "estimator_evaluate"):
        with pytest.raises(NotImplementedError, match="need TensorFlow 2.15"):
            getattr(estimator_training, name)()


@DROPPED
def test_module_has_name_of_one_that_was_dropped():
    name = "tensorflow.python.distribute.estimator_training"
    assert sys.modules[name] is estimator_training
