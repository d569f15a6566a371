"""Tests of which Keras `tf.keras` is, in processes of their own."""

from __future__ import annotations

import types

import pytest

from tensorflow_ipu.import_hook.versions import legacy_keras
from tests.support.checkout.versions import needs_tensorflow

KERAS_3 = needs_tensorflow(">=2.16", "tf.keras is Keras 2 in any program")
TF = "import tensorflow as tf\n"
IPU = "from tensorflow.python import ipu\n"

# What `tf.keras` is, below every name that TensorFlow has for it.
SHOW = """
import os
import tensorflow.compat.v1.keras.layers as v1
import tensorflow.keras.layers as second
names = {
    getattr(thing, "__name__", thing.__class__.__name__): thing.__module__.split(".")[0]
    for thing in (tf.keras.Model, tf.losses.Loss, tf.optimizers.SGD, tf.compat.v2.keras.Sequential,
                  second.Dense, v1.Flatten, tf.compat.v1.layers.Conv2D)
}
print(*sorted(set(names.values())), os.environ.get("TF_USE_LEGACY_KERAS"))
"""
SHOW_MODEL = "print(tf.keras.Model.__module__.split('.')[0])\n"


def _output(run_python, code, setting=None):
    """Runs code as a user does, without the variable of this process."""
    process = run_python(code, env={legacy_keras.VARIABLE: setting, "TF_CPP_MIN_LOG_LEVEL": "3"})
    return process.stdout.splitlines()[-1]


@KERAS_3
@pytest.mark.parametrize(
    "start",
    [
        TF + IPU,
        IPU + TF,
        "import tensorflow_ipu.configs\n" + TF,
        "from tensorflow import keras\n" + IPU + TF + "assert keras.Model is tf.keras.Model\n",
        "import tensorflow.compat.v1\nimport keras\n" + IPU + TF,
        "import popxl\n" + TF,
    ],
)
def test_keras_is_keras_2_in_ipu_programs(run_python, start):
    assert _output(run_python, start + SHOW) == "tf_keras 1"


@needs_tensorflow("<2.16", "Keras 2 is a package of its own")
def test_nothing_is_changed_where_keras_is_keras_2(run_python):
    assert _output(run_python, TF + IPU + SHOW) == "keras None"


@KERAS_3
@pytest.mark.parametrize(("setting", "package"), [("0", "keras"), ("1", "tf_keras")])
def test_the_variable_of_the_user_counts(run_python, setting, package):
    assert _output(run_python, TF + IPU + SHOW_MODEL, setting) == package


@KERAS_3
@pytest.mark.parametrize("use", ["tf.keras.Model\n", "import tensorflow.keras.layers\n"])
def test_keras_that_is_loaded_already_stays(run_python, use):
    assert _output(run_python, TF + use + IPU + SHOW_MODEL) == "keras"


@KERAS_3
def test_programs_without_ipus_have_keras_3(run_python):
    code = TF + "import pytest, tensorflow_ipu.pytest_plugin\n" + SHOW_MODEL
    code += "import os\nassert 'TF_USE_LEGACY_KERAS' not in os.environ\n" + SHOW_MODEL
    assert _output(run_python, code) == "keras"


@KERAS_3
@pytest.mark.parametrize("start", [TF + IPU, "import tensorflow_ipu.configs\n" + TF])
def test_missing_keras_2_fails_with_advice(run_python, start):
    missing = "import sys\nsys.modules['tf_keras'] = None\n"
    code = f"try:\n  exec({start!r})\nexcept ImportError as error:\n  print(error)\n"
    text = _output(run_python, missing + code)
    assert 'pip install "tf_keras~=2.' in text and "TF_USE_LEGACY_KERAS=0" in text


def test_the_release_is_that_of_the_module():
    nightly = types.SimpleNamespace(__version__="2.19.0-dev20250101")
    assert legacy_keras.release(nightly) == (2, 19)
    assert legacy_keras.requirement(nightly) == "tf_keras~=2.19.0"


def test_layers_are_made_after_a_seed_is_set(run_python):
    code = (
        "tf.keras.utils.set_random_seed(0)\nlayer = tf.keras.layers.Dense(1)\nlayer.build([1, 2])\n"
    )
    assert _output(run_python, TF + IPU + code + "print(layer.kernel.shape)\n") == "(2, 1)"
