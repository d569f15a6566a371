"""Checks that a Keras model can run on the device, with all its parts made for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.compiler import current_scope
from tensorflow_ipu.compiler.checks.foreign_resources import short_name
from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers.optimizers import ipu_optimizer
from tensorflow_ipu.keras_layers.pipelining import listing, model_types
from tensorflow_ipu.keras_layers.pipelining import pipeline_programs as pipelined
from tensorflow_ipu.ops import optimizer_steps

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel


functional_lib = keras2.module("engine.functional")
training_lib = keras2.module("engine.training")
new_optimizer = keras2.module("optimizers.optimizer")
optimizer_v2 = keras2.module("optimizers.legacy.optimizer_v2")
# Methods that programs take the place of, by the method that a user calls.
_REPLACED = {
    "fit": ("make_train_function",),
    "evaluate": ("make_test_function",),
    "predict": ("make_predict_function",),
}


def check(model: IPUModel, method: str) -> None:
    """Raises if a model cannot run on the device.

    Args:
        model: an extended model.
        method: the method called: "fit", "evaluate" or "predict".

    Raises:
        RuntimeError: If it is to run eagerly, or has methods of its own instead of those that
            programs are made of; a `train_step`, unless that is allowed and has a place.
        NotImplementedError: If it is a subclass of `Model` without `call`.
        ValueError: If `call` takes several positional arguments, or steps for an execution are to
            be found automatically.
    """
    if method != "predict":
        model._assert_compile_was_called()
    # Keras's own checks, of the arguments of `call` and of where this is called.
    model._check_call_args(method)
    training_lib._disallow_inside_tf_function(method)
    if model.run_eagerly:
        raise RuntimeError(
            "Keras models cannot run eagerly when using `IPUStrategy`: their steps are compiled "
            "for the IPU. Leave out run_eagerly=True in compile(), and do not use "
            "tf.config.run_functions_eagerly(True)."
        )
    if model.autotune_steps_per_execution:
        raise ValueError(
            'steps_per_execution="auto" is not supported on the IPU, where a program has a fixed '
            "number of steps. Pass a number to compile()."
        )
    for name in _REPLACED[method]:
        _check_not_overridden(model, method, name)
    if method == "fit" and is_overridden(model, "train_step"):
        _check_own_train_step(model)
    if is_subclass(model) and not _has_own_step(model, method):
        model_types.check_subclass_call(model)


def check_with_data(model: IPUModel, method: str, element_spec: Any) -> None:
    """Raises if a model cannot run on some data, and finds out whether it is pipelined.

    Args:
        model: an extended model that `check` lets pass.
        method: the method called: "fit", "evaluate" or "predict".
        element_spec: specs of the dataset's elements, as far as known.

    Raises:
        RuntimeError: If it is pipelined, and not as pipelines must be.
        ValueError: Likewise; or if the optimizer does not allow for gradients to be accumulated.
    """
    if is_subclass(model) and not _has_own_step(model, method):
        listing.learn_stages(model, element_spec, training=method == "fit")
    if model._is_pipelined():
        if method == "fit" and is_overridden(model, "train_step"):
            _check_own_train_step(model)
        pipelined.check(model, method)
    if method == "fit" and (model._is_pipelined() or accumulation_steps(model) > 1):
        check_optimizer(model.optimizer)
        _check_v2_optimizer(model)


def is_subclass(model: IPUModel) -> bool:
    """Returns whether a model is neither functional nor Sequential: its class defines `call`."""
    return not isinstance(model, functional_lib.Functional)


def _has_own_step(model: IPUModel, method: str) -> bool:
    """Returns whether a model overrides the step of a method, which may then not use `call`."""
    steps = {"fit": "train_step", "evaluate": "test_step", "predict": "predict_step"}
    return is_overridden(model, steps[method])


def accumulation_steps(model: IPUModel) -> int:
    """Returns the mini-batches of each replica for one update in `fit`; 1 without accumulation."""
    options = model._ipu_options
    if model._is_pipelined():
        return options.pipelining_gradient_accumulation_steps_per_replica or 1
    return options.gradient_accumulation_steps_per_replica or 1


def check_accumulation(model: IPUModel, per_execution: int) -> None:
    """Raises if executions do not end with an update.

    Args:
        model: an extended model.
        per_execution: steps of an execution.

    Raises:
        RuntimeError: If they are no multiple of the steps for an update.
    """
    count = accumulation_steps(model)
    if per_execution % count:
        pipelined_model = "pipelined model" if model._is_pipelined() else "model"
        raise RuntimeError(
            f"The {pipelined_model} has been configured to use gradient accumulation for training, "
            f"however the current `steps_per_execution` value (set to {per_execution}) is not "
            f"divisible by `gradient_accumulation_steps_per_replica` ({count}): every execution "
            f"has to end with an update. Choose a multiple of {count} for `steps_per_execution` in "
            "compile()."
        )


def check_optimizer(optimizer: Any) -> None:
    """Raises if an optimizer has its own `minimize`, which hides its gradients.

    Args:
        optimizer: the optimizer of a compiled model.

    Raises:
        ValueError: If it, or one that it wraps, is a Keras optimizer whose class has a `minimize`
            of its own.
    """
    stock = (optimizer_v2.OptimizerV2.minimize, new_optimizer._BaseOptimizer.minimize)
    if optimizer_steps.native_optimizer(optimizer) is not None:
        return  # has `compute_gradients` and `apply_gradients` to be called one by one
    for one in ipu_optimizer.wrapped_ones(optimizer):
        # What a class inherits, such as AdamW from its weight decay, its author knows of.
        if "minimize" in vars(type(one)) and type(one).minimize not in stock:
            raise ValueError(
                "With gradient accumulation or pipelining, the optimizer must not override "
                "OptimizerV2.minimize, because gradients are computed and applied at different "
                "times. Override apply_gradients instead. Received: a "
                f"{type(one).__name__}, which has a minimize() of its own"
            )


def _check_v2_optimizer(model: IPUModel) -> None:
    """Raises if an option for Keras optimizers is set for another optimizer."""
    asked = model._ipu_options.use_v2_gradient_accumulation_optimizer
    native = optimizer_steps.native_optimizer(model.optimizer)
    if asked and native is not None:
        raise ValueError(
            "use_v2_gradient_accumulation_optimizer may only be set to True when an OptimizerV2 "
            f"derived optimizer is used. Received: a {type(native).__name__} of TensorFlow 1. "
            "Leave the option out of set_gradient_accumulation_options(), or compile the model "
            "with an optimizer of tf.keras.optimizers."
        )


def is_overridden(model: IPUModel, name: str) -> bool:
    """Returns whether a model or its class overrides a method of Keras."""
    return name in vars(model) or getattr(type(model), name) is not getattr(tf.keras.Model, name)


def _check_own_train_step(model: IPUModel) -> None:
    """Raises if the model's own `train_step` is not allowed or cannot be used."""
    overridden = f"The function `train_step` for the model {model.name} has been overridden"
    if model._is_pipelined():
        raise RuntimeError(
            f"{overridden}. fit() does not call it for a pipelined model, which runs stage by "
            "stage, whatever set_custom_train_step() says. Take the layers out of their stages "
            "with model.reset_pipeline_stage_assignment(), or remove the function."
        )
    enabled = model._ipu_options.custom_train_step
    if enabled is None:
        enabled = model._distribution_strategy.enable_custom_train_step
    if not enabled:
        raise RuntimeError(
            f"{overridden}, and fit() calls it only if it is told to. To compile it into the "
            "program, call model.set_custom_train_step(), or create the strategy with "
            "IPUStrategy(enable_custom_train_step=True). For plain Keras, create it with "
            "IPUStrategy(enable_keras_extensions=False)."
        )
    count = accumulation_steps(model)
    if count > 1:
        raise RuntimeError(
            f"{overridden}, so gradient_accumulation_steps_per_replica={count} has no effect: the "
            "function updates the weights itself. Leave out set_gradient_accumulation_options(), "
            "and wrap each optimizer that is to accumulate, as in "
            f"ipu.keras.optimizers.GradientAccumulationOptimizer(optimizer, {count})."
        )


