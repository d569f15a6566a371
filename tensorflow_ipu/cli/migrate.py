"""`tensorflow-ipu migrate FILE...`: updates an older program."""

from __future__ import annotations

import argparse
import difflib
import stat
import sys
from pathlib import Path

from tensorflow_ipu.cli.console import Parser
from tensorflow_ipu.compat import migration
from tensorflow_ipu.compat.findings import File, Finding
from tensorflow_ipu.compat.generation import Generation
from tensorflow_ipu.util import private_files

# Endings of the names of Python files.
_PYTHON = (".py", ".pyw", ".pyi", ".ipy")

_EXAMPLES = (
    ("tensorflow-ipu migrate train.py", "says what to change"),
    ("tensorflow-ipu migrate --diff --write train.py", "changes it, and shows what"),
)


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.description = (
        "Says for each use of something that TensorFlow 2.15, Keras, NumPy or Python "
        "dropped what to write in its place. Give all files of a program at once."
    )
    parser.examples = _EXAMPLES
    parser.add_argument("files", nargs="+", metavar="FILE", help="Python file, or folder of some")
    parser.add_argument(
        "--write", action="store_true", help="change the files, where that needs no judgement"
    )
    parser.add_argument("--diff", action="store_true", help="show what --write would change")
    parser.add_argument(
        "--tensorflow",
        type=int,
        choices=(1, 2),
        help="which TensorFlow the program was written for; else found out from what it uses",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the changes to make, or writes them."""
    files = [migration.read(path) for path in _paths(options.files)]
    wanted = migration.written_for(files)
    if options.tensorflow is not None:
        wanted = Generation(options.tensorflow, wanted.old_optimizers and options.tensorflow == 2)
    found = [(file, migration.findings(file, wanted)) for file in files]
    if options.diff:
        for file, findings in found:
            _show_diff(file, findings)
    if options.write:
        return _write(found)
    if not options.diff:
        for file, findings in found:
            for finding in findings:
                print(finding.text(file.path))
        _sum_up([finding for _, findings in found for finding in findings])
    return 1 if any(findings for _, findings in found) else 0


def _paths(names: list[str]) -> list[Path]:
    """Returns the files that were named, and the files in folders that were.

    Raises:
        FileNotFoundError: there is nothing of a name, or a folder has no Python file.
    """
    paths: list[Path] = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            inside = sorted(path.rglob("*.py"))
            if not inside:
                raise FileNotFoundError(f"{name}: no Python file in this folder")
            paths += inside
        elif not path.exists():
            raise FileNotFoundError(f"{name}: no such file")
        elif path.suffix not in _PYTHON and not _runs_python(path):
            raise ValueError(
                f"{name} is no Python file: expected a program (.py) or a folder of some. To show "
                "a report use `tensorflow-ipu report FILE`"
            )
        else:
            paths.append(path)
    return list(dict.fromkeys(paths))


def _runs_python(path: Path) -> bool:
    """Returns whether a file has no suffix, or names Python in its first line."""
    with path.open("rb") as file:
        first = file.readline(200)
    return not path.suffix or (first.startswith(b"#!") and b"python" in first)


def _sum_up(findings: list[Finding]) -> None:
    if not findings:
        print("nothing to change")
        return
    by_hand = sum(not finding.edits for finding in findings)
    lines = f"{len(findings)} uses" if len(findings) > 1 else "1 use"
    rest = f", {by_hand} by hand" if by_hand else ""
    print(
        f"{lines} to change{rest}; --write makes the changes" + (" that it can" if by_hand else "")
    )


def _show_diff(file: File, findings: list[Finding]) -> None:
    """Prints the changes of a file as a diff."""
    before = file.source.content.decode("utf-8-sig").splitlines()
    after = migration.rewritten(file, findings).decode("utf-8-sig").splitlines()
    lines = difflib.unified_diff(before, after, str(file.path), str(file.path), lineterm="")
    for line in lines:
        print(line)


def _write(found: list[tuple[File, list[Finding]]]) -> int:
    """Writes the changes; prints the findings that the user has to act on."""
    left = 0
    for file, findings in found:
        content = migration.rewritten(file, findings)
        if content != file.source.content:
            mode = stat.S_IMODE(file.path.stat().st_mode)
            private_files.write_bytes(file.path, content)
            file.path.chmod(mode)
            changed = sum(bool(finding.edits) for finding in findings)
            print(f"wrote {file.path}: {changed} changed")
        for finding in findings:
            if not finding.edits:
                print(finding.text(file.path))
                left += 1
    sys.stdout.flush()
    return 1 if left else 0
