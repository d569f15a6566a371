"""Compiling a Cluster before anything runs it."""

from __future__ import annotations

from collections.abc import Iterator

from tensorflow.python.framework import dtypes

from tensorflow_ipu.compiler import compile as compile_lib
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.target import Argument, Target
from tensorflow_ipu.device import system


def compile_cluster(cluster: Cluster, ordinal: int) -> Executable:
    """Compiles a Cluster for the shapes that its trace says.

    Args:
        cluster: The Cluster. The shapes of its inputs are fully defined, and the resources that it
            captures are variables.
        ordinal: For which device `/device:IPU:<ordinal>`.

    Returns:
        The Executable.

    Raises:
        tf.errors.OpError: As at the first run of a program.
    """
    compile_lib.ensure_registered()
    with compile_lib.LOCK:
        system.device(ordinal)
        target = Target(ordinal, system.current().generation, tuple(_arguments(cluster)))
        executable, _ = compile_lib.compile_cluster(cluster, target)
    return executable


def _arguments(cluster: Cluster) -> Iterator[Argument]:
    """Yields what is known of the arguments of a Cluster before it gets values."""
    captured = {id(inner): outer for outer, inner in cluster.graph.captures}
    variables = {id(variable.handle): variable for variable in cluster.graph.variables}
    for tensor in cluster.graph.inputs:
        if tensor.dtype == dtypes.resource:
            variable = variables[id(captured[id(tensor)])]
            yield Argument(variable.dtype, variable.shape, True)
        else:
            yield Argument(tensor.dtype, tensor.shape, False)
