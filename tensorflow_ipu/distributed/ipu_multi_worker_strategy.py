"""`IPUMultiWorkerStrategy`: workers that exchange gradients; `ipu.ipu_multi_worker_strategy`."""

from __future__ import annotations

from typing import Any

from tensorflow_ipu.distributed import instance_strategy, instances, joining
from tensorflow_ipu.distributed.instance_strategy import GraphStrategy
from tensorflow_ipu.util.short_repr import shows

__all__ = ["IPUMultiWorkerStrategy", "IPUMultiWorkerStrategyV1"]


class IPUMultiWorkerStrategyV1(GraphStrategy):
    """Trains with workers that each have an IPU device, and add up gradients on their hosts.

    With one worker nothing is exchanged. For graph mode: pass it to estimators as
    `train_distribute` of their `RunConfig`, or train in its `scope()` with `run`.
    """

    def __init__(
        self,
        cluster_resolver: Any,
        ipu_device: str = "/device:IPU:0",
        variables_on_host: bool = False,
    ) -> None:
        """Makes the strategy.

        Args:
            cluster_resolver: which workers there are, and which this is, such as a
                `tf.distribute.cluster_resolver.TFConfigClusterResolver()`.
            ipu_device: the TensorFlow device to run on, in each worker.
            variables_on_host: whether variables are on the host, where they have to be updated
                too: for graph mode. Programs get their values when they are launched.

        Raises:
            NotImplementedError: If variables are to be on the host in eager mode.
            ValueError: If this process is none of the workers.
            RuntimeError: If the other workers cannot be joined: TensorFlow has begun to run
                operations, or the address of this one is taken.
        """
        extended = instance_strategy.host_variables_extended(variables_on_host)
        workers = joining.join(instances.of_cluster(cluster_resolver))
        super().__init__(extended, workers, ipu_device, False, True)
        self._cluster_resolver = cluster_resolver

    __repr__ = shows(lambda self: {"": self._ipu_device, "workers": self._instances.count})

    @property
    def cluster_resolver(self) -> Any:
        """The resolver passed to the constructor."""
        return self._cluster_resolver


IPUMultiWorkerStrategy = IPUMultiWorkerStrategyV1
