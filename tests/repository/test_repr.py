"""Texts of objects: one short line, and no bare address."""

from __future__ import annotations

import enum
import importlib
import re

import pytest
import tensorflow as tf
from google.protobuf import message
from tensorflow.python import ipu

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.machine import Machine
from tensorflow_ipu.feeds.ipu_infeed_queue import IPUIterator, IPUOwnedIterator
from tensorflow_ipu.keras_layers.layers import EffectiveTransformer
from tensorflow_ipu.keras_layers.models import extension
from tensorflow_ipu.keras_layers.pipelining import assignment
from tensorflow_ipu.runtime import system
from tensorflow_ipu.serving.application import Signature
from tensorflow_ipu.util.short_repr import LENGTH
from tests.support.checkout.public_classes import public_classes
from tests.support.models import estimator_models
from tests.support.planner import plans
from tests.support.reports import profiled

tf1 = tf.compat.v1
ADDRESS = re.compile(r"0x[0-9a-f]{6,}|object at")
SGD = tf1.train.GradientDescentOptimizer
ADDON_OPTIMIZERS = importlib.import_module("ipu_tensorflow_addons.keras.optimizers")
POPDIST_STRATEGY = ipu.distributed.popdist_strategy.PopDistStrategy
HOROVOD_STRATEGY = ipu.horovod.ipu_horovod_strategy.IPUHorovodStrategy
MULTI_REPLICA_STRATEGY = ipu.horovod.ipu_multi_replica_strategy.IPUMultiReplicaStrategy
MULTI_WORKER_STRATEGY = ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategy
LAYERS = ipu.keras.layers
RNN = ipu.rnn_ops
KERAS_OPTIMIZERS = ipu.keras.optimizers
EMBEDDING = ipu.embedding_ops


def dataset():
    return tf.data.Dataset.from_tensor_slices(tf.ones([4, 2, 3])).batch(2, drop_remainder=True)


def in_graph(make):
    """Makes an object in a graph of its own, as programs of TensorFlow 1 do."""

    def made():
        with tf.Graph().as_default():
            return make()

    return made


def model(make=None):
    """A Keras model of the scope of a strategy."""
    with ipu.ipu_strategy.IPUStrategy().scope():
        inputs = tf.keras.Input([3])
        outputs = tf.keras.layers.Dense(2)(inputs)
        return make(inputs, outputs) if make else tf.keras.Model(inputs, outputs, name="net")


class Subclass(tf.keras.Model):
    def call(self, inputs):
        return inputs


def subclass_model():
    with ipu.ipu_strategy.IPUStrategy().scope():
        return Subclass(name="net")


def sequential():
    with ipu.ipu_strategy.IPUStrategy().scope():
        return tf.keras.Sequential([tf.keras.layers.Dense(2)], name="net")


def accumulation(kind, *args, **kwargs):
    return in_graph(lambda: kind(SGD(0.1), *args, **kwargs))


def keras_wrapper(kind, *args):
    return lambda: kind(tf.keras.optimizers.SGD(0.1), *args)


def als_accumulation():
    inner = KERAS_OPTIMIZERS.ALSOptimizer(tf.keras.optimizers.SGD())
    return KERAS_OPTIMIZERS.ALSGradientAccumulationOptimizer(inner, 4)


def layer(kind, *args, **kwargs):
    return lambda: kind(*args, **kwargs)


def hook():
    return ipu.ipu_session_run_hooks.IPULoggingTensorHook(every_n_iter=2)


def pipeline_spec():
    return ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(
        "train",
        computational_stages=[lambda x: x, lambda x: x],
        gradient_accumulation_count=4,
        optimizer_function=lambda loss: None,
    )


def assigned(kind):
    """Makes the stage assignment of a layer, or of a model with eight of them."""

    def made():
        if not issubclass(kind, assignment.NestedAssignment):
            place = [tf.keras.layers.Dense(2, name="dense")]
            last = 0
        else:
            element = assignment.SequentialLayerPipelineStageAssignment
            place = [sequential()]
            last = [element(tf.keras.layers.Dense(2), stage) for stage in range(8)]
        if issubclass(kind, (assignment.LayerCallAssignment, assignment.NestedCallAssignment)):
            place.append(1)
        return kind(*place, last)

    return made


def pipeline_output():
    return ipu.pipelining_ops.OptimizerFunctionOutput(SGD(0.1), tf.constant(1.0))


def table(spec=None):
    return EMBEDDING.HostEmbedding("table", tf.Variable(tf.ones([4, 2])), optimizer_spec=spec)


