"""Which functions and lists have float16 tensors in float32."""

from __future__ import annotations

import tensorflow as tf

from tensorflow_ipu.compiler.ir.program import OUTSIDE_ATTRIBUTE, called_functions
from tensorflow_ipu.compiler.numerics import wide_tensors
from tests.support.programs.compiled_programs import program_of

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
    assert wide_tensors.functions(program, ()) == set(program.functions) - {program.entry}


def test_functions_of_the_host_keep_float16():
    program = program_of(branches, HALVES)
    (call,) = [node for _, node in program.nodes() if node.op in ("If", "StatelessIf")]
    kept = wide_tensors.functions(program, called_functions(call))
    assert not kept.intersection(called_functions(call))


def test_neither_can_what_runs_outside_or_beside_such_a_function():
    program = program_of(branches, HALVES)
    (call,) = [node for _, node in program.nodes() if node.op in ("If", "StatelessIf")]
    call.attr[OUTSIDE_ATTRIBUTE].s = b"scope"
    kept = wide_tensors.functions(program, ())
    assert not kept.intersection(called_functions(call))
    program = program_of(loop, HALVES)
    (call,) = [node for _, node in program.nodes() if node.op in ("While", "StatelessWhile")]
    # The condition on the host: then the body has to go with it.
    assert wide_tensors.functions(program, [called_functions(call)[0]]) == frozenset()


def test_lists_inside_of_a_program_can_hold_float32():
    assert wide_tensors.lists(program_of(lists, HALVES), ())


def test_lists_that_the_host_knows_keep_float16():
    program = program_of(lists, HALVES)
    node = next(node for _, node in program.nodes() if wide_tensors.is_list_op(node))
    node.attr[OUTSIDE_ATTRIBUTE].s = b"scope"
    assert not wide_tensors.lists(program, ())
    program = program_of(lists, HALVES)
    program.functions[program.entry].signature.output_arg[0].type = tf.variant.as_datatype_enum
    assert not wide_tensors.lists(program, ())
