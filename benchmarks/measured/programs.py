"""Compiles the programs of whole models, without running them, and describes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ops import handle_data_util

from tensorflow_ipu.compiler import cluster as cluster_lib
from tensorflow_ipu.compiler import compile as compile_lib
from tensorflow_ipu.compiler import requests
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.ir.target import Argument
from tensorflow_ipu.runtime import system

_DEVICE = "/device:IPU:0"
# Of the largest device that can be attached.
_IPUS = 16


class Layout(NamedTuple):
    """How a model is laid out on IPUs.

    Args:
        devices: IPU of each pipeline stage.
        schedule: name of a `PipelineSchedule`.
        recompute: whether activations are computed again.
        momentum: whether the optimizer is SGD with momentum; else Adam, whose state and arithmetic
            are about those of LAMB.
        offload: whether optimizer state is off the chip, split over the replicas.
    """

    devices: tuple[int, ...]
    schedule: str
    recompute: bool
    momentum: bool
    offload: bool = False

    @property
    def ipus(self) -> int:
        """IPUs of one replica, as a power of two."""
        return 1 << max(self.devices).bit_length()


def compile_pipeline(
    name: str,
    stages: Sequence[Callable[..., Any]],
    element: Sequence[tf.TensorSpec],
    layout: Layout,
    count: int,
) -> Executable:
    """Compiles a training step: `count` mini-batches, the sum of gradients, the update.

    The device has two replicas if it can; how many there are in truth is a setting of the plan.

    Args:
        name: of the program.
        stages: the stages; the last returns the loss.
        element: what the infeed has for each mini-batch.
        layout: on IPUs.
        count: gradient accumulation count.

    Returns:
        The Executable. Nothing was run.
    """
    _configure(layout)
    with tf.Graph().as_default() as graph:
        zeros = tuple(tf.zeros(spec.shape, spec.dtype) for spec in element)
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensors(zeros).repeat())
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def program() -> Any:
            return _pipeline(stages, layout, count, infeed, outfeed)

        program.__name__ = name
        with ipu.scopes.ipu_scope(_DEVICE):
            ipu.ipu_compiler.compile(program)
        (launch,) = [op for op in graph.get_operations() if op.type == "IpuLaunch"]
        return _compile(cluster_lib.find(launch.get_attr("cluster").decode()))


def _compile(cluster: cluster_lib.Cluster) -> Executable:
    """Compiles a Cluster of a graph, whose variables have no values yet."""
    arguments = []
    for tensor in cluster.graph.inputs:
        if tensor.dtype == tf.resource:
            (held,) = handle_data_util.get_resource_handle_data(tensor).shape_and_type
            arguments.append(Argument(tf.as_dtype(held.dtype), tf.TensorShape(held.shape), True))
        else:
            arguments.append(Argument(tensor.dtype, tensor.shape, False))
    requests.ensure_registered()
    with requests.LOCK:
        target = requests.target_in_force(0, arguments)
        return compile_lib.compile_cluster(cluster, target)[0]


def _pipeline(
    stages: Sequence[Callable[..., Any]], layout: Layout, count: int, infeed: Any, outfeed: Any
) -> Any:
    ops = ipu.pipelining_ops

    def update(loss: tf.Tensor) -> Any:
        return ops.OptimizerFunctionOutput(_optimizer(layout), loss)

    return ops.pipeline(
        list(stages),
        count,
        infeed_queue=infeed,
        outfeed_queue=outfeed,
        optimizer_function=update,
        device_mapping=list(layout.devices),
        pipeline_schedule=ops.PipelineSchedule[layout.schedule],
        recomputation_mode=_recomputation(layout),
        offload_weight_update_variables=layout.offload,
        replicated_optimizer_state_sharding=layout.offload,
    )


def _recomputation(layout: Layout) -> Any:
    """Between checkpoints, one part after the other, each just before its gradients."""
    if not layout.recompute:
        return None
    return ipu.pipelining_ops.RecomputationMode.RecomputeAndBackpropagateInterleaved


def _optimizer(layout: Layout) -> Any:
    inner = (
        tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)
        if layout.momentum
        else tf.compat.v1.train.AdamOptimizer(0.1, epsilon=0.01)
    )
    return ipu.cross_replica_optimizer.CrossReplicaOptimizer(inner)


def _configure(layout: Layout) -> None:
    """Attaches a device of two replicas."""
    if layout.ipus > _IPUS:
        raise ValueError(f"a replica needs {layout.ipus} IPUs, and a device has {_IPUS}")
    system.reset_ipu_configuration()
    config = IPUConfig()
    config.auto_select_ipus = min(2 * layout.ipus, _IPUS)
    config.allow_recompute = layout.recompute
    # Time is what is asked for. The published programs keep optimizer state elsewhere.
    config.compilation_poplar_options = {"debug.allowOutOfMemory": "true"}
    config.configure_ipu_system()
