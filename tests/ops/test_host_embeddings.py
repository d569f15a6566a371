"""Tests of host embeddings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.configs import flags
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ops import pipelining_ops, replication_ops
from tensorflow_ipu.ops.embedding_ops import (
    HostEmbedding,
    HostEmbeddingOptimizerSpec,
    HostEmbeddingSGDGAOptimizerSpec,
    create_host_embedding,
)
from tensorflow_ipu.optimizers.gradient_accumulation_optimizer import (
    CrossReplicaGradientAccumulationOptimizerV2,
    GradientAccumulationOptimizerV2,
)
from tests.support.programs import replicas

tf1 = tf.compat.v1

TOKENS, WIDTH, BATCH = 9, 3, 4
RATE = 0.125
DTYPES = [np.float32, np.float16]


def _table(dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(TOKENS, WIDTH)).astype(dtype)


def _ids(count: int) -> np.ndarray:
    """Returns ids of N mini-batches, some of them repeated."""
    return np.random.default_rng(4).integers(0, TOKENS, (count, BATCH)).astype(np.int32)


def _embedding(spec: Any = None, dtype: Any = np.float32, **arguments: Any) -> HostEmbedding:
    return create_host_embedding(
        "table",
        [TOKENS, WIDTH],
        dtype,
        optimizer_spec=spec,
        initializer=tf1.constant_initializer(_table(dtype)),
        **arguments,
    )


def _loss(rows: tf.Tensor) -> tf.Tensor:
    """Returns the loss of a mini-batch; it depends on a variable of the device, too."""
    weight = tf1.get_variable("weight", initializer=1.0, use_resource=True)
    return weight * tf.reduce_sum(tf.cast(rows, tf.float32) ** 2)


def _minimize(opt: Any = None) -> Callable[[tf.Tensor], Any]:
    # The rate 0 keeps the weight, so that gradients are 2 * rows.
    return lambda loss: (opt or tf1.train.GradientDescentOptimizer(0.0)).minimize(loss)


def _expected(
    ids: np.ndarray, per_update: int, dtype: Any = np.float32, rate: float = RATE
) -> np.ndarray:
    """Returns the table after gradient descent on the sum of squares of rows."""
    table = _table(dtype)
    for group in ids.reshape(-1, per_update * BATCH):
        total = np.zeros(table.shape, np.float32)
        np.add.at(total, group, 2 * table[group].astype(np.float32))
        table = (table - rate * total).astype(dtype)
    return table


def _train(
    embedding: HostEmbedding,
    ids: np.ndarray,
    train: Callable[[tf.Tensor], Any],
    iterations: int,
    lookup: Callable[[tf.Tensor], tf.Tensor] | None = None,
    runs: int = 1,
) -> dict[str, np.ndarray]:
    """Trains in a loop on the device, and returns all trainable variables after the scope."""
    dataset = tf.data.Dataset.from_tensor_slices(ids)
    infeed = IPUInfeedQueue(dataset)
    lookup = lookup or embedding.lookup
    with scopes.ipu_scope("/device:IPU:0"):
        launch = ipu_compiler.compile(
            lambda: loops.repeat(iterations, lambda i: train(_loss(lookup(i))), [], infeed)
        )
    with tf1.Session() as session:
        session.run([tf1.global_variables_initializer(), infeed.initializer])
        with embedding.register(session):
            for _ in range(runs):
                session.run(launch)
        variables = tf1.trainable_variables()
        return dict(zip([v.op.name for v in variables], session.run(variables)))


@pytest.mark.parametrize("strategy", ["TOKEN", "ENCODING"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_training_in_a_loop_equals_gradient_descent(count, dtype, strategy):
    """All replicas' gradients are summed."""
    replicas.configure(count)
    ids = _ids(6 * count)
    with tf.Graph().as_default():
        spec = HostEmbeddingOptimizerSpec(RATE / count)
        embedding = _embedding(spec, dtype, partition_strategy=strategy)
        values = _train(embedding, ids, _minimize(), 3, runs=2)
    expected = _expected(ids, count, dtype, RATE / count)
    assert values["table"].dtype == dtype
    np.testing.assert_allclose(
        values["table"], expected, rtol=1e-2 if dtype == np.float16 else 1e-5
    )
    assert values["table/__dummy"] == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_training_does_not_depend_on_threads(dtype):
    """Bits are the same in each run: float sums depend on the order of the replicas."""
    replicas.configure(4)
    tables = []
    for _ in range(3):
        with tf.Graph().as_default():
            embedding = _embedding(HostEmbeddingOptimizerSpec(0.03), dtype)
            tables.append(_train(embedding, _ids(24), _minimize(), 6)["table"])
    assert tables[0].tobytes() == tables[1].tobytes() == tables[2].tobytes()


