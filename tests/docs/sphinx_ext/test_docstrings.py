"""Tests that docstrings become reStructuredText that shows the same."""

from __future__ import annotations

import pytest
from sphinx_ext.docstrings import fields, restructured, without_type


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("Takes `x`.", "Takes ``x``."),
        ("Several `Tensor`s.", r"Several ``Tensor``\ s."),
        ("``kept`` as it is", "``kept`` as it is"),
        ("`a * b_` stays, a * b does not", r"``a * b_`` stays, a \* b does not"),
        ("add_ and a_b", r"add\_ and a_b"),
        ("|x| and C:\\temp", "\\|x\\| and C:\\\\temp"),
        ("* a list\n* of *two*", "* a list\n* of \\*two\\*"),
        ("A list:\n* one", "A list:\n\n* one"),
        ("    x: one of\n        * a\n        * b", "    x: one of\n\n        * a\n        * b"),
    ],
)
def test_markdown_becomes_restructured_text(markdown, expected):
    assert restructured(markdown) == expected


def test_colon_in_what_is_returned_makes_no_type():
    before, after = "Returns a pair.\n\n", "\n\nRaises:\n    ValueError: no."
    section = "Returns:\n    A pair: one\n    and two."
    expected = f"{before}:returns: A pair: one\n    and two.{after}"
    assert fields(before + section + after) == expected


def test_colon_in_what_value_is_makes_no_type():
    dashed = "Always 1 \N{EN DASH} see ``a: b``."
    assert without_type("Always 1: see ``a: b``.") == dashed
