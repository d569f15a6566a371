"""Hooks that log tensors from inside programs: the public module `ipu.ipu_session_run_hooks`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.compiler import current_scope
from tensorflow_ipu.feeds import common
from tensorflow_ipu.feeds.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from tensorflow_ipu.util.short_repr import shows

__all__ = ["IPULoggingTensorHook"]

tf1 = tf.compat.v1


class IPULoggingTensorHook(tf.compat.v1.train.SessionRunHook):
    """A hook that logs tensors of a program every N runs or seconds, or at the end of the session.

    Call `log` in the program, and give the hook to the session. Values go through an outfeed to
    the host, which writes a line of them with severity INFO: `name = value, name = value`, followed
    by the seconds since the line before. With several replicas values have a leading dimension for
    them.
    """

    LoggingMode = IPUOutfeedMode

    def __init__(
        self,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
        logging_mode: IPUOutfeedMode = IPUOutfeedMode.LAST,
        feed_name: str | None = None,
        replication_factor: int | None = None,
    ) -> None:
        """Makes a hook.

        Args:
            every_n_iter: logs at the first run of the session, and then at every so many.
            every_n_secs: logs at the first run, and then when so many seconds have passed. Give
                this or `every_n_iter`; none of both is needed with `at_end`.
            at_end: whether to log when the session ends.
            formatter: takes a dict of arrays by name, and returns the line to log.
            logging_mode: `LAST` for the last value of each tensor, `ALL` for all since the line
                before, in a leading dimension.
            feed_name: deprecated; names are generated.
            replication_factor: deprecated; it follows from the program.

        Raises:
            ValueError: If not exactly one interval is given, or one is out of range.
        """
        _check_intervals(every_n_iter, every_n_secs, at_end)
        if not isinstance(logging_mode, IPUOutfeedMode):
            raise ValueError(
                "logging_mode must be IPULoggingTensorHook.LoggingMode.LAST or .ALL. "
                f"Received: {logging_mode!r}"
            )
        common.warn_ignored(
            "IPULoggingTensorHook",
            {"feed_name": (feed_name, None), "replication_factor": (replication_factor, None)},
            "It is set automatically.",
        )
        self._timer = None
        if every_n_iter is not None or every_n_secs is not None:
            self._timer = tf1.train.SecondOrStepTimer(every_n_secs, every_n_iter)
        self._at_end = at_end
        self._formatter = formatter
        self._mode = logging_mode
        self._outfeed: IPUOutfeedQueue | None = None
        self._graph: tf.Graph | None = None
        self._dequeue: Any = None
        self._deleter: Any = None
        self._newest: dict[str, Any] | None = None  # in mode LAST
        self._runs = 0

    __repr__ = shows(
        lambda self: {"mode": self._mode, "at_end": self._at_end, "outfeed": self._outfeed}
    )

    def log(self, tensors: Any) -> tf.Operation:
        """Sends tensors to the log, from the program being built.

        Args:
            tensors: a tensor, a list or tuple of tensors, which are called by their names, or a
                dict from name to tensor.

        Returns:
            An operation that must be executed: use it as a control dependency, or group it with
            the training operation.

        Raises:
            RuntimeError: If this is not the first call in this graph.
            TypeError: If there is something else than a tensor.
            ValueError: If there are no tensors.
        """
        if self._outfeed is not None and self._outfeed.enqueued:
            raise RuntimeError(
                "Cannot use this hook object's log function more than once. Log a list or dict of "
                "all tensors, or make another IPULoggingTensorHook for each model that is built."
            )
        named = _by_name(tensors)
        outfeed = IPUOutfeedQueue(outfeed_mode=self._mode, device_ordinal=_ordinal_in_scope())
        operation = outfeed.enqueue(named)
        self._outfeed = outfeed
        return operation

    def begin(self) -> None:
        """Prepares the graph of the session, and starts counting.

        Raises:
            RuntimeError: If `log` was not called in this graph.
        """
        if self._outfeed is None or not self._outfeed.enqueued:
            raise RuntimeError(
                "This hook has nothing to log. Did you forget to call the log function? Call "
                "hook.log(tensors) in the model, and run the operation that it returns."
            )
        if self._timer is not None:
            self._timer.reset()
        self._newest = None
        self._runs = 0
        graph = tf1.get_default_graph()
        if self._graph is not graph:
            self._graph = graph
            self._dequeue = self._outfeed.dequeue()
            self._deleter = self._outfeed.deleter

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Logs if it is time.

        Args:
            run_context: has the session.
            run_values: unused.
        """
        del run_values
        if self._timer is not None and self._timer.should_trigger_for_step(self._runs):
            self._log(run_context.session)
        self._runs += 1

    def end(self, session: tf.compat.v1.Session) -> None:
        """Logs if asked to at the end, and frees the feed.

        Args:
            session: the session.
        """
        if self._at_end:
            self._log(session, or_again=True)
        # It is in use if the device is busy with another session. Then it stays until the device
        # is reset.
        with contextlib.suppress(tf.errors.FailedPreconditionError):
            session.run(self._deleter)

    def _log(self, session: tf.compat.v1.Session, or_again: bool = False) -> None:
        """Logs the values that have arrived since the last time.

        Args:
            session: the session.
            or_again: whether to log the last values once more if there are no newer ones.
        """
        values = self._take(session)
        if values is None and or_again:
            values = self._newest
        if values is None:
            return
        seconds = None
        if self._timer is not None:
            seconds, _ = self._timer.update_last_triggered_step(self._runs)
        if self._formatter is not None:
            tf1.logging.info("%s", self._formatter(values))
            return
        with np.printoptions(suppress=True):
            line = ", ".join(f"{name} = {value}" for name, value in values.items())
        tf1.logging.info("%s", line if seconds is None else f"{line} ({seconds:.3f} sec)")

    def _take(self, session: tf.compat.v1.Session) -> dict[str, Any] | None:
        """Returns the values by name, or None if there are none since they were taken last."""
        if self._mode is IPUOutfeedMode.ALL:
            values: dict[str, Any] = session.run(self._dequeue)
            return values if all(map(len, values.values())) else None
        try:
            self._newest = session.run(self._dequeue)
        except tf.errors.FailedPreconditionError:
            return None
        return self._newest


