"""Base of the Keras optimizers that wrap another one, and Keras's generations of optimizers."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import optimizer_steps
from tensorflow_ipu.util.short_repr import Shown, shows

# --- Generations of Keras's optimizers ---

# Keras 2.15 has two generations of optimizers, and asks of what class an optimizer is. So a wrapper
# needs the base class of the optimizer that it wraps. Wrappers are written once, without a base of
# Keras's; `of_generation` adds it when one is made.

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
        """Computes gradients of the scaled loss, as `compute_gradients` of later optimizers."""
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


# --- Base of wrappers ---

_CONFIG = "inner_optimizer_config"
_TYPE = "inner_optimizer_type"


@registered
class IpuOptimizer:
    """Passes everything on to the Keras optimizer that it wraps.

    An instance is an optimizer of the generation of the wrapped one (`tf.keras.optimizers` or
    `tf.keras.optimizers.legacy`), and has its hyperparameters, slots and weights; checkpoints are
    those of the wrapped one. Subclasses override what they change: `apply_gradients`, or
    `_scale_loss`.
    """

    # The class that the user sees; in classes that `generations` makes another than `type(self)`.
    _ipu_class: type[IpuOptimizer] | None = None

    def __new__(cls, opt: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Makes an optimizer of the generation of `opt`.

        Args:
            opt: a Keras optimizer.
            *args: arguments of `__init__`.
            **kwargs: likewise.

        Raises:
            ValueError: If `opt` is no Keras optimizer, or must not be wrapped.
        """
        if cls._ipu_class is not None:
            return object.__new__(cls)
        base = generation(opt)
        if base is None:
            raise ValueError(
                f"{cls.__name__} wraps a Keras optimizer: an instance of "
                "tf.keras.optimizers.Optimizer or tf.keras.optimizers.legacy.Optimizer. Received: "
                f"{opt!r} of type {type(opt).__name__}"
            )
        if isinstance(opt, IpuOptimizer) and opt._is_outermost:
            raise ValueError(
                f"The {type(opt).__name__} must not be wrapped by any other optimizer, but a "
                f"{cls.__name__} is to wrap it. Make it the outermost one."
            )
        wrapper: Any = cls
        return object.__new__(of_generation(wrapper, base))

    # Whether no other optimizer may wrap this one.
    _is_outermost = False

    def __init__(self, opt: Any, name: str | None = None) -> None:
        """Wraps an optimizer.

        Args:
            opt: a Keras optimizer of either generation.
            name: name of this one; by default its class's name.
        """
        # Keras's own constructors are not called: they would make state, which is in `opt`.
        for attribute in ("_opt", "_trackable"):
            object.__setattr__(self, attribute, opt)
        for attribute in ("name", "_name"):
            object.__setattr__(self, attribute, name or type(self).__name__)

    __repr__ = shows(lambda self: {"": wrapped(self._opt), "name": self.name})

    def __getattr__(self, name: str) -> Any:
        """Reads attributes that this optimizer lacks from the wrapped one."""
        if name == "_opt":  # not yet set
            raise AttributeError(name)
        return getattr(self._opt, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets attributes of the wrapped optimizer there, and all others here."""
        if "_opt" not in vars(self):  # being copied
            object.__setattr__(self, name, value)
        elif name in vars(self) or hasattr(type(self), name) or not _has(self._opt, name):
            super().__setattr__(name, value)
        else:
            setattr(self._opt, name, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = object.__new__(type(self))
        memo[id(self)] = made
        for name, value in vars(self).items():
            object.__setattr__(made, name, copy.deepcopy(value, memo))
        return made

    @property
    def inner_optimizer(self) -> Any:
        """The wrapped optimizer."""
        return self._opt

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        *args: Any,
        captured_grads: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Updates variables.

        Args:
            grads_and_vars: pairs of gradient and variable.
            *args: further arguments of the wrapped optimizer's `apply_gradients`.
            captured_grads: captured gradients by tag, for a wrapped optimizer that wants them.
            **kwargs: further arguments of the wrapped optimizer's `apply_gradients`.

        Returns:
            What the wrapped optimizer returns.
        """
        return optimizer_steps.apply_gradients(
            self._opt, list(grads_and_vars), captured_grads or {}, *args, **kwargs
        )

    def _scale_loss(self, loss: Any) -> Any:
        """Returns the value to differentiate instead of the loss: a tensor or a function."""
        return loss

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        return {
            "name": self.name,
            _CONFIG: self._opt.get_config(),
            _TYPE: _type_name(type(self._opt)),
        }

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None
    ) -> Any:
        """Makes an optimizer from the result of `get_config`.

        Args:
            config: the configuration.
            custom_objects: classes by name, for a wrapped optimizer that is not Keras's own.

        Returns:
            The optimizer.

        Raises:
            ValueError: If the wrapped optimizer is not in the configuration, or no Keras optimizer.
        """
        arguments = dict(config)
        for key in (_CONFIG, _TYPE):
            if key not in arguments:
                raise ValueError(
                    f"The configuration of a {cls.__name__} must have {key!r}, of the optimizer "
                    f"that it wraps. Received the keys: {sorted(arguments)}"
                )
        inner = _from_config(arguments.pop(_TYPE), arguments.pop(_CONFIG), custom_objects)
        return (cls._ipu_class or cls)(inner, **arguments)


def wrapped(opt: Any) -> Shown:
    """Shows a wrapped optimizer; Keras's own would show their address.

    Args:
        opt: the optimizer.
    """
    return Shown(repr(opt) if isinstance(opt, IpuOptimizer) else type(opt).__name__)


def _has(opt: Any, name: str) -> bool:
    """Returns whether an optimizer has an attribute to be set by others.

    What a wrapper has for itself only, as the one around it may too, does not count.
    """
    if isinstance(opt, IpuOptimizer):
        return hasattr(type(opt), name) or _has(opt._opt, name)
    return hasattr(opt, name)


def _type_name(kind: type) -> str:
    """Returns the name by which Keras finds a class; Keras's own classes have plain names."""
    own = kind.__module__.startswith(f"{keras2.PACKAGE}.")
    return kind.__name__ if own else str(tf.keras.utils.get_registered_name(kind))


def _from_config(
    kind: Any, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None
) -> Any:
    """Makes the wrapped optimizer from its class, or the name of that, and its configuration."""
    if isinstance(kind, str):
        serialized = {"class_name": kind, "config": dict(config)}
        opt = tf.keras.optimizers.deserialize(
            serialized, custom_objects=custom_objects, use_legacy_format=True
        )
    else:
        opt = kind.from_config(dict(config)) if hasattr(kind, "from_config") else kind
    if generation(opt) is None:
        raise ValueError(
            f"{_TYPE} must be the class of a Keras optimizer, or its name. Received: {kind!r}"
        )
    return opt


def wrapped_ones(opt: Any) -> Iterator[Any]:
    """Yields an optimizer and those inside it, from the outermost; wrappers of Keras count too.

    Args:
        opt: a Keras optimizer.
    """
    yield opt
    while isinstance(opt, (IpuOptimizer, tf.keras.mixed_precision.LossScaleOptimizer)):
        opt = opt.inner_optimizer
        yield opt


def innermost(opt: Any) -> Any:
    """Returns the optimizer inside all wrappers, wrappers of Keras included.

    Args:
        opt: a Keras optimizer.
    """
    *_, last = wrapped_ones(opt)
    return last
