"""Automatic loss scaling with an optimizer that is built from hyperparameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.optimizers import generations
from tensorflow_ipu.keras_layers.optimizers.als_optimizer import ALSOptimizer
from tensorflow_ipu.keras_layers.registration import registered

_legacy = tf.keras.optimizers.legacy


class _ALSOptimizerWithInner(ALSOptimizer):
    """An `ALSOptimizer` that makes the optimizer inside it.

    That is one of `tf.keras.optimizers.legacy`, the generation that these classes were made for.
    In the original they leave gradients scaled and undo that in the state of the inner optimizer:
    a matter of rounding and speed. Here the step is that of `ALSOptimizer`, which divides in
    float32. So slots hold what they hold without loss scaling, and can be loaded there.
    """

    # Names of the arguments that are for the inner optimizer.
    _hyperparameters: tuple[str, ...]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes an optimizer; the arguments are those of `__init__`."""
        if cls._ipu_class is not None:
            return object.__new__(cls)
        wrapper: Any = cls
        return object.__new__(generations.of_generation(wrapper, generations.LEGACY))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        inner = self._opt.get_config()
        return {
            "name": self.name,
            **{name: inner[name] for name in self._hyperparameters},
            **dataclasses.asdict(self._rule),
        }

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None
    ) -> Any:
        """Makes an optimizer from what `get_config` returned.

        Args:
            config: the configuration.
            custom_objects: classes by name, for a learning rate that is a schedule.

        Returns:
            The optimizer.
        """
        arguments = dict(config)
        rate = arguments.get("learning_rate")
        if isinstance(rate, Mapping):
            arguments["learning_rate"] = tf.keras.optimizers.schedules.deserialize(
                rate, custom_objects, use_legacy_format=True
            )
        return (cls._ipu_class or cls)(**arguments)


def _check_learning_rate(cls: type, learning_rate: Any) -> None:
    """Refuses an optimizer, which `ALSOptimizer` takes in that place."""
    if generations.generation(learning_rate) is not None:
        raise ValueError(
            f"{cls.__name__} is made of hyperparameters and makes its optimizer itself: expected "
            "learning_rate to be a number, a tensor, a schedule or a function. Received an "
            f"optimizer: {learning_rate!r}. Use ALSOptimizer to wrap it."
        )


@registered
class ALSOptimizerAdam(_ALSOptimizerWithInner):
    """Adam with automatic loss scaling; see `ALSOptimizer`."""

    _hyperparameters = ("learning_rate", "beta_1", "beta_2", "epsilon")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        initial_loss_scaling_factor: float = 1,
        update_frequency: int = 8,
        increase_factor: float = 2,
        max_loss_scaling_factor: float = 32768,
        accumulate_statistics_over_update_period: bool = True,
        ratio_threshold: float = 10e-6,
        captured_grads_only: bool = False,
        lpf_alpha: float = 0.0,
        histogram_bin_edge: float = 8192,
        name: str = "ALSOptimizerAdam",
    ) -> None:
        """Makes an optimizer.

        Args:
            learning_rate: see `tf.keras.optimizers.legacy.Adam`.
            beta_1: likewise.
            beta_2: likewise.
            epsilon: likewise.
            initial_loss_scaling_factor: see `ALSOptimizer`.
            update_frequency: likewise.
            increase_factor: likewise.
            max_loss_scaling_factor: likewise.
            accumulate_statistics_over_update_period: likewise.
            ratio_threshold: likewise.
            captured_grads_only: likewise.
            lpf_alpha: likewise.
            histogram_bin_edge: likewise.
            name: name of this optimizer.

        Raises:
            ValueError: If an argument is not allowed.
        """
        _check_learning_rate(ALSOptimizerAdam, learning_rate)
        super().__init__(
            _legacy.Adam(learning_rate, beta_1, beta_2, epsilon),
            initial_loss_scaling_factor=initial_loss_scaling_factor,
            update_frequency=update_frequency,
            increase_factor=increase_factor,
            max_loss_scaling_factor=max_loss_scaling_factor,
            accumulate_statistics_over_update_period=accumulate_statistics_over_update_period,
            ratio_threshold=ratio_threshold,
            captured_grads_only=captured_grads_only,
            lpf_alpha=lpf_alpha,
            histogram_bin_edge=histogram_bin_edge,
            name=name,
        )


