"""Tests of the fixture `ipu_budget`, and of being installed at all, in a pytest of its own."""

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


# One process for several runs of pytest: importing TensorFlow takes most of the time of each.
RUNS = """
import json, pathlib, sys
import pytest

for source, options in json.loads(sys.argv[1]):
    pathlib.Path("test_program.py").write_text(source)
    sys.modules.pop("test_program", None)
    sys.dont_write_bytecode = True
    code = pytest.main([".", "-q", "-p", "no:cacheprovider", "--rootdir", ".", *options])
    print("code", int(code), flush=True)
    print("END OF RUN", flush=True)
"""


@pytest.fixture
def run_pytest(run_python, tmp_path):
    """Returns a function that runs tests several times; it returns the output of each run.

    Its arguments are a source and options of pytest for each run.
    """

    def run(*runs):
        pairs = [(source, options) for source, *options in runs]
        out = run_python(RUNS, args=[json.dumps(pairs)], cwd=tmp_path).stdout
        return out.split("END OF RUN")[:-1]

    return run


def source_of(units, program=PROGRAM):
    return textwrap.dedent(program).replace("{units}", str(units))


def test_a_budget_belongs_to_its_test(run_pytest, tmp_path):
    path = tmp_path / "budgets" / "step.json"
    small = source_of(64)
    missing, written, kept, exceeded = run_pytest(
        (small,), (small, "--update-ipu-budgets"), (small,), (source_of(512),)
    )
    assert "--update-ipu-budgets" in missing and "code 1" in missing  # there is none yet
    assert "code 0" in written
    assert json.loads(path.read_text())["limits"]["cycles"] > 0
    assert "code 0" in kept
    assert "over budget" in exceeded and "variables bytes" in exceeded and "code 1" in exceeded


def test_tolerance_of_test_stands_for_that_of_file(run_pytest, tmp_path):
    path = tmp_path / "budgets" / "step.json"
    tolerant = PROGRAM.replace('"budgets/step.json")', '"budgets/step.json", tolerance=50)', 1)
    (written,) = run_pytest((source_of(64), "--update-ipu-budgets"))
    assert "code 0" in written
    data = json.loads(path.read_text())
    data["limits"], data["layers"] = {"cycles": data["limits"]["cycles"] / 1.2}, {}
    path.write_text(json.dumps(data))
    exceeded, tolerated = run_pytest((source_of(64),), (source_of(64, tolerant),))
    assert "over budget" in exceeded
    assert "code 0" in tolerated


CONFTEST = """
    import sys

    assert "tensorflow_ipu" in sys.modules

    def pytest_configure(config):
        config.addinivalue_line("markers", "own: of this project")
"""
OTHERS = """
    import pytest

    @pytest.mark.own
    def test_of_others():
        assert 1 + 1 == 2
"""


@pytest.fixture(scope="module")
def as_from_a_wheel(tmp_path_factory):
    """A folder that makes pytest believe in a wheel, whose list of files has the package.

    pytest wants to rewrite the asserts of all files of a distribution that has a plugin. An
    editable installation, as this one may be, lists none but the plugin.
    """
    folder = tmp_path_factory.mktemp("site")
    metadata = folder / "tensorflow_ipu_wheel-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorflow-ipu-wheel\n")
    (metadata / "RECORD").write_text(
        "tensorflow_ipu/__init__.py,,\ntensorflow_ipu/pytest_plugin.py,,\n"
    )
    plugin = "[pytest11]\ntensorflow_ipu = tensorflow_ipu.pytest_plugin\n"
    (metadata / "entry_points.txt").write_text(plugin)
    return folder


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-p", "no:cacheprovider"),
        ("-n", "1"),
        ("--import-mode=importlib",),
        ("-p", "no:tensorflow_ipu"),
    ],
    ids=lambda options: " ".join(options) or "plain",
)
def test_projects_of_others_may_turn_warnings_into_errors(
    run_python, tmp_path, as_from_a_wheel, options
):
    (tmp_path / "conftest.py").write_text(textwrap.dedent(CONFTEST))
    (tmp_path / "test_others.py").write_text(textwrap.dedent(OTHERS))
    code = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    args = [str(tmp_path), "-q", "-W", "error", "--strict-markers", *options]
    env = {"PYTHONPATH": str(as_from_a_wheel), "PYTEST_ADDOPTS": None}
    assert "1 passed" in run_python(code, args=args, cwd=tmp_path, env=env).stdout


def test_plugin_has_the_fixture_in_such_a_project(run_python, tmp_path, as_from_a_wheel):
    code = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    args = [str(tmp_path), "-q", "-W", "error", "--fixtures"]
    (tmp_path / "test_others.py").write_text(textwrap.dedent(OTHERS).replace("own", "skip"))
    env = {"PYTHONPATH": str(as_from_a_wheel)}
    assert "ipu_budget" in run_python(code, args=args, cwd=tmp_path, env=env).stdout
