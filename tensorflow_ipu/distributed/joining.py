"""Joining: connects this process to the other instances, by TensorFlow's distributed runtime."""

from __future__ import annotations

import functools
import hashlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow.core.protobuf import tensorflow_server_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import constant_op, dtypes, errors, ops, versions
from tensorflow.python.ops import collective_ops
from tensorflow.python.training import server_lib

import tensorflow_ipu
from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.distributed.launcher import environment
from tensorflow_ipu.runtime import native
from tensorflow_ipu.util.short_repr import shows

# --- Handshake ---

# The group of all instances in TensorFlow's collectives, which number groups and meetings.
_GROUP = 1
_JOINING = 1
_SEED = "seed"
# Bytes of what an instance says of itself when it joins.
_GREETING_BYTES = 1024
# How long an instance is asked for at a time, and how long until it is asked again (seconds).
_ASK = 1.0
_PAUSE = 0.1
#: Seconds that the name of a host may be unknown, as those of hosts that are being started are.
UNKNOWN_HOST_TIMEOUT = 20.0


def wait(instances: Instances, tasks: Sequence[str], timeout: float) -> None:
    """Waits until the servers of all instances answer.

    Args:
        instances: the instances, and which of them this process is.
        tasks: their names in TensorFlow's cluster.
        timeout: seconds to wait.

    Raises:
        tf.errors.DeadlineExceededError: If some do not answer in time, or their host stays unknown.
            It names them.
    """
    began = time.monotonic()
    missing = {other: "" for other in range(instances.count) if other != instances.index}
    while True:
        for other in list(missing):
            reason = _problem(tasks[other])
            if reason is None:
                del missing[other]
            else:
                missing[other] = reason
        if not missing:
            return
        waited = time.monotonic() - began
        is_hopeless = waited >= UNKNOWN_HOST_TIMEOUT and any(
            _is_unknown(instances.addresses[other]) for other in missing
        )
        if waited >= timeout or is_hopeless:
            raise _did_not_come(instances, missing, min(waited, timeout))
        time.sleep(_PAUSE)


def _problem(task: str) -> str | None:
    """Returns why an instance cannot be reached, or None if it can."""
    try:
        context.context().check_collective_ops_peer_health(task, int(_ASK * 1000))
    except errors.OpError as error:
        return str(error.message).strip().splitlines()[0]
    return None


