"""How long programs live: as long as something can run them, in Python and in the engine."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import profiler
from tensorflow_ipu.api import ipu_compiler, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache, current_scope
from tensorflow_ipu.configs.proto.trace_pb2 import IpuTraceEvent
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ops import cross_replica_ops
from tensorflow_ipu.runtime import events, native, system
from tests.support.models import keras_models
from tests.support.programs import replicas

pytestmark = pytest.mark.lifetimes

tf1 = tf.compat.v1
IPU = "/device:IPU:0"
X = np.array([1.0, 2.0], np.float32)


@pytest.fixture(autouse=True)
def configured() -> Iterator[None]:
    replicas.configure(1)
    yield
    system.reset_ipu_configuration()


@pytest.fixture
def nothing_stays() -> Iterator[None]:
    """Checks that after the test there are no more programs than before."""
    gc.collect()
    before = native.counts()
    yield
    gc.collect()
    assert cache.executables() == []
    assert native.counts() == before


def _run(function: Any, *arguments: Any) -> Any:
    strategy = current_scope.current() or ipu_strategy.IPUStrategy()
    with strategy.scope():
        return strategy.run(function, arguments)


def _adder(number: float) -> Any:
    @tf.function(jit_compile=True)
    def add(x: tf.Tensor) -> tf.Tensor:
        return x + number

    return add


def _references() -> list[weakref.ref[Any]]:
    """References to all there is of the programs: Executables, Clusters and traces."""
    clusters = list(cache.CACHE._clusters)
    graphs = [cluster.graph for cluster in clusters]
    return [weakref.ref(one) for one in (*cache.CACHE.all(), *clusters, *graphs)]


def _alive(references: list[weakref.ref[Any]]) -> list[Any]:
    gc.collect()
    return [one for reference in references if (one := reference()) is not None]


def _eager(number: float) -> list[weakref.ref[Any]]:
    add = _adder(number)
    np.testing.assert_array_equal(_run(add, X), X + number)
    return _references()


def _on_replicas(number: float) -> list[weakref.ref[Any]]:
    replicas.configure(4)
    total = tf.function(lambda x: cross_replica_ops.cross_replica_sum(x) * number)
    np.testing.assert_array_equal(_run(total, X), 4 * number * X)
    return _references()


def _in_a_function(number: float) -> list[weakref.ref[Any]]:
    add = _adder(number)

    @tf.function
    def twice(x: tf.Tensor) -> tf.Tensor:
        return 2 * _run(add, x)

    np.testing.assert_array_equal(twice(X), 2 * (X + number))
    return _references()


def _in_a_session(number: float) -> list[weakref.ref[Any]]:
    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope(IPU):
            variable = tf1.get_variable("v", initializer=number, use_resource=True)
            result = ipu_compiler.compile(lambda: variable + X)
        session.run(tf1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(result), [number + X])
        return _references()


def _keras(number: float) -> list[weakref.ref[Any]]:
    with ipu_strategy.IPUStrategy().scope():
        model = keras_models.MLP.compiled(steps_per_execution=2)
        model.fit(keras_models.X, keras_models.Y, keras_models.BATCH, verbose=0)
        model.predict(keras_models.X * number, keras_models.BATCH, verbose=0)
        return [*_references(), weakref.ref(model)]


@pytest.mark.usefixtures("nothing_stays")
@pytest.mark.parametrize("use", [_eager, _on_replicas, _in_a_function, _in_a_session, _keras])
def test_a_program_goes_with_what_can_run_it(use: Callable[[float], Any]) -> None:
    references = [reference for number in range(3) for reference in use(number + 1.0)]
    assert references
    assert _alive(references) == []


@pytest.mark.usefixtures("nothing_stays")
def test_a_program_that_cannot_be_compiled_goes_too() -> None:
    def use() -> list[weakref.ref[Any]]:
        wide = tf.function(lambda x: tf.cast(tf.linalg.svd(tf.cast(x, tf.float64))[0], tf.float32))
        with pytest.raises(tf.errors.OpError):
            _run(wide, np.eye(2, dtype=np.float32))
        return [weakref.ref(wide)]

    assert _alive(use()) == []


def test_a_program_stays_while_its_function_does() -> None:
    add = _adder(1.0)
    _run(add, X)
    (executable,) = cache.executables()
    for _ in range(3):
        gc.collect()
        _run(add, X)
    assert cache.executables() == [executable]
    assert executable.launches == 4
    assert native.counts().programs == 1


@pytest.mark.usefixtures("nothing_stays")
def test_equal_programs_are_one_until_last_goes() -> None:
    first, second = _adder(1.0), _adder(1.0)
    _run(first, X)
    (executable,) = cache.executables()
    (trace,) = (weakref.ref(cluster.graph) for cluster in cache.CACHE._clusters)
    _run(second, X)
    assert cache.executables() == [executable]
    assert native.counts().programs == 2
    del first
    assert _alive([trace]) == []
    assert cache.executables() == [executable]
    assert native.counts().programs == 1
    _run(second, X)
    assert executable.launches == 3
    reference = weakref.ref(executable)
    del second, executable
    assert _alive([reference]) == []


@pytest.mark.usefixtures("nothing_stays")
def test_held_program_knows_lines_but_no_user_objects() -> None:
    gc.collect()
    before = tf.config.experimental.get_memory_info("CPU:0")["current"]

    def use() -> Any:
        with ipu_strategy.IPUStrategy().scope():
            large = tf.Variable(tf.zeros([1 << 20]))

            @tf.function(jit_compile=True)
            def step() -> None:
                large.assign_add(tf.ones_like(large))  # this line

            _run(step)
        return cache.executables()[0]

    executable = use()
    gc.collect()
    assert tf.config.experimental.get_memory_info("CPU:0")["current"] - before < 1 << 20
    assert "this line" in _line(
        next(op for op in executable.ops if op.type == "AssignAddVariableOp")
    )
    assert executable.plan.timeline.seconds > 0
    assert cache.executables() == [executable]
    # For the fixture: what is held here is none of the programs that stay.
    del executable


def _line(op: Any) -> str:
    with open(op.source.file, encoding="utf-8") as file:
        return file.readlines()[op.source.line - 1]


def test_a_profile_keeps_the_programs_of_its_block() -> None:
    with profiler.profile() as profiled:
        _run(_adder(1.0), X)
        gc.collect()
    (report,) = profiled.reports
    assert report.executions.launches == 1
    assert "test_cache.py" in str(report)


def test_events_name_a_program_that_is_gone() -> None:
    config = IPUConfig()
    config._profiling.enable_ipu_events = True
    config.configure_ipu_system()

    def use() -> tuple[bytes, list[weakref.ref[Any]]]:
        add = _adder(1.0)
        _run(add, X)
        compiled = next(event for event in _events() if event.type == IpuTraceEvent.COMPILE_END)
        _run(add, X)
        return compiled.compile_end.module_name, _references()

    name, references = use()
    assert _alive(references) == []
    read = {event.type: event for event in _events()}
    assert read[IpuTraceEvent.EXECUTE].execute.module_name == name
    transfer = json.loads(read[IpuTraceEvent.HOST_TO_DEVICE_TRANSFER].data_transfer.data_transfer)
    assert transfer["total_size"] == X.nbytes


def _events() -> list[IpuTraceEvent]:
    return events.extract_all_events(events.STORE.drain())


def test_new_configuration_unloads_runnable_programs() -> None:
    add = _adder(1.0)
    _run(add, X)
    system.reset_ipu_configuration()
    assert cache.executables() == []
    assert native.counts().programs == 0
    np.testing.assert_array_equal(_run(add, X), X + 1)
    assert native.counts().programs == len(cache.executables()) == 1
