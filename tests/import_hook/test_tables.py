"""Every documented name is importable; one module has all its names."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import tensorflow_ipu
from tensorflow_ipu.import_hook import finder, tables

ROOT = Path(__file__).resolve().parents[2]

OP_MODULES = """all_to_all_op cross_replica_ops custom_ops embedding_ops functional_ops image_ops
    internal_ops math_ops nn_ops normalization_ops pipelining_ops rand_ops reduce_scatter_op
    replication_ops rnn_ops slicing_ops statistics_ops summary_ops""".split()

OPTIMIZER_MODULES = """cross_replica_optimizer gradient_accumulation_optimizer
    map_gradient_optimizer sharded_optimizer""".split()

# The modules of chapter 18 of the API reference, below `tensorflow.python.ipu`.
DOCUMENTED = [
    *"""config data data.ops data.ops.dataset_ops dataset_benchmark horovod
    horovod.ipu_horovod_strategy horovod.ipu_multi_replica_strategy ipu_compiler ipu_estimator
    ipu_infeed_queue ipu_multi_worker_strategy ipu_outfeed_queue ipu_pipeline_estimator
    ipu_run_config ipu_session_run_hooks keras keras.layers loops ops optimizers scopes sharding
    utils""".split(),
    *OP_MODULES,
    *(f"ops.{name}" for name in OP_MODULES),
    *OPTIMIZER_MODULES,
    *(f"optimizers.{name}" for name in OPTIMIZER_MODULES),
]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_module_is_there(name):
    assert name in tables.MODULES


@pytest.mark.parametrize("name", tables.MODULES)
def test_module_is_the_same_under_all_its_names(name):
    module = importlib.import_module(f"tensorflow_ipu.{tables.MODULES[name]}")
    assert importlib.import_module(f"tensorflow.python.ipu.{name}") is module
    assert importlib.import_module(f"tensorflow_ipu.{name}") is module
    assert module.__name__ == module.__spec__.name == f"tensorflow_ipu.{tables.MODULES[name]}"


def test_modules_are_attributes_of_their_packages(run_python):
    """In a process of its own, where no earlier import has set the attributes."""
    run_python(
        "import sys\n"
        "from tensorflow.python import ipu\n"
        "from tensorflow_ipu.import_hook import tables\n"
        "for name in tables.MODULES:\n"
        "    module = ipu\n"
        "    for part in name.split('.'):\n"
        "        assert part in dir(module), (name, module)\n"
        "        module = getattr(module, part)\n"
        "    assert module is sys.modules[f'tensorflow_ipu.{tables.MODULES[name]}'], name\n"
    )


@pytest.mark.parametrize("name", tables.POPLAR_MODULES)
def test_modules_below_the_poplar_plugin_are_found(name):
    module = importlib.import_module(f"tensorflow.compiler.plugin.poplar.{name}")
    assert module is sys.modules[f"tensorflow_ipu.{tables.POPLAR_MODULES[name]}"]


def test_documented_modules_of_the_package_are_found():
    for name, path in tables.OWN_PATHS.items():
        module = importlib.import_module(f"{tables.PACKAGE}.{path}")
        assert importlib.import_module(f"{tables.PACKAGE}.{name}") is module


def test_the_package_has_both_names():
    from tensorflow.python import ipu

    assert ipu is tensorflow_ipu
    assert ipu.__name__ == ipu.__spec__.name == "tensorflow_ipu"


# What some release of the original had -> what the error says to use.
FORMER = {
    "tensorflow.python.ipu.keras.PipelineModel": "model.set_pipelining_options",
    "tensorflow.python.ipu.keras.PipelineSequential": "model.set_pipeline_stage_assignment",
    "tensorflow.python.ipu.keras.Sequential": "ordinary tf.keras.Sequential",
    "tensorflow.python.ipu.keras.metrics": "stock tf.keras.metrics",
    "tensorflow.python.ipu.ops.nn_ops_grad": "leave the import out",
    "tensorflow.python.ipu.ops.experimental.popfloat_ops": "ipu.f8_ops",
    "tensorflow.python.ipu.test_utils": "ipu.profiler",
    "tensorflow.compiler.plugin.poplar.ops.gen_sendrecv_ops": "ipu.ipu_infeed_queue",
    "tensorflow.compiler.plugin.poplar.driver.threestate_pb2": "None, True or False",
    "tensorflow.compiler.plugin.poplar.tests.test_utils": "ipu.profiler",
    "ipu_tensorflow_addons.keras.metrics": "stock tf.keras.metrics",
    "ipu_tensorflow_addons.keras.nothing": "it has: .*ipu_tensorflow_addons.keras.optimizers",
}


@pytest.mark.parametrize("name", FORMER)
def test_former_name_says_what_to_use(name):
    phrase = f"tensorflow_ipu has no .*{FORMER[name]}"
    with pytest.raises(ModuleNotFoundError, match=phrase):
        importlib.import_module(name)
    package, _, last = name.rpartition(".")
    with pytest.raises(ImportError, match=phrase):
        exec(f"from {package} import {last}")


@pytest.mark.parametrize("package", ["tensorflow.keras.ipu", "tensorflow_ipu.keras"])
def test_former_name_points_to_current_one(package):
    module = importlib.import_module(package)
    assert not hasattr(module, "PipelineModel")
    with pytest.raises(AttributeError, match="no .*keras.PipelineModel: it was a Keras class"):
        module.PipelineModel  # noqa: B018
    with pytest.raises(ImportError, match="keras.PipelineModel"):
        importlib.import_module(f"{package}.PipelineModel")


@pytest.mark.parametrize(
    "name",
    [
        "tensorflow.python.ipu.no_such_module",
        "tensorflow.python.ipu.compiler",  # private: a second copy of it must not be loaded
        "tensorflow.compiler.plugin.poplar.ops.no_such_module",
        "tensorflow_ipu.no_such_module",
    ],
)
def test_an_unknown_module_is_not_found(name):
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'") as raised:
        importlib.import_module(name)
    assert raised.value.name == name


def test_an_unknown_attribute_is_an_error():
    with pytest.raises(AttributeError, match="module 'tensorflow_ipu' has no attribute 'nothing'"):
        tensorflow_ipu.nothing  # noqa: B018


def test_installing_twice_changes_nothing():
    finder.install()
    assert sys.meta_path.count(finder.Finder) == 1


def test_modules_are_imported_by_a_bare_interpreter(run_python):
    run_python(
        "from tensorflow.python.ipu.config import IPUConfig\n"
        "import tensorflow.python.ipu.ops.internal_ops\n"
        "from tensorflow.python import ipu\n"
        "import tensorflow_ipu\n"
        "assert ipu is tensorflow_ipu and ipu.config.IPUConfig is IPUConfig\n"
    )


def test_start_and_import_do_not_load_tensorflow(run_python):
    process = run_python(
        "import sys\n"
        "print(*(name for name in sys.modules if name.startswith('tensorflow')))\n"
        "import tensorflow_ipu.configs\n"
        "print('tensorflow' in sys.modules)\n"
    )
    assert process.stdout.split("\n")[:2] == [
        "tensorflow_ipu.import_hook tensorflow_ipu.import_hook.tables "
        "tensorflow_ipu.import_hook.lazy tensorflow_ipu.import_hook.finder tensorflow_ipu",
        "False",
    ]
