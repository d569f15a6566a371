"""Stubs of stubs/packages/, as installed for type checkers and editors."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tensorflow_ipu.configs.ipu_config import OPTIONS
from tensorflow_ipu.import_hook import tables

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "stubs" / "packages"


def _script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "stubs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_are_up_to_date():
    made = _script("make_stubs").make()
    found = {
        path.relative_to(PACKAGES).as_posix(): path.read_text(encoding="utf-8")
        for path in PACKAGES.rglob("*")
        if path.is_file()
    }
    assert found == made, "stubs/packages/ is out of date: run `make stubs`"


@pytest.mark.parametrize(
    "folder, table",
    [
        ("tensorflow-stubs/python/ipu", tables.MODULES),
        ("tensorflow-stubs/compiler/plugin/poplar", tables.POPLAR_MODULES),
        ("ipu_tensorflow_addons-stubs", tables.ADDONS_MODULES),
    ],
)
def test_every_public_module_has_a_file(folder, table):
    for name in table:
        path = PACKAGES / folder / name.replace(".", "/")
        assert path.with_suffix(".pyi").exists() or (path / "__init__.pyi").exists(), name


def test_tools_find_package_and_nothing_else_in_checkout():
    folder = ROOT / "stubs" / "checkout"
    package = folder / "tensorflow_ipu"
    assert list(folder.iterdir()) == [package]
    assert (package / "configs" / "chips.py").samefile(ROOT / "configs" / "chips.py")
    assert (package / "api" / "loops.py").samefile(ROOT / "tensorflow_ipu" / "api" / "loops.py")


# Each line that mypy is to complain of says so.
PROGRAM = """\
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import config as ipu_config
from tensorflow.python.ipu.config import IPUConfig, SelectionOrder
import tensorflow.python.ipu.config as dotted
from tensorflow.python.ipu.ops.embedding_ops import embedding_lookup
from tensorflow.python.framework import ops
from tensorflow.compiler.plugin.poplar.driver.trace_pb2 import IpuTraceEvent
from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
import tensorflow_ipu
import tensorflow_ipu.embedding_ops
from ipu_tensorflow_addons.keras import layers as addons
from ipu_tensorflow_addons.v1.layers import PopnnLSTM
import pva

config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.auto_select_ipus = [1, 1]
config.auto_select_ipus = "two"  # error: Incompatible types
config.selection_order = SelectionOrder.ZIGZAG
config.optimizations.math.fast = True
config.optimizations.math.fats = True  # error: "_OptimizationsMath" has no attribute "fats"
config.optimisations.math.fast = True  # error: "IPUConfig" has no attribute "optimisations"
config.optimizations = None  # error: read-only
config.convolutions.poplar_options = {"partialsType": "half"}
config.matmuls.poplar_options = {"partialsType": 1}  # error: Dict entry 0 has incompatible type
config.floating_point_behaviour.esr = ipu.config.StochasticRoundingBehaviour.ON
config.configure_ipu_system()
config.configure_ipu_sytem()  # error: "IPUConfig" has no attribute "configure_ipu_sytem"
names: list[str] = [name for name, value in config.items()]

same: IPUConfig = dotted.IPUConfig()
same = ipu_config.IPUConfig()
same = tensorflow_ipu.config.IPUConfig()
ipu.ipu_run_config.IPURunConfig(ipu_options=same)
ipu.utils.configure_ipu_system(same)

strategy: ipu.ipu_strategy.IPUStrategyV1 = ipu.ipu_strategy.IPUStrategy()
stage: ipu.keras.PipelineStage = ipu.keras.PipelineStage("0")  # error: incompatible type "str"
tensorflow_ipu.embedding_ops.embedding_lookup(1, 2, serialization_factor="")  # error: "str"
embedding_lookup(1, 2, serialization_factor=2)
reduction = ipu.gradient_accumulation.GradientAccumulationReductionMethod.SUM
ipu.loops.repeat(3, lambda x: x, infeed_queue=1)  # error: incompatible type "int"
ipu.optimizers.CrossReplicaOptimizer
ipu.ipu_compilr  # error: has no attribute "ipu_compilr"
gen_ipu_ops.ipu_event_trace(3)  # error: incompatible type "int"
event = IpuTraceEvent()
addons.PopnnGRU("8")  # error: incompatible type "str"
PopnnLSTM("8")  # error: incompatible type "str"

report: pva.Report = pva.openReport("profile.pop")
sizes: list[int] = [tile.memory.total.includingGaps for tile in report.compilation.tiles]
report.compilation.graph.numTriangles  # error: "Graph" has no attribute "numTriangles"

class Model(tf.keras.Model):
    def call(self, x: tf.Tensor) -> tf.Tensor:
        ops.get_default_graph().anything()
        return tf.nn.relu(x)
"""


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """Returns a function that runs mypy on a program, and returns its messages by line."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("mypy")

    def run(program, *options, env=None):
        path = folder / "program.py"
        path.write_text(program)
        command = [
            sys.executable,
            "-m",
            "mypy",
            "--config-file=",
            f"--cache-dir={folder / 'cache'}",
        ]
        command += ["--no-error-summary", "--hide-error-codes", *options, path.name]
        process = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, **(env or {})},
        )
        assert not process.stderr, process.stderr
        messages = {}
        for line in process.stdout.splitlines():
            match = re.fullmatch(r"program.py:(\d+): (?:error|note): (.*)", line)
            assert match, process.stdout
            messages.setdefault(int(match.group(1)), []).append(match.group(2))
        return messages

    return run


