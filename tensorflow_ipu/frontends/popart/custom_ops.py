"""Ops of users for models: the module `popart.custom_ops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorflow_ipu.frontends.popart.ops import registry

__all__ = ["register"]

_Function = Callable[..., Any]


def register(domain: str, opName: str) -> Callable[[_Function], _Function]:
    """Decorator: registers the function that nodes of `Builder.customOp` compute.

    The function is called when a model is put into a program. Its positional parameters are the
    inputs of the node, as TensorFlow tensors, its keyword-only ones the attributes; it returns one
    tensor, or as many as the node has outputs. A library in C that was built with
    `tensorflow_ipu/custom_op.h` is called by `ipu.custom_ops.precompiled_user_op`. Gradients are
    those of what it returns. A model file only has names: it never says which code runs.

    Args:
        domain: the domain of the op; not that of ONNX, and not "ai.graphcore".
        opName: the op. One that is registered is replaced.

    Returns:
        The decorator, which returns the function.

    Raises:
        ValueError: If the domain is one whose ops are there already.
    """
    if domain in (registry.ONNX, "ai.onnx", registry.GRAPHCORE):
        raise ValueError(
            f"Ops of the domain {domain or 'ai.onnx'!r} cannot be registered. Use a domain of your "
            f"own for {opName}, such as 'my.ops'."
        )

    def enter(function: _Function) -> _Function:
        registry.replace(domain, opName, function)
        return function

    return enter
