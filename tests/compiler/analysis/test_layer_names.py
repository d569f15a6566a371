"""Layers of ops, by their names alone and in Keras programs."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu.compiler import cache
from tensorflow_ipu.compiler.analysis.layer_names import LayerNames, path, scope_of_variable
from tensorflow_ipu.compiler.source_map import KerasFrames
from tensorflow_ipu.planner.workload import Variable
from tests.support.models import keras_models

_layers = tf.keras.layers


@pytest.mark.parametrize(
    "name, layer",
    [
        ("MatMul", ""),
        ("dense_1/MatMul", "dense_1"),
        ("dense_1/MatMul/ReadVariableOp", "dense_1"),
        ("gradients/dense_1/MatMul_grad/MatMul_1", "dense_1"),
        ("gradients_2/dense_1/BiasAdd_grad/tuple/control_dependency", "dense_1"),
        ("gradients/MatMul_3_grad/MatMul", ""),
        ("gradients/AddN_4", ""),
        ("gradient_tape/model/dense_1/MatMul/MatMul_1", "model/dense_1"),
        ("while/body/_1/dense_1/Relu", "dense_1"),
        ("pipeline/repeat/while/block/conv/Conv2D", "block/conv"),
        ("block/conv/kernel", "block/conv"),
        ("batch_normalization/moments/mean", "batch_normalization"),
        ("dropout/dropout/Mul", "dropout"),
        ("lstm/lstm_cell/kernel", "lstm"),
        ("lstm/while/lstm_cell_2/MatMul", "lstm"),
        ("Encoder/Dense/MatMul", "Encoder/Dense"),
        ("while/MaxPool2d", ""),
        ("matmul/ReadVariableOp", ""),
        ("block/matmul/ReadVariableOp", "block"),
        ("SparseSoftmaxCrossEntropyWithLogits/Const", "SparseSoftmaxCrossEntropyWithLogits"),
        ("loss/SparseSoftmaxCrossEntropyWithLogits/Const", "loss"),
    ],
)
def test_layer_path_is_read_from_name_of_op(name: str, layer: str) -> None:
    assert path(name) == layer


@pytest.mark.parametrize(
    "name, layers, layer",
    [
        # The scopes that Keras says are layers are, whatever they are called.
        ("repeat/while/model/add/add", 2, "model/add"),
        ("model/conv1d/conv1d/ExpandDims", 2, "model/conv1d"),
        ("model/drop/dropout/Mul", 2, "model/drop"),
        ("lstm/lstm_cell/MatMul", 2, "lstm"),
        ("lstm/while/lstm_cell/MatMul", 2, "lstm"),
        ("model/mine/inside/Mul", 2, "model/mine/inside"),
    ],
)
def test_the_layer_path_follows_the_layers_of_keras(name: str, layers: int, layer: str) -> None:
    assert path(name, layers) == layer


def test_scopes_of_variables_are_no_functions() -> None:
    assert scope_of_variable("conv1d/kernel") == "conv1d"
    assert scope_of_variable("model/lstm/lstm_cell/kernel") == "model/lstm"


def test_losses_of_keras_have_their_own_name() -> None:
    keras = KerasFrames(0, "categorical_crossentropy")
    layers = LayerNames([])
    assert layers.of_op("softmax_cross_entropy_with_logits/Sub", keras) == keras.part
    assert layers.of_op("mine/softmax_cross_entropy_with_logits/Sub", keras) != keras.part


@pytest.mark.parametrize(
    "variables, keras, layer",
    [
        (["kernel:0"], KerasFrames(), "kernel"),
        (["kernel:0", "kernel:0"], KerasFrames(), ""),
        (["Variable:0"], KerasFrames(), ""),
        (["Variable_3:0"], KerasFrames(), ""),
        (["matmul_readvariableop_resource"], KerasFrames(), ""),
        (["total:0"], KerasFrames(0, "metrics"), "metrics"),
    ],
)
def test_variables_without_scope_are_named_by_their_reader(
    variables: list[str], keras: KerasFrames, layer: str
) -> None:
    layers = LayerNames(variables)
    layers.learn("while/ReadVariableOp", variables[0], keras)
    assert layers.of_variable(variables[0]) == layer


def test_states_of_optimizers_belong_to_their_variables() -> None:
    layers = LayerNames(["a/w:0", "a/w/Adam_1:0", "Adam/m/a/w:0", "b/w:0", "steps:0"])
    assert [layers.of_variable(name) for name in ("a/w:0", "a/w/Adam_1", "Adam/m/a/w")] == ["a"] * 3
    assert (layers.of_variable("b/w"), layers.of_variable("steps")) == ("b", "")


def test_scopes_of_a_model_are_left_out() -> None:
    layers = LayerNames(["dense/kernel:0"])
    layers.learn("model/inner/dense/MatMul/ReadVariableOp", "dense/kernel:0")
    assert layers.of_op("model/inner/dense/MatMul") == "dense"
    assert layers.of_op("model/inner/flatten/Reshape") == "flatten"
    assert layers.of_op("gradient_tape/model/inner/dense/MatMul/MatMul_1") == "dense"
    assert layers.of_op("other/dense/MatMul") == "other/dense"


def test_variable_without_scope_belongs_to_its_first_reader() -> None:
    layers = LayerNames(["w:0"])
    layers.learn("block/MatMul/ReadVariableOp", "w:0")
    layers.learn("later/MatMul/ReadVariableOp", "w:0")
    assert layers.of_variable("w:0") == "block"


@pytest.mark.parametrize("optimizer, states", [("adam", 2), ("sgd", 1)])
def test_keras_ops_have_names_of_layers(optimizer: str, states: int) -> None:
    keras_models.seed()
    with keras_models.strategy(1).scope():
        model = tf.keras.Sequential(
            [
                _layers.Dense(4, "relu", name="first", input_shape=(3,)),
                _layers.BatchNormalization(name="norm"),
                _layers.Dense(2, name="second"),
            ]
        )
        model.compile(optimizer, "mse", steps_per_execution=6)
        model.fit(keras_models.dataset(), epochs=1, verbose=0)
    workload = cache.executables()[-1].workload
    products = [(op.layer, op.phase) for op in workload.ops if op.type == "MatMul"]
    assert sorted(products) == [
        *(("first", ""), ("first", "backward")),
        *(("second", ""), ("second", "backward"), ("second", "backward")),
    ]
    layers = {(op.layer, op.phase) for op in workload.ops}
    assert {(name, "update") for name in ("first", "norm", "second")} <= layers
    assert not [op.name for op in workload.ops if "sequential" in op.layer]
    # 3 x 4 + 4, 2 statistics and 2 factors of 4, 4 x 2 + 2.
    by_role: dict[str, list[Variable]] = {}
    for variable in workload.variables:
        by_role.setdefault(variable.role, []).append(variable)
    names = ("first/", "norm/", "second/")
    weights = [v for v in by_role["weight"] if v.name.startswith(names)]
    assert sum(v.num_bytes for v in weights) == 4 * (16 + 16 + 10)
    slots = [v for v in by_role["optimizer state"] if "/m/" in v.name or "/v/" in v.name]
    assert sum(v.num_bytes for v in slots) == states * 4 * (16 + 8 + 10)
    assert workload.batch == keras_models.BATCH
