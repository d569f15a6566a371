"""Configures the IPUs of an instance: the public module `popdist.tensorflow`."""

from __future__ import annotations

from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.configs.ranges import COUNT
from tensorflow_ipu.distributed import instances as _instances
from tensorflow_ipu.distributed import popdist

__all__ = ["set_ipu_config"]


def set_ipu_config(
    config: IPUConfig, ipus_per_replica: int | None = None, configure_device: bool = True
) -> IPUConfig:
    """Sets the options that follow from the instances of a program.

    Args:
        config: the configuration, to be changed.
        ipus_per_replica: IPUs of a replica; `popdist.getNumIpusPerReplica()` if None.
        configure_device: whether to select the IPUs of this instance too.

    Returns:
        The configuration.

    Raises:
        TypeError: If `config` is no IPUConfig.
        ValueError: If `ipus_per_replica` is no positive integer.
    """
    if not isinstance(config, IPUConfig):
        raise TypeError(f"config must be an IPUConfig. Received: {type(config).__name__}")
    instances = _instances.current()
    if ipus_per_replica is None:
        ipus_per_replica = popdist.getNumIpusPerReplica()
    ipus = COUNT.whole("ipus_per_replica", ipus_per_replica) * instances.local_replicas
    if configure_device:
        config.auto_select_ipus = ipus
    return set_instances(config, instances)


def set_instances(config: IPUConfig, instances: _instances.Instances) -> IPUConfig:
    """Writes into a configuration which instance this is. One instance is no distribution.

    Args:
        config: the configuration, to be changed.
        instances: the instances of the program.

    Returns:
        The configuration.
    """
    if instances.count == 1:
        return config
    distribution = config.experimental.multi_replica_distribution
    distribution.process_count = instances.count
    distribution.process_index = instances.index
    return config