def _check_intervals(every_n_iter: Any, every_n_secs: Any, at_end: bool) -> None:
    """Checks when to log.

    Raises:
        ValueError: If there are both intervals or nothing at all, or one is out of range.
    """
    received = f"Received: every_n_iter={every_n_iter}, every_n_secs={every_n_secs}"
    both = every_n_iter is not None and every_n_secs is not None
    neither = every_n_iter is None and every_n_secs is None
    if both:
        raise ValueError(
            f"Cannot provide both every_n_iter and every_n_secs. Leave one of them out. {received}"
        )
    if neither and not at_end:
        raise ValueError(
            "Either every_n_iter, every_n_secs or at_end should be provided, or the hook never "
            f"logs. {received}, at_end={at_end}"
        )
    if every_n_iter is not None and every_n_iter <= 0:
        raise ValueError(f"every_n_iter must be at least 1. {received}")
    if every_n_secs is not None and every_n_secs < 0:
        raise ValueError(f"every_n_secs must not be negative. {received}")


def _by_name(tensors: Any) -> dict[str, Any]:
    """Returns tensors by name, in the order in which they are logged.

    Raises:
        TypeError: If there is something else, other than as a value of a dict.
        ValueError: If there are no tensors.
    """
    if isinstance(tensors, dict):
        named = dict(tensors)
    else:
        values = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        for value in values:
            if not tf.is_tensor(value):
                raise TypeError(
                    f"Expected `tf.Tensor`, got {type(value)}. Log a tensor, a list or tuple of "
                    f"tensors, or a dict from name to tensor. Received: {value!r}"
                )
        named = {value.name: value for value in values}
    if not named:
        raise ValueError(f"There are no tensors to log. Received: tensors={tensors!r}")
    return named


def _ordinal_in_scope() -> int | None:
    """Returns the ordinal of the device that the program being built is for, if that is known."""
    device = current_scope.current_device()
    return current_scope.ordinal(device) if current_scope.is_ipu(device) else None