def capture():
    context = ipu.grad_util_ops.GradientCaptureContext()
    context.add_gradients([tf.constant(1.0)], "tag")
    return context


def changed_keys():
    options = ipu.utils.VerificationOptions()
    for index in range(50):
        options.infeeds[f"feed {index}"].key = index
    return options


# Classes that raise an error when they are made, and a base class.
NOT_MADE = (
    EffectiveTransformer,
    KERAS_OPTIMIZERS.MapGradientOptimizer,
    assignment.PipelineStageAssignment,
)

# Class -> what makes an object of it.
MAKERS = {
    LAYERS.CaptureActivationGradients: layer(
        LAYERS.CaptureActivationGradients, tf.keras.layers.Dense(2, "relu")
    ),
    LAYERS.CaptureUpstreamGradients: layer(
        LAYERS.CaptureUpstreamGradients, tf.keras.layers.Dense(2)
    ),
    LAYERS.CTCInferenceLayer: layer(LAYERS.CTCInferenceLayer),
    LAYERS.CTCPredictionsLayer: layer(LAYERS.CTCPredictionsLayer),
    ipu.keras.losses.CTCLoss: layer(ipu.keras.losses.CTCLoss),
    LAYERS.Dropout: layer(LAYERS.Dropout, 0.5),
    LAYERS.Embedding: layer(LAYERS.Embedding, 8, 2),
    LAYERS.SerialDense: layer(LAYERS.SerialDense, 8, 2, "kernel_rows"),
    LAYERS.AssumeEqualAcrossReplicas: layer(LAYERS.AssumeEqualAcrossReplicas),
    LAYERS.RecomputationCheckpoint: layer(LAYERS.RecomputationCheckpoint),
    LAYERS.GroupNormalization: layer(LAYERS.GroupNormalization),
    LAYERS.InstanceNormalization: layer(LAYERS.InstanceNormalization),
    LAYERS.LayerNormalization: layer(LAYERS.LayerNormalization),
    LAYERS.PopnnGRU: layer(LAYERS.PopnnGRU, 2),
    LAYERS.PopnnLSTM: layer(LAYERS.PopnnLSTM, 2),
    extension.ModelExtension: subclass_model,
    extension.FunctionalExtension: model,
    extension.SequentialExtension: sequential,
    KERAS_OPTIMIZERS.ALSOptimizer: keras_wrapper(KERAS_OPTIMIZERS.ALSOptimizer),
    KERAS_OPTIMIZERS.ALSOptimizerAdam: layer(KERAS_OPTIMIZERS.ALSOptimizerAdam),
    KERAS_OPTIMIZERS.ALSOptimizerRMSProp: layer(KERAS_OPTIMIZERS.ALSOptimizerRMSProp),
    KERAS_OPTIMIZERS.ALSOptimizerSGD: layer(KERAS_OPTIMIZERS.ALSOptimizerSGD),
    KERAS_OPTIMIZERS.CrossReplicaOptimizer: keras_wrapper(KERAS_OPTIMIZERS.CrossReplicaOptimizer),
    KERAS_OPTIMIZERS.GradientAccumulationOptimizer: keras_wrapper(
        KERAS_OPTIMIZERS.GradientAccumulationOptimizer, 4
    ),
    KERAS_OPTIMIZERS.ALSGradientAccumulationOptimizer: lambda: (
        KERAS_OPTIMIZERS.ALSGradientAccumulationOptimizer(
            KERAS_OPTIMIZERS.ALSOptimizer(tf.keras.optimizers.SGD()), 4
        )
    ),
    KERAS_OPTIMIZERS.IpuOptimizer: keras_wrapper(KERAS_OPTIMIZERS.IpuOptimizer),
    KERAS_OPTIMIZERS.MapGradientOptimizerInvertedChaining: keras_wrapper(
        KERAS_OPTIMIZERS.MapGradientOptimizerInvertedChaining, lambda g, v: g
    ),
    ipu.optimizers.CrossReplicaOptimizer: accumulation(ipu.optimizers.CrossReplicaOptimizer),
    ipu.optimizers.GradientAccumulationOptimizer: accumulation(
        ipu.optimizers.GradientAccumulationOptimizer, 4
    ),
    ipu.optimizers.GradientAccumulationOptimizerV2: accumulation(
        ipu.optimizers.GradientAccumulationOptimizerV2, 4
    ),
    ipu.optimizers.CrossReplicaGradientAccumulationOptimizer: accumulation(
        ipu.optimizers.CrossReplicaGradientAccumulationOptimizer, 4
    ),
    ipu.optimizers.CrossReplicaGradientAccumulationOptimizerV2: accumulation(
        ipu.optimizers.CrossReplicaGradientAccumulationOptimizerV2, 4
    ),
    ipu.optimizers.MapGradientOptimizer: accumulation(
        ipu.optimizers.MapGradientOptimizer, lambda g, v: g
    ),
    ipu.optimizers.ShardedOptimizer: accumulation(ipu.optimizers.ShardedOptimizer),
    RNN.PopnnLSTM: in_graph(layer(RNN.PopnnLSTM, 2)),
    RNN.PopnnDynamicLSTM: in_graph(layer(RNN.PopnnDynamicLSTM, 2)),
    RNN.PopnnGRU: in_graph(layer(RNN.PopnnGRU, 2)),
    RNN.PopnnDynamicGRU: in_graph(layer(RNN.PopnnDynamicGRU, 2)),
    RNN.PopnnAUGRU: in_graph(layer(RNN.PopnnAUGRU, 2)),
    ipu.ipu_infeed_queue.IPUInfeedQueue: lambda: ipu.ipu_infeed_queue.IPUInfeedQueue(dataset()),
    ipu.ipu_outfeed_queue.IPUOutfeedQueue: layer(ipu.ipu_outfeed_queue.IPUOutfeedQueue),
    ipu.ipu_outfeed_queue.ScopedIPUOutfeedQueue: layer(ipu.ipu_outfeed_queue.ScopedIPUOutfeedQueue),
    ipu.ipu_outfeed_queue.IPUOutfeedQueueIterator: lambda: (
        ipu.ipu_outfeed_queue.IPUOutfeedQueueIterator(ipu.ipu_outfeed_queue.IPUOutfeedQueue())
    ),
    ipu.embedded_runtime.EmbeddedRuntimeContext: lambda: (
        ipu.embedded_runtime.EmbeddedRuntimeContext("engine", None, Signature((), (), ()))
    ),
    IPUIterator: lambda: IPUIterator(dataset()),
    IPUOwnedIterator: lambda: IPUOwnedIterator(dataset()),
    ipu.ipu_strategy.IPUStrategy: layer(ipu.ipu_strategy.IPUStrategy),
    POPDIST_STRATEGY: layer(POPDIST_STRATEGY),
    HOROVOD_STRATEGY: layer(HOROVOD_STRATEGY),
    MULTI_REPLICA_STRATEGY: layer(MULTI_REPLICA_STRATEGY),
    MULTI_WORKER_STRATEGY: layer(
        MULTI_WORKER_STRATEGY, tf.distribute.cluster_resolver.TFConfigClusterResolver()
    ),
    ADDON_OPTIMIZERS.AdamIpuOptimizer: layer(ADDON_OPTIMIZERS.AdamIpuOptimizer),
    ADDON_OPTIMIZERS.IpuOptimizerBase: layer(ADDON_OPTIMIZERS.IpuOptimizerBase, "mine"),
    ADDON_OPTIMIZERS.LAMBIpuOptimizer: layer(ADDON_OPTIMIZERS.LAMBIpuOptimizer),
    ADDON_OPTIMIZERS.SGDIpuOptimizer: layer(ADDON_OPTIMIZERS.SGDIpuOptimizer),
    ipu.config.IPUConfig: layer(ipu.config.IPUConfig),
    ipu.config.AttributeMetadata: lambda: ipu.config.IPUConfig().get_attribute_metadata(
        "auto_select_ipus"
    ),
    ipu.config.KeyId: layer(ipu.config.KeyId, 3),
    ipu.config.VerificationOptions: changed_keys,
    ipu.data.ops.dataset_ops.BufferDataset: lambda: ipu.data.ops.dataset_ops.BufferDataset(
        dataset(), 2
    ),
    ipu.gradient_accumulation.MiniBatches: in_graph(
        lambda: ipu.gradient_accumulation.MiniBatches(1, "_attribute", {}, "name")
    ),
    ipu.pipelining_ops.PipelineStageOptions: layer(
        ipu.pipelining_ops.PipelineStageOptions, {"availableMemoryProportion": "0.1"}
    ),
    ipu.pipelining_ops.OptimizerFunctionOutput: in_graph(pipeline_output),
    EMBEDDING.HostEmbeddingOptimizerSpec: layer(EMBEDDING.HostEmbeddingOptimizerSpec, 0.5),
    EMBEDDING.HostEmbeddingSGDGAOptimizerSpec: layer(
        EMBEDDING.HostEmbeddingSGDGAOptimizerSpec, 0.5, 4
    ),
    EMBEDDING.HostEmbedding: table,
    EMBEDDING.HostEmbeddingScope: lambda: table().register(),
    ipu.eager.backprop.GradientCaptureContext: capture,
    ipu.eager.backprop.GradientCaptureTape: ipu.eager.backprop.GradientCaptureTape,
    ipu.ipu_estimator.IPUEstimator: estimator_models.estimator,
    ipu.ipu_estimator.IPUEstimatorSpec: in_graph(
        lambda: ipu.ipu_estimator.IPUEstimatorSpec(
            "train", loss=tf.constant(1.0), train_op=tf.no_op()
        )
    ),
    ipu.ipu_pipeline_estimator.IPUPipelineEstimator: lambda: (
        ipu.ipu_pipeline_estimator.IPUPipelineEstimator(
            lambda mode: None, config=estimator_models.run_config(2, 1, 2)
        )
    ),
    ipu.ipu_run_config.IPURunConfig: lambda: estimator_models.run_config(2, 2).ipu_run_config,
    ipu.ipu_run_config.RunConfig: lambda: estimator_models.run_config(2, 2),
    ipu.ipu_session_run_hooks.IPULoggingTensorHook: hook,
    ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec: pipeline_spec,
    **{
        kind: assigned(kind)
        for name, kind in vars(assignment).items()
        if name.endswith("PipelineStageAssignment") and name != "PipelineStageAssignment"
    },
    ipu.keras.PipelineStage: layer(ipu.keras.PipelineStage, 1),
    ipu.profiler.profile: layer(ipu.profiler.profile, "reports"),
    ipu.profiler.Callback: layer(ipu.profiler.Callback, "reports"),
    ipu.profiler.Report: lambda: ipu.profiler.Report.from_plan(plans.plan()),
}


