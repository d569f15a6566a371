"""Lines of the user's program: of frames on a stack, of the ops of a traced graph."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import sysconfig
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tensorflow.python.util import tf_stack

from tensorflow_ipu.import_hook.versions import packages
from tensorflow_ipu.runtime import notebook
from tensorflow_ipu.util.short_repr import shows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import tensorflow as tf
    from tensorflow.core.framework import function_pb2


# A frame belongs to a library (TensorFlow, Keras, Python's standard library), to this package, to
# an installed package (in `site-packages`), or else to the user. Frames after the first one of this
# package belong to the program; frames before it belong to the code that calls `fit`,
# `strategy.run` or `ipu_compiler.compile`. The line of an op is, in this order,
#
# 1. the innermost line of the user in the program,
# 2. the innermost line of an installed package in it: a model of another library, of which the user
#    only called `fit`,
# 3. the innermost line of the user before it,
# 4. the innermost line of an installed package before it.

_OWN_PACKAGES = ("tensorflow_ipu",)
_SITE_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# AutoGraph runs users' functions from temporary files. Frames that it could map back bear the
# user's own file name; the others are its own scaffolding.
_AUTOGRAPH_MARK = "__autograph_generated_file"
# TensorFlow generates a function for each op of the native library, in a file of this name.
# Programs given as `python -c` have the same file name, so the function's name has to tell.
_GENERATED_FILE = "<string>"
_GENERATED_PREFIX = "ipu_"
_LIBRARY, _OWN, _INSTALLED, _USER = range(4)
# Also the end of `tf_keras/src/`, and so with the paths below.
_KERAS = os.path.join("keras", "src", "")
# The files whose `__call__` opens the name scope of a layer.
_LAYERS = os.path.join("keras", "src", "engine", "base_layer")
# Parts of a training step that Keras does outside of layers, by the folder of their code.
METRICS, OPTIMIZER = "metrics", "optimizer"
_PARTS = {
    os.path.join("keras", "src", "metrics", ""): METRICS,
    os.path.join("keras", "src", "optimizers", ""): OPTIMIZER,
}
_LOSSES = os.path.join("keras", "src", "losses.py")
# Functions in that file that are no loss.
_AROUND_LOSSES = ("__call__", "call", "<lambda>")


class SourceLocation(NamedTuple):
    """A line of the user's program.

    Args:
        file: path of the source file, as Python knows it.
        line: line number, from 1.
        function: name of the function the line is in (`<module>` at top level).
    """

    file: str
    line: int
    function: str

    @property
    def path(self) -> str:
        """`/home/user/file.py:12 (function)`, with the whole path."""
        return f"{self.file}:{self.line} ({self.function})"

    def __str__(self) -> str:
        """`file.py:12 (function)`, with the file's base name; AutoGraph's lambdas have no name.

        A notebook's cell replaces the file: `In[3]:12 (function)`.
        """
        file = notebook.cell_of(self.file) or os.path.basename(self.file)
        return f"{file}:{self.line} ({self.function or '<lambda>'})"


class KerasFrames(NamedTuple):
    """The depth of layers and the part of Keras in which an op was made.

    Args:
        layers: number of nested layers around it, each with a name scope.
        part: outside of layers `METRICS`, `OPTIMIZER` or the name of a loss function; else empty.
    """

    layers: int = 0
    part: str = ""


def current() -> SourceLocation | None:
    """Returns the line of the user that is running now, None if there is none."""
    return user_line(tf_stack.extract_stack().get_user_frames())


def is_users(filename: str) -> bool:
    """Returns whether a file is of the user's program, not of a library or an installed package."""
    return _kind_of(filename) == _USER


def is_scaffolding(filename: str) -> bool:
    """Returns whether a file is AutoGraph's, with code that stands for no line of the user."""
    return _AUTOGRAPH_MARK in filename


