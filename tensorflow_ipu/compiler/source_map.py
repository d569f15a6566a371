"""Where in the user's program each op of a traced graph was made."""

from __future__ import annotations

import importlib.util
import os
import sysconfig
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorflow_ipu.configs.short_repr import shows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import tensorflow as tf

# Packages whose frames never are the user's. TensorFlow traces Keras and Estimator code of these
# too, so naming only TensorFlow would report the inside of a layer.
_LIBRARY_PACKAGES = (
    "tensorflow",
    "keras",
    "tensorflow_estimator",
    "tensorboard",
    "tensorflow_ipu",
    "tensorflow_ipu.configs",
    "tensorflow_ipu.ops",
    "tensorflow_ipu.keras_layers",
    "tensorflow_ipu.estimators",
)
_SITE_FOLDERS = ("site-packages", "dist-packages")
# AutoGraph runs users' functions from temporary files; frames it could map back bear the user's
# own file name, what is left is its own scaffolding.
_AUTOGRAPH_MARK = "__autograph_generated_file"
# TensorFlow generates a function for each op of the native library, in a file of this name. It is
# also that of programs given as `python -c`, so the function's name has to tell.
_GENERATED_FILE = "<string>"
_GENERATED_PREFIX = "ipu_"


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

    def __str__(self) -> str:
        """`file.py:12 (function)`, with the file's base name; AutoGraph's lambdas have no name."""
        return f"{os.path.basename(self.file)}:{self.line} ({self.function or '<lambda>'})"


class SourceMap:
    """Finds the source location of an op by the names it has in a compiled program.

    Nothing is looked up until `lookup` is called, so keeping a map costs only the graphs it holds
    on to.

    Args:
        graph: the traced graph of a program. The bodies of its loops, conditionals and calls are
            found through it.
        entry: name of the `FunctionDef` made from `graph`; `graph.name` when not given.
    """

    def __init__(self, graph: tf.Graph, entry: str | None = None) -> None:
        self._graph = graph
        self._entry = entry
        self._functions: dict[str, tf.Graph] | None = None
        # Ops made by the same calls share a location: their stacks as text, which takes a fifth of
        # the time that looking at each frame takes.
        self._stacks: dict[str, SourceLocation | None] = {}

    __repr__ = shows(lambda self: {"graph": getattr(self._graph, "name", None)})

    def lookup(self, function: str, node: str) -> SourceLocation | None:
        """Returns where an op was made.

        A compiler pass may have renamed the function an op is in. Then the op is searched by its
        own name, and reported if all ops of that name were made at one place.

        Args:
            function: name of the `FunctionDef` the op is in.
            node: name of the op in that function.

        Returns:
            The location, or `None` for an op that has none (added by a pass, or made by a library
            without any user code on the stack).
        """
        graphs = self._graphs()
        if function in graphs:
            return self._location_in(graphs[function], node)
        distinct = {id(graph): graph for graph in graphs.values()}.values()
        found = {self._location_in(graph, node) for graph in distinct} - {None}
        return found.pop() if len(found) == 1 else None

    def _location_in(self, graph: tf.Graph, node: str) -> SourceLocation | None:
        """Returns the location of the op called `node`, `None` if the graph has no such op."""
        try:
            traceback = graph.get_operation_by_name(node).traceback
        except KeyError:
            return None
        if traceback is None:
            return None
        frames = traceback.get_user_frames()
        stack = str(frames)
        if stack not in self._stacks:
            self._stacks[stack] = _innermost(frames)
        return self._stacks[stack]

    def _graphs(self) -> dict[str, tf.Graph]:
        """Graphs by function name, collected at the first use."""
        if self._functions is None:
            functions: dict[str, tf.Graph] = {}
            for name, graph in _nested_graphs(self._graph, set()):
                functions.setdefault(name, graph)
            functions[self._entry or str(getattr(self._graph, "name", ""))] = self._graph
            self._functions = functions
        return self._functions


def source_of(op: tf.Operation) -> SourceLocation | None:
    """Returns the innermost frame of an op's traceback that is outside every library.

    Args:
        op: an op of a graph.

    Returns:
        The frame outside TensorFlow, Keras, this package and Python's standard library, or `None`
        when the op has no traceback or no such frame.
    """
    # TensorFlow leaves its own frames out here, much faster than they could be skipped.
    return None if op.traceback is None else _innermost(op.traceback.get_user_frames())


def _innermost(frames: Any) -> SourceLocation | None:
    """The innermost frame of a stack that is outside every library."""
    for frame in reversed(frames):
        generated = frame.filename == _GENERATED_FILE and frame.name.startswith(_GENERATED_PREFIX)
        if not generated and not _is_library(frame.filename):
            return SourceLocation(frame.filename, frame.lineno, frame.name)
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


@lru_cache(maxsize=4096)
def _is_library(filename: str) -> bool:
    """Whether a file belongs to a library rather than to the user's program."""
    if _AUTOGRAPH_MARK in filename or filename.startswith("<frozen"):
        return True
    path = os.path.abspath(filename)
    if path.startswith(_package_folders()):
        return True
    standard = sysconfig.get_paths()["stdlib"] + os.sep
    return path.startswith(standard) and not any(
        folder in path[len(standard) :] for folder in _SITE_FOLDERS
    )


@lru_cache(maxsize=1)
def _package_folders() -> tuple[str, ...]:
    """Folders of the library packages that are installed, each with a trailing separator."""
    folders: list[str] = []
    for package in _LIBRARY_PACKAGES:
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        if spec is not None:
            folders += spec.submodule_search_locations or ()
    return tuple(os.path.abspath(folder) + os.sep for folder in folders)
