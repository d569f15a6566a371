"""Stand-in for the module `tensorflow.python.distribute.estimator_training`.

`tensorflow_estimator` imports it, and TensorFlow 2.16 dropped it, with the coordinator of the
workers of a cluster. The workers of IPUs need none (`estimators/sessions.py`), so this module does
only the original's work for one worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Protocol


class _Distribute(Protocol):
    """The strategies of a stock `RunConfig`, as `tf.contrib.distribute` took them."""

    train_distribute: Any
    eval_distribute: Any


class _RunConfig(Protocol):
    """The attributes of a stock `RunConfig` that this module sets."""

    _experimental_distribute: _Distribute | None
    _train_distribute: Any
    _eval_distribute: Any
    _distribute_coordinator_mode: str | None

    def _init_distributed_setting_from_environment_var(self, tf_config: Mapping[str, Any]) -> None:
        """Sets the task of this worker."""

    def _maybe_overwrite_session_config_for_distributed_training(self) -> None:
        """Sets the devices of a cluster that sessions see."""


def init_run_config(config: _RunConfig, tf_config: Mapping[str, Any]) -> None:
    """Sets the attributes of a `RunConfig` about workers, for a strategy.

    Args:
        config: the configuration.
        tf_config: the content of the environment variable TF_CONFIG.

    Raises:
        ValueError: The strategy is given twice.
    """
    for name in ("train_distribute", "eval_distribute"):
        given = getattr(config._experimental_distribute, name, None)
        if given is not None:
            if getattr(config, f"_{name}"):
                raise ValueError(
                    f"Either `{name}` or `experimental_distribute.{name}` can be set. Got both."
                )
            setattr(config, f"_{name}", given)
    cluster = tf_config.get("cluster", {})
    alone = not cluster or "master" in cluster or not config._train_distribute
    config._distribute_coordinator_mode = None if alone else "independent_worker"
    config._init_distributed_setting_from_environment_var(tf_config if alone else {})
    if alone:
        config._maybe_overwrite_session_config_for_distributed_training()


def should_run_distribute_coordinator(config: _RunConfig) -> bool:
    """Returns whether a `RunConfig` is for a worker of a cluster that has to be coordinated."""
    return getattr(config, "_distribute_coordinator_mode", None) is not None


def train_and_evaluate(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises: stand-in for the original's training with several workers.

    Raises:
        NotImplementedError: In any case.
    """
    raise NotImplementedError(
        "Estimators with a strategy of TensorFlow and several workers in TF_CONFIG need TensorFlow "
        "2.15: later ones cannot coordinate them. The strategies of ipu "
        "(ipu.distributed.popdist_strategy) need no coordination."
    )


estimator_train = estimator_evaluate = train_and_evaluate
