"""Variables that each worker updates for itself, and that are reduced over workers when read."""

from __future__ import annotations

from typing import Any

from tensorflow.python.distribute import distribute_lib, reduce_util
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import resource_variable_ops
from tensorflow.python.ops.variables import VariableAggregation

from tensorflow_ipu.compiler import trace
from tensorflow_ipu.distributed import host_collective_ops

_REDUCED = {
    VariableAggregation.SUM: reduce_util.ReduceOp.SUM,
    VariableAggregation.MEAN: reduce_util.ReduceOp.MEAN,
}


class ReadVariable(resource_variable_ops.ResourceVariable):
    """A variable that is reduced over workers when their strategy reads it.

    The strategy reads it on the host, in its scope and outside of `run`: all workers have to read
    it at the same time. Elsewhere, and in checkpoints, it has the worker's own value.
    """

    def _read_variable_op(self, no_copy: bool = False) -> tensor_lib.Tensor:
        value: tensor_lib.Tensor = super()._read_variable_op(no_copy)
        is_asked = distribute_lib.has_strategy() and distribute_lib.in_cross_replica_context()
        if trace.in_cluster() or not is_asked:
            return value
        return host_collective_ops.allreduce(value, _REDUCED[self.aggregation], "ReadVariable")


def reduced_when_read(variable: Any) -> Any:
    """Makes a variable a `ReadVariable`, if it says how workers aggregate it.

    Args:
        variable: a variable that is synchronized on read.

    Returns:
        The variable.
    """
    if variable.aggregation in _REDUCED:
        variable.__class__ = ReadVariable
    return variable
