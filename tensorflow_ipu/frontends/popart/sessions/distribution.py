"""Replicas in several processes: what options say of them, and what the launcher does."""

from __future__ import annotations

from tensorflow_ipu.distributed import joining
from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.frontends.popart.enums import DeviceType
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions


def check(options: SessionOptions, device: DeviceType) -> None:
    """Refuses options that are not those of the processes.

    Args:
        options: the options of a session.
        device: the kind of its device.

    Raises:
        popart_exception: If they contradict each other, or the processes.
    """
    instances = joining.current()
    if options.enableDistributedReplicatedGraphs:
        _check_numbers(options, device)
        _check_processes(options, instances)
    elif instances.count > 1:
        raise popart_exception(
            f"This is one of {instances.count} processes that run a program together. Set "
            "SessionOptions.enableDistributedReplicatedGraphs, globalReplicationFactor and "
            "globalReplicaOffset, or start it without poprun."
        )


def _check_numbers(options: SessionOptions, device: DeviceType) -> None:
    """Refuses numbers of replicas that cannot be."""
    total, offset = int(options.globalReplicationFactor), int(options.globalReplicaOffset)
    local = options.replication_factor
    if total < 1:
        raise popart_exception(f"Invalid globalReplicationFactor: {total}. It must be at least 1.")
    if offset < 0:
        raise popart_exception(f"Invalid globalReplicaOffset: {offset}. It must be at least 0.")
    if offset > total:
        raise popart_exception(
            f"Global replica offset {offset} is greater than the globalReplicationFactor, {total}."
        )
    if options.enableReplicatedGraphs and local == 1:
        raise popart_exception(
            "Local replicated graphs enabled but replication factor is 1. Set "
            "replicatedGraphCount, or enableReplicatedGraphs to False."
        )
    if local > total:
        raise popart_exception(
            f"Invalid local replication factor: {local} replicas here, and {total} in all."
        )
    if device not in (DeviceType.Ipu, DeviceType.OfflineIpu):
        raise popart_exception(
            f"Only IPU Hardware devices supported by distributed graphs. Received: {device}"
        )


def _check_processes(options: SessionOptions, instances: Instances) -> None:
    """Refuses numbers of replicas that are not those of the processes."""
    total, local = int(options.globalReplicationFactor), options.replication_factor
    if total != instances.count * local:
        raise popart_exception(
            f"Invalid globalReplicationFactor: {total}, but {instances.count} processes with "
            f"{local} replicas each run this program. Start it with poprun, and call popdist.init "
            "before a device is acquired."
        )
    expected = instances.index * local
    if options.globalReplicaOffset != expected:
        raise popart_exception(
            f"Invalid globalReplicaOffset: {options.globalReplicaOffset}. The first of the "
            f"{local} replicas of process {instances.index} has the number {expected}."
        )
