"""A process that plans: it ends at the first launch, or where the program needs a value.

Initializers make tensors that have a type and a shape, and no memory: see
`native/plugin/abstract_compute.cc`. So programs can be planned whose weights this machine has no
room for.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from tensorflow.python.checkpoint import checkpoint_management
from tensorflow.python.framework import ops
from tensorflow.python.training import saver

from tensorflow_ipu.compiler import observers, source_map, store
from tensorflow_ipu.configs import flags
from tensorflow_ipu.runtime import native

if TYPE_CHECKING:
    from types import FrameType

    from tensorflow_ipu.compiler.executable import Executable

#: Exit codes: the plan was made and the program fits, it does not fit, there is no plan.
PLANNED, TOO_LARGE, NO_PLAN = 0, 3, 2

_callbacks: list[Any] = []


@functools.cache
def install() -> None:
    """Makes this process end at the first launch of a program, if it only plans."""
    if not flags.plan_file():
        return
    _callbacks.append(native.set_value_needed(_value_needed))
    observers.observe_launches(_launching)
    _hook_values()
    _hook_checkpoints()
    atexit.register(_nothing_launched)


# --- The ends of the process ---


def _launching(executable: Executable) -> None:
    """Plans a program, prints the plan, saves the report and ends the process."""
    file = flags.plan_file()
    try:
        text, fits = store.write_plan(executable, file)
    except Exception as error:  # noqa: BLE001 - the process must end
        _end(f"No plan of {executable.name}: {type(error).__name__}: {error}", NO_PLAN)
    lines = [text, f"Report: {file}"]
    if not fits:
        lines.append(
            "The program does not fit in memory. For changes with which it does: "
            f"tensorflow-ipu remedies {file}"
        )
    lines.append(f"The program has ended at its first launch{_at_line()}: it was only planned.")
    _end("\n".join(lines), PLANNED if fits else TOO_LARGE)


def _value_needed(name: bytes) -> None:
    """Ends the process because the program needs a value that is not computed."""
    need(name.decode(errors="replace"))


def need(name: str) -> NoReturn:
    """Ends a process that only plans, because the program needs a value.

    Args:
        name: the name of the value.
    """
    _end(
        f"No plan: before its first launch the program needs the value of {name}{_at_line()}. "
        "When a program is only planned, initial values are not computed. Leave out the code that "
        "reads them.",
        NO_PLAN,
    )


def _nothing_launched() -> None:
    """Says at the end of the process that no program was launched.

    The command that has set the variable takes it back, and says so itself.
    """
    if flags.plan_file():
        sys.stderr.write("No plan: the program has launched nothing on the IPU.\n")


def _end(text: str, code: int) -> NoReturn:
    """Prints a text and ends the process, on any thread.

    Args:
        text: to stdout with a plan, to stderr without one.
        code: the exit code.
    """
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    file = sys.stderr if code == NO_PLAN else sys.stdout
    with contextlib.suppress(OSError, ValueError):
        print(text, file=file, flush=True)
    logging.shutdown()
    # The main thread may be in TensorFlow, where no exception reaches it.
    os._exit(code)


def _at_line() -> str:
    """Returns the user's line that the main thread is at, with a comma before it."""
    identifier = threading.main_thread().ident
    frame: FrameType | None = None if identifier is None else sys._current_frames().get(identifier)
    while frame is not None:
        file = frame.f_code.co_filename
        if source_map.is_users(file) and not file.startswith("<"):
            where = source_map.SourceLocation(file, frame.f_lineno, frame.f_code.co_name)
            return f", at {where.path}"
        frame = frame.f_back
    return ""


# --- Values of eager tensors ---


def _hook_values() -> None:
    """Replaces the access to an eager tensor's elements: without values the process ends.

    Texts of tensors say that there are none.
    """
    base = ops.EagerTensor.__mro__[1]
    elements, text = base._numpy, ops.numpy_text

    @functools.wraps(elements)
    def numpy(self: Any) -> Any:
        if _is_abstract(self):
            need(f"a tensor of the shape {self.shape} and type {self.dtype.name}")
        return elements(self)

    @functools.wraps(text)
    def numpy_text(tensor: Any, is_repr: bool = False) -> str:
        return "<not computed>" if _is_abstract(tensor) else text(tensor, is_repr)

    base._numpy = numpy
    ops.numpy_text = numpy_text


def _is_abstract(tensor: Any) -> bool:
    """Returns whether an eager tensor has no values."""
    try:
        array = np.asarray(memoryview(tensor))
    except (TypeError, ValueError, BufferError):
        return False
    return native.is_abstract(array.ctypes.data)


# --- Checkpoints ---


def _hook_checkpoints() -> None:
    """Makes checkpoints do nothing: Estimators write one before they train."""

    def save(self: Any, sess: Any, save_path: str, *args: Any, **kwargs: Any) -> str:
        del self, sess, args, kwargs
        return save_path

    saver.Saver.save = save
    checkpoint_management.update_checkpoint_state_internal = lambda *args, **kwargs: None