def user_line(frames: Iterable[Any]) -> SourceLocation | None:
    """Returns the line of a stack that is the user's, by the rule above.

    Args:
        frames: frames as of `traceback.extract_stack`, the outermost first. Frames of TensorFlow
            may be missing.

    Returns:
        The line, or None when all frames belong to libraries and this package.
    """
    best: SourceLocation | None = None
    best_rank = (False, False)
    in_program = False
    for frame in frames:
        kind = _kind_of(frame.filename)
        if kind == _OWN:
            in_program = True
        generated = frame.filename == _GENERATED_FILE and frame.name.startswith(_GENERATED_PREFIX)
        if kind in (_OWN, _LIBRARY) or generated:
            continue
        rank = (in_program, kind == _USER)
        if best is None or rank >= best_rank:
            best = SourceLocation(frame.filename, frame.lineno, frame.name)
            best_rank = rank
    return best


def keras_frames(frames: Iterable[Any]) -> KerasFrames:
    """Returns the depth of layers and the part of Keras in a stack.

    Args:
        frames: as for `user_line`.
    """
    layers, part = 0, ""
    for frame in frames:
        if _KERAS not in frame.filename:
            continue
        layers += frame.name == "__call__" and _LAYERS in frame.filename
        part = part or _part_of(frame)
    return KerasFrames(layers, part)


def _part_of(frame: Any) -> str:
    """Returns the part of a training step that a frame of Keras is in, empty for other frames."""
    for place, part in _PARTS.items():
        if place in frame.filename:
            return part
    is_loss = frame.filename.endswith(_LOSSES) and frame.name not in _AROUND_LOSSES
    return str(frame.name) if is_loss else ""


@lru_cache(maxsize=4096)
def _kind_of(filename: str) -> int:
    """Returns the owner of a file: library, this package, installed package or user."""
    if is_scaffolding(filename) or filename.startswith("<frozen"):
        return _LIBRARY
    path = os.path.abspath(filename)
    if path.startswith(_folders_of(_OWN_PACKAGES)):
        return _OWN
    # TensorFlow traces Keras and Estimator code too, so asking only for its own would report the
    # inside of a layer.
    if path.startswith(_folders_of(packages.LIBRARIES)):
        return _LIBRARY
    if any(folder in path for folder in _SITE_FOLDERS):
        return _INSTALLED
    return _LIBRARY if path.startswith(sysconfig.get_paths()["stdlib"] + os.sep) else _USER


