"""Tables of host embeddings: CPU variables, in a graph or in eager mode."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

_DTYPES = (tf.float16, tf.float32)
# Of `scopes.ipu_jit_scope`. They would make TensorFlow compile what is on the host.
_JIT_ATTRIBUTES = ("_XlaCompile", "_XlaSeparateCompiledGradients", "_XlaScope")


def make(name: str, shape: Sequence[int], dtype: tf.DType, initializer: Any) -> Any:
    """Makes a table: in a graph, a reference variable of the current variable scope.

    Args:
        name: name of the variable.
        shape: [tokens, encoding].
        dtype: its type.
        initializer: makes the first value; None for Glorot's uniform one.
    """
    with tf.init_scope():
        if tf.executing_eagerly():
            with on_host(None):
                return _eager_table(name, shape, dtype, initializer)
        with on_host(tf.compat.v1.get_default_graph()):
            given = initializer is not None and not callable(initializer)
            return tf.compat.v1.get_variable(
                name,
                None if given else shape,
                dtype,
                _value(initializer, shape, dtype) if given else initializer,
                use_resource=False,
                trainable=True,
            )


@contextlib.contextmanager
def on_host(graph: Any) -> Iterator[None]:
    """Leaves the program that is being built, and IPU scopes, for the CPU.

    Args:
        graph: where to go; None for eager mode.
    """
    with contextlib.ExitStack() as stack:
        if graph is not None:
            stack.enter_context(graph.as_default())
            scopes = [name for name in _JIT_ATTRIBUTES if name in graph._attr_scope_map]
            stack.enter_context(graph._attr_scope(dict.fromkeys(scopes)))
        stack.enter_context(tf.control_dependencies(None))
        stack.enter_context(tf.device("/device:CPU:0"))
        yield


def is_eager(table: Any) -> bool:
    """Returns whether a table belongs to no graph."""
    return isinstance(table, tf.__internal__.EagerTensor) or (
        isinstance(table, tf.Variable) and getattr(table, "_in_graph_mode", True) is False
    )


def is_assignable(table: Any) -> bool:
    """Returns whether a table is a variable, so that what was trained can be written back."""
    return isinstance(table, tf.Variable) or table.dtype._is_ref_dtype


def check_table(table: Any) -> None:
    """Checks that a table is a tensor or variable of the right form.

    Raises:
        ValueError: it is not.
    """
    if not tf.is_tensor(table) and not isinstance(table, tf.Variable):
        raise ValueError(f"embedding_tensor must be a tensor. Received: {table!r}")
    check_form(table.shape, table.dtype.base_dtype)


def check_form(shape: tf.TensorShape, dtype: tf.DType) -> None:
    """Checks the shape and the type of a table.

    Raises:
        ValueError: they are not those of a table.
    """
    if shape.rank != 2 or not shape.is_fully_defined():
        raise ValueError(
            "The table of a host embedding must have the shape [tokens, encoding]. Received: "
            f"{shape}"
        )
    if dtype not in _DTYPES:
        raise ValueError(
            "The table of a host embedding must be of the type float16 or float32. Received: "
            f"{dtype.name}"
        )


def _value(value: Any, shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
    """Returns a first value as a tensor; it must have the shape."""
    tensor = tf.cast(value, dtype)
    if tensor.shape != tf.TensorShape(shape):
        raise ValueError(
            f"initializer must have the shape of the table, {tuple(shape)}. Received: "
            f"{tuple(tensor.shape)}"
        )
    return tensor


def _eager_table(name: str, shape: Sequence[int], dtype: tf.DType, initializer: Any) -> Any:
    """Makes the table of eager mode; on the CPU, also in the scope of an IPUStrategy."""
    if initializer is None:
        initializer = tf.initializers.GlorotUniform()
    value = initializer
    if callable(initializer):
        made = initializer() if isinstance(initializer, type) else initializer
        value = made(tf.TensorShape(shape), dtype=dtype)
    return resource_variable_ops.ResourceVariable(_value(value, shape, dtype), name=name)
