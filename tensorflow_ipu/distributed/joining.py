"""Connects this process to the other instances, by TensorFlow's own distributed runtime."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tensorflow.core.protobuf import tensorflow_server_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import constant_op, dtypes, errors, ops
from tensorflow.python.ops import collective_ops
from tensorflow.python.training import server_lib

from tensorflow_ipu.runtime import native

_JOB = "worker"
_LEADER = f"/job:{_JOB}/replica:0/task:0"
# The group of all instances in TensorFlow's collectives, which number groups and meetings.
_GROUP = 1
_JOINING = 1
# Bytes of what an instance says of itself when it joins.
_GREETING_BYTES = 1024


def join(addresses: Sequence[str], index: int, about: dict[str, object], timeout: float) -> None:
    """Starts the server of this process, and waits for those of the others.

    Args:
        addresses: `host:port` of each instance, in order.
        index: Which of them this process is.
        about: What has to be the same in all, by name: the number of replicas, say.
        timeout: Seconds to wait for the others.

    Raises:
        RuntimeError: If TensorFlow has started already, or the address of this one is taken.
        tf.errors.FailedPreconditionError: If the others say something else of themselves.
        tf.errors.DeadlineExceededError: If they do not come in time.
    """
    _start_server(addresses, index)
    _compare(index, about, len(addresses), timeout)
    with ops.device("/device:CPU:0"):
        native.ops().ipu_join_instances(count=len(addresses), index=index)


def _start_server(addresses: Sequence[str], index: int) -> None:
    current = context.context()
    if current._context_handle is not None:
        raise RuntimeError(
            "This process cannot join the other instances any more, as TensorFlow has begun to run "
            "operations in it. Call popdist.init(), or make the strategy, before that: at the "
            "beginning of the program."
        )
    cluster = server_lib.ClusterSpec({_JOB: list(addresses)}).as_cluster_def()
    server = tensorflow_server_pb2.ServerDef(
        cluster=cluster, job_name=_JOB, task_index=index, protocol="grpc"
    )
    server.default_session_config.experimental.collective_group_leader = _LEADER
    current.configure_collective_ops(
        collective_leader=_LEADER, device_filters=(f"/job:{_JOB}/task:{index}",)
    )
    try:
        current.enable_collective_ops(server)
        current.ensure_initialized()
    except errors.OpError as error:
        raise RuntimeError(
            f"The server of instance {index} cannot be started on {addresses[index]}: "
            f"{error.message}. If the port is taken, choose another."
        ) from error


def _compare(index: int, about: dict[str, object], count: int, timeout: float) -> None:
    """Waits for all instances, and checks that they are instances of one program."""
    text = json.dumps(about, sort_keys=True).encode()
    with ops.device("/device:CPU:0"):
        greeting = constant_op.constant(
            [list(text.ljust(_GREETING_BYTES)[:_GREETING_BYTES])], dtypes.int32
        )
        try:
            gathered = collective_ops.all_gather_v2(
                greeting, count, _GROUP, _JOINING, timeout=timeout
            ).numpy()
        except errors.DeadlineExceededError as error:
            raise errors.DeadlineExceededError(
                None,
                None,
                f"Instance {index} has waited {timeout:g} seconds for the other instances of "
                f"{count}. Start all of them, each once, with the same addresses.",
            ) from error
    for other, row in enumerate(gathered):
        theirs = json.loads(bytes(row.tolist()).decode())
        for name, value in about.items():
            if theirs.get(name) != value:
                raise errors.FailedPreconditionError(
                    None,
                    None,
                    f"The instances do not run the same program: {name} is {value!r} in instance "
                    f"{index} and {theirs.get(name)!r} in instance {other}.",
                )
