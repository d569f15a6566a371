"""Tests of the pass that gives random ops seeds of the device."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu.compiler.checks import verify
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.passes import random_streams
from tests.support.programs.compiled_programs import ops, program_of, scalar_target, unindented

CASES = {
    "uniform": (lambda: tf.random.uniform([8]), "StatelessRandomUniform"),
    "normal": (lambda: tf.random.normal([8]), "StatelessRandomNormal"),
    "truncated": (lambda: tf.random.truncated_normal([8]), "StatelessTruncatedNormal"),
    "int": (
        lambda: tf.random.uniform([8], maxval=5, dtype=tf.int32),
        "StatelessRandomUniformInt",
    ),
    "categorical": (lambda: tf.random.categorical([[0.0, 1.0]], 8), "StatelessMultinomial"),
    "gamma": (lambda: tf.random.gamma([8], 2.0), "StatelessRandomGammaV2"),
    "parameterized": (
        lambda: tf.raw_ops.ParameterizedTruncatedNormal(
            shape=[8], means=0.0, stdevs=1.0, minvals=-1.0, maxvals=1.0
        ),
        "StatelessParameterizedTruncatedNormal",
    ),
    "poisson": (lambda: tf.random.poisson([8], 2.0), "StatelessRandomPoisson"),
}


def _rewritten(function) -> Program:
    program = program_of(function)
    random_streams.run(program, scalar_target(0))
    verify.check_structure(program)
    return program


@pytest.mark.parametrize("name", CASES)
def test_stateful_op_becomes_stateless(name):
    function, stateless = CASES[name]
    program = _rewritten(function)
    assert stateless in ops(program)
    assert ops(program).count("IpuRandomSeed") == 1


def test_each_op_has_its_own_stream():
    program = _rewritten(
        lambda: tf.random.uniform([2], name="a") + tf.random.uniform([2], name="b")
    )
    assert str(program) == unindented("""
    function 0()
      a/shape = Const() {dtype=int32, value=[2]}
      a/RandomUniform = StatelessRandomUniform(a/shape:output:0, a/RandomUniform/ipu_seed:seed:0)
      b/shape = Const() {dtype=int32, value=[2]}
      b/RandomUniform = StatelessRandomUniform(b/shape:output:0, b/RandomUniform/ipu_seed:seed:0)
      add = AddV2(a/RandomUniform:output:0, b/RandomUniform:output:0)
      Identity = Identity(add:z:0)
      a/RandomUniform/ipu_seed = IpuRandomSeed() {stream=0}
      b/RandomUniform/ipu_seed = IpuRandomSeed() {stream=1}
      return Identity:output:0
        """)


def test_ops_outside_compilation_are_left():
    program = program_of(lambda: tf.random.normal([2]))
    for _, node in program.nodes():
        node.attr["_xla_outside_compilation"].s = b"outside"
    random_streams.run(program, scalar_target(0))
    assert "RandomStandardNormal" in ops(program)


@pytest.mark.parametrize(
    "sampler, distribution",
    [
        (tf.random.log_uniform_candidate_sampler, "log_uniform"),
        (tf.random.uniform_candidate_sampler, "uniform"),
    ],
)
@pytest.mark.parametrize("seed", [None, 0, 5])
def test_candidate_samplers_keep_seed_of_user_only(sampler, distribution, seed):
    classes = tf.zeros([2, 1], tf.int64)
    program = _rewritten(lambda: sampler(classes, 1, 3, True, 10, seed)[0])
    (line,) = (line for line in str(program).splitlines() if "Sampler(" in line)
    assert "= IpuCandidateSampler(" in line
    assert f"distribution={distribution}," in line
    assert ("seed2=" in line) == bool(seed)
    assert not seed or f"seed2={seed}," in line
