"""Python sources: the names of a module, and the files of a program.

Nothing is imported for it.
"""

from __future__ import annotations

import ast
import functools
import importlib.machinery
from collections.abc import Iterator, Sequence
from pathlib import Path

# Most files of a program that are read.
_MOST_FILES = 500


def parse(path: Path) -> tuple[bytes, ast.Module]:
    """Reads and parses a file.

    Args:
        path: the file.

    Returns:
        Its bytes and its tree.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no Python 3, in one line.
    """
    source = path.read_bytes()
    try:
        return source, ast.parse(source, str(path))
    except SyntaxError as error:
        where = f"{path}:{error.lineno}" if error.lineno else str(path)
        hint = ""
        if _is_python_2(error):
            hint = " This is Python 2: translate it to Python 3 first, for instance with 2to3"
        raise ValueError(f"{where}: not Python 3: {error.msg}.{hint}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{path}: not Python: {error}") from None


def _is_python_2(error: SyntaxError) -> bool:
    """Returns whether a line is Python 2."""
    text = (error.text or "").strip()
    message = str(error.msg)
    return (
        text.startswith(("print ", "exec "))
        or "Missing parentheses" in message
        or "multiple exception types" in message
        or "leading zeros" in message
        or "<>" in text
        or text.endswith("L")
        and "invalid decimal literal" in message
    )


@functools.cache
def names_in(module: str) -> frozenset[str] | None:
    """Returns the names that a module's source defines; None if it has no source.

    Args:
        module: full name.
    """
    path = _file(module)
    if path is None:
        return None
    try:
        _, tree = parse(path)
    except (OSError, ValueError):
        return None
    names: set[str] = {"*"}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    if path.name == "__init__.py":
        names.update(item.stem for item in path.parent.iterdir())
    return frozenset(names)


def _file(module: str) -> Path | None:
    """Finds the source of a module, without importing the packages that it is in."""
    path: Sequence[str] | None = None
    for part in module.split("."):
        spec = importlib.machinery.PathFinder.find_spec(part, path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def program(main: Path, folders: Sequence[str]) -> Iterator[tuple[Path, ast.Module]]:
    """Yields the files of a program: the first, and its imports from some folders.

    Args:
        main: the first file.
        folders: where its modules are searched.

    Yields:
        Files that are Python, and their trees.
    """
    waiting, seen = [main], {main.resolve()}
    while waiting and len(seen) < _MOST_FILES:
        path = waiting.pop(0)
        try:
            _, tree = parse(path)
        except (OSError, ValueError):
            continue
        yield path, tree
        for found in _imported(tree, path, folders):
            if found.resolve() not in seen:
                seen.add(found.resolve())
                waiting.append(found)


def _imported(tree: ast.Module, path: Path, folders: Sequence[str]) -> Iterator[Path]:
    """Yields the files of a program that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _modules(alias.name, folders)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            start: Sequence[str] = folders
            if node.level:
                start = [str([path, *path.parents][node.level])]
            if base:
                yield from _modules(base, start)
            for alias in node.names:
                yield from _modules(f"{base}.{alias.name}".strip("."), start)


def _modules(name: str, folders: Sequence[str]) -> Iterator[Path]:
    """Yields the files of a module and of the packages that it is in."""
    parts = name.split(".")
    for folder in folders:
        for count in range(1, len(parts) + 1):
            stem = Path(folder, *parts[:count])
            for candidate in (stem.with_suffix(".py"), stem / "__init__.py"):
                if candidate.is_file():
                    yield candidate


@functools.cache
def is_of_program(file: str) -> bool:
    """Returns whether a file is a program's, not Python's, an installed package's or ours.

    Args:
        file: its path.
    """
    if not file or file.startswith("<"):
        return False
    path = Path(file).resolve()
    ours = Path(__file__).resolve().parents[1]
    linked = [folder.resolve() for folder in ours.iterdir() if folder.is_symlink()]  # in a checkout
    others = (ours, *linked, Path(functools.__file__).resolve().parent)
    return "site-packages" not in path.parts and not any(one in path.parents for one in others)
