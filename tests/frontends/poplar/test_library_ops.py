"""Ops of libraries as the core runs them: aliasing, views and errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

RESULTS = {
    # The kernel would read what it wrote: it gets a copy.
    "overlap": "t: [ 1 10 20 30 40 50]\n",
    # Not the same tensor, though the kernel allows that.
    "partial": "t: [ 1  2  3 10 20 30]\n",
    "same": "same\nt: [ 2  4  6  8 10 12]\n",
    "views": "apart\nt: [7 6 5 9 8 7]\n",
    # Element 0 of the output keeps its value in a view that is not contiguous.
    "unwritten": "t: [ 1 20  3 10  5  6]\n",
    "loaded": "t: [ 5  6  7  8  9 10]\n",
    "missing": "link_error: The program has the op 'nowhere::op', and its library is not loaded: "
    "link the program with -lnowhere.\n",
    "parts": "parts right\nthrown by a part\n",
}


@pytest.mark.parametrize("name", RESULTS)
def test_library_ops_print(run_poplar: Callable[..., str], name: str) -> None:
    assert run_poplar("library_ops.cpp", name) == RESULTS[name]
