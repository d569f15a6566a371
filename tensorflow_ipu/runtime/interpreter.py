"""The engine's connection with Python: signal handlers and the end of the interpreter."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tensorflow.python.framework import errors

from tensorflow_ipu.runtime import system

_Result = TypeVar("_Result")

# The functions that the engine gets, in the order of native/engine/interpreter.h.
_FUNCTIONS = (
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyGILState_GetThisThreadState",
    "PyErr_CheckSignals",
    "PyErr_Fetch",
    "PyErr_Restore",
    "PyErr_Clear",
)
_Policy = ctypes.CFUNCTYPE(ctypes.c_bool)

# How long the end of the interpreter waits for programs that are being traced or compiled, and for
# launches that it has stopped. Each replica ends with the op that it is at.
_END_SECONDS = 30


def _main_thread() -> int | None:
    """Returns the number of the main thread: in a fork, of the thread that has forked."""
    return threading.main_thread().ident


class _Tracing:
    """Context: code inside traces programs, with frequent calls of TensorFlow.

    A thread that is in TensorFlow when the interpreter ends would be ended in the middle of C++
    that cannot be left in this way. So the end waits for the threads that trace, and those that
    begin later wait for ever. The main thread is where the end comes from.
    """

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._threads: dict[int, int] = {}  # how deep each thread is in such code
        self._ended = False

    def __enter__(self) -> None:
        thread = threading.get_ident()
        if thread == _main_thread():
            return
        with self._change:
            if not self._ended or thread in self._threads:
                self._threads[thread] = self._threads.get(thread, 0) + 1
                return
        threading.Event().wait()

    def __exit__(self, *_: object) -> None:
        thread = threading.get_ident()
        if thread == _main_thread():
            return
        with self._change:
            self._threads[thread] -= 1
            if not self._threads[thread]:
                del self._threads[thread]
                self._change.notify_all()

    def end(self, seconds: float) -> None:
        """Lets no thread begin, and waits for threads that have begun.

        Args:
            seconds: limit of the wait.
        """
        with self._change:
            self._ended = True
            self._change.wait_for(lambda: not self._threads, seconds)


class _State:
    """State of the connection with the engine."""

    library: ctypes.CDLL | None = None
    # The same library. Its functions are called with the interpreter's lock, and may raise.
    raising: ctypes.PyDLL | None = None
    # Objects that have to live as long as the engine.
    policy: Any = None
    # Exception of a signal handler that ran in Python code called by the engine.
    raised: BaseException | None = None
    # Variables of the library: whether the main thread is in a call of TensorFlow, and whether the
    # signal of Ctrl-C came then.
    waits = ctypes.c_int()
    kept = ctypes.c_int()


#: Held by threads while they trace programs.
TRACING = _Tracing()


def connect(library: ctypes.CDLL, path: Path) -> None:
    """Connects the engine with this interpreter.

    Ops that wait then run the program's handlers of signals, as Python itself does where it waits,
    and no program runs any more when the interpreter has come to its end.

    Args:
        library: the native library.
        path: where it is.
    """
    _State.library = library
    _State.raising = ctypes.PyDLL(str(path))
    _State.policy = _Policy(_ctrl_c_raises)
    _State.waits = ctypes.c_int.in_dll(library, "tfipu_main_thread_waits")
    _State.kept = ctypes.c_int.in_dll(library, "tfipu_interrupt_kept")
    functions = (ctypes.c_void_p * len(_FUNCTIONS))()
    for index, name in enumerate(_FUNCTIONS):
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p)
        functions[index] = address.value
    main = threading.main_thread()
    # In a fork, `native_id` is still that of the thread of the other process.
    number = threading.get_native_id() if threading.current_thread() is main else main.native_id
    library.tfipu_connect(functions, number, _State.policy)
    atexit.register(_end)


def _after_fork_in_child() -> None:
    """Tells the engine its main thread, which has another number in a fork."""
    if _State.library is not None:
        _State.library.tfipu_fork(system.is_fork())


# After the function of `system`, whose answer it needs.
os.register_at_fork(after_in_child=_after_fork_in_child)


def call(op: Callable[..., _Result], *args: Any, **kwargs: Any) -> _Result:
    """Runs an op that may wait.

    Args:
        op: a function of the native library.
        *args: its arguments.
        **kwargs: its keyword arguments.

    Returns:
        The result of the op.

    Raises:
        BaseException: The exception of a signal handler, such as KeyboardInterrupt. The op was
            cancelled then.
        tf.errors.OpError: If the op fails.
    """
    try:
        return op(*args, **kwargs)
    except errors.OpError:
        _raise_interrupt()
        raise


def stopped_by_ctrl_c(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Makes Ctrl-C stop the launches that a function of TensorFlow waits for.

    The main thread cannot handle the signal while it is in TensorFlow, and TensorFlow does not
    expect an exception while it makes one of the error of a launch. So the signal is handled when
    the call has ended. It stops launches unless the program handles it in its own way.

    Args:
        function: calls TensorFlow, which may run launches: a session, say.

    Returns:
        A function like it.
    """

    @functools.wraps(function)
    def call_and_handle(*args: Any, **kwargs: Any) -> _Result:
        if threading.get_ident() != _main_thread():
            return function(*args, **kwargs)
        outer, _State.waits.value = _State.waits.value, 1
        try:
            return function(*args, **kwargs)
        finally:
            _State.waits.value = outer
            if _State.kept.value and not outer:
                _handle_ctrl_c()

    return call_and_handle


def _handle_ctrl_c() -> None:
    """Runs Python's handler of Ctrl-C for a signal that was kept during a call."""
    _State.kept.value = 0
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        return
    try:
        handler(signal.SIGINT, sys._getframe(2))
    except BaseException as error:
        # That the step was cancelled says nothing more.
        raise error from None


def interrupted(error: BaseException) -> None:
    """Keeps the exception of a signal handler that ran while the engine called Python.

    It is raised by `call`, after the engine has cancelled the op.

    Args:
        error: the exception.
    """
    _State.raised = error


def stop_launches(thread: threading.Thread) -> None:
    """Cancels the launches of a thread, which gets a `tf.errors.CancelledError`.

    Args:
        thread: a thread that runs programs, not in a session or a `tf.function`.
    """
    if _State.library is not None and thread.native_id is not None:
        _State.library.tfipu_stop_launches(thread.native_id)


def _raise_interrupt() -> None:
    """Raises the exception of a signal handler that ran while an op was waiting, if any."""
    raised, _State.raised = _State.raised, None
    if _State.raising is not None:
        try:
            _State.raising.tfipu_raise_interrupt()
        except BaseException as error:
            raised = error
    if raised is not None:
        # That the op was cancelled says nothing more.
        raise raised from None


def _ctrl_c_raises() -> bool:
    """Returns whether Ctrl-C raises KeyboardInterrupt, as other handlers may continue."""
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _end() -> None:
    """Ends all threads that may enter the interpreter, before it ends."""
    if _State.library is not None and not system.is_fork():
        TRACING.end(_END_SECONDS)
        _State.library.tfipu_shut_down(_END_SECONDS * 1_000_000)
