"""Table of modules of Keras 2.6 and `tensorflow.python.keras`, and their place in Keras 2.15.

In TensorFlow 1.15 `tensorflow.python.keras` was the code of `tf.keras`. In TensorFlow 2.15 the same
name is an old copy, whose layers and models do not work with `tf.keras`: so its modules are rows of
the table, too.
"""

from __future__ import annotations

from tensorflow_ipu.compat.rows import KERAS_2, Module, Name

#: The modules of Keras's code, and the old copy of them.
SOURCES = f"{KERAS_2}.src"
COPY = "tensorflow.python.keras"

_RNN = (
    *("layers.rnn", "layers.rnn.base_rnn", "layers.rnn.rnn_utils", "layers.rnn.gru_lstm_utils"),
    *("layers.rnn.dropout_rnn_cell_mixin", "layers.rnn.stacked_rnn_cells"),
)
_NORMALIZATION = ("layers.normalization", "layers.normalization.batch_normalization")
_REGISTRATION = ("saving.object_registration", "saving.legacy.serialization")

# Module -> modules that have its names now, below `SOURCES`. For modules that only moved with the
# whole of Keras see `_SAME`.
_MOVED: dict[str, tuple[str, ...]] = {
    "combinations": ("testing_infra.test_combinations",),
    "engine.network": ("engine.functional",),
    "engine.topology": ("engine.base_layer", "engine.input_layer", "engine.functional"),
    "initializers.initializers_v2": ("initializers.initializers",),
    "keras_parameterized": ("testing_infra.test_combinations",),
    "layers.advanced_activations": ("layers.activation",),
    "layers.convolutional": ("layers.convolutional", "layers.pooling", "layers.reshaping"),
    "layers.convolutional_recurrent": ("layers.rnn.base_conv_rnn", "layers"),
    "layers.core": ("layers.core", "layers.regularization", "layers.reshaping"),
    "layers.cudnn_recurrent": ("layers.rnn.cudnn_gru", "layers.rnn.cudnn_lstm"),
    "layers.dense_attention": ("layers.attention", "layers.attention.base_dense_attention"),
    "layers.einsum_dense": ("layers.core.einsum_dense",),
    "layers.embeddings": ("layers.core.embedding",),
    "layers.local": ("layers.locally_connected",),
    "layers.merge": ("layers.merging", "layers.merging.base_merge"),
    "layers.multi_head_attention": ("layers.attention.multi_head_attention",),
    "layers.normalization_v2": _NORMALIZATION,
    "layers.recurrent": ("layers.rnn.lstm_v1", "layers.rnn.gru_v1", *_RNN),
    "layers.recurrent_v2": _RNN,
    "layers.rnn_cell_wrapper_v2": ("layers.rnn.cell_wrappers",),
    "layers.wrappers": (
        *("layers.rnn.base_wrapper", "layers.rnn.bidirectional", "layers.rnn.time_distributed"),
    ),
    "mixed_precision.experimental.autocast_variable": ("mixed_precision.autocast_variable",),
    "mixed_precision.experimental.policy": ("mixed_precision.policy",),
    "optimizer_v1": ("optimizers.optimizer_v1",),
    "optimizer_v2": ("optimizers.legacy",),
    "optimizer_v2.learning_rate_schedule": ("optimizers.schedules.learning_rate_schedule",),
    "optimizer_v2.legacy_learning_rate_decay": ("optimizers.legacy_learning_rate_decay",),
    "optimizer_v2.utils": ("optimizers.utils",),
    "premade": ("premade_models",),
    "saving.hdf5_format": ("saving.legacy.hdf5_format",),
    "saving.model_config": ("saving.legacy.model_config",),
    "saving.save": ("saving.legacy.save",),
    "saving.saved_model": ("saving.legacy.saved_model",),
    "saving.saving_utils": ("saving.legacy.saving_utils",),
    "testing_utils": ("testing_infra.test_utils",),
    "utils.all_utils": ("utils",),
    "utils.generic_utils": ("utils.generic_utils", *_REGISTRATION),
}

