"""Classes that Keras takes for its optimizers and that pass the work to a wrapped one.

Keras 2.15 has two generations of optimizers, and asks of what class an optimizer is. So a wrapper
needs the base class of the optimizer that it wraps. Wrappers are written once, without a base of
Keras's; `of_generation` adds it when one is made.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tensorflow_ipu.training import optimizer_steps
from tensorflow_ipu.versions import keras2

NEW = tf.keras.optimizers.Optimizer
LEGACY = tf.keras.optimizers.legacy.Optimizer

# What Keras defines in terms of the rest, so that the wrapper's own part in it is used; and what
# wrappers define.
_NOT_DELEGATED = frozenset(
    {
        "minimize",
        "get_updates",
        "compute_gradients",
        "_compute_gradients",
        "get_gradients",
        "apply_gradients",
        "get_config",
        "from_config",
        "_HAS_AGGREGATE_GRAD",
        "_keras_api_names",
        "_keras_api_names_v1",
    }
)


def generation(opt: Any) -> type | None:
    """Returns the base class of an optimizer, None if it is no Keras optimizer."""
    return next((base for base in (NEW, LEGACY) if isinstance(opt, base)), None)


@functools.cache
def of_generation(wrapper: Any, base: Any) -> Any:
    """Returns the class of wrappers around optimizers of one generation.

    Args:
        wrapper: a subclass of `IpuOptimizer`.
        base: `NEW` or `LEGACY`.

    Returns:
        A subclass of both, under the name of `wrapper`.
    """
    namespace = {
        "__module__": wrapper.__module__,
        "__qualname__": wrapper.__qualname__,
        "__doc__": wrapper.__doc__,
        "_ipu_class": wrapper,
    }
    made = type(wrapper.__name__, (wrapper, _delegating(base)), namespace)
    registered = tf.keras.utils.get_registered_name(wrapper)
    if ">" in registered:  # then `made` is saved under the same name, and `wrapper` loaded
        package, name = registered.split(">", 1)
        for cls in (made, wrapper):
            tf.keras.utils.register_keras_serializable(package, name)(cls)
    return made


@functools.cache
def _delegating(base: Any) -> Any:
    """Returns a subclass of a Keras optimizer class that gets everything from `self._opt`."""
    members = {
        name: _Delegated(name, member)
        for ancestor in reversed(_keras_ancestors(base))
        for name, member in vars(ancestor).items()
        if name not in _NOT_DELEGATED and not name.startswith("__")
    }
    own = _LegacyGradients if base is LEGACY else _NewGradients
    # The mixin makes checkpoints look like those of the wrapped optimizer: a model can be saved
    # with the wrapper and restored without.
    mixin = tf.__internal__.tracking.DelegatingTrackableMixin
    return type(f"Delegating{base.__name__}", (own, mixin, base), members)


def _keras_ancestors(base: type) -> list[type]:
    return [cls for cls in base.__mro__ if cls.__module__.startswith(f"{keras2.PACKAGE}.")]


class _Delegated:
    """An attribute that is the wrapped optimizer's."""

    def __init__(self, name: str, original: Any) -> None:
        self._name = name
        self._original = original

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._original
        return getattr(instance._opt, self._name)

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(instance._opt, self._name, value)


class _NewGradients:
    """How optimizers since Keras 2.11 compute gradients."""

    _opt: Any
    _scale_loss: Any

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[Any]:
        """Computes the gradients of a loss.

        Args:
            loss: a tensor, or a function that returns one.
            var_list: variables to differentiate by, or a function that returns them.
            tape: the tape that recorded the loss, if that is a tensor.

        Returns:
            Pairs of gradient and variable, for `apply_gradients`.
        """
        tape, scaled = _recorded(self._scale_loss, loss, tape)
        return list(self._opt.compute_gradients(scaled, var_list, tape=tape))


class _LegacyGradients:
    """How optimizers up to Keras 2.10 compute gradients."""

    _opt: Any
    _scale_loss: Any
    # That `apply_gradients` has the argument `experimental_aggregate_gradients`.
    _HAS_AGGREGATE_GRAD = True

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[Any]:
        """Does what `compute_gradients` of later optimizers does."""
        tape, scaled = _recorded(self._scale_loss, loss, tape)
        return list(self._opt._compute_gradients(scaled, var_list, grad_loss, tape=tape))

    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        """Computes the gradients of a loss in a graph.

        Args:
            loss: the loss, a tensor.
            params: the variables.

        Returns:
            The gradients, for `apply_gradients`.
        """
        return list(self._opt.get_gradients(self._scale_loss(loss), params))


def _recorded(scale: Callable[[Any], Any], loss: Any, tape: Any) -> tuple[Any, Any]:
    """Returns the tape to use, and the loss as it is to be differentiated."""
    if tape is None:
        return None, scale(loss)
    tape = optimizer_steps.reentrant(tape)
    with tape:
        return tape, scale(loss)
