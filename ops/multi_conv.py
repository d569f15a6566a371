"""Multi-convolutions: convolutions that run in parallel."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, overload

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import errors, ops

from tensorflow_ipu.compiler.checks import refusals
from tensorflow_ipu.compiler.hooks import gradient_hooks, tensorflow_hooks
from tensorflow_ipu.compiler.ir.program import MULTI_CONV_ATTRIBUTE

_CONVOLUTIONS = frozenset(
    """
    Conv2D Conv2DBackpropInput Conv2DBackpropFilter Conv3D Conv3DBackpropInputV2
    Conv3DBackpropFilterV2 DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput
    DepthwiseConv2dNativeBackpropFilter
    """.split()
)

_Function = Callable[..., Any]


@overload
def multi_conv(func: _Function, options: dict[str, Any] | None = ...) -> _Function: ...


@overload
def multi_conv(
    func: None = ..., options: dict[str, Any] | None = ...
) -> Callable[[_Function], _Function]: ...


def multi_conv(func: _Function | None = None, options: dict[str, Any] | None = None) -> Any:
    """Decorates a function whose convolutions do not depend on each other, to run in parallel.

    Results are what they are without it. The convolutions, and the ones of their gradients, carry
    an attribute that names the group they are in and its options.

    Args:
        func: takes tensors, or what can be converted to them, by position only, and returns at
            least one tensor.
        options: options of Poplar's multi-convolutions, by name, such as
            `{"perConvReservedTiles": "50"}`.

    Returns:
        The decorated function; without `func` a decorator. A program in which a convolution of a
        call depends on another one of it ends with a `tf.errors.FailedPreconditionError` when it is
        compiled.

    Raises:
        TypeError: `options` is not a dict of names and values, or (in a call of the function) an
            argument is given by name.
        ValueError: the function returned no tensor (in a call).
    """
    text = _options_text(options)
    if func is None:
        return functools.partial(_decorated, text=text)
    return _decorated(func, text)


def _options_text(options: dict[str, Any] | None) -> dict[str, str]:
    """Returns the options as Poplar takes them: texts."""
    if options is None:
        return {}
    if not isinstance(options, dict):
        raise TypeError(
            "options must be a dict of option names and their values. Received: "
            f"options={options!r}"
        )
    for key in options:
        if not isinstance(key, str):
            raise TypeError(f"The names in options must be of the type str. Received: {key!r}")
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in options.items()
    }


def _decorated(func: _Function, text: dict[str, str]) -> _Function:
    @functools.wraps(func)
    def parallel(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise TypeError(
                "A function with multi_conv takes positional arguments only. Received by name: "
                f"{', '.join(sorted(kwargs))}"
            )
        tensors = [tf.nest.map_structure(tf.convert_to_tensor, argument) for argument in args]
        call = tensorflow_hooks.converted(func)
        if tf.executing_eagerly():
            return _checked(call(*tensors))
        graph = ops.get_default_graph()
        before = len(graph.get_operations())
        results = _checked(call(*tensors))
        _mark(graph, graph.get_operations()[before:], text)
        return results

    return parallel


def _checked(results: Any) -> Any:
    """Raises if a result has no tensor."""
    if all(result is None for result in tf.nest.flatten(results)):
        raise ValueError(
            f"A function with multi_conv must return at least one tensor. Received: {results!r}"
        )
    return results


def _mark(graph: ops.Graph, operations: list[ops.Operation], text: dict[str, str]) -> None:
    """Notes on convolutions which group they are in."""
    gradient_hooks.follow_shards()
    group = {"group": graph.unique_name("multi_conv"), "options": text}
    value = attr_value_pb2.AttrValue(s=json.dumps(group, sort_keys=True).encode())
    # For each op, a convolution of the group that it needs.
    needs: dict[ops.Operation, ops.Operation] = {}
    for operation in operations:  # in the order in which they were made
        before = [tensor.op for tensor in operation.inputs]
        found = next((needs[op] for op in before if op in needs), None)
        if operation.type in _CONVOLUTIONS:
            operation._set_attr(MULTI_CONV_ATTRIBUTE, value)
            if found is not None:
                refusals.refuse(operation, _dependent(operation, found))
            found = operation
        if found is not None:
            needs[operation] = found


def _dependent(operation: ops.Operation, needed: ops.Operation) -> errors.OpError:
    return errors.FailedPreconditionError(
        None,
        None,
        "A MultiConvolution operation requires all convolutions to be independent of each other, "
        f"however a data dependency was detected: {operation.name} needs the result of "
        f"{needed.name}. Take one of them out of the function with multi_conv.",
    )
