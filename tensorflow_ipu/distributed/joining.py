"""Connects this process to the other instances, by TensorFlow's own distributed runtime."""

from __future__ import annotations

import json
import secrets
import threading

from tensorflow.core.protobuf import tensorflow_server_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import constant_op, dtypes, errors, ops
from tensorflow.python.ops import collective_ops
from tensorflow.python.training import server_lib

import tensorflow_ipu
from tensorflow_ipu.distributed import joined_server
from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.runtime import native

#: Seconds that an instance waits for the others to start.
TIMEOUT = 300.0
# The group of all instances in TensorFlow's collectives, which number groups and meetings.
_GROUP = 1
_JOINING = 1
_SEED = "seed"
# Bytes of what an instance says of itself when it joins.
_GREETING_BYTES = 1024

_lock = threading.Lock()
_joined: Instances | None = None


def current() -> Instances:
    """Returns the instances that this process has joined; itself alone if none."""
    return _joined or Instances()


def join(instances: Instances, timeout: float = TIMEOUT) -> Instances:
    """Starts the server of this process, and waits for those of the others.

    A process joins once: if it has, nothing happens.

    Args:
        instances: the instances, and which of them this process is.
        timeout: seconds to wait for the others.

    Returns:
        The same.

    Raises:
        RuntimeError: If TensorFlow has started already, the address of this one is taken, or this
            process has joined other instances.
        tf.errors.FailedPreconditionError: If the others say something else of the program.
        tf.errors.DeadlineExceededError: If they do not come in time.
    """
    global _joined
    if instances.count == 1:
        return instances
    with _lock:
        if _joined is None:
            _start_server(instances)
            with context.eager_mode(), ops.device("/device:CPU:0"):
                seed = _compare(instances, timeout)
                native.ops().ipu_join_instances(
                    tasks=[_task_name(*instances.task(i)) for i in range(instances.count)],
                    index=instances.index,
                    seed=seed,
                )
            joined_server.serve(_cluster(instances), *instances.task(instances.index))
            _joined = instances
        elif (_joined.addresses, _joined.index) != (instances.addresses, instances.index):
            raise RuntimeError(
                f"This process has joined other instances before: it is instance {_joined.index} "
                f"of {_joined.addresses}, and was to be instance {instances.index} of "
                f"{instances.addresses}. Use one strategy, and one launcher, in a program."
            )
    return instances


def _task_name(job: str, number: int) -> str:
    return f"/job:{job}/replica:0/task:{number}"


def _cluster(instances: Instances) -> server_lib.ClusterSpec:
    jobs: dict[str, list[str]] = {}
    for index, address in enumerate(instances.addresses):
        jobs.setdefault(instances.task(index)[0], []).append(address)
    return server_lib.ClusterSpec(jobs)


def _start_server(instances: Instances) -> None:
    current = context.context()
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
            f"{instances.addresses[instances.index]}: {error.message}. If the port is taken, "
            "choose another."
        ) from error


def _compare(instances: Instances, timeout: float) -> int:
    """Waits for all instances, and checks that they are instances of one program.

    Returns:
        A random number that all know.
    """
    about = {
        "the number of instances": instances.count,
        "the number of replicas": instances.total_replicas,
        "the version of tensorflow_ipu": tensorflow_ipu.__version__,
    }
    text = json.dumps({**about, _SEED: secrets.randbits(62)}).encode()
    greeting = constant_op.constant(
        [list(text.ljust(_GREETING_BYTES)[:_GREETING_BYTES])], dtypes.int32
    )
    try:
        gathered = collective_ops.all_gather_v2(
            greeting, instances.count, _GROUP, _JOINING, timeout=timeout
        ).numpy()
    except errors.DeadlineExceededError as error:
        raise errors.DeadlineExceededError(
            None,
            None,
            f"Instance {instances.index} has waited {timeout:g} seconds for the other instances of "
            f"{instances.count}. Start all of them, each once, with the same addresses: "
            f"{', '.join(instances.addresses)}.",
        ) from error
    greetings = [json.loads(bytes(row.tolist()).decode()) for row in gathered]
    for other, theirs in enumerate(greetings):
        for name, value in about.items():
            if theirs.get(name) != value:
                raise errors.FailedPreconditionError(
                    None,
                    None,
                    f"The instances do not run the same program: {name} is {value!r} in instance "
                    f"{instances.index} and {theirs.get(name)!r} in instance {other}.",
                )
    return int(greetings[0][_SEED])
