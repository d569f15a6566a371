"""Programs, vertices and errors of Poplar: values are worked out by hand."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

RESULTS = {
    "fields": """\
/print-tensor: [43.000000 33.000000 23.000000 13.000000]
sums: [10  5]
list: [
  [3.0000000 2.0000000 1.0000000]
  [2.0000000 1.0000000 4.0000000]
]
""",
    "templates": """\
float: [-1.5000000 -3.0000000 -6.0000000 -1.0000000]
half: [1.5000000 3.0000000 6.0000000 1.0000000]
""",
    "control": """\
value: [1]
value: [2]
value: [3]
value: [4]
five: [5]
false: [5]
other: [4]
""",
    "abort": "application_runtime_error: enough\n",
    "host": """\
out 4
out 8
twice: [16.000000 14.000000 12.000000 10.000000]
row 3: 8 7
read 42 10
""",
    "statics": """\
first: [1101 1101 2102]
second: [3103 2102 4104]
""",
}

ERRORS = {
    "unmapped": ("invalid_tile_mapping", "'loose' is not mapped: 4 elements"),
    "conflict": (
        "graph_cycle_error",
        "Field forms::Supervised.value writes to elements [0:1) of variable 'value' that are "
        "written to elsewhere in same compute set",
    ),
    "unconnected": ("graph_connection_error", "Field forms::Supervised.value is not connected"),
    "unknown_vertex": ("unknown_vertex_type", "'forms::None'"),
    "unknown_field": ("unknown_field", "no field 'none'"),
    "wrong_type": ("type_error", "elements of unsigned int, the tensor 't' of float"),
    "constant_written": ("graph_connection_error", "is a constant"),
    "copy_sizes": ("control_program_error", "source {4} of float and destination {3} of float"),
    "slice_outside": ("index_error", "[2,5) is not within dimension 0 of shape {4}"),
    "stream_not_connected": ("stream_connection_error", "'in' is used, and nothing is connected"),
    "no_option": ("invalid_option", "An engine has no option 'debug.instruments'"),
    "does_not_compile": ("graph_program_compilation_error", "'x' was not declared"),
    "pointer_field": (
        "graph_program_compilation_error",
        "Field 'V.buffer' has unsupported field type 'char *'",
    ),
    "assembly": ("graph_program_compilation_error", "inline assembly of the chip"),
    "symbol": ("link_error", "undefined symbol"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_programs_print(run_poplar: Callable[..., str], name: str) -> None:
    assert run_poplar("programs.cpp", name) == RESULTS[name]


@pytest.mark.skipif(os.cpu_count() == 1, reason="needs two threads")
def test_vertices_without_static_variables_share_threads(run_poplar: Callable[..., str]) -> None:
    assert run_poplar("programs.cpp", "threads") == "met: [1]\n"


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_fault(run_poplar: Callable[..., str], name: str) -> None:
    kind, text = ERRORS[name]
    output = run_poplar("programs.cpp", name).replace("‘", "'").replace("’", "'")
    assert output.startswith(f"{kind}: ")
    assert text in output