# Modules that have the same name below `SOURCES`, and that Keras 2.15 does not show as `keras.`
_SAME = (
    *("backend_config", "callbacks_v1", "distribute", "engine", "feature_column"),
    *("initializers.initializers_v1", "layers.noise", "layers.normalization", "layers.pooling"),
    *("layers.kernelized", "layers.preprocessing", "layers.serialization", "legacy_tf_layers"),
    *("mixed_precision.autocast_variable", "mixed_precision.loss_scale_optimizer"),
    *("mixed_precision.policy", "utils.control_flow_util", "utils.conv_utils"),
    *("utils.data_utils", "utils.io_utils", "utils.kernelized_utils", "utils.layer_utils"),
    *("utils.losses_utils", "utils.metrics_utils", "utils.mode_keys", "utils.np_utils"),
    *("utils.object_identity", "utils.tf_contextlib", "utils.tf_inspect", "utils.tf_utils"),
    *("utils.version_utils", "utils.vis_utils"),
)

_WHY = f"the code of Keras is in {SOURCES} since 2.13"
_WHY_COPY = "an old copy in TensorFlow 2.15, whose classes do not go together with tf.keras"
_LOSS_SCALE = ("tensorflow.python.training.experimental.loss_scale",)
_EXPERIMENTAL_MODULE = ("tensorflow_ipu.compat.replacements.mixed_precision",)
_LOSS_SCALE_OPTIMIZER = ("tensorflow_ipu.compat.replacements.mixed_precision",)


def _below_sources(modules: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{SOURCES}.{name}" for name in modules)


MODULES = (
    *(Module(f"tensorflow.keras.{old}", _below_sources(new), _WHY) for old, new in _MOVED.items()),
    *(Module(f"tensorflow.keras.{name}", _below_sources((name,)), _WHY) for name in _SAME),
    Module("tensorflow.keras.losses.losses_utils", (f"{SOURCES}.utils.losses_utils",), _WHY),
    Module(COPY, (SOURCES,), _WHY_COPY),
    *(Module(f"{COPY}.{old}", _below_sources(new), _WHY_COPY) for old, new in _MOVED.items()),
    *(
        Module(f"{root}.mixed_precision.{name}", new, "not in Keras since 2.13")
        for root in ("tensorflow.keras", COPY)
        for name, new in (
            ("loss_scale", _LOSS_SCALE),
            ("experimental", _EXPERIMENTAL_MODULE),
            ("experimental.loss_scale", _LOSS_SCALE),
            ("experimental.loss_scale_optimizer", _LOSS_SCALE_OPTIMIZER),
        )
    ),
)

_MIXED = "tensorflow.keras.mixed_precision"
_EXPERIMENTAL = "not in Keras since 2.9"

NAMES = (
    Name(f"{_MIXED}.experimental.Policy", f"{_MIXED}.Policy", _EXPERIMENTAL),
    Name(f"{_MIXED}.experimental.set_policy", f"{_MIXED}.set_global_policy", _EXPERIMENTAL),
    Name(f"{_MIXED}.experimental.global_policy", f"{_MIXED}.global_policy", _EXPERIMENTAL),
    Name(
        f"{_MIXED}.experimental.LossScaleOptimizer",
        "tensorflow_ipu.compat.replacements.mixed_precision.LossScaleOptimizer",
        _EXPERIMENTAL,
    ),
    *(
        Name(
            f"{_MIXED}.experimental.{name}",
            f"tensorflow.compat.v1.mixed_precision.{name}",
            _EXPERIMENTAL,
        )
        for name in ("DynamicLossScale", "FixedLossScale", "LossScale")
    ),
    Name(
        "tensorflow.keras.losses.LossFunctionWrapper",
        f"{SOURCES}.losses.LossFunctionWrapper",
        _WHY,
    ),
    Name(
        f"{SOURCES}.engine.functional.Network",
        f"{SOURCES}.engine.functional.Functional",
        "another name since Keras 2.2",
    ),
)
