"""Tables of all public modules and where their code is; `finder.py` imports by them.

Every Python interpreter of an environment with tensorflow_ipu runs this file when it starts. So it
imports nothing that the interpreter has not loaded by then, and TensorFlow least of all.
"""

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

# The modules of Keras with the attribute `ipu`: of `import keras`, of `tf.keras`, and of `import
# tensorflow.keras`, which loads the same file once more. From TensorFlow 2.16 on, the first two are
# `tf_keras`'s.
KERAS = (
    *("keras", "keras.api._v2.keras", "tensorflow.keras"),
    *("tf_keras", "tf_keras.api._v2.keras"),
)
KERAS_IPU = PACKAGE + ".api.keras"

# Public module, below `tensorflow.python.ipu` and `tensorflow_ipu` -> module of `tensorflow_ipu`.
MODULES = {
    "all_to_all_op": "ops.all_to_all_op",
    "application_compile_op": "serving.application_compile_op",
    "autoshard": "api.autoshard",
    "config": "api.config",
    "control_flow_ops": "ops.control_flow_ops",
    "cross_replica_ops": "ops.cross_replica_ops",
    "cross_replica_optimizer": "optimizers.cross_replica_optimizer",
    "custom_ops": "ops.custom_ops",
    "data": "api.data",
    "data.ops": "api.data.ops",
    "data.ops.dataset_ops": "api.data.ops.dataset_ops",
    "dataset_benchmark": "feeds.dataset_benchmark",
    "dataset_extractor": "feeds.dataset_extractor",
    "distributed": "distributed",
    "distributed.host_collective_ops": "distributed.host_collective_ops",
    "distributed.ipu_multi_worker_strategy": "distributed.ipu_multi_worker_strategy",
    "distributed.popdist_strategy": "distributed.popdist_strategy",
    "eager": "api.eager",
    "eager.backprop": "api.eager.backprop",
    "embedded_runtime": "serving.embedded_runtime",
    "embedding_ops": "ops.embedding_ops",
    "f8_ops": "ops.f8_ops",
    "functional_ops": "ops.functional_ops",
    "grad_util_ops": "ops.grad_util_ops",
    "gradient_accumulation": "api.gradient_accumulation",
    "gradient_accumulation_optimizer": "optimizers.gradient_accumulation_optimizer",
    "horovod": "distributed.horovod",
    "horovod.ipu_horovod_strategy": "distributed.horovod.ipu_horovod_strategy",
    "horovod.ipu_multi_replica_strategy": "distributed.horovod.ipu_multi_replica_strategy",
    "horovod.popdist_strategy": "distributed.popdist_strategy",
    "image_ops": "ops.image_ops",
    "internal_ops": "ops.internal_ops",
    "ipu_compiler": "api.ipu_compiler",
    "ipu_estimator": "estimators.ipu_estimator",
    "ipu_infeed_queue": "feeds.ipu_infeed_queue",
    "ipu_multi_worker_strategy": "distributed.ipu_multi_worker_strategy",
    "ipu_outfeed_queue": "feeds.ipu_outfeed_queue",
    "ipu_pipeline_estimator": "estimators.ipu_pipeline_estimator",
    "ipu_run_config": "estimators.ipu_run_config",
    "ipu_session_run_hooks": "estimators.ipu_session_run_hooks",
    "ipu_strategy": "distributed.ipu_strategy",
    "keras": "api.keras",
    "keras.extensions": "keras_layers.models.extension",
    "keras.layers": "keras_layers.layers",
    "keras.losses": "keras_layers.losses",
    "keras.optimizers": "keras_layers.optimizers",
    "layers": "keras_layers.layers",
    "loops": "api.loops",
    "map_gradient_optimizer": "optimizers.map_gradient_optimizer",
    "math_ops": "ops.math_ops",
    "nn_ops": "ops.nn_ops",
    "normalization_ops": "ops.normalization_ops",
    "ops": "ops",
    "ops.all_to_all_op": "ops.all_to_all_op",
    "ops.application_compile_op": "serving.application_compile_op",
    "ops.control_flow_ops": "ops.control_flow_ops",
    "ops.cross_replica_ops": "ops.cross_replica_ops",
    "ops.custom_ops": "ops.custom_ops",
    "ops.embedded_runtime": "serving.embedded_runtime",
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
    "scopes": "api.scopes",
    "serving": "serving",
    "sharded_optimizer": "optimizers.sharded_optimizer",
    "sharding": "api.sharding",
    "slicing_ops": "ops.slicing_ops",
    "statistics_ops": "ops.statistics_ops",
    "summary_ops": "ops.summary_ops",
    "utils": "api.utils",
    "vertex_edsl": "ops.vertex_edsl",
    "within_replica_ops": "ops.within_replica_ops",
}

