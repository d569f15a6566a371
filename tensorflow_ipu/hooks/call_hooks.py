"""Patches of sessions and functions: Ctrl-C ends their calls, and forks launch nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tensorflow.python.client import session
from tensorflow.python.eager import context

from tensorflow_ipu.compiler import cluster
from tensorflow_ipu.compiler.ir import program
from tensorflow_ipu.device import process
from tensorflow_ipu.runtime import interpreter


def install() -> None:
    """Wraps the calls of sessions and functions; see `tensorflow_hooks`.

    Ctrl-C ends them when they wait for a launch, and a launch in a fork is an error.

    With TensorFlow alone both would hang: a program goes on where the main thread waits for
    TensorFlow, and a fork has no threads of the engine. Without a launch, Ctrl-C comes at the end
    of the call, as in TensorFlow, and forks may call.
    """
    for owner, name, launches in (
        (session.BaseSession, "_call_tf_sessionrun", _session_launches),
        (session.BaseSession, "_call_tf_sessionprun", _session_launches),
        (context.Context, "call_function", _function_launches),
    ):
        call = _refused_in_forks(getattr(owner, name), launches)
        setattr(owner, name, interpreter.stopped_by_ctrl_c(call))


def _refused_in_forks(
    call: Callable[..., Any], launches: Callable[..., bool]
) -> Callable[..., Any]:
    """Makes a call raise in a process that cannot use IPUs, if it would launch a program."""

    @functools.wraps(call)
    def call_unless_forked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if process.is_fork() and launches(self, *args):
            process.use()
        return call(self, *args, **kwargs)

    return call_unless_forked


def _session_launches(session: session.BaseSession, *_: Any) -> bool:
    return cluster.launches(session.graph)


def _function_launches(of_context: context.Context, name: bytes, *_: Any) -> bool:
    """Returns whether a function or a callee launches a program."""
    found = [name.decode()]
    for function in found:  # grows meanwhile
        if of_context.has_function(function):
            for node in of_context.get_function_def(function).node_def:
                if node.op == "IpuLaunch":
                    return True
                called = [node.op, *program.called_functions(node)]
                found.extend(one for one in called if one not in found)
    return False
