"""Table of replacements for the parts of `tensorflow.contrib` that IPU programs use.

A key of the table is a module below `tensorflow.contrib`. Its value maps each name to its full name
of today; `{}` stands for the name itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorflow_ipu.compat.rows import Gone, Module, Name

ROOT = "tensorflow.contrib"
#: The package with modules of the same names.
PACKAGE = "tensorflow_ipu.compat.contrib"

_V1 = "tensorflow.compat.v1"
_OURS = "tensorflow_ipu.compat.replacements"
_WHY = "tensorflow.contrib is not in TensorFlow 2"


def _from(module: str, *names: str) -> dict[str, str]:
    """Maps names to a module of today."""
    return dict.fromkeys(names, f"{module}.{{}}")


_RNN_CELLS = (
    *("BasicLSTMCell", "BasicRNNCell", "DeviceWrapper", "DropoutWrapper", "GRUCell", "LSTMCell"),
    *("LSTMStateTuple", "MultiRNNCell", "RNNCell", "ResidualWrapper"),
)
_EXPERIMENTAL_DATA = (
    *("AUTOTUNE", "CsvDataset", "Optional", "SqlDataset", "TFRecordWriter", "assert_cardinality"),
    *("bucket_by_sequence_length", "copy_to_device", "dense_to_sparse_batch", "enumerate_dataset"),
    *("get_single_element", "group_by_reducer", "group_by_window", "ignore_errors"),
    *("make_batched_features_dataset", "make_csv_dataset", "make_saveable_from_iterator"),
    *("map_and_batch", "parallel_interleave", "prefetch_to_device", "rejection_resample", "scan"),
    *("sample_from_datasets", "shuffle_and_repeat", "unbatch", "unique"),
)
_METRICS = (
    *("accuracy", "auc", "false_negatives", "false_positives", "mean", "mean_absolute_error"),
    *("mean_iou", "mean_relative_error", "mean_squared_error", "percentage_below", "precision"),
    *("recall", "root_mean_squared_error", "true_negatives", "true_positives"),
)

TABLE: dict[str, dict[str, str]] = {
    "cluster_resolver": _from(
        f"{_V1}.distribute.cluster_resolver",
        *("ClusterResolver", "SimpleClusterResolver", "SlurmClusterResolver"),
        *("TFConfigClusterResolver", "TPUClusterResolver", "UnionResolver"),
    ),
    "compiler.jit": {"experimental_jit_scope": f"{_V1}.xla.experimental.jit_scope"},
    "compiler.xla": {"compile": f"{_V1}.xla.experimental.compile"},
    "data": {
        **_from(f"{_V1}.data.experimental", *_EXPERIMENTAL_DATA),
        "batch_and_drop_remainder": f"{_OURS}.datasets.batch_and_drop_remainder",
    },
    "distribute": _from(f"{_V1}.distribute", "MirroredStrategy", "OneDeviceStrategy", "Strategy"),
    "distributions": _from(
        f"{_V1}.distributions",
        *("Bernoulli", "Beta", "Categorical", "Dirichlet", "DirichletMultinomial", "Distribution"),
        *("Exponential", "Gamma", "Laplace", "Multinomial", "Normal", "StudentT", "Uniform"),
        *("RegisterKL", "kl_divergence"),
    ),
    "framework": {
        **_from(
            f"{_OURS}.framework",
            *("add_arg_scope", "arg_scope", "arg_scoped_arguments", "current_arg_scope"),
            "has_arg_scope",
        ),
        **_from(
            f"{_OURS}.framework",
            *("add_model_variable", "assign_from_checkpoint", "assign_from_checkpoint_fn"),
            *("assign_from_values", "assign_from_values_fn", "get_model_variables"),
            *("get_trainable_variables", "get_unique_variable", "get_variables"),
            *("get_variables_by_name", "get_variables_by_suffix", "get_variables_to_restore"),
            *("filter_variables", "local_variable", "model_variable", "variable"),
        ),
        **_from(
            f"{_V1}.train",
            *("assert_global_step", "create_global_step", "get_global_step"),
            *("get_or_create_global_step", "init_from_checkpoint", "list_variables"),
            *("load_checkpoint", "load_variable"),
        ),
        **_from(_V1, "argsort", "assert_same_float_dtype", "assert_scalar", "is_tensor", "nest"),
        "CriticalSection": "tensorflow.CriticalSection",
        "sort": f"{_V1}.sort",
        "TensorSpec": "tensorflow.TensorSpec",
        "deprecated": "tensorflow.python.util.deprecation.deprecated",
        "smart_cond": "tensorflow.python.framework.smart_cond.smart_cond",
        "smart_constant_value": "tensorflow.python.framework.smart_cond.smart_constant_value",
    },
    "layers": {
        **_from(
            f"{_OURS}.layers",
            *("bias_add", "dropout", "flatten", "fully_connected", "linear", "one_hot_encoding"),
            *("relu", "relu6", "repeat", "stack"),
        ),
        **_from(f"{_OURS}.layers", "avg_pool2d", "conv2d", "max_pool2d"),
        **_from(f"{_OURS}.layers", "batch_norm", "layer_norm"),
        "convolution2d": f"{_OURS}.layers.conv2d",
        "softmax": f"{_V1}.nn.softmax",
        **_from(
            f"{_OURS}.framework",
            *("variance_scaling_initializer", "xavier_initializer", "xavier_initializer_conv2d"),
        ),
        **_from(
            f"{_OURS}.framework",
            *("apply_regularization", "l1_l2_regularizer", "l1_regularizer", "l2_regularizer"),
            "sum_regularizer",
        ),
        "optimize_loss": f"{_OURS}.training.optimize_loss",
    },
    "losses": _from(
        f"{_V1}.losses",
        *("absolute_difference", "add_loss", "compute_weighted_loss", "cosine_distance"),
        *("get_losses", "get_regularization_losses", "get_total_loss", "hinge_loss", "log_loss"),
        *("mean_pairwise_squared_error", "mean_squared_error", "sigmoid_cross_entropy"),
        *("softmax_cross_entropy", "sparse_softmax_cross_entropy"),
    ),
    "metrics": {f"streaming_{name}": f"{_V1}.metrics.{name}" for name in _METRICS},
    "opt": {
        **_from(
            f"{_OURS}.optimizers",
            *("AdamWOptimizer", "DecoupledWeightDecayExtension", "LazyAdamOptimizer"),
            *("MomentumWOptimizer", "NadamOptimizer", "extend_with_decoupled_weight_decay"),
        ),
        "LARSOptimizer": f"{_OURS}.optimizers.LARSOptimizer",
    },
    "rnn": {
        **_from(f"{_V1}.nn.rnn_cell", *_RNN_CELLS),
        **_from(f"{_V1}.nn", "static_rnn", "static_bidirectional_rnn", "static_state_saving_rnn"),
        "best_effort_input_batch_size": f"{_OURS}.rnn.best_effort_input_batch_size",
        "stack_bidirectional_dynamic_rnn": f"{_OURS}.rnn.stack_bidirectional_dynamic_rnn",
        "transpose_batch_time": f"{_OURS}.rnn.transpose_batch_time",
    },
    "seq2seq": {"sequence_loss": f"{_OURS}.training.sequence_loss"},
    "stateless": {
        "stateless_multinomial": f"{_V1}.random.stateless_categorical",
        **_from(
            f"{_V1}.random",
            *("stateless_categorical", "stateless_normal", "stateless_truncated_normal"),
            "stateless_uniform",
        ),
        "stateless_random_normal": f"{_V1}.random.stateless_normal",
        "stateless_random_uniform": f"{_V1}.random.stateless_uniform",
    },
    "tpu": {
        **_from(
            f"{_V1}.estimator.tpu",
            *("InputPipelineConfig", "RunConfig", "TPUConfig", "TPUEstimator"),
            "TPUEstimatorSpec",
        ),
        **_from(f"{_V1}.tpu", "CrossShardOptimizer", "cross_replica_sum", "initialize_system"),
        **_from(f"{_V1}.tpu", "outside_compilation", "replicate", "rewrite", "shard"),
    },
    "training": {
        "HParams": f"{_OURS}.training.HParams",
        "parse_values": f"{_OURS}.training.parse_values",
        "create_train_op": f"{_OURS}.training.create_train_op",
        "checkpoints_iterator": f"{_V1}.train.checkpoints_iterator",
    },
    "util": {
        "constant_value": "tensorflow.get_static_value",
        **_from(_V1, "make_ndarray", "make_tensor_proto"),
    },
}


def _names() -> Iterator[Name]:
    for module, names in TABLE.items():
        for name, target in names.items():
            yield Name(f"{ROOT}.{module}.{name}", target.format(name), _WHY)


NAMES = tuple(_names())

MODULES = (
    Module(ROOT, (PACKAGE,), _WHY),
    # The name in the first releases of the SDK.
    Module(f"{ROOT}.ipu.python", ("tensorflow.python.ipu",), "moved with SDK 1.1"),
    Module(f"{ROOT}.ipu", ("tensorflow.python.ipu",), "moved with SDK 1.1"),
)

_SLIM = "pip install tf_slim, and `import tf_slim as slim`: it is the same code as a package."

GONE = (
    Gone(f"{ROOT}.slim", _SLIM),
    Gone(f"{ROOT}.mixed_precision", "Use tf.keras.mixed_precision, or scale the loss yourself."),
    Gone(f"{ROOT}.summary", "Use tf.compat.v1.summary, or tf.summary in TensorFlow 2."),
    Gone(f"{ROOT}.estimator", "Use tf.estimator."),
    Gone(f"{ROOT}.eager", "Use tf.GradientTape and tf.function."),
    Gone(f"{ROOT}.cudnn_rnn", "Use ipu.rnn_ops.PopnnLSTM, or tf.keras.layers.LSTM."),
    Gone(f"{ROOT}.image", "Use tf.image, or the package tensorflow_addons."),
    Gone(f"{ROOT}.lookup", "Use tf.lookup."),
    Gone(f"{ROOT}.learn", "Use tf.estimator, and tf.keras.datasets for the data."),
)
