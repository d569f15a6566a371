"""Tables of all public modules and where their code is; `_finder.py` imports by them.

Every Python interpreter of an environment with tensorflow_ipu runs this file when it starts. So it
imports nothing that the interpreter has not loaded by then, and TensorFlow least of all.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PACKAGE = "tensorflow_ipu"
PUBLIC = "tensorflow.python.ipu"
PLUGIN = "tensorflow.compiler.plugin"
POPLAR = PLUGIN + ".poplar"
ADDONS = "ipu_tensorflow_addons"
POPDIST = "popdist"
POPXL = "popxl"
POPXL_ADDONS = "popxl_addons"
POPART = "popart"
POPART_CORE = "popart_core"
PVA = "pva"

# The modules of Keras that have the attribute `ipu`: that of `import keras`, what `tf.keras` is,
# and that of `import tensorflow.keras`, which is made of the same file once more. From TensorFlow
# 2.16 on, the first two are those of `tf_keras`.
KERAS = (
    *("keras", "keras.api._v2.keras", "tensorflow.keras"),
    *("tf_keras", "tf_keras.api._v2.keras"),
)
KERAS_IPU = PACKAGE + ".keras"

# Public module, below `tensorflow.python.ipu` and `tensorflow_ipu` -> module of `tensorflow_ipu`.
MODULES = {
    "all_to_all_op": "ops.all_to_all_op",
    "application_compile_op": "ops.application_compile_op",
    "autoshard": "autoshard",
    "config": "config",
    "control_flow_ops": "ops.control_flow_ops",
    "cross_replica_ops": "ops.cross_replica_ops",
    "cross_replica_optimizer": "optimizers.cross_replica_optimizer",
    "custom_ops": "ops.custom_ops",
    "data": "data",
    "data.ops": "data.ops",
    "data.ops.dataset_ops": "data.ops.dataset_ops",
    "dataset_benchmark": "feeds.dataset_benchmark",
    "dataset_extractor": "files.dataset_extractor",
    "distributed": "distributed",
    "distributed.host_collective_ops": "distributed.host_collective_ops",
    "distributed.ipu_multi_worker_strategy": "distributed.ipu_multi_worker_strategy",
    "distributed.popdist_strategy": "distributed.popdist_strategy",
    "eager": "eager",
    "eager.backprop": "eager.backprop",
    "embedded_runtime": "ops.embedded_runtime",
    "embedding_ops": "ops.embedding_ops",
    "f8_ops": "ops.f8_ops",
    "functional_ops": "ops.functional_ops",
    "grad_util_ops": "ops.grad_util_ops",
    "gradient_accumulation": "gradient_accumulation",
    "gradient_accumulation_optimizer": "optimizers.gradient_accumulation_optimizer",
    "horovod": "horovod",
    "horovod.ipu_horovod_strategy": "horovod.ipu_horovod_strategy",
    "horovod.ipu_multi_replica_strategy": "horovod.ipu_multi_replica_strategy",
    "horovod.popdist_strategy": "distributed.popdist_strategy",
    "image_ops": "ops.image_ops",
    "internal_ops": "ops.internal_ops",
    "ipu_compiler": "ipu_compiler",
    "ipu_estimator": "estimators.ipu_estimator",
    "ipu_infeed_queue": "feeds.ipu_infeed_queue",
    "ipu_multi_worker_strategy": "distributed.ipu_multi_worker_strategy",
    "ipu_outfeed_queue": "feeds.ipu_outfeed_queue",
    "ipu_pipeline_estimator": "estimators.ipu_pipeline_estimator",
    "ipu_run_config": "estimators.ipu_run_config",
    "ipu_session_run_hooks": "estimators.ipu_session_run_hooks",
    "ipu_strategy": "ipu_strategy",
    "keras": "keras",
    "keras.extensions": "keras_layers.models.extension",
    "keras.layers": "keras_layers.layers",
    "keras.losses": "keras_layers.losses",
    "keras.optimizers": "keras_layers.optimizers",
    "layers": "keras_layers.layers",
    "loops": "loops",
    "map_gradient_optimizer": "optimizers.map_gradient_optimizer",
    "math_ops": "ops.math_ops",
    "nn_ops": "ops.nn_ops",
    "normalization_ops": "ops.normalization_ops",
    "ops": "ops",
    "ops.all_to_all_op": "ops.all_to_all_op",
    "ops.application_compile_op": "ops.application_compile_op",
    "ops.control_flow_ops": "ops.control_flow_ops",
    "ops.cross_replica_ops": "ops.cross_replica_ops",
    "ops.custom_ops": "ops.custom_ops",
    "ops.embedded_runtime": "ops.embedded_runtime",
    "ops.embedding_ops": "ops.embedding_ops",
    "ops.f8_ops": "ops.f8_ops",
    "ops.functional_ops": "ops.functional_ops",
    "ops.grad_util_ops": "ops.grad_util_ops",
    "ops.image_ops": "ops.image_ops",
    "ops.internal_ops": "ops.internal_ops",
    "ops.math_ops": "ops.math_ops",
    "ops.nn_ops": "ops.nn_ops",
    "ops.normalization_ops": "ops.normalization_ops",
    "ops.pipelining_ops": "ops.pipelining_ops",
    "ops.rand_ops": "ops.rand_ops",
    "ops.reduce_scatter_op": "ops.reduce_scatter_op",
    "ops.replication_ops": "ops.replication_ops",
    "ops.rnn_ops": "ops.rnn_ops",
    "ops.slicing_ops": "ops.slicing_ops",
    "ops.statistics_ops": "ops.statistics_ops",
    "ops.summary_ops": "ops.summary_ops",
    "ops.vertex_edsl": "ops.vertex_edsl",
    "ops.within_replica_ops": "ops.within_replica_ops",
    "optimizers": "optimizers",
    "optimizers.cross_replica_optimizer": "optimizers.cross_replica_optimizer",
    "optimizers.gradient_accumulation_optimizer": "optimizers.gradient_accumulation_optimizer",
    "optimizers.map_gradient_optimizer": "optimizers.map_gradient_optimizer",
    "optimizers.sharded_optimizer": "optimizers.sharded_optimizer",
    "pipelining_ops": "ops.pipelining_ops",
    "profiler": "profiler",
    "rand_ops": "ops.rand_ops",
    "reduce_scatter_op": "ops.reduce_scatter_op",
    "replication_ops": "ops.replication_ops",
    "rnn_ops": "ops.rnn_ops",
    "scopes": "scopes",
    "serving": "serving",
    "sharded_optimizer": "optimizers.sharded_optimizer",
    "sharding": "sharding",
    "slicing_ops": "ops.slicing_ops",
    "statistics_ops": "ops.statistics_ops",
    "summary_ops": "ops.summary_ops",
    "utils": "utils",
    "vertex_edsl": "ops.vertex_edsl",
    "within_replica_ops": "ops.within_replica_ops",
}

# Public function or class of a package -> module of `tensorflow_ipu` that has it.
NAMES = {
    **{
        f"distributed.{name}": "distributed.host_collective_ops"
        for name in ("allgather", "allreduce", "broadcast")
    },
    **{
        f"horovod.{name}": "horovod.collectives"
        for name in ("Adasum", "Average", "Sum", "allgather", "allreduce", "broadcast")
    },
    **{
        f"horovod.{name}": "horovod.processes"
        for name in (
            *("init", "shutdown", "is_initialized", "size", "rank", "local_size", "local_rank"),
            *("cross_size", "cross_rank", "is_homogeneous", "mpi_threads_supported"),
            *("mpi_enabled", "mpi_built", "gloo_enabled", "gloo_built"),
            *("nccl_built", "ddl_built", "ccl_built"),
        )
    },
    "function": "ops.functional_ops",
    "outlined_function": "ops.functional_ops",
    "keras.CaptureActivationGradients": "keras_layers.capture",
    "keras.CaptureUpstreamGradients": "keras_layers.capture",
    "keras.FunctionalLayerPipelineStageAssignment": "keras_layers.pipelining.assignment",
    "keras.FunctionalNestedModelPipelineStageAssignment": "keras_layers.pipelining.assignment",
    "keras.ModelLayerPipelineStageAssignment": "keras_layers.pipelining.assignment",
    "keras.NestedModelPipelineStageAssignment": "keras_layers.pipelining.assignment",
    "keras.PipelineStage": "keras_layers.pipelining.stage",
    "keras.PipelineStageAssignment": "keras_layers.pipelining.assignment",
    "keras.ReplicatedMetricReductionMethod": "keras_layers.models.options.model_options",
    "keras.SequentialLayerPipelineStageAssignment": "keras_layers.pipelining.assignment",
    "keras.SequentialNestedModelPipelineStageAssignment": "keras_layers.pipelining.assignment",
}

# Public module below `tensorflow.compiler.plugin.poplar` -> module of `tensorflow_ipu`.
POPLAR_MODULES = {
    "driver.config_pb2": "configs.proto.ipu_options_pb2",
    "driver.trace_pb2": "configs.proto.trace_pb2",
    "ops.gen_ipu_ops": "ops.raw.gen_ipu_ops",
    "ops.gen_popnn_ops": "ops.raw.gen_popnn_ops",
    "ops.gen_popops_ops": "ops.raw.gen_popops_ops",
    "ops.gen_poprand_ops": "ops.raw.gen_poprand_ops",
    "ops.gen_poputil_ops": "ops.raw.gen_poputil_ops",
}

# Public module below `ipu_tensorflow_addons` -> module of `tensorflow_ipu`.
ADDONS_MODULES = {
    "keras.extensions": "keras_layers.models.extension",
    "keras.layers": "keras_layers.layers",
    "keras.losses": "keras_layers.losses",
    "keras.optimizers": "keras_layers.addon_optimizers",
    "layers.rnn_ops": "ops.rnn_ops",
    "v1.layers": "ops.rnn_ops",
}

# Public module `popdist`, and those below it -> module of `tensorflow_ipu`.
POPDIST_MODULES = {
    "": "distributed.popdist",
    "tensorflow": "distributed.popdist.tensorflow",
}

# Public module `popxl`, and those below it -> module of `tensorflow_ipu`.
POPXL_MODULES = {
    "": "frontends.popxl",
    **{
        name: f"frontends.popxl.{name}"
        for name in (
            *("context", "dtypes", "errors", "fp8_utils", "graph", "ir", "module", "ops"),
            *(
                "ops.collectives",
                "ops.random_seed",
                "replica_grouping",
                "session",
                "streams",
                "tensor",
            ),
            *("random_seed", "tensor_location", "transforms", "utils", "ops.var_updates"),
        )
    },
}

# Public module `popxl_addons`, and those below it -> module of `tensorflow_ipu`.
POPXL_ADDONS_MODULES = {
    "": "frontends.popxl_addons",
    **{
        name: f"frontends.popxl_addons.{name}"
        for name in (
            *("array_munging", "debugging", "dot_tree", "graph", "graph_cache", "layers"),
            *("layers.conv", "layers.embedding", "layers.layer_norm_distributed", "layers.linear"),
            *("layers.linear_fp8", "layers.linear_gq", "optimizers.adam"),
            *("module", "named_replica_grouping", "named_tensors", "ops", "optimizers"),
            *("ops.cross_entropy_sharded_loss", "ops.cross_entropy_sharded_wr_loss"),
            *("ops.cross_entropy", "ops.fp8_amax_scale", "ops.fp8_mse_scale"),
            *("ops.grad_reduce_square_add", "ops.group_quantize_decompress"),
            *("ops.layer_norm_distributed", "ops.linear_layout", "ops.replicated_all_reduce_TP"),
            *("ops.replicated_strided_collectives", "ops.rotary_pos_embed"),
            *("ops.static_sparse_ops", "patterns", "remote"),
            *("performance_utils", "streams", "task_session", "testing_utils", "transforms"),
            *("route_tensor", "rts", "seed_variable", "utils", "variable_factory"),
            *("transforms.autodiff", "transforms.pipelining", "transforms.recompute"),
            *("transforms.batch_serialisation", "transforms.repeat_graph"),
        )
    },
}

# Public module `popart`, and those below it -> module of `tensorflow_ipu`.
POPART_MODULES = {
    "": "frontends.popart",
    **{
        name: f"frontends.popart.{name}"
        for name in ("builder", "custom_ops", "session", "tensorinfo", "writer")
    },
    "_internal": "frontends.popart.internal",
    "_internal.ir": "frontends.popart.internal.ir",
}
POPART_CORE_MODULES = {"": "frontends.popart.core"}

# Public module `pva` -> module of `tensorflow_ipu`.
PVA_MODULES = {"": "frontends.pva"}


def lazy_modules(package: str) -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Makes the `__getattr__` and the `__dir__` that import public modules when first used.

    Args:
        package: name of a package of `tensorflow_ipu`, or that itself.

    Returns:
        The two functions, for the package to assign.
    """
    prefix = (package + ".")[len(PACKAGE) + 1 :]

    def get_attribute(name: str) -> "Any":
        if prefix + name in MODULES:
            import importlib

            return importlib.import_module(f"{package}.{name}")
        if prefix + name in NAMES:
            import importlib

            module = importlib.import_module(f"{PACKAGE}.{NAMES[prefix + name]}")
            return getattr(module, name)
        raise AttributeError(missing(f"{PUBLIC}.{prefix}{name}", f"{package}.{name}"))

    def names() -> "list[str]":
        public = (*MODULES, *NAMES)
        below = {name[len(prefix) :] for name in public if name.startswith(prefix)}
        own = vars(sys.modules[package])
        return sorted({*own, *(name.split(".")[0] for name in below)})

    return get_attribute, names


def missing(public: str, asked: str) -> str:
    """Returns the message of the error for an attribute that is not there.

    Args:
        public: its full name, as programs for the original have it.
        asked: the name that was asked for: of a module, and of an attribute.
    """
    module, _, name = asked.rpartition(".")
    bare = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_"):  # the import system asks for these, while it imports too
        return bare
    from tensorflow_ipu import _former_names

    return _former_names.explain(public) or bare


def show_in_keras() -> None:
    """Gives the modules of Keras that are loaded the attribute `ipu`."""
    for name in KERAS:
        module = sys.modules.get(name)
        if module is not None:
            module.ipu = sys.modules[KERAS_IPU]  # type: ignore[attr-defined]
