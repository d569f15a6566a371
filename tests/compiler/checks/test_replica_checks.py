"""Tests of the check that no predicate around a collective depends on the replica."""

from __future__ import annotations

import dataclasses

import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.compiler.checks import replica_checks
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.ops import all_to_all_op, replication_ops
from tensorflow_ipu.ops.cross_replica_ops import (
    assume_equal_across_replicas,
    cross_replica_sum,
)
from tests.support.programs import replicas
from tests.support.programs.compiled_programs import default_target, program_of

X = 1.0


def target_of(count: int) -> Target:
    """Returns a target with some replicas."""
    return dataclasses.replace(default_target(), replicas=count)


def index() -> tf.Tensor:
    """Returns the replica index."""
    return replication_ops.replication_index()


def total(x=1.0) -> tf.Tensor:
    """Returns a collective."""
    return cross_replica_sum(tf.cast(x, tf.float32), name="total")


@tf.function
def positive(x):
    """Returns whether a number is positive, in a function of its own."""
    return x > 0


@tf.function
def second(a, b):
    """Returns its second argument."""
    del a
    return b


@tf.function
def inner_total():
    """Returns a collective in a function of its own."""
    return total()


def _carried():
    """A loop variable that takes the index in the second iteration only."""

    def body(i, a, b):
        return i + 1, index(), a

    return tf.while_loop(lambda i, a, b: i < 3, body, [0, 0, 0])[2] > 0


REFUSED = {
    "if": lambda: tf.cond(index() > 0, total, lambda: X),
    "both branches": lambda: tf.cond(index() > 0, total, total),
    "case": lambda: tf.switch_case(index(), [total, lambda: X, lambda: X]),
    "arithmetic": lambda: tf.cond((index() * 3 + 1) % 2 > 0, total, lambda: X),
    "in a function": lambda: tf.cond(positive(index()), total, lambda: X),
    "through an argument": lambda: tf.cond(second(1, index()) > 0, total, lambda: X),
    "collective in a function": lambda: tf.cond(index() > 0, inner_total, lambda: X),
    "collective in a loop": lambda: tf.cond(
        index() > 0, lambda: loops.repeat(2, lambda v: total(v), [X]), lambda: X
    ),
    "inside a loop": lambda: loops.repeat(2, lambda v: tf.cond(index() > 0, total, lambda: v), [X]),
    "iterations": lambda: loops.repeat(index(), lambda v: total(v), [X]),
    "condition of a loop": lambda: tf.while_loop(
        lambda v: v < tf.cast(index(), tf.float32), lambda v: [total(v)], [X]
    )[0],
    "collective in the condition": lambda: tf.while_loop(
        lambda v: total(v) < 3.0 + tf.cast(index(), tf.float32), lambda v: [v + 1], [X]
    )[0],
    "carried by a loop": lambda: tf.cond(_carried(), total, lambda: X),
    "result of a branch": lambda: tf.cond(
        tf.cond(index() > 0, lambda: True, lambda: False), total, lambda: X
    ),
    "iterations of another loop": lambda: tf.cond(
        tf.while_loop(lambda v: v < index(), lambda v: [v + 1], [0])[0] > 1, total, lambda: X
    ),
    "sum in groups": lambda: tf.cond(cross_replica_sum(index(), 2) > 1, total, lambda: X),
    "after all_to_all": lambda: tf.cond(
        all_to_all_op.all_to_all(tf.fill([4], index()), 0, 0, 4)[0] > 0, total, lambda: X
    ),
}

ALLOWED = {
    "promise": lambda: tf.cond(assume_equal_across_replicas(index() > 0), total, lambda: X),
    "promise early": lambda: tf.cond(assume_equal_across_replicas(index()) > 0, total, lambda: X),
    "sum": lambda: tf.cond(cross_replica_sum(index()) > 1, total, lambda: X),
    "sum in a group of all": lambda: tf.cond(cross_replica_sum(index(), 4) > 1, total, lambda: X),
    "all_gather": lambda: tf.cond(all_to_all_op.all_gather(index(), 4)[1] > 0, total, lambda: X),
    "other result of a function": lambda: tf.cond(second(index(), 1) > 0, total, lambda: X),
    "no collective": lambda: tf.cond(index() > 0, lambda: 2.0, lambda: X),
    "collective beside it": lambda: tf.cond(index() > 0, lambda: 2.0, lambda: X) + total(),
    "index inside": lambda: tf.cond(tf.constant(X) > 0, lambda: total(index()), lambda: X),
    "index as data": lambda: loops.repeat(
        2, lambda v: total(v) + tf.cast(index(), tf.float32), [X]
    ),
    "iterations without collectives": lambda: loops.repeat(index(), lambda v: v + 1, [X]),
    "factor": lambda: tf.cond(replication_ops.replication_factor() > 2, total, lambda: X),
}


@pytest.mark.parametrize("name", REFUSED)
def test_control_flow_that_depends_on_replica_is_refused(name):
    program = program_of(REFUSED[name])
    replica_checks.check_uniform(program, target_of(1))
    what = "loop" if "iterations" == name or "condition" in name else "conditional"
    pattern = f"of the {what} .* is not replica uniform: it depends on the replica index.*total"
    with pytest.raises(tf.errors.InvalidArgumentError, match=pattern) as error:
        replica_checks.check_uniform(program, target_of(4))
    assert "assume_equal_across_replicas" in str(error.value)


@pytest.mark.parametrize("name", ALLOWED)
def test_replica_uniform_control_flow_is_allowed(name):
    replica_checks.check_uniform(program_of(ALLOWED[name]), target_of(4))


@pytest.mark.parametrize("in_session", [False, True])
def test_when_a_program_is_compiled(in_session):
    with pytest.raises(tf.errors.InvalidArgumentError, match="not replica uniform"):
        replicas.run(2, REFUSED["if"], in_session)
    replicas.run(1, REFUSED["if"], in_session)
