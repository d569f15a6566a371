"""Older programs, also for PopXL and PopART: as they stand, and migrated, they print the same."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tensorflow_ipu.cli.main import main

pytestmark = pytest.mark.process

# A part of a program that uses no name of TensorFlow 1 itself.
PART = """\
import tensorflow as tf


def mean(x):
    return tf.reduce_mean(x, keep_dims=True)
"""

TENSORFLOW_1 = """\
import os
import numpy as np
import tensorflow as tf
import tensorflow.contrib.rnn as rnn
from tensorflow.contrib.framework import arg_scope
from tensorflow.contrib import training
from tensorflow.keras.layers import Dense as KerasDense
from tensorflow.python import ipu, pywrap_tensorflow
from tensorflow.python.keras import backend as K
from tensorflow.python.keras.layers import Dense
import part

tf.app.flags.DEFINE_integer("size", 8, "rows")


def model(x):
    layers = tf.contrib.layers
    with arg_scope([layers.fully_connected], activation_fn=tf.nn.tanh):
        x = layers.fully_connected(x, 3, weights_initializer=layers.xavier_initializer(seed=3))
    loss = tf.reduce_mean(tf.square(x))
    return loss, tf.contrib.opt.LARSOptimizer(0.5).minimize(loss)


def main(_):
    hparams = training.HParams(size=tf.app.flags.FLAGS.size)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    x = tf.placeholder(np.float, [hparams.size / 2, 4])
    print(x.shape, x.shape[0] // 2)
    with tf.variable_scope("all", use_resource=True), ipu.scopes.ipu_scope("/device:IPU:0"):
        step = ipu.ipu_compiler.compile(model, [tf.cast(x, tf.float32)])
    ipu.utils.move_variable_initialization_to_cpu()
    plain = tf.get_variable("plain", [2])
    print(type(plain).__name__, plain.initialized_value().shape, part.mean(x).shape)
    print(Dense is KerasDense, K.epsilon(), rnn.LSTMStateTuple(1, 2))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        data = np.arange(16.0).reshape(4, 4)
        print([round(float(session.run(step, {x: data})[0]), 3) for _ in range(3)])
        path = tf.train.Saver().save(session, os.path.join(os.environ["FOLDER"], "model"))
    print(sorted(pywrap_tensorflow.NewCheckpointReader(path).get_variable_to_shape_map())[:2])


if __name__ == "__main__":
    tf.app.run()
"""

TENSORFLOW_2 = """\
import collections
import numpy as np
import tensorflow as tf
from tensorflow.keras.optimizers import SGD as Descent
from tensorflow.python import ipu
from keras.engine import data_adapter, network
from keras.engine.base_layer import Layer
from keras.optimizer_v2 import optimizer_v2
from keras.layers.recurrent import LSTMCell, GRU
from tensorflow.python.keras.layers import Dense
import tensorflow.python.keras.backend as K
import keras.utils.np_utils

import part


class Mine(tf.keras.optimizers.Optimizer):
    def __init__(self, rate=0.1, name="Mine", **kwargs):
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", rate)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        return var.assign_sub(self._get_hyper("learning_rate", var.dtype) * grad)


class Scaled(tf.keras.mixed_precision.experimental.LossScaleOptimizer):
    def __init__(self, optimizer):
        super().__init__(optimizer, 8)


class Other(tf.keras.mixed_precision.LossScaleOptimizer):
    pass


print(issubclass(Mine, optimizer_v2.OptimizerV2), issubclass(Dense, Layer), LSTMCell, GRU)
print(keras.utils.np_utils.to_categorical(np.array([1], np.int), 2), K, network.Functional)
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
x = np.ones([8, 3], np.float32)
with ipu.ipu_strategy.IPUStrategy().scope():
    model = tf.keras.Sequential(
        [Dense(2, "tanh", kernel_initializer="ones", input_shape=(3,)), Dense(1, name="out")]
    )
    model.get_layer("out").set_weights([np.ones([2, 1]), np.zeros([1])])
    model.compile(Mine(), "mse", steps_per_execution=2)
    history = model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0).history
    print([round(loss, 4) for loss in history["loss"]])
