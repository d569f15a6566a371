"""The names by which programs written for the original reach Keras and the add-ons."""

from __future__ import annotations

import importlib
import sys

import pytest
import tensorflow as tf

from tensorflow_ipu.import_hook import tables
from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers import layers, losses
from tensorflow_ipu.ops import rnn_ops
from tests.support.checkout.versions import has_tensorflow, needs_tensorflow

# Below `keras.ipu` and `tensorflow.python.ipu.keras`.
CLASSES = [name[len("keras.") :] for name in tables.NAMES if name.startswith("keras.")]
MODULES = [name[len("keras.") :] for name in tables.MODULES if name.startswith("keras.")]

LAYERS = """AssumeEqualAcrossReplicas CTCInferenceLayer CTCPredictionsLayer
    CaptureActivationGradients
    CaptureUpstreamGradients Dropout EffectiveTransformer Embedding GroupNorm GroupNormalization GRU
    InstanceNorm InstanceNormalization LayerNorm LayerNormalization LSTM PopnnGRU PopnnLSTM
    RecomputationCheckpoint SerialDense""".split()


# The names of Keras that this TensorFlow has.
KERAS = [
    name
    for name in tables.KERAS
    if name == "keras" or name.partition(".")[0] in ("tensorflow", keras2.PACKAGE)
]


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("keras", [*KERAS, "tensorflow.python"])
def test_every_keras_has_the_ipu_module(keras, name):
    package = f"{keras}.ipu.keras" if keras == "tensorflow.python" else f"{keras}.ipu"
    module = importlib.import_module(f"{package}.{name}")
    assert module is sys.modules[f"tensorflow_ipu.{tables.MODULES['keras.' + name]}"]
    assert getattr(tf.keras.ipu, name) is module


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_is_in_keras_ipu(name):
    found = getattr(tf.keras.ipu, name)
    assert isinstance(found, type) and found.__name__ == name
    assert name in dir(tf.keras.ipu)


def test_all_documented_classes_are_public():
    assert sorted(layers.__all__) == sorted(LAYERS)
    assert losses.__all__ == ["CTCLoss"]
    assert {"PipelineStage", "ReplicatedMetricReductionMethod"} < set(CLASSES)


# From TensorFlow 2.16 on these load Keras 3 before Python comes to ipu.
BELOW_KERAS = [
    "import tensorflow.keras.ipu\nipu = tensorflow.keras.ipu",
    "from tensorflow.keras import ipu",
    "import tensorflow.keras as k\nimport tensorflow.python.ipu.config\nipu = k.ipu",
]
IMPORTS = [
    *(BELOW_KERAS if has_tensorflow("<2.16") else []),
    "import keras.ipu\nipu = keras.ipu",
    "from keras import ipu",
    "from tensorflow.python import ipu\nimport tensorflow as tf\nipu = tf.keras.ipu",
    "from tensorflow import keras\nimport tensorflow.python.ipu.config\nipu = keras.ipu",
    # Nothing of Keras is loaded when ours is.
    "import tensorflow_ipu.configs\nfrom tensorflow import keras\nipu = keras.ipu",
    "import tensorflow_ipu.configs\nimport tensorflow.keras as k\nipu = k.ipu",
]


@pytest.mark.parametrize("statements", IMPORTS)
def test_one_import_statement_is_enough(run_python, statements):
    """In a process of its own: each statement would do for those that follow."""
    run_python(
        f"{statements}\n"
        "import sys\n"
        "assert ipu is sys.modules['tensorflow_ipu.api.keras'], ipu\n"
        "assert 'tensorflow_ipu.keras_layers' not in sys.modules\n"
        "import keras, tensorflow as tf, tensorflow.keras as second\n"
        "for module in (keras, tf.keras, second):\n"
        "    assert module.ipu is ipu and 'ipu' in dir(module), module\n"
        "    loader = module.__spec__.loader\n"
        "    assert loader is module.__loader__, loader\n"
        "    assert type(loader).__module__.startswith('_frozen_importlib'), loader\n"
        "assert ipu.PipelineStage.__name__ == 'PipelineStage'\n"
    )