def test_a_table_is_a_variable_of_the_graph():
    with tf.Graph().as_default(), tf1.variable_scope("outer", use_resource=True):
        embedding = create_host_embedding("table", [TOKENS, WIDTH], tf.float16)
        table = embedding.get_embedding_tensor()
        assert table.op.type == "VariableV2"
        assert table.name == "outer/table:0"
        assert table.dtype.base_dtype == tf.float16
        assert tf1.DeviceSpec.from_string(table.device).device_type == "CPU"
        with scopes.ipu_scope("/device:IPU:0"), tf1.variable_scope("model"):
            ipu_compiler.compile(lambda: [embedding.lookup([1]), embedding.lookup([2])])
        names = [variable.op.name for variable in tf1.trainable_variables()]
        assert names == ["outer/table", "table/__dummy"]


@pytest.mark.parametrize("in_graph", [False, True])
def test_any_initializer_fills_the_table(in_graph):
    def made(initializer):
        embedding = create_host_embedding(
            "table", [TOKENS, WIDTH], tf.float16, "TOKEN", None, initializer
        )
        return embedding.get_embedding_tensor()

    for initializer in (_table(), tf1.constant_initializer(_table()), tf1.zeros_initializer, None):
        with contextlib.ExitStack() as stack:
            if in_graph:
                stack.enter_context(tf.Graph().as_default())
                session = stack.enter_context(tf1.Session())
            table = made(initializer)
            if in_graph:
                session.run(table.initializer)
            value = session.run(table) if in_graph else table.numpy()
        assert value.dtype == np.float16
        if initializer is None:
            assert 0 < np.abs(value).max() < (6 / (TOKENS + WIDTH)) ** 0.5
        else:
            is_zero = initializer is tf1.zeros_initializer
            np.testing.assert_array_equal(value, 0 * value if is_zero else _table(np.float16))
    with pytest.raises(ValueError, match=r"the table, \(9, 3\). Received: \(2, 2\)"):
        made(np.zeros([2, 2], np.float32))


def test_tables_made_in_the_scope_of_a_device():
    with tf.Graph().as_default() as graph, scopes.ipu_scope("/device:IPU:0"):
        table = _embedding(HostEmbeddingOptimizerSpec(RATE)).get_embedding_tensor()
        assert table.op.type == "VariableV2"
        for op in graph.get_operations():
            assert "IPU" not in op.device
            assert "_XlaCompile" not in op.node_def.attr


@pytest.mark.parametrize("count", [1, 2])
def test_without_a_spec_the_table_stays(count):
    replicas.configure(count)
    with tf.Graph().as_default():
        table = _train(_embedding(), _ids(2 * count), _minimize(), 2)["table"]
    np.testing.assert_array_equal(table, _table())


def test_without_the_dummy_the_table_stays():
    replicas.configure(1)

    def train(loss):
        weights = [v for v in tf1.trainable_variables() if v.op.name == "weight"]
        return tf1.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=weights)

    with tf.Graph().as_default():
        embedding = _embedding(HostEmbeddingOptimizerSpec(RATE))
        values = _train(embedding, _ids(2), train, 2)
    np.testing.assert_array_equal(values["table"], _table())
    assert values["weight"] != 1


@pytest.mark.parametrize("name", ["Adam", "Momentum"])
def test_other_optimizers_do_not_touch_the_table(name):
    replicas.configure(1)
    make = {"Adam": lambda: tf1.train.AdamOptimizer(0.0)}.get(
        name, lambda: tf1.train.MomentumOptimizer(0.0, 0.9)
    )
    with tf.Graph().as_default():
        embedding = _embedding(HostEmbeddingOptimizerSpec(RATE))
        values = _train(embedding, _ids(3), _minimize(make()), 3)
    np.testing.assert_allclose(values["table"], _expected(_ids(3), 1), rtol=1e-5)
    assert values["table/__dummy"] == 0