@lru_cache(maxsize=2)
def _folders_of(packages: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the folders of installed packages, each with a trailing separator."""
    folders: list[str] = []
    for package in packages:
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        if spec is not None:
            folders += spec.submodule_search_locations or ()
    return tuple(os.path.abspath(folder) + os.sep for folder in folders)


# --- Map from the ops of a traced graph to lines of the user's program ---

# On a graph: the Declaration of each name scope that has one.
_DECLARATIONS = "_ipu_declarations"


class Declaration(NamedTuple):
    """Line and layer that a front end declares for the ops in a name scope.

    Args:
        location: the line of the user; None if it is not known.
        layer: their layer, within the layer of the call around them; empty for none of their own.
            None if it follows from names and variables.
    """

    location: SourceLocation | None
    layer: str | None = None


def declare(
    graph: tf.Graph, scope: str, location: SourceLocation | None, layer: str | None = None
) -> None:
    """Declares line and layer of all ops in a name scope, and in scopes inside it.

    Args:
        graph: the graph of the ops.
        scope: the name scope, which nothing else uses, without a slash at its end.
        location: the line; None if it is not known.
        layer: the layer, as in `Declaration`.
    """
    if location is not None or layer is not None:
        if not hasattr(graph, _DECLARATIONS):
            setattr(graph, _DECLARATIONS, {})
        getattr(graph, _DECLARATIONS)[scope] = Declaration(location, layer)


def of(op: tf.Operation) -> Declaration | None:
    """Returns the declaration of an op; None without one.

    Args:
        op: the op.
    """
    graph = op.graph
    while graph is not None:
        declarations: dict[str, Declaration] = getattr(graph, _DECLARATIONS, {})
        scope = op.name if declarations else ""
        while scope:
            if scope in declarations:
                return declarations[scope]
            scope = scope.rpartition("/")[0]
        # Bodies of loops and branches have the scopes of the graph around them.
        graph = getattr(graph, "outer_graph", None)
    return None


# --- Map from the ops of a traced graph to lines of the user's program ---

# TensorFlow's prefix of the forward op's scope in names of gradient ops.
_TAPE_SCOPE = "gradient_tape/"
_RENAMED = re.compile(r"_0$")


class Origin(NamedTuple):
    """User's line, forward op, Keras part and layer of an op.

    Args:
        location: the line of the user; for an op of a gradient, the line of the forward op.
        original: for an op of a gradient, the name of the forward op; empty if that is not known.
        keras: layer depth and part of Keras.
        layer: the layer that a front end declares (`declared.Declaration`); None for other ops.
    """

    location: SourceLocation | None
    original: str = ""
    keras: KerasFrames = KerasFrames()
    layer: str | None = None


NOWHERE = Origin(None)


class SourceMap:
    """Map from the name of an op in a compiled program to its origin.

    Nothing is looked up until it is asked for, so keeping a map costs only the graphs it holds on
    to.

    Args:
        graph: the traced graph of a program. The bodies of its loops, conditionals and calls are
            found through it.
        entry: name of the `FunctionDef` made from `graph`; `graph.name` when not given.
    """

    def __init__(self, graph: tf.Graph, entry: str | None = None) -> None:
        self._graph = graph
        self._entry = entry or str(getattr(graph, "name", ""))
        # Ops made by the same calls share their origin: their stacks as text, which takes a fifth
        # of the time that looking at each frame takes.
        self._stacks: dict[str, Origin] = {}

    __repr__ = shows(lambda self: {"graph": getattr(self._graph, "name", None)})

    def origin(self, function: str, node: str) -> Origin:
        """Returns the origin of an op.

        A compiler pass may have renamed the function an op is in. Then the op is searched by its
        own name, and reported if all ops of that name were made at one place.

        Args:
            function: name of the `FunctionDef` the op is in.
            node: name of the op in that function.

        Returns:
            Its origin; `NOWHERE` for an op that was added by a pass.
        """
        graph = self._graphs.get(function)
        if graph is not None:
            return self._origin_in(graph, node)
        found = {self._origin_in(graph, node) for graph in self._distinct} - {NOWHERE}
        return found.pop() if len(found) == 1 else NOWHERE

    def lookup(self, function: str, node: str) -> SourceLocation | None:
        """Returns the line of an op, as `origin` does."""
        return self.origin(function, node).location

    def operation(self, function: str, node: str) -> tf.Operation | None:
        """Returns the op of the trace that a compiled op is, or was made for.

        TensorFlow and passes name an added op after the op that it is for: `dense/MatMul/half`.

        Args:
            function: name of the function the op is in, as far as that is known.
            node: name of the op in that function.
        """
        own = [self._graphs[function]] if function in self._graphs else []
        while node:
            for graph in (*own, *self._distinct):
                found = _operation(graph, node)
                if found is not None:
                    return found
            node = node.rpartition("/")[0]
        return None

    def _origin_in(self, graph: tf.Graph, node: str) -> Origin:
        """Returns the origin of the op called `node`, `NOWHERE` if the graph has no such op."""
        op = _operation(graph, node)
        return NOWHERE if op is None else self.origin_of(op)

    def origin_of(self, op: tf.Operation) -> Origin:
        """Returns the origin of an op of the trace."""
        original = original_op(op)
        if original is None:
            return self._of_stack(op)
        found = self._of_stack(original)
        location = found.location or self._of_stack(op).location
        return found._replace(location=location, original=original.name)

    def _of_stack(self, op: tf.Operation) -> Origin:
        """Returns the origin of an op from its declaration, else from its stack."""
        declaration = of(op)
        if declaration is not None:
            return Origin(declaration.location, layer=declaration.layer)
        if op.traceback is None:
            return NOWHERE
        # TensorFlow leaves its own frames out here, much faster than they could be skipped.
        stack = op.traceback.get_user_frames()
        text = str(stack)
        if text not in self._stacks:
            self._stacks[text] = Origin(user_line(stack), keras=keras_frames(stack))
        return self._stacks[text]

    @functools.cached_property
    def _graphs(self) -> dict[str, tf.Graph]:
        """Graphs by function name."""
        functions: dict[str, tf.Graph] = {}
        for name, graph in _nested_graphs(self._graph, set()):
            functions.setdefault(name, graph)
        functions[self._entry] = self._graph
        return functions

    @functools.cached_property
    def _distinct(self) -> list[tf.Graph]:
        """The graphs, each once."""
        return list({id(graph): graph for graph in self._graphs.values()}.values())


def source_of(op: tf.Operation) -> SourceLocation | None:
    """Returns the line of the user that made an op.

    Args:
        op: an op of a graph; for an op of a gradient, the line is the forward op's.

    Returns:
        The line, or `None` when the op has no traceback or no frame of the user.
    """
    return SourceMap(op.graph).origin_of(op).location


def original_op(op: tf.Operation) -> tf.Operation | None:
    """Returns the op that another was made for, such as the forward op of a gradient op.

    Args:
        op: an op of a graph.

    Returns:
        The op, or None for others and if it is not known.
    """
    original = op
    while original._original_op is not None:
        original = original._original_op
    if original is not op:
        return original
    if op.name.startswith(_TAPE_SCOPE):
        scope = op.name[len(_TAPE_SCOPE) :].rpartition("/")[0]
        while scope:
            found = _operation(op.graph, scope)
            if found is not None:
                return found
            scope = scope.rpartition("/")[0]
    return None


def _operation(graph: tf.Graph, node: str) -> tf.Operation | None:
    """Returns the op of a name, None if the graph has none."""
    # In the definition of a function, an op with the name of a result is renamed.
    for name in (node, _RENAMED.sub("", node)):
        with contextlib.suppress(KeyError):
            return graph.get_operation_by_name(name)
    return None


def _nested_graphs(graph: tf.Graph, seen: set[int]) -> Iterator[tuple[str, tf.Graph]]:
    """Yields (function name, traced graph) of all functions reachable from `graph`.

    TensorFlow 2.15 keeps in each graph the functions its ops name, each with the `FuncGraph` it
    was made from. The public property would rebuild a graph that is gone, without tracebacks.
    """
    if id(graph) in seen:
        return
    seen.add(id(graph))
    for name, function in graph._functions.items():
        nested = getattr(function, "_cached_graph", None)
        if nested is not None:
            yield name, nested
            yield nested.name, nested
            yield from _nested_graphs(nested, seen)


# --- Origins of a compiled program's ops, which outlive the graph that was traced ---


class HasSources(Protocol):
    """Interface of a Cluster that origins are looked up in."""

    @property
    def sources(self) -> SourceMap:
        """The origins of its ops."""


class Sources:
    """Origins of a compiled program's ops, without a reference to the trace.

    A trace keeps the variables of the user, and most programs are never asked for locations. So
    they are looked up in the Cluster, as long as it lives, unless `keep` was called.

    Args:
        cluster: returns the Cluster; None when it is gone.
    """

    def __init__(self, cluster: Callable[[], HasSources | None]) -> None:
        self._cluster = cluster
        self._kept: dict[tuple[str, str], Origin] | None = None

    __repr__ = shows(lambda self: {"kept": self._kept is not None})

    def origin(self, function: str, node: str) -> Origin:
        """Returns the origin of an op.

        Args:
            function: name of the function that the op is in.
            node: name of the op in that function.

        Returns:
            Its origin; `NOWHERE` for an op that has none.
        """
        if self._kept is not None:
            return self._kept.get((function, node), NOWHERE)
        cluster = self._cluster()
        return NOWHERE if cluster is None else cluster.sources.origin(function, node)

    def keep(self, library: function_pb2.FunctionDefLibrary) -> None:
        """Looks up all origins, so that they remain when the Cluster is gone.

        Args:
            library: the functions of the compiled program.
        """
        if self._kept is not None or self._cluster() is None:
            return
        found = {
            (function.signature.name, node.name): self.origin(function.signature.name, node.name)
            for function in library.function
            for node in function.node_def
        }
        self._kept = {op: origin for op, origin in found.items() if origin != NOWHERE}
