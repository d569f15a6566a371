"""Protocols of models made in the scope of an `IPUStrategy`.

Keras has no types, and such a model derives from the user's class. So this lists what `fit`,
`evaluate`, `predict`, programs and pipelines need of it, whoever brings it.
"""

# ruff: noqa: D102  (Keras documents its methods)

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import tensorflow as tf

    from tensorflow_ipu.keras_layers.models.model_options import ModelOptions


@runtime_checkable
class KerasModel(Protocol):
    """Members of Keras models, or of the user's class if it overrides them.

    Where it is what the arguments of `compile` lead to, it is there once the model is compiled.
    """

    built: bool
    history: tf.keras.callbacks.History
    inputs: Any
    name: str
    optimizer: Any
    run_eagerly: bool
    stop_training: bool

    # Counters of steps, which Keras makes with the model.
    _predict_counter: tf.Variable
    _test_counter: tf.Variable
    _train_counter: tf.Variable
    # None before the model is compiled.
    _steps_per_execution: tf.Variable | None
    # The strategy of the scope that the model was made in.
    _distribution_strategy: Any
    # Whether `call` takes `training`.
    _expects_training_arg: bool

    @property
    def autotune_steps_per_execution(self) -> bool: ...
    @property
    def compiled_loss(self) -> Any: ...
    @property
    def losses(self) -> list[Any]: ...
    @property
    def metrics_names(self) -> list[str]: ...
    @property
    def trainable_variables(self) -> list[tf.Variable]: ...

    def __call__(self, inputs: Any, training: bool | None = None) -> Any: ...
    def build(self, input_shape: Any) -> None: ...
    def call(self, *args: Any, **kwargs: Any) -> Any: ...
    def compute_loss(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> tf.Tensor: ...
    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any
    ) -> dict[str, tf.Tensor]: ...
    def evaluate(self, *args: Any, **kwargs: Any) -> Any: ...
    def get_metrics_result(self) -> dict[str, Any]: ...
    def predict_step(self, data: Any) -> Any: ...
    def reset_metrics(self) -> None: ...
    def save_spec(self, dynamic_batch: bool = True) -> Any: ...
    def test_step(self, data: Any) -> dict[str, Any]: ...
    def train_step(self, data: Any) -> dict[str, Any]: ...

    def _assert_compile_was_called(self) -> None: ...
    def _check_call_args(self, method_name: str) -> None: ...
    def _flatten_layers(self) -> Any: ...
    def _maybe_load_initial_counters_from_ckpt(
        self, steps_per_epoch: int, initial_epoch: int
    ) -> tuple[int, int]: ...
    def _should_eval(self, epoch: int, validation_freq: Any) -> bool: ...
    def _validate_and_get_metrics_result(self, logs: dict[str, Any]) -> dict[str, Any]: ...
    def _validate_target_and_loss(self, y: Any, loss: Any) -> None: ...


@runtime_checkable
class IPUModel(KerasModel, Protocol):
    """A `keras.Model` made in the scope of an `IPUStrategy`, with its members for the IPU.

    Names begin with an underscore, because all others belong to the user's class.
    """

    @property
    def distribute_strategy(self) -> Any:
        """The strategy of the scope that is open, or of that in which the model was made."""

    @property
    def _ipu_options(self) -> ModelOptions:
        """The user's options for the IPU."""

    def _drop_ipu_programs(self) -> None:
        """Forgets all programs: they are made anew when they are needed."""

    def _show_train_function(self, function: Any) -> None:
        """Shows the `tf.function` of the training program to callbacks."""

    def _is_pipelined(self) -> bool:
        """Returns whether a layer has a stage."""

    def _pipeline_stages(self) -> int:
        """Returns the number of stages of a pipelined model."""

    def _pipeline_ipus(self) -> int:
        """Returns how many IPUs the stages of a pipelined model are on."""

    def _pipeline_config(self) -> dict[str, Any]:
        """Returns the stages of the layers as values that JSON has."""
