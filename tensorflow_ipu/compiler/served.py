"""Exported models in a strategy: the marked part on the device, the rest on the host.

The call of the part for the device has a mark, which is there again when the model was loaded.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from tensorflow.core.framework import (
    attr_value_pb2,
    function_pb2,
    node_def_pb2,
    op_def_pb2,
    types_pb2,
)
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.framework import function_def_to_graph, ops

from tensorflow_ipu.compiler import current_scope, requests
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.ir.program import Program, called_functions, input_node
from tensorflow_ipu.util import op_names

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
    part = _cluster(called)
    _launch_instead(function, node, called.signature, part, device)
    entry = _renamed(program, function.signature.name)
    atomic = atomic_function.from_function_def(entry, top.function_type)

    def call(*tensors: Any) -> Any:
        requests.ensure_registered()
        with ops.device("/device:CPU:0"):
            return atomic.call_flat(*tensors)

    call.parts = (part, concrete)  # type: ignore[attr-defined]  # live as long as this
    return call


def _cluster(called: function_pb2.FunctionDef) -> Cluster:
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
