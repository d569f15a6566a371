"""The device and the scope attributes of the code that is being traced or run."""

from __future__ import annotations

from collections.abc import Iterable

from tensorflow.python.eager import context
from tensorflow.python.framework import device as device_lib
from tensorflow.python.framework import func_graph as func_graph_lib
from tensorflow.python.framework import ops

from tensorflow_ipu.compiler.ir.program import (
    FRONTEND_ATTRIBUTE,
    MEMORY_ATTRIBUTE,
    OUTSIDE_ATTRIBUTE,
    PHASE_ATTRIBUTE,
    SHARDING_ATTRIBUTE,
    STAGE_ATTRIBUTE,
)

IPU_DEVICE_TYPE = "IPU"
_INHERITED = (
    SHARDING_ATTRIBUTE,
    FRONTEND_ATTRIBUTE,
    OUTSIDE_ATTRIBUTE,
    STAGE_ATTRIBUTE,
    PHASE_ATTRIBUTE,
    MEMORY_ATTRIBUTE,
)


class _Unplaced:
    """An op without a device, passed to a graph's device functions."""

    device = ""


def _graph_device(graph: ops.Graph) -> str:
    """Returns the device that `graph` would give to an op made now."""
    unplaced = _Unplaced()
    for spec in graph._device_function_stack.peek_objs():
        if spec.is_null_merge:
            continue
        if spec.function is None:
            break
        unplaced.device = spec.string_merge(unplaced)
    return unplaced.device


def current_device() -> str:
    """Returns the device in scope; inside a traced function, also the one around its call."""
    if context.executing_eagerly():
        return context.context().device_name or ""
    graph = ops.get_default_graph()
    while True:
        device = _graph_device(graph)
        if device:
            return device
        if not isinstance(graph, func_graph_lib.FuncGraph):
            break
        outer = graph.outer_graph
        if outer is None or outer is graph:
            break
        graph = outer
    return context.context().device_name or "" if ops.executing_eagerly_outside_functions() else ""


def is_ipu(device: str) -> bool:
    """Returns whether a device name names an IPU device."""
    if not device:
        return False
    return device_lib.DeviceSpec.from_string(device).device_type == IPU_DEVICE_TYPE


def ordinal(device: str) -> int:
    """Returns the ordinal of an IPU device name; 0 when the name has none."""
    return device_lib.DeviceSpec.from_string(device).device_index or 0


def ipu_device_of(operations: Iterable[ops.Operation]) -> str | None:
    """Returns the IPU device that operations request, None if no operation requests one."""
    for operation in operations:
        if is_ipu(operation.device):
            return operation.device
    return None


def inherit_attributes(graph: ops.Graph, outer: ops.Graph) -> None:
    """Makes the scopes of `ipu.scopes` that are open in `outer` hold for the ops of `graph` too.

    Args:
        graph: a graph that is about to be built, and becomes part of `outer`.
        outer: the graph around it.
    """
    for name in _INHERITED:
        if name in outer._attr_scope_map:
            graph._attr_scope_map[name] = outer._attr_scope_map[name]


def inherit_device(graph: ops.Graph, outer: ops.Graph) -> None:
    """Makes the ops of a graph take the IPU device in scope around the graph.

    Args:
        graph: a graph that will be part of `outer`, before its ops are made.
        outer: the graph around it. If it names another device, or none, it has no effect.
    """
    device = _graph_device(outer)
    if is_ipu(device):
        graph._add_device_to_stack(device)
