"""Launch of a Cluster: as an op in the user's graph, or at once in eager mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tensorflow.python.eager import context
from tensorflow.python.framework import ops
from tensorflow.python.framework import tensor as tensor_lib

from tensorflow_ipu.compiler import compile as _compile
from tensorflow_ipu.compiler.checks import foreign_resources
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.runtime import interpreter, native


@ops.RegisterGradient("IpuLaunch")
@ops.RegisterGradient("IpuLaunchCluster")
def _refuse_gradient(op: ops.Operation, *_: Any) -> NoReturn:
    """Raises: a program computes and applies gradients itself."""
    eager = op.type == "IpuLaunchCluster"
    name = op.inputs[0].numpy() if eager else op.get_attr("cluster")
    raise NotImplementedError(
        f"Cannot differentiate through the IPU program {name.decode()}. Compute "
        "the gradients inside the function that is compiled for the IPU."
    )


def launch(
    cluster: Cluster,
    arguments: Sequence[tensor_lib.Tensor],
    device: str,
    check: bool = True,
) -> list[tensor_lib.Tensor] | ops.Operation | None:
    """Launches a Cluster on an IPU device.

    Args:
        cluster: the Cluster.
        arguments: its explicit inputs, then its captures.
        device: the device.
        check: whether to look for resources that are not on that device; not needed where an
            earlier launch had the same.

    Returns:
        The results. For a Cluster without results, the launch operation (`None` when it ran
        eagerly).

    Raises:
        tf.errors.InvalidArgumentError: If an argument is a resource that is not on that device.
    """
    if check:
        foreign_resources.check(cluster, arguments, device)
    _compile.ensure_registered()
    outputs = cluster.graph.outputs
    types = [output.dtype for output in outputs]
    with ops.device(device):
        if context.executing_eagerly():
            return interpreter.call(
                native.ops().ipu_launch_cluster, cluster.eager_id, list(arguments), types
            )
        graph = ops.get_default_graph()
        graph._add_function_recursive(cluster.function)
        cluster.keep_with(graph)
        return native.ops().ipu_launch(
            args=list(arguments),
            Tresults=types,
            f=cluster.entry,
            cluster=cluster.id,
            output_shapes=[output.shape for output in outputs],
            name=cluster.id,
        )
