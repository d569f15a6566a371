"""Tests that the shares of the fuzzers are run, and are all cases."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.fuzz import support


def test_each_share_has_a_fuzzer() -> None:
    trees = [ast.parse(path.read_text()) for path in Path(__file__).parent.glob("test_*.py")]
    texts = {
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(support.SHARES) <= texts
    assert sum(support.SHARES.values()) == 100
