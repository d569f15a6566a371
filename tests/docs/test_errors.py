"""Tests that the page of errors has phrases that the package says, each of them once."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.checkout.repository import ROOT

PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
PHRASES = [phrase for _, phrase in re.findall(r"^### (`+) ?(.+?) ?\1$", PAGE, re.MULTILINE)]
PLACE = "<...>"  # of a name or a number
FOLDERS = ("tensorflow_ipu", "ops", "keras_layers", "estimators", "configs")


def _python_texts(source: str) -> Iterator[str]:
    """Yields the literal texts of a module but its docstrings, with a place for each value."""
    tree = ast.parse(source)
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else PLACE for p in node.values)
            yield "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in documents:
                yield re.sub(r"%[sdr]|\{\w*\}", PLACE, node.value)


def _native_texts(source: str) -> Iterator[str]:
    """Yields the string literals of a C++ file, joined for one argument list."""
    literal = r'"(?:[^"\\\n]|\\.)*"'
    for found in re.finditer(rf"{literal}(?:\s*(?:,[^;\"]*?,\s*)?{literal})*", source):
        joined = re.sub(r'"\s+"', "", found[0])  # adjacent literals are one
        yield re.sub(r'"\s*,[^"]*,\s*"', PLACE, joined).strip('"').replace('\\"', '"')


@pytest.fixture(scope="module")
def texts() -> str:
    """All texts of the package, a line each."""
    found: list[str] = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            found += _python_texts(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "native").rglob("*.*")):
        if path.suffix in (".cc", ".h"):
            found += _native_texts(path.read_text(encoding="utf-8"))
    return "\n".join(text.replace("\n", " ") for text in found)


def test_every_phrase_is_one_that_the_package_says(texts):
    def pattern(phrase: str) -> str:
        parts = [re.escape(part) for part in phrase.split(PLACE)]
        return r".{1,80}?".join(parts)

    missing = [phrase for phrase in PHRASES if not re.search(pattern(phrase), texts)]
    assert missing == []


def test_every_phrase_has_an_anchor_of_its_own():
    assert len(PHRASES) > 100
    anchors = [re.sub(r"[^\w -]", "", phrase.lower()).replace(" ", "-") for phrase in PHRASES]
    assert [anchor for anchor, number in Counter(anchors).items() if number > 1] == []


def test_every_phrase_has_its_cause_and_mend():
    parts = re.split(r"^##+ .*$", PAGE, flags=re.MULTILINE)[1:]
    headings = re.findall(r"^##+ .*$", PAGE, re.MULTILINE)
    without = [h for h, part in zip(headings, parts) if h.startswith("###") and not part.strip()]
    assert without == []


def test_phrase_is_found_in_each_kind_of_source():
    python = (
        'def f():\n    """Says a."""\n    raise ValueError(f"a {x} b " "c") from g("%s d" % y)\n'
    )
    assert sorted(_python_texts(python)) == [" b c", "<...> d", "a ", "a <...> b c"]
    assert list(_native_texts('return Error("a ", name, " b "\n  "c");')) == ["a <...> b c"]
