"""Tests of the fixture `ipu_budget`, in a pytest of its own."""

from __future__ import annotations

import json
import textwrap

import pytest

PROGRAM = """
    import pytest
    import tensorflow as tf
    from tensorflow.python import ipu

    @pytest.fixture(params=[8])
    def program(request):
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        strategy = ipu.ipu_strategy.IPUStrategy()

        def run(units):
            with strategy.scope():
                weights = tf.Variable(tf.ones([units, units]))

                @tf.function(jit_compile=True)
                def step(x):
                    return tf.matmul(x, weights)

                return strategy.run(step, [tf.ones([4, units])])

        return run

    def test_fits(program, ipu_budget):
        program({units})
        ipu_budget("budgets/step.json")

    def test_runs_nothing(ipu_budget):
        with pytest.raises(pytest.fail.Exception, match="expected an IPU program"):
            ipu_budget("budgets/step.json")
"""


@pytest.fixture
def run_pytest(run_python, tmp_path):
    """Returns a function that writes the tests above and runs them; it returns what was printed."""

    def run(units, *options):
        source = textwrap.dedent(PROGRAM).replace("{units}", str(units))
        (tmp_path / "test_program.py").write_text(source)
        code = "import sys, pytest; print('code', int(pytest.main(sys.argv[1:])))"
        args = [str(tmp_path), "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), *options]
        return run_python(code, args=args, cwd=tmp_path).stdout

    return run


def test_budget_of_a_test(run_pytest, tmp_path):
    path = tmp_path / "budgets" / "step.json"
    out = run_pytest(64)
    assert "--update-ipu-budgets" in out and "code 1" in out  # there is none yet
    assert "code 0" in run_pytest(64, "--update-ipu-budgets")
    assert json.loads(path.read_text())["limits"]["cycles"] > 0
    assert "code 0" in run_pytest(64)
    out = run_pytest(512)
    assert "over budget" in out and "variables bytes" in out and "code 1" in out


def test_the_tolerance_of_a_test_stands_for_that_of_the_file(run_pytest, tmp_path, monkeypatch):
    path = tmp_path / "budgets" / "step.json"
    tolerant = PROGRAM.replace('"budgets/step.json")', '"budgets/step.json", tolerance=50)', 1)
    assert "code 0" in run_pytest(64, "--update-ipu-budgets")
    data = json.loads(path.read_text())
    data["limits"], data["layers"] = {"cycles": data["limits"]["cycles"] / 1.2}, {}
    path.write_text(json.dumps(data))
    assert "over budget" in run_pytest(64)
    monkeypatch.setitem(globals(), "PROGRAM", tolerant)
    assert "code 0" in run_pytest(64)
