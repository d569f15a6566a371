"""The extended object of `IPUStrategy`: variables, reductions and datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tensorflow.python.data.ops import dataset_ops, iterator_ops
from tensorflow.python.distribute import (
    distribute_lib,
    one_device_strategy,
    reduce_util,
)
from tensorflow.python.util import nest

from tensorflow_ipu.api import scopes
from tensorflow_ipu.compiler import strategy_scope, trace
from tensorflow_ipu.ops import cross_replica_ops


class IPUExtended(one_device_strategy.OneDeviceExtended):
    """The extended object of `IPUStrategy`; it computes initial values on the CPU."""

    def __init__(self, container_strategy: Any, ipu_device: str, cpu_device: str) -> None:
        super().__init__(container_strategy, ipu_device)
        self._cpu_device = cpu_device

    def _create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        initial_value = kwargs.get("initial_value")
        if callable(initial_value):

            def on_cpu() -> Any:
                with scopes.host_scope(self._cpu_device):
                    return initial_value()

            kwargs["initial_value"] = on_cpu
        with strategy_scope.scope_of_variable():
            return super()._create_variable(next_creator, **kwargs)

    def variable_created_in_scope(self, v: Any) -> bool:
        """Returns whether a variable was made for this device, in a scope of any IPUStrategy."""
        return strategy_scope.same_device(
            self._container_strategy(), getattr(v, "_distribute_strategy", None)
        )

    def _validate_colocate_with_variable(self, colocate_with_variable: Any) -> None:
        """Checks a variable that an optimizer makes its own variables beside."""
        if not self.variable_created_in_scope(colocate_with_variable):
            name = getattr(colocate_with_variable, "name", repr(colocate_with_variable))
            raise ValueError(
                f"The variable {name.split(':')[0]!r}, which an optimizer is to update on "
                f"{self._device}, was made outside the scope of this IPUStrategy. Make it inside "
                "`with strategy.scope():`."
            )

    def _experimental_distribute_dataset(self, dataset: Any, options: Any) -> Any:
        del options
        return HostDataset(dataset)

    def _distribute_datasets_from_function(
        self, dataset_fn: Callable[[distribute_lib.InputContext], Any], options: Any
    ) -> Any:
        """Returns the dataset of the function: one process reads it, whole."""
        del options
        return dataset_fn(distribute_lib.InputContext())

    def _reduce_to(
        self, reduce_op: reduce_util.ReduceOp, value: Any, destinations: Any, options: Any
    ) -> Any:
        del destinations, options
        if not trace.in_cluster() or not strategy_scope.is_reducing():
            return value
        return over_replicas(reduce_op, value)


class HostDataset(dataset_ops.UnaryUnchangedStructureDataset):
    """A distributed dataset: read by a function on the host, which calls `IPUStrategy.run`.

    So does Keras itself, in its own `fit` and in `train_on_batch`.
    """

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset, dataset._variant_tensor)

    def __iter__(self) -> Iterator[Any]:
        return iterator_ops.OwnedIterator(self)


def over_replicas(reduce_op: reduce_util.ReduceOp, value: Any) -> Any:
    """Reduces values over the replicas of a program, in the program.

    Args:
        reduce_op: SUM or MEAN.
        value: a tensor, or a structure of tensors.

    Returns:
        The same, reduced.

    Raises:
        ValueError: If `reduce_op` is another.
    """
    if reduce_op not in (reduce_util.ReduceOp.SUM, reduce_util.ReduceOp.MEAN):
        raise ValueError(
            f"Unsupported reduce op: {reduce_op}. An IPUStrategy can reduce with SUM and MEAN."
        )
    reduce = {
        reduce_util.ReduceOp.SUM: cross_replica_ops.cross_replica_sum,
        reduce_util.ReduceOp.MEAN: cross_replica_ops.cross_replica_mean,
    }[reduce_op]
    return nest.map_structure(reduce, value)