def test_type_checker_knows_modules_and_options(mypy):
    found = mypy(PROGRAM, "--ignore-missing-imports")
    expected = {
        number: line.split("# error: ")[1]
        for number, line in enumerate(PROGRAM.splitlines(), 1)
        if "# error: " in line
    }
    assert set(found) == set(expected), found
    for number, phrase in expected.items():
        assert any(phrase in message for message in found[number]), found[number]


def test_every_option_has_its_type(mypy):
    lines = [f"reveal_type(config.{name})" for name in OPTIONS]
    head = "from tensorflow.python.ipu.config import IPUConfig\nconfig = IPUConfig()\n"
    found = mypy(head + "\n".join(lines) + "\n", "--ignore-missing-imports")
    for number, (name, option) in enumerate(OPTIONS.items(), 3):
        ((message,),) = [found[number]]
        shown = re.fullmatch(r'Revealed type is "(.*)"', message).group(1)
        known = {bool: "bool", int: "int", float: "float", str: "str", dict: "dict[str, str]"}
        if option.type in known:
            assert shown.replace("builtins.", "") == known[option.type], name
        else:
            assert "Any" not in shown, name


def test_the_rest_of_tensorflow_is_as_before(mypy):
    """Without stubs of its own, which nobody has to have, it has no types."""
    found = mypy(
        "import tensorflow as tf\nfrom tensorflow import keras\nreveal_type(tf.constant)\n"
    )
    assert "stubs not installed" in found[1][0] or "missing library stubs" in found[1][0]
    assert found[3] == ['Revealed type is "Any"']


def test_other_tensorflow_stubs_work_beside_ours(mypy, tmp_path):
    theirs = tmp_path / "tensorflow-stubs"
    (theirs / "python").mkdir(parents=True)
    unknown = "from typing import Any\ndef __getattr__(name: str) -> Any: ...\n"
    (theirs / "__init__.pyi").write_text(f"{unknown}class Tensor: ...\n")
    (theirs / "python" / "__init__.pyi").write_text(unknown)
    (theirs / "py.typed").write_text("partial\n")
    found = mypy(
        "import tensorflow as tf\n"
        "from tensorflow.python import ipu\n"
        "reveal_type(tf.Tensor())\n"
        "reveal_type(ipu.config.IPUConfig().io_tiles.num_io_tiles)\n",
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert found == {
        3: ['Revealed type is "tensorflow.Tensor"'],
        4: ['Revealed type is "int"'],
    }


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """Returns a function that makes a program in an editor of its source."""
    jedi = pytest.importorskip("jedi")
    environment = jedi.create_environment(sys.prefix, safe=False)
    # Elsewhere, as in the checkout jedi would take its folders for packages.
    project = jedi.Project(tmp_path_factory.mktemp("project"))
    return lambda code: jedi.Script(code, environment=environment, project=project)


IMPORT = "from tensorflow.python import ipu\n"


@pytest.mark.parametrize(
    "code, wanted",
    [
        (f"{IMPORT}ipu.", {"config", "ipu_strategy", "keras", "loops", "ops", "utils", "function"}),
        (f"{IMPORT}ipu.config.IPUConfig().", {"auto_select_ipus", "optimizations", "io_tiles"}),
        (f"{IMPORT}ipu.config.IPUConfig().norms.experimental.", {"to_json"}),
        (f"{IMPORT}ipu.keras.Pip", {"PipelineStage"}),
        (f"{IMPORT}ipu.ipu_strategy.IPUStrategy().", {"run", "scope", "device_ordinal"}),
        ("from tensorflow.python.ipu import ", {"config", "pipelining_ops", "scopes"}),
        ("from tensorflow.python.ipu.config import ", {"IPUConfig", "SelectionOrder"}),
        ("from tensorflow.python.ipu.utils import create", {"create_ipu_config"}),
        ("import tensorflow_ipu as ipu\nipu.", {"config", "embedding_ops", "profiler"}),
        ("import tensorflow_ipu as ipu\nipu.profiler.", {"Report", "profile", "summary"}),
        ("from ipu_tensorflow_addons.keras import layers\nlayers.", {"PopnnLSTM"}),
        ("from tensorflow.compiler.plugin.poplar.ops import gen_", {"gen_ipu_ops"}),
        ("import tensorflow as tf\ntf.consta", {"constant"}),
        ("from tensorflow.python.framework import ops\nops.Gra", {"Graph"}),
    ],
)
def test_names_are_completed(script, code, wanted):
    assert wanted <= {completion.name for completion in script(code).complete()}


def test_every_option_is_completed_with_its_description(script):
    by_category = {}
    for name, option in OPTIONS.items():
        by_category.setdefault(name.rpartition(".")[0], []).append(option)
    for category, options in by_category.items():
        code = f"{IMPORT}ipu.config.IPUConfig().{category}".rstrip(".")
        completions = {found.name: found for found in script(f"{code}.").complete()}
        for option in options:
            described = " ".join(completions[option.name].docstring().split())
            assert " ".join(option.doc.split()) in described, option.name
            assert f"Default: {option.default!r}" in described, option.name


def test_signatures_of_functions_are_known(script):
    (signature,) = script(f"{IMPORT}ipu.loops.repeat(").get_signatures()
    assert [parameter.name for parameter in signature.params][:2] == ["n", "body"]


def test_definition_is_in_the_source(script):
    code = "from tensorflow.python.ipu.embedding_ops import embedding_lookup\nembedding_lookup"
    (found,) = script(code).goto(2, 5, follow_imports=True, follow_builtin_imports=True)
    assert found.module_path.samefile(ROOT / "ops" / "embedding_ops.py")