def test_there_is_a_maker_for_each_public_class():
    missing = {
        found.__qualname__
        for found in public_classes() - set(MAKERS)
        if not issubclass(found, (enum.Enum, message.Message)) and found not in NOT_MADE
    }
    assert not missing


def check(shown):
    line = repr(shown)
    assert len(line) <= LENGTH, line
    assert "\n" not in line
    assert not ADDRESS.search(line), line
    return line


@pytest.mark.parametrize("made", MAKERS, ids=lambda made: made.__name__)
def test_every_public_class_has_a_short_repr(made):
    shown = MAKERS[made]()
    line = check(shown)
    assert type(shown).__name__ in line
    if made.__module__ != "tensorflow_ipu.api.data.ops.dataset_ops":  # TensorFlow's own
        assert not line.startswith("<")


def test_parts_of_a_report_have_short_reprs():
    report = ipu.profiler.Report.from_plan(plans.pipeline_plan())
    plan = report.plan
    assert check(plan) == (
        f"Plan({plan.workload.name!r}, fits=True, cycles={round(plan.timeline.cycles)}, "
        f"worst_bytes={plan.fullest.worst_bytes}, ipus=2, replicas=1, chip='mk2')"
    )
    for part in (plan.workload, plan.settings, plan.timeline, plan.timeline.schedule):
        check(part)
    for part in (*plan.memory, *plan.workload.ops, *plan.workload.buffers, *report.layers()):
        check(part)


