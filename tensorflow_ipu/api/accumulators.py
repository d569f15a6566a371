"""Accumulators over mini-batches: variables that live for one run of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

from tensorflow.python.framework import dtypes, ops, tensor_shape
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import (
    array_ops,
    control_flow_ops,
    gen_resource_variable_ops,
    math_ops,
)

from tensorflow_ipu.runtime import native

# Types of `dtype` arguments of accumulators: see `accumulator_dtype`.
AccumulatorDtype = Union[None, dtypes.DType, Callable[[Any], dtypes.DType]]


def accumulator_dtype(dtype: Any, variable: Any) -> dtypes.DType:
    """Returns the type of the accumulator for a variable.

    Args:
        dtype: None for the type of the variable, a type, or a function from variable to type.
        variable: the variable, or a tensor that is accumulated.

    Raises:
        TypeError: If `dtype` is something else.
    """
    chosen = dtype(variable) if callable(dtype) and not _is_dtype(dtype) else dtype
    if chosen is None:
        return variable.dtype.base_dtype
    try:
        return dtypes.as_dtype(chosen).base_dtype
    except TypeError as error:
        raise TypeError(
            "The type of an accumulator must be None, a tf.DType, or a function that takes the "
            f"variable and returns a tf.DType. Received: {dtype!r}"
        ) from error


def _is_dtype(value: Any) -> bool:
    """Returns whether a callable is a type, such as `np.float32`, and no function."""
    try:
        dtypes.as_dtype(value)
    except TypeError:
        return False
    return True


def program_variable(shape: Any, dtype: dtypes.DType, name: str) -> tensor_lib.Tensor:
    """Returns the handle of a variable that each run of the program starts with zeros.

    Args:
        shape: its shape, fully defined.
        dtype: its type.
        name: name of the op.

    Raises:
        ValueError: If the shape is not fully defined.
    """
    shape = tensor_shape.TensorShape(shape)
    if not shape.is_fully_defined():
        raise ValueError(
            f"The accumulator {name} needs a tensor of known shape, received {shape}. Batch the "
            "dataset with drop_remainder=True, or set the shape with tf.ensure_shape."
        )
    return native.ops().ipu_program_variable(dtype=dtype, shape=shape, name=name)


class Accumulator:
    """A sum over mini-batches.

    Attributes:
        dtype: Type of the sum.
        reads: Operations that have read the sum, in the order in which they were made.
    """

    def __init__(self, shape: Any, dtype: dtypes.DType, name: str) -> None:
        """Creates an accumulator that is zero when the program starts."""
        self.dtype = dtype
        self.reads: list[ops.Operation] = []
        self._handle = program_variable(shape, dtype, name)

    @property
    def handle(self) -> tensor_lib.Tensor:
        """The variable that holds the sum."""
        return self._handle

    def add(self, value: tensor_lib.Tensor) -> ops.Operation:
        """Adds to the sum."""
        return gen_resource_variable_ops.assign_add_variable_op(
            self._handle, math_ops.cast(value, self.dtype)
        )

    def assign(self, value: tensor_lib.Tensor) -> ops.Operation:
        """Replaces the sum."""
        return gen_resource_variable_ops.assign_variable_op(
            self._handle, math_ops.cast(value, self.dtype)
        )

    def value(self) -> tensor_lib.Tensor:
        """Reads the sum."""
        value = gen_resource_variable_ops.read_variable_op(self._handle, self.dtype)
        self.reads.append(value.op)
        return value

    def reset(self, after: list[ops.Operation]) -> ops.Operation:
        """Makes the sum zero again.

        Args:
            after: operations that come before it.
        """
        with ops.control_dependencies(after):
            return self.assign(array_ops.zeros_like(self.value()))


class SingleValue(Accumulator):
    """Stand-in for the sum over one mini-batch: the value itself, without memory."""

    def __init__(self, value: tensor_lib.Tensor) -> None:
        """Makes one of a value."""
        self.dtype = value.dtype
        self.reads = []
        self._handle = value

    def value(self) -> tensor_lib.Tensor:
        """Returns the value."""
        return self._handle

    def reset(self, after: list[ops.Operation]) -> ops.Operation:
        """Does nothing: the next mini-batch has a value of its own."""
        del after
        return control_flow_ops.no_op()
