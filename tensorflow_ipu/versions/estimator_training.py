"""What `tensorflow_estimator` imports of `tensorflow.python.distribute.estimator_training`.

TensorFlow 2.16 dropped that module, and with it the coordinator of the workers of a cluster. The
workers of IPUs need none (`estimators/workers.py`), so all that is done here is what it does for
one worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Protocol


class _Distribute(Protocol):
    """The strategies of a stock `RunConfig`, as `tf.contrib.distribute` took them."""

    train_distribute: Any
    eval_distribute: Any


class _RunConfig(Protocol):
    """What a stock `RunConfig` has for this module to set."""

    _experimental_distribute: _Distribute | None
    _train_distribute: Any
    _eval_distribute: Any
    _distribute_coordinator_mode: str | None

    def _init_distributed_setting_from_environment_var(self, tf_config: Mapping[str, Any]) -> None:
        """Sets which worker this is."""

    def _maybe_overwrite_session_config_for_distributed_training(self) -> None:
        """Sets which devices of a cluster sessions see."""


def init_run_config(config: _RunConfig, tf_config: Mapping[str, Any]) -> None:
    """Sets what a `RunConfig` with a strategy says of workers.

    Args:
        config: the configuration.
        tf_config: what the environment variable TF_CONFIG says.

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
    """Refuses; the name is that of the function for several workers.

    Raises:
        NotImplementedError: In any case.
    """
    raise NotImplementedError(
        "Estimators with a strategy of TensorFlow and several workers in TF_CONFIG need TensorFlow "
        "2.15: later ones cannot coordinate them. The strategies of ipu "
        "(ipu.distributed.popdist_strategy) need no coordination."
    )


estimator_train = estimator_evaluate = train_and_evaluate
