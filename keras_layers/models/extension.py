"""The class that models made in the scope of an `IPUStrategy` also derive from."""

from __future__ import annotations

import weakref
from typing import Any

import tensorflow as tf

from tensorflow_ipu.api.eager import backprop
from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers import layer_lines
from tensorflow_ipu.keras_layers.models import checks, fit_evaluate_predict, programs, saving
from tensorflow_ipu.keras_layers.models.model_options import OptionSetters
from tensorflow_ipu.keras_layers.models.saving import SavedOptions
from tensorflow_ipu.keras_layers.models.serving import Serving
from tensorflow_ipu.keras_layers.pipelining import validation
from tensorflow_ipu.keras_layers.pipelining.extension import PipelinedModel
from tensorflow_ipu.keras_layers.pipelining.model_types import PipelinedSequential
from tensorflow_ipu.util.short_repr import shows

__all__ = [
    "FunctionalExtension",
    "ModelExtension",
    "SequentialExtension",
]

backend = keras2.module("backend")
_Functional: Any = keras2.module("engine.functional").Functional
training_lib = keras2.module("engine.training")

# Attribute of a class made here: the class of the user. A class that derives from the one made
# first would be in the way when stock Keras finds out that the user's class is a functional one.
_MADE_OF = "_ipu_made_of"
# What a class made here takes over from that of the user, to be taken for it when it is saved.
_IDENTITY = ("__module__", "__doc__", "_keras_api_names", "_keras_api_names_v1")


class ModelExtension(OptionSetters, SavedOptions, PipelinedModel, Serving, tf.keras.Model):
    """A `keras.Model` whose `fit`, `evaluate` and `predict` run programs on the IPU.

    A model made in the scope of an `IPUStrategy` derives from its own class and this one. All
    that is not here is what it is in Keras.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Makes a model; see `tf.keras.Model`."""
        if is_functional(args, kwargs) and not isinstance(self, _Functional):
            # A subclass turns out to be a functional model. Keras would change the base classes
            # of all its instances, and those of this class.
            own = vars(type(self)).get(_MADE_OF, type(self))
            self.__class__ = _derived(own, FunctionalExtension)
            _Functional.__init__(self, *args, **kwargs)
            return
        super().__init__(*args, **kwargs)

    __repr__ = shows(lambda self: {"name": self.name, "layers": len(self.layers)})

    def fit(self, *args: Any, **kwargs: Any) -> tf.keras.callbacks.History:
        """Trains the model on the device, with the arguments of `tf.keras.Model.fit`.

        One execution of a program makes `steps_per_execution` steps on each replica. Callbacks
        for batches are called once for each execution.

        Returns:
            A record of the losses and metrics of each epoch.

        Raises:
            RuntimeError: If the model is not compiled, runs eagerly, or overrides what programs
                are made of; or if executions do not end with an update.
            ValueError: If the data do not fit: shapes, sizes, steps.
        """
        return fit_evaluate_predict.fit(self, *args, **kwargs)

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """Computes loss and metrics on the device, with the arguments of `tf.keras.Model.evaluate`.

        Returns:
            The loss, or a list of loss and metrics; a dict with `return_dict=True`.

        Raises:
            RuntimeError: As for `fit`.
            ValueError: As for `fit`.
        """
        return fit_evaluate_predict.evaluate(self, *args, **kwargs)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Computes outputs on the device, with the arguments of `tf.keras.Model.predict`.

        Returns:
            NumPy arrays of the outputs for all samples, in the order of the data.

        Raises:
            RuntimeError: As for `fit`.
            ValueError: As for `fit`.
        """
        return fit_evaluate_predict.predict(self, *args, **kwargs)

    def train_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Trains on a single batch, with the arguments of `tf.keras.Model.train_on_batch`.

        Returns:
            The loss, or loss and metrics, as `tf.keras.Model.train_on_batch`.
        """
        with backprop.GradientCaptureContext():  # for layers that capture gradients
            return super().train_on_batch(*args, **kwargs)

    @property
    def distribute_strategy(self) -> Any:
        """The strategy of the scope that is open, or else of that in which the model was made."""
        return checks.strategy_of(self, super().distribute_strategy)

    def _validate_compile(self, optimizer: Any, metrics: Any, **kwargs: Any) -> None:
        # Before Keras's own check, whose errors name variables with all their values.
        checks.check_parts(self, optimizer, metrics)
        super()._validate_compile(optimizer, metrics, **kwargs)

    def _get_optimizer(self, optimizer: Any) -> Any:
        """Returns the optimizer that `compile` was given, scaling the loss where that is needed."""
        # `compile` itself must stay the method of Keras, which looks whether it is when it saves.
        layer_lines.note_compiled(self)
        if hasattr(optimizer, "get_scaled_loss"):
            return optimizer  # Keras would scale it once more with the policy mixed_float16.
        return super()._get_optimizer(optimizer)

    def _reset_compile_cache(self) -> None:
        super()._reset_compile_cache()
        self._drop_ipu_programs()

    def _drop_ipu_programs(self) -> None:
        """Forgets all programs: they are made anew when they are needed."""
        programs.drop(self)
        self._show_train_function(None)

    def _show_train_function(self, function: Any) -> None:
        """Shows the `tf.function` of the training program to callbacks such as TensorBoard."""
        # Not by setting the attribute, which Keras would track.
        self.__dict__["train_tf_function"] = function

    def _assert_weights_created(self) -> None:
        super()._assert_weights_created()
        # Keras asks whether the class has a `build` of its own, and that is the user's class.
        own = vars(type(self)).get(_MADE_OF, type(self))
        if own is not tf.keras.Model and "build" in vars(own) and not self.built:
            raise ValueError(
                f"Weights for model {self.name!r} have not yet been created. Weights are created "
                "when the Model is first called on inputs or `build()` is called with an "
                "`input_shape`."
            )


