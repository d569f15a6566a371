"""`ipu.keras.PipelineStage`: the scope that assigns layers to a stage, and its patches of Keras."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Iterable, Iterator
from typing import Any

from tensorflow_ipu.compiler import current_scope
from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers.patching import Patch, Patches
from tensorflow_ipu.util.short_repr import shows

# --- Patches of Keras ---

# Keras tells nobody that a layer is made or called. So while a `PipelineStage` is open
#
# * `Layer.__new__` marks layers with the stage they are made in: those of Sequential models and of
#   subclasses of `Model`;
# * `Node.__init__` marks the calls of layers on symbolic tensors: those of functional models.
#
# When the last open stage is closed, Keras is as it was. Threads other than the one with the open
# stage make and call layers without a mark.

base_layer = keras2.module("engine.base_layer")
node_lib = keras2.module("engine.node")
_STAGE = "_ipu_pipeline_stage"
_current: contextvars.ContextVar[int | None] = contextvars.ContextVar("stage", default=None)
# Stages opened since `recorded` began, where somebody wants to know.
_opened: contextvars.ContextVar[list[int] | None] = contextvars.ContextVar("opened", default=None)


def current() -> int | None:
    """Returns the stage that is open, or None."""
    return _current.get()


def stage_of(made: Any) -> int | None:
    """Returns the stage in which something was made.

    Args:
        made: a layer, or the node of a call.
    """
    stage: int | None = vars(made).get(_STAGE)
    return stage


@contextlib.contextmanager
def opened(stage: int) -> Iterator[None]:
    """Marks the layers and calls that are made inside with a stage.

    Args:
        stage: number of the stage.

    Yields:
        Nothing.
    """
    stages = _opened.get()
    if stages is not None:
        stages.append(stage)
    with _marking:
        token = _current.set(stage)
        try:
            yield
        finally:
            _current.reset(token)


@contextlib.contextmanager
def recorded() -> Iterator[list[int]]:
    """Records which stages are opened inside.

    Yields:
        Their numbers: a list that grows.
    """
    stages: list[int] = []
    token = _opened.set(stages)
    try:
        yield stages
    finally:
        _opened.reset(token)


def _patches() -> Iterable[Patch]:
    layer, node = base_layer.Layer, node_lib.Node
    yield layer, "__new__", staticmethod(_marking_new(layer.__new__))
    yield node, "__init__", _marking_init(node.__init__)


_marking = Patches(_patches)


def _marking_new(original: Any) -> Any:
    """Returns the `__new__` of layers."""

    @functools.wraps(original)
    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        layer = original(cls, *args, **kwargs)
        _mark(layer)
        return layer

    return new


def _marking_init(original: Any) -> Any:
    """Returns the `__init__` of nodes."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _mark(self)

    return init


def _mark(made: Any) -> None:
    stage = _current.get()
    if stage is not None:
        # Not an attribute as Keras knows them: it is not part of the layer.
        vars(made)[_STAGE] = stage


# --- Scope ---


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
        if current_scope.current() is None:
            raise RuntimeError(
                "PipelineStage may only be used from within an IPUStrategy context. Make and call "
                "the layers of a pipelined model inside `with strategy.scope():`."
            )
        if current() is not None:
            raise RuntimeError(
                "Pipeline stages must not be nested. Received: PipelineStage"
                f"({self._stage}) inside of PipelineStage({current()}). Close the outer one "
                "first."
            )
        self._open.enter_context(opened(self._stage))
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.close()


def check_stage(stage: Any) -> None:
    """Checks the number of a stage.

    Args:
        stage: the user's argument.

    Raises:
        ValueError: If it is no integer, or negative.
    """
    if isinstance(stage, bool) or not isinstance(stage, int) or stage < 0:
        raise ValueError(
            f"The number of a pipeline stage must be an integer >= 0. Received: {stage!r}"
        )
