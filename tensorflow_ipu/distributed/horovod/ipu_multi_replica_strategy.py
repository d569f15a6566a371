"""`IPUMultiReplicaStrategy`: processes that run one program together."""

from __future__ import annotations

import functools

from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.distributed.horovod import processes
from tensorflow_ipu.distributed.instance_strategy import GraphStrategy
from tensorflow_ipu.distributed.popdist import tensorflow as popdist_tensorflow
from tensorflow_ipu.distributed.popdist_strategy import PopDistExtended

__all__ = ["IPUMultiReplicaStrategy", "IPUMultiReplicaStrategyV1"]


class IPUMultiReplicaStrategyV1(GraphStrategy):
    """Strategy for one program on the replicas of all processes, which sum their gradients.

    For graph mode; with one process nothing is exchanged. `PopDistStrategy` is its successor.
    """

    def __init__(
        self, ipu_device: str = "/device:IPU:0", add_ipu_cross_replica_reductions: bool = True
    ) -> None:
        """Makes the strategy, after `horovod.init` if that has not been called.

        Args:
            ipu_device: the TensorFlow device to run on, in each process.
            add_ipu_cross_replica_reductions: whether programs reduce gradients over replicas where
                optimizers apply them. False is for programs that do so themselves, for example
                with a `CrossReplicaOptimizer`.

        Raises:
            RuntimeError: If the other processes cannot be joined; see `horovod.init`.
        """
        processes.init()
        extended = functools.partial(
            PopDistExtended, add_ipu_cross_replica_reductions=add_ipu_cross_replica_reductions
        )
        super().__init__(extended, processes.initialized(), ipu_device, False, True)

    def update_ipu_config(self, config: IPUConfig) -> IPUConfig:
        """Writes into a configuration which process this is. Call it before configuring.

        Args:
            config: the configuration, to be changed.

        Returns:
            The configuration.
        """
        return popdist_tensorflow.set_instances(config, self._instances)


IPUMultiReplicaStrategy = IPUMultiReplicaStrategyV1
