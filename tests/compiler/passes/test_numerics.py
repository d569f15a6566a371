"""The pass for the device's arithmetic: texts of Programs after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tensorflow_ipu.api import scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler.checks import operators, verify
from tensorflow_ipu.compiler.ir.program import (
    OUTSIDE_ATTRIBUTE,
    TRAPS_ATTRIBUTE,
    Program,
    called_functions,
    node_tag,
)
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.compiler.passes import numerics
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.runtime import system
from tests.support.programs import replicas
from tests.support.programs.compiled_programs import default_target, ops, program_of

HALVES = tf.TensorSpec([2], tf.float16)


def loop(x):
    return tf.while_loop(lambda y: tf.reduce_sum(y) < 9.0, lambda y: (y * y,), (x,))[0]


def branches(x):
    return tf.cond(tf.reduce_sum(x) < 1.0, lambda: loop(x), lambda: x + x)


def lists(x):
    rows = tf.TensorArray(tf.float16, 3, element_shape=[2])
    for index in tf.range(3):
        rows = rows.write(index, x)
    return rows.stack()


def test_loops_and_branches_can_take_float32():
    program = program_of(branches, HALVES)
    assert numerics.functions(program, ()) == set(program.functions) - {program.entry}


def test_functions_of_the_host_keep_float16():
    program = program_of(branches, HALVES)
    (call,) = [node for _, node in program.nodes() if node.op in ("If", "StatelessIf")]
    kept = numerics.functions(program, called_functions(call))
    assert not kept.intersection(called_functions(call))


def test_ops_outside_such_function_cannot_either():
    program = program_of(branches, HALVES)
    (call,) = [node for _, node in program.nodes() if node.op in ("If", "StatelessIf")]
    call.attr[OUTSIDE_ATTRIBUTE].s = b"scope"
    kept = numerics.functions(program, ())
    assert not kept.intersection(called_functions(call))
    program = program_of(loop, HALVES)
    (call,) = [node for _, node in program.nodes() if node.op in ("While", "StatelessWhile")]
    # The condition on the host: then the body has to go with it.
    assert numerics.functions(program, [called_functions(call)[0]]) == frozenset()


def test_lists_inside_of_a_program_can_hold_float32():
    assert numerics.lists(program_of(lists, HALVES), ())


def test_lists_that_the_host_knows_keep_float16():
    program = program_of(lists, HALVES)
    node = next(node for _, node in program.nodes() if numerics.is_list_op(node))
    node.attr[OUTSIDE_ATTRIBUTE].s = b"scope"
    assert not numerics.lists(program, ())
    program = program_of(lists, HALVES)
    program.functions[program.entry].signature.output_arg[0].type = tf.variant.as_datatype_enum
    assert not numerics.lists(program, ())


# --- Tests of the pass for the device's arithmetic: what it makes of Programs ---

_HALVES = tf.TensorSpec([2, 2], tf.float16)
_FLOATS = tf.TensorSpec([2, 2], tf.float32)
_OWN = ("IpuCheckNumerics", "IpuRoundToHalf", "IpuRoundStochastically")


def _configure(**options: Any) -> None:
    config = IPUConfig()
    config.auto_select_ipus = 1
    for name, value in options.items():
        setattr(config.floating_point_behaviour, name, value)
    config.configure_ipu_system()


def _lowered(function: Callable[..., Any], *specs: tf.TensorSpec) -> Program:
    program = program_of(function, *specs)
    numerics.lower(program, Target(0, system.current(), ()))
    verify.check_structure(program)
    operators.check_kernels(program, Target(0, system.current(), ()))
    return program


def _count(program: Program) -> list[int]:
    return [ops(program).count(op) for op in _OWN]


def _casts(program: Program) -> list[int]:
    """Counts the casts to float32 and to float16."""
    return [ops(program).count(op) for op in ("IpuHalfToFloat", "IpuFloatToHalf")]


@pytest.mark.parametrize("options", [{}, {"esr": True}, {"nanoo": True}])
def test_float32_is_left_alone_without_traps(options: dict[str, Any]) -> None:
    _configure(**options)

    def function(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda y: tf.reduce_sum(y) < 9.0, lambda y: (tf.exp(y) @ y,), (x,))[0]

    before = program_of(function, _FLOATS)
    after = Program.from_library(before.to_library(), before.entry)
    numerics.lower(after, Target(0, system.current(), ()))
    assert str(before) == str(after)
    assert before.functions == after.functions


def test_a_chain_stays_in_float32() -> None:
    _configure()
    program = _lowered(lambda x: tf.nn.relu(x @ x) * x, _HALVES)
    # One cast for the argument, one for the result.
    assert _casts(program) == [1, 1]
    assert _count(program) == [0, 2, 0]
    for _, node in program.nodes():
        if node.op in ("MatMul", "Mul", "Relu"):
            assert node.attr["T"].type == tf.float32.as_datatype_enum


def test_nothing_is_added_for_results_without_users() -> None:
    _configure(oflo=True)
    program = _lowered(
        lambda x: tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=x, labels=x).loss, _HALVES
    )
    assert _count(program) == [1, 1, 0]


@pytest.mark.parametrize("option", ["inv", "div0", "oflo", "set_all"])
def test_a_trap_checks_float32_too(option: str) -> None:
    _configure(**{option: True})
    program = _lowered(lambda x: tf.transpose(tf.exp(x)) + 1.0, _FLOATS)
    assert _count(program) == [2, 0, 0]
    names = {
        node.attr["checked_name"].s for _, node in program.nodes() if node.op == "IpuCheckNumerics"
    }
    # With the function that they are in: the user's line is found by both.
    assert names == {node_tag(name, program.entry).encode() for name in ("Exp", "add")}


def test_operands_are_kept_only_where_they_tell_something() -> None:
    _configure(inv=True)
    program = _lowered(lambda x: x * x, _FLOATS)
    check = next(node for _, node in program.nodes() if node.op == "IpuCheckNumerics")
    assert len(check.input) == 1


def test_each_op_rounds_with_its_own_random_numbers() -> None:
    _configure(esr=True)
    program = _lowered(lambda x: tf.exp(x) * x, _HALVES)
    streams = {
        node.attr["stream"].i for _, node in program.nodes() if node.op == "IpuRoundStochastically"
    }
    assert len(streams) == 2
    assert max(streams) < 0  # those of random ops are not


def test_control_edges_and_names_stay() -> None:
    _configure()

    def function(x: tf.Tensor) -> tf.Tensor:
        product = tf.matmul(x, x, name="product")
        with tf.control_dependencies([product.op]):
            return tf.identity(x)

    program = _lowered(function, _HALVES)
    assert "product" in [node.name for _, node in program.nodes()]


def test_ops_on_the_host_are_left() -> None:
    _configure(set_all=True)
    program = program_of(lambda x: x * x, _HALVES)
    for _, node in program.nodes():
        node.attr["_xla_outside_compilation"].s = b"outside"
    numerics.lower(program, Target(0, system.current(), ()))
    assert _count(program) == [0, 0, 0]


def test_a_loop_keeps_its_tensors_in_float32() -> None:
    """Loop variables are cast once, outside of the loop."""
    _configure()

    def function(x: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(
            lambda y: tf.reduce_sum(y) < 9.0, lambda y: (tf.tanh(y @ weights),), (x,)
        )[0]

    program = _lowered(function, _HALVES, _HALVES)
    assert _casts(program) == [3, 1]
    in_entry = [node.op for node in program.functions[program.entry].node_def]
    assert in_entry.count("IpuHalfToFloat") == 2  # the third is the 9.0 of the condition
    assert in_entry.count("IpuFloatToHalf") == 1


def test_lists_of_tensors_are_in_float32() -> None:
    _configure()

    def function(x: tf.Tensor) -> tf.Tensor:
        rows = tf.TensorArray(tf.float16, 3, element_shape=[2, 2])
        for index in tf.range(3):
            rows = rows.write(index, x * x)
        return tf.reduce_sum(rows.stack(), 0)

    program = _lowered(function, _HALVES)
    assert _casts(program) == [1, 1]
    lists = [node for _, node in program.nodes() if "element_dtype" in node.attr]
    assert lists
    assert {node.attr["element_dtype"].type for node in lists} == {tf.float32.as_datatype_enum}


def test_what_moves_values_does_not_round_them() -> None:
    _configure()

    def function(x: tf.Tensor) -> tf.Tensor:
        first, second = tf.split(x * x, 2, axis=1)
        return tf.concat([second, first], 1)[::-1] + tf.zeros(tf.shape(x), tf.float16)

    program = _lowered(function, _HALVES)
    assert ops(program).count("IpuFloatToHalf") == 1


def test_a_program_can_ask_for_traps_itself() -> None:
    _configure()

    def program(x: tf.Tensor) -> tf.Tensor:
        mark = attr_value_pb2.AttrValue(b=True)
        with tf.compat.v1.get_default_graph()._attr_scope({TRAPS_ATTRIBUTE: mark}):
            return 1.0 / x

    assert _count(_lowered(program, _FLOATS)) == [1, 0, 0]
    assert _count(_lowered(lambda x: 1.0 / x, _FLOATS)) == [0, 0, 0]


# --- The pass that lets labels that are no class give NaN, by its results and on text ---


def _run(function: Callable[..., Any], *args: Any) -> Any:
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        results = strategy.run(tf.function(function, jit_compile=True), args)
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), results)


def _loss_and_gradient(logits: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return loss, tape.gradient(loss, logits)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
@pytest.mark.parametrize("kind", [tf.int32, tf.int64])
def test_labels_that_are_no_class_give_nan(dtype: tf.DType, kind: tf.DType) -> None:
    logits = tf.constant(np.random.default_rng(2).normal(size=(4, 3)), dtype)
    loss, gradient = _run(_loss_and_gradient, logits, tf.constant([2, 50, 0, -1], kind))
    expected = [tensor.numpy() for tensor in _loss_and_gradient(logits, tf.constant([2, 0, 0, 0]))]
    for got, want in zip((loss, gradient), expected):
        want[[1, 3]] = np.nan
        np.testing.assert_allclose(got, want, rtol=2e-3 if dtype == tf.float16 else 1e-6)


def test_labels_outside_compilation_are_tensorflow_s_own() -> None:

    def program(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with scopes.outside_compilation_scope():
            return _loss_and_gradient(logits, labels)[0]

    with pytest.raises(tf.errors.InvalidArgumentError, match="outside the valid range"):
        _run(program, tf.zeros([2, 3]), tf.constant([0, 3]))


def test_only_the_loss_takes_masked_labels() -> None:
    def program(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return loss + tf.cast(labels, tf.float32) + logits[:, 0]

    made = program_of(program, tf.TensorSpec([4, 3]), tf.TensorSpec([4], tf.int32))
    numerics.mask_labels(made, default_target())
    lines = [line for line in str(made).splitlines() if "ipu_labels:" in line]
    assert len(lines) == 1 and "= SparseSoftmaxCrossEntropyWithLogits(" in lines[0]
