"""Changes that make a program run without shims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tensorflow_ipu.compat import bindings, call_mends, generation, sources
from tensorflow_ipu.compat.dataclass_mends import DataclassMends
from tensorflow_ipu.compat.edits import SourceText
from tensorflow_ipu.compat.findings import File, Finding, Subject
from tensorflow_ipu.compat.generation import Generation
from tensorflow_ipu.compat.import_mends import ImportMends
from tensorflow_ipu.compat.use_mends import UseMends


def read(path: Path) -> File:
    """Reads a file.

    Args:
        path: the file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no Python 3, or not in UTF-8.
    """
    content, tree = sources.parse(path)
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not in UTF-8: convert it first") from None
    return File(path, SourceText(content), tree)


def written_for(files: Sequence[File]) -> Generation:
    """Returns the generation that the program of some files was written for."""
    return generation.of_program(file.tree for file in files)


def findings(file: File, wanted: Generation) -> list[Finding]:
    """Returns the changes to make in a file, in the order of its lines.

    Args:
        file: the file.
        wanted: the generation that its program was written for.
    """
    subject = Subject(file, bindings.uses(file.tree), wanted)
    imports, uses = ImportMends(subject), UseMends(subject)
    found = [one for statement in subject.uses.imports for one in imports.findings(statement)]
    found += [one for reference in subject.uses.references for one in uses.findings(reference)]
    found += call_mends.findings(subject)
    found += DataclassMends(subject).findings()
    return sorted(found, key=lambda finding: finding.line)


def mended(file: File, found: Sequence[Finding]) -> bytes:
    """Returns a file with the changes that need no judgement.

    Args:
        file: the file.
        found: the findings in it.
    """
    return file.source.applied(edit for finding in found for edit in finding.edits)
