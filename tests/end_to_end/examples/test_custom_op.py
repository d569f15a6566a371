"""Tests that the example of custom operations builds its libraries and agrees with TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "examples" / "custom_op" / "custom_op.py"

RUN = """
import runpy, sys
sys.argv = [{path!r}, *sys.argv[1:]]
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.mark.parametrize("keep", [False, True])
def test_results_equal_those_of_tensorflow(run_program, keep, tmp_path):
    arguments = ["--build", str(tmp_path)] if keep else []
    output = run_program(RUN.format(path=str(PROGRAM)), args=arguments).stdout
    for name in ("value", "gradient of x", "gradient of weight", "codelet expression"):
        assert f"{name}: equal to TensorFlow's" in output
    built = {path.name for path in tmp_path.iterdir()}
    assert built == ({"libscale.so", "libweighted_square.so"} if keep else set())
    assert not list(PROGRAM.parent.glob("*.so"))
