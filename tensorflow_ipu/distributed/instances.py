"""Finds the processes of a program, and the index of this one."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tensorflow_ipu.configs.short_repr import shows

# What launchers put into the environment of each process: how many they started.
_COUNTS = (
    "POPDIST_NUM_INSTANCES",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "HOROVOD_SIZE",
)


@dataclass(frozen=True)
class Instances:
    """The processes that run one program.

    Args:
        count: how many there are.
        index: which of them this process is, from 0.
        local_replicas: replicas of the program in each.
    """

    count: int = 1
    index: int = 0
    local_replicas: int = 1

    __repr__ = shows(lambda self: {"count": self.count, "index": self.index})

    @property
    def total_replicas(self) -> int:
        """Replicas of the program in all instances."""
        return self.count * self.local_replicas


def current() -> Instances:
    """Returns the instances that this process is one of.

    Raises:
        NotImplementedError: If a launcher has started this process together with others.
    """
    for variable in _COUNTS:
        count = os.environ.get(variable, "")
        if count.isdigit() and int(count) > 1:
            refuse(f"a launcher has started {count} processes ({variable}={count})")
    return Instances()


def refuse(reason: str) -> None:
    """Says that a program has one process.

    Args:
        reason: why there would be more.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        f"tensorflow_ipu trains in one process, but {reason}. Start the program without a "
        "launcher; one process can train on all 16 IPUs of the machine: set "
        "IPUConfig.auto_select_ipus to the number of replicas times the IPUs of each."
    )
