"""`ipu.keras.PipelineStage`: the scope that assigns layers to a pipeline stage."""

from __future__ import annotations

import contextlib
from typing import Any

from tensorflow_ipu.compiler import strategy_scope
from tensorflow_ipu.keras_layers.pipelining import hooks
from tensorflow_ipu.util.short_repr import shows


class PipelineStage:
    """A scope for the layers of one stage.

    A functional model takes the stage from the scope in which a layer is called. Sequential models
    and subclasses of `Model` take it from the scope in which the layer is made, unless a subclass
    calls it in another one.
    """

    def __init__(self, stage: int) -> None:
        """Makes the scope of a stage.

        Args:
            stage: number of the stage, from 0.

        Raises:
            ValueError: If it is no integer, or negative.
        """
        check_stage(stage)
        self._stage = stage
        self._open = contextlib.ExitStack()

    __repr__ = shows(lambda self: {"": self._stage})

    def __enter__(self) -> PipelineStage:
        if strategy_scope.current() is None:
            raise RuntimeError(
                "PipelineStage may only be used from within an IPUStrategy context. Make and call "
                "the layers of a pipelined model inside `with strategy.scope():`."
            )
        if hooks.current() is not None:
            raise RuntimeError(
                "Pipeline stages must not be nested. Received: PipelineStage"
                f"({self._stage}) inside of PipelineStage({hooks.current()}). Close the outer one "
                "first."
            )
        self._open.enter_context(hooks.opened(self._stage))
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.close()


def check_stage(stage: Any) -> None:
    """Checks the number of a stage.

    Args:
        stage: what a user passed.

    Raises:
        ValueError: If it is no integer, or negative.
    """
    if isinstance(stage, bool) or not isinstance(stage, int) or stage < 0:
        raise ValueError(
            f"The number of a pipeline stage must be an integer >= 0. Received: {stage!r}"
        )
