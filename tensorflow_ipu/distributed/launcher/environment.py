"""The environment variables that tell an instance of a program which one it is."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping

COUNT = "POPDIST_NUM_INSTANCES"
INDEX = "POPDIST_INSTANCE_INDEX"
TOTAL_REPLICAS = "POPDIST_NUM_TOTAL_REPLICAS"
IPUS_PER_REPLICA = "POPDIST_NUM_IPUS_PER_REPLICA"
ADDRESSES = "POPDIST_INSTANCE_ADDRESSES"
OFFLINE = "POPDIST_OFFLINE_MODE"
# Set by users: after how many seconds it is an error that an instance waits for another.
COLLECTIVE_TIMEOUT = "POPDIST_COLLECTIVE_TIMEOUT"
_COLLECTIVE_TIMEOUT_SECONDS = 600.0


@dataclasses.dataclass(frozen=True)
class InstanceEnvironment:
    """The facts that a launcher passes to one instance.

    Args:
        count: Instances of the program.
        index: Which of them it is, from 0.
        total_replicas: Replicas of all instances.
        ipus_per_replica: IPUs of each.
        addresses: `host:port` of each instance, in order, for connections between them.
        offline: Whether programs are only compiled.
    """

    count: int
    index: int
    total_replicas: int
    ipus_per_replica: int
    addresses: tuple[str, ...]
    offline: bool = False

    def variables(self) -> dict[str, str]:
        """Returns the facts as environment variables."""
        return {
            COUNT: str(self.count),
            INDEX: str(self.index),
            TOTAL_REPLICAS: str(self.total_replicas),
            IPUS_PER_REPLICA: str(self.ipus_per_replica),
            ADDRESSES: ",".join(self.addresses),
            OFFLINE: "1" if self.offline else "0",
        }


def read(variables: Mapping[str, str] = os.environ) -> InstanceEnvironment | None:
    """Returns the launcher's facts about this process, or None without a launcher.

    Args:
        variables: the environment.

    Raises:
        ValueError: the variables contradict each other, or are no numbers.
    """
    if COUNT not in variables:
        return None
    count, index = _number(variables, COUNT, least=1), _number(variables, INDEX)
    total = _number(variables, TOTAL_REPLICAS, str(count), least=1)
    addresses = tuple(variables.get(ADDRESSES, "").split(","))
    if index >= count:
        raise ValueError(f"{INDEX} must be less than {COUNT}={count}; received {index}.")
    if total % count:
        raise ValueError(
            f"{TOTAL_REPLICAS} must be a multiple of {COUNT}={count}; received {total}."
        )
    if count > 1 and len(addresses) != count:
        raise ValueError(
            f"{ADDRESSES} must have a host:port for each of {count} instances; received "
            f"{variables.get(ADDRESSES)!r}. Start the program with poprun."
        )
    return InstanceEnvironment(
        count=count,
        index=index,
        total_replicas=total,
        ipus_per_replica=_number(variables, IPUS_PER_REPLICA, "1", least=1),
        addresses=addresses if count > 1 else (),
        offline=variables.get(OFFLINE, "0") == "1",
    )


def collective_timeout(variables: Mapping[str, str] = os.environ) -> float:
    """Returns the time limit in seconds for another instance to reach a collective.

    Args:
        variables: The environment.

    Raises:
        ValueError: If `POPDIST_COLLECTIVE_TIMEOUT` is no positive number.
    """
    text = variables.get(COLLECTIVE_TIMEOUT, str(_COLLECTIVE_TIMEOUT_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(
            f"{COLLECTIVE_TIMEOUT} must be a positive number of seconds; received {text!r}."
        )
    return seconds


def _number(variables: Mapping[str, str], name: str, default: str = "", least: int = 0) -> int:
    text = variables.get(name, default)
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"{name} must be a whole number from {least}; received {text!r}.")
    return int(text)