def _is_unknown(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.getaddrinfo(host, int(port))
    except socket.gaierror:
        return True
    return False


def _did_not_come(
    instances: Instances, missing: Mapping[int, str], waited: float
) -> errors.DeadlineExceededError:
    named = [f"instance {i} ({instances.addresses[i]}: {why})" for i, why in missing.items()]
    return errors.DeadlineExceededError(
        None,
        None,
        f"Instance {instances.index} has waited {waited:.0f} seconds for the other instances of "
        f"{instances.count}, and did not reach {', '.join(named)}. Start all of them at about the "
        "same time, each once, with the same addresses.",
    )


def compare(instances: Instances, timeout: float) -> int:
    """Checks that all instances, whose servers answer, are of one program.

    Args:
        instances: the instances, and which of them this process is.
        timeout: time limit for the answers of all, in seconds.

    Returns:
        A random number that all instances share.

    Raises:
        tf.errors.FailedPreconditionError: If programs differ, or an instance was started twice.
        tf.errors.DeadlineExceededError: If some do not answer in time.
    """
    about = {
        "the number of instances": instances.count,
        "the hash of their addresses": _hash(instances.addresses),
        "the number of replicas": instances.total_replicas,
        "the version of tensorflow_ipu": tensorflow_ipu.__version__,
        "the version of TensorFlow": versions.VERSION,
    }
    text = json.dumps({**about, _SEED: secrets.randbits(62)})
    greetings = [json.loads(bytes(row.tolist())) for row in _gather(instances, text, timeout)]
    for other, theirs in enumerate(greetings):
        for name, value in about.items():
            if theirs.get(name) != value:
                raise errors.FailedPreconditionError(
                    None,
                    None,
                    f"The instances do not run the same program: {name} is {value!r} in instance "
                    f"{instances.index} ({instances.addresses[instances.index]}) and "
                    f"{theirs.get(name)!r} in instance {other} ({instances.addresses[other]}).",
                )
    return int(greetings[0][_SEED])


def _hash(addresses: Sequence[str]) -> str:
    return hashlib.sha256(",".join(addresses).encode()).hexdigest()[:12]


def _gather(instances: Instances, text: str, timeout: float) -> np.ndarray:
    """Returns the texts of all instances as bytes, a row each."""
    greeting = constant_op.constant([list(text.encode().ljust(_GREETING_BYTES))], dtypes.int32)
    this = f"Instance {instances.index} ({instances.addresses[instances.index]})"
    try:
        gathered: np.ndarray = collective_ops.all_gather_v2(
            greeting, instances.count, _GROUP, _JOINING, timeout=timeout
        ).numpy()
    except errors.DeadlineExceededError as error:
        raise errors.DeadlineExceededError(
            None,
            None,
            f"{this} reaches the other instances of {instances.count}, but some have not joined in "
            "time: they have failed, or have given up waiting for this one. Start all of them "
            "again, at about the same time.",
        ) from error
    except errors.OpError as error:
        raise errors.FailedPreconditionError(
            None,
            None,
            f"{this} cannot join the other instances of {instances.count}: one was started twice "
            "or with other addresses, has failed, or has given up waiting. Start all of them "
            f"again, at about the same time, each once. TensorFlow says: {error.message}",
        ) from error
    return gathered


# --- Server ---


class JoinedServer(server_lib.Server):
    """The server of a process that has joined the other instances. It never stops."""

    def __del__(self) -> None:
        """Leaves the server running: it is the process's."""

    def start(self) -> None:
        """Does nothing: the server runs already."""

    def join(self) -> None:
        """Blocks for ever, as in the base class."""
        threading.Event().wait()

    @property
    def target(self) -> str:
        """The target for a session to connect to this server."""
        task = self.server_def.task_index
        for job in self.server_def.cluster.job:
            if job.name == self.server_def.job_name:
                return f"grpc://{job.tasks[task]}"
        raise KeyError(self.server_def.job_name)

    __repr__ = shows(lambda self: {"target": self.target})


def serve(cluster: server_lib.ClusterSpec, job: str, task: int) -> None:
    """Makes `tf.distribute.Server` of a cluster's task return this process's own server.

    Servers for other tasks are TensorFlow's own. Without this, a server for the task of this
    process would find its address in use. Applies from now on.

    Args:
        cluster: the cluster.
        job: job of this process in it.
        task: number of its task.
    """
    stock = server_lib.Server.__init__
    definition = cluster.as_cluster_def()

    @functools.wraps(stock)
    def init(
        self: Any,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
    ) -> None:
        asked = server_lib._make_server_def(
            server_or_cluster_def, job_name, task_index, protocol, config
        )
        if (asked.cluster, asked.job_name, asked.task_index) != (definition, job, task):
            stock(self, server_or_cluster_def, job_name, task_index, protocol, config, start)
            return
        self.__class__ = JoinedServer
        self._server_def = asked
        self._server = None

    server_lib.Server.__init__ = init


# --- Joining ---

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
        serve(_cluster(instances), *instances.task(instances.index))
        _joined, _has_failed = instances, False
    return instances


def _meet(instances: Instances, timeout: float, limit: float) -> None:
    """Waits for the other instances, and connects the engine with them."""
    deadline = time.monotonic() + timeout
    tasks = [_task_name(*instances.task(index)) for index in range(instances.count)]
    with context.eager_mode(), ops.device("/device:CPU:0"):
        wait(instances, tasks, timeout)
        seed = compare(instances, max(1.0, deadline - time.monotonic()))
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