def test_executables_and_their_parts_have_short_reprs():
    config = profiled.configure()
    profiled.run()
    (executable,) = ipu.profiler.executables()
    assert check(executable).startswith(f"Executable({executable.name!r}, device='/device:IPU:0'")
    for part in (*executable.arguments, *executable.variables, *executable.ops):
        check(part)
    for part in (executable.sources, executable.system, executable.remote_memory, config):
        check(part)
    check(ipu.profiler.report_of(executable))


def test_machines_and_chips_have_short_reprs():
    assert check(Machine()) == "Machine(Chip('mk2', tiles=1472), ipus=16, is_model=False)"
    for shown in (*Machine().configurations, *chips.CHIPS, system.current()):
        check(shown)
    check(system.device(0))


def test_reprs_show_the_values_that_matter():
    profiled.configure(2)
    assert repr(ipu.ipu_infeed_queue.IPUInfeedQueue(dataset())) == (
        "IPUInfeedQueue(float32[2, 2, 3], device_ordinal=0, prefetch_depth=3)"
    )
    assert repr(ipu.ipu_strategy.IPUStrategy()).startswith("IPUStrategyV1('/device:IPU:0'")
    inner = KERAS_OPTIMIZERS.CrossReplicaOptimizer(tf.keras.optimizers.SGD(0.1))
    assert repr(KERAS_OPTIMIZERS.GradientAccumulationOptimizer(inner, 4)).startswith(
        "GradientAccumulationOptimizer(CrossReplicaOptimizer(SGD, "
    )
    assert repr(model()) == "Functional(name='net', layers=2)"
