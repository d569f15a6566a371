"""`tensorflow-ipu remedies REPORT`: finds the fastest configuration that fits."""

from __future__ import annotations

import argparse
import ast
import difflib
import io
import json
import re
import stat
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tensorflow_ipu.cli import console, inputs
from tensorflow_ipu.cli.console import Parser
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.tuning.advice import fastest
from tensorflow_ipu.tuning.advice.fastest import Fastest
from tensorflow_ipu.tuning.advice.steps import RemedyStep
from tensorflow_ipu.tuning.search.choices import SUBJECTS
from tensorflow_ipu.util import private_files
from tensorflow_ipu.util.text import fitted

# --- Edits of the program ---

# Options are set in lines of their own right before the call of `configure_ipu_system`, so they
# override earlier values. If such an option is set to a constant before the call, with only other
# options in between, its value is changed instead. All other bytes of the file are unchanged.

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


def config_edit(path: Path, line: int, options: Mapping[str, str]) -> Edit:
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


# --- Command ---

_ENVIRONMENT = """
The environment can do none of this. What it can without a change of the program:
  TENSORFLOW_IPU_CHIP=bow                 a faster chip with the memory of Mk2
  TF_POPLAR_FLAGS=--capacity_policy=mark  runs what does not fit on the chip"""

# The value of --most-items that is no number.
_ANY = "any"

# `/path/train.py:12`
_PLACE = re.compile(r"(?P<file>.+):(?P<line>\d+)")

_EXAMPLES = (
    ("tensorflow-ipu remedies before.json --plans 8", "a quick search, of 8 plans"),
    (
        "tensorflow-ipu remedies before.json --plans 8 --most-items any",
        "with any number of elements in a weight update",
    ),
    (
        "tensorflow-ipu remedies before.json --plans 8 --without precision batch",
        "keeps types and batch",
    ),
)


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.description = (
        "Plans combinations of changes of the program of a report: precision, batch, "
        "accumulation, recomputation, memory for temporaries, pipeline stages, replicas, and where "
        "optimizer state, weights and activations are. Exits with 1 if nothing fits."
    )
    parser.examples = _EXAMPLES
    parser.add_argument("file", metavar="REPORT", help="report, or its folder")
    parser.add_argument(
        "--ipus", type=inputs.whole, help="IPUs for all replicas; else those it has, or more"
    )
    parser.add_argument("--plans", type=inputs.some, help="plans to make at most, from 1")
    parser.add_argument(
        "--only", nargs="+", metavar="CHANGE", help=f"what may be changed: {', '.join(SUBJECTS)}"
    )
    parser.add_argument("--without", nargs="+", default=[], metavar="CHANGE", help="what may not")
    parser.add_argument(
        "--most-items",
        type=_most_items,
        metavar="N",
        help="elements of data that a weight update may be made of, or any: batch, accumulation "
        "and replicas change it, and with it how a model learns. Without it an update keeps as "
        "many as it has",
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="write the options of IPUConfig into the program, where that needs no judgement",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Prints the result of the search, and changes the program if requested."""
    report = inputs.load(options.file)
    with console.progress() as show:
        result = fastest.fastest(
            report.plan,
            options.ipus,
            options.plans,
            _subjects(options),
            options.most_items if isinstance(options.most_items, int) else None,
            keep_items=options.most_items is None,
            planned=lambda ipus, done, most: show(
                f"planned {done} of {most} configurations for {ipus} IPU{'s'[: ipus != 1]}"
            ),
        )
    if options.json:
        print(json.dumps(fastest.to_dict(result), indent=2))
    else:
        print(fastest.to_text(result))
    if result.best is None:
        return 1
    if not options.json and result.steps():
        print(fitted(_ENVIRONMENT))
        _edit(report, result, options.apply)
    return 0


def _most_items(text: str) -> int | str:
    """Reads the limit of data elements of a weight update: a number, or `any`."""
    return text if text == _ANY else inputs.some(text)


def _subjects(options: argparse.Namespace) -> list[str]:
    """Returns the subjects that may be changed."""
    for name in (*(options.only or ()), *options.without):
        if name not in SUBJECTS:
            raise ValueError(f"Unknown change {name!r}: choose from {', '.join(SUBJECTS)}.")
    return [
        name
        for name in SUBJECTS
        if (options.only is None or name in options.only) and name not in options.without
    ]


def _edit(report: Report, result: Fastest, write: bool) -> None:
    """Prints the options that can be written into the program, and writes them if requested."""
    steps = result.steps()
    wanted, by_hand = _divided(steps)
    place = _PLACE.fullmatch(str(report.options.get("configured_at", "")))
    if not wanted:
        reason = "none of the changes is an option of IPUConfig alone"
    elif place is None:
        reason = "the report does not say where the program calls configure_ipu_system"
    else:
        try:
            change = config_edit(Path(place["file"]), int(place["line"]), wanted)
        except (OSError, ValueError) as error:
            reason = str(error)
        else:
            _show(change, write)
            _say_rest(by_hand)
            return
    print(fitted(f"\nNothing can be written into the program: {reason}."))


def _divided(steps: Sequence[RemedyStep]) -> tuple[dict[str, str], list[str]]:
    """Returns options to write into the program, and the names of the other steps.

    A number of IPUs goes with stages and shards: before the program has these it would mean
    replicas.
    """
    wanted: dict[str, str] = {}
    by_hand = []
    for step in steps:
        if step.lines:
            by_hand.append(step.name)
        else:
            wanted.update(step.options)
    if any("auto_select_ipus" in step.options for step in steps if step.lines):
        wanted.pop("auto_select_ipus", None)
    return wanted, by_hand


def _show(edit: Edit, write: bool) -> None:
    difference = edit.difference()
    if not difference:
        print(f"\n{edit.path} has these options already.")
        return
    print(f"\n{difference}")
    if write:
        edit.write()
        print(f"wrote {edit.path}")
    else:
        print("--apply writes this.")


def _say_rest(by_hand: Sequence[str]) -> None:
    if by_hand:
        names = ", ".join(by_hand)
        print(fitted(f"Left to do by hand, without which the program may not fit: {names}."))
