"""Launch of a Cluster: as an op in the user's graph, or at once in eager mode."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import function_type_utils
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
from tensorflow.python.framework import ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import resource_variable_ops

from tensorflow_ipu.compiler import requests, served, trace
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
    requests.ensure_registered()
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


# --- Launches of `tf.function` objects as Clusters ---

_PLAIN = "_ipu_plain"
_CLUSTER = "_ipu_cluster"


def without_jit(function: Function) -> Function:
    """Returns a `tf.function` like `function` that TensorFlow does not hand to XLA.

    XLA has no IPU backend here. The copy is kept with the original, so that both live and are
    traced as long.
    """
    if not function._jit_compile:
        return function
    plain = function.__dict__.get(_PLAIN)
    if plain is None:
        plain = function._clone(None)
        plain._jit_compile = None
        function.__dict__[_PLAIN] = plain
    return plain


def launch_function(
    function: Function | ConcreteFunction,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    device: str,
    check: Callable[[ConcreteFunction], None] | None = None,
) -> Any:
    """Launches a `tf.function` on an IPU device.

    Args:
        function: the function.
        args: its positional arguments.
        kwargs: its keyword arguments.
        device: the device, which is in scope.
        check: called with the traced function before it runs.

    Returns:
        The results of the function.
    """
    launches_itself = served.for_device(function, device)
    if launches_itself is not None:
        with ops.device("/device:CPU:0"):
            return launches_itself(*args, **kwargs)
    if isinstance(function, Function):
        args, kwargs = _with_defaults(function, args, kwargs)
    with interpreter.TRACING:
        concrete = _concrete(function, args, kwargs)
        cluster = _cluster(concrete)
        on_host = served.split(concrete, cluster, device)
        if check is not None and on_host is None:
            check(concrete)
    bound = function_type_utils.canonicalize_function_inputs(args, kwargs, concrete.function_type)
    inputs = [_as_tensor(value) for value in concrete.function_type.unpack_inputs(bound)]
    # Read at each call: captures by a closure may have changed.
    arguments = [*inputs, *concrete.captured_inputs]
    if on_host is None:
        results = launch(cluster, arguments, device)
    else:
        results = on_host(*arguments)
    if results is None or isinstance(results, ops.Operation):
        # Nothing to return. In a graph, automatic control dependencies make the launch run.
        results = []
    return concrete.function_type.pack_output(list(results))


def _with_defaults(
    function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Fills in the default values of a function's parameters."""
    bound = function_type_utils.canonicalize_function_inputs(
        args, kwargs, function._function_type, function._default_values, function._is_pure
    )
    return bound.args, bound.kwargs


def _concrete(
    function: Function | ConcreteFunction, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> ConcreteFunction:
    if isinstance(function, ConcreteFunction):
        return function
    with trace.cluster_scope():
        return without_jit(function)._get_concrete_function_garbage_collected(*args, **kwargs)


def _cluster(concrete: ConcreteFunction) -> Cluster:
    """Returns the Cluster of a traced function, making it once."""
    cluster = concrete.__dict__.get(_CLUSTER)
    if cluster is None:
        name = re.sub(r"\W+", "_", concrete.graph.name).strip("_") or "function"
        cluster = Cluster.from_graph(concrete.graph, name, owner=concrete)
        concrete.__dict__[_CLUSTER] = cluster
    return cluster


def _as_tensor(value: Any) -> Any:
    """Returns the operand of the launch op for an argument: a variable's handle, else itself."""
    if isinstance(value, resource_variable_ops.BaseResourceVariable):
        return value.handle
    return value
