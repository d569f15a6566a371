"""Refuses models, layers and optimizers that were made for another device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tensorflow_ipu.compiler import current_scope, strategy_scope
from tensorflow_ipu.compiler.checks.foreign_resources import short_name

# Kind of a part, the part, and what else there is to do than to make it in the scope.
_Part = tuple[str, Any, str]


def check_stock_model(model: Any) -> None:
    """Refuses a model of stock Keras that is run or compiled in a scope it was not made in.

    Args:
        model: a Keras model without the extensions.

    Raises:
        ValueError: If it was made in no scope.
        RuntimeError: If it was made in that of another strategy.
    """
    current, made_in = strategy_scope.current(), model._distribution_strategy
    if current is None or made_in is current:
        return
    if made_in is not None:
        raise _mixed(model, made_in, current)
    raise ValueError(
        f"The model {model.name!r} ({type(model).__name__}) was made outside the scope of the "
        f"IPUStrategy for {current.ipu_device}, so it is one of the host. Make it inside `with "
        "strategy.scope():`, and its layers, optimizer and metrics too. To run it on the host, "
        "leave the scope."
    )


def strategy_of(model: Any, made_in: Any) -> Any:
    """Returns the strategy that a model runs in.

    Args:
        model: an extended model.
        made_in: the strategy whose scope it was made in.

    Returns:
        The one whose scope is open, if that is for the same device; else `made_in`.

    Raises:
        RuntimeError: If the scope that is open is for another device.
    """
    current = strategy_scope.current()
    if current is None or current is made_in:
        return made_in
    if not strategy_scope.same_device(current, made_in):
        raise _mixed(model, made_in, current)
    return current


def check_parts(model: Any, optimizer: Any, metrics: Any) -> None:
    """Refuses what a model is made of and compiled with, if its variables are elsewhere.

    Args:
        model: an extended model.
        optimizer: what `compile` got: an optimizer, its name, or a structure of those.
        metrics: likewise.

    Raises:
        ValueError: Naming the first part that was made outside the scope.
    """
    device = model.distribute_strategy.ipu_device
    for kind, part, otherwise in _parts(model, optimizer, metrics):
        elsewhere = [one for one in _variables(part) if not _is_on(one.device, device)]
        if elsewhere:
            name = getattr(part, "name", None) or type(part).__name__
            names = ", ".join(repr(variable.name.split(":")[0]) for variable in elsewhere[:3])
            more = " and more" if len(elsewhere) > 3 else ""
            raise ValueError(
                f"The {kind} {name!r} ({type(part).__name__}) of the model {model.name!r} was "
                "created inside a different distribution strategy scope than the model, or in "
                f"none: its variables ({names}{more}) are on {short_name(elsewhere[0].device)}, "
                f"and programs on {device} cannot use them. Make it inside `with "
                f"strategy.scope():`{otherwise}."
            )


def _is_on(found: str, device: str) -> bool:
    """Returns whether a device name is that of an IPU device, or of none in particular."""
    if not found:
        return True
    return current_scope.is_ipu(found) and (
        current_scope.ordinal(found) == current_scope.ordinal(device)
    )


def _mixed(model: Any, made_in: Any, current: Any) -> RuntimeError:
    """Returns the error for a model in a scope that is not its own, with TensorFlow's phrase."""
    return RuntimeError(
        "Mixing different tf.distribute.Strategy objects: the model "
        f"{model.name!r} ({type(model).__name__}) was made in the scope of {_described(made_in)}, "
        f"and is used in that of {_described(current)}. Leave this scope, or make the model in it."
    )


def _described(strategy: Any) -> str:
    device = getattr(strategy, "ipu_device", None)
    if device is None:
        return f"a {type(strategy).__name__}"
    extensions = "" if strategy.enable_keras_extensions else " without Keras extensions"
    return f"an IPUStrategy for {device}{extensions}"


def _parts(model: Any, optimizer: Any, metrics: Any) -> Iterator[_Part]:
    named = ", or pass compile() its name"
    for one in tf.nest.flatten(optimizer):
        yield "optimizer", one, named
    for one in tf.nest.flatten(metrics):
        yield "metric", one, named
    for layer in model._flatten_layers():
        yield "layer", layer, ""


def _variables(part: Any) -> list[Any]:
    """Returns the variables that a part has itself, not those of parts of it."""
    if isinstance(part, tf.keras.layers.Layer):
        return [*part._trainable_weights, *part._non_trainable_weights]
    variables = getattr(part, "variables", ())
    return list(variables() if callable(variables) else variables)