# Documented module below `tensorflow_ipu` alone -> module of `tensorflow_ipu`.
OWN_PATHS = {"schedule": "planner.schedule"}

# Public function or class of a package -> module of `tensorflow_ipu` that has it.
NAMES = {
    **{
        f"distributed.{name}": "distributed.host_collective_ops"
        for name in ("allgather", "allreduce", "broadcast")
    },
    **{
        f"horovod.{name}": "distributed.horovod.collectives"
        for name in ("Adasum", "Average", "Sum", "allgather", "allreduce", "broadcast")
    },
    **{
        f"horovod.{name}": "distributed.horovod.processes"
        for name in (
            *("init", "shutdown", "is_initialized", "size", "rank", "local_size", "local_rank"),
            *("cross_size", "cross_rank", "is_homogeneous", "mpi_threads_supported"),
            *("mpi_enabled", "mpi_built", "gloo_enabled", "gloo_built"),
            *("nccl_built", "ddl_built", "ccl_built"),
        )
    },
    "function": "ops.functional_ops",
    "outlined_function": "ops.functional_ops",
    "keras.CaptureActivationGradients": "keras_layers.layers.capture",
    "keras.CaptureUpstreamGradients": "keras_layers.layers.capture",
    "keras.FunctionalLayerPipelineStageAssignment": "keras_layers.pipelining.assignment",
    "keras.FunctionalNestedModelPipelineStageAssignment": "keras_layers.pipelining.assignment",
    "keras.ModelLayerPipelineStageAssignment": "keras_layers.pipelining.assignment",
    "keras.NestedModelPipelineStageAssignment": "keras_layers.pipelining.assignment",
    "keras.PipelineStage": "keras_layers.pipelining.stage_scope",
    "keras.PipelineStageAssignment": "keras_layers.pipelining.assignment",
    "keras.ReplicatedMetricReductionMethod": "keras_layers.models.model_options",
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
            *("context", "dtypes", "ir", "module", "ops", "ops.collectives", "ops.utils"),
            *("ops.var_updates", "replica_grouping", "session", "streams", "tensor"),
            *("tensor_location", "transforms", "utils"),
        )
    },
    "errors": "frontends.common.errors",
    "fp8_utils": "frontends.popxl.utils",
    "graph": "frontends.popxl.ir",
    "testing": "frontends.popxl.utils",
    "typing_": "frontends.popxl.tensor",
    "tensorlocation": "frontends.popxl.tensor_location",
    "ops.collectives.collectives": "frontends.popxl.ops.collectives.across_replicas",
    "ops.negative_log_likelihood": "frontends.popxl.ops.losses",
    "ops.random_seed": "frontends.popxl.ops.random",
    "random_seed": "frontends.popxl.ops.random",
}

# Modules of `popxl` with the name of a function: a path leads to the module, the attribute of the
# package is the function. Module of `tensorflow_ipu` -> the names.
_POPXL_FUNCTIONS = {
    "remote_buffers": "remote_buffer",
    "transforms.differentiation": "transforms.autodiff",
    "ops.arithmetic": "ops.add ops.clamp ops.div ops.equal ops.fmod ops.greater ops.increment_mod"
    " ops.logical_and ops.logical_not ops.logical_or ops.maximum ops.mul ops.pow ops.scaled_add"
    " ops.sub ops.where",
    "ops.calls": "ops.call",
    "ops.control_flow": "ops.conditional ops.repeat",
    "ops.elementwise": "ops.abs ops.ceil ops.cos ops.exp ops.floor ops.gelu ops.geluerf"
    " ops.isfinite ops.isinf ops.isnan ops.log ops.log2 ops.negate ops.relu ops.sign ops.sin"
    " ops.softmax ops.sqrt ops.swish ops.tanh",
    "ops.float8": "ops.pow2scale_cast_from_fp8 ops.pow2scale_cast_to_fp8",
    "ops.host": "ops.host_load ops.host_store ops.print_tensor ops.remote_code_load"
    " ops.remote_load ops.remote_store",
    "ops.indexing": "ops.gather ops.groupedgather ops.onehot ops.scatter ops.scatter_reduce"
    " ops.tied_gather",
    "ops.images": "ops.average_pool ops.interpolate ops.max_pool ops.roi_align",
    "ops.linear": "ops.conv ops.conv_transpose ops.matmul",
    "ops.losses": "ops.nll_loss",
    "ops.movement": "ops.cast ops.concat ops.detach ops.flatten ops.identity ops.init"
    " ops.io_tile_copy ops.ipu_copy ops.rename ops.reshape ops.split ops.squeeze ops.transpose",
    "ops.normalization": "ops.batch_norm_inference ops.group_norm ops.layer_norm",
    "ops.random": "ops.dropout ops.random_normal ops.random_uniform ops.shaped_dropout"
    " ops.split_random_seed",
    "ops.reductions": "ops.argmax ops.argmin ops.cumsum ops.histogram ops.l1 ops.l2 ops.logsum"
    " ops.logsumexp ops.max ops.mean ops.median ops.min ops.prod ops.sum ops.sumsquare ops.topk",
    "ops.slicing": "ops.dynamic_slice ops.dynamic_update ops.slice ops.subsample",
    "ops.var_updates": "ops.lamb_square",
}
POPXL_FUNCTION_PATHS = {
    name: f"frontends.popxl.{module}"
    for module, names in _POPXL_FUNCTIONS.items()
    for name in names.split()
}

