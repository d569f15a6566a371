"""Sends data between instances: the one place where processes talk to each other.

With one instance nothing does. All functions take an eager or symbolic tensor, and return one on
the CPU.
"""

from __future__ import annotations

import contextlib

from tensorflow.python.framework import ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import array_ops

from tensorflow_ipu.compiler import trace


def total(value: tensor_lib.Tensor, name: str | None = None) -> tensor_lib.Tensor:
    """Returns the sum of the values of all instances.

    Args:
        value: the value of this one.
        name: name that the instances find each other by.
    """
    return _same(value, name)


def from_instance(
    value: tensor_lib.Tensor, index: int, name: str | None = None
) -> tensor_lib.Tensor:
    """Returns the value of one instance.

    Args:
        value: the value of this one.
        index: which instance.
        name: name that the instances find each other by.
    """
    del index  # there is one
    return _same(value, name)


def joined(value: tensor_lib.Tensor, name: str | None = None) -> tensor_lib.Tensor:
    """Returns the values of all instances, joined along dimension 0 in the order of the instances.

    Args:
        value: the value of this one, of rank 1 or more.
        name: name that the instances find each other by.
    """
    return _same(value, name)


def _same(value: tensor_lib.Tensor, name: str | None) -> tensor_lib.Tensor:
    with on_host():
        result: tensor_lib.Tensor = array_ops.identity(value, name=name)
        return result


def on_host() -> contextlib.AbstractContextManager[None]:
    """Returns a scope for operations on the host; a program on the IPU has no such place."""
    if trace.in_cluster():
        return contextlib.nullcontext()
    scope: contextlib.AbstractContextManager[None] = ops.device("/device:CPU:0")
    return scope