@needs_tensorflow(">=2.16", "ipu comes in time for all statements")
@pytest.mark.parametrize("statements", BELOW_KERAS)
def test_statements_loading_keras_3_first_are_refused(run_python, statements):
    code = f"{statements}\ntry: ipu.PipelineStage\nexcept ImportError as error: print(error)\n"
    assert "the program used it before it imported ipu" in run_python(code).stdout


def test_programs_without_ipus_have_their_keras(run_python):
    run_python(
        "import sys\n"
        "import keras, tensorflow as tf, tensorflow.keras as second\n"
        "for module in (keras, tf.keras, second):\n"
        "    assert not hasattr(module, 'ipu') and 'ipu' not in dir(module), module\n"
        "ours = {name[15:] for name in sys.modules if name.startswith('tensorflow_ipu')}\n"
        "check = {'', '.built_for', '.releases'}  # of the native library\n"
        "hook = {'', '.finder', '.lazy', '.tables', *('.versions' + name for name in check)}\n"
        "assert ours == {'', *('import_hook' + name for name in hook)}, ours\n"
    )


@pytest.mark.parametrize("name", ["keras.ipu.nothing", "tensorflow.keras.ipu.layers.nothing"])
def test_unknown_module_of_keras_ipu_is_not_found(name):
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
        importlib.import_module(name)


def test_unknown_name_of_keras_ipu_is_not_found():
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from tensorflow.keras.ipu import Nothing")


def test_similar_names_are_not_ours():
    for name in ("keras.ipus", "ipu_tensorflow_addons_of_others", "tensorflow.python.ipus"):
        with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
            importlib.import_module(name)


def test_addons_are_the_same_modules():
    import ipu_tensorflow_addons as addons
    import ipu_tensorflow_addons.keras.layers
    from ipu_tensorflow_addons.keras import layers as keras_layers
    from ipu_tensorflow_addons.v1 import layers as v1_layers

    assert keras_layers is layers and addons.keras.layers is layers
    assert v1_layers is rnn_ops and v1_layers.PopnnLSTM is rnn_ops.PopnnLSTM
    assert addons.keras.losses is losses
    assert {"keras", "v1"} < set(dir(addons)) and "layers" in dir(addons.keras)


@pytest.mark.parametrize(
    "statement",
    [
        "import ipu_tensorflow_addons.keras.callbacks",
        "from ipu_tensorflow_addons.keras import callbacks",
        "import ipu_tensorflow_addons.v2",
    ],
)
def test_addon_that_is_not_there(statement):
    with pytest.raises(ImportError, match="tensorflow_ipu has no ipu_tensorflow_addons.* it has:"):
        exec(statement)


def test_attribute_of_addons_that_is_not_there():
    from ipu_tensorflow_addons import v1

    with pytest.raises(AttributeError, match="has no ipu_tensorflow_addons.v1.optimizers"):
        v1.optimizers  # noqa: B018
    assert not hasattr(v1, "optimizers")


def test_layers_are_modules_of_the_package():
    from tensorflow.python import ipu
    from tensorflow.python.ipu import layers as same

    assert ipu.layers is same is layers


def test_recurrent_layers_of_addons_have_tensorflow_1_path():
    from ipu_tensorflow_addons.layers.rnn_ops import (
        PopnnAUGRU,
        PopnnDynamicGRU,
        PopnnGRU,
        PopnnLSTM,
    )

    for found in (PopnnAUGRU, PopnnDynamicGRU, PopnnGRU, PopnnLSTM):
        assert getattr(rnn_ops, found.__name__) is found


@pytest.mark.parametrize("keras", ["keras.ipu", "tensorflow.keras.ipu", "tensorflow_ipu.keras"])
def test_every_keras_has_the_mark_of_ipus(keras):
    assert importlib.import_module(keras).__ipu__built__ == "1"
    assert tf.keras.ipu.__ipu__built__ == "1"


def test_the_reduction_method_is_beside_the_optimizers():
    from tensorflow.python import ipu

    found = ipu.optimizers.GradientAccumulationReductionMethod
    assert found is ipu.gradient_accumulation.GradientAccumulationReductionMethod
    assert "GradientAccumulationReductionMethod" in dir(ipu.optimizers)