def _check_not_overridden(model: IPUModel, method: str, name: str) -> None:
    """Raises if the user's model overrides a method of Keras that is not called here."""
    if not is_overridden(model, name):
        return
    raise RuntimeError(
        f"The function `{name}` for the model {model.name} has been overridden. {method}() does "
        "not call it, because it makes programs for the IPU in its place. Remove it, or create the "
        "strategy with IPUStrategy(enable_keras_extensions=False) for plain Keras."
    )


# --- Models, layers and optimizers of another device ---

# Kind of a part, the part, and what else there is to do than to make it in the scope.
_Part = tuple[str, Any, str]


def check_stock_model(model: Any) -> None:
    """Raises if a stock Keras model runs or is compiled in a scope it was not made in.

    Args:
        model: a Keras model without the extensions.

    Raises:
        ValueError: If it was made in no scope.
        RuntimeError: If it was made in that of another strategy.
    """
    current, made_in = current_scope.current(), model._distribution_strategy
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
    current = current_scope.current()
    if current is None or current is made_in:
        return made_in
    if not current_scope.same_device(current, made_in):
        raise _mixed(model, made_in, current)
    return current


def check_parts(model: Any, optimizer: Any, metrics: Any) -> None:
    """Raises if a layer, optimizer or metric of a model has variables on another device.

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
    """Returns whether a device name is empty or names the given IPU device."""
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
    """Returns the variables of a part without the variables of parts in it."""
    if isinstance(part, tf.keras.layers.Layer):
        return [*part._trainable_weights, *part._non_trainable_weights]
    variables = getattr(part, "variables", ())
    return list(variables() if callable(variables) else variables)
