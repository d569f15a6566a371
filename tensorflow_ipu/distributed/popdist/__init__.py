"""Index and number of the instances of a program: the public package `popdist`.

Without a launcher there is one instance, with index 0 and one replica. Importing this imports no
TensorFlow.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tensorflow_ipu.configs import flags
from tensorflow_ipu.configs.machine import Machine
from tensorflow_ipu.configs.ranges import COUNT
from tensorflow_ipu.distributed import instances as _instances
from tensorflow_ipu.distributed.launcher import environment
from tensorflow_ipu.import_hook import former_names, tables
from tensorflow_ipu.util.short_repr import shows

__all__ = [
    "checkNumIpusPerReplica",
    "execute_on_instances",
    "finalizeDistributed",
    "getDeviceId",
    "getInstanceIndex",
    "getNumInstances",
    "getNumIpusPerReplica",
    "getNumLocalReplicas",
    "getNumTotalReplicas",
    "getReplicaIndexOffset",
    "init",
    "isPopdistEnvSet",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


# The names are those of the original, which are not Python's.
def init() -> None:
    """Connects this instance with the others, once; does nothing for one instance.

    Call it at the beginning of the program: TensorFlow's servers cannot be started later.

    Raises:
        RuntimeError: If TensorFlow has begun to run operations, or the server cannot be started.
        tf.errors.DeadlineExceededError: If the other instances do not come.
        tf.errors.FailedPreconditionError: If they run another program.
    """
    instances = _instances.of_poprun()
    if instances.count > 1:
        # Questions about instances need no TensorFlow.
        from tensorflow_ipu.distributed import joining

        joining.join(instances)


def finalizeDistributed() -> None:  # noqa: N802
    """Does nothing: the connection that `init` made ends with the process."""


def isPopdistEnvSet() -> bool:  # noqa: N802
    """Returns whether `poprun` has started this process."""
    return environment.read() is not None


def getNumInstances() -> int:  # noqa: N802
    """Returns the number of instances."""
    return _instances.of_poprun().count


def getInstanceIndex() -> int:  # noqa: N802
    """Returns the index of this instance, from 0."""
    return _instances.of_poprun().index


def getNumTotalReplicas() -> int:  # noqa: N802
    """Returns the number of replicas in all instances."""
    return _instances.of_poprun().total_replicas


def getNumLocalReplicas() -> int:  # noqa: N802
    """Returns the number of replicas in this instance."""
    return _instances.of_poprun().local_replicas


def getReplicaIndexOffset() -> int:  # noqa: N802
    """Returns the index of the first replica of this instance."""
    instances = _instances.of_poprun()
    return instances.index * instances.local_replicas


def getNumIpusPerReplica() -> int:  # noqa: N802
    """Returns the number of IPUs of a replica, from the launcher; 1 without one."""
    return _instances.of_poprun().ipus_per_replica


def checkNumIpusPerReplica(num_ipus: int) -> None:  # noqa: N802
    """Checks that a program uses the launcher's number of IPUs in a replica.

    Args:
        num_ipus: IPUs that a replica of the program uses. Any number will do without a launcher.

    Raises:
        ValueError: If it is another number, or no positive integer.
    """
    COUNT.whole("num_ipus", num_ipus)
    if isPopdistEnvSet() and num_ipus != getNumIpusPerReplica():
        raise ValueError(
            f"The program uses {num_ipus} IPUs for each replica, but poprun was told "
            f"{getNumIpusPerReplica()}. Start it with --ipus-per-replica {num_ipus}."
        )


def getDeviceId(num_ipus_per_replica: int | None = None) -> int:  # noqa: N802
    """Returns the id of the device with the IPUs of this instance, for `IPUConfig.select_ipus`.

    Instances on one host get different devices while it has enough of them. Then devices repeat, as
    each instance simulates a machine of its own.

    Args:
        num_ipus_per_replica: IPUs of a replica; `getNumIpusPerReplica()` if None.

    Raises:
        ValueError: If the machine has no device with that number.
    """
    instances = _instances.of_poprun()
    ipus = num_ipus_per_replica
    ipus = getNumIpusPerReplica() if ipus is None else COUNT.whole("num_ipus_per_replica", ipus)
    machine = Machine(is_model=flags.running_on_ipu_model())
    count = ipus * instances.local_replicas
    devices = [found for found in machine.configurations if len(found.ipus) == count]
    if not devices:
        raise ValueError(
            f"No device has the IPUs of this instance. Received: num_ipus_per_replica={ipus}. "
            f"{machine.offer} Devices of the model have no ids: use auto_select_ipus."
        )
    local = instances.index if instances.local_index is None else instances.local_index
    return devices[local % len(devices)].id


def execute_on_instances(instances: Iterable[int]) -> Any:
    """Runs code on certain instances only, for example to save checkpoints.

    To be used as the decorator of a function, which returns None on other instances; or in a `with`
    statement, which is an error on other instances, as Python cannot leave out its body.

    Args:
        instances: indices of the instances.

    Returns:
        The decorator, which is a context manager too.
    """
    return _OnInstances(frozenset(instances))


class _OnInstances(contextlib.AbstractContextManager[None]):
    """The decorator and context manager that `execute_on_instances` returns."""

    def __init__(self, instances: frozenset[int]) -> None:
        self._instances = instances

    __repr__ = shows(lambda self: {"instances": sorted(self._instances)})

    def __call__(self, function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs) if self._is_one() else None

        return call  # type: ignore[return-value]

    def __enter__(self) -> None:
        if not self._is_one():
            raise RuntimeError(
                f"This code is for the instances {sorted(self._instances)}, and this is instance "
                f"{getInstanceIndex()}. Put it under `if popdist.getInstanceIndex() in (...):`, or "
                "into a function with the decorator @popdist.execute_on_instances(...)."
            )

    def __exit__(self, *error: object) -> None:
        """Ends the code."""

    def _is_one(self) -> bool:
        return getInstanceIndex() in self._instances


def __getattr__(name: str) -> Any:
    """Imports `popdist.tensorflow` when it is first used."""
    if name in tables.POPDIST_MODULES:
        import importlib

        return importlib.import_module(f"{tables.PACKAGE}.{tables.POPDIST_MODULES[name]}")
    raise AttributeError(former_names.explain(f"{tables.POPDIST}.{name}"))


def __dir__() -> list[str]:
    """Lists the module too."""
    return sorted({*globals(), *(name for name in tables.POPDIST_MODULES if name)})
