"""The instances of a program: the processes that run it together, as their launcher says."""

from __future__ import annotations

import os
import socket
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorflow_ipu.distributed.launcher import environment
from tensorflow_ipu.util.short_repr import shows

#: Name of the job, in TensorFlow's clusters, that instances are tasks of.
JOB = "worker"
#: Type of a task that evaluates what the workers save, and is none of them.
EVALUATOR = "evaluator"

# What launchers of MPI programs put into the environment of each process: how many they started,
# which this is, the same on this host, and what tells one start from another.
_MPI = (
    (
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "PMIX_NAMESPACE",
    ),
    ("PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID", "PMI_JOBID"),
    ("HOROVOD_SIZE", "HOROVOD_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_JOBID"),
)
# Ports of instances that nobody else chooses them for: those that no service has, and that the
# system gives to nobody.
_PORTS = range(20000, 30000)


@dataclass(frozen=True)
class Instances:
    """The processes that run one program.

    Args:
        count: how many there are.
        index: which of them this process is, from 0.
        local_replicas: replicas of the program in each.
        ipus_per_replica: IPUs of each replica.
        addresses: `host:port` of each, by which they reach each other; none for one process.
        tasks: the task that each is in TensorFlow's cluster, if not the workers in order.
        local_count: how many there are on this host; all if None.
        local_index: which of these this is; `index` if None.
        offline: whether programs are only compiled.
    """

    count: int = 1
    index: int = 0
    local_replicas: int = 1
    ipus_per_replica: int = 1
    addresses: tuple[str, ...] = ()
    tasks: tuple[tuple[str, int], ...] = ()
    local_count: int | None = None
    local_index: int | None = None
    offline: bool = False

    __repr__ = shows(lambda self: {"count": self.count, "index": self.index})

    @property
    def total_replicas(self) -> int:
        """Replicas of the program in all instances."""
        return self.count * self.local_replicas

    def task(self, index: int) -> tuple[str, int]:
        """Returns the job and number of an instance in TensorFlow's cluster.

        Args:
            index: which instance.
        """
        return self.tasks[index] if self.tasks else (JOB, index)


def of_poprun(variables: Mapping[str, str] = os.environ) -> Instances:
    """Returns the instances that `poprun` has started; without it, one.

    Args:
        variables: the environment.

    Raises:
        ValueError: If the variables contradict each other.
    """
    told = environment.read(variables)
    if told is None:
        return Instances()
    hosts = [address.rpartition(":")[0] for address in told.addresses] or [""]
    here = [index for index, host in enumerate(hosts) if host == hosts[told.index]]
    return Instances(
        count=told.count,
        index=told.index,
        local_replicas=told.total_replicas // told.count,
        ipus_per_replica=told.ipus_per_replica,
        addresses=told.addresses,
        local_count=len(here),
        local_index=here.index(told.index),
        offline=told.offline,
    )


def of_mpi(variables: Mapping[str, str] = os.environ) -> Instances:
    """Returns the processes that `poprun`, `mpirun` or `horovodrun` have started; without, one.

    Args:
        variables: the environment.

    Raises:
        ValueError: If the variables contradict each other, or are no numbers.
        RuntimeError: If the processes are on several hosts, and cannot tell each other where.
    """
    if environment.COUNT in variables:
        return of_poprun(variables)
    for size, rank, local_size, local_rank, job in _MPI:
        if size not in variables:
            continue
        count, index = _number(variables, size), _number(variables, rank)
        if not 0 <= index < count:
            raise ValueError(f"{rank} must be less than {size}={count}. Received: {index}")
        here = _number(variables, local_size, count)
        addresses = _addresses(count, index, here, variables.get(job, str(os.getppid())))
        return Instances(
            count=count,
            index=index,
            addresses=addresses if count > 1 else (),
            local_count=here,
            local_index=_number(variables, local_rank, index),
        )
    return Instances()


def of_cluster(cluster_resolver: Any) -> Instances:
    """Returns the workers of a cluster, of which this process is one.

    Args:
        cluster_resolver: says which workers there are, and which this is; a
            `tf.distribute.cluster_resolver.ClusterResolver`.

    Returns:
        The workers; a process that evaluates is alone.

    Raises:
        ValueError: If the cluster has no such task.
    """
    cluster: dict[str, Any] = cluster_resolver.cluster_spec().as_dict()
    tasks = [(job, number) for job in ("chief", JOB) for number in range(len(cluster.get(job, ())))]
    if not tasks or cluster_resolver.task_type == EVALUATOR:
        return Instances()
    own = (cluster_resolver.task_type or JOB, cluster_resolver.task_id or 0)
    if own not in tasks:
        raise ValueError(
            f"The task of this process, {own[0]} {own[1]}, is none of the workers of the cluster: "
            f"{cluster}. Set `task` of TF_CONFIG to the type and index of one of them."
        )
    return Instances(
        count=len(tasks),
        index=tasks.index(own),
        addresses=tuple(cluster[job][number] for job, number in tasks) if len(tasks) > 1 else (),
        tasks=tuple(tasks),
    )


def _addresses(count: int, index: int, here: int, job: str) -> tuple[str, ...]:
    """Returns addresses for the processes of a launcher that does not give them."""
    port = _PORTS[zlib.crc32(f"{job}:{os.getuid()}".encode()) % (len(_PORTS) - count) + index]
    if here == count:
        return tuple(f"localhost:{port - index + other}" for other in range(count))
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise RuntimeError(
            f"The {count} processes of this program are on several hosts, and need the Python "
            "package mpi4py to tell each other where. Install it, or start the program with poprun."
        ) from error
    return tuple(MPI.COMM_WORLD.allgather(f"{socket.gethostname()}:{port}"))


def _number(variables: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = variables.get(name, "" if default is None else str(default))
    if not text.isdigit():
        raise ValueError(f"{name} must be a whole number. Received: {text!r}")
    return int(text)
