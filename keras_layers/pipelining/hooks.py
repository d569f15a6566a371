"""Patches of Keras that note the open pipeline stage on what is made in it.

Keras tells nobody that a layer is made or called. So while a `PipelineStage` is open

* `Layer.__new__` marks layers with the stage they are made in: those of Sequential models and of
  subclasses of `Model`;
* `Node.__init__` marks the calls of layers on symbolic tensors: those of functional models.

When the last open stage is closed, Keras is as it was. Threads other than the one with the open
stage make and call layers without a mark.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Iterable, Iterator
from typing import Any

from tensorflow_ipu.keras_layers.patching import Patch, Patches
from tensorflow_ipu.versions import keras2

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
