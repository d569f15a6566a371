"""Forked processes, which cannot use IPUs: they have none of the engine's threads."""

from __future__ import annotations

import os
import sys

from tensorflow_ipu.util import errors


class _Process:
    """State of this process."""

    uses_ipus = False
    is_fork = False


def use() -> None:
    """Records that this process uses IPUs; called before any use.

    Raises:
        tf.errors.FailedPreconditionError: it is a fork of a process that used them, or that used
            TensorFlow.
    """
    if _Process.is_fork:
        raise errors.failed_precondition(
            "This process cannot use IPUs: it was forked from one that was using them or "
            "TensorFlow, whose threads do not survive a fork. Start it with "
            "multiprocessing.get_context('spawn'), or fork before IPUs are configured and before "
            "TensorFlow has computed anything."
        )
    _Process.uses_ipus = True


def is_fork() -> bool:
    """Returns whether this process is a fork of a process that used IPUs."""
    return _Process.is_fork


def _after_fork_in_child() -> None:
    """Records in a fork whether its parent used IPUs."""
    _Process.is_fork |= _Process.uses_ipus or _tensorflow_has_begun()


def _tensorflow_has_begun() -> bool:
    """Returns whether TensorFlow has started the threads of eager mode."""
    module = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "_context", None)
    return bool(getattr(context, "_initialized", False))


os.register_at_fork(after_in_child=_after_fork_in_child)
