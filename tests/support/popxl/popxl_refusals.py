"""Tables of PopXL's refusals: the class of the error, and words of its text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import popxl
import pytest

PE = popxl.errors.popart_exception


@dataclasses.dataclass
class Refused:
    """A wrong use.

    Attributes:
        name: What is wrong with it.
        error: The class of the error; a subclass is not enough for `popart_exception`.
        words: What its text has, at its beginning if `^` is before it; empty if that is left open.
        build: Does it, in the main graph of an Ir.
        replicas: Number of replicas of the Ir.
    """

    name: str
    error: type[Exception] | tuple[type[Exception], ...]
    words: str
    build: Callable[[], Any]
    replicas: int = 1

    def check(self):
        """Asserts that it is refused, and that the contexts are as before."""
        ir = popxl.Ir(self.replicas)
        start = self.words[:1] if self.words.startswith("^") else ""
        pattern = start + re.escape(self.words.removeprefix("^"))
        with ir.main_graph:
            with pytest.raises(self.error, match=pattern or None):
                self.build()
            assert popxl.gcg() is ir.main_graph
        with pytest.raises(RuntimeError, match="no graph has been selected"):
            popxl.gcg()


def table(*rows):
    """Returns the decorator that runs a test for each row."""
    cases = [row if isinstance(row, Refused) else Refused(*row) for row in rows]
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


def f32(*shape):
    """Returns a variable of ones, of float32."""
    return popxl.variable(np.ones(shape, np.float32))


def f16(*shape):
    """Returns a variable of ones, of float16."""
    return popxl.variable(np.ones(shape, np.float16))


def i32(*shape):
    """Returns a variable of ones, of int32."""
    return popxl.variable(np.ones(shape, np.int32))


def elsewhere(*shape):
    """Returns a constant of another graph."""
    with popxl.gir().create_empty_graph("other"):
        return popxl.constant(np.ones(shape, np.float32))


def graph_of(fn, *args):
    """Returns a graph of a function."""
    return popxl.gir().create_graph(fn, *args)
