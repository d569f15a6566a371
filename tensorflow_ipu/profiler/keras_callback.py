"""The Keras callback that reports on the programs of a training."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.session import profile
from tensorflow_ipu.util.short_repr import shows

MODELLED_TIME = "modelled_seconds"


class Callback(tf.keras.callbacks.Callback):
    """Callback that reports each program that a training compiles or launches, at its end.

    Args:
        directory: where each program gets a directory with its report; None writes no files.
        tensorboard: log directory of TensorBoard to write to; None writes none.
        modelled_time: whether the logs of each epoch have `modelled_seconds`, how long the chip
            would take for the launches of the epoch.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        tensorboard: str | os.PathLike[str] | None = None,
        modelled_time: bool = False,
    ) -> None:
        super().__init__()
        self._make = lambda: profile(directory, tensorboard)
        self._modelled_time = modelled_time
        self._training: profile | None = None
        self._epoch: profile | None = None

    __repr__ = shows(lambda self: {"modelled_time": self._modelled_time, "profile": self._training})

    @property
    def reports(self) -> tuple[Report, ...]:
        """A report of each program, once the training has ended."""
        return () if self._training is None else self._training.reports

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Starts tracking programs."""
        self._training = self._make()
        self._training.__enter__()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Makes and writes the reports."""
        if self._training is not None:
            self._training.__exit__(None, None, None)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Starts tracking the epoch."""
        if self._modelled_time:
            self._epoch = profile()
            self._epoch.__enter__()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Adds the modelled time to the logs, which callbacks that come later see."""
        if self._epoch is not None:
            self._epoch.__exit__(None, None, None)
            if logs is not None:
                logs[MODELLED_TIME] = self._epoch.modelled_seconds()
            self._epoch = None
