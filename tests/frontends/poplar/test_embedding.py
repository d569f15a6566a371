"""Operations that run on buffers of the caller: values are worked out by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

RESULTS = {
    "vertices": "out: 2 3 4 5\n" * 3,
    "views": """\
view: 1 2 3 4
view: 4 3 2 1
view: 2 3 4 5
view: 2 3 4 5
view: 9 8 7 6
""",
    "state": "first: 2 2 2 2\nsecond: 1 1 1 1\n",
    "inPlace": """\
shares: 0
in: 1 2 3 4
out: 2 3 4 5
shares: 0
in: 2 3 4 5
out: 0 0 0 0
""",
    "branches": """\
one: 1 2 3 4
both: 1 2 3 4
one: 1 2 3 4
both: 4 3 2 1
""",
    "allocator": "tile 3: 1\nout: 5 6 7 8\n",
    "errors": """\
number: poplar_error Instruction op has mismatched outputs number, expected: 1, returned: 0
shape: poplar_error Output 0 is declared as float{4}, and the operation made float{2}.
throws: poplar_error no idea
unmapped: invalid_tile_mapping The tensor 'lost' has elements that are not mapped to a tile.
No operation is registered as 'mine': load the library that has it.
file
""",
}


@pytest.mark.parametrize("name", RESULTS)
def test_embedded_operations_print(run_poplar: Callable[..., str], name: str) -> None:
    assert run_poplar("embedding.cpp", name) == RESULTS[name]