# Public modules of `popxl_addons` that share a file. Module of `tensorflow_ipu` -> the paths.
_POPXL_ADDONS_PARTS = {
    "compiler_hints": "patterns ops.linear_layout ops.linear_layout.linear_layout"
    " transforms.available_memory_proportion transforms.use_fc_pass",
    "dot_tree": "named_tensors",
    "graph": "graph_common",
    "layers": "layers.conv layers.embedding layers.group_norm layers.layer_norm"
    " layers.layer_norm_distributed layers.linear layers.linear_fp8 layers.linear_gq",
    "ops.compressed_weights": "ops.group_quantize_decompress"
    " ops.group_quantize_decompress.group_quantize_decompress ops.static_sparse_ops"
    " ops.static_sparse_ops.dense_sparse_matmul",
    "ops.float8": "ops.fp8_amax_scale ops.fp8_mse_scale ops.fp8_mse_scale.fp8_mse_scale"
    " ops.fp8_utils",
    "ops.losses": "ops.cross_entropy ops.cross_entropy_sharded_loss"
    " ops.cross_entropy_sharded_loss.cross_entropy_sharded_loss ops.cross_entropy_sharded_wr_loss"
    " ops.cross_entropy_sharded_wr_loss.cross_entropy_sharded_wr_loss",
    "ops.rotary_pos_embed": "ops.rotary_pos_embed.rotary_pos_embed",
    "ops.tensor_parallel": "ops.layer_norm_distributed"
    " ops.layer_norm_distributed.layer_norm_distributed ops.replicated_all_reduce_TP"
    " ops.replicated_all_reduce_TP.replicated_all_reduce_TP ops.replicated_strided_collectives"
    " ops.replicated_strided_collectives.replicated_all_gather_strided"
    " ops.replicated_strided_collectives.replicated_all_reduce_strided"
    " ops.replicated_strided_collectives.replicated_reduce_scatter_strided",
    "optimizers": "optimizers.adam ops.grad_reduce_square_add"
    " ops.grad_reduce_square_add.grad_reduce_square_add",
    "task_session": "streams",
    "transforms.autodiff": "transforms.recomputation",
    "transforms.rewrites": "route_tensor transforms.repeat_graph",
    "utils": "debugging",
    "variable_factory": "seed_variable",
}

# Public module `popxl_addons`, and those below it -> module of `tensorflow_ipu`.
POPXL_ADDONS_MODULES = {
    "": "frontends.popxl_addons",
    **{
        name: f"frontends.popxl_addons.{name}"
        for name in (
            *("array_munging", "dot_tree", "graph", "graph_cache", "layers", "module"),
            *("named_replica_grouping", "ops", "ops.rotary_pos_embed", "ops.streams"),
            *("optimizers", "performance_utils", "remote", "rts", "task_session"),
            *("testing_utils", "transforms", "transforms.autodiff"),
            *("transforms.batch_serialisation", "transforms.pipelining"),
            *("utils", "variable_factory"),
        )
    },
    **{
        name: f"frontends.popxl_addons.{module}"
        for module, names in _POPXL_ADDONS_PARTS.items()
        for name in names.split()
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
PVA_MODULES = {"": "frontends.pva", "pva_core": "frontends.pva"}
