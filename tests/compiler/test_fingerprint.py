"""Tests of the hash of Programs."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler.fingerprint import fingerprint, structural_fingerprint
from tensorflow_ipu.configs import flags, translate
from tests.support.programs.compiled_programs import program_of, scalar_target

SCALAR = tf.TensorSpec([], tf.float32)


def _loop(n, feed=b"feed"):
    def body(x):
        for _ in tf.range(n):
            x = x * 2.0
        return x

    program = program_of(body, SCALAR)
    for _, node in program.nodes():
        if node.op == "Mul":
            node.attr["feed_id"].s = feed
    return program


def _hash(program, target=None):
    return fingerprint(program, (target or scalar_target()).key)


def test_generated_names_do_not_matter():
    assert _hash(_loop(3)) == _hash(_loop(3))


def test_names_of_feeds_do_not_matter():
    assert _hash(_loop(3, b"a")) == _hash(_loop(3, b"b"))


def test_names_of_gradient_functions_do_not_matter():
    """`tf.custom_gradient` makes a new one each time."""

    def hash_of_new_one():
        @tf.custom_gradient
        def function(x):
            return x * 2.0, lambda upstream: upstream

        return _hash(program_of(function, SCALAR))

    assert hash_of_new_one() == hash_of_new_one()


def test_constants_types_device_and_options_matter():
    target = scalar_target()
    base = _hash(_loop(3))
    assert base != _hash(_loop(4))
    assert base != _hash(_loop(3), dataclasses.replace(target, ordinal=1))
    assert base != _hash(_loop(3), scalar_target(2))
    attached = dataclasses.replace(target.system, flags=flags.parse("--use_synthetic_data"))
    assert base != _hash(_loop(3), dataclasses.replace(target, system=attached))
    config = IPUConfig()
    config.allow_recompute = True
    attached = dataclasses.replace(target.system, options=translate.to_options(config))
    assert base != _hash(_loop(3), dataclasses.replace(target, system=attached))


def test_the_program_is_not_changed():
    program = _loop(3)
    before = program.to_library().SerializeToString(deterministic=True)
    _hash(program)
    assert program.to_library().SerializeToString(deterministic=True) == before


def test_structure_is_same_whatever_constants_and_seeds_are():
    def drawn(scale, seed):
        return program_of(lambda x: x * scale + tf.random.uniform([], seed=seed), SCALAR)

    def structure(program):
        return structural_fingerprint(program, b"")

    assert structure(drawn(2.0, 1)) == structure(drawn(3.0, 4))
    assert _hash(drawn(2.0, 1)) != _hash(drawn(3.0, 1))
    assert structure(drawn(2.0, 1)) != structure(drawn([2.0], 1))
    assert structure(drawn(2.0, 1)) != structure(program_of(lambda x: x - 2.0, SCALAR))


def test_processes_with_calls_run_the_same_program():
    """A call has the configuration of its process, with the index among others."""

    def called_in(process):
        @tf.function
        def double(x):
            return x * 2.0

        program = program_of(lambda x: double(x) + 1.0, SCALAR)
        (call,) = (node for _, node in program.nodes() if "config_proto" in node.attr)
        call.attr["config_proto"].s = process
        return program

    first, second = called_in(b"task 0"), called_in(b"task 1")
    assert structural_fingerprint(first, b"") == structural_fingerprint(second, b"")
