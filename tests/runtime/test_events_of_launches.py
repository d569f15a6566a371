"""Tests of the trace events that real launches leave."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import config, ipu_compiler, loops, scopes, utils
from tensorflow_ipu.configs.proto.trace_pb2 import IpuTraceEvent
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ops import summary_ops
from tensorflow_ipu.ops.raw import gen_ipu_ops

tf1 = tf.compat.v1
X = np.ones(3, np.float32)
BEGIN, END, TO_DEVICE, TO_HOST, LOAD, EXECUTE = range(6)


def _configure(events: bool = True) -> None:
    cfg = config.IPUConfig()
    cfg.auto_select_ipus = 1
    cfg._profiling.enable_ipu_events = events
    cfg.configure_ipu_system()


def _program(scale: float, x: tf.Tensor) -> tf.Operation:
    def computation(x):
        with tf1.variable_scope("net", reuse=tf1.AUTO_REUSE):
            w = tf1.get_variable("w", [3], initializer=tf1.ones_initializer())
        return tf.exp(x) * w * scale

    with scopes.ipu_scope("/device:IPU:0"):
        return ipu_compiler.compile(computation, [x])


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf1.Session() as made:
        yield made


def _drain(session: tf1.Session, op: tf.Tensor) -> list[IpuTraceEvent]:
    return utils.extract_all_events(session.run(op))


def test_first_and_second_run(session):
    _configure()
    x = tf1.placeholder(tf.float32, [3])
    program, read = _program(2.0, x), gen_ipu_ops.ipu_event_trace()
    session.run(tf1.global_variables_initializer())
    session.run(read)
    session.run(program, {x: X})
    first = _drain(session, read)
    assert [event.type for event in first] == [BEGIN, END, LOAD, TO_DEVICE, EXECUTE, TO_HOST]
    names = {
        first[0].compile_begin.module_name,
        first[1].compile_end.module_name,
        first[2].load_engine.module_name,
        first[4].execute.module_name,
    }
    (name,) = names
    assert name.startswith(b"cluster")
    moved = json.loads(first[3].data_transfer.data_transfer)
    assert sorted(tensor["size"] for tensor in moved["tensors"]) == [12, 12]
    session.run(program, {x: X})
    assert [event.type for event in _drain(session, read)] == [TO_DEVICE, EXECUTE, TO_HOST]
    assert _drain(session, read) == []


def test_switching_between_programs_loads_each_time(session):
    _configure()
    x = tf1.placeholder(tf.float32, [3])
    first, second = _program(2.0, x), _program(3.0, x)
    read = gen_ipu_ops.ipu_event_trace()
    session.run(tf1.global_variables_initializer())
    for program in (first, second):
        session.run(program, {x: X})
    session.run(read)
    session.run(first, {x: X})
    events = _drain(session, read)
    assert [event.type for event in events] == [TO_HOST, LOAD, TO_DEVICE, EXECUTE, TO_HOST]


def test_programs_of_the_host_leave_none(session):
    _configure()
    x = tf1.placeholder(tf.float32, [])
    with scopes.ipu_scope("/device:IPU:0"):
        program = ipu_compiler.compile(lambda x: x * 2.0 + 1.0, [x])
    assert session.run(program, {x: 3.0}) == [7.0]
    assert _drain(session, gen_ipu_ops.ipu_event_trace()) == []


def test_without_being_asked_for_none_are_kept(session):
    _configure(events=False)
    x = tf1.placeholder(tf.float32, [3])
    program = _program(2.0, x)
    session.run(tf1.global_variables_initializer())
    session.run(program, {x: X})
    assert _drain(session, gen_ipu_ops.ipu_event_trace()) == []


def test_summary_holds_events_of_what_it_depends_on(session):
    _configure()
    x = tf1.placeholder(tf.float32, [3])
    program = _program(2.0, x)
    summary = summary_ops.ipu_compile_summary("report", program)
    session.run(tf1.global_variables_initializer())
    text = session.run(summary, {x: X})
    parsed = tf1.Summary.FromString(text)
    assert parsed.value[0].metadata.plugin_data.plugin_name == "ipu"
    events = utils.extract_all_events(tf.make_ndarray(parsed.value[0].tensor))
    assert EXECUTE in [event.type for event in events]


def test_launches_of_several_threads_take_turns():
    _configure(events=False)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        total = tf.Variable(0.0)

        @tf.function(jit_compile=True)
        def add():
            loops.repeat(10, lambda: total.assign_add(1.0, read_value=False))

        strategy.run(add)
        threads = [
            threading.Thread(target=lambda: [strategy.run(add) for _ in range(5)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert total.numpy() == 10 * 21