@pytest.mark.parametrize("clip", [True, False])
def test_clipped_ids_look_up_ends_of_table(clip):
    replicas.configure(1)
    ids = [[0, 8], [3, 3]]
    beyond = [[-5, 100], [3, 3]] if clip else ids
    with tf.Graph().as_default():
        embedding = _embedding()
        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(lambda: embedding.lookup(beyond, clip_indices=clip))
        assert launch[0].shape == [2, 2, WIDTH]
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            with embedding.register(session):
                np.testing.assert_array_equal(session.run(launch)[0], _table()[ids])


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    "optimizer", [GradientAccumulationOptimizerV2, CrossReplicaGradientAccumulationOptimizerV2]
)
def test_accumulated_gradients_are_applied_at_once(optimizer, count):
    """Lookups see the old table until the update of the accumulated gradients."""
    replicas.configure(count)
    ids = _ids(8 * count)
    rate = RATE / 8
    with tf.Graph().as_default():
        opt = optimizer(tf1.train.GradientDescentOptimizer(0.0), 4)
        embedding = _embedding(HostEmbeddingSGDGAOptimizerSpec(rate, 4))
        table = _train(embedding, ids, _minimize(opt), 8)["table"]
    np.testing.assert_allclose(table, _expected(ids, 4 * count, rate=rate), rtol=1e-5)


@pytest.mark.parametrize("factor", [-1, 0, 1])
def test_accumulation_of_one_is_none(factor):
    replicas.configure(1)
    with tf.Graph().as_default():
        spec = HostEmbeddingSGDGAOptimizerSpec(RATE, factor)
        assert spec.get_accumulation_factor() == factor
        assert spec.get_learning_rate() == RATE
        table = _train(_embedding(spec), _ids(3), _minimize(), 3)["table"]
    np.testing.assert_allclose(table, _expected(_ids(3), 1), rtol=1e-5)


def test_gradients_that_would_be_lost_are_an_error():
    replicas.configure(1)
    with tf.Graph().as_default():
        embedding = _embedding(HostEmbeddingSGDGAOptimizerSpec(RATE, 3))
        with pytest.raises(tf.errors.FailedPreconditionError, match="2 mini-batches after .* lost"):
            _train(embedding, _ids(5), _minimize(), 5)


@pytest.mark.parametrize("count", [1, 2])
def test_a_pipeline_trains_the_table(count):
    replicas.configure(2 * count)
    ids = _ids(12 * count)
    rate = RATE / 8
    with tf.Graph().as_default():
        embedding = _embedding(HostEmbeddingSGDGAOptimizerSpec(rate, 4))
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(ids))

        def optimizer_function(loss):
            opt = tf1.train.GradientDescentOptimizer(0.0)
            return pipelining_ops.OptimizerFunctionOutput(opt, loss)

        def program():
            return pipelining_ops.pipeline(
                [embedding.lookup, _loss],
                gradient_accumulation_count=4,
                repeat_count=3,
                infeed_queue=infeed,
                optimizer_function=optimizer_function,
                outfeed_mask=[True],
            )

        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(program)
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer(), infeed.initializer])
            with embedding.register(session):
                session.run(launch)
            table = session.run(embedding.get_embedding_tensor())
    np.testing.assert_allclose(table, _expected(ids, 4 * count, rate=rate), rtol=1e-5)


@pytest.mark.parametrize("count", [1, 2])
def test_lookups_of_a_step_see_the_same_table(count):
    """Two lookups of one step: both before the updates of either."""
    replicas.configure(count)
    ids = _ids(6 * count)
    with tf.Graph().as_default():
        embedding = _embedding(HostEmbeddingOptimizerSpec(RATE / 4))

        def halves(i):
            return tf.concat([embedding.lookup(i[:2]), embedding.lookup(i[2:])], 0)

        table = _train(embedding, ids, _minimize(), 6, halves)["table"]
    np.testing.assert_allclose(table, _expected(ids, count, rate=RATE / 4), rtol=1e-5)


@pytest.mark.parametrize("count", [1, 2])
def test_steps_in_a_row_see_updates_before_them(count):
    """A lookup comes after the update that is before it in the program, and the other way round."""
    replicas.configure(count)
    ids = [1, 1, 2]
    with tf.Graph().as_default():
        embedding = _embedding(HostEmbeddingOptimizerSpec(RATE))

        def program():
            seen, steps = [], []
            for _ in range(3):
                with tf.control_dependencies(steps):
                    rows = embedding.lookup(tf.constant(ids))
                seen.append(rows)
                # The gradient does not depend on the rows.
                steps = [
                    _minimize()(
                        tf.reduce_sum(rows)
                        * tf1.get_variable(f"one{len(seen)}", initializer=1.0, use_resource=True)
                    )
                ]
            return [*seen, *steps]

        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(program)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            with embedding.register(session):
                seen = session.run(launch)
    step = count * RATE * np.array([[2], [2], [1]])
    for number, rows in enumerate(seen):
        np.testing.assert_allclose(rows, _table()[ids] - number * step, rtol=1e-5)


