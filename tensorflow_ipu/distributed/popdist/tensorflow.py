"""Configures the IPUs of an instance: the public module `popdist.tensorflow`."""

from __future__ import annotations

from tensorflow_ipu.configs.enums import DeviceConnectionType
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.configs.ranges import COUNT
from tensorflow_ipu.distributed import instances as _instances
from tensorflow_ipu.distributed import joining, popdist

__all__ = ["set_ipu_config"]

# The chip to compile for where the launcher says that there is none, and the program not which.
_OFFLINE_VERSION = "ipu2"


def set_ipu_config(
    config: IPUConfig, ipus_per_replica: int | None = None, configure_device: bool = True
) -> IPUConfig:
    """Sets the options that follow from the instances of a program, and joins them.

    Args:
        config: the configuration, to be changed.
        ipus_per_replica: IPUs of a replica; `popdist.getNumIpusPerReplica()` if None.
        configure_device: whether to select the IPUs of this instance too.

    Returns:
        The configuration.

    Raises:
        TypeError: If `config` is no IPUConfig.
        ValueError: If `ipus_per_replica` is no positive integer.
        RuntimeError: If the other instances cannot be joined; see `popdist.init`.
    """
    if not isinstance(config, IPUConfig):
        raise TypeError(f"config must be an IPUConfig. Received: {type(config).__name__}")
    instances = joining.join(_instances.of_poprun())
    if ipus_per_replica is None:
        ipus_per_replica = popdist.getNumIpusPerReplica()
    ipus = COUNT.whole("ipus_per_replica", ipus_per_replica) * instances.local_replicas
    if configure_device:
        config.auto_select_ipus = ipus
    if instances.offline:
        config.device_connection.type = DeviceConnectionType.NEVER
        config.device_connection.version = config.device_connection.version or _OFFLINE_VERSION
    return set_instances(config, instances)


def set_instances(config: IPUConfig, instances: _instances.Instances) -> IPUConfig:
    """Writes number and index of the instances into a configuration. One is no distribution.

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
