"""Launch of a Cluster: as an op in the user's graph, at once, or as a part of an exported model."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from tensorflow.core.framework import (
    attr_value_pb2,
    function_pb2,
    node_def_pb2,
    op_def_pb2,
    types_pb2,
)
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import atomic_function, function_type_utils
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
from tensorflow.python.framework import function_def_to_graph, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import resource_variable_ops

from tensorflow_ipu.compiler import current_scope, requests, trace
from tensorflow_ipu.compiler.checks import foreign_resources
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.ir.program import Program, called_functions, input_node
from tensorflow_ipu.runtime import interpreter, native
from tensorflow_ipu.util import op_names

# On the call of the part for the device; it is there again when the model was loaded.
_MARK = "_ipu_served"

# Attributes of functions: the factory for a device, and the calls made of a trace.
_FOR_DEVICE = "_ipu_for_device"
_CALLS = "_ipu_served_calls"
_numbers = itertools.count()

# Takes the flat inputs of a function, then its captures; returns its flat outputs.
FlatCall = Callable[..., Any]


@contextlib.contextmanager
def marked() -> Iterator[None]:
    """Marks the call of a function that is built inside as the part for the device."""
    mark = attr_value_pb2.AttrValue(b=True)
    with ops.get_default_graph()._attr_scope({_MARK: mark}):
        yield


def set_for_device(function: Any, make: Callable[[str], Any]) -> None:
    """Sets the factory of a function that launches a program itself, for other devices.

    Args:
        function: a `tf.function`.
        make: returns one like it, given the name of a device.
    """
    function.__dict__[_FOR_DEVICE] = make


def for_device(function: Any, device: str) -> Any:
    """Returns the host function that runs a function on a device; None without a factory.

    Args:
        function: the function that a strategy is asked to run.
        device: the device of the strategy.
    """
    make = function.__dict__.get(_FOR_DEVICE)
    return None if make is None else make(device)


def split(concrete: ConcreteFunction, cluster: Cluster, device: str) -> FlatCall | None:
    """Returns a host function that runs an exported model with its marked part on a device.

    Args:
        concrete: the signature of a model, as it was loaded.
        cluster: the same as a Cluster.
        device: the device.

    Returns:
        A function for the host; None if there is no mark, so that all is for the device.
    """
    calls: dict[str, FlatCall | None] = concrete.__dict__.setdefault(_CALLS, {})
    if device not in calls:
        # A mark is on a call, so most functions need no search of their callees.
        has_calls = any(op_names.is_call(op.type) for op in concrete.graph.get_operations())
        calls[device] = _split(concrete, cluster, device) if has_calls else None
    return calls[device]


def _split(concrete: ConcreteFunction, cluster: Cluster, device: str) -> FlatCall | None:
    top = concrete._inference_function
    program = Program.from_library(cluster.library(), cluster.entry)
    found = [(f, node) for f, node in program.nodes() if _MARK in node.attr]
    if len(found) != 1:
        return None
    function, node = found[0]
    called = program.functions[node.attr["f"].func.name]
    if any(argument.type == types_pb2.DT_RESOURCE for argument in called.signature.input_arg):
        return None
    part = _marked_cluster(called)
    _launch_instead(function, node, called.signature, part, device)
    entry = _renamed(program, function.signature.name)
    atomic = atomic_function.from_function_def(entry, top.function_type)

    def call(*tensors: Any) -> Any:
        requests.ensure_registered()
        with ops.device("/device:CPU:0"):
            return atomic.call_flat(*tensors)

    call.parts = (part, concrete)  # type: ignore[attr-defined]  # live as long as this
    return call


def _marked_cluster(called: function_pb2.FunctionDef) -> Cluster:
    graph = function_def_to_graph.function_def_to_graph(called, include_library_functions=True)
    return Cluster.from_graph(graph, "predict_step")


def _launch_instead(
    function: function_pb2.FunctionDef,
    node: node_def_pb2.NodeDef,
    signature: op_def_pb2.OpDef,
    part: Cluster,
    device: str,
) -> None:
    """Replaces a call by the launch of a Cluster."""
    node.op = "IpuLaunch"
    node.attr.clear()
    for name, arguments in (("Targs", signature.input_arg), ("Tresults", signature.output_arg)):
        node.attr[name].list.SetInParent()
        node.attr[name].list.type.extend(argument.type for argument in arguments)
    node.attr["f"].func.name = part.entry
    node.attr["cluster"].s = part.id.encode()
    node.attr["output_shapes"].list.SetInParent()
    node.device = f"/device:IPU:{current_scope.ordinal(device)}"

    def renamed(reference: str) -> str:
        if input_node(reference) != node.name or reference.startswith("^"):
            return reference
        return reference.replace(":output:", ":results:")

    for user in function.node_def:
        for index, reference in enumerate(user.input):
            user.input[index] = renamed(reference)
    for key, reference in list(function.ret.items()):
        function.ret[key] = renamed(reference)


def _renamed(program: Program, changed: str) -> function_pb2.FunctionDef:
    """Renames a changed function and its callers, and registers all but the entry.

    Args:
        program: the functions.
        changed: name of the changed function.

    Returns:
        The entry.
    """
    number = next(_numbers)
    names = [changed]
    for name in names:  # grows meanwhile
        for caller, function in program.functions.items():
            calls = [one for node in function.node_def for one in called_functions(node)]
            if name in calls and caller not in names:
                names.append(caller)
    for name in names:
        function = program.functions[name]
        function.signature.name = f"{name}_on_ipu_{number}"
        for node in function.node_def:
            for value in node.attr.values():
                if value.HasField("func") and value.func.name in names:
                    value.func.name = f"{value.func.name}_on_ipu_{number}"
        if name != program.entry:
            context.context().add_function_def(function)
    return program.functions[program.entry]


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


# --- Launches of Clusters ---


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
    launches_itself = for_device(function, device)
    if launches_itself is not None:
        with ops.device("/device:CPU:0"):
            return launches_itself(*args, **kwargs)
    if isinstance(function, Function):
        args, kwargs = _with_defaults(function, args, kwargs)
    with interpreter.TRACING:
        concrete = _concrete(function, args, kwargs)
        cluster = _cluster(concrete)
        on_host = split(concrete, cluster, device)
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
