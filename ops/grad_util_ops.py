"""Gradients in the middle of a model: the public module `ipu.grad_util_ops`.

with grad_util_ops.GradientCaptureContext() as context:
with tf.GradientTape() as tape:
hidden = grad_util_ops.capture_upstream_gradients(layer(x), tag="hidden")
loss = head(hidden)
gradients = tape.gradient(loss, weights)
context.captured_gradients["hidden"]  # the derivative of the loss by `hidden`
"""

from __future__ import annotations

import contextvars
import types
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tensorflow_ipu.configs.short_repr import shows


class GradientCaptureContext:
    """Collects what `capture_upstream_gradients` records.

    Contexts nest; gradients go to the innermost one that is open where they are computed, else to
    the one that was open where they were to be captured. The tensors belong to the graph in which
    they were computed: use them there, in the same loop body.
    """

    def __init__(self) -> None:
        """Makes a context that has captured nothing yet."""
        self._captured: dict[str, Any] = {}
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
        """Closes the context; what it has captured stays."""
        _current.reset(self._tokens.pop())

    @property
    def captured_gradients(self) -> dict[str, Any]:
        """The gradients by tag, in the order in which they were computed.

        Further ones with the same tag are called `<tag>_1`, `<tag>_2` and so on.
        """
        return dict(self._captured)

    def add_gradients(self, gradients: Any, tag: str) -> None:
        """Records gradients.

        Args:
            gradients: A tensor or a structure of tensors.
            tag: What to call them.
        """
        name, number = tag, 0
        while name in self._captured:
            number += 1
            name = f"{tag}_{number}"
        self._captured[name] = gradients

    def replace_gradients(self, captured: Mapping[str, Any]) -> None:
        """Records gradients by tag, in the place of those that have these tags already.

        Args:
            captured: Gradients by tag.
        """
        self._captured.update(captured)


_current: contextvars.ContextVar[GradientCaptureContext | None] = contextvars.ContextVar(
    "ipu_gradient_capture_context", default=None
)


def current() -> GradientCaptureContext | None:
    """Returns the innermost context that is open, None if there is none."""
    return _current.get()


def capture_upstream_gradients(args: Any, tag: str = "") -> Any:
    """Returns its argument, and records the gradients that come back through it.

    They are recorded in a `GradientCaptureContext`; without one nothing is recorded.

    Args:
        args: A tensor or a structure of tensors.
        tag: What the gradients are called in the context.

    Returns:
        A structure like `args`, to be used in place of it.

    Raises:
        TypeError: If `tag` is not a string.
    """
    if not isinstance(tag, str):
        raise TypeError(f"The tag of captured gradients must be a string. Received: tag={tag!r}")
    opened = _current.get()

    @tf.custom_gradient
    def captured(*tensors: tf.Tensor) -> tuple[list[tf.Tensor], Any]:
        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor]:
            gradients = [tf.convert_to_tensor(value) for value in upstream]
            context = _current.get() or opened
            if context is not None:
                context.add_gradients(tf.nest.pack_sequence_as(args, gradients), tag)
            return gradients

        return [tf.identity(tensor) for tensor in tensors], gradient

    flat = [tf.convert_to_tensor(value) for value in tf.nest.flatten(args)]
    if not flat:
        return args
    return tf.nest.pack_sequence_as(args, tf.nest.flatten(captured(*flat)))
