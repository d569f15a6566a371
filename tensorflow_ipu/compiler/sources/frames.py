"""The user's line of a stack, for reports, listings and errors.

A frame belongs to a library (TensorFlow, Keras, Python's standard library), to this package, to an
installed package (in `site-packages`), or else to the user. Frames after the first one of this
package belong to the program; frames before it belong to the code that calls `fit`, `strategy.run`
or `ipu_compiler.compile`. The line of an op is, in this order,

1. the innermost line of the user in the program,
2. the innermost line of an installed package in it: a model of another library, of which the user
   only called `fit`,
3. the innermost line of the user before it,
4. the innermost line of an installed package before it.
"""

from __future__ import annotations

import importlib.util
import os
import sysconfig
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorflow.python.util import tf_stack

from tensorflow_ipu.runtime import notebook
from tensorflow_ipu.versions import packages

if TYPE_CHECKING:
    from collections.abc import Iterable

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
