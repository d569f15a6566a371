"""Tests of tables and sentences that fit a width."""

from __future__ import annotations

import pytest

from tensorflow_ipu.util import text

ROWS = [
    ("name", "label", "bytes", "changes"),
    ("first", "modelled", "1,234,567", "mini-batches of 64 in place of 16"),
    ("second", "assumed", "89", "as it is"),
]


def aligned(width: int | None, **options: object) -> list[str]:
    with text.room(width):
        return text.aligned(ROWS, right=(2,), **options)  # type: ignore[arg-type]


def test_tables_without_a_width_are_whole() -> None:
    assert aligned(None, spare=("label",), wrap=True) == aligned(None)
    assert aligned(None)[1] == "first   modelled  1,234,567  mini-batches of 64 in place of 16"


@pytest.mark.parametrize("width", [40, 50, 60])
def test_rows_never_exceed_the_width(width: int) -> None:
    for options in ({}, {"spare": ("label",)}, {"wrap": True}):
        assert max(map(len, aligned(width, **options))) <= width


def test_columns_to_spare_go_first() -> None:
    assert aligned(50, spare=("label",))[-1] == "(no room for: label)"
    assert "modelled" in aligned(50)[1]


def test_wrapped_texts_keep_all_words() -> None:
    words = " ".join(aligned(50, spare=("label",), wrap=True)).split()
    assert set(ROWS[1][3].split()) <= set(words)
    assert not set(ROWS[1][3].split()) <= set(" ".join(aligned(50, spare=("label",))).split())


def test_sentences_are_broken_with_a_hanging_indent() -> None:
    with text.room(24):
        assert (
            text.fitted("  one two three four five\nsix") == "  one two three four\n    five\nsix"
        )
    assert text.fitted("one " * 40) == "one " * 40
