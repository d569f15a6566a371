"""Tests of what is named in the place of ops that the chip lacks."""

from __future__ import annotations

import re

import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tensorflow_ipu.compiler.operators import advice


@pytest.mark.parametrize("text", [text for _, text in advice.INSTEAD] + [advice.mend("Lu2")])
def test_what_is_named_exists(text):
    for path in re.findall(r"\b(?:tf|ipu)(?:\.\w+)+", text):
        module, *names = path.split(".")
        found = {"tf": tf, "ipu": ipu}[module]
        for name in names:
            found = getattr(found, name)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("Where", "three arguments"),
        ("NonMaxSuppressionV3", "boxes"),
        ("SparseSegmentSum", "unsorted_segment_sum"),
        ("SparseReorder", "dense before the program"),
        ("PrintV2", "print_tensor"),
        ("Range", "a Python number"),
        ("Svd", "on the host"),
    ],
)
def test_there_is_something_to_do_about_each_op(op, expected):
    assert expected in advice.mend(op)


def test_nothing_special_is_known_of_most_ops():
    assert advice.instead("Svd") is None
