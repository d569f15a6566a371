"""Waits for the other instances, and checks that they are instances of one program."""

from __future__ import annotations

import hashlib
import json
import secrets
import socket
import time
from collections.abc import Mapping, Sequence

import numpy as np
from tensorflow.python.eager import context
from tensorflow.python.framework import constant_op, dtypes, errors, versions
from tensorflow.python.ops import collective_ops

import tensorflow_ipu
from tensorflow_ipu.distributed.instances import Instances

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