def test_the_learning_rate_may_come_from_outside():
    replicas.configure(1)
    with tf.Graph().as_default():
        rate = tf1.placeholder_with_default(np.float32(RATE), [])
        table = _train(_embedding(HostEmbeddingOptimizerSpec(rate)), _ids(3), _minimize(), 3)[
            "table"
        ]
    np.testing.assert_allclose(table, _expected(_ids(3), 1), rtol=1e-5)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_table_is_trained_in_a_strategy(dtype, count):
    replicas.configure(count)
    ids = _ids(count)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        embedding = _embedding(HostEmbeddingOptimizerSpec(RATE), dtype)
        assert "CPU" in embedding.get_embedding_tensor().device

        @tf.function(jit_compile=True)
        def step():
            rows = embedding.lookup(tf.constant(ids)[replication_ops.replication_index()])
            with tf.GradientTape() as tape:
                rows = embedding.lookup(tf.constant(ids)[replication_ops.replication_index()])
                loss = tf.reduce_sum(tf.cast(rows, tf.float32) ** 2)
            variables = tape.watched_variables()
            assert [variable.name for variable in variables] == ["table/__dummy:0"]
            variables[0].assign_sub(tape.gradient(loss, variables)[0])
            return rows

        with embedding.register():
            np.testing.assert_array_equal(strategy.run(step), _table(dtype)[ids[0]])
        table = embedding.get_embedding_tensor().numpy()
        tolerance = 1e-2 if dtype == np.float16 else 1e-5
        np.testing.assert_allclose(table, _expected(ids, count, dtype), rtol=tolerance)
        with pytest.raises(tf.errors.FailedPreconditionError, match="not registered"):
            strategy.run(step)


def test_an_existing_variable_is_wrapped():
    replicas.configure(1)
    with tf.Graph().as_default():
        variable = tf1.get_variable("mine", initializer=_table(), use_resource=True)
        embedding = HostEmbedding("name", variable, "ENCODING", HostEmbeddingOptimizerSpec(RATE))
        assert embedding.get_embedding_tensor() is variable
        values = _train(embedding, _ids(3), _minimize(), 3)
    np.testing.assert_allclose(values["mine"], _expected(_ids(3), 1), rtol=1e-5)
    assert values["name/__dummy"] == 0


def test_table_is_written_back_after_scope_error():
    replicas.configure(1)
    with tf.Graph().as_default():
        embedding = _embedding(HostEmbeddingOptimizerSpec(RATE))
        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(
                lambda: _minimize()(_loss(embedding.lookup(tf.constant(_ids(1)[0]))))
            )
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            tf1.get_default_graph().finalize()
            with pytest.raises(KeyError), embedding.register(session):
                session.run(launch)
                raise KeyError
            table = session.run(embedding.get_embedding_tensor())
            np.testing.assert_allclose(table, _expected(_ids(1), 1), rtol=1e-5)
            with embedding.register(session):
                session.run(launch)


def test_a_table_is_registered_once_for_each_session():
    replicas.configure(1)
    with tf.Graph().as_default():
        embedding = _embedding()
        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(lambda: embedding.lookup([1]))
        with pytest.raises(ValueError, match="table requires a session"):
            embedding.register()
        with tf1.Session() as session, tf1.Session() as other:
            for one in (session, other):
                one.run(tf1.global_variables_initializer())
            with pytest.raises(tf.errors.FailedPreconditionError, match="table is not registered"):
                session.run(launch)
            with embedding.register(session):
                with pytest.raises(tf.errors.AlreadyExistsError, match="table already exists"):
                    embedding.register(session).__enter__()
                with pytest.raises(tf.errors.FailedPreconditionError, match="not registered"):
                    other.run(launch)
                with embedding.register(other):
                    np.testing.assert_array_equal(other.run(launch), session.run(launch))
            with pytest.raises(tf.errors.FailedPreconditionError, match="not registered"):
                session.run(launch)


