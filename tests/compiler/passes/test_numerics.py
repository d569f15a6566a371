"""Tests of the pass for the device's arithmetic: what it makes of Programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tensorflow_ipu.compiler import verify
from tensorflow_ipu.compiler.passes import numerics
from tensorflow_ipu.compiler.program import Program, node_tag
from tensorflow_ipu.config import IPUConfig
from tests.compiler.programs import ops, program_of, scalar_target, text

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
    numerics.run(program, scalar_target(0))
    verify.check_structure(program)
    verify.check_supported(program)
    return program


def _count(program: Program) -> list[int]:
    return [ops(program).count(op) for op in _OWN]


@pytest.mark.parametrize("options", [{}, {"esr": True}, {"nanoo": True}])
def test_float32_is_left_alone_without_traps(options: dict[str, Any]) -> None:
    _configure(**options)

    def function(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda y: tf.reduce_sum(y) < 9.0, lambda y: (tf.exp(y) @ y,), (x,))[0]

    before = program_of(function, _FLOATS)
    after = Program.from_library(before.to_library(), before.entry)
    numerics.run(after, scalar_target(0))
    assert text(before) == text(after)
    assert before.functions == after.functions


def test_a_chain_stays_in_float32() -> None:
    _configure()
    program = _lowered(lambda x: tf.nn.relu(x @ x) * x, _HALVES)
    # One cast for the argument, one for the result.
    assert ops(program).count("Cast") == 2
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
    numerics.run(program, scalar_target(0))
    assert _count(program) == [0, 0, 0]
