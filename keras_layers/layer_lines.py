"""The user's lines that make and call layers, noted so that ops point there.

Keras itself calls the layers of functional and Sequential models, when `fit` is traced: the only
line of the user on the stack is that of `fit`. So in the scope of an `IPUStrategy`

* `Layer.__new__` notes the line that makes a layer;
* `Node.__init__` notes the line that calls one on a symbolic tensor: in functional models;
* `Node.map_arguments`, with which Keras begins to call a layer for such a node, says which it is;
* `Layer.__call__` puts that line on the stack. TensorFlow lets the frames of generated code stand
  for others, and so does it here with one of this module. What the layer makes then has the line
  for its listing, for reports and for TensorFlow's own errors.

Where a subclass of `Model` calls its layers, their line is on the stack anyway. What else a step of
a model is made of, its loss, metrics and optimizer, has the line of `compile`.
"""

from __future__ import annotations

import dis
import functools
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.util import tf_stack

from tensorflow_ipu.compiler import source_map
from tensorflow_ipu.compiler.source_map import SourceLocation
from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers.patching import Patch

base_layer = keras2.module("engine.base_layer")
base_layer_utils = keras2.module("engine.base_layer_utils")
node_lib = keras2.module("engine.node")

_LINE = "_ipu_line"
_COMPILED = "_ipu_line_of_compile"


class _Expected(threading.local):
    """The layer that Keras calls next in a thread, and the line that this stands for."""

    layer: Any = None
    line: SourceLocation | None = None


_expected = _Expected()


def patches() -> Iterable[Patch]:
    """Yields the patches of Keras that note lines."""
    layer, node = base_layer.Layer, node_lib.Node
    yield layer, "__new__", staticmethod(_noting_new(layer.__new__))
    yield layer, "__call__", _showing_call(layer.__call__)
    yield node, "__init__", _noting_init(node.__init__)
    yield node, "map_arguments", _expecting(node.map_arguments)


def line_of(made: Any) -> SourceLocation | None:
    """Returns the line in which a layer was made, or a node by a call; None if it is not known.

    Args:
        made: a layer, or the node of a call.
    """
    line: SourceLocation | None = vars(made).get(_LINE)
    return line


def expect(layer: Any, node: Any) -> None:
    """Sets the layer that is called next in this thread.

    Args:
        layer: the layer.
        node: the node that it is called for, or None.
    """
    called = None if node is None else line_of(node)
    _expected.layer, _expected.line = layer, called or line_of(layer)


def note_compiled(model: Any) -> None:
    """Notes the user's current line as the line that compiles a model."""
    _note(model, _COMPILED)


def in_line_of_compile(model: Any, function: Callable[[], Any]) -> Any:
    """Calls a function with the line on the stack in which a model was compiled.

    Args:
        model: the model.
        function: the function to call: makes ops that no layer makes.
    """
    line = vars(model).get(_COMPILED)
    if line is None:
        return function()
    with _Shown(line):
        return _in_the_line(function)


def _note(made: Any, name: str = _LINE) -> None:
    # Not an attribute as Keras knows them: it is not part of the layer.
    vars(made)[name] = source_map.current()


def _noting_new(original: Any) -> Any:
    """Returns the `__new__` of layers."""

    @functools.wraps(original)
    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        layer = original(cls, *args, **kwargs)
        _note(layer)
        return layer

    return new


def _noting_init(original: Any) -> Any:
    """Returns the `__init__` of nodes."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _note(self)

    return init


def _expecting(original: Any) -> Any:
    """Returns the `map_arguments` of nodes."""

    @functools.wraps(original)
    def map_arguments(self: Any, *args: Any, **kwargs: Any) -> Any:
        expect(self.layer, self)
        return original(self, *args, **kwargs)

    return map_arguments


def _showing_call(original: Any) -> Any:
    """Returns the `__call__` of layers."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        line = _line_of_call(self)
        if line is None:
            return original(self, *args, **kwargs)
        with _Shown(line):
            return _in_the_line(lambda: original(self, *args, **kwargs))

    return call


def _line_of_call(layer: Any) -> SourceLocation | None:
    """The line to show for a call of a layer; None where it is on the stack or nothing is made."""
    expected, _expected.layer = _expected.layer, None
    if tf.executing_eagerly():
        return None
    if isinstance(base_layer_utils.call_context().layer, tf.keras.Sequential):
        return line_of(layer)  # the model was called, not the layer
    return _expected.line if expected is layer else None


def _in_the_line(function: Callable[[], Any]) -> Any:
    """Calls a function. The frame of this one is shown as a line of the user."""
    return function()


_FRAME = (
    _in_the_line.__code__.co_filename,
    max(line for _, line in dis.findlinestarts(_in_the_line.__code__)),
)


class _Shown(tf_stack.StackTraceMapper):
    """Shows a line of the user in place of `_in_the_line`, in the stacks that are taken inside."""

    def __init__(self, line: SourceLocation) -> None:
        super().__init__()
        self._line = line

    def get_effective_source_map(self) -> Mapping[tuple[str, int], tuple[str, int, str]]:
        """Maps each frame of the generated code to the user's file and line."""
        return {**self.parent.get_effective_source_map(), _FRAME: tuple(self._line)}
