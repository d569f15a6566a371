"""Nodes with equal results on all replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tensorflow_ipu.compiler.analysis import replica_identical
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.ops import cross_replica_ops, replication_ops
from tests.support.programs.compiled_programs import program_of

_SPEC = tf.TensorSpec([2], tf.float32)


def _index() -> tf.Tensor:
    return tf.cast(replication_ops.replication_index(), tf.float32)


def _differing(function: Callable[..., Any], *specs: tf.TensorSpec) -> set[str]:
    """Returns the types of the ops that differ."""
    program = program_of(function, *specs)
    found = replica_identical.differing(program, 2)
    types = _types(program)
    return {types[place] for place in found}


def _types(program: Program) -> dict[tuple[str, str], str]:
    return {(function.signature.name, node.name): node.op for function, node in program.nodes()}


def test_one_replica_has_nothing_to_differ_from() -> None:
    program = program_of(lambda: _index() * 2.0)
    assert not replica_identical.differing(program, 1)


def test_arguments_and_derived_values_are_alike() -> None:
    assert not _differing(lambda x: tf.exp(x) + 1.0, _SPEC)


def test_the_index_is_followed() -> None:
    found = _differing(lambda x: (tf.exp(x), tf.tanh(x * _index())), _SPEC)
    assert {"Tanh", "Mul"} <= found
    assert "Exp" not in found


def test_a_sum_over_replicas_is_alike() -> None:
    found = _differing(lambda x: tf.exp(cross_replica_ops.cross_replica_sum(x * _index())), _SPEC)
    assert "Mul" in found
    assert "Exp" not in found


def test_branches_that_only_some_replicas_take_differ() -> None:
    found = _differing(
        lambda x: tf.cond(_index() > 0.0, lambda: tf.exp(x), lambda: tf.tanh(x)), _SPEC
    )
    assert {"Exp", "Tanh"} <= found


def test_loops_carry_differences() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        start = (tf.constant(0), x, tf.zeros([2]))
        return tf.while_loop(
            lambda i, a, b: i < 3,
            lambda i, a, b: (i + 1, tf.exp(a), tf.tanh(b) + a * _index()),
            start,
        )[1:]

    found = _differing(function, _SPEC)
    assert "Tanh" in found
    assert "Exp" not in found


def test_variables_carry_differences() -> None:
    same, own = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0])

    def function() -> Any:
        def body(i: tf.Tensor) -> tuple[tf.Tensor]:
            same.assign(tf.exp(same))
            own.assign(tf.tanh(own))  # differs from the second iteration on
            own.assign_add([1.0, 1.0] * _index())
            return (i + 1,)

        return tf.while_loop(lambda i: i < 3, body, (tf.constant(0),))

    found = _differing(function)
    assert "Tanh" in found
    assert "Exp" not in found
