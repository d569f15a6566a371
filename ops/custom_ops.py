"""Custom ops from users' libraries and expressions: the public module `ipu.custom_ops`.

`docs/custom_ops.md` says how to write the libraries.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

import tensorflow_ipu
from tensorflow_ipu.compiler.passes import user_ops
from tensorflow_ipu.ops import codelet_expressions
from tensorflow_ipu.runtime import native, system

__all__ = ["codelet_expression_op", "cpu_user_operation", "include_dir", "precompiled_user_op"]

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
    expression = codelet_expressions.trace(vertex_expression, len(args))
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
    return call_user_op(
        CPU,
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
    """Calls an operation of a shared library: a Poplar program, or a C function that computes.

    A library that is built against Poplar has functions that add the operation to a graph. They
    are called once, when the program is compiled. Other libraries are built with
    `tensorflow_ipu/custom_op.h`.

    Args:
        inputs: see `cpu_user_operation`.
        library_path: see `cpu_user_operation`.
        gp_path: path of codelets that `popc` compiled, or of their source. They are added to the
            graph before the library's function is called.
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
        tf.errors.InternalError: When the program is compiled: the library is of another API level,
            or its function fails.
    """
    if not isinstance(gp_path, (str, os.PathLike)):
        raise ValueError(f"gp_path must be a path. Received: gp_path={gp_path!r}")
    return call_user_op(
        PRECOMPILED,
        inputs,
        library_path,
        outs,
        name,
        op_name,
        separate_gradients,
        inputs_with_gradients,
        attributes,
        gradient_attributes,
        os.path.abspath(os.fspath(gp_path)) if os.fspath(gp_path) else "",
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
    """Returns the static shape that all tensors broadcast to."""
    shapes = [tensor.shape for tensor in tensors]
    try:
        return functools.reduce(tf.broadcast_static_shape, shapes)
    except ValueError:
        raise ValueError(
            "codelet_expression_op takes tensors whose shapes broadcast with each other. Received: "
            f"{', '.join(map(str, shapes))}"
        ) from None


# --- Arguments, op and gradients ---

CPU = user_ops.CPU
PRECOMPILED = user_ops.PRECOMPILED
_OUTS = ("output_types", "output_shapes")
_TENSOR_TYPES = frozenset(
    {tf.float16, tf.bfloat16, tf.float32, tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32}
    | {tf.uint32, tf.int64, tf.uint64, tf.bool}
)


def call_user_op(
    kind: str,
    inputs: Any,
    library_path: Any,
    outs: dict[str, Any] | None,
    name: str,
    op_name: str,
    separate_gradients: bool,
    inputs_with_gradients: Sequence[int] | None,
    attributes: str | None,
    gradient_attributes: str | None,
    codelets: str = "",
) -> Any:
    """Adds a custom operation.

    Args:
        kind: `CPU` or `PRECOMPILED`.
        inputs: this and the others are as in `custom_ops.cpu_user_operation`.
        library_path: see there.
        outs: see there.
        name: see there.
        op_name: see there.
        separate_gradients: see there.
        inputs_with_gradients: see there.
        attributes: see there.
        gradient_attributes: see there.
        codelets: absolute path of codelets; "" for none.

    Returns:
        A list of its outputs. Without outputs, the operation (None when executed eagerly).

    Raises:
        TypeError: A tensor is of a type that the device lacks, or a path or name is not a string.
        ValueError: Another argument is wrong.
    """
    types, shapes = _outputs(outs)
    tensors = [_input(tensor) for tensor in _listed(inputs)]
    if not isinstance(op_name, str) or not op_name.isidentifier():
        raise ValueError(
            "op_name must be the name of a function in the library, such as 'Build'. Received: "
            f"op_name={op_name!r}"
        )
    results = _add(
        kind,
        tensors,
        types,
        output_shapes=shapes,
        library_path=_path(library_path),
        op_name=op_name,
        attributes=_text(attributes, "attributes"),
        gradient_attributes=_text(gradient_attributes, "gradient_attributes"),
        separate_gradients=bool(separate_gradients),
        gradient_inputs=_indices(inputs_with_gradients, len(tensors)),
        name=name or "UserOp",
        **({"codelets": codelets} if kind == PRECOMPILED else {}),
    )
    return results if types or not tf.executing_eagerly() else None


def _add(kind: str, inputs: list[tf.Tensor], types: list[tf.DType], **attributes: Any) -> Any:
    module = native.ops()
    add = module.ipu_cpu_user_operation if kind == CPU else module.ipu_precompiled_user_op
    if tf.executing_eagerly():
        # TensorFlow keeps the kernels of equal calls, and with them the library.
        attributes["library_hash"] = _version(attributes["library_path"])
        if kind == PRECOMPILED:
            attributes["library_hash"] += f" {_version(attributes.get('codelets', ''))}"
            attributes["target"] = user_ops.target_text(system.current(), 0, replicas=1)
    return add(inputs=inputs, output_types=types, **attributes)


def _version(path: str | bytes) -> str:
    """Returns a version of a file that changes with it; "" if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"


