"""Variables that each instance updates for itself, reduced over instances when read."""

from __future__ import annotations

from typing import Any

from tensorflow.python.checkpoint import tensor_callable
from tensorflow.python.distribute import distribute_lib, reduce_util
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import resource_variable_ops
from tensorflow.python.ops.variables import VariableAggregation
from tensorflow.python.trackable import base as trackable

from tensorflow_ipu.compiler import strategy_scope, trace
from tensorflow_ipu.distributed import host_collective_ops

_REDUCED = {
    VariableAggregation.SUM: reduce_util.ReduceOp.SUM,
    VariableAggregation.MEAN: reduce_util.ReduceOp.MEAN,
}


class ReadVariable(resource_variable_ops.ResourceVariable):
    """A variable that is reduced over instances when their strategy reads it.

    The strategy reads it on the host, in its scope and outside of `run`: all instances have to read
    it at the same time. Elsewhere, and in checkpoints, it has the instance's own value.
    """

    # TensorFlow compares the storage of variables, past `_read_variable_op`.
    def __eq__(self, other: object) -> Any:
        return self.read_value() == other

    def __ne__(self, other: object) -> Any:
        return self.read_value() != other

    __hash__ = resource_variable_ops.ResourceVariable.__hash__

    def _read_variable_op(self, no_copy: bool = False) -> tensor_lib.Tensor:
        value: tensor_lib.Tensor = super()._read_variable_op(no_copy)
        is_asked = distribute_lib.has_strategy() and distribute_lib.in_cross_replica_context()
        if trace.in_cluster() or strategy_scope.is_reading_own() or not is_asked:
            return value
        return host_collective_ops.allreduce(value, _REDUCED[self.aggregation], "ReadVariable")

    def _serialize_to_tensors(self) -> dict[str, Any]:
        def own() -> tensor_lib.Tensor:
            with strategy_scope.own_values():
                value: tensor_lib.Tensor = self.read_value()
                return value

        return {
            trackable.VARIABLE_VALUE_KEY: tensor_callable.Callable(own, self.dtype, self.device)
        }


def reduced_when_read(variable: Any) -> Any:
    """Makes a variable a `ReadVariable`, if it says how instances aggregate it.

    Args:
        variable: a variable that is synchronized on read.

    Returns:
        The variable.
    """
    if variable.aggregation in _REDUCED:
        variable.__class__ = ReadVariable
    return variable
