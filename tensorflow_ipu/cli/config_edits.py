"""Edits of a program's source that set options of `IPUConfig`, at the configuring line.

Options are set in lines of their own right before the call of `configure_ipu_system`, so they
override earlier values. If such an option is set to a constant before the call, with only other
options in between, its value is changed instead. All other bytes of the file are unchanged.
"""

from __future__ import annotations

import ast
import difflib
import io
import stat
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tensorflow_ipu.util import private_files

_CALL = "configure_ipu_system"


class Edit(NamedTuple):
    """A change of a file.

    Args:
        path: the file.
        before: its content.
        after: its new content.
        encoding: encoding of its text.
    """

    path: Path
    before: bytes
    after: bytes
    encoding: str

    def difference(self) -> str:
        """Returns the change as a unified diff; empty if nothing changes."""
        before = self.before.decode(self.encoding).splitlines()
        after, name = self.after.decode(self.encoding).splitlines(), str(self.path)
        return "\n".join(difflib.unified_diff(before, after, name, name, lineterm=""))

    def write(self) -> None:
        """Writes the file, whole or not at all; its mode stays.

        Raises:
            OSError: it cannot be written.
            ValueError: it was changed meanwhile.
        """
        if self.path.read_bytes() != self.before:
            raise ValueError(f"{self.path} has changed meanwhile. Run the command again.")
        mode = stat.S_IMODE(self.path.stat().st_mode)
        private_files.write_bytes(self.path, self.after)
        self.path.chmod(mode)


def edit(path: Path, line: int, options: Mapping[str, str]) -> Edit:
    """Returns the change of a file that sets options.

    Args:
        path: the file.
        line: where it calls `configure_ipu_system`, from 1.
        options: the text of their values, by name, such as `allow_recompute` or
            `matmuls.poplar_options["availableMemoryProportion"]`.

    Raises:
        OSError: there is no such file, or it cannot be read.
        ValueError: it is no Python, or has no such call there that stands alone in its line.
    """
    before = path.read_bytes()
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(before).readline)[0]
        text = before.decode(encoding)
        tree = ast.parse(before)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no Python that can be read: {error}") from error
    block, index = _call(tree, path, line)
    config = _receiver(block[index], path, line)
    lines = text.splitlines(keepends=True)
    _check_alone(lines, block[index], path)
    changed = _changed(lines, block[:index], block[index], config, options)
    after = "".join(changed).encode(encoding)
    ast.parse(after)  # is a program still
    return Edit(path, before, after, encoding)


def _call(tree: ast.Module, path: Path, line: int) -> tuple[Sequence[ast.stmt], int]:
    """Returns the block with the configuring statement of a line, and its index there."""
    for block in _blocks(tree):
        for index, statement in enumerate(block):
            last = statement.end_lineno or statement.lineno
            if isinstance(statement, ast.Expr) and statement.lineno <= line <= last:
                return block, index
    raise ValueError(
        f"{path}:{line} is no call of {_CALL} that stands alone. If the file has changed since "
        "the report was made, run the program again"
    )


def _blocks(tree: ast.Module) -> Iterator[Sequence[ast.stmt]]:
    """Yields all lists of statements."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield block


def _receiver(statement: ast.stmt, path: Path, line: int) -> str:
    """Returns the program's expression for its configuration: a name, or an attribute of one."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, (ast.Attribute, ast.Name)):
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr == _CALL:
            # `config.configure_ipu_system()`, or `ipu.utils.configure_ipu_system(config)`.
            holder = call.args[0] if call.args and not _is_text(call.args[0]) else function.value
            if _is_plain(holder):
                return ast.unparse(holder)
        if isinstance(function, ast.Name) and function.id == _CALL and call.args:
            if _is_plain(call.args[0]):
                return ast.unparse(call.args[0])
    raise ValueError(
        f"{path}:{line} does not call {_CALL} of a configuration that has a name. Write "
        "`config = IPUConfig()`, set its options, then `config.configure_ipu_system()`"
    )


def _is_text(node: ast.expr) -> bool:
    """Returns whether an argument is the name of a device, and not a configuration."""
    return isinstance(node, ast.Constant)


def _is_plain(node: ast.expr) -> bool:
    """Returns whether an expression is a name, or attributes of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _check_alone(lines: Sequence[str], statement: ast.stmt, path: Path) -> None:
    """Raises if a statement shares its line with others."""
    before = lines[statement.lineno - 1].encode()[: statement.col_offset].decode()
    if before.strip():
        raise ValueError(f"{path}:{statement.lineno}: {_CALL} is not the first in its line")


def _changed(
    lines: list[str],
    earlier: Sequence[ast.stmt],
    call: ast.stmt,
    config: str,
    options: Mapping[str, str],
) -> list[str]:
    """Returns the lines of the program with the options."""
    made = list(lines)
    new = []
    for name, value in options.items():
        target = f"{config}.{name}"
        known = _assignment(earlier, config, target)
        if known is None:
            new.append(f"{target} = {value}")
        else:
            made[known.lineno - 1] = _with_value(made[known.lineno - 1], known.value, value)
    first = lines[call.lineno - 1]
    indent = first[: len(first) - len(first.lstrip())]
    ending = "\r\n" if first.endswith("\r\n") else "\n"
    made[call.lineno - 1 : call.lineno - 1] = [f"{indent}{line}{ending}" for line in new]
    return made


def _assignment(earlier: Sequence[ast.stmt], config: str, target: str) -> ast.Assign | None:
    """Returns the line that sets an option to a constant, if no later line can set it again."""
    wanted = ast.unparse(ast.parse(target, mode="eval"))
    for statement in reversed(earlier):
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        name = ast.unparse(statement.targets[0])
        if name == wanted:
            same_line = statement.lineno == statement.end_lineno
            return statement if same_line and isinstance(statement.value, ast.Constant) else None
        calls = any(isinstance(node, ast.Call) for node in ast.walk(statement.value))
        if calls or not name.startswith(f"{config}.") or wanted.startswith(name):
            return None
    return None


def _with_value(line: str, old: ast.expr, value: str) -> str:
    """Returns a line with another value; columns count bytes in UTF-8."""
    content = line.encode()
    begin, end = old.col_offset, old.end_col_offset or len(content)
    return (content[:begin] + value.encode() + content[end:]).decode()
