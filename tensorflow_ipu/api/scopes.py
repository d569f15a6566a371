"""Scopes for devices, shards, outside compilation and types: the module `ipu.scopes`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import dtypes, ops
from tensorflow.python.ops import variable_scope

from tensorflow_ipu.compiler import trace
from tensorflow_ipu.compiler.hooks import gradient_hooks, tensorflow_hooks
from tensorflow_ipu.compiler.ir import function_nodes
from tensorflow_ipu.compiler.ir.program import (
    FRONTEND_ATTRIBUTE,
    OUTSIDE_ATTRIBUTE,
    SHARDING_ATTRIBUTE,
)
from tensorflow_ipu.configs import enums

tensorflow_hooks.install()

# TensorFlow takes the shapes of a node's results from this attribute when it imports a graph.
_OUTPUT_SHAPES = "_output_shapes"
_STOCHASTIC_ROUNDING = "STOCHASTIC_ROUNDING"
_PARTIALS = {dtypes.as_dtype(name): word for word, name in enums.PARTIALS_OF_KEY.items()}


def _attr_scope(attributes: dict[str, attr_value_pb2.AttrValue]) -> Any:
    return ops.get_default_graph()._attr_scope(attributes)


@contextlib.contextmanager
def host_scope(device: str = "/device:CPU:0") -> Iterator[None]:
    """Places ops on the host, also those that would be placed beside a variable.

    Args:
        device: the host.

    Yields:
        Nothing.
    """
    with contextlib.ExitStack() as stack:
        if not context.executing_eagerly():
            graph = ops.get_default_graph()
            stack.enter_context(graph.colocate_with(None, ignore_existing=True))
            if "_class" in graph._attr_scope_map:
                stack.enter_context(graph._attr_scope({"_class": None}))
        stack.enter_context(ops.device(device))
        yield


@contextlib.contextmanager
def ipu_jit_scope(ipu_scope: int | str) -> Iterator[None]:
    """Marks the ops inside as compiled together.

    Args:
        ipu_scope: tells this scope from others.

    Yields:
        Nothing.
    """
    name = f"jit_scope_ipu_{ipu_scope}".encode()
    with _attr_scope(
        {
            "_XlaCompile": attr_value_pb2.AttrValue(b=True),
            "_XlaSeparateCompiledGradients": attr_value_pb2.AttrValue(b=False),
            "_XlaScope": attr_value_pb2.AttrValue(s=name),
        }
    ):
        yield


@contextlib.contextmanager
def ipu_scope(device: str) -> Iterator[Any]:
    """Places the ops inside on an IPU device. Variables made inside are resource variables.

    Args:
        device: name of the TensorFlow device, such as "/device:IPU:0".

    Yields:
        The variable scope.
    """
    enclosing = variable_scope.get_variable_scope()
    # Entered again for its use of resources only: names do not change.
    with variable_scope.variable_scope(
        enclosing, use_resource=True, auxiliary_name_scope=False
    ) as scope:
        with ipu_jit_scope(0), ops.device(device):
            yield scope


@contextlib.contextmanager
def ipu_shard(index: int | Iterable[int]) -> Iterator[None]:
    """Places the ops inside on one IPU (or several) of a multi-IPU device.

    Args:
        index: index of the IPU within the device, or indices. -1 for all IPUs that the program
            uses.

    Yields:
        Nothing.

    Raises:
        ValueError: If an index is neither an int >= 0 nor, alone, -1.
    """
    indices = list(index) if isinstance(index, Iterable) else [index]
    for value in indices:
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not whole or (value < 0 and (value != function_nodes.ALL_IPUS or len(indices) > 1)):
            raise ValueError(
                "The index of ipu_shard must be an int >= 0, or an iterable of such ints, or -1 "
                f"for all IPUs. Received: index={index!r}"
            )
    gradient_hooks.follow_shards()
    attribute = function_nodes.sharding_attribute([int(value) for value in indices])
    with _attr_scope({SHARDING_ATTRIBUTE: attribute}):
        yield


def is_outside_compilation() -> bool:
    """Returns whether operations are being placed on the host, in the middle of an IPU program."""
    return trace.in_cluster() and OUTSIDE_ATTRIBUTE in ops.get_default_graph()._attr_scope_map


@contextlib.contextmanager
def outside_compilation_scope(name: str = "outside") -> Iterator[None]:
    """Places the ops inside on the host, in the middle of an IPU program.

    With several replicas they run once, with the tensors of replica 0, and all replicas get the
    results.

    Args:
        name: name for the scope, made unique.

    Yields:
        Nothing.

    Raises:
        ValueError: If no IPU program is being built, or scopes are nested.
    """
    if not trace.in_cluster():
        raise ValueError(
            "outside_compilation_scope is only allowed in XLA context: use it in a function that "
            "is passed to ipu_compiler.compile or run by an IPUStrategy."
        )
    graph = ops.get_default_graph()
    if is_outside_compilation():
        raise ValueError(
            "Illegal nesting of outside_compilation_scope: scope "
            f"'{name}' is inside another one. Leave that first."
        )
    unique = graph.unique_name(name, mark_as_used=True).encode()
    before = len(graph.get_operations())
    with _attr_scope({OUTSIDE_ATTRIBUTE: attr_value_pb2.AttrValue(s=unique)}):
        yield
    for operation in graph.get_operations()[before:]:
        _keep_shapes(operation)


def _keep_shapes(operation: ops.Operation) -> None:
    """Records the shapes of an op's results, which `set_shape` stores in Python only.

    The compiler reads them from the traced function, where they would be lost.
    """
    shapes = [output.shape.as_proto() for output in operation.outputs]
    value = attr_value_pb2.AttrValue.ListValue(shape=shapes)
    operation._set_attr(_OUTPUT_SHAPES, attr_value_pb2.AttrValue(list=value))


@contextlib.contextmanager
def frontend_attribute(
    attribute_name: str, attribute_value: str, restore_to: str | None = None
) -> Iterator[None]:
    """Sets a key of the frontend attributes of the ops inside.

    Scopes nest: keys add up, and the same key is overridden by the inner scope.

    Args:
        attribute_name: the key.
        attribute_value: its value inside the scope.
        restore_to: value of the key on exit if no enclosing scope sets it. Without it the key is
            removed then.

    Yields:
        Nothing.
    """
    scopes = ops.get_default_graph()._attr_scope_map
    outer = scopes.get(FRONTEND_ATTRIBUTE)
    scopes[FRONTEND_ATTRIBUTE] = _with_key(outer, attribute_name, attribute_value)
    try:
        yield
    finally:
        if restore_to is not None and attribute_name not in _frontend_map(outer):
            scopes[FRONTEND_ATTRIBUTE] = _with_key(outer, attribute_name, restore_to)
        elif outer is not None:
            scopes[FRONTEND_ATTRIBUTE] = outer
        else:
            del scopes[FRONTEND_ATTRIBUTE]


def _frontend_map(attribute: attr_value_pb2.AttrValue | None) -> dict[str, str]:
    """Returns the keys and values of a frontend attribute."""
    if attribute is None:
        return {}
    return dict(xla_data_pb2.FrontendAttributes.FromString(attribute.s).map)


def _with_key(
    outer: attr_value_pb2.AttrValue | None, key: str, value: str
) -> attr_value_pb2.AttrValue:
    """Returns a frontend attribute like `outer`, with one key set."""
    attributes = xla_data_pb2.FrontendAttributes(map={**_frontend_map(outer), key: value})
    return attr_value_pb2.AttrValue(s=attributes.SerializeToString(deterministic=True))


def stochastic_rounding(override: bool) -> contextlib.AbstractContextManager[None]:
    """Overrides the configuration's stochastic rounding for the ops inside.

    The innermost scope counts. On the IPU model it has no effect.

    Args:
        override: whether their float16 results are rounded stochastically.

    Returns:
        A context.
    """
    value = "THREESTATE_ON" if override else "THREESTATE_OFF"
    return frontend_attribute(_STOCHASTIC_ROUNDING, value, "THREESTATE_UNDEFINED")


def partials_type(override_type: Any) -> contextlib.AbstractContextManager[None]:
    """Sets the type of the intermediate sums of convolutions and matrix products inside.

    Args:
        override_type: float16 or float32, as a NumPy or TensorFlow type.

    Returns:
        A context.

    Raises:
        ValueError: If it is another type.
    """
    try:
        dtype = dtypes.as_dtype(override_type)
    except TypeError:
        dtype = None
    if dtype not in _PARTIALS:
        provided = repr(override_type) if dtype is None else dtype.name
        raise ValueError(
            f"Only support float16, float32, provided {provided}. Partial results have one of "
            "these types, as NumPy or TensorFlow names them."
        )
    return frontend_attribute(enums.PARTIALS_KEY, _PARTIALS[dtype], "PRIMITIVE_TYPE_INVALID")