def _listed(inputs: Any) -> list[Any]:
    if isinstance(inputs, (list, tuple)):
        return list(inputs)
    if isinstance(inputs, (tf.Tensor, tf.Variable, np.ndarray)):
        return [inputs]
    raise TypeError(f"inputs must be a list of tensors. Received: inputs={inputs!r}")


def _input(value: Any) -> tf.Tensor:
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype not in _TENSOR_TYPES:
        raise TypeError(
            f"Custom operations take tensors of {_type_names()}. Received: {tensor.dtype.name}. "
            "Cast the tensor with tf.cast."
        )
    return tensor


def _type_names() -> str:
    return ", ".join(sorted(dtype.name for dtype in _TENSOR_TYPES))


def _outputs(outs: dict[str, Any] | None) -> tuple[list[tf.DType], list[tf.TensorShape]]:
    """Returns types and shapes of the outputs."""
    if outs is None:
        return [], []
    expected = "a dictionary of two lists, output_types and output_shapes"
    if not isinstance(outs, dict) or set(outs) != set(_OUTS):
        raise ValueError(f"outs must be {expected}. Received: outs={outs!r}")
    types, shapes = (outs[key] for key in _OUTS)
    for key, value in zip(_OUTS, (types, shapes)):
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"outs must be {expected}. Received: {key}={value!r}")
    if len(types) != len(shapes):
        raise ValueError(
            "output_types and output_shapes must have one entry for each output. Received: "
            f"{len(types)} types and {len(shapes)} shapes"
        )
    return [_output_type(dtype) for dtype in types], [_output_shape(shape) for shape in shapes]


def _output_type(value: Any) -> tf.DType:
    try:
        dtype = tf.as_dtype(value)
    except TypeError:
        dtype = None
    if dtype not in _TENSOR_TYPES:
        raise ValueError(f"output_types must be of {_type_names()}. Received: {value!r}")
    return dtype


def _output_shape(value: Any) -> tf.TensorShape:
    try:
        shape = tf.TensorShape(value)
    except (TypeError, ValueError):
        shape = None
    if shape is None or not shape.is_fully_defined():
        raise ValueError(
            f"output_shapes must be shapes with all dimensions known. Received: {value!r}"
        )
    return shape


def _path(value: Any) -> str:
    """Returns the absolute path: the program may be compiled in another folder."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ValueError(
            f"library_path must be the path of a shared library. Received: library_path={value!r}"
        )
    return os.path.abspath(os.fspath(value))


def _text(value: Any, argument: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{argument} must be a string. Received: {argument}={value!r}")
    if "\0" in value:
        raise ValueError(f"{argument} must not have null characters. Received: {value!r}")
    return value


def _indices(value: Sequence[int] | None, num_inputs: int) -> list[int]:
    """Returns which inputs have gradients."""
    if value is None:
        return list(range(num_inputs))
    if not isinstance(value, (list, tuple, range, np.ndarray)) or any(
        isinstance(index, bool)
        or not isinstance(index, (int, np.integer))
        or not 0 <= index < num_inputs
        for index in value
    ):
        raise ValueError(
            f"inputs_with_gradients must be a list of indices from 0 to {num_inputs - 1}, one "
            f"for each of the inputs that have gradients. Received: {value!r}"
        )
    if len(set(value)) < len(value):
        raise ValueError(f"inputs_with_gradients names an input twice. Received: {value!r}")
    return [int(index) for index in value]


@ops.RegisterGradient(CPU)
@ops.RegisterGradient(PRECOMPILED)
def _gradient(op: tf.Operation, *gradients: tf.Tensor | None) -> list[tf.Tensor | None]:
    """Calls `<op_name>_grad` of the library: once, or once for each input."""
    if op.get_attr("num_gradients"):
        raise LookupError(
            f"{op.name} is the gradient of a custom operation; it has no gradient itself."
        )
    wanted = list(op.get_attr("gradient_inputs"))
    groups = [[i] for i in wanted] if op.get_attr("separate_gradients") else [wanted]
    derivatives: list[tf.Tensor | None] = [None] * len(op.inputs)
    for group in groups:
        if group:
            for index, derivative in zip(group, _derivatives(op, gradients, group)):
                derivatives[index] = derivative
    return derivatives


def _derivatives(
    op: tf.Operation, gradients: Sequence[tf.Tensor | None], group: list[int]
) -> list[tf.Tensor]:
    """Adds one gradient operation, for the inputs in `group`."""
    outputs = list(op.outputs)
    upstream = [tf.zeros_like(y) if dy is None else dy for dy, y in zip(gradients, outputs)]
    return _add(
        op.type,
        [*map(tf.convert_to_tensor, upstream), *outputs, *op.inputs],
        [op.inputs[index].dtype for index in group],
        output_shapes=[],
        library_path=op.get_attr("library_path"),
        op_name=op.get_attr("op_name"),
        attributes=op.get_attr("gradient_attributes"),
        separate_gradients=op.get_attr("separate_gradients"),
        gradient_inputs=group,
        num_gradients=len(outputs),
        name="UserOpGradient",
        **({"codelets": op.get_attr("codelets")} if op.type == PRECOMPILED else {}),
    )
