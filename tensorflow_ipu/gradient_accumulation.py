"""Summing over mini-batches before one update: the public module `ipu.gradient_accumulation`.

The gradient-accumulation optimizers and the pipeline are made of the same parts: a counter of
mini-batches, accumulators, and an update that runs after the last mini-batch. All of that is state
of one run of the program (`IpuProgramVariable`), so nothing of it is among the user's variables.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping
from typing import Any, Union

from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import constant_op, dtypes, indexed_slices, ops, tensor_shape
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import (
    array_ops,
    cond,
    control_flow_ops,
    gen_resource_variable_ops,
    math_ops,
)

from tensorflow_ipu.compiler.program import MEMORY_ATTRIBUTE, PHASE_ATTRIBUTE
from tensorflow_ipu.runtime import native

# What `dtype` arguments of accumulators may be: see `accumulator_dtype`.
AccumulatorDtype = Union[None, dtypes.DType, Callable[[Any], dtypes.DType]]

UPDATE_PHASE = "update"


class GradientAccumulationReductionMethod(enum.Enum):
    """How the gradients of mini-batches become one.

    Attributes:
        SUM: Their sum.
        MEAN: The sum of each divided by the number of mini-batches.
        RUNNING_MEAN: The mean of those so far, kept up to date with each mini-batch. It does not
            grow with their number, which suits accumulators of small range.
    """

    SUM = 0
    MEAN = 1
    RUNNING_MEAN = 2

    @classmethod
    def parse(
        cls, value: GradientAccumulationReductionMethod | str
    ) -> GradientAccumulationReductionMethod:
        """Returns the method that a user's argument means.

        Args:
            value: A member, or the name of one in any case.

        Raises:
            ValueError: If it is neither.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value.upper() in cls.__members__:
            return cls[value.upper()]
        raise ValueError(
            f"Cannot parse {value!r} as one of GradientAccumulationReductionMethod: expected a "
            f"member, or one of the names {', '.join(cls.__members__)}."
        )


