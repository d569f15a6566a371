"""Programs with resources of other devices are refused by the name of the object."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.distributed import ipu_strategy

tf1 = tf.compat.v1
FILE = Path(__file__).name


@pytest.fixture(autouse=True)
def configured() -> Iterator[None]:
    config = IPUConfig()
    config.auto_select_ipus = [1, 1]
    config.configure_ipu_system()
    yield


def _program(function: Callable[..., Any]) -> Any:
    return tf.function(function, jit_compile=True, autograph=False)


def _refused(function: Callable[..., Any], *arguments: Any) -> str:
    """Runs a function in the scope of a strategy; returns the error."""
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            strategy.run(_program(function), arguments)
    assert cache.executables() == []
    message = str(caught.value)
    assert message.startswith("The IPU program")
    assert "cannot be launched on /device:IPU:0" in message
    return message


def _table() -> tf.lookup.StaticHashTable:
    initializer = tf.lookup.KeyValueTensorInitializer([1, 2], [3, 4])
    return tf.lookup.StaticHashTable(initializer, 0, name="ages")


class TestVariables:
    """Variables of the host and of other devices."""

    def test_the_name_and_the_line_that_uses_it(self) -> None:
        variable = tf.Variable(1.0, name="mine")

        def step() -> tf.Tensor:
            return variable + 1.0

        message = _refused(step)
        line = step.__code__.co_firstlineno + 1
        assert f"the variable 'mine' on /device:CPU:0, used at {FILE}:{line} (step)" in message
        assert "Create its variables on the IPU: make it inside `with strategy.scope():`" in message
        assert 'ipu_scope("/device:IPU:0")' in message

    def test_variables_of_the_device_are_not_named(self) -> None:
        with ipu_strategy.IPUStrategy().scope():
            good = tf.Variable(1.0, name="good")
        bad = tf.Variable(1.0, name="bad")
        for function in (lambda: good + bad, lambda: bad + good):
            message = _refused(function)
            assert "'bad'" in message and "'good'" not in message

    def test_variable_of_host_is_refused_as_an_argument(self) -> None:
        assert "'passed'" in _refused(lambda v: v + 1.0, tf.Variable(1.0, name="passed"))

    def test_variable_of_host_is_refused_in_a_branch(self) -> None:
        variable = tf.Variable(1.0, name="mine")

        def step(x: tf.Tensor) -> tf.Tensor:
            return tf.cond(x > 0, lambda: variable + x, lambda: x)

        line = step.__code__.co_firstlineno + 1
        assert f"'mine' on /device:CPU:0, used at {FILE}:{line}" in _refused(step, tf.constant(1.0))

    def test_variable_of_a_function_around_program_is_refused(self) -> None:
        variable = tf.Variable(1.0, name="mine")
        strategy = ipu_strategy.IPUStrategy()
        program = _program(lambda: variable + 1.0)
        around = tf.function(lambda: strategy.run(program))
        with strategy.scope():
            with pytest.raises(tf.errors.InvalidArgumentError, match="the variable 'mine' on"):
                around()

    @pytest.mark.parametrize("scope", ["strategy", "device", "compile"])
    def test_however_the_program_is_made(self, scope: str) -> None:
        variable = tf.Variable(1.0, name="mine")
        with pytest.raises(tf.errors.InvalidArgumentError, match="the variable 'mine' on"):
            if scope == "strategy":
                with ipu_strategy.IPUStrategy().scope():
                    _program(lambda: variable + 1.0)()
            elif scope == "device":
                with tf.device("/device:IPU:0"):
                    _program(lambda: variable + 1.0)()
            else:
                with scopes.ipu_scope("/device:IPU:0"):
                    ipu_compiler.compile(lambda: variable + 1.0)

    def test_a_variable_of_another_device_is_refused(self) -> None:
        with ipu_strategy.IPUStrategy("/device:IPU:1").scope():
            variable = tf.Variable(1.0, name="mine")
        assert "the variable 'mine' on /device:IPU:1" in _refused(lambda: variable + 1.0)
        strategy = ipu_strategy.IPUStrategy("/device:IPU:1")
        assert strategy.run(_program(lambda: variable + 1.0)).numpy() == 2.0

    def test_variable_of_another_strategy_for_device_is_accepted(self) -> None:
        with ipu_strategy.IPUStrategy().scope():
            variable = tf.Variable(1.0)
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            assert strategy.run(_program(lambda: variable + 1.0)).numpy() == 2.0

    def test_only_the_first_objects_are_named(self) -> None:
        layers = [tf.keras.layers.Dense(2, name=f"layer_{i}") for i in range(5)]
        for layer in layers:
            layer.build([None, 2])

        def step(x: tf.Tensor) -> tf.Tensor:
            for layer in layers:
                x = layer(x)
            return x

        message = _refused(step, np.ones([1, 2], np.float32))
        assert "layer_0" in message and "layer_2" in message and "layer_3" not in message
        assert "of 2 more objects" in message


class TestOwners:
    """The error names the object that owns the variables, to be made in the scope."""

    @staticmethod
    def _minimize(optimizer: Any) -> Callable[[], tf.Tensor]:
        with ipu_strategy.IPUStrategy().scope():
            weights = tf.Variable([1.0, 2.0])

        def step() -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(weights**2)
            optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
            return loss

        return step

    def test_an_optimizer_outside_the_scope_is_named(self) -> None:
        message = _refused(self._minimize(tf.keras.optimizers.Adam(name="mine")))
        assert re.search("'iteration'.* of the Adam 'mine' on /device:CPU:0", message)
        assert "make the Adam 'mine' inside" in message

    def test_an_optimizer_around_another_is_named(self) -> None:
        inner = tf.keras.optimizers.SGD()
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(inner)
        message = _refused(self._minimize(optimizer))
        assert "'current_loss_scale'" in message and "LossScaleOptimizer" in message

    def test_an_optimizer_of_tensorflow_1_is_named(self) -> None:
        optimizer = tf1.train.AdamOptimizer()
        weights = tf.Variable(1.0)
        optimizer.minimize(lambda: weights**2, var_list=[weights])
        assert "of the AdamOptimizer 'Adam' on" in _refused(self._minimize(optimizer))

    @pytest.mark.parametrize("make", [tf.keras.optimizers.legacy.Adam, tf1.train.AdamOptimizer])
    def test_optimizers_without_variables_can_be_made_anywhere(self, make: Any) -> None:
        step = _program(self._minimize(make()))
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            losses = [strategy.run(step).numpy() for _ in range(2)]
        assert losses[1] < losses[0] == 5.0

    def test_layers_metrics_and_generators_are_named(self) -> None:
        layer = tf.keras.layers.Dense(2, name="hidden")
        layer.build([None, 2])
        metric = tf.keras.metrics.Mean("own_mean")
        generator = tf.random.Generator.from_seed(1)

        def measure() -> tf.Tensor:
            metric.update_state(1.0)
            return metric.result()

        message = _refused(lambda x: layer(x), np.ones([1, 2], np.float32))
        assert "variables 'kernel', 'bias' of the Dense 'hidden'" in message
        assert "of the Mean 'own_mean'" in _refused(measure)
        assert "make the Generator inside" in _refused(lambda: generator.normal([2]))


class TestOtherResources:
    """The error names the kind of resource, its lines, and the remedy."""

    @pytest.mark.parametrize("inside", [False, True])
    def test_a_lookup_table_of_the_host_is_refused(self, inside: bool) -> None:
        strategy = ipu_strategy.IPUStrategy()
        if inside:
            with strategy.scope():
                table = _table()
        else:
            table = _table()

        def step(x: tf.Tensor) -> tf.Tensor:
            return table.lookup(x)

        message = _refused(step, tf.constant([1]))
        line = step.__code__.co_firstlineno + 1
        assert f"a lookup table (StaticHashTable 'ages'), used at {FILE}:{line} (step)" in message
        assert "Look up on the host" in message
        assert "variables on the IPU" not in message

    def test_a_layer_with_a_table_is_named(self) -> None:
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            layer = tf.keras.layers.IntegerLookup(vocabulary=[1, 2, 3])
        assert "a lookup table" in _refused(lambda x: layer(x), tf.constant([[1]]))

    def test_a_summary_writer_is_refused(self, tmp_path: Path) -> None:
        writer = tf.summary.create_file_writer(str(tmp_path))

        def step(x: tf.Tensor) -> tf.Tensor:
            with writer.as_default():
                tf.summary.scalar("loss", x, step=0)
            return x

        message = _refused(step, tf.constant(1.0))
        line = step.__code__.co_firstlineno + 2
        assert f"a summary writer, used at {FILE}:{line} (step)" in message
        assert "Write summaries on the host" in message
        writer.close()

    def test_a_dataset_iterator_of_the_host_is_refused(self) -> None:
        iterator = iter(tf.data.Dataset.range(4))
        message = _refused(lambda: next(iterator))
        assert "a dataset iterator of the host (OwnedIterator)" in message
        assert "Pass it to strategy.run, or make it inside `with strategy.scope():`" in message

    def test_an_iterator_of_another_device_is_refused(self) -> None:
        with ipu_strategy.IPUStrategy().scope():
            iterator = iter(tf.data.Dataset.range(4))
        strategy = ipu_strategy.IPUStrategy("/device:IPU:1")
        with strategy.scope():
            with pytest.raises(tf.errors.FailedPreconditionError, match="An iterator is for the"):
                strategy.run(_program(lambda: next(iterator)))

    def test_a_queue_of_the_host_is_refused(self) -> None:
        queue = tf.queue.FIFOQueue(4, [tf.float32])
        assert "a queue of the host" in _refused(lambda: queue.dequeue())

    def test_several_kinds_of_resources_are_named_at_once(self) -> None:
        table, variable = _table(), tf.Variable([1], name="mine")
        message = _refused(lambda: table.lookup(variable))
        assert "the variable 'mine'" in message and "a lookup table" in message


class TestGraphs:
    """TensorFlow 1 style: refused when the graph is built, with the line that made the object."""

    @staticmethod
    def _refused(function: Callable[[], Any]) -> str:
        with scopes.ipu_scope("/device:IPU:0"):
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                ipu_compiler.compile(function)
        return str(caught.value)

    def test_variables_of_other_devices_are_refused_in_graphs(self) -> None:
        with tf.Graph().as_default():
            with tf.device("/device:CPU:0"):
                on_cpu = tf1.get_variable("mine", initializer=1.0, use_resource=True)
            with tf.device("/device:IPU:1"):
                on_other = tf1.get_variable("other", initializer=1.0, use_resource=True)
            message = self._refused(lambda: on_cpu + on_other)
        assert re.search(f"'mine' on /device:CPU:0, made at {FILE}:", message)
        assert re.search(f"'other' on /device:IPU:1, made at {FILE}:", message)

    def test_variables_that_ask_for_no_device_follow_program(self) -> None:
        with tf.Graph().as_default():
            variable = tf1.get_variable("mine", initializer=1.0, use_resource=True)
            with scopes.ipu_scope("/device:IPU:0"):
                result = ipu_compiler.compile(lambda: variable + 1.0)
            with tf1.Session() as session:
                session.run(tf1.global_variables_initializer())
                assert session.run(result) == [2.0]

    def test_tables_queues_and_iterators_are_refused_in_graphs(self) -> None:
        with tf.Graph().as_default():
            table, queue = _table(), tf.queue.FIFOQueue(4, [tf.float32])
            accumulator = tf1.ConditionalAccumulator(tf.float32, shape=[])
            iterator = tf1.data.make_one_shot_iterator(tf.data.Dataset.range(4))
            found = [
                self._refused(lambda: table.lookup(tf.constant([1]))),
                self._refused(lambda: queue.dequeue()),
                self._refused(lambda: iterator.get_next()),
                self._refused(lambda: accumulator.take_grad(1)),
            ]
        nouns = [
            "lookup table (StaticHashTable 'ages')",
            "queue of the host",
            "dataset iterator",
            "resource of the host ('conditional_accumulator')",
        ]
        for message, noun in zip(found, nouns):
            assert f"a {noun}" in message
            assert re.search(f"made at {FILE}:.*, used at {FILE}:", message)

    def test_resources_that_are_known_at_the_launch_only(self) -> None:
        with tf.Graph().as_default():
            handle = tf1.placeholder_with_default(_table().resource_handle, [])
            with tf.device("/device:CPU:0"):
                variable = tf1.get_variable("mine", initializer=1.0, use_resource=True)
            same = tf.identity(variable.handle)
            with scopes.ipu_scope("/device:IPU:0"):
                looked_up = ipu_compiler.compile(
                    lambda h: tf.raw_ops.LookupTableFindV2(
                        table_handle=h, keys=[1], default_value=0
                    ),
                    [handle],
                )
                read = ipu_compiler.compile(
                    lambda h: tf.raw_ops.ReadVariableOp(resource=h, dtype=tf.float32), [same]
                )
            with tf1.Session() as session:
                session.run(tf1.global_variables_initializer())
                with pytest.raises(tf.errors.InvalidArgumentError, match="no resources but var"):
                    session.run(looked_up)
                with pytest.raises(tf.errors.InvalidArgumentError, match="the variable mine on"):
                    session.run(read)