@pytest.fixture
def synthetic(monkeypatch):
    """Sets TF_POPLAR_FLAGS as a new process would see it."""
    options = "--synthetic_data_categories=hostembedding --synthetic_data_initializer=2"
    monkeypatch.setenv(flags.VARIABLE, options)
    flags._reset_for_tests()
    yield
    monkeypatch.undo()
    flags._reset_for_tests()


def test_synthetic_data_replace_the_rows_of_the_table(synthetic):
    replicas.configure(1)
    with tf.Graph().as_default():
        embedding = _embedding(HostEmbeddingOptimizerSpec(RATE))
        values = _train(embedding, _ids(2), _minimize(), 2)
        with scopes.ipu_scope("/device:IPU:0"):
            rows = ipu_compiler.compile(lambda: embedding.lookup([1, 2]))
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            np.testing.assert_array_equal(session.run(rows)[0], np.full([2, WIDTH], 2))
    np.testing.assert_array_equal(values["table"], _table())
    assert values["table/__dummy"] == 0


@pytest.mark.parametrize("count", [1, 2])
def test_lookups_in_a_differentiated_loop_train(count):
    replicas.configure(count)
    ids = _ids(1)[0]
    with tf.Graph().as_default():
        embedding = _embedding(HostEmbeddingOptimizerSpec(RATE))

        def body(i, total):
            return i + 1, total + _loss(embedding.lookup(tf.constant(ids)[i]))

        def program():
            loop = tf.while_loop(lambda i, _: i < BATCH, body, [0, 0.0])
            return [loop[1], _minimize()(loop[1])]

        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(program)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            with embedding.register(session):
                loss = session.run(launch)[0]
            table = session.run(embedding.get_embedding_tensor())
    np.testing.assert_allclose(loss, (_table()[ids] ** 2).sum(), rtol=1e-5)
    np.testing.assert_allclose(table, _expected(np.tile(ids, count), count), rtol=1e-5)


def test_lookups_that_only_one_branch_does():
    replicas.configure(1)
    with tf.Graph().as_default():
        embedding = _embedding(HostEmbeddingOptimizerSpec(RATE))
        even = tf1.placeholder(tf.bool, [])

        def program(even):
            rows = tf.cond(even, lambda: embedding.lookup([2]), lambda: embedding.lookup([3]))
            return [rows, _minimize()(_loss(rows))]

        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(program, [even])
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            with embedding.register(session):
                rows = session.run(launch, {even: True})[0]
            table = session.run(embedding.get_embedding_tensor())
    np.testing.assert_array_equal(rows, _table()[[2]])
    expected = _table()
    expected[2] *= 1 - 2 * RATE
    np.testing.assert_allclose(table, expected, rtol=1e-5)


def test_lookup_works_in_a_program_only():
    embedding = _embedding()
    with embedding.register(), tf.device("/device:CPU:0"):
        with pytest.raises(tf.errors.FailedPreconditionError, match="only in a program"):
            embedding.lookup([1])


def test_wrong_arguments_are_refused():
    with pytest.raises(NotImplementedError, match="lookup"):
        _embedding()(tf.constant([1]))
    with pytest.raises(TypeError, match="indices must be integers. Received: float32"):
        _embedding().lookup([1.0])
    with pytest.raises(ValueError, match="'TOKEN', 'ENCODING'. Received: 'ROW'"):
        _embedding(partition_strategy="ROW")
    with pytest.raises(ValueError, match="HostEmbeddingOptimizerSpec or None. Received: 'SGD'"):
        _embedding("SGD")
    with pytest.raises(ValueError, match="must be a tensor. Received: 'table'"):
        HostEmbedding("name", "table")
    with pytest.raises(ValueError, match="must be a variable to be trained"):
        HostEmbedding("name", tf.constant(_table()), "TOKEN", HostEmbeddingOptimizerSpec(0.1))
    with pytest.raises(ValueError, match=r"\[tokens, encoding\]. Received: \(3,\)"):
        create_host_embedding("name", [3], tf.float32)
    with pytest.raises(ValueError, match="float16 or float32. Received: int32"):
        create_host_embedding("name", [3, 2], tf.int32)
    with pytest.raises(ValueError, match="accumulation_factor must be an int. Received: 1.5"):
        HostEmbeddingSGDGAOptimizerSpec(0.1, 1.5)