class FunctionalExtension(ModelExtension, _Functional):
    """A functional model for the IPU."""

    # Keras reads the arguments of constructors, to know what a model can be made from.
    __init__ = _Functional.__init__

    def _init_graph_network(self, inputs: Any, outputs: Any) -> None:
        super()._init_graph_network(inputs, outputs)
        validation.check_complete(self)

    def _init_set_name(self, name: str | None, zero_based: bool = True) -> None:
        if not name and type(self).__name__ == _Functional.__name__:
            # Keras names these after the public class, which it knows by identity.
            name = backend.unique_object_name("model", zero_based=zero_based)
        super()._init_set_name(name, zero_based)


class SequentialExtension(ModelExtension, PipelinedSequential, tf.keras.Sequential):
    """A Sequential model for the IPU."""

    __init__ = tf.keras.Sequential.__init__

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration of the model, options for the IPU included."""
        # Not what Keras takes for its default, which would add to the configuration.
        return super().get_config()


def is_functional(args: Any, kwargs: Any) -> bool:
    """Returns whether these arguments of a model are inputs and outputs."""
    return bool(training_lib.is_functional_model_init_params(args, kwargs))


# The classes made here, by the two that they derive from.
_made: weakref.WeakValueDictionary[tuple[type, type], type] = weakref.WeakValueDictionary()


def extended(cls: type) -> type:
    """Returns the class of models on the IPU for a class of models.

    Args:
        cls: a class of Keras models.
    """
    if issubclass(cls, ModelExtension):
        return cls
    return _derived(cls, _base(cls))


def _base(cls: type) -> type:
    if issubclass(cls, tf.keras.Sequential):
        return SequentialExtension
    if issubclass(cls, _Functional):
        return FunctionalExtension
    return ModelExtension


def _derived(cls: type, base: type) -> type:
    """Makes a class of both, which goes by the name of the first.

    The user's class comes first, so it can override what the extension has; the extension comes
    before Keras's classes, because it derives from them.
    """
    made = _made.get((cls, base))
    if made is None:
        identity = {name: vars(cls)[name] for name in _IDENTITY if name in vars(cls)}
        bases = (base,) if issubclass(base, cls) else (cls, base)
        identity.update({"__qualname__": cls.__qualname__, _MADE_OF: cls})
        made = type(cls)(cls.__name__, bases, identity)
        saving.register_like(made, cls)
        _made[cls, base] = made
    return made
