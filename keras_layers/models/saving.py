"""Saving of a Keras model's IPU options with the model, and restoring.

Files stay those of stock Keras, which loads them as ordinary models: the options are where it does
not look.

* Keras's own functional and Sequential models have them in their configuration, whose unknown keys
  stock Keras ignores.
* A model that is made again by a call of its class (a subclass with a constructor of its own) gets
  its configuration as arguments. The `.keras` format has the options beside it, among what is there
  to build the model.
* A SavedModel has them beside the configuration of any model.

In a configuration that `get_config` returns, there is no other place: models that are made
again by a call of their class have in it only the options that are not the defaults.

The methods of Keras that load and clone models know nothing of that: `patches` says what takes
their place while the scope of a strategy is open.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from absl import logging

from tensorflow_ipu.compiler import current_scope
from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers.models.model_options import (
    CONFIG_KEYS,
    OWN_CONFIG_KEYS,
    ModelOptions,
)
from tensorflow_ipu.keras_layers.pipelining import extension as pipelining

sequential = keras2.module("engine.sequential")
training = keras2.module("engine.training")
cloning = keras2.module("models.cloning")
object_registration = keras2.module("saving.object_registration")
serialization_lib = keras2.module("saving.serialization_lib")
json_utils = keras2.module("saving.legacy.saved_model.json_utils")
saved_model_load = keras2.module("saving.legacy.saved_model.load")
generic_utils = keras2.module("utils.generic_utils")

# What is for the IPU in a configuration.
_KEYS = (*CONFIG_KEYS, *OWN_CONFIG_KEYS, pipelining.CONFIG_KEY, pipelining.INPUTS_KEY)
# What files call all of that, where it is not in a configuration.
_OPTIONS_KEY = "ipu_options"
# Those of these keys that a configuration has: it can make a model again without its class.
_NETWORK_KEYS = ("name", "layers", "input_layers", "output_layers")

# Attributes of a model that Keras does not track: where the last `get_config` left the options, if
# there was one, and which options the user knows are not saved.
_PLACE = "_ipu_options_place"
_CONFIG, _BUILD_CONFIG = "config", "build_config"
_TOLD = "_ipu_options_not_saved"


class SavedOptions:
    """Saves the options with the model.

    The class of a Sequential model has to override `get_config` with a function that only calls
    that of its parents: see `_is_default` in Keras.
    """

    # Of the model.
    _drop_ipu_programs: Any
    _restore_pipeline_config: Any
    if TYPE_CHECKING:

        @property
        def _ipu_options(self) -> ModelOptions: ...

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Saves the model, with the arguments of `tf.keras.Model.save`.

        In a program of several instances the file has the variables of this one.
        """
        with current_scope.own_values():
            super().save(*args, **kwargs)  # type: ignore[misc]

    def save_weights(self, *args: Any, **kwargs: Any) -> None:
        """Saves the weights, with the arguments of `tf.keras.Model.save_weights`.

        In a program of several instances the file has the variables of this one.
        """
        with current_scope.own_values():
            super().save_weights(*args, **kwargs)  # type: ignore[misc]

    @generic_utils.default
    def get_config(self) -> dict[str, Any]:
        """Returns the configuration of the model, options for the IPU included."""
        config = _without_options(super().get_config())  # type: ignore[misc]
        self._tell_what_is_not_saved()
        if _ignores_other_keys(self, config):
            config, place = {**config, **_options(self)}, _CONFIG
        elif getattr(serialization_lib.SHARED_OBJECTS, "enabled", False):  # a `.keras` file
            place = _BUILD_CONFIG
        else:
            config, place = {**config, **_changed_options(self)}, _CONFIG
        self.__dict__[_PLACE] = place
        return config

    def get_build_config(self) -> dict[str, Any] | None:
        """Returns the build configuration of a model, with changed options for the IPU."""
        config: dict[str, Any] | None = super().get_build_config()  # type: ignore[misc]
        changed = _changed_options(self)
        if self.__dict__.get(_PLACE) != _BUILD_CONFIG or not changed:
            return config
        return {"input_shape": None, **(config or {}), _OPTIONS_KEY: changed}

    def build_from_config(self, config: Mapping[str, Any]) -> None:
        """Builds the model, and restores its options.

        Args:
            config: the result of `get_build_config`.
        """
        config = dict(config)
        options = config.pop(_OPTIONS_KEY, {})
        super().build_from_config(config)  # type: ignore[misc]
        self._restore_ipu_options(options)

    @property
    def _trackable_saved_model_saver(self) -> Any:
        """The object that Keras asks for the metadata of the model in a SavedModel."""
        saver = super()._trackable_saved_model_saver  # type: ignore[misc]
        properties = saver._python_properties_internal
        saver._python_properties_internal = lambda: self._with_options_apart(properties)
        return saver

    def _with_options_apart(self, properties: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Returns the metadata of the model, with options beside its configuration."""
        self.__dict__.pop(_PLACE, None)
        metadata = properties()
        revived = isinstance(self, saved_model_load.RevivedLayer)  # has the configuration it had
        kept = _PLACE in self.__dict__ or revived
        metadata[_OPTIONS_KEY] = _options(self) if kept else None
        for owner in (metadata, metadata.get("model_config", {})):
            if isinstance(owner.get("config"), dict):
                owner["config"] = _without_options(owner["config"])
        return metadata

    def _tell_what_is_not_saved(self) -> None:
        """Logs which options are lost, once for each time they are set."""
        names = self._ipu_options.not_saved()
        told = {name: getattr(self._ipu_options, name) for name in names}
        # TensorFlow switches logging off while it looks at every attribute of what it saves.
        unheard = logging.get_verbosity() == logging.FATAL
        if not names or unheard or self.__dict__.get(_TOLD) == told:
            return
        self.__dict__[_TOLD] = told
        logging.info(
            "The options %s of the model %r are not saved. Set them again when you have loaded it.",
            " and ".join(names),
            getattr(self, "name", None),
        )

    def _restore_ipu_options(self, config: Mapping[str, Any]) -> None:
        """Sets the options that are in a configuration; others stay as they are."""
        if not _has_options(config):
            return
        self._ipu_options.update(config)
        self._restore_pipeline_config(config)
        self._drop_ipu_programs()


def _options(model: Any) -> dict[str, Any]:
    """Returns all options of a model that are saved."""
    return {**model._ipu_options.to_config(), **model._pipeline_config()}


def _changed_options(model: Any) -> dict[str, Any]:
    """Returns the options of a model that are not the defaults."""
    defaults = ModelOptions().to_config()
    options = _options(model)
    return {key: options[key] for key in options if options[key] != defaults.get(key)}


def _has_options(config: Any) -> bool:
    return isinstance(config, Mapping) and any(key in config for key in _KEYS)


def _without_options(config: Any) -> Any:
    """Returns the configuration of a model without the options for the IPU.

    Args:
        config: the configuration. Old Sequential models have a list.
    """
    if not _has_options(config):
        return config
    return {key: config[key] for key in config if key not in _KEYS}


def _ignores_other_keys(model: Any, config: Mapping[str, Any]) -> bool:
    """Returns whether stock Keras makes a model of a configuration and leaves other keys alone."""
    return isinstance(model, sequential.Sequential) or all(key in config for key in _NETWORK_KEYS)


def register_like(made: type, cls: type) -> None:
    """Makes Keras save models of one class under the registered name of another.

    Args:
        made: the class that has no registered name.
        cls: a class that may have one. Under its name, Keras still finds this one.
    """
    names = object_registration._GLOBAL_CUSTOM_NAMES
    if cls in names:
        names[made] = names[cls]


def patches() -> list[tuple[Any, str, Any]]:
    """Returns the patches of Keras where models are loaded and cloned.

    Returns:
        For each attribute the class or module that it is in, its name, and what replaces it.
    """
    loader = saved_model_load.KerasObjectLoader
    return [
        *((owner, "from_config", _restoring(owner)) for owner in _WITH_FROM_CONFIG),
        (loader, "finalize_objects", _finalizing(loader.finalize_objects)),
        # `clone_model` does not go through the configuration of these.
        *((cloning, name, _cloning(getattr(cloning, name))) for name in _CLONING_FUNCTIONS),
    ]


_WITH_FROM_CONFIG = (training.Model, sequential.Sequential)
_CLONING_FUNCTIONS = ("_clone_functional_model", "_clone_sequential_model")


def _restoring(owner: type) -> Any:
    """Returns a `from_config` for the models of a class of Keras that restores their options."""
    original = owner.__dict__["from_config"].__func__

    # Keras reads the names of the arguments.
    @functools.wraps(original)
    def from_config(cls: type, config: Any, custom_objects: Any = None) -> Any:
        model = original(cls, _without_options(config), custom_objects)
        if isinstance(model, SavedOptions) and _has_options(config):
            model._restore_ipu_options(config)
        return model

    return classmethod(from_config)


def _finalizing(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """Returns the last step of loading a SavedModel, which restores options too."""

    @functools.wraps(original)
    def finalize_objects(self: Any) -> None:
        original(self)
        for node_id, (node, _) in self.loaded_nodes.items():
            if isinstance(node, SavedOptions) and node_id in self._metadata:
                metadata = json_utils.decode(self._metadata[node_id].metadata)
                node._restore_ipu_options(_saved_options(node, metadata))

    return finalize_objects


def _saved_options(model: Any, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the options in the metadata of a model in a SavedModel.

    Raises:
        RuntimeError: If they were lost when the model was saved.
    """
    # A model of stock Keras has none. Where the configuration has them, it was not saved here.
    options = metadata.get(_OPTIONS_KEY, metadata.get("config"))
    if options is None and _OPTIONS_KEY in metadata:
        raise RuntimeError(
            "get_config() has been overridden on a subclassed Model: that of the class "
            f"{metadata.get('class_name')} does not start from that of its parent class, so the "
            f"IPU options of the model {model.name!r} were not saved. Begin it with "
            "`config = super().get_config()`, and save the model again."
        )
    return options if isinstance(options, Mapping) else {}


def _cloning(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of Keras that clones a model, which clones its options too."""

    @functools.wraps(original)
    def clone(model: Any, *args: Any, **kwargs: Any) -> Any:
        cloned = original(model, *args, **kwargs)
        if isinstance(model, SavedOptions) and isinstance(cloned, SavedOptions):
            model._tell_what_is_not_saved()
            cloned._restore_ipu_options(_options(model))
        return cloned

    return clone
