"""Runner of a program as by `python program.py`, with shims installed."""

from __future__ import annotations

import atexit
import importlib.util
import io
import os
import sys
import traceback
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tensorflow_ipu.compat import generation, shims, sources
from tensorflow_ipu.compat.generation import Generation

_OURS = os.path.dirname(__file__) + os.sep


class Invocation(NamedTuple):
    """A program to run: its file, `sys.argv[0]`, import spec and `sys.path[0]`.

    Args:
        path: its file, from the root.
        name: the first one of `sys.argv`.
        spec: its import spec, for `-m`.
        folder: the first one of `sys.path`.
    """

    path: str
    name: str
    spec: Any
    folder: str


def of_file(path: str) -> Invocation:
    """Returns the program in a file, or in a folder with a file `__main__.py`.

    Args:
        path: the file.

    Raises:
        OSError: it cannot be read.
    """
    if os.path.isdir(path):
        main = os.path.join(path, "__main__.py")
        if not os.path.isfile(main):
            raise FileNotFoundError(f"{path} is a folder without a file __main__.py")
        return Invocation(os.path.abspath(main), path, None, path)
    with open(path, "rb"):
        pass
    return Invocation(os.path.abspath(path), path, None, os.path.dirname(os.path.realpath(path)))


def of_module(name: str) -> Invocation:
    """Returns the program that `python -m name` runs.

    Args:
        name: of the module, or of a package with a module `__main__`.

    Raises:
        ValueError: there is no such module, or it is no Python source.
    """
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise ValueError(f"No module named {name}: {error}") from None
    finally:
        sys.path.remove(folder)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        raise ValueError(f"No module named {name} with Python source")
    return Invocation(spec.origin, spec.origin, spec, folder)


def written_for(program: Invocation) -> Generation:
    """Returns the generation that a program was written for, by the uses in its files."""
    folders = [program.folder, os.getcwd()]
    files = sources.program(Path(program.path), list(dict.fromkeys(folders)))
    return generation.of_program(tree for _, tree in files)


def run(
    program: Invocation,
    arguments: Sequence[str],
    tensorflow: int | None = None,
    quiet: bool = False,
) -> int:
    """Runs a program in this process, which ends with it.

    Args:
        program: the program.
        arguments: of the program.
        tensorflow: which it was written for, 1 or 2; found out if not given.
        quiet: whether not to say which shims were used.

    Returns:
        The exit code.

    Raises:
        SystemExit: the program raised it.
        KeyboardInterrupt: the program was ended by Ctrl-C, and its traceback is written.
    """
    found = written_for(program)
    if tensorflow is not None:
        found = Generation(tensorflow, found.old_optimizers and tensorflow == 2)
    usage = shims.install(found)
    if not quiet:
        # Functions that the program registers run before.
        atexit.register(lambda: _say(usage.text()))
    module = _main_module(program)
    sys.argv[:] = [program.name, *arguments]
    sys.path[0] = program.folder
    try:
        with io.open_code(program.path) as file:
            code = compile(file.read(), program.path, "exec", dont_inherit=True)
        exec(code, vars(module))
    except SystemExit:
        raise
    except BaseException as error:
        _show(error)
        if isinstance(error, KeyboardInterrupt):
            raise
        return 1
    return 0


def _main_module(program: Invocation) -> types.ModuleType:
    """Creates the module `__main__` of the program, which remains until the process ends."""
    module = types.ModuleType("__main__")
    module.__file__ = program.path
    module.__spec__ = program.spec
    module.__loader__ = getattr(program.spec, "loader", None)
    module.__package__ = program.spec.parent if program.spec is not None else None
    vars(module)["__builtins__"] = sys.modules["builtins"]
    vars(module)["__annotations__"] = {}
    sys.modules["__main__"] = module
    return module


def _show(error: BaseException) -> None:
    """Writes a traceback as Python does, from the first line of the program."""
    shown: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and not any(one is other for other in shown):
            shown.append(one)
            one.__traceback__ = _without_ours(one.__traceback__)
            waiting += [one.__cause__, one.__context__]
    if sys.excepthook is sys.__excepthook__:
        traceback.print_exception(type(error), error, error.__traceback__)
    else:
        sys.excepthook(type(error), error, error.__traceback__)


def _without_ours(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Returns a traceback without frames of this package, and of imports made by it."""
    kept = []
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_OURS) and "importlib" not in file:
            kept.append(trace)
        trace = trace.tb_next
    for before, after in zip(kept, [*kept[1:], None]):
        before.tb_next = after
    return kept[0] if kept else None


def _say(text: str) -> None:
    if text and sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()