print(float(Scaled(Descent(0.1)).loss_scale), Other(tf.keras.optimizers.SGD(0.1)).dynamic)
statistics = tf.data.experimental.StatsAggregator()
print(isinstance([], collections.Iterable), statistics.get_summary(), data_adapter.__name__)
"""

# The optimizers of TensorFlow 2.6, which are chosen by what the program asks them or passes them.
OPTIMIZERS = """\
import numpy as np
import tensorflow as tf
from keras import losses as losses_module
from keras.losses import losses_utils, LossFunctionWrapper
from tensorflow.python.distribute import distribution_strategy_context
from tensorflow.python.eager import tape
from tensorflow.python import ipu

double = lambda pairs: [(2 * g, v) for g, v in pairs]
optimizer = tf.keras.optimizers.SGD(0.1, gradient_transformers=[double])
weight = tf.Variable(1.0)
with tf.GradientTape() as outer:
    loss = weight * 3
    with tape.stop_recording():
        weight * 5
optimizer.apply_gradients([(outer.gradient(loss, weight), weight)])
print(round(float(weight), 3), losses_utils.ReductionV2.NONE, losses_module.LossFunctionWrapper)


class Distance(LossFunctionWrapper):
    def __init__(self):
        super().__init__(lambda y, z: tf.abs(y - z), name="distance")


print(float(Distance()(tf.constant([[1.0]]), tf.constant([[3.0]]))))
print(distribution_strategy_context.get_strategy().experimental_run_v2(lambda: 7))
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    step = tf.function(lambda: tf.constant(2.0) * 4)
    print(float(strategy.experimental_run_v2(step)))
"""

POPXL = """\
from dataclasses import dataclass

import numpy as np
import popart
import popxl


@dataclass
class Model:
    size: int = 3


@dataclass
class Config:
    model: Model = Model(size=4)
    other: Model = Model()


config = Config()
print(config, config == Config())
ir = popxl.Ir()
with ir.main_graph:
    x = popxl.variable(np.ones(config.model.size, np.float))
    popxl.ops.var_updates.accumulate_(x, x + 1)
with popxl.Session(ir, "ipu_hw") as session:
    session.run()
print(session.get_tensor_data(x))
builder = popart.Builder()
y = builder.aiOnnx.relu([builder.addInitializedInputTensor(np.array([1, -2], np.float32))])
flow = popart.DataFlow(1, {y: popart.AnchorReturnType("All")})
device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
session = popart.InferenceSession(builder.getModelProto(), flow, device)
session.prepareDevice()
anchors = session.initAnchorArrays()
session.run(popart.PyStepIO({}, anchors))
print(anchors[y])
"""

PROGRAMS = {
    "optimizers": (OPTIMIZERS, "", []),
    "popxl": (POPXL, "", []),
    "tensorflow_1": (TENSORFLOW_1, PART, ["--size", "8"]),
    "tensorflow_2": (TENSORFLOW_2, "", []),
}


def output_of(folder, *command):
    process = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "FOLDER": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout, process.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_print_the_same_when_migrated(tmp_path, capsys, name):
    text, part, arguments = PROGRAMS[name]
    path = tmp_path / "program.py"
    path.write_text(text)
    (tmp_path / "part.py").write_text(part)
    path.chmod(0o754)
    before, errors = output_of(tmp_path, "-m", "tensorflow_ipu.cli", "run", str(path), *arguments)
    assert "shims used\n" in errors and f"  {path}:" in errors
    assert main(["migrate", "--write", str(tmp_path)]) == 0, capsys.readouterr().out
    assert path.stat().st_mode & 0o777 == 0o754
    assert output_of(tmp_path, str(path), *arguments)[0] == before
    assert main(["migrate", str(tmp_path)]) == 0
    assert "nothing to change" in capsys.readouterr().out
