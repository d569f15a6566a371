"""Invariants of Programs: a pass that breaks one is named."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu.compiler import compile as compile_lib
from tensorflow_ipu.compiler.checks import verify
from tensorflow_ipu.compiler.cluster import Cluster
from tests.support.programs.compiled_programs import default_target, program_of

VECTOR = tf.TensorSpec([4], tf.float32)


def test_a_traced_function_is_whole():
    verify.check_structure(program_of(lambda x: tf.map_fn(tf.exp, x), VECTOR))


def test_a_missing_input_is_named():
    program = program_of(lambda x: x + 1.0, VECTOR)
    program.functions[program.entry].node_def[-1].input[0] = "nobody:z:0"
    with pytest.raises(tf.errors.InternalError, match="nobody:z:0, which does not exist"):
        verify.check_structure(program)


def test_a_missing_function_is_named():
    program = program_of(lambda x: tf.map_fn(tf.exp, x), VECTOR)
    removed = next(name for name in program.functions if name != program.entry)
    del program.functions[removed]
    with pytest.raises(tf.errors.InternalError, match="which does not exist"):
        verify.check_structure(program)


def test_two_nodes_of_one_name_are_refused():
    program = program_of(lambda x: x + 1.0, VECTOR)
    function = program.functions[program.entry]
    function.node_def.add().CopyFrom(function.node_def[0])
    with pytest.raises(tf.errors.InternalError, match="has two nodes called"):
        verify.check_structure(program)


def test_a_lost_effect_is_named(monkeypatch):
    def drop(program, target):
        function = program.functions[program.entry]
        next(node for node in function.node_def if node.op == "PrintV2").name = "other"
        for node in function.node_def:
            node.input[:] = [name.replace("^PrintV2", "^other") for name in node.input]
        function.control_ret.clear()

    monkeypatch.setitem(compile_lib.TABLE, "device", (compile_lib.Pass("place_ops", drop),))
    concrete = tf.function(lambda x: (tf.print("x"), x)[1]).get_concrete_function(VECTOR)
    cluster = Cluster.from_graph(concrete.graph, "test", concrete)
    with pytest.raises(tf.errors.InternalError, match="pass place_ops has lost .*'PrintV2'"):
        compile_lib.compile_cluster(cluster, default_target())


def test_an_effect_that_nothing_waits_for_is_named():
    program = program_of(lambda x: (tf.print("x"), x)[1], VECTOR)
    verify.check_effects(program)
    program.functions[program.entry].control_ret.clear()
    with pytest.raises(tf.errors.InternalError, match="PrintV2 has an effect that may be dropped"):
        verify.check_effects(program)