def accumulator_dtype(dtype: Any, variable: Any) -> dtypes.DType:
    """Returns the type of the accumulator for a variable.

    Args:
        dtype: None for the type of the variable, a type, or a function from variable to type.
        variable: The variable, or a tensor that is accumulated.

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
    """Whether a callable, such as `np.float32`, is a type and not a function."""
    try:
        dtypes.as_dtype(value)
    except TypeError:
        return False
    return True


def program_variable(shape: Any, dtype: dtypes.DType, name: str) -> tensor_lib.Tensor:
    """Returns the handle of a variable that each run of the program starts with zeros.

    Args:
        shape: Its shape, fully defined.
        dtype: Its type.
        name: Name of the op.

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
    """

    def __init__(self, shape: Any, dtype: dtypes.DType, name: str) -> None:
        """Makes one that is zero when the program starts."""
        self.dtype = dtype
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
        return gen_resource_variable_ops.read_variable_op(self._handle, self.dtype)

    def reset(self) -> ops.Operation:
        """Makes the sum zero again."""
        return self.assign(array_ops.zeros_like(self.value()))


class _Single(Accumulator):
    """Stands for the sum over one mini-batch: the value itself, kept nowhere."""

    def __init__(self, value: tensor_lib.Tensor) -> None:
        self.dtype = value.dtype
        self._handle = value

    def value(self) -> tensor_lib.Tensor:
        """Returns the value."""
        return self._handle

    def reset(self) -> ops.Operation:
        """Does nothing: the next mini-batch has a value of its own."""
        return control_flow_ops.no_op()


class MiniBatches:
    """The mini-batches between one update and the next, seen from inside the loop over them.

    Build it in the body of the loop: make accumulators with `accumulate`, then call `then_update`
    once. Where one mini-batch makes an update there is no state, and no loop is needed.
    """

    def __init__(
        self, count: int, attribute: str, description: Mapping[str, Any], name: str
    ) -> None:
        """Makes the counter.

        Args:
            count: Mini-batches for one update.
            attribute: Attribute of the counter that holds the description. With one mini-batch
                there is no counter, and the operation of the update has it.
            description: What the compiler has to know, in values that JSON has. Under "memory" are
                the options that say where variables are kept: see
                `compiler.variable_placement.check_options`.
            name: Name for the counter.
        """
        self._count = count
        self._name = name
        self._attribute = attribute
        self._description = _json(description)
        self._memory = _json(description.get("memory", {}))
        self._accumulators: list[Accumulator] = []
        self._pending: list[ops.Operation] = []
        # How many mini-batches came before this one.
        self.index = constant_op.constant(0)
        if count > 1:
            self._counter = Accumulator([], dtypes.int32, f"{name}/mini_batch")
            self._counter.handle.op._set_attr(attribute, self._description)
            self.index = self._counter.value()

    def accumulate(
        self,
        value: Any,
        dtype: dtypes.DType,
        method: GradientAccumulationReductionMethod = GradientAccumulationReductionMethod.SUM,
        name: str = "accumulator",
    ) -> Accumulator:
        """Accumulates a value of each mini-batch.

        Args:
            value: The value; slices are made dense.
            dtype: Type to accumulate in.
            method: How values become one.
            name: Name for the accumulator.

        Returns:
            The accumulator. Its value is complete in the update.
        """
        if isinstance(value, indexed_slices.IndexedSlices):
            value = ops.convert_to_tensor(value)
        if self._count == 1:
            return _Single(math_ops.cast(value, dtype))
        total = Accumulator(value.shape, dtype, name)
        self._accumulators.append(total)
        value = math_ops.cast(value, dtype)
        if method is GradientAccumulationReductionMethod.RUNNING_MEAN:
            before = math_ops.cast(self.index, dtype)
            kept = total.value() * (before / (before + 1))
            self._pending.append(total.assign(kept + value / (before + 1)))
            return total
        if method is GradientAccumulationReductionMethod.MEAN:
            value = value / math_ops.cast(self._count, dtype)
        self._pending.append(total.add(value))
        return total

    def then_update(self, update: Callable[[], list[ops.Operation]]) -> ops.Operation:
        """Runs `update` after the last mini-batch, and starts again from zero.

        Args:
            update: Builds the update and returns its operations. It may read the accumulators.

        Returns:
            The operation to run with every mini-batch.
        """
        phase = attr_value_pb2.AttrValue(s=UPDATE_PHASE.encode())
        attributes = {PHASE_ATTRIBUTE: phase, MEMORY_ATTRIBUTE: self._memory}
        scope = ops.get_default_graph()._attr_scope(attributes)
        with ops.control_dependencies(self._pending), scope:
            if self._count == 1:
                return self._described(control_flow_ops.group(*update()))
            following = cond.cond(
                math_ops.equal(self.index, self._count - 1),
                lambda: self._first_after(update),
                lambda: math_ops.add(self.index, 1),
                name=f"{self._name}/update",
            )
            return self._counter.assign(following)

    def _described(self, operation: Any) -> Any:
        """Gives the description to an operation; eagerly there is none."""
        if operation is not None:
            operation._set_attr(self._attribute, self._description)
        return operation

    def _first_after(self, update: Callable[[], list[ops.Operation]]) -> tensor_lib.Tensor:
        with ops.control_dependencies(self._update_now(update)):
            return constant_op.constant(0)

    def _update_now(self, update: Callable[[], list[ops.Operation]]) -> list[ops.Operation]:
        operations = update()
        with ops.control_dependencies(operations):
            return [*operations, *(total.reset() for total in self._accumulators)]


def _json(value: Mapping[str, Any]) -> attr_value_pb2.AttrValue:
    return attr_value_pb2.AttrValue(s=json.dumps(value, sort_keys=True).encode())
