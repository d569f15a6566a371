"""Custom ops from users' libraries and expressions: the public module `ipu.custom_ops`.

`docs/custom_ops.md` says how to write the libraries.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

import tensorflow_ipu
from tensorflow_ipu.ops.custom import expression as _vertex_expression
from tensorflow_ipu.ops.custom import user_op

_TYPES = (
    *(tf.float16, tf.bfloat16, tf.float32, tf.bool),
    *(tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64),
)
_HEADER = Path("tensorflow_ipu") / "custom_op.h"


def codelet_expression_op(vertex_expression: Callable[..., Any], *args: Any) -> tf.Tensor:
    """Computes an expression of tensors, element by element.

    It has no gradient, so it cannot be used for training.

    Args:
        vertex_expression: takes as many arguments as there are tensors and returns an expression of
            them. It may use `+`, `-`, `*`, unary `-`, `abs()`, `~` (the same as unary `-`),
            `vertex_edsl.constant` for numbers, and `vertex_edsl.let`. Types mix as in C++.
        *args: tensors whose shapes broadcast with each other, as in an elementwise operation.

    Returns:
        A tensor of the type of the first one, of the shape that all broadcast to.

    Raises:
        TypeError: The function does something else, or a tensor is of a type that the device
            lacks.
        ValueError: There are no tensors, or their shapes do not broadcast.
    """
    if not callable(vertex_expression):
        raise TypeError(f"vertex_expression must be a function. Received: {vertex_expression!r}")
    expression = _vertex_expression.trace(vertex_expression, len(args))
    with tf.name_scope("codelet_expression_op"):
        tensors = _elementwise_arguments(args)
        shape = _broadcast_shape(tensors)
        value = tf.cast(expression.evaluate(tensors), tensors[0].dtype)
        if not shape.is_fully_defined() or value.shape != shape:  # not all arguments are in it
            value = tf.broadcast_to(
                value, functools.reduce(tf.broadcast_dynamic_shape, map(tf.shape, tensors))
            )
        return tf.raw_ops.PreventGradient(
            input=value, message="codelet_expression_op cannot be used for training."
        )


def cpu_user_operation(
    inputs: Any,
    library_path: str | os.PathLike[str],
    outs: dict[str, Any] | None = None,
    name: str = "UserOp",
    op_name: str = "Callback",
    separate_gradients: bool = False,
    inputs_with_gradients: Sequence[int] | None = None,
    attributes: str | None = None,
    gradient_attributes: str | None = None,
) -> Any:
    """Calls a function of a shared library on the host, in the middle of a program.

    Each replica calls it, one at a time. See `docs/custom_ops.md` for its signature.

    Args:
        inputs: list of tensors.
        library_path: path of the library. It is opened when the program is compiled.
        outs: the outputs: a dictionary of the lists `output_types` and `output_shapes`. None for
            none.
        name: name for the operation.
        op_name: name of the function. `<op_name>_grad` computes the gradient.
        separate_gradients: whether the gradient is computed by one call for each input, rather than
            one for all.
        inputs_with_gradients: indices of the inputs that have gradients. None for all.
        attributes: text for the function.
        gradient_attributes: text for the function of the gradient.

    Returns:
        A list of tensors. Without outputs, the operation: return it from the program or loop body,
        so that it runs (None when executed eagerly).

    Raises:
        TypeError: An input is of a type that the device lacks.
        ValueError: Another argument is wrong; it says which.
        tf.errors.NotFoundError: When the program is compiled: the library or a function is missing.
    """
    return user_op.call(
        user_op.CPU,
        inputs,
        library_path,
        outs,
        name,
        op_name,
        separate_gradients,
        inputs_with_gradients,
        attributes,
        gradient_attributes,
    )


def precompiled_user_op(
    inputs: Any,
    library_path: str | os.PathLike[str],
    gp_path: str = "",
    outs: dict[str, Any] | None = None,
    name: str = "UserOp",
    op_name: str = "Build",
    separate_gradients: bool = False,
    inputs_with_gradients: Sequence[int] | None = None,
    attributes: str | None = None,
    gradient_attributes: str | None = None,
) -> Any:
    """Calls an operation of a shared library that was built with `tensorflow_ipu/custom_op.h`.

    Args:
        inputs: see `cpu_user_operation`.
        library_path: see `cpu_user_operation`.
        gp_path: path of compiled codelets. Not read: they are code for the chip, which is simulated
            here, so the library computes everything.
        outs: see `cpu_user_operation`.
        name: see `cpu_user_operation`.
        op_name: start of the names of the functions: `<op_name>`, `<op_name>_metadata` and
            `<op_name>_allocator`, and the same with `<op_name>_grad` for the gradient.
        separate_gradients: see `cpu_user_operation`.
        inputs_with_gradients: see `cpu_user_operation`.
        attributes: see `cpu_user_operation`.
        gradient_attributes: see `cpu_user_operation`.

    Returns:
        See `cpu_user_operation`.

    Raises:
        TypeError: See `cpu_user_operation`.
        ValueError: See `cpu_user_operation`.
        tf.errors.NotFoundError: See `cpu_user_operation`.
        tf.errors.InternalError: When the program is compiled: the library is of another API level.
    """
    if not isinstance(gp_path, (str, os.PathLike)):
        raise ValueError(f"gp_path must be a path. Received: gp_path={gp_path!r}")
    return user_op.call(
        user_op.PRECOMPILED,
        inputs,
        library_path,
        outs,
        name,
        op_name,
        separate_gradients,
        inputs_with_gradients,
        attributes,
        gradient_attributes,
    )


def include_dir() -> str:
    """Returns the folder with the header `tensorflow_ipu/custom_op.h`, for the compiler's `-I`.

    Raises:
        FileNotFoundError: It is not installed.
    """
    package = Path(tensorflow_ipu.__file__).parent
    for folder in (package / "include", package.parent / "native" / "include"):
        if (folder / _HEADER).exists():
            return str(folder)
    raise FileNotFoundError(
        f"{_HEADER} is not in {package / 'include'}. Install the package again: pip install "
        "--force-reinstall --no-deps tensorflow_ipu"
    )


def _elementwise_arguments(args: Sequence[Any]) -> list[tf.Tensor]:
    """Returns the tensors, of types that the device has."""
    if not args:
        raise ValueError(
            "codelet_expression_op takes at least one tensor: the result has its type."
        )
    tensors = [tf.convert_to_tensor(value) for value in args]
    for index, tensor in enumerate(tensors):
        if tensor.dtype not in _TYPES:
            names = ", ".join(dtype.name for dtype in _TYPES)
            raise TypeError(
                f"codelet_expression_op takes tensors of {names}. Received: argument {index} of "
                f"{tensor.dtype.name}. Cast it with tf.cast."
            )
    return tensors


def _broadcast_shape(tensors: Sequence[tf.Tensor]) -> tf.TensorShape:
    """Returns what is known of the shape that all tensors broadcast to."""
    shapes = [tensor.shape for tensor in tensors]
    try:
        return functools.reduce(tf.broadcast_static_shape, shapes)
    except ValueError:
        raise ValueError(
            "codelet_expression_op takes tensors whose shapes broadcast with each other. Received: "
            f"{', '.join(map(str, shapes))}"
        ) from None
