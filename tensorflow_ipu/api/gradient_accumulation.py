"""Counters and reduction methods of mini-batches: the module `ipu.gradient_accumulation`.

The gradient-accumulation optimizers and the pipeline are made of the same parts: a counter of
mini-batches, accumulators, and an update that runs after the last mini-batch. All of that is state
of one run of the program (`IpuProgramVariable`), so nothing of it is among the user's variables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import constant_op, dtypes, indexed_slices, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import cond, control_flow_ops, math_ops

from tensorflow_ipu.api.accumulators import Accumulator, SingleValue
from tensorflow_ipu.compiler.ir.program import MEMORY_ATTRIBUTE, PHASE_ATTRIBUTE
from tensorflow_ipu.configs.enums import NamedEnum
from tensorflow_ipu.configs.ranges import INT32, Range
from tensorflow_ipu.util.short_repr import shows

UPDATE_PHASE = "update"

#: How many mini-batches can make an update.
MINI_BATCHES = Range(1, INT32, below="must be a positive number")


class GradientAccumulationReductionMethod(NamedEnum):
    """How the gradients of mini-batches are reduced to one: sum, mean or running mean.

    Attributes:
        SUM: Their sum.
        MEAN: The sum of each divided by the number of mini-batches.
        RUNNING_MEAN: The mean of those so far, kept up to date with each mini-batch. It does not
            grow with their number, which suits accumulators of small range.
    """

    SUM = 0
    MEAN = 1
    RUNNING_MEAN = 2


class MiniBatches:
    """The mini-batches between one update and the next, seen from inside the loop over them.

    Build it in the body of the loop: make accumulators with `accumulate`, then call `then_update`
    once. Where one mini-batch makes an update there is no state, and no loop is needed.
    """

    def __init__(
        self, count: Any, attribute: str, description: Mapping[str, Any], name: str
    ) -> None:
        """Creates the counter.

        Args:
            count: Mini-batches for one update: an int, or a scalar int32 tensor of the loop's
                body.
            attribute: attribute of the counter that holds the description. With one mini-batch
                there is no counter, and the operation of the update has it.
            description: facts for the compiler, as data for JSON. The key "memory" has the options
                for the memory of variables: see `compiler.memory_options.check_options`.
            name: name for the counter.
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
        self._is_single = isinstance(count, int) and count == 1
        if not self._is_single:
            self._counter = Accumulator([], dtypes.int32, f"{name}/mini_batch")
            self._counter.handle.op._set_attr(attribute, self._description)
            self.index = self._counter.value()

    __repr__ = shows(
        lambda self: {
            "": self._name,
            "count": self._count,
            "accumulators": len(self._accumulators),
        }
    )

    def accumulate(
        self,
        value: Any,
        dtype: dtypes.DType,
        method: GradientAccumulationReductionMethod = GradientAccumulationReductionMethod.SUM,
        name: str = "accumulator",
    ) -> Accumulator:
        """Accumulates a value of each mini-batch.

        Args:
            value: the value; slices are made dense.
            dtype: type to accumulate in.
            method: reduction of the values to one.
            name: name for the accumulator.

        Returns:
            The accumulator. Its value is complete in the update.
        """
        if isinstance(value, indexed_slices.IndexedSlices):
            value = ops.convert_to_tensor(value)
        if self._is_single:
            return SingleValue(math_ops.cast(value, dtype))
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
            update: builds the update and returns its operations. It may read the accumulators.

        Returns:
            The operation to run with every mini-batch.
        """
        phase = attr_value_pb2.AttrValue(s=UPDATE_PHASE.encode())
        attributes = {PHASE_ATTRIBUTE: phase, MEMORY_ATTRIBUTE: self._memory}
        scope = ops.get_default_graph()._attr_scope(attributes)
        with ops.control_dependencies(self._pending), scope:
            if self._is_single:
                return self._described(control_flow_ops.group(*update()))
            following = cond.cond(
                math_ops.equal(self.index, self._count - 1),
                lambda: self._first_after(update),
                lambda: math_ops.add(self.index, 1),
                name=f"{self._name}/update",
            )
            return self._counter.assign(following)

    def _described(self, operation: Any) -> Any:
        """Sets the description on an operation; eagerly there is none."""
        if operation is not None:
            operation._set_attr(self._attribute, self._description)
        return operation

    def _first_after(self, update: Callable[[], list[ops.Operation]]) -> tensor_lib.Tensor:
        with ops.control_dependencies(self._update_now(update)):
            return constant_op.constant(0)

    def _update_now(self, update: Callable[[], list[ops.Operation]]) -> list[ops.Operation]:
        before = [len(total.reads) for total in self._accumulators]
        operations = update()
        read = [total.reads[count:] for total, count in zip(self._accumulators, before)]
        pairs = zip(self._accumulators, read)
        return [*operations, *(total.reset(_last(reads, operations)) for total, reads in pairs)]


def _last(reads: list[ops.Operation], update: list[ops.Operation]) -> list[ops.Operation]:
    """Returns the operations after which an update no longer needs an accumulator.

    A replica gives its gradients to the others long before it gets theirs. An accumulator that is
    reset once it has been read takes no memory while its replica waits for the update.

    Args:
        reads: operations of the update that read the accumulator.
        update: all operations of the update.
    """
    graph = ops.get_default_graph()
    # When a function that the update calls has read it is not known here.
    return reads if reads and all(read.graph is graph for read in reads) else update


def _json(value: Mapping[str, Any]) -> attr_value_pb2.AttrValue:
    return attr_value_pb2.AttrValue(s=json.dumps(value, sort_keys=True).encode())
