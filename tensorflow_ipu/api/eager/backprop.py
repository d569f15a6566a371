"""Gradient tapes that capture gradients: the public module `ipu.eager.backprop`.

with backprop.GradientCaptureTape() as tape:
    hidden = ipu.grad_util_ops.capture_upstream_gradients(layer(x), tag="hidden")
    loss = head(hidden)
gradients = tape.gradient(loss, weights)
tape.captured_gradients["hidden"]  # [the derivative of the loss by `hidden`]
"""

from __future__ import annotations

import contextvars
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

from tensorflow_ipu.util.short_repr import shows

__all__ = ["GradientCaptureContext", "GradientCaptureTape"]

Captured = dict[str, list[Any]]


class GradientCaptureContext:
    """Context that collects the gradients of `grad_util_ops.capture_upstream_gradients`.

    Contexts nest. Gradients go to the innermost context that is open where they are computed, else
    to the one that was open at the call of `capture_upstream_gradients`. The tensors belong to the
    graph in which they were computed: use them there, in the same loop body. Gradients captured in
    an outlined function belong to the graph that calls the function.
    """

    def __init__(self) -> None:
        """Creates a context without captured gradients."""
        self._captured: Captured = {}
        self._tokens: list[contextvars.Token[GradientCaptureContext | None]] = []

    __repr__ = shows(lambda self: {"captured": list(self._captured)})

    def __enter__(self) -> GradientCaptureContext:
        """Opens the context."""
        self._tokens.append(_current.set(self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        """Closes the context; captured gradients remain."""
        _current.reset(self._tokens.pop())

    @property
    def captured_gradients(self) -> Captured:
        """The gradients by tag, in the order in which they were computed.

        Each is a list of tensors: one for each tensor of the structure that is captured.
        """
        return {tag: list(gradients) for tag, gradients in self._captured.items()}

    @captured_gradients.setter
    def captured_gradients(self, value: Any) -> None:
        raise ValueError(
            "captured_gradients is read only. Change a copy: dict(context.captured_gradients). "
            f"Received: {value!r}"
        )

    def add_gradients(self, gradients: Sequence[Any], tag: str) -> None:
        """Records gradients.

        Gradients captured by a trace of a function replace the earlier trace's.

        Args:
            gradients: tensors.
            tag: their tag.

        Raises:
            ValueError: If there are gradients with this tag.
        """
        if tag in self._captured and not _of_other_traces(self._captured[tag], gradients):
            raise ValueError(
                f"Gradient exists in the captured grads frame under the tag '{tag}'. Each "
                "capture_upstream_gradients needs a tag of its own, and each call of "
                "tape.gradient a context of its own."
            )
        self._captured[tag] = list(gradients)

    def replace_gradients(self, captured: Mapping[str, Sequence[Any]]) -> None:
        """Records gradients by tag, replacing earlier ones of the same tags.

        Args:
            captured: lists of gradients by tag.
        """
        self._captured.update({tag: list(found) for tag, found in captured.items()})


class GradientCaptureTape(GradientCaptureContext, tf.GradientTape):
    """A `tf.GradientTape` that is also a `GradientCaptureContext`.

    Entering it opens both. `captured_gradients` has the gradients that pass captures while the tape
    computes gradients, in its scope or after it.
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        """Creates a tape without records.

        Args:
            persistent: whether `gradient` can be called more than once.
            watch_accessed_variables: whether trainable variables are watched when they are read.
        """
        GradientCaptureContext.__init__(self)
        tf.GradientTape.__init__(self, persistent, watch_accessed_variables)

    __repr__ = shows(
        lambda self: {"persistent": self._persistent, "captured": list(self._captured)}
    )

    def __enter__(self) -> GradientCaptureTape:
        """Starts to record, and opens the context."""
        tf.GradientTape.__enter__(self)
        GradientCaptureContext.__enter__(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        """Closes the context, and stops recording."""
        GradientCaptureContext.__exit__(self, kind, error, trace)
        tf.GradientTape.__exit__(self, kind, error, trace)


_current: contextvars.ContextVar[GradientCaptureContext | None] = contextvars.ContextVar(
    "ipu_gradient_capture_context", default=None
)


def current() -> GradientCaptureContext | None:
    """Returns the innermost context that is open, None if there is none."""
    return _current.get()


def _of_other_traces(old: Sequence[Any], new: Sequence[Any]) -> bool:
    """Returns whether gradients belong to graphs that are not nested in each other."""
    if not (old and new and ops.is_symbolic_tensor(old[0]) and ops.is_symbolic_tensor(new[0])):
        return False
    first, second = old[0].graph, new[0].graph
    return first not in _enclosing(second) and second not in _enclosing(first)


def _enclosing(graph: Any) -> Iterator[Any]:
    """Yields a graph and the graphs around it."""
    while graph is not None:
        yield graph
        graph = getattr(graph, "outer_graph", None)
