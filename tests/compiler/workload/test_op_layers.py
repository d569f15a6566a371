"""Layers and phases of the ops of whole programs, by names, data and Keras."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import ipu_infeed_queue
from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.planner.program.structure import ACCUMULATOR
from tensorflow_ipu.planner.workload import Op, Workload
from tensorflow_ipu.profiler.breakdown import NO_LAYER
from tensorflow_ipu.profiler.report import Report
from tests.support.models import keras_models
from tests.support.planner import real_programs
from tests.support.programs import replicas


def _phases(workload: Workload, op_type: str) -> set[str]:
    return {op.phase for op in workload.ops if op.type == op_type}


def _on_sums(workload: Workload, op_type: str) -> list[Op]:
    """The ops of a type that work on sums of gradients: one for each."""
    sums = {i for i, variable in enumerate(workload.variables) if variable.role == ACCUMULATOR}
    found = []
    for op in workload.ops:
        buffer = op.inputs[0].buffer if op.type == op_type else None
        if buffer is not None and workload.buffers[buffer].variable in sums:
            found.append(op)
    assert len(found) == len(sums) > 0
    return found


def test_mini_batch_sums_belong_to_backward_pass() -> None:
    workload = real_programs.workload("encoder", 8, count=4)
    adding = _on_sums(workload, "AssignAddVariableOp")
    assert {(op.phase, op.runs) for op in adding} == {("backward", 4)}
    resets = _on_sums(workload, "AssignVariableOp")
    assert {(op.phase, op.runs) for op in resets} == {("update", 1)}


def test_whole_table_gradient_belongs_to_backward_pass() -> None:
    assert _phases(real_programs.workload("encoder", 8), "UnsortedSegmentSum") == {"backward"}


def test_pipeline_accumulates_backward_and_copies_update_numbers_once() -> None:
    cut = (("conv2d",), ("conv2d_2",))
    workload = real_programs.workload("residual", 8, count=4, cut=cut)
    assert {op.phase for op in _on_sums(workload, "AssignAddVariableOp")} == {"backward"}
    (rate,) = [copy for copy in workload.copies if copy.tensor == "learning_rate"]
    assert (rate.runs, rate.phase, rate.stage) == (1, "update", None)
    assert {copy.runs for copy in workload.copies if copy is not rate} == {4}


def test_pipeline_loss_has_plain_gradient() -> None:
    """Loops of TensorFlow compute another softmax, for a gradient that is zero."""
    cut = (("conv2d",), ("conv2d_2",))
    pipelined = real_programs.workload("residual", 8, count=4, cut=cut)
    for workload in (pipelined, real_programs.workload("residual", 8)):
        assert not _phases(workload, "Softmax")
        assert _phases(workload, "SparseSoftmaxCrossEntropyWithLogits") == {""}


# --- Layers and phases of the ops of whole programs, by names, data and Keras ---

tf1 = tf.compat.v1
_layers = tf.keras.layers
_EXAMPLES = Path(__file__).parents[3] / "examples"


def _shares(executable: Executable) -> dict[str, float]:
    """The share of all cycles that each layer has."""
    cycles = {row.layer: row.cycles for row in Report.from_plan(executable.plan).layers()}
    total = sum(cycles.values())
    return {layer: part / total for layer, part in cycles.items() if part}


def _unnamed(executable: Executable) -> float:
    """The share of all cycles that is in no layer, named or not after a function."""
    shares = _shares(executable)
    return sum(share for layer, share in shares.items() if layer.startswith("(no") or "(" in layer)


def _last() -> Executable:
    return cache.executables()[-1]


def _ops(op_type: str) -> list[Op]:
    return [op for op in _last().workload.ops if op.type == op_type]


def _fit(model: tf.keras.Model, optimizer: str, loss: Any, x: Any, y: Any) -> None:
    model.compile(optimizer, loss, metrics=["accuracy"], steps_per_execution=2)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(4, drop_remainder=True)
    model.fit(data, verbose=0)


def test_every_op_of_the_demo_has_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(_EXAMPLES))
    import digits

    replicas.configure(1)
    digits.run(argparse.Namespace(launches=1, learning_rate=0.1))
    trained, tested = cache.executables()
    shares = _shares(trained)
    assert NO_LAYER not in shares
    # The loop's counters; the rest is in the layers of the variables, and in the loss.
    assert shares.pop("train_steps (digits.py)") < 0.1
    assert shares.pop("infeed") < 0.1  # a batch on its way to an IPU without I/O tiles
    loss = shares.pop("SparseSoftmaxCrossEntropyWithLogits")
    assert set(shares) == {"kernel_1", "kernel_2", "weights", "bias"}
    assert 0.1 < loss < 0.4
    rows = {row.layer: row for row in Report.from_plan(trained.plan).layers()}
    for name in ("kernel_1", "kernel_2", "weights", "bias"):
        assert min(rows[name].forward_cycles, rows[name].backward_cycles) > 0
        assert rows[name].update_cycles > 0
    # A kernel, and the momentum that nobody named.
    assert rows["kernel_1"].variable_bytes == 2 * 4 * 3 * 3 * 16
    assert set(_shares(tested)) >= {"kernel_1", "kernel_2", "weights", "bias", "infeed"}


def test_every_op_of_keras_cnn_has_layer() -> None:
    with keras_models.strategy().scope():
        model = tf.keras.Sequential(
            [
                _layers.Conv2D(4, 3, activation="relu", name="conv", input_shape=(8, 8, 2)),
                _layers.BatchNormalization(name="norm"),
                _layers.MaxPooling2D(name="pool"),
                _layers.Dropout(0.5, name="drop"),
                _layers.Flatten(name="flat"),
                _layers.Dense(3, name="dense"),
            ]
        )
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        _fit(model, "adam", loss, np.zeros([8, 8, 8, 2], np.float32), np.zeros([8], np.int32))
    shares = _shares(_last())
    assert _unnamed(_last()) < 0.05
    layers = {"conv", "norm", "pool", "drop", "dense", "metrics", "Adam"}
    assert set(shares) - {"flat"} >= layers | {"sparse_categorical_crossentropy"}
    ops = _last().workload.ops
    updates = [op for op in ops if op.phase == "update" and op.type.startswith("Assign")]
    assert {op.layer for op in updates} == {"conv", "norm", "dense", "Adam"}


def test_gradients_of_an_embedding_are_of_the_embedding() -> None:
    # Its rows are made dense by an op whose name says nothing of a layer, from a reshape of the
    # gradient that the next layer makes.
    with keras_models.strategy().scope():
        model = tf.keras.Sequential(
            [
                _layers.Embedding(1000, 64, input_length=8, name="table"),
                _layers.Dense(64, name="dense"),
                _layers.LayerNormalization(name="norm"),
            ]
        )
        model.build((4, 8))
        model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=2)
        x = np.zeros([16, 8], np.int32)
        _fit(model, "adam", "mse", x, np.zeros([16, 8, 64], np.float32))
    assert {op.layer for op in _ops("UnsortedSegmentSum")} == {"table"}


def test_every_op_of_an_lstm_has_a_layer() -> None:
    with keras_models.strategy().scope():
        model = tf.keras.Sequential(
            [
                _layers.Embedding(20, 4, name="words"),
                _layers.Bidirectional(_layers.LSTM(4), name="both"),
                _layers.Dense(1, name="dense"),
            ]
        )
        x, y = np.zeros([8, 5], np.int32), np.zeros([8, 1], np.float32)
        _fit(model, "sgd", "mse", x, y)
    shares = _shares(_last())
    assert _unnamed(_last()) < 0.05
    assert sum(share for layer, share in shares.items() if layer.startswith("both/")) > 0.7
    assert {"words", "dense", "mean_squared_error"} <= set(shares)
    assert not {op.layer for op in _ops("MatMul")} - {
        *("both/forward_lstm", "both/backward_lstm", "dense")
    }


def test_every_tensorflow_1_op_has_layer() -> None:
    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        data = (np.zeros([8, 20], np.float32), np.zeros([8], np.int32))
        queue = ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensors(data).repeat())

        def step(_: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            with tf1.variable_scope("tower", use_resource=True):
                with tf1.variable_scope("first"):
                    hidden = tf.nn.relu(x @ tf1.get_variable("w", [20, 32]))
                with tf1.variable_scope("second"):
                    logits = hidden @ tf1.get_variable("w", [32, 10])
            with tf.name_scope("loss"):
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
                loss = tf.reduce_mean(losses)
            train = tf1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
            with tf.control_dependencies([train]):
                return tf.identity(loss)

        with scopes.ipu_scope("/device:IPU:0"):
            out = ipu_compiler.compile(lambda: loops.repeat(5, step, [0.0], queue))
        session.run([queue.initializer, tf1.global_variables_initializer()])
        session.run(out)
    shares = _shares(_last())
    assert NO_LAYER not in shares
    named = sum(shares.get(name, 0.0) for name in ("tower/first", "tower/second", "loss"))
    assert named > 0.85
    updates = {op.layer for op in _ops("ResourceApplyKerasMomentum")}
    updates |= {op.layer for op in _ops("ResourceApplyMomentum")}
    assert updates == {"tower/first", "tower/second"}


def test_keras_layers_in_a_loop_of_the_user() -> None:
    strategy = keras_models.strategy()
    with strategy.scope():
        model = tf.keras.Sequential([_layers.Dense(8, name="one"), _layers.Dense(4, name="two")])
        optimizer = tf.keras.optimizers.Adam()
        metric = tf.keras.metrics.Mean()

        @tf.function(jit_compile=True)
        def step(x: tf.Tensor, y: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                loss = tf.keras.losses.sparse_categorical_crossentropy(y, model(x), True)
                loss = tf.reduce_mean(loss)
            optimizer.minimize(loss, model.trainable_variables, tape=tape)
            metric.update_state(loss)

    strategy.run(step, [tf.zeros([8, 20]), tf.zeros([8], tf.int32)])
    shares = _shares(_last())
    assert set(shares) >= {"one", "two", "sparse_categorical_crossentropy", "metrics"}
    assert _unnamed(_last()) < 0.05


def _run(function: Any, *arguments: Any) -> None:
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        strategy.run(tf.function(function, jit_compile=True), arguments)


def test_what_gradients_are_made_of_is_no_update() -> None:
    """The norm of a gradient in a loss is in the forward pass: it has a gradient itself."""
    with ipu_strategy.IPUStrategy().scope():
        w = tf.Variable(tf.ones([4, 4]), name="w")
        steps = tf.Variable(0.0, name="steps")

    def program(x: tf.Tensor) -> None:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.sin(tf.matmul(x, w))
            penalty = tf.reduce_sum(tf.tanh(inner.gradient(y, x)))
        gradient = outer.gradient(penalty, w)
        w.assign_sub(tf.exp(gradient) * 0.1)
        steps.assign_add(1.0)

    _run(program, tf.ones([2, 4]))
    assert [op.phase for op in _ops("Tanh")] == [""]
    assert [(op.phase, op.layer) for op in _ops("Exp")] == [("update", "w")]
    assert [op.phase for op in _ops("AssignSubVariableOp")] == ["update"]
    assert [op.phase for op in _ops("AssignAddVariableOp")] == [""]


def test_state_of_updates_by_hand_is_optimizer_state() -> None:
    with ipu_strategy.IPUStrategy().scope():
        weights = [tf.Variable(tf.ones([4]), name=name) for name in ("a", "b")]
        momenta = [tf.Variable(tf.zeros([4])) for _ in weights]

    def program(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sin(x * weights[0]) * weights[1])
        gradients = tape.gradient(loss, weights)
        for weight, momentum, gradient in zip(weights, momenta, gradients):
            momentum.assign(0.9 * momentum + gradient)
            weight.assign_sub(0.1 * momentum)
        return loss + tf.reduce_sum(weights[0])

    _run(program, tf.ones([4]))
    workload = _last().workload
    assert {v.role for v in workload.variables if v.name == "Variable"} == {"optimizer state"}
    assert {v.role for v in workload.variables if v.name in ("a", "b")} == {"weight"}
    for op_type in ("AssignVariableOp", "AssignSubVariableOp"):
        assert [(op.layer, op.phase) for op in _ops(op_type)] == [("a", "update"), ("b", "update")]
    # What reads the new weights is no update.
    assert [op.phase for op in _ops("Sum")] == ["", ""]


def test_layers_of_keras_that_are_called_like_functions() -> None:
    """`add` is also TensorFlow's name of an addition, and a scope of a function's ops."""
    with keras_models.strategy().scope():
        x = tf.keras.Input((3,))
        y = _layers.Dense(3, name="matmul")(x)
        model = tf.keras.Model(x, _layers.Add(name="add")([x, y]))
        _fit(model, "sgd", "mse", np.zeros([8, 3], np.float32), np.zeros([8, 3], np.float32))
    assert {"matmul", "add"} <= set(_shares(_last()))
