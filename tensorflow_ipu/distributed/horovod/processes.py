"""`init`, `size`, `rank` and other functions of `ipu.horovod` about the processes."""

from __future__ import annotations

from typing import Any

from tensorflow_ipu.distributed import instances as _instances
from tensorflow_ipu.distributed import joining

__all__ = [
    "ccl_built",
    "cross_rank",
    "cross_size",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "shutdown",
    "size",
]

# Of this process, from `init` to `shutdown`.
_found: _instances.Instances | None = None


def init(comm: Any = None) -> None:
    """Connects the processes with each other. Further calls do nothing.

    Args:
        comm: ranks of the processes that take part; all if None.

    Raises:
        ValueError: If `comm` has other ranks than there are.
        RuntimeError: If the other processes cannot be joined: TensorFlow has begun to run
            operations, or the address of this one is taken.
    """
    global _found
    instances = _instances.of_mpi()
    if isinstance(comm, (list, tuple)) and not set(comm) <= set(range(instances.count)):
        raise ValueError(
            f"comm must be ranks from 0 to {instances.count - 1}, or None. Received: comm={comm!r}"
        )
    _found = joining.join(instances)


def shutdown() -> None:
    """Ends the connection that `init` made."""
    global _found
    _found = None


def is_initialized() -> bool:
    """Returns whether `init` has been called."""
    return _found is not None


def initialized() -> _instances.Instances:
    """Returns the processes.

    Raises:
        ValueError: If `init` has not been called.
    """
    if _found is None:
        raise ValueError(
            "Horovod has not been initialized; use hvd.init(). Call it once, before the first "
            "question about processes."
        )
    return _found


def size() -> int:
    """Returns the number of processes.

    Raises:
        ValueError: If `init` has not been called.
    """
    return initialized().count


def rank() -> int:
    """Returns the index of this process, from 0.

    Raises:
        ValueError: If `init` has not been called.
    """
    return initialized().index


def local_size() -> int:
    """Returns the number of processes on this host.

    Raises:
        ValueError: If `init` has not been called.
    """
    found = initialized()
    return found.count if found.local_count is None else found.local_count


def local_rank() -> int:
    """Returns the index of this process among the processes of its host, from 0.

    Raises:
        ValueError: If `init` has not been called.
    """
    found = initialized()
    return found.index if found.local_index is None else found.local_index


def cross_size() -> int:
    """Returns the number of hosts.

    Raises:
        ValueError: If `init` has not been called.
    """
    return -(-size() // local_size())


def cross_rank() -> int:
    """Returns the index of this host, from 0.

    Raises:
        ValueError: If `init` has not been called.
    """
    return rank() // local_size()


def is_homogeneous() -> bool:
    """Returns whether all hosts have the same number of processes.

    Raises:
        ValueError: If `init` has not been called.
    """
    initialized()
    return True


def mpi_threads_supported() -> bool:
    """Returns whether MPI may be used from several threads: there is none.

    Raises:
        ValueError: If `init` has not been called.
    """
    initialized()
    return False


def mpi_enabled() -> bool:
    """Returns whether processes are connected by MPI: no."""
    return False


def mpi_built() -> bool:
    """Returns whether processes could be connected by MPI: no."""
    return False


def gloo_enabled() -> bool:
    """Returns whether processes are connected by Gloo: no."""
    return False


def gloo_built() -> bool:
    """Returns whether processes could be connected by Gloo: no."""
    return False


def nccl_built() -> bool:
    """Returns whether processes could be connected by NCCL: no."""
    return False


def ddl_built() -> bool:
    """Returns whether processes could be connected by DDL: no."""
    return False


def ccl_built() -> bool:
    """Returns whether processes could be connected by oneCCL: no."""
    return False
