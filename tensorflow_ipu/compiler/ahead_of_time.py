"""Compilation of a Cluster before its first run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import dtypes, errors, tensor_shape
from tensorflow.python.ops import handle_data_util

from tensorflow_ipu.compiler import compile as compile_lib
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.ir.target import Argument


def compile_cluster(
    cluster: Cluster, ordinal: int
) -> tuple[Executable, function_pb2.FunctionDefLibrary]:
    """Compiles a Cluster for the argument shapes of its trace.

    Args:
        cluster: the Cluster. The shapes of its inputs are fully defined, and the resources that it
            captures are variables.
        ordinal: for which device `/device:IPU:<ordinal>`.

    Returns:
        The Executable, and the library to run.

    Raises:
        tf.errors.OpError: As at the first run of a program.
    """
    compile_lib.ensure_registered()
    with compile_lib.LOCK:
        target = compile_lib.target_in_force(ordinal, _arguments(cluster))
        return compile_lib.compile_cluster(cluster, target, to_file=True)


def _arguments(cluster: Cluster) -> Iterator[Argument]:
    """Yields type and shape of each argument of a Cluster, as far as the trace has them."""
    captured = {id(inner): outer for outer, inner in cluster.graph.captures}
    for tensor in cluster.graph.inputs:
        if tensor.dtype == dtypes.resource:
            yield _variable(captured[id(tensor)])
        else:
            yield Argument(tensor.dtype, tensor.shape, False)


def _variable(handle: Any) -> Argument:
    """Returns type and shape of a variable as an argument, from its handle.

    Raises:
        tf.errors.InvalidArgumentError: If the handle is of another kind of resource.
    """
    data = handle_data_util.get_handle_data(handle)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"The program uses {handle!r}, which is no variable, and programs on the IPU have no "
            "other resources. Use it on the host, and pass what comes of it to the program.",
        )
    (found,) = data.shape_and_type
    return Argument(dtypes.as_dtype(found.dtype), tensor_shape.TensorShape(found.shape), True)