@registered
class ALSOptimizerRMSProp(_ALSOptimizerWithInner):
    """RMSprop with automatic loss scaling; see `ALSOptimizer`."""

    _hyperparameters = ("learning_rate", "rho", "momentum", "epsilon", "centered")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        initial_loss_scaling_factor: float = 1,
        update_frequency: int = 8,
        increase_factor: float = 2,
        max_loss_scaling_factor: float = 32768,
        accumulate_statistics_over_update_period: bool = True,
        ratio_threshold: float = 10e-6,
        captured_grads_only: bool = False,
        lpf_alpha: float = 0.0,
        histogram_bin_edge: float = 8192,
        name: str = "ALSOptimizerRMSProp",
    ) -> None:
        """Makes an optimizer.

        Args:
            learning_rate: see `tf.keras.optimizers.legacy.RMSprop`.
            rho: likewise.
            momentum: likewise.
            epsilon: likewise.
            centered: likewise.
            initial_loss_scaling_factor: see `ALSOptimizer`.
            update_frequency: likewise.
            increase_factor: likewise.
            max_loss_scaling_factor: likewise.
            accumulate_statistics_over_update_period: likewise.
            ratio_threshold: likewise.
            captured_grads_only: likewise.
            lpf_alpha: likewise.
            histogram_bin_edge: likewise.
            name: name of this optimizer.

        Raises:
            ValueError: If an argument is not allowed.
        """
        _check_learning_rate(ALSOptimizerRMSProp, learning_rate)
        super().__init__(
            _legacy.RMSprop(learning_rate, rho, momentum, epsilon, centered),
            initial_loss_scaling_factor=initial_loss_scaling_factor,
            update_frequency=update_frequency,
            increase_factor=increase_factor,
            max_loss_scaling_factor=max_loss_scaling_factor,
            accumulate_statistics_over_update_period=accumulate_statistics_over_update_period,
            ratio_threshold=ratio_threshold,
            captured_grads_only=captured_grads_only,
            lpf_alpha=lpf_alpha,
            histogram_bin_edge=histogram_bin_edge,
            name=name,
        )


@registered
class ALSOptimizerSGD(_ALSOptimizerWithInner):
    """Gradient descent, with or without momentum, with automatic loss scaling."""

    _hyperparameters = ("learning_rate", "momentum")

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        initial_loss_scaling_factor: float = 1,
        update_frequency: int = 8,
        increase_factor: float = 2,
        max_loss_scaling_factor: float = 32768,
        accumulate_statistics_over_update_period: bool = True,
        ratio_threshold: float = 10e-6,
        captured_grads_only: bool = False,
        lpf_alpha: float = 0.0,
        histogram_bin_edge: float = 8192,
        name: str = "ALSOptimizerSGD",
    ) -> None:
        """Makes an optimizer.

        Args:
            learning_rate: see `tf.keras.optimizers.legacy.SGD`.
            momentum: likewise.
            initial_loss_scaling_factor: see `ALSOptimizer`.
            update_frequency: likewise.
            increase_factor: likewise.
            max_loss_scaling_factor: likewise.
            accumulate_statistics_over_update_period: likewise.
            ratio_threshold: likewise.
            captured_grads_only: likewise.
            lpf_alpha: likewise.
            histogram_bin_edge: likewise.
            name: name of this optimizer.

        Raises:
            ValueError: If an argument is not allowed.
        """
        _check_learning_rate(ALSOptimizerSGD, learning_rate)
        super().__init__(
            _legacy.SGD(learning_rate, momentum),
            initial_loss_scaling_factor=initial_loss_scaling_factor,
            update_frequency=update_frequency,
            increase_factor=increase_factor,
            max_loss_scaling_factor=max_loss_scaling_factor,
            accumulate_statistics_over_update_period=accumulate_statistics_over_update_period,
            ratio_threshold=ratio_threshold,
            captured_grads_only=captured_grads_only,
            lpf_alpha=lpf_alpha,
            histogram_bin_edge=histogram_bin_edge,
            name=name,
        )
