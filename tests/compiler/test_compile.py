"""Tests of compiling Clusters: specialisation, caching, replicas, saving, connection types."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import ipu_outfeed_queue
from tensorflow_ipu.api import config, ipu_compiler, loops, scopes
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.runtime import system


@pytest.fixture(autouse=True)
def _fresh():
    yield
    system.reset_ipu_configuration()


def _configure(num_ipus=1, **options):
    cfg = config.IPUConfig()
    cfg.auto_select_ipus = num_ipus
    for name, value in options.items():
        node = cfg
        *categories, last = name.split("__")
        for category in categories:
            node = getattr(node, category)
        setattr(node, last, value)
    cfg.configure_ipu_system()


def _run(computation, *inputs, device="/device:IPU:0"):
    """Builds, compiles and runs a computation in a graph and session of its own."""
    with tf.Graph().as_default():
        placeholders = [tf.compat.v1.placeholder(np.float32, [None]) for _ in inputs]
        with scopes.ipu_scope(device):
            results = ipu_compiler.compile(computation, placeholders)
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            return session.run(results, dict(zip(placeholders, inputs)))


def _loop(n):
    def computation(x):
        return loops.repeat(n, lambda y: tf.nn.relu(y) * 2.0, [x])

    return computation


def test_an_equal_program_is_compiled_once():
    _configure()
    x = np.ones(3, np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(_run(_loop(2), x)[0], 4 * x)
    (executable,) = cache.executables()
    assert executable.launches == 3
    assert executable.seconds > 0


@pytest.mark.parametrize(("loop", "size"), [(_loop(3), 3), (_loop(2), 4)])
def test_another_constant_or_shape_is_another_program(loop, size):
    _configure()
    _run(_loop(2), np.ones(3, np.float32))
    _run(loop, np.ones(size, np.float32))
    assert len(cache.executables()) == 2


def test_another_configuration_starts_afresh():
    _configure()
    _run(_loop(2), np.ones(3, np.float32))
    first = cache.executables()[0].fingerprint
    _configure(2)
    assert cache.executables() == []
    _run(_loop(2), np.ones(3, np.float32))
    (second,) = cache.executables()
    assert second.fingerprint != first
    assert second.replicas == 2


def test_the_executable_says_what_it_is():
    _configure()

    def computation(x):
        w = tf.compat.v1.get_variable("w", [3, 5], use_resource=True)
        return tf.matmul(tf.reshape(x, [1, 3]), w)

    _run(computation, np.ones(3, np.float32))
    (executable,) = cache.executables()
    assert [(a.shape, a.is_variable) for a in executable.arguments] == [
        ((3,), False),
        ((3, 5), True),
    ]
    matmul = next(op for op in executable.ops if op.type == "MatMul")
    assert matmul.flops == 2 * 3 * 5
    assert matmul.bytes_in == 4 * (3 + 15)
    assert matmul.bytes_out == 4 * 5
    assert matmul.ipu == 0
    assert os.path.basename(matmul.source.file) == "test_compile.py"
    text = str(executable)
    assert "MatMul" in text
    assert "/device:IPU:0" in text


@pytest.mark.parametrize(
    ("num_ipus", "shards", "replicas"), [(1, [0], 1), (4, [0], 4), (4, [0, 1], 2), (4, [0, 2], 1)]
)
def test_replicas_follow_from_ipus_and_shards(num_ipus, shards, replicas):
    _configure(num_ipus)

    def computation(x):
        for shard in shards:
            with scopes.ipu_shard(shard):
                x = tf.nn.relu(x) + 1.0
        return x

    np.testing.assert_array_equal(_run(computation, np.ones(2, np.float32))[0], 1 + len(shards))
    assert cache.executables()[0].replicas == replicas


def test_more_shards_than_ipus_is_an_error():
    _configure(1)

    def computation(x):
        with scopes.ipu_shard(1):
            return tf.nn.relu(x)

    with pytest.raises(tf.errors.InternalError, match="needs to divide the number of IPUs"):
        _run(computation, np.ones(2, np.float32))
    np.testing.assert_array_equal(_run(_loop(1), np.ones(2, np.float32))[0], 2.0)


def test_device_that_is_not_attached_is_an_error():
    _configure(1)
    with pytest.raises(tf.errors.FailedPreconditionError, match="No device target"):
        _run(_loop(1), np.ones(2, np.float32), device="/device:IPU:1")


@pytest.mark.parametrize("shape", [[], [3]])
def test_scalars_on_an_unattached_device_run(shape):
    _configure(2)
    tf1 = tf.compat.v1
    with tf.Graph().as_default(), tf1.Session() as session:
        with tf.device("/device:IPU:1"):
            made = [
                tf1.get_variable(f"v{value}", initializer=np.full(shape, value), use_resource=True)
                for value in np.float32([1, 2, 3])
            ]
            total = made[0] + made[1] + made[2]
        session.run(tf1.global_variables_initializer())
        if shape:
            with pytest.raises(tf.errors.FailedPreconditionError, match="No device target"):
                session.run(total)
        else:
            assert [session.run(total) for _ in range(2)] == [6.0, 6.0]


def test_two_devices_have_programs_of_their_own():
    _configure([1, 2])
    _run(_loop(1), np.ones(2, np.float32), device="/device:IPU:0")
    _run(_loop(1), np.ones(2, np.float32), device="/device:IPU:1")
    assert [(e.ordinal, e.replicas) for e in cache.executables()] == [(0, 1), (1, 2)]


def test_unsupported_ops_are_refused_and_process_goes_on():
    _configure()
    with pytest.raises(tf.errors.InvalidArgumentError, match="no supported kernel for IPU devices"):
        _run(lambda x: tf.cast(tf.cast(x, tf.float64) * 2, tf.float32), np.ones(2, np.float32))
    np.testing.assert_array_equal(_run(_loop(1), np.ones(2, np.float32))[0], 2.0)


def test_one_feed_on_two_ipus_is_refused():
    _configure(2)
    queue = ipu_outfeed_queue.IPUOutfeedQueue()

    def computation(x):
        with scopes.ipu_shard(0):
            first = queue.enqueue(x)
        queue._enqueued_in = None
        with scopes.ipu_shard(1):
            return x, first, queue.enqueue(tf.nn.relu(x))

    with pytest.raises(tf.errors.FailedPreconditionError, match="Trying to use the same feed"):
        _run(computation, np.ones(2, np.float32))


def test_the_serialization_folder_gets_program_and_description(tmp_path):
    _configure(serialization_output_folder=str(tmp_path))
    _run(_loop(2), np.ones(3, np.float32))
    fingerprint = cache.executables()[0].fingerprint
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f"{fingerprint}.ipu_bin",
        f"{fingerprint}.json",
    ]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    _configure(serialization_output_folder=str(tmp_path / "file" / "folder"))
    with pytest.raises(tf.errors.FailedPreconditionError, match="serialization_output_folder"):
        _run(_loop(2), np.ones(3, np.float32))


def test_connection_never_compiles_but_does_not_run():
    _configure(
        device_connection__type=config.DeviceConnectionType.NEVER, device_connection__version="ipu2"
    )
    with pytest.raises(tf.errors.FailedPreconditionError, match="NEVER"):
        _run(_loop(2), np.ones(3, np.float32))
    assert len(cache.executables()) == 1


def test_pre_compilation_needs_a_cache():
    _configure(
        device_connection__type=config.DeviceConnectionType.PRE_COMPILE,
        device_connection__version="ipu2",
    )
    with pytest.raises(tf.errors.FailedPreconditionError, match="configured for pre-compilation"):
        _run(_loop(2), np.ones(3, np.float32))


PRE_COMPILE = """
import numpy as np, tensorflow as tf
from tensorflow_ipu import config, ipu_compiler, ipu_outfeed_queue, scopes
cfg = config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.device_connection.type = config.DeviceConnectionType.{type}
cfg.device_connection.version = "ipu2"
cfg.configure_ipu_system()
tf.compat.v1.disable_v2_behavior()
queue = ipu_outfeed_queue.IPUOutfeedQueue()
def computation(x):
    w = tf.compat.v1.get_variable("w", [], initializer=tf.ones_initializer(), use_resource=True)
    y = tf.nn.relu(x) + 1.0
    return y, queue.enqueue(y), w.assign_add(1.0).op
x = tf.compat.v1.placeholder(tf.float32, [2])
with scopes.ipu_scope("/device:IPU:0"):
    y = ipu_compiler.compile(computation, [x])
out = queue.dequeue()
with tf.compat.v1.Session() as session:
    session.run(tf.compat.v1.global_variables_initializer())
    print(session.run(y, {{x: np.ones(2)}})[0].tolist())
    print(session.run(out).tolist())
    print([value.tolist() for value in session.run(tf.compat.v1.global_variables())])
"""


@pytest.mark.process
def test_pre_compilation_saves_and_gives_zeros(run_program, tmp_path):
    env = {"TF_POPLAR_FLAGS": f"--executable_cache_path={tmp_path}"}
    result = run_program(PRE_COMPILE.format(type="PRE_COMPILE"), env=env)
    assert result.stdout.splitlines()[-3:] == ["[0.0, 0.0]", "[[0.0, 0.0]]", "[1.0]"]
    names = [path.name for path in tmp_path.iterdir()]
    assert sorted(re.sub("^[0-9a-f]{64}", "", name) for name in names) == [
        ".compile_lock",
        ".poplar_exec",
    ]
