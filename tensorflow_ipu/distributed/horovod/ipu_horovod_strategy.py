"""`IPUHorovodStrategy`: processes that exchange gradients on the host."""

from __future__ import annotations

from tensorflow_ipu.distributed import instance_strategy
from tensorflow_ipu.distributed.horovod import processes
from tensorflow_ipu.distributed.instance_strategy import GraphStrategy

__all__ = ["IPUHorovodStrategy", "IPUHorovodStrategyV1"]


class IPUHorovodStrategyV1(GraphStrategy):
    """Strategy for processes with an IPU device each, which add up gradients on their hosts.

    With one process nothing is exchanged. For graph mode: pass it to estimators as
    `train_distribute` of their `RunConfig`, or train in its `scope()` with `run`.
    """

    def __init__(self, ipu_device: str = "/device:IPU:0", variables_on_host: bool = False) -> None:
        """Makes the strategy, after `horovod.init` if that has not been called.

        Args:
            ipu_device: the TensorFlow device to run on, in each process.
            variables_on_host: whether variables are on the host, where they have to be updated
                too: for graph mode. Programs get their values when they are launched.

        Raises:
            NotImplementedError: If variables are to be on the host in eager mode.
            RuntimeError: If the other processes cannot be joined; see `horovod.init`.
        """
        processes.init()
        extended = instance_strategy.host_variables_extended(variables_on_host)
        super().__init__(extended, processes.initialized(), ipu_device, False, True)


IPUHorovodStrategy = IPUHorovodStrategyV1
