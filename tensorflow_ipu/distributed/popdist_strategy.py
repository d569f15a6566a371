"""`PopDistStrategy`: instances that run one program; `ipu.distributed.popdist_strategy`."""

from __future__ import annotations

import functools
from typing import Any

from absl import logging
from tensorflow.python.distribute import reduce_util
from tensorflow.python.framework import ops
from tensorflow.python.ops import array_ops
from tensorflow.python.util import nest

from tensorflow_ipu.compiler import current_scope, trace
from tensorflow_ipu.compiler.current_scope import is_reducing
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.distributed import instances as _instances
from tensorflow_ipu.distributed import joining
from tensorflow_ipu.distributed.instance_strategy import InstanceExtended, InstanceStrategy
from tensorflow_ipu.distributed.ipu_strategy import over_replicas
from tensorflow_ipu.distributed.popdist import tensorflow as popdist_tensorflow
from tensorflow_ipu.runtime import system

__all__ = ["PopDistStrategy"]


class PopDistExtended(InstanceExtended):
    """The extended object of strategies that reduce over the replicas of all instances."""

    def __init__(
        self,
        container_strategy: Any,
        ipu_device: str,
        cpu_device: str,
        add_ipu_cross_replica_reductions: bool,
    ) -> None:
        super().__init__(container_strategy, ipu_device, cpu_device)
        self._add_reductions = add_ipu_cross_replica_reductions

    def _reduce_to(
        self, reduce_op: reduce_util.ReduceOp, value: Any, destinations: Any, options: Any
    ) -> Any:
        if not is_reducing():
            return value
        if not trace.in_cluster():
            return super()._reduce_to(reduce_op, value, destinations, options)
        if not self._add_reductions:
            tensors = array_ops.identity_n(nest.flatten(value))
            return nest.pack_sequence_as(value, tensors)
        self._warn_if_configured_for_fewer()
        return over_replicas(reduce_op, value)

    def _warn_if_configured_for_fewer(self) -> None:
        """Warns that the configuration leaves out the replicas of other instances.

        In graph mode the configuration may come after the program is built.
        """
        if not ops.executing_eagerly_outside_functions():
            return
        count = self._container_strategy().instances.count
        configured = system.current().process_count
        if configured != count:
            logging.warning(
                "The strategy reduces over %d instances, but the IPUs are configured for %d, so "
                "programs reduce over the replicas of these only. Before "
                "config.configure_ipu_system() call popdist.tensorflow.set_ipu_config(config), or "
                "strategy.update_ipu_config(config).",
                count,
                configured,
            )

    def _broadcast_to(self, tensor: Any, destinations: Any) -> Any:
        if current_scope.is_ipu(current_scope.current_device()) or trace.in_cluster():
            raise RuntimeError(
                "Broadcast is only supported on the CPU: instances give each other values on the "
                "host. Do it outside the program, under tf.device('/device:CPU:0')."
            )
        return super()._broadcast_to(ops.convert_to_tensor(tensor), destinations)


class PopDistStrategy(InstanceStrategy):
    """A strategy that runs one program on the replicas of all instances, gradients summed.

    With one instance it is an `IPUStrategy`.
    """

    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        add_ipu_cross_replica_reductions: bool = True,
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
    ) -> None:
        """Makes the strategy.

        Args:
            ipu_device: the TensorFlow device to run on, in each instance.
            add_ipu_cross_replica_reductions: whether programs reduce gradients over replicas where
                optimizers apply them. False is for programs that do so themselves, for example
                with a `CrossReplicaOptimizer`.
            enable_dataset_iterators: as for `IPUStrategy`.
            enable_keras_extensions: as for `IPUStrategy`.

        Raises:
            RuntimeError: If the other instances cannot be joined; see `popdist.init`.
        """
        instances = joining.join(_instances.of_poprun())
        super().__init__(
            functools.partial(
                PopDistExtended, add_ipu_cross_replica_reductions=add_ipu_cross_replica_reductions
            ),
            instances,
            ipu_device,
            enable_dataset_iterators,
            enable_keras_extensions,
        )

    @property
    def num_replicas_in_sync(self) -> int:
        """Replicas in all instances, from the launcher; 1 without a launcher."""
        return self._instances.total_replicas

    def update_ipu_config(self, config: IPUConfig) -> IPUConfig:
        """Writes number and index of the instances into a configuration, before it is applied.

        Args:
            config: the configuration, to be changed.

        Returns:
            The configuration.
        """
        return popdist_tensorflow.set_instances(config, self._instances)
