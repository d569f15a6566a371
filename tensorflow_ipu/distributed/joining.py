"""Connects this process to the other instances, by TensorFlow's own distributed runtime."""

from __future__ import annotations

import threading
import time

from tensorflow.core.protobuf import tensorflow_server_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import errors, ops
from tensorflow.python.training import server_lib

from tensorflow_ipu.distributed import handshake, joined_server
from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.launcher import environment
from tensorflow_ipu.runtime import native

#: Seconds that an instance waits for the others to start.
TIMEOUT = 300.0

_lock = threading.Lock()
_joined: Instances | None = None
_has_failed = False


def current() -> Instances:
    """Returns the instances that this process has joined; itself alone if none."""
    return _joined or Instances()


def join(instances: Instances, timeout: float = TIMEOUT) -> Instances:
    """Starts the server of this process, and waits for the other instances' servers.

    A process joins once: if it has joined the same instances, nothing happens.

    Args:
        instances: the instances, and which of them this process is.
        timeout: seconds to wait for the others.

    Returns:
        The same.

    Raises:
        ValueError: If the addresses or the index are impossible.
        RuntimeError: If TensorFlow has started already, the address of this one is taken, or this
            process has joined other instances, or failed to join.
        tf.errors.FailedPreconditionError: If the others have another program.
        tf.errors.DeadlineExceededError: If the others do not answer in time.
    """
    global _joined, _has_failed
    if instances.count == 1:
        return instances
    with _lock:
        if _joined is not None:
            _check_same(_joined, instances)
            return instances
        _check(instances)
        limit = environment.collective_timeout()
        _start_server(instances)
        _has_failed = True  # until all is done
        _meet(instances, timeout, limit)
        joined_server.serve(_cluster(instances), *instances.task(instances.index))
        _joined, _has_failed = instances, False
    return instances


def _meet(instances: Instances, timeout: float, limit: float) -> None:
    """Waits for the other instances, and connects the engine with them."""
    deadline = time.monotonic() + timeout
    tasks = [_task_name(*instances.task(index)) for index in range(instances.count)]
    with context.eager_mode(), ops.device("/device:CPU:0"):
        handshake.wait(instances, tasks, timeout)
        seed = handshake.compare(instances, max(1.0, deadline - time.monotonic()))
        native.ops().ipu_join_instances(
            tasks=tasks,
            index=instances.index,
            seed=seed,
            addresses=list(instances.addresses),
            limit=limit,
        )


def _check_same(joined: Instances, asked: Instances) -> None:
    """Raises if a process that joins again names other instances than it has joined."""
    if (joined.addresses, joined.index) != (asked.addresses, asked.index):
        raise RuntimeError(
            f"This process has joined other instances before: it is instance {joined.index} of "
            f"{joined.addresses}, and was to be instance {asked.index} of {asked.addresses}. Use "
            "one strategy, and one launcher, in a program."
        )
    if joined.total_replicas != asked.total_replicas:
        raise RuntimeError(
            f"This process has joined the other instances for {joined.total_replicas} replicas in "
            f"all, and cannot for {asked.total_replicas} any more. Use one strategy, and one "
            "launcher, in a program."
        )


def _check(instances: Instances) -> None:
    """Checks addresses and index of the instances."""
    addresses = instances.addresses
    if len(addresses) != instances.count or not 0 <= instances.index < instances.count:
        raise ValueError(
            f"Each of {instances.count} instances needs an address, and an index below that "
            f"number. Received: index {instances.index}, addresses {', '.join(addresses)}"
        )
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise ValueError(
                "The address of an instance must be host:port, with a port from 1 to 65535. "
                f"Received: {address!r}. Addresses come from poprun, or TF_CONFIG."
            )
    twice = sorted({address for address in addresses if addresses.count(address) > 1})
    if twice:
        raise ValueError(
            f"Each instance must have an address of its own. Received: {', '.join(addresses)}, "
            f"with {', '.join(twice)} more than once. Addresses come from poprun, or TF_CONFIG."
        )


def _task_name(job: str, number: int) -> str:
    return f"/job:{job}/replica:0/task:{number}"


def _cluster(instances: Instances) -> server_lib.ClusterSpec:
    jobs: dict[str, list[str]] = {}
    for index, address in enumerate(instances.addresses):
        jobs.setdefault(instances.task(index)[0], []).append(address)
    return server_lib.ClusterSpec(jobs)


def _start_server(instances: Instances) -> None:
    current = context.context()
    if _has_failed:
        raise RuntimeError(
            "This process has tried to join the other instances before, and failed. Start all "
            "instances again."
        )
    if current._context_handle is not None:
        raise RuntimeError(
            "This process cannot join the other instances any more, as TensorFlow has begun to run "
            "operations in it. Call popdist.init(), or make the strategy, before that: at the "
            "beginning of the program."
        )
    job, number = instances.task(instances.index)
    leader = _task_name(*instances.task(0))
    server = tensorflow_server_pb2.ServerDef(
        cluster=_cluster(instances).as_cluster_def(),
        job_name=job,
        task_index=number,
        protocol="grpc",
    )
    server.default_session_config.experimental.collective_group_leader = leader
    current.configure_collective_ops(
        collective_leader=leader, device_filters=(f"/job:{job}/task:{number}",)
    )
    try:
        current.enable_collective_ops(server)
        current.ensure_initialized()
    except errors.OpError as error:
        raise RuntimeError(
            f"The server of instance {instances.index} cannot be started on "
            f"{instances.addresses[instances.index]}: {error.message}. Another program has the "
            f"port, or another process was started as instance {instances.index}: choose another "
            "port, and start each instance once."
        ) from error
